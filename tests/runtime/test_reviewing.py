"""What a person says of an open effect: which one is meant, may it be settled, what is recorded."""

from typing import Any

import msgspec
import pytest

import clew
from clew.core.compose import Move
from clew.core.state import RunState
from clew.runtime.reviewing import (
    Said,
    after_the_end,
    as_arguments,
    as_json,
    check_attempt,
    check_open,
    evidence_of,
    pick_call,
    settlement_of,
)
from tests.histories import PAY, Scribe, facts, failed, returned, review, started
from tests.runtime.stage import code_of

SAID = Said("ann", "looked", ("statement, line 14",))


def open_effects(count: int) -> RunState:
    scribe = Scribe().born()
    for number in range(1, count + 1):
        scribe.say(*started(facts(number)))
    return scribe.state


@pytest.mark.parametrize(("by", "reason"), [("", "looked"), ("ann", " ")])
def test_nobody_settles_without_a_reason(by: str, reason: str) -> None:
    """The record is there for who asks later: who, and why."""
    assert "review_incomplete" == code_of(Said, by, reason)


def test_what_a_person_says_is_kept_without_what_looks_like_a_secret() -> None:
    """C125: the token that was used to look it up is often on the clipboard; who and why stay readable."""
    token = "gh" + "p_" + "a1B2c3D4e5F6" * 3
    said = Said("ann", f"seen with {token}", (f"curl -H {token}",))
    verdict = as_json(clew.Happened({"with": token}))

    assert ("ann", "seen with [redacted:github-token]") == (said.by, said.reason)
    assert [{"kind": "text", "text": "curl -H [redacted:github-token]"}] == said.recorded()
    assert clew.Happened({"with": "[redacted:github-token]"}) == verdict


@pytest.mark.parametrize("name", [None, "", "pay-1", "c1", facts(1).key])
def test_the_only_open_effect_needs_no_name_and_has_three(name: str | None) -> None:
    """What `clew show` prints of an effect can be copied, whichever part it is."""
    assert "pay-1" == pick_call(open_effects(1), name).step_id


def test_among_several_open_effects_one_must_be_named() -> None:
    """Guessing which payment a person meant is the one thing that must not happen; all are listed."""
    with pytest.raises(clew.ClewError) as caught:
        pick_call(open_effects(2), None)

    assert "which_effect" == caught.value.code
    assert ["pay-1", "pay-2"] == [effect["stepId"] for effect in caught.value.facts["effects"]]


@pytest.mark.parametrize(("count", "name"), [(0, None), (1, "pay-9")])
def test_an_effect_that_is_not_there_cannot_be_settled(count: int, name: str | None) -> None:
    """A typing error must not settle another effect."""
    assert "nothing_to_settle" == code_of(pick_call, open_effects(count), name)


def test_an_answered_effect_is_not_open() -> None:
    """What is known needs no word of a person, and could only be contradicted by it."""
    scribe = Scribe().born()
    scribe.say(*started(facts()))
    scribe.say(*returned(facts()))

    assert "nothing_to_settle" == code_of(check_open, scribe.state, pick_call(scribe.state, "pay-1"), clew.Happened())


def test_a_settled_attempt_is_not_settled_again() -> None:
    """Two people who looked at different times must not overwrite one another; the first is named."""
    scribe = Scribe().born()
    scribe.say(*started(facts()))
    scribe.say(review(facts(), "happened"))

    with pytest.raises(clew.Refused, match="happened by 'ann'") as caught:
        check_open(scribe.state, pick_call(scribe.state, "pay-1"), clew.Happened())

    assert "review_conflict" == caught.value.code


@pytest.mark.parametrize(
    "verdict", [clew.Happened({"t": 1}), clew.Happened(), clew.Happened(None), clew.DidNotHappen(), clew.GiveUp()]
)
def test_a_settlement_survives_its_way_through_the_inbox(verdict: Any) -> None:
    """A result that is null and no result at all are different answers."""
    scribe = Scribe().born()
    scribe.say(*started(facts()))
    call = pick_call(scribe.state, "pay-1")
    carried = msgspec.json.decode(msgspec.json.encode(as_arguments(call, verdict, SAID)))

    assert verdict == settlement_of(carried)
    assert SAID.recorded() == evidence_of(carried)


@pytest.mark.parametrize("attempt", [2, "1", None])
def test_what_was_found_out_of_one_attempt_settles_no_other(attempt: object) -> None:
    """A command that waited in the inbox must not speak for a start that came after it."""
    scribe = Scribe().born()
    scribe.say(*started(facts()))
    call = pick_call(scribe.state, "pay-1")
    check_attempt(call, 1)

    assert "review_conflict" == code_of(check_attempt, call, attempt)


@pytest.mark.parametrize("arguments", [{}, {"outcome": "perhaps"}, {"outcome": None}])
def test_an_unknown_outcome_is_refused(arguments: dict[str, Any]) -> None:
    """The inbox is a folder that any program can write to."""
    assert "control_invalid" == code_of(settlement_of, arguments)


@pytest.mark.parametrize("evidence", [5, "text", [5], {"a": 1}])
def test_evidence_that_is_no_list_of_objects_is_refused(evidence: Any) -> None:
    """It would stand in the journal for ever."""
    assert "control_invalid" == code_of(evidence_of, {"evidence": evidence})


def test_a_result_is_made_json_before_anything_is_opened() -> None:
    """A mistake in it must not cost a leg."""
    assert clew.Happened({"a": [1, 2]}) == as_json(clew.Happened({"a": (1, 2)}))
    assert "value_not_json" == code_of(as_json, clew.Happened(object()))


def test_after_the_end_the_result_stands_in_the_review() -> None:
    """Behind a finish there is no step that could have an output."""
    scribe = Scribe().born()
    scribe.say(*started(facts(1, PAY)))
    scribe.say(Move("REQUEST_ABORT", "enough"), *failed())

    event = after_the_end(scribe.state.run_id, pick_call(scribe.state, None), clew.Happened(7), SAID)

    assert ("effect_review", True, 7) == (event["type"], event["resultRecorded"], event["result"])
