"""What is understood of journals that another program began: calls, receipts and their bindings, lifecycles, inputs."""

from typing import Any

import msgspec
import pytest

from clew.core.capability import Capability, resolve
from clew.core.folding import fold
from clew.core.foreign import ForeignCall
from clew.core.resume import Facts, Offered, prepare_run_resume
from clew.core.state import RunState
from clew.errors import Corrupt, Refused
from tests.histories import foreign

RUN = "run-1"
KEY = f"{RUN}:s1:c1"
BEGUN = ("start", {"configFingerprint": "x"})
WRITE = resolve("write", "external")
FETCH = resolve("web-fetch", "network", "unknown")
LOOK = resolve("look", "none")
SHA = "a" * 64

Payload = tuple[str, dict[str, Any]]


def said(kind: str, **members: Any) -> Payload:
    """An event; a member that is None is left out."""
    return "event", {"event": {"type": kind, **{name: value for name, value in members.items() if value is not None}}}


def call(tool: str = "write", **members: Any) -> Payload:
    """A call that was proposed."""
    told = {"agent": "main", "stepId": "s1", "callId": "c1", "turnId": "t1", "argumentsFingerprint": SHA}
    return said("tool_call", **{"tool": tool, **told, "idempotencyKey": KEY, **members})


def capable(capability: Capability = WRITE, **members: Any) -> Payload:
    """What its tool says of itself."""
    told = {"agent": "main", "stepId": "s1", "callId": "c1", "tool": capability.tool}
    resolved = {"capability": capability.as_json(), "recoveryDisposition": capability.disposition}
    return said("capability_resolved", **{**told, **resolved, **members})


def receipt(status: str | None, **members: Any) -> Payload:
    """A receipt as old programs wrote it, bound to nothing."""
    return said("effect_receipt", **{"idempotencyKey": KEY, "tool": "write", "status": status, **members})


def bound(status: str, changes: dict[str, Any] | None = None, **members: Any) -> Payload:
    """A receipt with a binding."""
    told = {"agent": "main", "stepId": "s1", "callId": "c1", "tool": "write", "turnId": "t1"}
    binding = {
        "version": 1, "runId": RUN, **told, "argumentsFingerprint": SHA, "capabilityFingerprint": WRITE.fingerprint(),
    }  # fmt: skip
    return receipt(status, **{**told, "binding": {**binding, **(changes or {})}, **members})


def lifecycle(effect_state: Any, **members: Any) -> Payload:
    """What the lifecycle of the call says of its effect."""
    told = {"agent": "main", "stepId": "s1", "callId": "c1", "tool": "write"}
    resolution = {"phase": "observed", "status": "completed", "result": {"effectState": effect_state}}
    return said("tool_lifecycle", **{**told, "resolution": resolution, **members})


def output(step: str = "s1", **members: Any) -> Payload:
    """The output of a step."""
    return said("step_output", stepId=step, text="done", **members)


def theirs(*payloads: Payload) -> RunState:
    """The state of a run in which this was said."""
    return fold(foreign(BEGUN, *payloads, run_id=RUN), RUN)


def code_of(*payloads: Payload) -> str:
    """The code of the refusal."""
    with pytest.raises(Corrupt) as caught:
        theirs(*payloads)
    return caught.value.code


def judged(state: RunState, capability: Capability = WRITE) -> list[tuple[str, str]]:
    """What the plan says of each call while this tool is offered."""
    steps = prepare_run_resume(state, None, Facts(0, {capability.tool: Offered(capability)})).steps
    return [(step.decision, step.reason) for step in steps]


def statuses(state: RunState) -> list[tuple[str, int]]:
    return [(found.status, found.attempt) for found in state.calls.values()]


# Calls and what their tools say.


def test_a_name_alone_proves_nothing() -> None:
    """Contract #81: an old `read` without a capability fact may have been anything."""
    assert [("review", "unknown_effect")] == judged(theirs(call("read")))


