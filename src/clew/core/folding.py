"""How each record moves a run state: the one door through which facts enter, when read and before they are written."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from clew.core import abort, calls, delegation, foreign, guarding, legs, loops
from clew.core.budget import RunBudget
from clew.core.calls import Illegal
from clew.core.events import KNOWN
from clew.core.happenings import HAPPENINGS
from clew.core.operation import DurableOperation, OperationRecord
from clew.core.records import Record
from clew.core.state import RunState, illegal
from clew.core.times import parse_ms
from clew.core.usualfold import RECORDS, Placed, take_usual
from clew.errors import Corrupt, UsageError

_AFTER_FINISH: Final = frozenset({"leg_ended", "effect_review", "restored"})


def fold(records: Iterable[Placed], run_id: str) -> RunState:
    """The run state of a journal, records in the order of the file, each with its position.

    Raises:
        Corrupt: `run_state_corrupt`, `operation_state_corrupt`, `effect_receipt_conflict` or `review_conflict` at the
            first record that cannot stand where it stands; nothing is sorted, skipped or renumbered.
    """
    state = RunState(run_id)
    for group in _groups(records):
        if not take_usual(state, group):
            for record, position in group:
                take(state, record, position)
    return state


def _groups(records: Iterable[Placed]) -> Iterator[list[Placed]]:
    """Few records at a time, those of a usual append together; what was read before an error comes before it."""
    group: list[Placed] = []
    try:
        for each in records:
            if len(group) == RECORDS or each[0].append == each[0].sequence:
                yield group
                group = [each]
            else:
                group.append(each)
    except Exception:
        yield group
        raise
    yield group


def take(state: RunState, record: Record, position: int) -> None:
    """Move a state by one record. After an error the state is of no use any more.

    Raises:
        Corrupt: as `fold`.
    """
    try:
        sequence, at = record.sequence, record.timestamp
        if sequence != state.sequence + 1 or record.run_id != state.run_id:
            raise Illegal(f"expected record {state.sequence + 1} of run {state.run_id!r}")
        if state.guard:
            guarding.check_next(state, record)
        if not state.amid and state.own:
            _check_place(state, record)
        if at < state.last_time:
            state.clock_stepped = True
        _KINDS.get(record.kind, _ignore)(state, record, position)
    except Illegal as fault:
        raise illegal(state, record, fault) from None
    state.sequence = sequence
    state.last_time = at
    state.chain = record.chain or ""
    state.last_append = record.append or 0


def _check_place(state: RunState, record: Record) -> None:
    """Outside of every leg: is this a place where a record of this kind may stand at all?"""
    kind = record.kind
    if record.sequence == 1 and kind != "start":
        raise Illegal("the journal does not begin with its start")
    if state.finish is not None:
        event = record.payload.get("event")
        followed = kind == "event" and type(event) is dict and event.get("type") in _AFTER_FINISH
        if kind != "resume" and not followed:
            raise Illegal(f"a {kind} record follows the finish")
    if state.legs and state.legs[-1].closed_by and kind != "resume":
        raise Illegal(f"a {kind} record stands outside of every leg")


def _start(state: RunState, record: Record, position: int) -> None:
    payload = record.payload
    if record.sequence != 1:
        raise Illegal("a second start")
    state.start = payload
    _limit(state, payload, ours=False)
    state.started_at = record.timestamp
    state.own = record.chain is not None and "leg" in payload
    if not state.own:
        return
    if type(payload.get("configFingerprint")) is not str or type(payload.get("operationId")) is not str:
        raise Illegal("the start names no configuration or no operation")
    _open_leg(state, payload["leg"], record)


def _resume(state: RunState, record: Record, position: int) -> None:
    if not state.own:
        return
    _open_leg(state, record.payload.get("leg"), record)
    _limit(state, record.payload, ours=True)
    waived = record.payload.get("integrityWaived")
    if type(waived) is dict:
        _waive(state, waived, record)


def _limit(state: RunState, payload: dict[str, Any], *, ours: bool) -> None:
    """The limits of a leg hold until others are recorded; of a resume they must be readable, or none would hold."""
    limits = payload.get("limits")
    if type(limits) is dict:
        state.limits = limits
    if not ours or "limits" not in payload:
        return
    try:
        RunBudget.from_json(msgspec.convert(limits, dict[str, Any]))
    except (UsageError, msgspec.ValidationError) as fault:
        raise Illegal(f"the limits of the resume cannot be read: {fault}") from None


def _waive(state: RunState, waived: dict[str, Any], record: Record) -> None:
    """What a person accepted. After a loss a missing receipt proves nothing: what might have started is in doubt."""
    if waived.get("accepted") == "config" and type(waived.get("configParts")) is dict:
        state.accepted_parts = waived["configParts"]
    if waived.get("accepted") == "loss":
        for call in state.unanswered():
            if call.may_change_the_world:
                state.calls.put(call.step_id, calls.doubted(call, parse_ms(record.timestamp) or 0))


def _open_leg(state: RunState, owner: object, record: Record) -> None:
    leg = legs.read(owner, record.timestamp, state.answers, record.payload.get("sessionSeqStart"))
    if leg is None or leg.number != len(state.legs) + 1:
        raise Illegal(f"leg {len(state.legs) + 1} has no readable owner")
    last = state.unclosed_leg
    if last is not None:
        _count_active(state, state.last_time)
    state.metrics.lose_open()
    state.legs = (*state.legs, leg)
    state.amid = state.finish is None


def close_leg(state: RunState, by: str, at: str, active_ms: int | None = None) -> None:
    """Close the open leg of a journal of ours; `active_ms` is how long it ran where its clock was set meanwhile."""
    leg = state.unclosed_leg
    if leg is None:
        return
    if active_ms is None:
        _count_active(state, at)
    else:
        state.active_ms += active_ms
        state.clock_stepped = True
    state.legs = (*state.legs[:-1], msgspec.structs.replace(leg, closed_by=by, closed_at=at))
    state.amid = False


def _count_active(state: RunState, until: str) -> None:
    """Add the open leg's time to what the run has spent; only legs that run the agent count."""
    leg = state.legs[-1]
    since, to = parse_ms(leg.opened_at), parse_ms(until)
    if leg.purpose in ("run", "resume") and since is not None and to is not None:
        state.active_ms += max(0, to - since)


