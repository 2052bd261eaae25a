"""The two appends of a usual call, each judged in one step where a journal is read: what its records come to, sooner.

Nothing is taken here that `folding.take` would refuse record by record, and nothing is refused: all that does not stand
as `usual` writes it is left to it.
"""

from collections.abc import Sequence
from typing import Any, Final

from clew.core import capability as capabilities
from clew.core.calls import CallState
from clew.core.capability import Capability
from clew.core.events import AGENT
from clew.core.happenings import enter_call
from clew.core.records import Record
from clew.core.state import RunState
from clew.core.times import parse_ms
from clew.core.usual import enter_answer, go_on, may_enter, undisturbed

Event = dict[str, Any]
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
    events = _events(state, records, first.timestamp)
    if events is None or not (_opens(state, events, at_ms, place) or _answers(state, events, place)):
        return False
    go_on(state, state.sequence + RECORDS, records[-1][0].chain or "", first.timestamp)
    return True


def _events(state: RunState, records: Sequence[Placed], at: str) -> list[Event] | None:
    """The events of records that follow each other, all of one append, one time and this run; None for others."""
    run_id, sequence, trace, append = state.run_id, state.sequence, state.trace_sequence, state.sequence + 1
    events: list[Event] = []
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
        events.append(event)
    return events


def _opens(state: RunState, events: Sequence[Event], at_ms: int, place: int) -> bool:
    """Is a call proposed, resolved and started, as `usual` says it? Then it is entered."""
    proposed, resolved, started = events
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
    if resolved != {
        "type": "capability_resolved", "agent": AGENT, "tool": tool, "callId": call_id, "stepId": step,
        "capability": resolved["capability"], "recoveryDisposition": capability.disposition,
    } or not _is_receipt(started, state.run_id, call, capability, "started"):  # fmt: skip
        return False
    enter_call(state, call)
    return True


def _answers(state: RunState, events: Sequence[Event], place: int) -> bool:
    """Is the answer of a first attempt told, committed and handed over, as `usual` says it? Then it has it."""
    told, committed, handed = events
    step = told.get("stepId")
    call = state.calls.get(step) if step.__class__ is str else None
    if (
        call is None or call.status != "started" or call.attempt != 1 or call.answer is not None
        or call.review is not None or call.capability is None or call.capability.free
    ):  # fmt: skip
        return False
    text = told.get("text")
    if (
        text.__class__ is not str
        or told != {"type": "step_output", "stepId": step, "agent": AGENT, "text": text}
        or not _is_receipt(committed, state.run_id, call, call.capability, "committed")
        or handed != {
            "type": "tool_result", "agent": AGENT, "tool": call.tool, "isError": False, "callId": call.call_id,
            "idempotencyKey": call.key, "stepId": step, "turnId": call.turn_id,
        }
    ):  # fmt: skip
        return False
    enter_answer(state, call, place)
    return True


def _is_receipt(event: Event, run_id: str, call: CallState, capability: Capability, status: str) -> bool:
    """Is this the receipt of the first attempt, member by member as it is written?"""
    expected = {
        "type": "effect_receipt", "idempotencyKey": call.key, "tool": call.tool, "status": status, "agent": AGENT,
        "callId": call.call_id, "stepId": call.step_id, "turnId": call.turn_id,
        "binding": {
            "version": 1, "runId": run_id, "turnId": call.turn_id, "agent": AGENT, "stepId": call.step_id,
            "callId": call.call_id, "tool": call.tool, "argumentsFingerprint": call.fingerprint,
            "capabilityFingerprint": capability.fingerprint(),
        },
    }  # fmt: skip
    # `true` equals 1, and is no version.
    return event == expected and event["binding"]["version"].__class__ is int
