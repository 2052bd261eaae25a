"""What each event does to a state, and what it may not do."""

from collections.abc import Callable
from typing import Any

import pytest

from clew.core import events, guarding
from clew.core.answers import Answer, beside
from clew.core.artifacts import stored
from clew.core.capability import resolve
from clew.core.checkpoint import ABSENT
from clew.core.compose import Move
from clew.core.events import Event
from clew.core.extensions import extension_lifecycle
from clew.core.happenings import HAPPENINGS, is_recorded_value
from clew.core.needs import Guarded
from clew.core.restored import Intent, restore_started
from clew.errors import Corrupt
from tests.histories import (
    CHARGE,
    EDIT,
    LOOK,
    RUN,
    Scribe,
    approval,
    completed,
    decided,
    denied,
    facts,
    paused,
    proposed,
    refold,
    returned,
    review,
    started,
    told,
)

CALL = facts()
SAID_PAUSE = events.control("k1", "f", "accepted", command={"type": "pause"})
DIGEST = "d" * 64


def run(*appends: list[Event]) -> Scribe:
    """A run in which this was said."""
    scribe = Scribe().born()
    for append in appends:
        scribe.say(*append)
    return scribe


def refused(scribe: Scribe, *said: Event) -> Corrupt:
    """Say what must not be said."""
    with pytest.raises(Corrupt) as error:
        scribe.compose(*said)
    return error.value


def tried(scribe: Scribe, *said: Event) -> str:
    """The code of the refusal, if it is one."""
    try:
        scribe.compose(*said)
    except Corrupt as error:
        return error.code
    return ""


def changed(event: Event, **members: Any) -> Event:
    """An event with other members; `...` takes one out."""
    return {name: value for name, value in {**event, **members}.items() if value is not ...}


IN_DOUBT = [started(CALL), [events.effect_receipt(CALL, "unknown")]]
NOT_KEPT = [started(CALL), [events.effect_receipt(CALL, "committed", persistence="failed")]]
WITHHELD = [started(CALL), [events.effect_receipt(CALL, "committed", persistence="withheld")]]


RESTORE = restore_started("restore-1", "k1", [Intent("a", ABSENT, ABSENT)], by="ann", reason="why")


def checkpointed() -> Scribe:
    """A run that keeps how `a` stood before an edit."""
    edit = facts(capability=EDIT)
    scribe = run(proposed(edit))
    scribe.say(guarding.kept(edit, 1, Guarded({"a": ABSENT})), events.effect_receipt(edit, "started"))
    return scribe


# Every event: what is missing.

TEMPLATES: dict[str, Callable[[], tuple[Scribe, Event]]] = {
    "tool_call": lambda: (run(), proposed(CALL)[0]),
    "capability_resolved": lambda: (run([proposed(CALL)[0]]), proposed(CALL)[1]),
    "effect_receipt": lambda: (run(proposed(CALL)), events.effect_receipt(CALL, "started")),
    "tool_attempt": lambda: (
        run(*IN_DOUBT, [review(CALL, "did_not_happen")]),
        events.tool_attempt(CALL, 2, "started"),
    ),
    "step_output": lambda: (run(), events.step_output("plan-1", "1")),
    "tool_result": lambda: (run(started(CALL), returned(CALL)[:2]), returned(CALL)[2]),
    "effect_review": lambda: (run(*IN_DOUBT), review(CALL, "happened")),
    "agent_start": lambda: (run(), events.agent_start("turn-1", "f")),
    "turn_end": lambda: (run([events.agent_start("turn-1", "f")]), events.turn_end("turn-1", None)),
    "approval_required": lambda: (run(), approval(CALL)),
    "approval_resolved": lambda: (run([approval(CALL)]), decided()),
    "context_compacted": lambda: (run(), {"type": "context_compacted", "summaryFingerprint": "f"}),
    "context_prefix": lambda: (run(), {"type": "context_prefix", "fingerprint": "f"}),
    "artifact_created": lambda: (run(), stored("report.txt", "d" * 64, 5, "text/plain", "hello")),
    "leg_ended": lambda: (run(), events.leg_ended(1)),
    "control": lambda: (run(), SAID_PAUSE),
    "extension_lifecycle": lambda: (run(), extension_lifecycle("guard", "1.0", "before-model", "succeeded", 3)),
    "restored": lambda: (checkpointed().opened("control"), RESTORE),
}
OPTIONAL = {"agent", "isError", "usage", "runId", "args", "previousReceiptId", "evidence", "resultRecorded", "reviewId"}
OPTIONAL_OF = {
    "effect_receipt": {"tool", "turnId", "runId"},
    "tool_result": {"tool", "turnId"},
    "artifact_created": {"preview"},
    "capability_resolved": {"tool"},
}
REQUIRED = [
    (kind, name)
    for kind, template in TEMPLATES.items()
    for name in template()[1]
    if name != "type" and name not in OPTIONAL | OPTIONAL_OF.get(kind, set())
]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_an_event_as_clew_writes_it_is_taken(kind: str) -> None:
    """Else the refusals below would prove nothing."""
    scribe, event = TEMPLATES[kind]()

    assert kind == scribe.say(event).batch.records[0].payload["event"]["type"]