def test_a_free_capability_of_the_very_call_proves_that_nothing_happened() -> None:
    """Contract #82: of the same agent, step and call; what another one says proves nothing for it."""
    others = [{"agent": "second"}, {"stepId": "s2"}, {"callId": "c2"}]
    same = judged(theirs(call("look"), capable(LOOK)), LOOK)
    other = [judged(theirs(call("look"), capable(LOOK, **members)), LOOK) for members in others]

    assert ([("run", "not_started")], [[("review", "unknown_effect")]] * 3) == (same, other)


def test_reading_from_the_network_is_not_safe_to_repeat() -> None:
    """Contract #83: a one-time link or a paid search is used up by looking at it."""
    assert [("review", "unknown_effect")] == judged(theirs(call("web-fetch"), capable(FETCH)), FETCH)


def test_a_call_without_a_key_is_a_call_too() -> None:
    """Contract #84: what cannot be looked up outside is no less uncertain; its key follows from run, step and call."""
    state = theirs(call(idempotencyKey=None), call(idempotencyKey=None, stepId=None, callId="c2"))

    assert [("review", "unknown_effect")] * 2 == judged(state)
    assert [KEY, f"{RUN}:c2"] == [found.key for found in state.calls.values()]


def test_a_call_said_twice_is_one_call_and_keeps_its_receipt() -> None:
    """A second beginning must not make a started effect look as if it had never started."""
    state = theirs(call(), receipt("started"), call())

    assert [("started", 1)] == statuses(state)


@pytest.mark.parametrize("change", [{"tool": "read"}, {"argumentsFingerprint": "b" * 64}], ids=str)
def test_a_key_stands_for_one_call(change: dict[str, Any]) -> None:
    """Contract #118: receipts of the one would speak for the other."""
    assert "effect_receipt_conflict" == code_of(call(), call(**change))


def test_two_agents_that_share_a_key_have_two_calls() -> None:
    """W22: the reference's keys leave the agent out, so a receipt of one agent must not settle the other's effect."""
    second = call("read", agent="second")
    named = theirs(call(), second, receipt("started", agent="second"))
    unnamed = theirs(call(), second, receipt("started"))
    third = theirs(call(), second, call("look", agent="third"), receipt("started"))

    assert [("", 0), ("started", 1)] == statuses(named)
    assert [("started", 1)] * 2 == statuses(unnamed)
    assert [("started", 1)] * 3 == statuses(third)


def test_a_capability_does_not_change_within_the_run() -> None:
    """Contract #118: what may be repeated was decided when the call was made."""
    assert "effect_receipt_conflict" == code_of(call(), capable(), capable(resolve("write", "external", "idempotent")))


def test_an_old_call_beside_lifecycles_is_still_judged() -> None:
    """Contract #88: that newer calls have proofs of their own proves nothing for it."""
    older = call(idempotencyKey=None, callId="c0")
    state = theirs(older, call(), lifecycle("unknown"))

    assert [("review", "unknown_effect")] * 2 == judged(state)
    assert [("", 0), ("unknown", 1)] == statuses(state)


# Lifecycles: they are read, never written.


def test_an_effect_that_a_lifecycle_calls_unknown_is_unknown() -> None:
    """Contract #86: also where no receipt says so, and where one says more."""
    alone = theirs(call(), lifecycle("unknown"))
    beside = theirs(call(), receipt("started"), lifecycle("unknown"), receipt("committed"))

    assert ([("review", "unknown_effect")], [("unknown", 1)]) == (judged(alone), statuses(alone))
    assert [("unknown", 1)] == statuses(beside)


def test_of_a_free_call_a_lifecycle_says_nothing() -> None:
    """Contract #86: what is safe to repeat needs no answer to whether it happened."""
    state = theirs(call("look"), capable(LOOK), lifecycle("unknown"))

    assert [("run", "not_started")] == judged(state, LOOK)


