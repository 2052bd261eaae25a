"""What a probe or a person may say of an attempt, and when a recorded settlement counts."""

import msgspec
import pytest

from clew.core.review import (
    DidNotHappen,
    GiveUp,
    Happened,
    Outcome,
    Review,
    Settlement,
    missing_result_message,
    outcome_of,
)


@pytest.mark.parametrize(
    ("verdict", "word"),
    [
        (Happened(), "happened"),
        (Happened(None), "happened"),
        (DidNotHappen(), "did_not_happen"),
        (GiveUp(), "give_up"),
    ],
)
def test_a_verdict_has_its_word(verdict: Settlement, word: Outcome) -> None:
    """The word in the journal decides whether an effect starts again."""
    assert word == outcome_of(verdict)


def test_no_result_is_not_the_result_none() -> None:
    """A tool that returns None has a result; nobody knowing it is another thing (promise 9)."""
    assert (msgspec.UNSET, None) == (Happened().result, Happened(None).result)


@pytest.mark.parametrize(
    ("result_recorded", "complete", "given"),
    [(False, False, True), (False, True, True), (True, True, True), (True, False, False)],
)
def test_a_review_counts_unless_its_result_is_missing(result_recorded: bool, complete: bool, given: bool) -> None:
    """journal.md §1: a review torn off before its result counts as not given, so that it can be given again."""
    review = Review("r1", "happened", "operator", "ops", "bank shows it", result_recorded, complete)

    assert given == review.given


def test_the_agent_is_told_who_settled_it() -> None:
    """DESIGN §5: `ResultNotRecorded` names tool and person, or nobody could ask."""
    message = missing_result_message("pay", "ops")

    assert "pay happened, as settled by ops; the result was not recorded" == message