@pytest.mark.parametrize(("kind", "name"), REQUIRED)
def test_an_event_without_one_of_its_members_is_refused(kind: str, name: str) -> None:
    """Nothing is defaulted on read (promise 4)."""
    scribe, event = TEMPLATES[kind]()

    assert "record" in refused(scribe, changed(event, **{name: ...})).message


@pytest.mark.parametrize(("kind", "name"), REQUIRED)
@pytest.mark.parametrize("value", [None, [], True, "x", ""], ids=repr)
def test_an_event_that_says_something_else_is_refused_or_says_it_of_itself(kind: str, name: str, value: Any) -> None:
    """A member of another type never crashes a reader."""
    scribe, event = TEMPLATES[kind]()
    code = tried(scribe, changed(event, **{name: value}))

    assert code in ("run_state_corrupt", "effect_receipt_conflict", "review_conflict", "")
    assert code or isinstance(value, str)


def test_every_event_that_moves_a_state_has_its_case_here() -> None:
    """A new event must be refused when it is broken, too."""
    assert set(HAPPENINGS) - {"agent_end"} == set(TEMPLATES)


# Calls.


def test_a_call_is_counted_and_waits() -> None:
    """It is pending until it has its answer."""
    state = run(proposed(CALL)).state

    assert (["pay-1"], 1, 1) == (
        [call.step_id for call in state.unanswered()],
        state.metrics.tool_calls,
        state.numbers.get("pay"),
    )


@pytest.mark.parametrize("key", [f"{RUN}:pay-1:c2", f"{RUN}:pay-2:c1", "other:pay-1:c1", f"{RUN}:pay-1"])
def test_a_key_follows_from_run_step_and_call(key: str) -> None:
    """Promise 3: one key."""
    error = refused(run(), changed(proposed(CALL)[0], idempotencyKey=key))

    assert "does not follow" in error.message


@pytest.mark.parametrize("name", ["stepId", "callId"])
def test_a_name_that_cannot_be_part_of_a_key_is_refused_as_corrupt(name: str) -> None:
    """A reader's error is about the journal, not about its own arguments."""
    error = refused(run(), changed(proposed(CALL)[0], **{name: "a:b"}))

    assert "run_state_corrupt" == error.code


@pytest.mark.parametrize(
    "before",
    [proposed(CALL), [events.step_output("pay-1", "1")], [events.agent_start("pay-1", "f")]],
    ids=["call", "step", "turn"],
)
def test_a_step_id_is_taken_once(before: list[Event]) -> None:
    """Two calls under one key would be one effect."""
    error = refused(run(before), proposed(CALL)[0])

    assert "'pay-1' is taken" in error.message


@pytest.mark.parametrize(
    "event",
    [
        proposed(facts(2))[0],
        events.effect_receipt(CALL, "started"),
        events.agent_start("turn-1", "f"),
        events.agent_end("done"),
    ],
    ids=lambda event: event["type"],
)
def test_nothing_new_begins_while_aborting(event: Event) -> None:
    """Abort means: receipts and answers of what started before, nothing else."""
    scribe = run(proposed(CALL))
    scribe.say(Move("REQUEST_ABORT", "asked"))
    error = refused(scribe, event)

    assert "while the operation is aborting" in error.message


def test_what_started_before_is_kept_while_aborting() -> None:
    """What is known of an effect is never thrown away."""
    scribe = run(started(CALL))
    scribe.say(Move("REQUEST_ABORT", "asked"))
    scribe.say(*returned(CALL))

    assert [] == scribe.state.unsettled()


