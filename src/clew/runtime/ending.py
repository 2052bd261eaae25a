"""How a leg ends: completed, paused or failed, and what is said of it. Decides on facts; the drivers append."""

from collections.abc import Generator
from contextlib import suppress
from typing import Any, Final

import msgspec

from clew.core import events
from clew.core.answers import json_text
from clew.core.approvals import approval_row, pause_reason, unused
from clew.core.approvals import waiting as waiting_approvals
from clew.core.calls import CallState
from clew.core.compose import Close, Move, Saying
from clew.core.delegation import unjoined, waited_for
from clew.core.effect import settle_happened
from clew.core.jsonable import record_result
from clew.core.needs import Need, Returned
from clew.core.outcome import PERSON_REASONS, Outcome, effect_row, outcome_now
from clew.core.review import Happened
from clew.core.state import RunState
from clew.core.times import format_ms, parse_ms
from clew.errors import ClewError, Stop, Storage
from clew.runtime.gate import Gate
from clew.runtime.journal import Journal
from clew.runtime.pool import NoThread
from clew.runtime.recovery import fail_sayings, unspoken
from clew.runtime.stilling import bodies_of, outlast, still

HURRY: Final = 2
"""Who presses Ctrl-C once more does not want to wait either."""


class Ended(msgspec.Struct, frozen=True):
    """How the agent's body ended: what it returned or raised, or that it was left behind."""

    output: Any = None
    fault: BaseException | None = None
    left_behind: bool = False


class Policy(msgspec.Struct, frozen=True):
    """What the user wants of a run that cannot go on by itself: `pause` or `fail`."""

    on_error: str = "pause"
    on_limit: str = "pause"


def end_sayings(gate: Gate, ended: Ended, policy: Policy) -> list[Saying]:
    """The leg's last append.

    Source:
        DESIGN §6; promise 8.
    """
    said = _end_of(gate, ended, policy)
    # Behind a finish its journal takes no more commands: who was promised one hears that it came to nothing.
    finishes = isinstance(said[-1], Close) and said[-1].kind == "finish"
    return gate.timed([*unspoken(gate.journal.state), *said] if finishes else said)


def _end_of(gate: Gate, ended: Ended, policy: Policy) -> list[Saying]:
    if gate.given_up:
        return fail_sayings("effect_given_up")
    unsettled = gate.journal.state.unsettled()
    if gate.aborting:
        begin: list[Saying] = [] if gate.journal.state.state == "aborting" else [Move("REQUEST_ABORT", gate.aborting)]
        return [*begin, *fail_sayings("aborted", gate.left_over | gate.outliving)]
    if gate.closing is None and _returned(ended) and not unsettled and not unjoined(gate.journal.state.delegations):
        output = gate.redactor.answer(record_result(ended.output))
        told = [*gate.approvals.stale(ended=True), events.agent_end(output)]
        return [*told, Move("COMPLETE"), Close("finish", Outcome("succeeded", "completed"))]
    reason, detail = _why(gate, ended, unsettled)
    return _stopped(gate, reason, detail, policy)


def end_family(gate: Gate) -> None:
    """Before an aborted run ends: its children that stand still are ended as well, or named. Blocking."""
    if gate.aborting and gate.fault is None and gate.nursery is not None:
        gate.outliving |= gate.nursery.end_all()


def _returned(ended: Ended) -> bool:
    return ended.fault is None and not ended.left_behind


def _why(gate: Gate, ended: Ended, unsettled: list[CallState]) -> tuple[str, str]:
    """Why it does not complete: an open effect before all else, then what closed the gate, then the agent."""
    closing = gate.closing
    if unsettled and (closing is None or closing.reason not in PERSON_REASONS):
        open_call = unsettled[0]
        return "unknown_effect", f"{open_call.key} attempt {open_call.attempt} is {open_call.status}"
    if closing is not None:
        return pause_reason(gate.journal.state, closing.reason), closing.detail
    fault = ended.fault
    apart = unjoined(gate.journal.state.delegations) if fault is None and not ended.left_behind else ()
    if apart:
        return "child_paused", f"the agent returned without child {apart[0].child_id}, which is {apart[0].status}"
    if isinstance(fault, KeyboardInterrupt):
        return "interrupted", ""
    if fault is None or isinstance(fault, Stop):
        return "pause_requested", ""
    return "agent_error", gate.redactor.text(f"{type(fault).__name__}: {fault}")[:2000]


