"""What each event type does to the state of a run that clew began. Record kinds and foreign journals: `folding`."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from clew.core import approvals, calls
from clew.core.artifacts import take_artifact
from clew.core.calls import AnswerRef, CallState, Illegal
from clew.core.evaluation import take_check
from clew.core.events import AGENT
from clew.core.extensions import count_receipt
from clew.core.ids import effect_key, is_digest
from clew.core.keys import recorded_key
from clew.core.measuring import take_compaction, take_prefix
from clew.core.records import Record
from clew.core.restored import take_restored
from clew.core.review import Review
from clew.core.state import RunState, TurnState
from clew.core.times import parse_ms
from clew.errors import UsageError

Event = dict[str, Any]
_OUTCOMES: Final = ("happened", "did_not_happen", "give_up")
_SOURCES: Final = ("operator", "probe", "checkpoint", "tool")
_RECORDED_VALUES: Final = ("now", "random", "uuid", "steering")


def is_recorded_value(step_id: str) -> bool:
    """Is this the id of a recorded clock reading or chance, not of a step?"""
    return step_id.rpartition(".")[2].rpartition("-")[0] in _RECORDED_VALUES


def _text(event: Event, name: str) -> str:
    value = event.get(name)
    if type(value) is not str:
        raise Illegal(f"{event['type']} has no {name}")
    return value


def _whole(event: Event, name: str) -> int:
    value = event.get(name)
    if type(value) is not int:
        raise Illegal(f"{event['type']} has no whole number {name}")
    return value


def _call_of(state: RunState, event: Event) -> CallState:
    step = event.get("stepId")
    call = state.calls.get(step) if type(step) is str else None
    if call is None or call.call_id != event.get("callId"):
        raise Illegal(f"{event['type']} of step {step!r} without its call")
    return call


def _check_key(call: CallState, event: Event) -> None:
    """Promise 3: one key for all that is said of one effect."""
    if event.get("idempotencyKey") != call.key:
        raise Illegal(f"{event['type']} of {call.key!r} carries the key {event.get('idempotencyKey')!r}")


def _must_run(state: RunState, what: str) -> None:
    if state.operation is None or state.operation.records[-1].to != "running":
        raise Illegal(f"{what} while the operation is {state.state}")


def count_number(state: RunState, step_id: str) -> None:
    """Remember the highest number of each path and name, so that new steps go on from there."""
    name, _, digits = step_id.rpartition("-")
    if digits.isdigit() and digits.isascii():
        _raise_number(state, name, int(digits))


def _raise_number(state: RunState, name: str, number: int) -> None:
    known = state.numbers.get(name)
    if known is None or number > known:
        state.numbers.put(name, number)


def _own_key(state: RunState, event: Event, step: str, call_id: str) -> str:
    """The key of what is proposed, as it follows from run, step and call."""
    try:
        key = effect_key(state.run_id, step, call_id)
    except UsageError as fault:
        raise Illegal(fault.message) from None
    if event.get("idempotencyKey") != key:
        raise Illegal(f"the key of call {call_id!r} does not follow from run, step and call")
    return key


def _tool_call(state: RunState, event: Event, record: Record, position: int) -> None:
    _must_run(state, "a call")
    step, call_id = _text(event, "stepId"), _text(event, "callId")
    key = _own_key(state, event, step, call_id)
    if state.calls.get(step) is not None or state.steps.get(step) is not None or state.turns.get(step) is not None:
        raise Illegal(f"step {step!r} is taken")
    if step in state.delegations:
        raise Illegal(f"step {step!r} is a child's")
    tool, turn_id, asked = _text(event, "tool"), _text(event, "turnId"), _text(event, "argumentsFingerprint")
    if state.asked:
        approvals.check_recorded(state, step, key, asked)
    if "businessKey" in event:
        recorded_key(event)
    enter_call(state, CallState(step, call_id, key, tool, turn_id, asked, position))


def enter_call(state: RunState, call: CallState) -> None:
    """A call is proposed: it is one more, and what it is called is taken."""
    step, metrics = call.step_id, state.metrics
    state.calls.put(step, call)
    state.pending.put(step, step)
    count_number(state, step)
    count_call(state, call.call_id)
    metrics.tool_calls += 1
    metrics.steps_started += 1


def count_call(state: RunState, call_id: str) -> None:
    """Call ids are counted over the whole run; a framework's own ids are not counted."""
    digits = call_id[1:]
    if call_id[:1] == "c" and digits.isdigit() and digits.isascii():
        _raise_number(state, "call", int(digits))


