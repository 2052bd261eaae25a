"""The loop as a machine: which event leads where, what stops it, and that nothing but a passed check is success."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.loops import ENDED, WORKING
from clew.errors import ClewError, Corrupt, Refused, UsageError
from clew.loop import LoopConfig, LoopController, LoopEvent, LoopSnapshot, Transition
from clew.loop.machine import EVENTS, begin, restore, step

RUN = "r1"
PLANNING = LoopConfig(planning=True)
# From idle to each working phase.
WAYS: dict[str, list[Any]] = {
    "planning": ["START"],
    "executing": ["START", "PLANNED"],
    "verifying": ["START", "PLANNED", "EXECUTED"],
    "repairing": ["START", "PLANNED", "EXECUTED", "REJECTED"],
}


def driven(config: LoopConfig, *events: Any) -> LoopController:
    """A loop to which this has happened."""
    loop = LoopController(RUN, config)
    for event in events:
        kind, action = event if isinstance(event, tuple) else (event, "")
        loop.send(kind, action=action)
    return loop


def refused(loop: LoopController, kind: Any) -> str:
    """The code of the refusal; the loop must stand as it stood, and nobody may be told."""
    before, told = loop.snapshot, list[Transition]()
    loop.listen(told.append)
    with pytest.raises(Refused) as caught:
        loop.send(kind)
    assert (before, []) == (loop.snapshot, told)
    return caught.value.code


# The way through.


def test_a_failed_check_is_repaired_and_a_later_one_must_pass() -> None:
    """#211: a repair is no success; the check that follows it may be."""
    loop = driven(LoopConfig(), "START", "EXECUTED", "REJECTED")
    repairing = loop.phase
    loop.send("REPAIRED")
    checking = loop.phase
    loop.send("PASSED")

    assert ("repairing", "verifying", "succeeded") == (repairing, checking, loop.phase)


@pytest.mark.parametrize("phase", ["idle", "planning", "executing", "repairing"])
def test_nothing_but_a_check_is_passed(phase: str) -> None:
    """#211: success comes only from a passing check, so nowhere else can one be said to have passed."""
    loop = driven(PLANNING, *WAYS.get(phase, []))

    assert "loop_state_invalid" == refused(loop, "PASSED")


def test_a_plan_comes_before_the_deed() -> None:
    """#212: where planning is configured; the deed does not start by itself."""
    loop = driven(PLANNING, "START")

    assert ("planning", "loop_state_invalid") == (loop.phase, refused(loop, "EXECUTED"))
    assert "executing" == loop.send("PLANNED").phase


def test_without_planning_the_deed_is_first() -> None:
    """#212: nobody waits for a plan that nobody wants."""
    assert "executing" == driven(LoopConfig(), "START").phase


@pytest.mark.parametrize(
    ("config", "rejected"), [(LoopConfig(max_repairs=0), 1), (LoopConfig(max_iterations=1), 1), (LoopConfig(), 3)]
)
def test_a_used_up_loop_fails(config: LoopConfig, rejected: int) -> None:
    """#213: no repairs or no rounds left; by default after two repairs (#220)."""
    loop = driven(config, "START", "EXECUTED", "REJECTED", *["REPAIRED", "REJECTED"] * (rejected - 1))

    assert ("failed", "loop_exhausted", rejected) == (
        loop.phase, loop.snapshot.failure_code, loop.snapshot.iteration,
    )  # fmt: skip


def test_a_used_up_loop_pauses_where_that_is_wanted_and_resume_does_not_leave_it() -> None:
    """#213: what is used up stays used up; only its end can follow."""
    loop = driven(LoopConfig(max_repairs=0, on_exhausted="pause"), "START", "EXECUTED", "REJECTED")

    assert ("paused", "loop_exhausted") == (loop.phase, loop.snapshot.pause_reason)
    assert "loop_state_invalid" == refused(loop, "RESUME")
    assert "aborted" == loop.send("ABORT").phase


def test_a_pause_by_another_hand_is_never_taken_for_a_used_up_loop() -> None:
    """#213: the pause that nothing leaves must be the machine's own judgement."""
    loop = driven(LoopConfig(), "START")
    loop.send("PAUSE", code="loop_exhausted")

    assert "loop_paused" == loop.snapshot.pause_reason
    assert "executing" == loop.send("RESUME").phase