def _measured(payload: dict[str, Any]) -> int | None:
    """The leg's own measure of its time, recorded where the clock of its records was set."""
    metrics = payload.get("metrics")
    measured = metrics.get("activeMs") if type(metrics) is dict else None
    if measured is None:
        return None
    if type(measured) is not int or measured < 0:
        raise Illegal(f"the leg says that it ran for {measured!r} ms")
    return measured


def _operation(state: RunState, record: Record, position: int) -> None:
    try:
        fact = msgspec.convert(record.payload, OperationRecord)
        operation = (state.operation or DurableOperation(())).read(fact)
    except msgspec.ValidationError as fault:
        raise Illegal(f"not an operation record: {fault}", "operation_state_corrupt") from None
    except Corrupt as fault:
        raise Illegal(fault.message, fault.code) from None
    if fact.run_id != state.run_id or fact.operation_id != state.start.get("operationId", fact.operation_id):
        named = f"operation.runId {fact.run_id!r}, operationId {fact.operation_id!r}"
        raise Illegal(f"the operation is of another run: {named}", "operation_state_corrupt")
    if state.own and operation.state == "completed":
        _check_completed(state)
    state.operation = operation
    state.aborting = fact.to == "aborting"
    if state.own and fact.to != "paused":
        # Not a new leg makes a pause past: one that only decides or puts back leaves the run as it stood.
        state.pause = None


def _check_completed(state: RunState) -> None:
    """Promise 8: completed needs the recorded end of the agent and nothing unsettled."""
    if state.agent_end is None:
        raise Illegal("completed without the recorded end of the agent")
    unsettled = state.unsettled()
    if unsettled:
        raise Illegal(f"completed while {unsettled[0].key!r} is unsettled")
    for child in delegation.unjoined(state.delegations):
        raise Illegal(f"completed while child {child.child_id!r} is {child.status}")