def test_call_ids_of_ours_are_counted_over_the_run_and_others_are_not() -> None:
    """A later leg goes on from the highest."""
    own = facts(7)
    framework = changed(proposed(facts(8))[0], callId="call_x9", idempotencyKey=f"{RUN}:pay-8:call_x9")
    state = run([proposed(own)[0]], [framework], [proposed(facts(3))[0]]).state

    assert (7, 8) == (state.numbers.get("call"), state.numbers.get("pay"))


def test_a_name_without_a_number_is_not_counted() -> None:
    """Only numbered steps need to go on from one."""
    state = run([events.step_output("plan", "1")], [events.step_output("plan-x", "1")]).state

    assert [] == list(state.numbers.items())


# Receipts.


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("runId", "other"),
        ("turnId", "turn-9"),
        ("stepId", "pay-2"),
        ("callId", "c2"),
        ("tool", "look"),
        ("argumentsFingerprint", "f" * 64),
        ("capabilityFingerprint", "f" * 64),
        ("agent", "other"),
        ("version", 2),
        ("version", True),
        ("version", None),
        ("runId", None),
        ("also", "x"),
    ],
)
def test_a_receipt_is_bound_to_its_call(member: str, value: Any) -> None:
    """It can never speak for another one (#115)."""
    right = events.effect_receipt(CALL, "started")
    error = refused(run(proposed(CALL)), changed(right, binding={**right["binding"], member: value}))

    assert "effect_receipt_conflict" == error.code


@pytest.mark.parametrize("member", ["version", "runId", "turnId", "agent", "stepId", "callId", "tool"])
def test_a_receipt_whose_binding_lacks_a_member_is_refused(member: str) -> None:
    """One that does not say what it is bound to could speak for any call (#115)."""
    right = events.effect_receipt(CALL, "started")
    bound = {name: value for name, value in right["binding"].items() if name != member}
    error = refused(run(proposed(CALL)), changed(right, binding=bound))

    assert "effect_receipt_conflict" == error.code


@pytest.mark.parametrize("binding", [None, [], "x"])
def test_a_receipt_without_a_binding_is_refused(binding: Any) -> None:
    """As above: nothing says whose it is (#115)."""
    error = refused(run(proposed(CALL)), changed(events.effect_receipt(CALL, "started"), binding=binding))

    assert "effect_receipt_conflict" == error.code


def test_a_receipt_under_another_key_is_refused() -> None:
    """Promise 3."""
    error = refused(run(proposed(CALL)), changed(events.effect_receipt(CALL, "started"), idempotencyKey="k"))

    assert "effect_receipt_conflict" == error.code


def test_a_receipt_before_its_capability_is_refused() -> None:
    """What may happen after a crash must be on disk before anything starts."""
    error = refused(run([proposed(CALL)[0]]), events.effect_receipt(CALL, "started"))

    assert "effect_receipt_conflict" == error.code


@pytest.mark.parametrize("status", ["not_started", "started", "committed", "unknown"])
def test_a_receipt_is_given_once(status: Any) -> None:
    """An attempt has one end; a second receipt of it is a contradiction (#114)."""
    appends = {
        "not_started": [[*proposed(CALL), events.effect_receipt(CALL, "not_started")]],
        "started": [started(CALL)],
        "committed": NOT_KEPT,
        "unknown": IN_DOUBT,
    }[status]
    error = refused(run(*appends), events.effect_receipt(CALL, status))

    assert "effect_receipt_conflict" == error.code


@pytest.mark.parametrize("status", ["committed", "unknown"])
def test_an_end_needs_a_start(status: Any) -> None:
    """What never started cannot have ended."""
    error = refused(run(proposed(CALL)), events.effect_receipt(CALL, status))

    assert "effect_receipt_conflict" == error.code


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"attempt": 1}, "another id"),
        ({"attempt": 3}, "another id"),
        ({"attemptId": f"{CALL.key}#3"}, "another id"),
        ({"attempt": 3, "attemptId": f"{CALL.key}#3"}, "cannot follow attempt 1"),
        ({"tool": "look"}, "another call"),
        ({"argumentsFingerprint": "f" * 64}, "another call"),
        ({"status": "committed"}, "cannot follow"),
    ],
    ids=str,
)
def test_a_second_attempt_is_bound_to_its_call(changes: dict[str, Any], why: str) -> None:
    """It keeps the key, the tool and the arguments."""
    scribe, event = TEMPLATES["tool_attempt"]()
    error = refused(scribe, changed(event, **changes))

    assert ("effect_receipt_conflict", True) == (error.code, why in error.message)


