"""The loop as a pure machine: plan, execute, verify, repair, and when it is over. Runs nothing and writes nothing."""

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from clew.core.calls import Illegal
from clew.core.canon import fingerprint
from clew.core.loops import ENDED, EXHAUSTED, MESSAGE_CHARS, WORKING, LoopSnapshot, Phase, read_snapshot
from clew.errors import Corrupt, Refused, UsageError

EventKind = Literal[
    "START", "PLANNED", "EXECUTED", "PASSED", "REJECTED", "REPAIRED", "PAUSE", "RESUME", "FAIL", "ABORT", "TIMEOUT",
    "BUDGET_EXCEEDED",
]  # fmt: skip
EVENTS: Final[tuple[EventKind, ...]] = EventKind.__args__  # type: ignore[attr-defined]  # a Literal's words


class LoopConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The limits of a loop, and what becomes of a failed check or of used-up limits.

    Attributes:
        planning: Is a plan made before anything is done?
        max_iterations: Rounds at most, each a deed and its check.
        max_repairs: Repairs at most.
        max_repeated_action: So often the same action may follow itself before the loop stops.
        on_failure: What a failed check means.
        on_exhausted: What used-up limits, and an action repeated too often, mean.

    Raises:
        UsageError: `loop_config_invalid`.

    Source:
        Contract #217, #220.
    """

    planning: bool = False
    max_iterations: int = 3
    max_repairs: int = 2
    max_repeated_action: int = 2
    on_failure: Literal["repair", "fail"] = "repair"
    on_exhausted: Literal["fail", "pause"] = "fail"

    def __post_init__(self) -> None:
        _check_config(self)

    def fingerprint(self) -> str:
        """SHA-256 of the configuration, 64 hex digits."""
        return fingerprint(msgspec.to_builtins(self))


def _check_config(config: LoopConfig) -> None:
    least = {"max_iterations": 1, "max_repairs": 0, "max_repeated_action": 1}
    for name, low in least.items():
        number = getattr(config, name)
        if type(number) is not int or number < low:
            raise invalid_config(f"{name} is {number!r}; it is a whole number from {low}")
    if type(config.planning) is not bool:
        raise invalid_config(f"planning is {config.planning!r}; it is True or False")
    for name, words in {"on_failure": ("repair", "fail"), "on_exhausted": ("fail", "pause")}.items():
        if getattr(config, name) not in words:
            raise invalid_config(f"{name} is {getattr(config, name)!r}; it is {words[0]!r} or {words[1]!r}")


def invalid_config(why: str) -> UsageError:
    """The error of a configuration that cannot be."""
    return UsageError(
        f"not a configuration of a loop: {why}",
        code="loop_config_invalid",
        next="Correct the LoopConfig or the functions that are given with it; see docs/loop.md.",
    )


class LoopEvent(msgspec.Struct, frozen=True):
    """What happened to a loop. `action`: the fingerprint of what was done, empty when it cannot be told."""

    kind: EventKind
    action: str = ""
    code: str = ""
    message: str = ""


class Transition(msgspec.Struct, frozen=True):
    """One real change of a loop: its number, from 1, from where to where, and by which event."""

    number: int
    before: Phase
    after: Phase
    trigger: EventKind
    snapshot: LoopSnapshot


def begin(run_id: str, config_fingerprint: str) -> LoopSnapshot:
    """A loop that has not started."""
    return LoopSnapshot(
        schema_version=1, machine_version="1", run_id=run_id, config_fingerprint=config_fingerprint, phase="idle",
        iteration=0, repair_count=0, repeated_action_count=0, transition_sequence=0,
    )  # fmt: skip


def restore(payload: object, *, run_id: str, config_fingerprint: str) -> LoopSnapshot:
    """A loop as its snapshot says.

    Raises:
        Corrupt: `loop_snapshot_invalid` for another version or shape, or facts that do not fit together.
        Refused: `loop_snapshot_mismatch` when it is of another run or configuration.

    Source:
        Contract #216, #217.
    """
    try:
        found = read_snapshot(payload)
    except Illegal as fault:
        raise Corrupt(
            fault.why,
            code="loop_snapshot_invalid",
            next="Take the snapshot from the run's journal, as it stands there.",
        ) from None
    for what, said, wanted in (
        ("run", found.run_id, run_id),
        ("configuration", found.config_fingerprint, config_fingerprint),
    ):
        if said != wanted:
            raise Refused(
                f"the loop snapshot is of another {what}: {said!r}, not {wanted!r}",
                code="loop_snapshot_mismatch",
                next="Restore it in the run and under the configuration that it was taken in.",
                snapshot=said,
                wanted=wanted,
            )
    return found


def step(at: LoopSnapshot, event: LoopEvent, config: LoopConfig) -> LoopSnapshot:
    """The loop after an event. Success comes from a check that passed, and from nothing else.

    Raises:
        Refused: `loop_state_invalid` when the event does not fit the phase; every phase that has ended fits none.

    Source:
        Contract #211 to #218; W42.
    """
    if at.phase not in ENDED:
        called_off = _ANYWHERE.get(event.kind)
        if called_off is not None:
            phase, code = called_off
            return _moved(at, phase, failure_code=code, failure_message=_short(event.message))
        move = _MOVES.get((at.phase, event.kind))
        if move is not None and (event.kind != "RESUME" or at.pause_reason != EXHAUSTED):
            return move(at, event, config)
    raise Refused(
        f"the loop of run {at.run_id!r} is {_standing(at)}; {event.kind} does not fit",
        code="loop_state_invalid",
        next="Send what fits the phase; see the table in docs/loop.md.",
        run=at.run_id,
        phase=at.phase,
        event=event.kind,
    )


def _standing(at: LoopSnapshot) -> str:
    return at.phase if at.pause_reason is msgspec.UNSET else f"{at.phase} ({at.pause_reason})"


def _moved(at: LoopSnapshot, phase: Phase, **changes: Any) -> LoopSnapshot:
    """One transition on; what only the old phase had is gone."""
    gone = dict.fromkeys(("pause_reason", "resume_phase", "failure_code", "failure_message"), msgspec.UNSET)
    return msgspec.structs.replace(
        at, phase=phase, transition_sequence=at.transition_sequence + 1, **{**gone, **changes}
    )


def _short(message: str) -> str | msgspec.UnsetType:
    return message[:MESSAGE_CHARS] if message else msgspec.UNSET


def _start(at: LoopSnapshot, event: LoopEvent, config: LoopConfig) -> LoopSnapshot:
    return _moved(at, "planning") if config.planning else _planned(at, event, config)


def _planned(at: LoopSnapshot, event: LoopEvent, config: LoopConfig) -> LoopSnapshot:
    return _moved(at, "executing", iteration=1)


def _acted(at: LoopSnapshot, event: LoopEvent, config: LoopConfig) -> LoopSnapshot:
    """Something was done: on to its check, unless it is what was done too often already (contract #215)."""
    # An action that cannot be told is kept as absent, and nothing equals that.
    same = event.action == at.last_action_fingerprint
    count = at.repeated_action_count + 1 if same else 0
    seen = {"repeated_action_count": count, "last_action_fingerprint": event.action or msgspec.UNSET}
    if count < config.max_repeated_action:
        return _moved(at, "verifying", **seen)
    message = f"the same action {count + 1} times in a row"
    if config.on_exhausted == "fail":
        return _moved(at, "failed", failure_code="loop_no_progress", failure_message=message, **seen)
    # A person may know better: then it is checked after all, and counted anew.
    reason = {"pause_reason": "loop_no_progress", "resume_phase": "verifying", "failure_message": message}
    return _moved(at, "paused", **reason, **seen)


def _passed(at: LoopSnapshot, event: LoopEvent, config: LoopConfig) -> LoopSnapshot:
    return _moved(at, "succeeded")


def _rejected(at: LoopSnapshot, event: LoopEvent, config: LoopConfig) -> LoopSnapshot:
    """The check did not pass: repair, unless that is not wanted or not left (contract #211, #213, #214)."""
    if config.on_failure == "fail":
        return _moved(at, "failed", failure_code="verification_failed", failure_message=_short(event.message))
    if at.repair_count < config.max_repairs and at.iteration < config.max_iterations:
        return _moved(at, "repairing", repair_count=at.repair_count + 1, iteration=at.iteration + 1)
    message = f"no check passed in {at.iteration} round{'s' if at.iteration > 1 else ''}"
    if config.on_exhausted == "fail":
        return _moved(at, "failed", failure_code=EXHAUSTED, failure_message=message)
    return _moved(at, "paused", pause_reason=EXHAUSTED, failure_message=message)


def _paused(at: LoopSnapshot, event: LoopEvent, config: LoopConfig) -> LoopSnapshot:
    # The words of the limits are the machine's own.
    reason = "loop_paused" if event.code in ("", EXHAUSTED) else event.code
    return _moved(at, "paused", pause_reason=reason[:128], resume_phase=at.phase, failure_message=_short(event.message))


def _resumed(at: LoopSnapshot, event: LoopEvent, config: LoopConfig) -> LoopSnapshot:
    assert at.resume_phase is not msgspec.UNSET, "read_snapshot: a pause that can be left has its phase"
    return _moved(at, at.resume_phase, repeated_action_count=0)


def _failed(at: LoopSnapshot, event: LoopEvent, config: LoopConfig) -> LoopSnapshot:
    code = event.code[:128] or "loop_failed"
    return _moved(at, "failed", failure_code=code, failure_message=_short(event.message))


Move = Callable[[LoopSnapshot, LoopEvent, LoopConfig], LoopSnapshot]

_ANYWHERE: Final[dict[EventKind, tuple[Phase, str]]] = {
    "ABORT": ("aborted", "aborted"),
    "TIMEOUT": ("timeout", "run_timeout"),
    "BUDGET_EXCEEDED": ("budget_exceeded", "budget_exceeded"),
}
_MOVES: Final[dict[tuple[str, EventKind], Move]] = {
    ("idle", "START"): _start,
    ("planning", "PLANNED"): _planned,
    ("executing", "EXECUTED"): _acted,
    ("repairing", "REPAIRED"): _acted,
    ("verifying", "PASSED"): _passed,
    ("verifying", "REJECTED"): _rejected,
    ("paused", "RESUME"): _resumed,
    ("paused", "FAIL"): _failed,
    **{(phase, "PAUSE"): _paused for phase in sorted(WORKING)},
    **{(phase, "FAIL"): _failed for phase in sorted(WORKING)},
}


class LoopController:
    """One loop that is driven from outside: it is sent what happened, and tells its listeners of each real change.

    Lives in memory; whoever drives it keeps its snapshots. In a run, `clew.loop.loop` drives one and keeps them.

    Source:
        Contract §3.S; DESIGN §3 "loop".
    """

    def __init__(self, run_id: str, config: LoopConfig | None = None, *, config_fingerprint: str = "") -> None:
        self.config = config or LoopConfig()
        self.snapshot = begin(run_id, config_fingerprint or self.config.fingerprint())
        self._listeners: list[Callable[[Transition], None]] = []

    @classmethod
    def restore(
        cls, payload: object, run_id: str, config: LoopConfig | None = None, *, config_fingerprint: str = ""
    ) -> "LoopController":
        """A loop as its snapshot says, in the phase it was in; errors as `machine.restore`."""
        made = cls(run_id, config, config_fingerprint=config_fingerprint)
        wanted = made.snapshot.config_fingerprint
        made.snapshot = restore(payload, run_id=run_id, config_fingerprint=wanted)
        return made

    @property
    def phase(self) -> Phase:
        """Where the loop stands."""
        return self.snapshot.phase

    def listen(self, listener: Callable[[Transition], None]) -> None:
        """Tell `listener` of each transition from now on, after it has happened."""
        self._listeners.append(listener)

    def send(self, kind: EventKind, *, action: str = "", code: str = "", message: str = "") -> LoopSnapshot:
        """Move by an event; returns where the loop stands then.

        Raises:
            Refused: `loop_state_invalid` when the event does not fit; nothing has changed and nobody is told.
        """
        before = self.snapshot
        after = step(before, LoopEvent(kind, action, code, message), self.config)
        self.snapshot = after
        told = Transition(after.transition_sequence, before.phase, after.phase, kind, after)
        for listener in self._listeners:
            listener(told)
        return after