def _pause(state: RunState, record: Record, position: int) -> None:
    if state.own and state.state != "paused":
        raise Illegal(f"a pause while the operation is {state.state}")
    if state.own and record.payload.get("loopSnapshot") != state.loop:
        raise Illegal("the pause says of the loop what no record says")
    state.pause = record.payload
    close_leg(state, "pause", record.timestamp, _measured(record.payload))


def _finish(state: RunState, record: Record, position: int) -> None:
    if state.own and not state.ended:
        raise Illegal(f"a finish while the operation is {state.state}")
    if state.own:
        _check_outcome(state, record.payload)
        _take_refused(state, record.payload.get("metrics"))
    state.finish = record.payload
    close_leg(state, "finish", record.timestamp, _measured(record.payload))


def _take_refused(state: RunState, metrics: object) -> None:
    """How much an abort refused: of what is not in the journal only its finish can tell."""
    refused = metrics.get("rejectedAfterAbort") if type(metrics) is dict else None
    if type(refused) is int and refused > 0:
        state.metrics.rejected_after_abort = refused


def _check_outcome(state: RunState, payload: dict[str, Any]) -> None:
    """Promise 8: what the finish says of the run is what its operation came to; screens show either."""
    outcome = payload.get("outcome")
    status = outcome.get("status") if type(outcome) is dict else None
    if (status == "succeeded") != (state.state == "completed") or status == "paused":
        raise Illegal(f"the finish says {status!r} while the operation is {state.state}")


def _event(state: RunState, record: Record, position: int) -> None:
    envelope = record.payload
    event = envelope.get("event")
    if type(event) is not dict or type(kind := event.get("type")) is not str:
        raise Illegal("the event has no type")
    if not state.own:
        handler = foreign.HAPPENINGS.get(kind)
        if handler is not None:
            handler(state, event, record, position)
        return
    # What ties an event to its run and its place; old foreign journals have none of it.
    number, name = envelope.get("sequence"), envelope.get("eventId")
    if envelope.get("runId") != state.run_id or parse_ms(envelope.get("timestamp")) is None:
        raise Illegal("the event is of another run or has no readable time")
    if number.__class__ is not int or name.__class__ is not str or not name or name.isspace():
        raise Illegal("the event has no number or no id")
    if number != state.trace_sequence + 1:
        raise Illegal(f"event {number} follows event {state.trace_sequence}")
    state.trace_sequence = number
    if state.aborting and abort.refuses(state, event):
        raise Illegal(f"{kind} comes after the abort was requested")
    handler = HAPPENINGS.get(kind)
    if handler is not None:
        handler(state, event, record, position)
    elif kind not in KNOWN:
        raise Illegal(f"event type {kind!r} is not known; a newer clew may have written it")


def _delegation(state: RunState, record: Record, position: int) -> None:
    if not state.own:
        return
    fact = record.payload
    status, step = delegation.status_of(fact), delegation.step_of(fact, state.run_id)
    if status in ("recorded", "running") and state.state != "running":
        raise Illegal(f"{fact['type']} while the operation is {state.state}")
    if status == "recorded":
        if any(book.get(step) is not None for book in (state.delegations, state.calls, state.turns, state.steps)):
            raise Illegal(f"step {step!r} is taken")
        moved = delegation.begun(fact, state.run_id, step, position, state.delegations.values())
    else:
        moved = delegation.moved(state.delegations.get(step), fact, status)
    if status == "joined" and state.steps.get(step) is None:
        raise Illegal(f"child {moved.child_id!r} is joined without the answer of step {step!r}")
    state.delegations = {**state.delegations, step: moved}


def _ignore(state: RunState, record: Record, position: int) -> None:
    """Kinds that clew reads over and never writes."""
    if state.own:
        raise Illegal(f"records of kind {record.kind!r} are not written by clew")


def _loop(state: RunState, record: Record, position: int) -> None:
    if state.own:
        loops.taken(state, record.payload)
        state.loop = record.payload
    else:
        foreign.take_loop(state, record.payload)


_KINDS: Final[dict[str, Callable[[RunState, Record, int], None]]] = {
    "start": _start,
    "resume": _resume,
    "operation": _operation,
    "event": _event,
    "loop": _loop,
    "pause": _pause,
    "finish": _finish,
    "delegation": _delegation,
    "checkpoint": guarding.take_checkpoint,
}