@pytest.mark.parametrize(
    "appends",
    [
        [started(CALL)],
        IN_DOUBT,
        NOT_KEPT,
        WITHHELD,
        [*IN_DOUBT, [review(CALL, "happened")]],
        [*IN_DOUBT, [review(CALL, "give_up")]],
        [*IN_DOUBT, [review(CALL, "did_not_happen", result_recorded=True)]],
        [started(CALL), returned(CALL)],
    ],
    ids=["started", "unknown", "not kept", "withheld", "happened", "given up", "torn review", "answered"],
)
def test_a_second_attempt_needs_the_proof_that_the_first_did_not_happen(appends: list[list[Event]]) -> None:
    """Promise 2."""
    error = refused(run(*appends), events.tool_attempt(CALL, 2, "started"))

    assert "effect_receipt_conflict" == error.code


def test_a_second_attempt_is_counted_and_uses_the_review_up() -> None:
    """The settlement spoke of the first one."""
    scribe, event = TEMPLATES["tool_attempt"]()
    scribe.say(event)
    (call,) = scribe.state.calls.values()

    assert (2, "started", None, 1) == (call.attempt, call.status, call.review, scribe.state.metrics.retries)


@pytest.mark.parametrize("capability", [CHARGE, EDIT], ids=lambda capability: capability.tool)
def test_an_idempotent_call_may_start_again_while_open(capability: Any) -> None:
    """The same key twice is one effect."""
    call = facts(1, capability)
    state = run(started(call), started(call, 2)).state

    assert [call.key] == [found.key for found in state.unsettled()]


def test_a_call_that_a_person_denied_may_start_as_its_second_attempt() -> None:
    """It is asked anew on resume, and its key carries a receipt already."""
    scribe = run([*proposed(CALL), events.effect_receipt(CALL, "not_started")])
    scribe.say(events.tool_attempt(CALL, 2, "started"))

    assert [2] == [call.attempt for call in scribe.state.unsettled()]


# Answers.


@pytest.mark.parametrize("appends", [IN_DOUBT, NOT_KEPT, WITHHELD], ids=["unknown", "not kept", "withheld"])
def test_an_unknown_outcome_is_never_an_answer(appends: list[list[Event]]) -> None:
    """Promise 2: only a settlement can bring the answer of such a call."""
    error = refused(run(*appends), told(CALL))

    assert "only a review can bring its answer" in error.message


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ([started(CALL), returned(CALL)], told(CALL)),
        ([[events.step_output("plan-1", "1")]], events.step_output("plan-1", "1")),
        ([[events.agent_start("turn-1", "f")], [events.step_output("turn-1", "1")]], events.step_output("turn-1", "1")),
    ],
    ids=["call", "step", "turn"],
)
def test_a_step_is_answered_once(before: list[list[Event]], event: Event) -> None:
    """What the agent was told is never changed."""
    error = refused(run(*before), event)

    assert "has its answer already" in error.message


def test_an_answered_call_waits_no_more() -> None:
    """Its prefix without `committed` is stable already."""
    scribe = run(started(CALL), [told(CALL)])

    assert ([], ["pay-1"]) == (scribe.state.unanswered(), scribe.state.completed_steps())


def test_an_answer_beside_the_journal_is_known_by_its_digest() -> None:
    """The plan must be able to miss it."""
    scribe = run(started(CALL), [beside("pay-1", Answer(1), "1", DIGEST, 1)])

    assert [DIGEST] == [call.answer.blob for call in scribe.state.calls.values() if call.answer]


WHOLE = {"sha256": DIGEST, "sizeBytes": 1, "mediaType": "application/json"}


@pytest.mark.parametrize(
    "blob",
    [None, "d", {}, {"sha256": 1}, *({**WHOLE, name: value} for name, value in {"sha256": "d" * 63, "sizeBytes": "1",
     "mediaType": None}.items())],
    ids=repr,
)  # fmt: skip
def test_an_answer_whose_blob_cannot_be_read_is_refused(blob: Any) -> None:
    """Its preview must never pass for the whole answer."""
    error = refused(run(started(CALL)), {**told(CALL), "blob": blob})

    assert "names no blob" in error.message


def test_a_recorded_clock_reading_is_no_answer_of_a_step() -> None:
    """Else three legs that only read the clock would look like progress."""
    state = run([events.step_output("now-1", "1")], [events.step_output("plan.random-2", "1")]).state

    assert (0, 0, 1) == (state.answers, state.metrics.steps_succeeded, state.numbers.get("now"))