def _capability(state: RunState, event: Event, record: Record, position: int) -> None:
    call = _call_of(state, event)
    state.calls.put(call.step_id, calls.resolved(call, event))


def _receipt(state: RunState, event: Event, record: Record, position: int) -> None:
    call = _call_of(state, event)
    _check_binding(state, call, event)
    _received(state, call, 1, event, record)


def _attempt(state: RunState, event: Event, record: Record, position: int) -> None:
    call = _call_of(state, event)
    number = _whole(event, "attempt")
    if number < 2 or event.get("attemptId") != f"{call.key}#{number}":
        raise Illegal(f"attempt {number} of {call.key!r} has another id", "effect_receipt_conflict")
    if event.get("tool") != call.tool or event.get("argumentsFingerprint") != call.fingerprint:
        raise Illegal(f"attempt {number} of {call.key!r} is bound to another call", "effect_receipt_conflict")
    _received(state, call, number, event, record)


def _received(state: RunState, call: CallState, attempt: int, event: Event, record: Record) -> None:
    if event.get("status") == "started":
        _must_run(state, "a start")
        if state.asked:
            approvals.use(state, call.step_id)
        state.metrics.retries += attempt > 1
    state.calls.put(call.step_id, calls.received(call, attempt, event, parse_ms(record.timestamp) or 0))


def _check_binding(state: RunState, call: CallState, event: Event) -> None:
    bound = event.get("binding")
    if type(bound) is not dict or type(bound.get("version")) is not int:
        raise Illegal(f"the receipt of {call.key!r} has no binding", "effect_receipt_conflict")
    capability = "" if call.capability is None else call.capability.fingerprint()
    wanted = {
        "version": 1, "runId": state.run_id, "turnId": call.turn_id, "agent": AGENT, "stepId": call.step_id,
        "callId": call.call_id, "tool": call.tool, "argumentsFingerprint": call.fingerprint,
        "capabilityFingerprint": capability,
    }  # fmt: skip
    if bound != wanted or event.get("idempotencyKey") != call.key:
        raise Illegal(f"the receipt of {call.key!r} is bound to another call", "effect_receipt_conflict")


def _blob(event: Event) -> str | None:
    """The digest of an answer that is not whole in its record; one that cannot be read must not pass for whole."""
    if "blob" not in event:
        return None
    blob = event["blob"]
    told = type(blob) is dict and type(blob.get("sizeBytes")) is int and type(blob.get("mediaType")) is str
    if not told or type(blob.get("sha256")) is not str or not is_digest(blob["sha256"]):
        raise Illegal(f"the answer of step {event['stepId']!r} names no blob")
    return str(blob["sha256"])


def _output(state: RunState, event: Event, record: Record, position: int) -> None:
    step = _text(event, "stepId")
    _text(event, "text")
    answer = AnswerRef(position, event.get("isError") is True, _blob(event))
    call, turn = state.calls.get(step), state.turns.get(step)
    again = call is not None and call.answer is not None
    if "heldBy" in event and (call is None or call.unsettled or type(event["heldBy"]) is not dict):
        raise Illegal(f"step {step!r} cannot have the answer of another call")
    if call is not None:
        state.calls.put(step, calls.answered(call, answer))
        state.pending.strike(step)
        if not call.may_change_the_world:
            # It starts without a receipt, so its end is what uses the permission up.
            approvals.use(state, step)
    elif turn is not None and turn.answer is None:
        state.turns.put(step, msgspec.structs.replace(turn, answer=answer))
    elif turn is None and state.steps.get(step) is None:
        child = state.delegations.get(step)
        if child is not None and child.status != "terminal":
            raise Illegal(f"an answer of step {step!r} before the end of child {child.child_id!r}")
        state.steps.put(step, answer)
        count_number(state, step)
        if "check" in event:
            take_check(state, step, event["check"])
        if "controls" in event:
            _read_by_agent(state, step, event["controls"])
    else:
        raise Illegal(f"step {step!r} has its answer already")
    if again or (call is None and is_recorded_value(step)):
        return
    state.answers += 1
    state.metrics.steps_started += call is None and turn is None
    state.metrics.add_answer(is_error=answer.is_error)


