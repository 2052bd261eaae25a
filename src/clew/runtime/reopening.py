"""Before the agent of a reopened run: what its first append says, which probes are asked, what follows from them."""

from collections.abc import Iterator

from clew.core.calls import CallState
from clew.core.canon import fingerprint
from clew.core.capability import Capability
from clew.core.compose import Close, Move, Saying
from clew.core.delegation import UNDER_WAY, DelegationState, orphaned, unjoined
from clew.core.outcome import Outcome
from clew.core.records import Draft
from clew.core.resume import ResumePlan
from clew.core.state import RunState
from clew.runtime.drivers import Walking
from clew.runtime.gate import Gate
from clew.runtime.recovery import fail_sayings, unfinished_business
from clew.runtime.tickets import Ticket, facts_of, recorded_walk
from clew.runtime.tools import Tool

CRASHES = 3
_FROM_OUTSIDE = ("interrupted", "terminated", "aborted")


def reopening(state: RunState, plan: ResumePlan | None) -> list[Saying]:
    """What follows a `resume` record in the same append.

    A run that is waiting is paused; one with probes to ask stays paused until they have answered.
    """
    orphans = [Draft("delegation", orphaned(state.run_id, child)) for child in _under_way(state)]
    business = unfinished_business(state)
    if business:
        return [*orphans, *business]
    return [] if plan is None else [*orphans, *_by_plan(state, plan)]


def _under_way(state: RunState) -> list[DelegationState]:
    """Children that were not known to have stopped; a run that has ended takes no more facts of them."""
    return [child for child in state.delegations.values() if child.status in UNDER_WAY and not state.ended]


def _by_plan(state: RunState, plan: ResumePlan) -> list[Saying]:
    if plan.given_up:
        return fail_sayings("effect_given_up")
    interrupted: list[Saying] = []
    reason = blocked_reason(state, plan)
    if state.state == "running":
        interrupted = [Move("PAUSE", reason or "process_interrupted")]
    if reason:
        return [*interrupted, Close("pause", _waiting(reason, plan))]
    return interrupted if plan.probes else [*interrupted, Move("RESUME")]


def blocked_reason(state: RunState, plan: ResumePlan) -> str:
    """Why the agent may not be called now, empty when it may (or when a probe may still tell)."""
    if _crash_loop(state):
        return "crash_loop"
    if plan.blocked and not plan.probes:
        step = plan.blocked[0]
        return "unknown_effect" if step.reason == "tool_missing" else step.reason
    return ""


def _waiting(reason: str, plan: ResumePlan) -> Outcome:
    """The outcome of a leg that only waits; which processes it waits for is told."""
    alive = [f"{step.step_id}: {step.detail}" for step in plan.blocked if step.reason == reason == "process_alive"]
    return Outcome("paused", reason, {"code": reason, "message": "; ".join(alive)} if alive else None)


def _crash_loop(state: RunState) -> bool:
    """Did the last legs all die without a new answer?"""
    last = state.legs[-CRASHES:]
    if unjoined(state.delegations):
        # What a child comes to is told by its own journal, which has this rule too.
        return False
    return len(last) == CRASHES and all(not leg.closed and leg.answers == state.answers for leg in last)


def rechecks(gate: Gate, plan: ResumePlan | None) -> Iterator[tuple[Ticket, Walking]]:
    """A walk for each open attempt that a probe can be asked after with the recorded arguments."""
    state = gate.journal.state
    for step in plan.probes if plan is not None else ():
        if gate.closing is not None and gate.closing.reason in _FROM_OUTSIDE:
            return
        call = state.calls.get(step.step_id)
        asked = None if call is None else _recheck(gate, call)
        if asked is not None:
            yield asked


def _recheck(gate: Gate, call: CallState) -> tuple[Ticket, Walking] | None:
    """The walk that asks after a call; None when the arguments that its probe would be given are not the true ones."""
    tool = gate.tools.get(call.tool) or Tool(_not_offered, name=call.tool)
    capability: Capability = call.capability or tool.capability
    facts = facts_of(gate.journal.state.run_id, call, capability)
    arguments = gate.store.record_at(gate.journal.state.run_id, call.position).payload["event"].get("args")
    if tool.probe is not None and fingerprint(arguments) != call.fingerprint:
        return None
    ticket = Ticket(tool, facts, {}, arguments)
    return ticket, recorded_walk(tool, facts, call, doubt_ms=call.started_ms).recheck()


def _not_offered() -> None:
    """Stands for a tool that the agent has no more: the files of its call can be asked all the same."""


def after_probes(gate: Gate, plan: ResumePlan | None) -> list[Saying]:
    """What follows when every probe has been asked: the agent is called, or the run stays paused."""
    return gate.timed(_after_probes(gate, plan))


def _after_probes(gate: Gate, plan: ResumePlan | None) -> list[Saying]:
    if plan is None or not plan.probes or gate.journal.state.state != "paused":
        return []
    if gate.given_up:
        return fail_sayings("effect_given_up")
    if gate.closing is not None:
        error = {"code": gate.closing.reason, "message": gate.closing.detail}
        return [Close("pause", Outcome("paused", gate.closing.reason, error))]
    if plan.blocked:
        return [Close("pause", _waiting(plan.blocked[0].reason, plan))]
    return [Move("RESUME")]