@pytest.mark.parametrize("step", ["now-1", "a.b.random-12", "uuid-1"])
def test_recorded_values_are_told_by_their_ids(step: str) -> None:
    """They ride in front of other appends."""
    assert is_recorded_value(step)


@pytest.mark.parametrize("step", ["know-1", "now", "now-1.plan-1", "plan-1"])
def test_steps_are_not_taken_for_recorded_values(step: str) -> None:
    """A step counts as progress."""
    assert not is_recorded_value(step)


def test_calls_turns_and_steps_are_steps_and_count_once() -> None:
    """Metrics count what began and how it ended, whoever began it."""
    state = run(
        started(CALL),
        returned(CALL),
        [events.agent_start("turn-1", "f")],
        [events.step_output("turn-1", "1"), events.turn_end("turn-1", None)],
        [events.step_output("plan-1", "1")],
        started(facts(2)),
    ).state

    assert (4, 3, 0, 3) == (
        state.metrics.steps_started,
        state.metrics.steps_succeeded,
        state.metrics.steps_failed,
        state.answers,
    )


def test_error_answers_count_as_failed_steps() -> None:
    """Metrics say what happened."""
    metrics = run(denied(CALL)).state.metrics

    assert (1, 0, 1) == (metrics.steps_failed, metrics.steps_succeeded, metrics.tool_failures)


def test_a_result_without_its_answer_is_refused() -> None:
    """The note that there is an answer stands behind it."""
    error = refused(run(started(CALL)), returned(CALL)[2])

    assert "without its answer" in error.message


@pytest.mark.parametrize("event", [returned(CALL)[2], review(CALL, "happened")], ids=lambda event: event["type"])
def test_what_is_said_of_a_call_carries_its_key(event: Event) -> None:
    """Promise 3: one key for call, receipt, attempt and review."""
    scribe = run(started(CALL), [told(CALL)]) if event["type"] == "tool_result" else run(*IN_DOUBT)
    error = refused(scribe, changed(event, idempotencyKey=facts(2).key))

    assert "carries the key" in error.message


# Reviews.


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"outcome": "maybe"}, "neither who nor what"),
        ({"source": "rumour"}, "neither who nor what"),
        ({"by": " "}, "names nobody"),
        ({"reason": ""}, "names nobody"),
        ({"attempt": 2}, "the last one is 1"),
        ({"attempt": True}, "no whole number"),
    ],
    ids=str,
)
def test_a_review_says_who_what_and_why(changes: dict[str, Any], why: str) -> None:
    """Nothing else than a named person, probe or tool decides."""
    error = refused(run(*IN_DOUBT), changed(review(CALL, "happened"), **changes))

    assert why in error.message


def test_a_review_id_is_used_once() -> None:
    """Repeated ids are refused."""
    other = facts(2)
    scribe = run(started(CALL), started(other), [review(CALL, "happened", review_id="r7")])
    error = refused(scribe, review(other, "happened", review_id="r7"))

    assert "'r7' is taken" in error.message


@pytest.mark.parametrize("outcome", ["happened", "did_not_happen", "give_up"])
def test_a_second_review_of_an_attempt_is_refused(outcome: str) -> None:
    """It would contradict what was acted upon, or say nothing new."""
    error = refused(run(*IN_DOUBT, [review(CALL, "give_up")]), review(CALL, outcome))

    assert "review_conflict" == error.code


@pytest.mark.parametrize(
    "appends", [[proposed(CALL)], [started(CALL), returned(CALL)]], ids=["never started", "answered"]
)
def test_a_review_needs_something_to_settle(appends: list[list[Event]]) -> None:
    """Settling what is settled would rewrite history."""
    error = refused(run(*appends), review(CALL, "happened", 1))

    assert error.code in ("run_state_corrupt", "review_conflict")


def test_a_committed_effect_cannot_have_not_happened() -> None:
    """It returned: that is known."""
    error = refused(run(*NOT_KEPT), review(CALL, "did_not_happen"))

    assert "review_conflict" == error.code


def test_a_review_whose_result_was_torn_off_counts_as_not_given() -> None:
    """The attempt is open still, and may be settled again."""
    scribe = run(*IN_DOUBT, [review(CALL, "happened", result_recorded=True)])
    doubtful = len(scribe.state.unsettled())
    scribe.say(review(CALL, "happened", result_recorded=True), told(CALL))

    assert (1, []) == (doubtful, scribe.state.unsettled())