def test_a_started_receipt_outweighs_a_lifecycle_that_is_behind() -> None:
    """Contract #87: a crash between the two writes leaves `not_started` beside `started`."""
    state = theirs(call(), lifecycle("not_started"), receipt("started"))

    assert ([("review", "unknown_effect")], [("started", 1)]) == (judged(state), statuses(state))


@pytest.mark.parametrize("said", ["started", "committed"])
@pytest.mark.parametrize("before", [(), ("not_started",)], ids=["no receipt", "not_started"])
def test_a_lifecycle_that_is_ahead_of_its_receipt_counts(said: str, before: tuple[str, ...]) -> None:
    """The same crash, the other way round."""
    state = theirs(call(), *map(receipt, before), lifecycle(said))

    assert [(said, 1)] == statuses(state)


def test_a_call_that_only_a_lifecycle_knows_is_a_call() -> None:
    """Its effect may have happened all the same, whatever a later fact says (#87)."""
    state = theirs(lifecycle("started"), lifecycle("not_started"))

    assert ([("review", "unknown_effect")], [("started", 1)]) == (judged(state), statuses(state))


@pytest.mark.parametrize("resolution", [None, {"phase": "executing"}, {"result": "none"}], ids=str)
def test_a_lifecycle_without_a_result_leaves_the_effect_as_it_was(resolution: Any) -> None:
    """Most of its facts are about other things."""
    state = theirs(call(), receipt("started"), lifecycle("", resolution=resolution))

    assert [("started", 1)] == statuses(state)


def test_a_lifecycle_with_an_unknown_word_is_refused() -> None:
    """A word that nobody knows must not read as "nothing happened"."""
    assert "run_state_corrupt" == code_of(call(), lifecycle("perhaps"))


# Receipts and what they are bound to.


def test_a_chain_of_bound_receipts_is_followed() -> None:
    """Contract #113: started, then its end, each bound to the same call; what they are bound to is our own copy."""
    end = bound("committed")
    state = theirs(call(), capable(), bound("started"), end)
    told = end[1]["event"]["binding"]
    before = dict(told)
    told["tool"] = "another"
    (found,) = state.calls.values()
    assert isinstance(found, ForeignCall)

    assert ([("review", "committed_effect_pending")], [("committed", 1)]) == (judged(state), statuses(state))
    assert before == msgspec.to_builtins(found.binding)


def test_a_bound_call_that_was_not_started_stays_bound() -> None:
    """Contract #113: the shortest chain; a denial belongs to its call as much as a start does."""
    state = theirs(call(), capable(), bound("not_started"))
    (found,) = state.calls.values()
    assert isinstance(found, ForeignCall)

    assert ([("not_started", 1)], True) == (statuses(state), found.binding is not None)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"runId": "run-2"},
        {"turnId": "t2"},
        {"agent": "second"},
        {"stepId": "s2"},
        {"callId": "c2"},
        {"tool": "read"},
        {"argumentsFingerprint": "a" * 63},
        {"capabilityFingerprint": "a" * 64 + "\n"},
    ],
    ids=str,
)
def test_a_binding_that_disagrees_with_its_call_is_refused(change: dict[str, Any]) -> None:
    """Contract #115: version, run, turn, agent, step, call, tool and the length of fingerprints."""
    assert "effect_receipt_conflict" == code_of(call(), capable(), bound("started", change))


@pytest.mark.parametrize("change", [{"turnId": "t2"}, {"tool": "read"}], ids=str)
def test_a_binding_that_disagrees_with_its_own_receipt_is_refused(change: dict[str, Any]) -> None:
    """Contract #115: then one of the two speaks of another call."""
    assert "effect_receipt_conflict" == code_of(call(), capable(), bound("started", **change))


