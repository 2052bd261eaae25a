"""One call and the facts that move it: contract #110 to #118 for receipts, DESIGN §5 for attempts and reviews."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.calls import AnswerRef, CallState, Illegal, answered, received, resolved, reviewed
from clew.core.capability import Capability, resolve
from clew.core.review import Outcome, Review

EXTERNAL = resolve("pay", "external")
IDEMPOTENT = resolve("pay", "external", "idempotent")
FREE = resolve("look", "none")
NEW = CallState("pay-1", "c1", "r1:pay-1:c1", "pay", "turn-0", "f" * 64, 7)
ANSWER = AnswerRef(9, is_error=False)
BESIDE = AnswerRef(9, is_error=False, blob="b" * 64)


def call(*statuses: str, capability: Capability = EXTERNAL) -> CallState:
    """A call after these receipts of its attempts; `did_not_happen` and the other outcomes settle the last one."""
    found, attempt = msgspec.structs.replace(NEW, capability=capability), 0
    for status in statuses:
        attempt += status == "started"
        if status in ("happened", "did_not_happen", "give_up"):
            found = reviewed(found, attempt, review(status))
        else:
            found = received(found, max(attempt, 1), {"status": status}, 1000 * attempt)
    return found


def review(outcome: Any, *, result: bool = False, name: str = "r1") -> Review:
    return Review(name, outcome, "operator", "ops", "bank shows it", result, complete=False)


def receipt(found: CallState, attempt: int, status: object, **members: Any) -> CallState:
    return received(found, attempt, {"status": status, **members}, 1000)


def refusal(found: CallState, attempt: int, status: object) -> tuple[str, str]:
    with pytest.raises(Illegal) as caught:
        receipt(found, attempt, status)
    return caught.value.code, caught.value.why


# Capabilities.


def test_a_call_takes_its_capability() -> None:
    """What is recorded here decides an open attempt later, whatever the tool says then."""
    event = {"capability": EXTERNAL.as_json(), "recoveryDisposition": "requires_human"}

    assert msgspec.structs.replace(NEW, capability=EXTERNAL) == resolved(NEW, event)


@pytest.mark.parametrize(
    ("capability", "disposition", "why"),
    [
        (None, "requires_human", "the capability is not one of contract §2.9"),
        ({"tool": "pay"}, "requires_human", "the capability is not one of contract §2.9"),
        (EXTERNAL.as_json(), "replay_safe", "expected 'requires_human'"),
        (EXTERNAL.as_json(), None, "expected 'requires_human'"),
    ],
)
def test_a_capability_that_contradicts_itself_is_refused(capability: Any, disposition: Any, why: str) -> None:
    """Contract #40: the disposition follows from the capability and from nothing else."""
    with pytest.raises(Illegal, match=why) as caught:
        resolved(NEW, {"capability": capability, "recoveryDisposition": disposition})

    assert "run_state_corrupt" == caught.value.code


def test_a_second_capability_must_be_the_first() -> None:
    """Contract #118: a capability that changes within the run would change what may be repeated."""
    event = {"capability": IDEMPOTENT.as_json(), "recoveryDisposition": "requires_proof"}
    once = resolved(NEW, event)

    assert once == resolved(once, event)
    with pytest.raises(Illegal, match="has another capability already"):
        resolved(call(), event)


def test_equal_capabilities_are_kept_once() -> None:
    """DESIGN §6: a call costs about 300 bytes; a thousand calls of one tool share its capability."""
    event = {"capability": EXTERNAL.as_json(), "recoveryDisposition": "requires_human"}

    assert resolved(NEW, event).capability is resolved(NEW, event).capability


# Receipts.


@pytest.mark.parametrize(
    ("statuses", "attempt", "status"),
    [(("started",), 1, "started"), (("started", "committed"), 1, "committed"), (("started", "unknown"), 1, "unknown")],
)
def test_a_legal_chain_ends_in_its_last_status(statuses: tuple[str, ...], attempt: int, status: str) -> None:
    """Contract #111 to #113: started, then committed or unknown."""
    found = call(*statuses)

    assert (attempt, status, 1000) == (found.attempt, found.status, found.started_ms)


def test_a_refused_call_was_not_started() -> None:
    """Contract #110, promise 5: denied is `not_started`, and that is neither open nor unsettled."""
    found = call("not_started")

    assert ("not_started", False, False) == (found.status, found.open, found.unsettled)