def test_a_lost_blob_may_be_told_anew() -> None:
    """A result that nobody can read any more is given again by a person."""
    scribe = run(started(CALL), [beside("pay-1", Answer(1), "1", DIGEST, 1), *returned(CALL)[1:]])
    scribe.say(review(CALL, "happened", result_recorded=True), told(CALL))
    (call,) = scribe.state.calls.values()

    assert (None, 1) == (call.answer.blob if call.answer else "", scribe.state.answers)


# Turns.


def test_a_turn_that_was_asked_twice_was_paid_twice() -> None:
    """The answer of the first is lost, and its usage counts as unmeasured."""
    state = run([events.agent_start("turn-1", "f")], [events.agent_start("turn-1", "f")]).state

    assert (1, 1) == (state.metrics.turns, state.metrics.unmeasured_turns)


@pytest.mark.parametrize("asked", ["f", "g"])
def test_an_answered_turn_is_not_asked_again(asked: str) -> None:
    """Its answer is replayed."""
    scribe = run([events.agent_start("turn-1", "f")], [events.step_output("turn-1", "1")])

    assert "'turn-1' is taken" in refused(scribe, events.agent_start("turn-1", asked)).message


def test_a_turn_stays_in_its_step() -> None:
    """It is asked for again where it was asked, and nowhere else."""
    scribe = run([events.agent_start("turn-1", "f", "plan-1")])
    turn = scribe.state.turns.get("turn-1")

    assert "'turn-1' is taken" in refused(scribe, events.agent_start("turn-1", "f")).message
    assert (turn.path if turn else None) == "plan-1"


def test_a_turn_is_one_request() -> None:
    """Another one under its id would get its answer."""
    error = refused(run([events.agent_start("turn-1", "f")]), events.agent_start("turn-1", "g"))

    assert "'turn-1' is taken" in error.message


@pytest.mark.parametrize("before", [proposed(CALL), [events.step_output("pay-1", "1")]], ids=["call", "step"])
def test_a_turn_does_not_take_the_id_of_a_step(before: list[Event]) -> None:
    """The step's answer would be lost behind it."""
    error = refused(run(before), events.agent_start("pay-1", "f"))

    assert "has the id of a step" in error.message


@pytest.mark.parametrize(
    "before",
    [[], [[events.agent_start("turn-1", "f")], [events.step_output("turn-1", "1"), events.turn_end("turn-1", None)]]],
    ids=["never begun", "ended"],
)
def test_a_turn_ends_once(before: list[list[Event]]) -> None:
    """UsageError is counted once per provider message."""
    error = refused(run(*before), events.turn_end("turn-1", None))

    assert "ends without having begun" in error.message


def test_usage_is_counted_with_the_end_of_its_turn() -> None:
    """Once per provider message."""
    ends = [events.step_output("turn-1", "1"), events.turn_end("turn-1", {"tokens": 7})]
    metrics = run([events.agent_start("turn-1", "f")], ends).state.metrics

    assert (7, 0) == (metrics.tokens, metrics.unmeasured_turns)


def test_a_message_that_two_turns_report_is_counted_once() -> None:
    """C12: by the id that its provider gave it, the last report."""
    said = [{**events.turn_end(f"turn-{n}", {"tokens": 7 + n}), "messageId": "m1"} for n in (1, 2)]
    asked = [events.agent_start(f"turn-{n}", "f") for n in (1, 2)]
    state = refold(run(asked[:1], said[:1], asked[1:], said[1:]).data)

    assert (9, 1, 2) == (state.metrics.tokens, state.metrics.talk.repeats, state.metrics.talk.asked)


@pytest.mark.parametrize("name", ["", 7, ["m1"]])
def test_a_message_has_an_id_or_none(name: Any) -> None:
    """All that have none would be one."""
    error = refused(run([events.agent_start("turn-1", "f")]), {**events.turn_end("turn-1", None), "messageId": name})

    assert "names a message that has no id" in error.message


def test_a_turn_that_died_with_its_leg_is_not_measured() -> None:
    """C16: whoever limits or shows tokens must know that some are missing, also before it is asked again."""
    scribe = run([events.agent_start("turn-1", "f")])
    scribe.opened()
    lost = scribe.state.metrics.unmeasured_turns
    scribe.say(Move("PAUSE", "process_interrupted"), Move("RESUME"))
    scribe.say(events.agent_start("turn-1", "f"))
    scribe.say(events.step_output("turn-1", "1"), events.turn_end("turn-1", {"tokens": 7}))
    metrics = scribe.state.metrics

    assert (1, 1, 7, 1, 2, 0) == (
        lost, metrics.unmeasured_turns, metrics.tokens, metrics.turns, metrics.talk.asked, metrics.talk.open,
    )  # fmt: skip


