"""`clew resume --all`: every run that can go on, one after another, each as if it had been typed by itself."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from clew.cli.desk import Desk
from clew.cli.loading import apart, load_recorded
from clew.cli.running import Terms, go_on, told_of
from clew.cli.screen import others_to_stderr
from clew.core.resume import ResumePlan
from clew.errors import ClewError, UsageError
from clew.runtime.control import ON_TERMINATE
from clew.runtime.home import Home
from clew.runtime.tools import Agent
from clew.views.advice import STATES, is_paused, plan_lines, reason_text
from clew.views.measures import limit_reached
from clew.views.plain import count_text, one_line

WORST: Final = (1, 13, 12, 11, 10, 4, 2, 3, 22, 21, 20, 23, 5, 0)
"""Which exit code stands for all: what went wrong before how runs stand, the more lasting first."""
INTERRUPTED, TERMINATED = STOPPED = (130, 143)

_OVER: Final = ("completed", "failed")
_LIMITS: Final = ("budget_exceeded", "run_timeout", "budget_not_enforceable")

Told = dict[str, Any]


def require_one_or_all(run: str | None, *, every: bool, alone: bool) -> None:
    """Either one run, or all of them and then nothing that is meant for one.

    Raises:
        UsageError: `which_run`.
    """
    if every and not alone:
        raise UsageError(
            "--all stands alone: a run, --agent and --accept-config are for one run",
            code="which_run",
            next="Leave them out, or resume that run by itself.",
        )
    if not every and run is None:
        raise UsageError("no run is named", code="which_run", next="Say `clew resume RUN`, or `clew resume --all`.")


def resume_all(desk: Desk, terms: Terms, *, dry_run: bool) -> int:
    """Resume what can go on, name what cannot; the exit code is the worst of all."""
    home = desk.home("operator").require()
    rows = [row for row in reversed(list(home.runs())) if row["shown"] not in _OVER]
    told: list[Told] = []
    signals = Signals(desk)
    tried = {str(row["runId"]) for row in rows}
    for row in rows:
        if row.get("parent") in tried:
            told.append(_skipped(row, f"its parent {row['parent']} takes it along"))
        elif signals.heard:
            told.append(_skipped(row, "its turn did not come"))
        else:
            told.append(_one(desk, home, row, terms, signals, dry_run=dry_run))
        one = told[-1]
        if not desk.options.json:
            desk.screen.answer_lines(_lines(one))
    if desk.options.json:
        desk.screen.answer_json(told)
    counts = Counter(one["did"] for one in told)
    said = ", ".join(f"{counts[did]} {did}" for did in ("resumed", "planned", "skipped", "refused") if counts[did])
    desk.screen.tell(f"{count_text(len(rows), 'run')} not ended: {said}" if said else "no run is left to go on")
    return worst([*signals.heard, *(int(one.get("exit", 0)) for one in told)])


class Signals:
    """Which signals came, as exit codes. After one of them nothing more is begun, however the run at hand ends."""

    def __init__(self, desk: Desk) -> None:
        self.heard: list[int] = []
        self._tell = desk.screen.notice

    def __call__(self, words: str) -> None:
        """A run has taken one; also one that came too late to pause it, or the second, which aborted it."""
        self.heard.append(TERMINATED if words == ON_TERMINATE else INTERRUPTED)
        self._tell(words)


def worst(exits: list[int]) -> int:
    """The exit code that stands for all: an interruption, else the first of `WORST` that is among them."""
    struck = [code for code in exits if code in STOPPED]
    return struck[0] if struck else min(exits, key=WORST.index, default=0)


def _one(desk: Desk, home: Home, row: Told, terms: Terms, signals: Signals, *, dry_run: bool) -> Told:
    run_id = str(row["runId"])
    why = _not_now(row, terms)
    if why:
        return _skipped(row, why)
    try:
        with apart():
            agent = _agent(home, run_id)
            plan = home.plan(run_id, agent)
            if dry_run:
                return {"runId": run_id, "did": "planned", "plan": msgspec.to_builtins(plan)}
            why = _waits(plan)
            if why:
                return _skipped(row, why)
            result = go_on(desk, home, run_id, agent, terms, notice=signals)
    except ClewError as fault:
        return {"runId": run_id, "did": "refused", "exit": fault.exit_code, **fault.as_json()}
    except KeyboardInterrupt:
        # Its agent was being loaded: no run takes signals then. What the others have come to is told all the same.
        signals.heard.append(INTERRUPTED)
        return _skipped(row, "Ctrl-C came before it went on")
    if result.exit_code in STOPPED:
        signals.heard.append(result.exit_code)
    message = str(home.reader.row(run_id).get("message", ""))
    return {"did": "resumed", **told_of(result, message)}


def _agent(home: Home, run_id: str) -> Agent:
    state = home.reader.see(run_id).state
    with others_to_stderr():
        return load_recorded(str(state.start.get("agentPath", "")), home.path.parent, run_id)


def _not_now(row: Mapping[str, Any], terms: Terms) -> str:
    """Why a run is not even tried, in words; empty when it is."""
    shown, reason = row["shown"], str(row.get("reason", ""))
    if not is_paused(row):
        return "" if shown in ("interrupted", "unreadable") else STATES.get(shown, f"it is {shown}")
    if reason == "tool_approval_denied":
        # Asking again right away whoever has just said no is for a person to want.
        return reason_text(reason)
    if reason in _LIMITS and not terms.renews(reason, limit_reached(row)):
        return f"{reason_text(reason)}: it waits for a new one"
    return ""


def _waits(plan: ResumePlan | None) -> str:
    """For whom or what a run waits that a resume would only pause again; empty when it can go on."""
    if plan is None or plan.probes or plan.given_up or not plan.blocked:
        return ""
    first = plan.blocked[0]
    return f"{first.step_id}: {reason_text(first.reason)}"


def _skipped(row: Mapping[str, Any], why: str) -> Told:
    return {"runId": row["runId"], "did": "skipped", "state": row["shown"], "reason": why}


def _lines(one: Told) -> list[str]:
    """What became of one run, for people."""
    head = f"{one['did'].upper():<7}  {one['runId']}"
    if one["did"] == "refused":
        error = one["error"]
        said = f"{head}  {one_line(error['message'], 500)} [{error['code']}]"
        return [said, f"  next: {one_line(error['next'], 500)}"]
    if one["did"] == "planned":
        plan = one["plan"]
        steps = plan_lines(plan) if plan is not None else ["only its end has to be written; the agent is not called"]
        return [head, *(f"  {line}" for line in steps)]
    if one["did"] == "skipped":
        return [f"{head}  {one['state']}: {one_line(str(one['reason']), 300)}", f"  see: clew show {one['runId']}"]
    standing = one["state"] if one["state"] == "completed" else f"{one['state']}: {reason_text(str(one['reason']))}"
    return [f"{head}  {standing}"]