def test_a_failed_check_can_end_it_at_once() -> None:
    """#214: onFailure fail; no repair is tried."""
    loop = driven(LoopConfig(on_failure="fail"), "START", "EXECUTED", "REJECTED")

    assert ("failed", "verification_failed", 0) == (
        loop.phase, loop.snapshot.failure_code, loop.snapshot.repair_count,
    )  # fmt: skip


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize(("wanted", "phase"), [("fail", "failed"), ("pause", "paused")])
def test_the_same_action_again_and_again_is_no_progress(most: int, wanted: Any, phase: str) -> None:
    """#215: so often as it is configured, even once, the action may follow itself no more; nothing else is tried."""
    config = LoopConfig(max_iterations=9, max_repairs=9, max_repeated_action=most, on_exhausted=wanted)
    loop = driven(config, "START", ("EXECUTED", "a"), "REJECTED", *[("REPAIRED", "a"), "REJECTED"] * (most - 1))
    before = loop.phase

    loop.send("REPAIRED", action="a")

    found = loop.snapshot
    assert ("repairing", phase, "loop_no_progress", most) == (
        before, found.phase, found.failure_code or found.pause_reason, found.repeated_action_count,
    )  # fmt: skip


@pytest.mark.parametrize("actions", ["ab", "aba", "", ("", "", "")])
def test_other_actions_and_nameless_ones_are_progress(actions: Any) -> None:
    """#215: only the same one, twice in a row; of what has no fingerprint nobody knows that it is the same."""
    config = LoopConfig(max_iterations=9, max_repairs=9, max_repeated_action=1)
    loop = driven(config, "START", "EXECUTED", "REJECTED")
    for action in actions:
        loop.send("REPAIRED", action=action)
        loop.send("REJECTED")

    assert ("repairing", 0) == (loop.phase, loop.snapshot.repeated_action_count)


def test_a_pause_without_progress_is_left_for_one_more_check() -> None:
    """#215: a person may know better; from there the same action counts anew."""
    config = LoopConfig(max_repeated_action=1, on_exhausted="pause")
    loop = driven(config, "START", ("EXECUTED", "a"), "REJECTED", ("REPAIRED", "a"))

    found = loop.send("RESUME")

    assert ("verifying", 0) == (found.phase, found.repeated_action_count)


@pytest.mark.parametrize("phase", sorted(WORKING))
def test_a_pause_is_left_into_the_phase_in_which_it_began(phase: str) -> None:
    """#216: also when the loop was written down as JSON and restored in between; RESUME twice is an error (C49)."""
    loop = driven(PLANNING, *WAYS[phase])
    loop.send("PAUSE", code="policy_denied", message="not today")
    payload = json.loads(json.dumps(loop.snapshot.as_json()))

    again = LoopController.restore(payload, RUN, PLANNING)
    again.send("RESUME")

    assert ("paused", phase, phase) == (loop.phase, payload["resumePhase"], again.phase)
    assert "loop_state_invalid" == refused(again, "RESUME")


@pytest.mark.parametrize(
    ("kind", "phase", "code"),
    [
        ("ABORT", "aborted", "aborted"),
        ("TIMEOUT", "timeout", "run_timeout"),
        ("BUDGET_EXCEEDED", "budget_exceeded", "budget_exceeded"),
    ],
)
@pytest.mark.parametrize("way", [[], ["START"], ["START", "PAUSE"], *WAYS.values()], ids=str)
def test_abort_time_and_budget_end_it_anywhere(kind: Any, phase: str, code: str, way: list[Any]) -> None:
    """#218: each sets its own phase and code."""
    loop = driven(PLANNING, *way)

    loop.send(kind)

    assert (phase, code) == (loop.phase, loop.snapshot.failure_code)


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("end", sorted(ENDED))
def test_no_event_moves_a_loop_that_has_ended(end: str, kind: Any) -> None:
    """#218: and none is passed over in silence (W42)."""
    last = {"succeeded": "PASSED", "failed": "FAIL", "aborted": "ABORT", "timeout": "TIMEOUT"}
    loop = driven(PLANNING, *WAYS["verifying"], last.get(end, "BUDGET_EXCEEDED"))

    assert (end, "loop_state_invalid") == (loop.phase, refused(loop, kind))