def test_an_answered_turn_is_a_completed_step() -> None:
    """It replays like a call."""
    scribe = run(
        [events.agent_start("turn-1", "f")], [events.step_output("turn-1", "1"), events.turn_end("turn-1", None)]
    )

    assert ["turn-1"] == scribe.state.completed_steps()


# The end of the agent.


def test_the_agent_does_not_end_over_an_unsettled_effect() -> None:
    """Promise 8."""
    error = refused(run(*IN_DOUBT), events.agent_end("done"))

    assert f"{CALL.key!r} is unsettled" in error.message


def test_the_agent_ends_once() -> None:
    """Two outputs would be two runs."""
    error = refused(run([events.agent_end("done")]), events.agent_end("done"))

    assert "ends twice" in error.message


@pytest.mark.parametrize(("output", "chars"), [("settled", 7), ({"a": 1}, 0), (None, 0)])
def test_text_that_the_agent_returned_is_measured(output: Any, chars: int) -> None:
    """Only text has a length."""
    scribe = Scribe().born()
    scribe.say(*completed(output))

    assert chars == scribe.state.metrics.output_chars


# Approvals.


def test_an_approval_is_asked_for_once_by_name() -> None:
    """A decision must have one question."""
    error = refused(run([approval(CALL)]), approval(facts(2)))

    assert "'a1' is taken" in error.message


def test_an_approval_is_for_one_key() -> None:
    """A permission must not move to another effect."""
    error = refused(run(), changed(approval(CALL), idempotencyKey=facts(2).key))

    assert "does not follow" in error.message


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ([], decided()),
        ([[approval(CALL)], [decided()]], decided()),
        ([[approval(CALL)], [decided("a1", "deny")]], decided()),
        ([[approval(CALL)]], decided("a1", "perhaps")),
    ],
    ids=["never asked", "again", "another way", "no decision"],
)
def test_an_approval_is_decided_once(before: list[list[Event]], event: Event) -> None:
    """Nobody can change a decision that was acted upon."""
    error = refused(run(*before), event)

    assert "not open or not decided" in error.message


# Legs and commands.


def test_a_leg_ends_by_its_number() -> None:
    """Only its own writer closes it."""
    error = refused(run(), events.leg_ended(2))

    assert "leg 2 is not the open one" in error.message


def test_a_leg_that_ended_claims_nothing() -> None:
    """The next writer needs no proof."""
    state = run([events.leg_ended(1)]).state

    assert ("leg_ended", None) == (state.legs[0].closed_by, state.unclosed_leg)


def test_a_closed_leg_is_not_ended_again() -> None:
    """There is no leg in which it could be said."""
    scribe = Scribe().born()
    scribe.say(*paused())

    assert "outside of every leg" in refused(scribe, events.leg_ended(1)).message


def test_a_command_goes_from_accepted_to_its_end() -> None:
    """Both records are kept, the last one counts."""
    scribe = run([SAID_PAUSE], [events.control("k1", "f", "applied")])

    assert ["applied"] == [event["state"] for event in scribe.state.controls.values()]


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ("accepted", SAID_PAUSE),
        ("accepted", events.control("k1", "g", "applied")),
        ("applied", events.control("k1", "f", "applied")),
        ("applied", events.control("k1", "f", "rejected")),
        ("rejected", SAID_PAUSE),
    ],
    ids=str,
)
def test_a_command_id_is_taken_once(before: str, event: Event) -> None:
    """The same command again is answered from the record; other content is a conflict."""
    error = refused(run([SAID_PAUSE] if before == "accepted" else [events.control("k1", "f", before)]), event)

    assert "'k1' is taken" in error.message


def test_a_command_is_in_a_known_state() -> None:
    """An unknown word decides nothing."""
    error = refused(run(), events.control("k1", "f", "pondered"))

    assert "in no known state" in error.message


# Capabilities.


@pytest.mark.parametrize(
    "changes",
    [
        {"capability": {"tool": "pay"}},
        {"recoveryDisposition": "replay_safe"},
        {"capability": resolve("pay", "external", "unsafe").as_json()},
    ],
    ids=["no capability", "another disposition", "a disposition of another capability"],
)
def test_a_capability_is_whole_and_its_disposition_follows(changes: dict[str, Any]) -> None:
    """It decides what may happen after a crash (#40)."""
    error = refused(run([proposed(CALL)[0]]), changed(proposed(CALL)[1], **changes))

    assert "run_state_corrupt" == error.code