@pytest.mark.parametrize("status", ["committed", "unknown"])
def test_an_end_needs_a_start(status: str) -> None:
    """Contract #114: a first status of committed or unknown has no start that was authorised."""
    assert "effect_receipt_conflict" == refusal(call(), 1, status)[0]


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (("started",), "not_started"),
        (("started", "committed"), "not_started"),
        (("started", "committed"), "committed"),
        (("started", "committed"), "unknown"),
        (("started", "unknown"), "committed"),
        (("not_started",), "not_started"),
        (("not_started",), "committed"),
    ],
)
def test_an_end_is_final(statuses: tuple[str, ...], status: str) -> None:
    """Contract #114: no way back to not_started, no second end, nothing after an unknown one but a review."""
    assert "effect_receipt_conflict" == refusal(call(*statuses), 1, status)[0]


@pytest.mark.parametrize("status", ["settled", "", None, 1])
def test_an_unknown_status_is_refused(status: object) -> None:
    """Contract #114: a word that is no status cannot be counted as one."""
    assert "effect_receipt_conflict" == refusal(call("started"), 1, status)[0]


@pytest.mark.parametrize(("attempt", "status"), [(2, "committed"), (0, "unknown"), (2, "not_started")])
def test_a_receipt_belongs_to_the_last_attempt(attempt: int, status: str) -> None:
    """Contract #116: a receipt of another attempt would speak for the wrong start."""
    assert "effect_receipt_conflict" == refusal(call("started"), attempt, status)[0]


def test_a_late_end_of_an_earlier_attempt_is_refused() -> None:
    """Promise 2: while attempt 2 is open, attempt 1 cannot commit in its place."""
    found = call("started", "unknown", "did_not_happen", "started")

    assert "effect_receipt_conflict" == refusal(found, 1, "committed")[0]


@pytest.mark.parametrize("outcome", ["happened", "did_not_happen", "give_up"])
@pytest.mark.parametrize("status", ["committed", "unknown"])
def test_a_settled_attempt_gets_no_other_end(outcome: str, status: str) -> None:
    """Promise 2: committed after a settled "did not happen" would be a committed effect that may start again."""
    code, why = refusal(call("started", outcome), 1, status)

    assert ("effect_receipt_conflict", f"receipt {status!r} comes after attempt 1 was settled") == (code, why)


def test_an_end_may_follow_a_settlement_that_was_torn() -> None:
    """journal.md §1: a review whose announced result is missing is not given, so it settles nothing."""
    torn = reviewed(call("started"), 1, review("happened", result=True))

    assert "unknown" == receipt(torn, 1, "unknown").status


@pytest.mark.parametrize("persistence", ["failed", "withheld"])
def test_an_end_says_what_became_of_its_answer(persistence: str) -> None:
    """DESIGN §5: a committed effect whose answer could not or must not be kept is no lost one."""
    found = receipt(call("started"), 1, "committed", persistence=persistence)

    assert persistence == found.persistence


# Starts.


def test_a_refused_start_is_an_attempt_of_its_own() -> None:
    """journal.md §1: under one key nothing follows `not_started`, so the start that comes after all is attempt 2."""
    refused = call("not_started")

    assert "effect_receipt_conflict" == refusal(refused, 1, "started")[0]
    assert (2, True) == (receipt(refused, 2, "started").attempt, receipt(refused, 2, "started").open)


def test_a_start_uses_up_its_review() -> None:
    """DESIGN §5: a "did not happen" allows one start; killed again, the question is open again."""
    found = call("started", "did_not_happen", "started")

    assert (2, "started", 2000, None, True) == (
        found.attempt,
        found.status,
        found.started_ms,
        found.review,
        found.open,
    )


@pytest.mark.parametrize("statuses", [("started",), ("started", "unknown")])
def test_an_idempotent_attempt_may_be_followed_by_another(statuses: tuple[str, ...]) -> None:
    """DESIGN §5, §13 on #91: a rerun keeps the key; idempotent calls need no proof for it."""
    found = receipt(call(*statuses, capability=IDEMPOTENT), 2, "started")

    assert (2, "started") == (found.attempt, found.status)


@pytest.mark.parametrize(
    ("statuses", "capability"),
    [
        (("started",), EXTERNAL),
        (("started", "unknown"), EXTERNAL),
        (("started", "committed"), EXTERNAL),
        (("started", "committed"), IDEMPOTENT),
        (("started", "happened"), EXTERNAL),
        (("started", "happened"), IDEMPOTENT),
        (("started", "give_up"), EXTERNAL),
        (("started", "give_up"), IDEMPOTENT),
        (("started", "did_not_happen", "started"), EXTERNAL),
    ],
)
def test_nothing_starts_again_without_proof(statuses: tuple[str, ...], capability: Capability) -> None:
    """Promise 2: neither an open attempt that cannot be repeated, nor one that is known to have happened."""
    found = call(*statuses, capability=capability)

    code, why = refusal(found, found.attempt + 1, "started")

    assert ("effect_receipt_conflict", True) == (code, "nothing says that attempt" in why)


