"""The two appends of a usual call, each judged in one step where a journal is read: what its records come to, sooner.

Nothing is taken here that `folding.take` would refuse record by record, and nothing is refused: all else is left to it.
"""

from collections.abc import Sequence
from typing import Any, Final

from clew.core import capability as capabilities
from clew.core import events
from clew.core.calls import CallState
from clew.core.capability import Capability
from clew.core.events import CallFacts, Event
from clew.core.happenings import enter_call
from clew.core.receipts import ReceiptStatus
from clew.core.records import Record
from clew.core.state import RunState
from clew.core.times import parse_ms
from clew.core.usual import enter_answer, go_on, may_enter, undisturbed

Placed = tuple[Record, int]

RECORDS: Final = 3
"""So many records stand in each of the two appends."""


def take_usual(state: RunState, records: Sequence[Placed]) -> bool:
    """Move a state by records, each with its position, if they are one of the two appends of a usual call.

    Returns:
        False for all else. The state is unchanged then, and each record is to be judged by itself.
    """
    if len(records) != RECORDS or not undisturbed(state):
        return False
    first, place = records[0]
    at_ms = parse_ms(first.timestamp)
    if at_ms is None:
        return False
    said = _said(state, records, first.timestamp)
    if said is None or not (_opens(state, said, at_ms, place) or _answers(state, said, place)):
        return False
    go_on(state, state.sequence + RECORDS, records[-1][0].chain or "", first.timestamp)
    return True


def _said(state: RunState, records: Sequence[Placed], at: str) -> list[Event] | None:
    """The events of records that follow each other, all of one append, one time and this run; None for others."""
    run_id, sequence, trace, append = state.run_id, state.sequence, state.trace_sequence, state.sequence + 1
    said: list[Event] = []
    for record, _ in records:
        sequence, trace = sequence + 1, trace + 1
        envelope = record.payload
        get = envelope.get
        number, name, event = get("sequence"), get("eventId"), get("event")
        if (
            record.sequence != sequence or record.append != append or record.run_id != run_id
            or record.kind != "event" or record.timestamp != at
            or get("runId") != run_id or get("timestamp") != at or number != trace or number.__class__ is not int
            or name.__class__ is not str or not name or name.isspace() or event.__class__ is not dict
        ):  # fmt: skip
            return None
        said.append(event)
    return said


def _opens(state: RunState, said: Sequence[Event], at_ms: int, place: int) -> bool:
    """Is a call proposed, resolved and started, as `usual` says it? Then it is entered."""
    proposed, resolved, started = said
    get: Any = proposed.get
    step, call_id, tool, key = get("stepId"), get("callId"), get("tool"), get("idempotencyKey")
    turn_id, asked = get("turnId"), get("argumentsFingerprint")
    if (
        get("type") != "tool_call" or "businessKey" in proposed
        or step.__class__ is not str or call_id.__class__ is not str or tool.__class__ is not str
        or turn_id.__class__ is not str or asked.__class__ is not str
        or not may_enter(state, step, call_id, key)
    ):  # fmt: skip
        return False
    capability = capabilities.read(resolved.get("capability"))
    if capability is None:
        return False
    call = CallState(step, call_id, key, tool, turn_id, asked, place, capability, 1, "started", at_ms, at_ms)
    facts = _facts(state, call, capability)
    if _resolution(resolved) != ("capability_resolved", step, call_id, capability.disposition):
        return False
    if not _is_receipt(started, facts, "started"):
        return False
    enter_call(state, call)
    return True


def _answers(state: RunState, said: Sequence[Event], place: int) -> bool:
    """Is the answer of a first attempt told, committed and handed over, as `usual` says it? Then it has it."""
    told, committed, handed = said
    step = told.get("stepId")
    call = state.calls.get(step) if step.__class__ is str else None
    if (
        call is None or call.status != "started" or call.attempt != 1 or call.answer is not None
        or call.review is not None or call.capability is None or call.capability.free
    ):  # fmt: skip
        return False
    text, facts = told.get("text"), _facts(state, call, call.capability)
    if (
        text.__class__ is not str
        or told != events.step_output(call.step_id, text)
        or not _is_receipt(committed, facts, "committed")
        or handed != events.tool_result(facts, is_error=False)
    ):
        return False
    enter_answer(state, call, place)
    return True


def _resolution(event: Event) -> tuple[object, ...]:
    """What a reader of a `capability_resolved` looks at beside the capability."""
    get = event.get
    return get("type"), get("stepId"), get("callId"), get("recoveryDisposition")


def _facts(state: RunState, call: CallState, capability: Capability) -> CallFacts:
    return CallFacts(
        run_id=state.run_id, step_id=call.step_id, call_id=call.call_id, key=call.key, tool=call.tool,
        turn_id=call.turn_id, fingerprint=call.fingerprint, capability=capability,
    )  # fmt: skip


def _is_receipt(event: Event, call: CallFacts, status: ReceiptStatus) -> bool:
    """Is this the receipt of the first attempt, as it is written?"""
    # `true` equals 1, and is no version.
    return event == events.effect_receipt(call, status) and event["binding"]["version"].__class__ is int
