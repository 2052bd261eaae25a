"""What is understood of journals that clew did not begin: enough to judge their calls, nothing to continue them.

Contract §2.4, #69, #76, #81 to #89, #115 to #118, #199; DESIGN §4 "Reading is mutual".
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec

from clew.core import calls
from clew.core.calls import AnswerRef, CallState, Illegal
from clew.core.receipts import may_follow
from clew.core.records import Record
from clew.core.state import RunState

Event = dict[str, Any]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class _Bound(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A receipt's binding, version 1; there, a call may stand in no step."""

    version: Literal[1]
    run_id: str
    turn_id: str
    agent: str
    call_id: str
    tool: str
    arguments_fingerprint: _Sha256
    capability_fingerprint: _Sha256
    step_id: str = ""


class _Loop(msgspec.Struct, frozen=True, rename="camel"):
    """A loop snapshot (contract §2.6), as far as it is checked."""

    schema_version: Literal[1]
    machine_version: Literal["1"]
    run_id: str
    config_fingerprint: str
    phase: Literal[
        "idle", "planning", "executing", "verifying", "repairing", "paused", "succeeded", "failed", "aborted",
        "timeout", "budget_exceeded",
    ]  # fmt: skip
    iteration: _Count
    repair_count: _Count
    repeated_action_count: _Count
    transition_sequence: _Count


class ForeignCall(CallState, frozen=True, gc=False):
    """One call of another program: its last receipt and its last lifecycle fact are kept apart.

    `receipt` and `effect_state` are empty until there is one; `binding` is what its receipts are bound to, None while
    they are bound to nothing (that is how old programs wrote them, and it stays so).
    """

    agent: str = ""
    receipt: str = ""
    effect_state: str = ""
    binding: _Bound | None = None


def take_loop(state: RunState, payload: Event) -> None:
    """Keep the last loop snapshot of a foreign journal.

    Raises:
        Illegal: it is of another run, configuration or version, or counts in anything but whole numbers from 0.
    """
    try:
        loop = msgspec.convert(payload, _Loop)
    except msgspec.ValidationError as fault:
        raise Illegal(f"not a loop snapshot: {fault}") from None
    if loop.run_id != state.run_id or loop.config_fingerprint != state.start.get("configFingerprint"):
        raise Illegal("the loop snapshot is of another run or configuration")
    state.theirs = msgspec.structs.replace(state.theirs, loop=payload)


# Calls. A slot is a key; where two agents share one, the later call has the agent's name behind it.


def _text(event: Event, name: str) -> str:
    value = event.get(name)
    return value if type(value) is str else ""


def _keys(state: RunState, event: Event) -> list[str]:
    """The recorded key, then what it would be by run, step and call."""
    parts = (state.run_id, _text(event, "stepId"), _text(event, "callId"))
    return [key for key in (_text(event, "idempotencyKey"), ":".join(part for part in parts if part)) if key]


def _slots(state: RunState, event: Event) -> list[str]:
    """The calls that an event speaks of: with an agent one, without one all that share the key."""
    agent = _text(event, "agent")
    for key in _keys(state, event):
        named = [slot for slot in state.theirs.slots.get(key, (key,)) if state.calls.get(slot) is not None]
        meant = [slot for slot in named if not agent or _at(state, slot).agent in ("", agent)]
        if meant:
            return meant
    return []


def _at(state: RunState, slot: str) -> ForeignCall:
    call = state.calls.get(slot)
    assert isinstance(call, ForeignCall)
    return call


def _put(state: RunState, slot: str, call: ForeignCall) -> None:
    """The call with the status that follows from its last receipt and its last lifecycle fact."""
    status = _status(call)
    call = msgspec.structs.replace(call, status=status, attempt=int(status != ""))
    state.calls.put(slot, call)
    state.pending.put(slot, slot)


def _status(call: ForeignCall) -> str:
    """The more doubtful of the two: a crash between two writes leaves one of them behind (#86, #87)."""
    if not call.may_change_the_world:
        return call.receipt
    if "unknown" in (call.receipt, call.effect_state):
        return "unknown"
    return call.receipt if call.receipt in ("started", "committed") else call.effect_state or call.receipt


def _call(state: RunState, event: Event, record: Record, position: int) -> None:
    key, found = _keys(state, event)[0], _slots(state, event)
    made = ForeignCall(
        step_id=_text(event, "stepId"),
        call_id=_text(event, "callId"),
        key=key,
        tool=_text(event, "tool"),
        turn_id=_text(event, "turnId"),
        fingerprint=_text(event, "argumentsFingerprint"),
        position=position,
        agent=_text(event, "agent"),
    )
    if found:
        _check_same(_at(state, found[0]), made)
        return
    slot = key
    if state.calls.get(key) is not None:
        slot = f"{key}@{made.agent}"
        slots = {**state.theirs.slots, key: (*state.theirs.slots.get(key, (key,)), slot)}
        state.theirs = msgspec.structs.replace(state.theirs, slots=slots)
    state.metrics.tool_calls += 1
    _put(state, slot, made)


def _check_same(earlier: ForeignCall, again: ForeignCall) -> None:
    """A key stands for one tool and one set of arguments; what is known of it is not begun anew."""
    if (earlier.tool, earlier.fingerprint) != (again.tool, again.fingerprint):
        raise Illegal(f"the key {again.key!r} stands for another call already", "effect_receipt_conflict")