def _stopped(gate: Gate, reason: str, detail: str, policy: Policy) -> list[Saying]:
    limit = gate.limit if gate.limit is not None and gate.limit.code == reason else None
    message = limit.message if limit is not None else detail
    fails = (reason == "agent_error" and policy.on_error == "fail") or (limit is not None and policy.on_limit == "fail")
    said = gate.approvals.stale(ended=False)
    if message:
        said.append(events.error(message, fatal=fails, budget=None if limit is None else limit.as_json()))
    waited = waited_for(gate.journal.state.delegations) if reason == "child_paused" else None
    code = reason if waited is None else str(waited.get("reason"))
    error = {"code": code, "message": message} if message else None
    if fails:
        return [*said, Move("FAIL", reason), Close("finish", Outcome("failed", reason, error))]
    return [*said, Move("PAUSE", reason), Close("pause", Outcome("paused", reason, error))]


def late_returns(gate: Gate) -> Generator[Need, Any, None]:
    """Bodies that were left behind and returned after all: that is known now, and recorded as the tool's own review."""
    while gate.late:
        ticket, attempt, outcome = gate.late.pop(0)
        call = gate.journal.state.calls.get(ticket.facts.step_id)
        if call is None or call.attempt != attempt or not call.open or not isinstance(outcome, Returned):
            continue
        if gate.is_cut_off(call.key, attempt):
            continue
        reason = "the tool returned after its time was up"
        verdict = Happened(outcome.value, reason) if outcome.failed is None else Happened(reason=reason)
        evidence = [{"kind": "late_return", "at": format_ms(gate.journal.clock.now_ms())}]
        yield from settle_happened(
            ticket.facts,
            attempt,
            verdict,
            by=ticket.facts.tool,
            evidence=evidence,
            source="tool",
            secret=ticket.tool.secret,
        )


def still_gate(gate: Gate) -> None:
    """End what the run still does, wait for what cannot be ended, and note what is left. Blocks some seconds."""

    def goes_on() -> bool:
        return bool(gate.flights.count or bodies_of(gate.journal.state.run_id))

    def wait() -> None:
        outlast(goes_on, gate.journal.clock, lambda: gate.interrupts > HURRY)

    cut_off(gate)
    gate.left_over = still(gate.processes, gate.journal.state, gate.redactor, wait)


def end_amid(gate: Gate) -> None:
    """End the run's processes while its agent takes its leave, which may wait for one of them. Blocks some seconds."""
    cut_off(gate)
    still(gate.processes, gate.journal.state)


def cut_off(gate: Gate) -> None:
    """Note whose processes are about to be ended: a body that returns then says nothing of what they had done."""
    gate.cut_off.update(gate.processes.living(gate.journal.state.run_id))


def broken(gate: Gate) -> Storage:
    """The error of a leg whose journal failed: what ended but could not be recorded stands in its facts."""
    fault = gate.fault
    if isinstance(fault, Storage) and not gate.unrecorded:
        return fault
    ended = ", ".join(gate.unrecorded) or "nothing"
    return Storage(
        f"the journal of run {gate.journal.state.run_id!r} failed ({fault}); ended but not recorded: {ended}",
        code=fault.code if isinstance(fault, Storage) else "run_state_failed",
        next=f"Mend the storage, then look with `clew show {gate.journal.state.run_id}` what to do about each.",
        run=gate.journal.state.run_id,
        unrecorded=gate.unrecorded,
    )


def unthreaded(gate: Gate, fault: NoThread) -> Storage:
    """The error of a leg for which the machine gave no thread: its agent was not called."""
    run_id = gate.journal.state.run_id
    return Storage(
        f"run {run_id!r} cannot be lived: {fault}",
        code="no_thread",
        next=f"End other processes, or raise the limit of this user or container; then `clew resume {run_id}`.",
        run=run_id,
    )


