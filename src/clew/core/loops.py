"""The loop snapshot (contract §2.6): its shape, and which of its facts fit together. Moves no loop."""

from typing import Annotated, Any, Final, Literal

import msgspec

from clew.core.calls import Illegal
from clew.core.state import RunState

Phase = Literal[
    "idle", "planning", "executing", "verifying", "repairing", "paused", "succeeded", "failed", "aborted", "timeout",
    "budget_exceeded",
]  # fmt: skip
Working = Literal["planning", "executing", "verifying", "repairing"]

WORKING: Final = frozenset({"planning", "executing", "verifying", "repairing"})
STOPPED: Final = frozenset({"failed", "aborted", "timeout", "budget_exceeded"})
ENDED: Final = STOPPED | {"succeeded"}
EXHAUSTED: Final = "loop_exhausted"
MESSAGE_CHARS: Final = 2000

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Word = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
_Message = Annotated[str, msgspec.Meta(max_length=MESSAGE_CHARS)]


class LoopSnapshot(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Where a loop stands, as its record says it; members that do not apply are absent.

    `iteration` counts rounds, each a deed and its check: 0 before the first, then one more than `repair_count`.
    `repeated_action_count` is how often the last action was the one before it.

    Source:
        Contract §2.6.
    """

    schema_version: Literal[1]
    machine_version: Literal["1"]
    run_id: _Word
    config_fingerprint: _Word
    phase: Phase
    iteration: _Count
    repair_count: _Count
    repeated_action_count: _Count
    transition_sequence: _Count
    last_action_fingerprint: _Word | msgspec.UnsetType = msgspec.UNSET
    pause_reason: _Word | msgspec.UnsetType = msgspec.UNSET
    resume_phase: Working | msgspec.UnsetType = msgspec.UNSET
    failure_code: _Word | msgspec.UnsetType = msgspec.UNSET
    failure_message: _Message | msgspec.UnsetType = msgspec.UNSET

    def as_json(self) -> dict[str, Any]:
        """The payload of a `loop` record."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]  # a Struct becomes a dict


def read_snapshot(payload: object) -> LoopSnapshot:
    """A loop snapshot from JSON.

    Raises:
        Illegal: it has another version or shape, or facts that do not fit together.
    """
    try:
        found = msgspec.convert(payload, LoopSnapshot)
    except msgspec.ValidationError as fault:
        raise Illegal(f"not a loop snapshot: {fault}") from None
    wrong = next((why for fits, why in _facts(found) if not fits), "")
    if wrong:
        raise Illegal(f"not a loop snapshot: {wrong}")
    return found


def _facts(found: LoopSnapshot) -> list[tuple[bool, str]]:
    """What must hold of every snapshot, whatever the configuration of its loop."""
    paused, stopped = found.phase == "paused", found.phase in STOPPED
    counted = found.iteration == (found.repair_count + 1 if found.iteration else found.repair_count)
    leavable = paused and found.pause_reason != EXHAUSTED
    return [
        ((found.phase == "idle") == (found.transition_sequence == 0), "it is idle exactly before its first transition"),
        (paused == _said(found.pause_reason), "it has a pause reason exactly while paused"),
        (leavable == _said(found.resume_phase), "it has a phase to resume exactly in a pause that can be left"),
        (stopped == _said(found.failure_code), "it has a failure code exactly when it failed or was stopped"),
        (paused or stopped or not _said(found.failure_message), "it has a message without a pause or a failure"),
        (counted, "its iterations are not one more than its repairs"),
        (_in_its_round(found), "its phase is not one of its iteration"),
        (not found.repeated_action_count or _said(found.last_action_fingerprint), "it repeats an action it never had"),
    ]


def _said(member: object) -> bool:
    return member is not msgspec.UNSET


def _in_its_round(found: LoopSnapshot) -> bool:
    phase = found.phase if found.resume_phase is msgspec.UNSET else found.resume_phase
    if phase in ("idle", "planning"):
        return found.iteration == 0
    if phase == "executing":
        return found.iteration == 1
    return phase in STOPPED or found.iteration >= (2 if phase == "repairing" else 1)


def taken(state: RunState, payload: dict[str, Any]) -> LoopSnapshot:
    """A loop record of ours, if it may follow what the run has recorded of its loop.

    Raises:
        Illegal: it is no snapshot, of another run or configuration, or does not follow the last one.
    """
    found, last = read_snapshot(payload), state.loop
    if found.run_id != state.run_id or found.config_fingerprint != state.start.get("configFingerprint"):
        raise Illegal("the loop snapshot is of another run or configuration")
    before = 0 if last is None else last["transitionSequence"]
    if found.transition_sequence != before + 1:
        raise Illegal(f"loop transition {found.transition_sequence} follows transition {before}")
    if last is not None and last["phase"] in ENDED:
        raise Illegal(f"the loop has {last['phase']} already")
    if state.state not in ("running", "aborting"):
        raise Illegal(f"a loop record while the operation is {state.state}")
    return found


def last_loop(state: RunState) -> dict[str, Any] | None:
    """The last word on the run's loop, whoever began the journal."""
    return state.loop if state.own else state.theirs.loop


def is_exhausted(state: RunState) -> bool:
    """Is the run paused because its loop is used up? No resume leaves that (contract #213, W40)."""
    loop = last_loop(state)
    if loop is None or (loop["phase"], loop.get("pauseReason")) != ("paused", EXHAUSTED):
        return False
    return state.state == "paused" or not state.own