def _capability(state: RunState, event: Event, record: Record, position: int) -> None:
    for slot in _slots(state, event):
        found = calls.resolved(_at(state, slot), event)
        assert isinstance(found, ForeignCall)
        _put(state, slot, found)


def _lifecycle(state: RunState, event: Event, record: Record, position: int) -> None:
    """What a lifecycle fact says of the effect; a call that only such facts know is a call."""
    resolution = event.get("resolution")
    result = resolution.get("result") if type(resolution) is dict else None
    said = result.get("effectState", "") if type(result) is dict else ""
    if said not in ("", "not_started", "started", "committed", "unknown"):
        raise Illegal(f"the lifecycle of {_keys(state, event)[0]!r} says the effect is {said!r}")
    if not _slots(state, event):
        _call(state, event, record, position)
    for slot in _slots(state, event):
        call = _at(state, slot)
        kept = call.effect_state if said in ("", "not_started") else said
        _put(state, slot, msgspec.structs.replace(call, effect_state=kept))


# Receipts.


def _receipt(state: RunState, event: Event, record: Record, position: int) -> None:
    """One more receipt; one that says no status says nothing, one of no call only when it is bound to none."""
    status, slots = event.get("status"), _slots(state, event)
    if "binding" in event and not slots:
        raise _unbound(event, "there is no such call")
    for slot in slots if type(status) is str else ():
        call = _at(state, slot)
        if not may_follow(call.receipt, str(status)):
            raise Illegal(f"receipt {status!r} cannot follow {call.receipt!r}", "effect_receipt_conflict")
        bound = _binding(state, call, event)
        _put(state, slot, msgspec.structs.replace(call, receipt=str(status), binding=bound))


def _binding(state: RunState, call: ForeignCall, event: Event) -> _Bound | None:
    """What the call's receipts are bound to from now on: the first one decides."""
    bound = _read_binding(state, call, event) if "binding" in event else None
    if call.receipt and call.binding is None:
        return None
    if call.receipt and bound != call.binding:
        raise _unbound(event, "an earlier receipt has another binding")
    return bound


def _read_binding(state: RunState, call: ForeignCall, event: Event) -> _Bound:
    try:
        bound = msgspec.convert(event["binding"], _Bound)
    except msgspec.ValidationError as fault:
        raise _unbound(event, str(fault)) from None
    capability = "" if call.capability is None else call.capability.fingerprint()
    expected = (
        state.run_id, call.step_id, call.call_id, call.tool, call.turn_id or bound.turn_id, call.agent or bound.agent,
        call.fingerprint, capability,
    )  # fmt: skip
    found = (
        bound.run_id, bound.step_id, bound.call_id, bound.tool, bound.turn_id, bound.agent,
        bound.arguments_fingerprint, bound.capability_fingerprint,
    )  # fmt: skip
    said = [event.get(name, value) for name, value in zip(_SAID, found[1:6], strict=True)]
    if expected != found or said != list(found[1:6]):
        raise _unbound(event, "it is bound to another call")
    return bound


_SAID: Final = ("stepId", "callId", "tool", "turnId", "agent")


def _unbound(event: Event, why: str) -> Illegal:
    return Illegal(f"the receipt of {event.get('idempotencyKey')!r}: {why}", "effect_receipt_conflict")


# Answers and inputs.


def _output(state: RunState, event: Event, record: Record, position: int) -> None:
    """A step's output answers the calls of that step that stand before it."""
    if not _text(event, "stepId"):
        raise Illegal("the step_output names no step")
    state.steps.put(event["stepId"], AnswerRef(position, event.get("isError") is True))
    state.metrics.add_answer(is_error=event.get("isError") is True)


def _turn_end(state: RunState, event: Event, record: Record, position: int) -> None:
    """A turn that ended is counted; old programs did not always say that it began."""
    state.metrics.turns += 1
    state.metrics.add_usage(event)


_INPUTS: Final = {
    "input_receipt": ("pending", ("",)),
    "input_claimed": ("claimed", ("pending",)),
    "input_completed": ("completed", ("claimed",)),
    "input_discarded": ("discarded", ("pending", "claimed")),
}


def _input(state: RunState, event: Event, record: Record, position: int) -> None:
    """An input goes from pending over claimed to its end; one without a name is not passed over."""
    name, (status, before) = _text(event, "inputId"), _INPUTS[event["type"]]
    earlier = state.theirs.inputs.get(name, "")
    if not name.strip() or event.get("status") != status or earlier not in before:
        raise Illegal(f"input {name!r} cannot be {event.get('status')!r} after {earlier or 'nothing'!r}")
    state.theirs = msgspec.structs.replace(state.theirs, inputs={**state.theirs.inputs, name: status})


HAPPENINGS: Final[dict[str, Callable[[RunState, Event, Record, int], None]]] = {
    "tool_call": _call,
    "capability_resolved": _capability,
    "tool_lifecycle": _lifecycle,
    "effect_receipt": _receipt,
    "step_output": _output,
    "turn_end": _turn_end,
    **dict.fromkeys(_INPUTS, _input),
}