@pytest.mark.parametrize(
    "changes",
    [{"argumentsFingerprint": "b" * 64}, {"capabilityFingerprint": "b" * 64}],
    ids=["arguments", "capability"],
)
def test_a_receipt_is_not_bound_anew(changes: dict[str, Any]) -> None:
    """Contract #89, #116: other arguments are another effect; the first receipt cannot have spoken of both."""
    assert "effect_receipt_conflict" == code_of(call(), capable(), bound("started"), bound("committed", changes))
    assert "effect_receipt_conflict" == code_of(call(), capable(), bound("started", changes))


def test_a_bound_receipt_is_not_followed_by_an_unbound_one() -> None:
    """Contract #116: a binding that can be dropped binds nothing."""
    assert "effect_receipt_conflict" == code_of(call(), capable(), bound("started"), receipt("committed"))


def test_a_second_turn_is_another_binding() -> None:
    """Contract #116: each of the two would be right by itself."""
    old = call(turnId=None)

    assert "effect_receipt_conflict" == code_of(
        old, capable(), bound("started"), bound("committed", {"turnId": "t2"}, turnId="t2")
    )


def test_an_old_unbound_start_stays_unbound() -> None:
    """Contract #117: a bound end proves nothing for a start that names nothing, so no binding is shown."""
    state = theirs(call(), capable(), receipt("started"), bound("committed"))
    (found,) = state.calls.values()
    assert isinstance(found, ForeignCall)

    assert ("committed", None) == (found.status, found.binding)


@pytest.mark.parametrize(
    "facts", [(), (call(),), (call("read"), capable()), (call(argumentsFingerprint=None), capable())]
)
def test_a_binding_needs_the_facts_that_it_names(facts: tuple[Payload, ...]) -> None:
    """Contract #118: the call and its capability stand in front of the receipt, as they were then."""
    assert "effect_receipt_conflict" == code_of(*facts, bound("started"))


def test_a_receipt_without_a_word_says_nothing() -> None:
    """It stays as doubtful as it was."""
    assert [("started", 1)] == statuses(theirs(call(), receipt("started"), receipt(None)))


@pytest.mark.parametrize(
    "order",
    [
        ("committed",),
        ("unknown",),
        ("started", "not_started"),
        ("started", "committed", "unknown"),
        ("started", "committed", "committed"),
        ("started", "unknown", "committed"),
        ("not_started", "started"),
    ],
    ids="-".join,
)
def test_receipts_that_contradict_are_refused(order: tuple[str, ...]) -> None:
    """Contract #114: no end without a start, no way back, no second end."""
    assert "effect_receipt_conflict" == code_of(call(), *map(receipt, order))


def test_a_receipt_under_a_shorter_key_is_still_the_calls() -> None:
    """Contract #110: the reference wrote that a refused call was not started under a key without its step."""
    state = theirs(call(), capable(), bound("not_started", idempotencyKey=f"{RUN}:c1"))

    assert [("not_started", 1)] == statuses(state)


# Answers.


def test_only_a_later_output_answers_a_call() -> None:
    """A loop goes through one step many times; what an earlier round said must not hide an open effect."""
    before = theirs(output(), call(), receipt("started"))
    behind = theirs(call(), receipt("started"), output())

    assert ([KEY], []) == tuple([found.key for found in state.unsettled()] for state in (before, behind))


@pytest.mark.parametrize("step", ["", None, 7])
def test_an_output_of_no_step_is_refused(step: Any) -> None:
    """It would answer every call that stands in no step."""
    assert "run_state_corrupt" == code_of(call(stepId=None), said("step_output", stepId=step, text="done"))


def test_an_output_that_is_an_error_counts_as_one() -> None:
    """The account of a foreign run shows what failed."""
    metrics = theirs(output(isError=True), output("s2")).metrics

    assert (1, 1) == (metrics.steps_failed, metrics.steps_succeeded)


# Loops.