def _read_by_agent(state: RunState, step: str, names: Any) -> None:
    """The agent read what these commands told it; no text is ever read twice."""
    for name in names if type(names) is list else [names]:
        known = state.controls.get(name) if type(name) is str else None
        if known is None or known["state"] != "accepted" or "readBy" in known:
            raise Illegal(f"step {step!r} reads command {name!r}, which does not wait for it")
        state.controls.put(name, {**known, "readBy": step})


def _tool_result(state: RunState, event: Event, record: Record, position: int) -> None:
    call = _call_of(state, event)
    _check_key(call, event)
    if call.answer is None:
        raise Illegal(f"tool_result of {call.key!r} without its answer")
    if (event.get("isError") is True) != call.answer.is_error:
        raise Illegal(f"tool_result of {call.key!r} contradicts its answer")
    state.metrics.tool_failures += event.get("isError") is True
    state.calls.rest(call)


def _review(state: RunState, event: Event, record: Record, position: int) -> None:
    call = _call_of(state, event)
    _check_key(call, event)
    review_id = _text(event, "reviewId")
    if state.reviews.get(review_id) is not None:
        raise Illegal(f"review id {review_id!r} is taken")
    if event.get("outcome") not in _OUTCOMES or event.get("source") not in _SOURCES:
        raise Illegal(f"review {review_id!r} says neither who nor what")
    if not _text(event, "by").strip() or not _text(event, "reason").strip():
        raise Illegal(f"review {review_id!r} names nobody or no reason")
    review = Review(
        review_id=review_id,
        outcome=event["outcome"],
        source=event["source"],
        by=event["by"],
        reason=event["reason"],
        result_recorded=event.get("resultRecorded") is True,
        complete="result" in event,
    )
    state.reviews.put(review_id, call.step_id)
    state.numbers.put("review", (state.numbers.get("review") or 0) + 1)
    state.calls.put(call.step_id, calls.reviewed(call, _whole(event, "attempt"), review))


def _agent_start(state: RunState, event: Event, record: Record, position: int) -> None:
    _must_run(state, "a turn")
    turn_id, asked = _text(event, "turnId"), _text(event, "requestFingerprint")
    path = _text(event, "stepId") if "stepId" in event else ""
    earlier = state.turns.get(turn_id)
    if state.calls.get(turn_id) is not None or state.steps.get(turn_id) is not None:
        raise Illegal(f"turn {turn_id!r} has the id of a step")
    if earlier is None:
        state.turns.put(turn_id, TurnState(turn_id, asked, position, leg=len(state.legs), path=path))
        count_number(state, turn_id)
        state.metrics.turns += 1
        state.metrics.steps_started += 1
        state.metrics.add_request()
        return
    if earlier.answer is not None or (earlier.fingerprint, earlier.path) != (asked, path):
        raise Illegal(f"turn {turn_id!r} is taken")
    if earlier.leg == len(state.legs) and not earlier.ended:
        state.metrics.lose_open(1)
    state.turns.put(turn_id, msgspec.structs.replace(earlier, leg=len(state.legs)))
    state.metrics.add_request()


def _turn_end(state: RunState, event: Event, record: Record, position: int) -> None:
    turn = state.turns.get(_text(event, "turnId"))
    if turn is None or turn.ended:
        raise Illegal(f"turn {event['turnId']!r} ends without having begun")
    state.turns.put(turn.turn_id, msgspec.structs.replace(turn, ended=True, ended_at=position))
    message = event.get("messageId")
    if message is None:
        state.metrics.add_usage(event)
        return
    if type(message) is not str or not message:
        raise Illegal(f"turn {turn.turn_id!r} names a message that has no id")
    state.messages.put(message, state.metrics.add_usage(event, state.messages.get(message)))


