"""What `clew approve` and `clew deny` do, and the question at the terminal while a run goes on. No pipe implies yes."""

import select
import sys
from typing import Any, Final, TextIO

from cyclopts import Parameter

from clew.cli.desk import Desk, login
from clew.cli.screen import Options
from clew.core.approvals import Approve, Judgement, Reject, approval_row
from clew.core.ids import split_key
from clew.runtime.approvals import ApprovalRequest
from clew.runtime.approving import pick_approval
from clew.runtime.home import Home
from clew.views.approvals import question_lines, stands
from clew.views.plain import When

DEFAULTS: Final = Options()
Switch = Parameter(negative="", show_default=False)
LOOK_S: Final = 0.2
YES: Final = frozenset({"y", "yes"})
NO: Final = frozenset({"n", "no"})


def decide(desk: Desk, run: str, call: str | None, said: Judgement) -> int:
    """Record a person's yes or no to one start; the question is shown first."""
    home = desk.home("operator").require()
    if ":" in run:
        run, call = split_key(run)[0], run
    run_id = home.find(run)
    # By its id from here on: until a living writer reads it, another question may be the only one.
    shown = _show_question(desk, home, run_id, call)
    with desk.proof_of(home, run_id):
        if isinstance(said, Approve):
            done = home.approve(run_id, by=said.by, reason=said.reason, call=shown, expires_in_s=said.expires_in_s)
        else:
            done = home.deny(run_id, by=said.by, reason=said.reason, call=shown, as_answer=said.as_answer)
    if desk.options.json:
        desk.screen.answer_json(done)
    else:
        desk.screen.answer(f"{done['stepId']} {done['tool']}: {stands(done, desk.when(home))}")
        desk.screen.tell(*desk.block(home, run_id))
    return 0


def _show_question(desk: Desk, home: Home, run_id: str, name: str | None) -> str:
    """What is wanted, before it is decided. Returns the approval's id."""
    reader = home.reader
    asked = pick_approval(reader.see(run_id).state, name, reader.clock.now_ms())
    event = reader.store.record_at(run_id, asked.position).payload["event"]
    told = approval_row(asked, reader.clock.now_ms()) | {"arguments": event["args"], "effect": event["effect"]}
    desk.screen.tell(*question_lines(told, desk.when(home)))
    return asked.approval_id


class Terminal:
    """Whoever sits at the terminal, as an approver. A line that is no clear yes or no leaves the question waiting."""

    def __init__(self, desk: Desk, by: str, when: When) -> None:
        self._desk = desk
        self._by = by
        self._when = when

    def __call__(self, request: ApprovalRequest) -> Judgement | None:
        """Ask, and take the answer in."""
        screen = self._desk.screen
        screen.tell(*question_lines(_told(request), self._when), "start it? yes or no; anything else lets it wait")
        said = _line(sys.stdin, request).strip().lower()
        if said in YES:
            return Approve(self._by, "said yes at the terminal")
        if said in NO:
            return Reject(self._by, "said no at the terminal")
        screen.tell(f"{request.step_id} waits")
        return None


def terminal(desk: Desk, home: Home) -> Terminal | None:
    """Who can be asked now: a person at a terminal, unless nothing may be asked or the answer is for a program."""
    options = desk.options
    if options.no_input or options.json or options.quiet or not _is_terminal(sys.stdin):
        return None
    return Terminal(desk, login(home), desk.when(home))


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _told(request: ApprovalRequest) -> dict[str, Any]:
    return {
        "approvalId": request.approval_id,
        "stepId": request.step_id,
        "tool": request.tool,
        "arguments": dict(request.arguments),
        "idempotencyKey": request.key,
        "risk": request.risk,
        "effect": request.effect,
        "why": request.why,
        "expiresAt": request.expires_at,
    }


def _line(stream: TextIO, request: ApprovalRequest) -> str:
    """The next line; empty at the end of input, or when the answer is of no use any more."""
    if sys.platform == "win32":
        return stream.readline()
    while not request.over():
        if select.select([stream], [], [], LOOK_S)[0]:
            return stream.readline()
    return ""