def loop(**changes: Any) -> Payload:
    """A loop snapshot."""
    told = {
        "schemaVersion": 1, "machineVersion": "1", "runId": RUN, "configFingerprint": "x", "phase": "verifying",
        "iteration": 1, "repairCount": 0, "repeatedActionCount": 0, "transitionSequence": 4,
    }  # fmt: skip
    return "loop", {**told, **changes}


def test_the_last_loop_snapshot_is_kept() -> None:
    """Contract #69: it says where the loop of the other program stood."""
    state = theirs(loop(), loop(phase="repairing", repairCount=1, pauseReason="asked"))
    assert state.theirs.loop is not None

    assert ("repairing", 1, "asked") == tuple(
        state.theirs.loop[name] for name in ("phase", "repairCount", "pauseReason")
    )


@pytest.mark.parametrize(
    "change",
    [
        {"runId": "run-2"},
        {"configFingerprint": "y"},
        {"schemaVersion": 2},
        {"machineVersion": "2"},
        {"phase": "dreaming"},
        {"iteration": -1},
        {"repairCount": "0"},
        {"repeatedActionCount": True},
        {"transitionSequence": 1.5},
    ],
    ids=str,
)
def test_a_loop_snapshot_of_something_else_is_refused(change: dict[str, Any]) -> None:
    """Contract #69: another run, configuration or version, or numbers that cannot be counts."""
    assert "run_state_corrupt" == code_of(loop(**change))


# Inputs.


def an_input(*words: str, name: Any = "i1") -> list[Payload]:
    """What became of an input, a word an event."""
    kinds = {"pending": "input_receipt"}
    return [said(kinds.get(word, f"input_{word}"), inputId=name, status=word) for word in words]


@pytest.mark.parametrize("words", [("pending", "claimed", "completed"), ("pending", "discarded")])
def test_a_run_whose_input_is_over_does_not_go_on(words: tuple[str, ...]) -> None:
    """Contract #76, #78, W40: every door asks the same; no snapshot promises what a resume refuses."""
    with pytest.raises(Refused) as caught:
        judged(theirs(call(), *an_input(*words)))

    assert ("run_already_finished", True) == (caught.value.code, words[-1] in caught.value.message)


def test_a_run_whose_inputs_are_pending_or_claimed_is_judged() -> None:
    """Contract #78: several inputs are followed each by itself."""
    state = theirs(call(), *an_input("pending", "claimed"), *an_input("pending", name="i2"))

    assert ({"i1": "claimed", "i2": "pending"}, 1) == (state.theirs.inputs, len(judged(state)))


@pytest.mark.parametrize(
    "words",
    [
        ("claimed",),
        ("completed",),
        ("pending", "pending"),
        ("pending", "completed"),
        ("pending", "discarded", "claimed"),
        ("pending", "claimed", "completed", "discarded"),
    ],
    ids=str,
)
def test_an_input_that_cannot_have_gone_so_is_refused(words: tuple[str, ...]) -> None:
    """Contract #76: whether it is over cannot be told from a sequence that is impossible."""
    assert "run_state_corrupt" == code_of(*an_input(*words))


@pytest.mark.parametrize("name", [None, "", " ", 7])
def test_an_input_without_a_name_is_not_passed_over(name: Any) -> None:
    """W41: the reference skipped it, and with it perhaps the end of the run."""
    assert "run_state_corrupt" == code_of(*an_input("pending", name=name))


def test_a_turn_is_counted_by_its_end() -> None:
    """What was reported is measured, what was not is counted as unmeasured; 0 turns would be a lie."""
    state = theirs(said("turn_end", agent="main", tokens=7), said("turn_end", agent="main"))

    assert (2, 1, 7) == (state.metrics.turns, state.metrics.unmeasured_turns, state.metrics.tokens)


def test_an_input_whose_event_says_something_else_is_refused() -> None:
    """Its type and its status are two witnesses of one fact."""
    assert "run_state_corrupt" == code_of(said("input_receipt", inputId="i1", status="completed"))