@pytest.mark.parametrize("attempt", [0, 1, 3])
def test_attempts_are_numbered_without_gaps(attempt: int) -> None:
    """Promise 4: attempt 3 after attempt 1 means that a start is missing."""
    assert "effect_receipt_conflict" == refusal(call("started", "did_not_happen"), attempt, "started")[0]


def test_an_answered_call_does_not_start() -> None:
    """Promise 2: the agent was told; a start now would be a second effect for one answer."""
    found = answered(call("started", "did_not_happen"), ANSWER)

    assert "call 'c1' has its answer; it cannot start again" == refusal(found, 2, "started")[1]


def test_a_call_without_capability_does_not_start() -> None:
    """Contract #118: nobody could say afterwards whether it may be repeated."""
    assert "call 'c1' starts without a capability" == refusal(NEW, 1, "started")[1]


# Reviews.


@pytest.mark.parametrize("outcome", ["happened", "did_not_happen", "give_up"])
@pytest.mark.parametrize("statuses", [("started",), ("started", "unknown")])
def test_an_open_attempt_can_be_settled(statuses: tuple[str, ...], outcome: Outcome) -> None:
    """W21: unknown is no dead end; what a person says is recorded, and the attempt is open no more."""
    found = reviewed(call(*statuses), 1, review(outcome))

    assert (outcome, False, False) == (
        found.settled_by.outcome if found.settled_by else None,
        found.open,
        found.unsettled,
    )


@pytest.mark.parametrize("attempt", [0, 2, "1", None, True, 1.0])
def test_a_review_names_the_last_attempt(attempt: object) -> None:
    """DESIGN §5: a settlement of attempt 1 must not settle attempt 2; `true` is no number."""
    with pytest.raises(Illegal, match="the last one is 1"):
        reviewed(call("started"), attempt, review("happened"))


def test_a_call_that_never_started_cannot_be_settled() -> None:
    """There is no attempt 0 whose end somebody could know."""
    with pytest.raises(Illegal, match="names attempt 0; the last one is 0"):
        reviewed(call(), 0, review("happened"))


@pytest.mark.parametrize("second", ["happened", "did_not_happen", "give_up"])
@pytest.mark.parametrize("first", ["happened", "did_not_happen", "give_up"])
def test_a_second_review_is_refused(first: str, second: str) -> None:
    """DESIGN §5: two people cannot settle one attempt differently; who was first, and how, is named."""
    with pytest.raises(Illegal, match=f"attempt 1 is settled already: {first} by 'ops'") as caught:
        reviewed(call("started", first), 1, review(second, name="r2"))

    assert "review_conflict" == caught.value.code


def test_a_torn_review_can_be_given_again() -> None:
    """journal.md §1: one whose announced result is missing counts as not given; the attempt stays open."""
    torn = reviewed(call("started"), 1, review("happened", result=True))

    again = reviewed(torn, 1, review("did_not_happen", name="r2"))

    assert (True, None, "r2") == (torn.open, torn.settled_by, again.review.review_id if again.review else "")


@pytest.mark.parametrize("outcome", ["happened", "did_not_happen", "give_up"])
def test_what_was_answered_needs_no_review(outcome: str) -> None:
    """The agent was told; what is learnt later does not change it (DESIGN §2, answer)."""
    with pytest.raises(Illegal, match="there is nothing to settle"):
        reviewed(answered(call("started"), ANSWER), 1, review(outcome))


def test_a_committed_effect_cannot_have_not_happened() -> None:
    """Promise 2: it may be given a result or given up, never started again."""
    with pytest.raises(Illegal, match="it cannot have not happened") as caught:
        reviewed(call("started", "committed"), 1, review("did_not_happen"))

    assert "review_conflict" == caught.value.code
    assert reviewed(call("started", "committed"), 1, review("happened")).settled_by is not None


@pytest.mark.parametrize(
    ("lost", "found"),
    [
        ("withheld", receipt(call("started"), 1, "committed", persistence="withheld")),
        ("blob", answered(call("started"), BESIDE)),
    ],
)
def test_a_lost_result_can_be_given_anew(lost: str, found: CallState) -> None:
    """DESIGN §5: a secret answer lost in a crash, or a blob that is gone; only `happened` may be said of it."""
    given_anew = reviewed(found, 1, review("happened", result=True))

    assert given_anew.review is not None
    with pytest.raises(Illegal):
        reviewed(found, 1, review("give_up"))


