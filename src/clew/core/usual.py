"""The two appends of a usual call, each in one step: the very lines and facts that `compose` would make, made sooner.

Nothing is decided here, and nothing is said that `compose` would not say. Whatever is not usual is left to it.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from clew.core.calls import AnswerRef, CallState
from clew.core.codec import MAX_APPEND, NOT_FAST
from clew.core.events import AGENT, Answering, CallFacts, Opening
from clew.core.happenings import enter_call
from clew.core.records import Batch
from clew.core.state import RunState
from clew.core.times import parse_ms

_encode: Final = msgspec.json.Encoder().encode


class Usual(msgspec.Struct, frozen=True):
    """One append of a usual call that may be written, and what it does to the run once it is.

    `at` is the time of all its records, `place` where the first of them will stand.
    """

    batch: Batch
    said: Opening | Answering
    at: str
    place: int

    def apply(self, state: RunState) -> None:
        """Become what a reader of these lines becomes."""
        batch, call = self.batch, self.said.call
        if type(self.said) is Opening:
            enter_call(state, _opened(call, parse_ms(self.at) or 0, self.place))
        else:
            known = state.calls.get(call.step_id)
            assert known is not None, "it was there when the append was made"
            enter_answer(state, known, self.place)
        go_on(state, batch.last, batch.chain, self.at)


def usual(
    state: RunState, sayings: Sequence[Any], *, at: str, new_ids: Callable[[int], list[str]], size_bytes: int
) -> Usual | None:
    """Make one append of what is to be said, if it is one of the two of a usual call and nothing stands in its way.

    Args:
        state: The run so far; it is not changed.
        sayings: As for `compose`, which always comes to the same lines and the same state.
        at: The time of all records.
        new_ids: Gives so many event ids, each once: ASCII letters, digits and `-`.
        size_bytes: Where the append will stand in the journal.

    Returns:
        None for all else; `compose` has the word then, for what is illegal as well.
    """
    said = sayings[0] if len(sayings) == 1 else None
    if said.__class__ is Opening:
        told = _opening(said) if _may_open(state, said.call) else None
    elif said.__class__ is Answering:
        told = _answering(said) if _may_answer(state, said.call) else None
    else:
        return None
    if told is None or parse_ms(at) is None:
        return None
    batch = _lines(state, told, at, new_ids(2 * len(told)))
    return None if len(batch.data) > MAX_APPEND else Usual(batch, said, at, size_bytes)


def undisturbed(state: RunState) -> bool:
    """Is a leg of ours open, and nothing under way that a record must be asked about?"""
    return state.amid and state.own and not state.aborting and not state.guard


def may_enter(state: RunState, step_id: str, call_id: str, key: str) -> bool:
    """May a call begin now, is its step free, and does its key follow from run, step and call?"""
    operation = state.operation
    return (
        operation is not None
        and operation.records[-1].to == "running"
        and not state.asked
        and step_id != ""
        and call_id != ""
        and key == f"{state.run_id}:{step_id}:{call_id}"
        and key.count(":") == 2
        and "#" not in key
        and key.isprintable()
        and state.calls.get(step_id) is None
        and state.steps.get(step_id) is None
        and state.turns.get(step_id) is None
        and step_id not in state.delegations
    )


def _may_open(state: RunState, call: CallFacts) -> bool:
    return (
        undisturbed(state)
        and call.business is None
        and call.run_id == state.run_id
        and may_enter(state, call.step_id, call.call_id, call.key)
        and _is_bare(call.key + call.tool + call.turn_id + call.fingerprint)
    )


def _may_answer(state: RunState, call: CallFacts) -> bool:
    known = state.calls.get(call.step_id)
    return (
        known is not None
        and undisturbed(state)
        and known.status == "started"
        and known.attempt == 1
        and known.answer is None
        and known.review is None
        and call.run_id == state.run_id
        and known.key == call.key
        and known.call_id == call.call_id
        and known.tool == call.tool
        and known.turn_id == call.turn_id
        and known.fingerprint == call.fingerprint
        and known.capability == call.capability
        and not call.capability.free
        and _is_bare(call.key + call.tool + call.turn_id + call.fingerprint)
    )


def _is_bare(text: str) -> bool:
    """Does it stand in JSON as it is?"""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def _opening(said: Opening) -> tuple[str, ...] | None:
    """The events of an opening as JSON; None where more than this is needed for it."""
    call, capability = said.call, said.call.capability.told
    try:
        arguments = _encode(said.arguments).decode()
    except NOT_FAST:
        return None
    # What is no number is `null` as well, so one is looked at closer.
    if capability is None or "null" in arguments:
        return None
    proposed = (
        f'{{"type":"tool_call","agent":"{AGENT}","tool":"{call.tool}","args":{arguments},'
        f'"argumentsFingerprint":"{call.fingerprint}","callId":"{call.call_id}","idempotencyKey":"{call.key}",'
        f'"stepId":"{call.step_id}","turnId":"{call.turn_id}"}}'
    )
    resolved = (
        f'{{"type":"capability_resolved","agent":"{AGENT}","tool":"{call.tool}","callId":"{call.call_id}",'
        f'"stepId":"{call.step_id}",{capability}}}'
    )
    return proposed, resolved, _receipt(call, "started")


def _answering(said: Answering) -> tuple[str, ...] | None:
    """The events of an answer as JSON; None where more than this is needed for it."""
    call = said.call
    try:
        text = _encode(said.text).decode()
    except NOT_FAST:
        return None
    told = f'{{"type":"step_output","stepId":"{call.step_id}","agent":"{AGENT}","text":{text}}}'
    result = (
        f'{{"type":"tool_result","agent":"{AGENT}","tool":"{call.tool}","isError":false,"callId":"{call.call_id}",'
        f'"idempotencyKey":"{call.key}","stepId":"{call.step_id}","turnId":"{call.turn_id}"}}'
    )
    return told, _receipt(call, "committed"), result


def _receipt(call: CallFacts, status: str) -> str:
    return (
        f'{{"type":"effect_receipt","idempotencyKey":"{call.key}","tool":"{call.tool}","status":"{status}",'
        f'"agent":"{AGENT}","callId":"{call.call_id}","stepId":"{call.step_id}","turnId":"{call.turn_id}",'
        f'"binding":{{"version":1,"runId":"{call.run_id}","turnId":"{call.turn_id}","agent":"{AGENT}",'
        f'"stepId":"{call.step_id}","callId":"{call.call_id}","tool":"{call.tool}",'
        f'"argumentsFingerprint":"{call.fingerprint}","capabilityFingerprint":"{call.capability.fingerprint()}"}}}}'
    )


def _lines(state: RunState, told: Sequence[str], at: str, ids: Sequence[str]) -> Batch:
    """The events as numbered, chained lines; the first half of the ids is the envelopes', the second the records'."""
    run_id, sequence, trace, chain = state.run_id, state.sequence, state.trace_sequence, state.chain.encode()
    first = sequence + 1
    pieces: list[bytes] = []
    end = b',"append":%d}' % first
    behind = b'"' + end + b"\n"
    for event, inner_id, outer_id in zip(told, ids, ids[len(told) :], strict=False):
        sequence, trace = sequence + 1, trace + 1
        body = (
            f'{{"version":1,"runId":"{run_id}","sequence":{sequence},"eventId":"{outer_id}","timestamp":"{at}",'
            f'"kind":"event","payload":{{"eventId":"{inner_id}","runId":"{run_id}","sequence":{trace},'
            f'"timestamp":"{at}","event":{event}}}'
        ).encode()
        chain = sha256(chain + body + end).hexdigest().encode()
        pieces += (body, b',"chain":"', chain, behind)
    return Batch(run_id, first, sequence, b"".join(pieces), chain.decode())


def _opened(call: CallFacts, at_ms: int, place: int) -> CallState:
    """What an opening makes of a call."""
    return CallState(
        call.step_id, call.call_id, call.key, call.tool, call.turn_id, call.fingerprint, place, call.capability,
        attempt=1, status="started", started_ms=at_ms, since_ms=at_ms,
    )  # fmt: skip


def enter_answer(state: RunState, call: CallState, place: int) -> None:
    """A first attempt has returned: what that does to a run, wherever it was read."""
    state.calls.rest(msgspec.structs.replace(call, status="committed", answer=AnswerRef(place, False)))
    state.pending.strike(call.step_id)
    state.answers += 1
    state.metrics.steps_succeeded += 1


def go_on(state: RunState, last: int, chain: str, at: str) -> None:
    """An append of events is over: the sequence and chain value of its last record, and the time of all."""
    if at < state.last_time:
        state.clock_stepped = True
    state.trace_sequence += last - state.sequence
    state.sequence, state.last_append, state.chain, state.last_time = last, state.sequence + 1, chain, at
