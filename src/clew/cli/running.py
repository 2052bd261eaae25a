"""`clew run` and `clew resume`: let a run go, tell how it goes, and end with its state."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from clew.cli.approving import terminal
from clew.cli.desk import Desk, proof_of_leg
from clew.cli.limits import NO_LIMITS, Limits
from clew.cli.loading import load_agent, load_recorded
from clew.cli.screen import others_to_stderr
from clew.core.answers import json_text
from clew.core.budget import LIMIT_OF, RunBudget
from clew.core.records import Record
from clew.core.resume import check_ours
from clew.core.snapshot import RunResult
from clew.errors import ClewError, UsageError
from clew.runtime.home import Home
from clew.runtime.opening import recorded_budget
from clew.runtime.reviewing import Said
from clew.runtime.tools import Agent
from clew.views.advice import plan_lines
from clew.views.plain import When
from clew.views.timeline import line_of, log_lines, progress_line


@dataclass(frozen=True)
class Terms:
    """Under which limits, and what happens at them or when the agent raises."""

    max_calls: int | None = None
    timeout_s: float | None = None
    on_error: str = "pause"
    on_limit: str = "pause"
    more: Limits = NO_LIMITS

    def budget(self, recorded: RunBudget) -> RunBudget:
        """The recorded limits, with what was said now in their place."""
        said = self.said()
        return msgspec.structs.replace(recorded, **{name: value for name, value in said.items() if value is not None})

    def said(self) -> dict[str, Any]:
        """Each limit by its name in the library, None where nothing was said."""
        return {"max_calls": self.max_calls, "run_timeout_s": self.timeout_s, **self.more.said()}

    def renews(self, reason: str, dimension: str) -> bool:
        """Is what was said now of use to a run that paused for this reason, at the limit of this?"""
        said = self.said()
        if reason == "budget_not_enforceable":
            return self.more.on_unmeasured == "continue"
        return said[LIMIT_OF.get(dimension, "run_timeout_s" if reason == "run_timeout" else "max_calls")] is not None


class Progress:
    """Tells of a run's records while they come."""

    def __init__(self, desk: Desk, when: When) -> None:
        self._desk = desk
        self._when = when
        self.told = False

    def __call__(self, record: Record) -> None:
        """One more record is durable."""
        screen = self._desk.screen
        if record.kind == "start":
            screen.tell_run(record.run_id)
        line = line_of(record)
        if self._desk.options.verbose:
            screen.tell(*log_lines(line, self._when))
        elif record.kind == "resume":
            screen.tell(f"run {record.run_id}", *proof_of_leg(record))
        elif line.main and record.kind != "start":
            screen.tell(progress_line(line, self._when))
        self.told = True


def run(
    desk: Desk, target: str, prompt: str | None, run_id: str | None, terms: Terms, session: str | None = None
) -> int:
    """Start a run and see it to its end, its pause or its failure."""
    budget = terms.budget(RunBudget())
    home = desk.home()
    with others_to_stderr():
        agent = load_agent(target)
        with home.processes.adopting():
            result = home.run_sync(
                agent, prompt, run_id=run_id, budget=budget, on_error=terms.on_error, on_limit=terms.on_limit,
                notice=desk.screen.notice, on_record=Progress(desk, desk.when(home)), approver=terminal(desk, home),
                session=session,
            )  # fmt: skip
    return conclude(desk, home, result)


def resume(desk: Desk, run: str, target: str | None, terms: Terms, accept: Said | None, *, dry_run: bool) -> int:
    """Let a stopped run go on by its plan, or only show the plan."""
    home = desk.home("operator").require()
    run_id = home.find(run)
    state = home.reader.see(run_id).state
    if state.finish is not None:
        home.plan(run_id)
    check_ours(state)
    recorded = str(state.start.get("agentPath", ""))
    with others_to_stderr():
        base = home.path.absolute().parent
        agent = load_agent(target) if target else load_recorded(recorded, base, run_id)
    if dry_run:
        return _show_plan(desk, home, run_id, agent)
    return conclude(desk, home, go_on(desk, home, run_id, agent, terms, accept, asks=True))


def go_on(
    desk: Desk, home: Home, run_id: str, agent: Agent, terms: Terms, accept: Said | None = None,
    *, notice: Callable[[str], None] | None = None, asks: bool = False,
) -> RunResult:  # fmt: skip
    """Resume one run and tell how it goes, its takeover included. `notice` is told of a signal, the screen if None.

    `asks`: who sits at the terminal is asked for approvals.
    """
    state = home.reader.see(run_id).state
    progress = Progress(desk, desk.when(home))
    with others_to_stderr(), home.processes.adopting():
        result = home.resume_sync(
            run_id, agent, budget=terms.budget(recorded_budget(state)), accept_config=accept,
            on_error=terms.on_error, on_limit=terms.on_limit, notice=notice or desk.screen.notice, on_record=progress,
            approver=terminal(desk, home) if asks else None,
        )  # fmt: skip
    if not progress.told:
        desk.tell_proof(home, run_id, state.sequence)
    return result


def _show_plan(desk: Desk, home: Home, run_id: str, agent: object) -> int:
    plan = home.plan(run_id, agent)
    if desk.options.json:
        desk.screen.answer_json(plan)
    elif plan is None:
        desk.screen.answer("only its end has to be written; the agent is not called")
    else:
        desk.screen.answer_lines(plan_lines(msgspec.to_builtins(plan)))
    # Whether it may go on at all, and what to type where the plan waits for a person.
    desk.screen.tell(*desk.block(home, run_id))
    return 0


def conclude(desk: Desk, home: Home, result: RunResult) -> int:
    """Hand over what the run has come to: its output on stdout, how it stands on stderr."""
    screen = desk.screen
    if result.fault is not None and result.reason == "agent_error":
        screen.tell_traceback(result.fault)
    if desk.options.json:
        screen.answer_json(told_of(result, str(home.reader.row(result.run_id).get("message", ""))))
    else:
        screen.tell(*desk.block(home, result.run_id))
        if isinstance(result.fault, ClewError) and result.reason == "agent_error":
            screen.tell(f"  hint: {result.fault.next} [{result.fault.code}]")
        if result.retry_in_s is not None and result.operation.state == "paused":
            screen.tell(f"  the probe wants to be asked again in {result.retry_in_s:.0f} s")
        if result.output is not None:
            screen.answer(result.output if isinstance(result.output, str) else json_text(result.output))
    return result.exit_code


def told_of(result: RunResult, message: str) -> dict[str, object]:
    """What `--json` says of a leg that has ended."""
    fault = result.fault
    return {
        "runId": result.run_id,
        "state": result.operation.state,
        "reason": result.reason,
        "message": message,
        "exit": result.exit_code,
        "output": result.output,
        "waiting": result.waiting,
        **(fault.as_json() if isinstance(fault, ClewError) and result.reason == "agent_error" else {}),
    }


def accepted(accept: bool, by: str | None, reason: str | None) -> Said | None:
    """Who accepts a changed configuration, and why.

    Raises:
        UsageError: `acceptance_incomplete` when it is said by nobody or without a reason, or nothing is accepted.
    """
    if not accept and by is None and reason is None:
        return None
    if not accept or not (by or "").strip() or not (reason or "").strip():
        raise UsageError(
            "--accept-config, --by and --reason go together",
            code="acceptance_incomplete",
            next="Say all three: --accept-config --by NAME --reason TEXT.",
        )
    return Said(by or "", reason or "")