# Answers.


@pytest.mark.parametrize("found", [call(), call("not_started"), call("started"), call(capability=FREE)])
def test_a_call_takes_its_answer(found: CallState) -> None:
    """journal.md §1, stage 7: the answer comes first, so a torn append leaves a call that has it."""
    told = answered(found, ANSWER)

    assert (ANSWER, False) == (told.answer, told.unsettled)


def test_a_second_answer_is_refused() -> None:
    """DESIGN §2: an answer is replayed as told; there is one."""
    with pytest.raises(Illegal, match="step 'pay-1' has its answer already"):
        answered(answered(call("started"), ANSWER), ANSWER)


@pytest.mark.parametrize("status", ["unknown", "committed"])
def test_an_attempt_that_ended_without_an_answer_gets_it_from_a_review_alone(status: str) -> None:
    """Promise 2: an answer out of nowhere would make an unknown outcome known, with nobody to vouch for it."""
    with pytest.raises(Illegal, match=f"call 'c1' is {status}; only a review can bring its answer"):
        answered(call("started", status), ANSWER)


def test_an_answer_completes_the_review_that_announced_it() -> None:
    """journal.md §1: review and result are two records of one append; together they settle the attempt."""
    found = answered(reviewed(call("started", "unknown"), 1, review("happened", result=True)), ANSWER)

    assert (ANSWER, True) == (found.answer, found.review is not None and found.review.given)


def test_a_review_may_come_without_a_result_and_the_answer_later() -> None:
    """A tool that knows that nothing happened writes its review first and then the error answer."""
    found = answered(call("started", "unknown", "did_not_happen"), AnswerRef(9, is_error=True))

    assert ("did_not_happen", True) == (
        found.settled_by.outcome if found.settled_by else "",
        found.answer is not None and found.answer.is_error,
    )


def test_a_lost_blob_is_replaced_by_the_result_given_anew() -> None:
    """DESIGN §5, `result_missing`: the new answer stands in the place of the unreadable one, once."""
    found = answered(reviewed(answered(call("started"), BESIDE), 1, review("happened", result=True)), ANSWER)

    assert ANSWER == found.answer
    with pytest.raises(Illegal, match="has its answer already"):
        answered(found, ANSWER)


# What follows from the facts.


@pytest.mark.parametrize(
    ("found", "is_open", "unsettled"),
    [
        (call(), False, False),
        (call("not_started"), False, False),
        (call("started"), True, True),
        (call("started", "unknown"), True, True),
        (call("started", "committed"), False, True),
        (receipt(call("started"), 1, "committed", persistence="failed"), False, True),
        (receipt(call("started"), 1, "committed", persistence="withheld"), False, False),
        (call("started", "happened"), False, False),
        (call("started", "committed", "happened"), False, False),
    ],
)
def test_open_and_unsettled_are_what_the_design_says(found: CallState, is_open: bool, unsettled: bool) -> None:
    """DESIGN §5: open is started or unknown without a review; unsettled is open or committed without an answer."""
    assert (is_open, unsettled) == (found.open, found.unsettled)


@pytest.mark.parametrize(("step", "path"), [("pay-1", ""), ("plan-1.pay-2", "plan-1"), ("a.b.pay-1", "a.b")])
def test_a_call_knows_the_step_around_it(step: str, path: str) -> None:
    """A recorded call is matched by step path."""
    assert path == msgspec.structs.replace(NEW, step_id=step).path


@pytest.mark.parametrize(
    ("capability", "may"), [(None, True), (FREE, False), (EXTERNAL, True), (resolve("x", "none", "unknown"), True)]
)
def test_only_a_free_call_changes_nothing(capability: Capability | None, may: bool) -> None:
    """Contract #81: a name alone proves nothing; without a recorded capability it may change the world."""
    assert may == msgspec.structs.replace(NEW, capability=capability).may_change_the_world


@given(st.lists(st.sampled_from(["not_started", "started", "committed", "unknown"]), max_size=6), st.booleans())
def test_without_reviews_an_effect_that_cannot_be_repeated_starts_once(statuses: list[str], idempotent: bool) -> None:
    """Promise 2: whatever receipts are offered, at most one attempt opens unless the call is idempotent."""
    found, starts = call(capability=IDEMPOTENT if idempotent else EXTERNAL), 0
    for status in statuses:
        attempt = found.attempt + 1 if status == "started" else max(found.attempt, 1)
        try:
            found = receipt(found, attempt, status)
        except Illegal:
            continue
        starts += status == "started"

    assert starts <= 1 or idempotent