def test_transitions_are_numbered_from_one_and_only_for_real_changes() -> None:
    """#219: whoever listens hears of each change once, and of a refused event never (W42)."""
    loop, told = LoopController(RUN), list[Transition]()
    loop.listen(told.append)
    loop.send("START")
    with pytest.raises(Refused):
        loop.send("REPAIRED")
    loop.send("EXECUTED")

    assert [(1, "idle", "executing", "START"), (2, "executing", "verifying", "EXECUTED")] == [
        (each.number, each.before, each.after, each.trigger) for each in told
    ]
    assert [1, 2] == [each.snapshot.transition_sequence for each in told]


def test_the_defaults_are_the_contracts() -> None:
    """#220: three rounds, two repairs, two repeats; repair what failed, fail what is used up."""
    config = LoopConfig()

    assert (3, 2, 2, "repair", "fail", False) == (
        config.max_iterations, config.max_repairs, config.max_repeated_action, config.on_failure,
        config.on_exhausted, config.planning,
    )  # fmt: skip


def test_a_message_is_kept_short() -> None:
    """A snapshot is a record; what a check said at length is the answer of its step."""
    loop = driven(LoopConfig(on_failure="fail"), "START", "EXECUTED")

    found = loop.send("REJECTED", message="x" * 9000)

    assert 2000 == len(str(found.failure_message))


# Configuration and restoring.


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_iterations": 0},
        {"max_iterations": True},
        {"max_iterations": 2.0},
        {"max_repairs": -1},
        {"max_repairs": "2"},
        {"max_repeated_action": 0},
        {"on_failure": "retry"},
        {"on_exhausted": None},
        {"planning": 1},
    ],
    ids=str,
)
def test_a_configuration_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    """#217: `loop_config_invalid`, before anything is done under it."""
    with pytest.raises(UsageError) as caught:
        LoopConfig(**wrong)

    assert "loop_config_invalid" == caught.value.code


def test_two_configurations_have_two_fingerprints() -> None:
    """#217: by it a snapshot knows its own."""
    prints = {LoopConfig().fingerprint(), LoopConfig(max_repairs=1).fingerprint(), LoopConfig().fingerprint()}

    assert 2 == len(prints)


@pytest.mark.parametrize(
    ("change", "family", "code"),
    [
        ({"schemaVersion": 2}, Corrupt, "loop_snapshot_invalid"),
        ({"machineVersion": "0"}, Corrupt, "loop_snapshot_invalid"),
        ({"iteration": -1}, Corrupt, "loop_snapshot_invalid"),
        ({"repairCount": 0.5}, Corrupt, "loop_snapshot_invalid"),
        ({"transitionSequence": True}, Corrupt, "loop_snapshot_invalid"),
        ({"phase": "verifying"}, Corrupt, "loop_snapshot_invalid"),
        ({"runId": "r2"}, Refused, "loop_snapshot_mismatch"),
        ({"configFingerprint": "f" * 64}, Refused, "loop_snapshot_mismatch"),
    ],
    ids=str,
)
def test_a_snapshot_of_something_else_is_not_restored(change: Any, family: type[ClewError], code: str) -> None:
    """#217: version, run, configuration and counters must be its own; a guess would lead a loop astray."""
    payload = {**driven(LoopConfig(), "START").snapshot.as_json(), **change}
    if change == {"phase": "verifying"}:
        payload["iteration"] = 0

    with pytest.raises(family) as caught:
        LoopController.restore(payload, RUN)

    assert code == caught.value.code


@pytest.mark.parametrize("payload", [None, [], "idle", {}])
def test_what_is_no_object_is_not_restored(payload: object) -> None:
    """#217: a snapshot comes from a file, and a file can hold anything."""
    with pytest.raises(Corrupt) as caught:
        restore(payload, run_id=RUN, config_fingerprint="f")

    assert "loop_snapshot_invalid" == caught.value.code


# Against a naive model, over whatever can happen.