def publish(journal: Journal) -> None:
    """Publish how far the journal is. What cannot be written is left: an older head is still a true lower bound."""
    with suppress(ClewError):
        journal.publish_head(row(journal.state))


def row(state: RunState) -> dict[str, Any]:
    """The line that lists show of a run, as it stands now."""
    # First what nothing but a person or a probe can settle: that is what the reader is to act on.
    waiting = sorted(map(effect_row_of, state.unsettled()), key=lambda effect: effect["repeatable"])
    return {
        **(_stand(state) if state.own else _as_they_say(state)),
        "agent": state.start.get("configName", ""),
        "input": _short(state.input),
        "startedAt": state.started_at,
        "updatedAt": state.last_time,
        "calls": len(state.calls),
        "waiting": waiting[:3],
        "waitingCount": len(waiting),
        **_approvals(state),
        "leg": state.leg.owner if state.leg is not None else None,
        "legClosed": state.unclosed_leg is None,
        **_kin(state),
        **_restoring(state),
        **_lost(state),
    }


def _restoring(state: RunState) -> dict[str, Any]:
    """The restore that was cut off, which must be gone on with before the run does; nothing when none was."""
    begun = state.restores.begun
    if begun is None:
        return {}
    told = {"restoreId": begun.restore_id, "checkpointId": begun.checkpoint_id, "later": bool(begun.through)}
    return {"restoring": told}


def _lost(state: RunState) -> dict[str, Any]:
    """Where it is paused for a secret answer: the calls that want one still. While their process lives, none does."""
    if state.state != "paused" or outcome_now(state).finish_reason != "secret_answer_lost":
        return {}
    calls = [call for call in state.unanswered() if call.persistence == "withheld" and call.settled_by is None]
    return {"lost": [call.step_id for call in calls]}


def _kin(state: RunState) -> dict[str, Any]:
    """Whose child it is, and which child it waits for; nothing of a run that stands alone."""
    parent, waited = state.start.get("parent"), waited_for(state.delegations)
    of = {"parent": str(parent.get("runId"))} if state.own and type(parent) is dict else {}
    return of if waited is None or state.state != "paused" else of | {"child": waited}


def _approvals(state: RunState) -> dict[str, Any]:
    """What waits for a yes or a no, then what was allowed and did not start; left out where there is nothing."""
    asked, at_ms = waiting_approvals(state), parse_ms(state.last_time) or 0
    allowed = [each for each in unused(state, at_ms) if each not in asked]
    rows = [{**approval_row(each, at_ms), "position": each.position} for each in (asked + allowed)[:3]]
    return {"approvals": rows, "wanted": len(asked), "allowed": len(allowed)} if rows else {}


def _stand(state: RunState) -> dict[str, Any]:
    closed = state.finish or state.pause
    outcome = closed.get("outcome", {}) if closed is not None else {}
    if closed is None and state.state == "paused" and state.operation is not None:
        # A death took the record behind the move: that much is known of why it waits.
        outcome = {"finishReason": state.operation.reason or ""}
    return {
        "state": state.state,
        "reason": outcome.get("finishReason", ""),
        "message": (outcome.get("error") or {}).get("message", ""),
        **({"pausedAt": state.paused_at} if state.state == "paused" else {}),
    }


def _as_they_say(state: RunState) -> dict[str, Any]:
    """How a run of another program stands, in that program's words (`foreign`), empty where it said nothing."""
    moved = state.state if state.operation is not None else ""
    closed = state.finish if state.finish is not None else state.pause if moved in ("", "paused") else None
    told = "finished" if state.finish is not None else moved or ("paused" if closed is not None else "")
    said = (closed or {}).get("outcome", closed)
    reason = said.get("finishReason", said.get("status", "")) if type(said) is dict else ""
    return {"state": moved or "unknown", "reason": str(reason), "message": "", "foreign": told}


def effect_row_of(call: CallState) -> dict[str, Any]:
    """An effect's row, with the place where its arguments stand."""
    return {**effect_row(call), "position": call.position}


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json_text(value) if value is not None else ""
    return text if len(text) <= 80 else text[:79] + "…"