def test_a_capability_does_not_change() -> None:
    """The recorded one decides an open attempt."""
    other = facts(1, LOOK)
    other.step_id, other.call_id = CALL.step_id, CALL.call_id
    error = refused(run(proposed(CALL)), events.capability_resolved(other))

    assert "effect_receipt_conflict" == error.code


# Business keys.


@pytest.mark.parametrize(
    "key",
    [None, "1042", {}, {"sha256": DIGEST}, {"sha256": DIGEST, "text": 7}, {"sha256": "D" * 64, "text": "1042"},
     {"sha256": DIGEST, "text": "1042", "more": 1}],
    ids=repr,
)  # fmt: skip
def test_a_call_with_a_broken_business_key_is_refused(key: Any) -> None:
    """An index that is built from it would let the effect happen again."""
    error = refused(run(), changed(proposed(CALL)[0], businessKey=key))

    assert "businessKey" in error.message


def test_a_call_with_a_business_key_is_taken() -> None:
    """The digest is for programs, the text for people."""
    scribe = run([changed(proposed(CALL)[0], businessKey={"sha256": DIGEST, "text": "1042"})])

    assert CALL.step_id == scribe.state.unanswered()[0].step_id


@pytest.mark.parametrize(
    ("before", "event"),
    [
        (started(CALL), changed(told(CALL), heldBy={"run": "r2"})),
        ([], changed(events.step_output("plan-1", "1"), heldBy={"run": "r2"})),
        ([*proposed(CALL), events.effect_receipt(CALL, "not_started")], changed(told(CALL), heldBy="r2")),
    ],
    ids=["of what was started", "of no call", "of nobody"],
)
def test_an_answer_of_another_call_is_only_for_one_that_did_not_start(before: list[Event], event: Event) -> None:
    """What this run did itself has an answer of its own; else an open effect would be settled by another's."""
    error = refused(run(before) if before else run(), event)

    assert "the answer of another call" in error.message


def test_a_command_is_accepted_with_its_content() -> None:
    """Contract #210: the next leg does what was promised, and must read there what that was."""
    error = refused(run(), events.control("k1", "f", "accepted"))

    assert ("run_state_corrupt", True) == (error.code, "without its content" in error.message)


def test_where_a_command_stands_is_known() -> None:
    """Contract #203: who sends it again is told the records that took it."""
    known = run([SAID_PAUSE], [events.control("k1", "f", "applied")]).state.controls.get("k1")

    assert known is not None
    assert ("applied", 4, 5, {"type": "pause"}) == tuple(
        known[name] for name in ("state", "acceptedSequence", "appliedSequence", "command")
    )


READ = {**events.step_output("steering-1", '["stop at noon"]'), "controls": ["k1"]}


def test_a_text_that_was_read_is_known_as_read() -> None:
    """It must never be read twice, also where the process died right behind the reading."""
    state = run([SAID_PAUSE], [READ]).state
    known = state.controls.get("k1")

    assert known is not None
    assert ("accepted", "steering-1", 0) == (known["state"], known["readBy"], state.metrics.steps_started)


@pytest.mark.parametrize("names", [["k2"], [5], "k1", 5, ["k1", "k1"]], ids=str)
def test_only_a_text_that_waits_is_read(names: Any) -> None:
    """A reading of what nobody said, or of what was read before, is no reading of this run."""
    waiting = [SAID_PAUSE] if names != "k1" else [events.control("k1", "f", "rejected")]
    error = refused(run(waiting), {**READ, "controls": names})

    assert "does not wait for it" in error.message


# Files that are put back.


def test_files_are_put_back_in_a_leg_that_runs_no_agent() -> None:
    """While an agent works, the files are its own."""
    scribe = checkpointed()
    error = refused(scribe, RESTORE)

    assert "a leg that runs no agent" in error.message


def test_only_a_checkpoint_of_this_run_is_put_back() -> None:
    """Nothing else says what may be touched."""
    error = refused(checkpointed().opened("control"), {**RESTORE, "checkpointId": "k2"})

    assert "no checkpoint 'k2'" in error.message


def test_a_restore_is_under_way_until_its_end_is_told() -> None:
    """Whoever opens the run next knows what may stand half done."""
    scribe = checkpointed().opened("control")
    scribe.say(RESTORE)
    begun = scribe.state.restores

    assert (1, ["a"]) == (begun.count, list(begun.begun.wanted) if begun.begun else [])