configs = st.builds(
    LoopConfig,
    planning=st.booleans(),
    max_iterations=st.integers(1, 4),
    max_repairs=st.integers(0, 3),
    max_repeated_action=st.integers(1, 3),
    on_failure=st.sampled_from(["repair", "fail"]),
    on_exhausted=st.sampled_from(["fail", "pause"]),
)
# Mostly what leads on, so that sequences come far.
events = st.builds(
    LoopEvent,
    kind=st.sampled_from(
        [*["START", "PLANNED", "EXECUTED", "REJECTED", "REPAIRED"] * 3, "PASSED", "PAUSE", "RESUME", "FAIL", "ABORT",
         "TIMEOUT", "BUDGET_EXCEEDED"]
    ),
    action=st.sampled_from(["", "a", "a", "b"]),
    code=st.sampled_from(["", "policy_denied", "loop_exhausted"]),
)  # fmt: skip


class Model:
    """The loop by the letter of the contract, with nothing but variables. `None` from `move` is a refusal."""

    def __init__(self, config: LoopConfig) -> None:
        self.config = config
        self.phase = "idle"
        self.reason = self.back = ""
        self.repairs = self.repeats = self.moves = self.rounds = 0
        self.last = ""
        self.checked = False

    def move(self, event: LoopEvent) -> bool:
        after = self._after(event)
        if after:
            self.moves += 1
            self.reason, self.back = ("", "") if after != "paused" else (self.reason, self.back)
            self.rounds = max(self.rounds, self.repairs + (after in ("executing", "repairing")))
            self.phase = after
        return bool(after)

    def _after(self, event: LoopEvent) -> str:
        here, kind = self.phase, event.kind
        if here in ("succeeded", "failed", "aborted", "timeout", "budget_exceeded"):
            return ""
        if kind in ("ABORT", "TIMEOUT", "BUDGET_EXCEEDED"):
            return {"ABORT": "aborted", "TIMEOUT": "timeout"}.get(kind, "budget_exceeded")
        if here == "idle":
            return ("planning" if self.config.planning else "executing") if kind == "START" else ""
        if here == "paused":
            if kind == "FAIL":
                return "failed"
            if kind != "RESUME" or self.reason == "loop_exhausted":
                return ""
            self.repeats = 0
            return self.back
        if kind == "FAIL":
            return "failed"
        if kind == "PAUSE":
            self.reason, self.back = event.code.replace("loop_exhausted", "") or "loop_paused", here
            return "paused"
        if (here, kind) == ("planning", "PLANNED"):
            return "executing"
        if (here, kind) in (("executing", "EXECUTED"), ("repairing", "REPAIRED")):
            return self._acted(event.action)
        if (here, kind) == ("verifying", "PASSED"):
            self.checked = True
            return "succeeded"
        return self._rejected() if (here, kind) == ("verifying", "REJECTED") else ""

    def _acted(self, action: str) -> str:
        self.repeats = self.repeats + 1 if action and action == self.last else 0
        self.last = action
        return (
            "verifying"
            if self.repeats < self.config.max_repeated_action
            else self._over("loop_no_progress", "verifying")
        )

    def _rejected(self) -> str:
        if self.config.on_failure == "fail":
            return "failed"
        if self.repairs == self.config.max_repairs or self.repairs + 1 == self.config.max_iterations:
            return self._over("loop_exhausted", "")
        self.repairs += 1
        return "repairing"

    def _over(self, reason: str, back: str) -> str:
        if self.config.on_exhausted == "fail":
            return "failed"
        self.reason, self.back = reason, back
        return "paused"


@given(configs, st.lists(events, max_size=25))
def test_the_machine_is_the_model(config: LoopConfig, happened: list[LoopEvent]) -> None:
    """#211 to #219, over whatever happens; each snapshot on the way is one that can be restored, and goes on alike."""
    model, at = Model(config), begin(RUN, "f")
    for event in happened:
        before = at
        try:
            at = step(restore(at.as_json(), run_id=RUN, config_fingerprint="f"), event, config)
            moved = True
        except Refused:
            moved = False
        assert model.move(event) == moved == (at != before)
        assert seen(model) == found(at)
    assert (at.phase == "succeeded") == model.checked


def seen(model: Model) -> tuple[Any, ...]:
    return (model.phase, model.reason, model.back, model.repairs, model.repeats, model.moves, model.rounds)


def found(at: LoopSnapshot) -> tuple[Any, ...]:
    told = [word if word is not msgspec.UNSET else "" for word in (at.pause_reason, at.resume_phase)]
    return (at.phase, *told, at.repair_count, at.repeated_action_count, at.transition_sequence, at.iteration)