def _agent_end(state: RunState, event: Event, record: Record, position: int) -> None:
    _must_run(state, "the end of the agent")
    unsettled = state.unsettled()
    if unsettled or state.agent_end is not None:
        raise Illegal(
            f"the agent ends while {unsettled[0].key!r} is unsettled" if unsettled else "the agent ends twice"
        )
    state.agent_end = event
    output = event.get("output")
    state.metrics.output_chars += len(output) if type(output) is str else 0


def _approval_required(state: RunState, event: Event, record: Record, position: int) -> None:
    _must_run(state, "a question for an approval")
    name = _text(event, "approvalId")
    if state.approvals.get(name) is not None:
        raise Illegal(f"approval id {name!r} is taken")
    _text(event, "tool"), _text(event, "argumentsFingerprint")
    key = _own_key(state, event, _text(event, "stepId"), _text(event, "callId"))
    asked = approvals.requested(state, event, key, record.timestamp, position)
    earlier = approvals.standing_of(state, asked.step_id)
    if earlier is not None and earlier.decision == "allow" and not earlier.used:
        state.approvals.put(earlier.approval_id, msgspec.structs.replace(earlier, replaced=name))
    state.approvals.put(name, asked)
    state.asked.put(asked.step_id, name)
    count_number(state, asked.step_id)
    count_call(state, asked.call_id)


def _approval_resolved(state: RunState, event: Event, record: Record, position: int) -> None:
    if state.state not in ("running", "paused"):
        raise Illegal(f"an approval is decided while the operation is {state.state}")
    asked = approvals.resolved(state.approvals.get(_text(event, "approvalId")), event)
    state.approvals.put(asked.approval_id, asked)


def _leg_ended(state: RunState, event: Event, record: Record, position: int) -> None:
    leg = state.unclosed_leg
    if leg is None or _whole(event, "leg") != leg.number:
        raise Illegal(f"leg {event.get('leg')!r} is not the open one")
    state.legs = (*state.legs[:-1], msgspec.structs.replace(leg, closed_by="leg_ended", closed_at=record.timestamp))
    state.amid = False


def _control(state: RunState, event: Event, record: Record, position: int) -> None:
    name, said = _text(event, "controlId"), _text(event, "fingerprint")
    earlier = state.controls.get(name)
    if event.get("state") not in ("accepted", "applied", "rejected"):
        raise Illegal(f"command {name!r} is in no known state")
    done = event["state"] == "accepted" or (earlier is not None and earlier["state"] != "accepted")
    if earlier is not None and (earlier["fingerprint"] != said or done):
        raise Illegal(f"command {name!r} is taken")
    if event["state"] == "accepted" and type(event.get("command")) is not dict:
        raise Illegal(f"command {name!r} is accepted without its content")
    state.controls.put(name, {**(earlier or {}), **event, f"{event['state']}Sequence": record.sequence})


def _extension(state: RunState, event: Event, record: Record, position: int) -> None:
    count_receipt(state.extensions, event)


def _restored(state: RunState, event: Event, record: Record, position: int) -> None:
    if state.leg is None or state.leg.purpose != "control":
        raise Illegal("files are put back in a leg that runs no agent")
    kept = state.checkpoints.get(_text(event, "checkpointId"))
    if kept is None or not kept.started:
        raise Illegal(f"there is no checkpoint {event['checkpointId']!r} to put back")
    state.restores = take_restored(state.restores, event)


HAPPENINGS: Final[dict[str, Callable[[RunState, Event, Record, int], None]]] = {
    "tool_call": _tool_call,
    "capability_resolved": _capability,
    "effect_receipt": _receipt,
    "tool_attempt": _attempt,
    "step_output": _output,
    "tool_result": _tool_result,
    "effect_review": _review,
    "agent_start": _agent_start,
    "turn_end": _turn_end,
    "agent_end": _agent_end,
    "approval_required": _approval_required,
    "approval_resolved": _approval_resolved,
    "context_compacted": take_compaction,
    "context_prefix": take_prefix,
    "artifact_created": take_artifact,
    "leg_ended": _leg_ended,
    "control": _control,
    "extension_lifecycle": _extension,
    "restored": _restored,
}
