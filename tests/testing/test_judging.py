"""What is found in a life: doubles, losses and other ends, each told apart from what merely looks like it."""

from collections import Counter
from typing import Any

import pytest

from clew.core.calls import CallState
from clew.core.capability import resolve
from clew.core.findings import Finding
from clew.core.records import Batch, Draft
from clew.testing.judging import described, judge, undeclared
from clew.testing.lives import Kill, Lived
from clew.testing.watching import Ran, Watch
from tests.stores.lab import Hand
from tests.testing.town import plain


def ran(key: str, attempt: int = 1, **also: Any) -> Ran:
    return Ran("pay", key=key, attempt=attempt, arguments="order=a", **{"returned": True, **also})


def a_life(*runs: Ran, listed: tuple[str, ...] = (), world: tuple[str, ...] = (), **also: Any) -> Lived:
    watch = Watch(None, frozenset(listed), {}, ran=list(runs))
    watch.world = Counter(world)
    return Lived(watch, **{"outcome": "completed", **also})


def found(lived: Lived, whole: Lived | None = None) -> tuple[str, ...]:
    return judge(lived, whole or a_life(), "after:1", "told").findings


def call(**facts: Any) -> CallState:
    given = {"step_id": "pay-1", "call_id": "c1", "tool": "pay", "key": "k", "turn_id": "turn-0", "fingerprint": "f"}
    return CallState(**{**given, "position": 0, **facts})


def test_two_attempts_that_both_happened_are_a_double() -> None:
    """One key, one effect: that is the promise under test."""
    doubled = a_life(ran("k"), ran("k", 2))

    assert ("pay happened 2 times under key k: order=a (attempts 1, 2)",) == found(doubled)


@pytest.mark.parametrize(
    "second",
    [{"returned": False}, {"looks_only": True}, {"replay": "idempotent"}],
    ids=["it raised", "it only looks", "its key is honoured"],
)
def test_a_second_attempt_is_no_double_by_itself(second: dict[str, Any]) -> None:
    """A rerun is what probes and idempotence are for."""
    lived = a_life(ran("k", **{**second, "returned": True}), ran("k", 2, **second))

    assert () == found(lived, lived)


def test_a_journal_that_contradicts_itself_is_a_fault_of_clew() -> None:
    """The kit dies at every append of the user's agent: the best place to find what our own tests never wrote."""
    lived = a_life(contradictions=[Finding("I-7", 9, 9, "the result is told twice", "pay-1")])

    assert ("its journal contradicts itself: pay-1: the result is told twice [I-7]",) == found(lived, lived)


def test_the_list_of_effects_outweighs_the_return() -> None:
    """A body that found its payment made already returns as if it had made it."""
    lived = a_life(ran("k", changed=True), ran("k", 2, changed=False), listed=("pay",))

    assert () == found(lived, lived)


def test_the_list_of_effects_outweighs_the_declaration() -> None:
    """Idempotence is promised by the other side, and may be broken there."""
    lived = a_life(*(ran("k", number, changed=True, replay="idempotent") for number in (1, 2)))

    assert ("pay happened 2 times under key k: order=a (attempts 1, 2)",) == found(lived, lived)


def test_a_deed_under_a_new_key_is_a_double_by_its_arguments() -> None:
    """An agent that calls anew gets a new key, and the customer pays twice all the same."""
    lived, whole = a_life(ran("k1"), ran("k2")), a_life(ran("k1"))

    assert ("pay happened under 2 keys, without a crash under 1: order=a",) == found(lived, whole)


def test_equal_deeds_that_are_meant_are_no_doubles() -> None:
    """Two equal payments may be what the agent is for."""
    lived = a_life(ran("k1"), ran("k2"))

    assert () == found(lived, a_life(ran("k1"), ran("k2")))


def test_more_of_the_world_is_found_whatever_the_end() -> None:
    """A question to a person is no excuse for having paid twice."""
    lived = a_life(world=("x", "x", "x"), outcome="needs a person")

    assert ("in the world 3 times, without a crash once: x",) == found(lived, a_life(world=("x",)))


def test_less_of_the_world_is_found_only_in_a_completed_life() -> None:
    """Who waits for a person has not paid yet; who says completed has."""
    whole = a_life(world=("x",))

    waiting, completed = found(a_life(outcome="needs a person"), whole), found(a_life(), whole)

    assert ((), ("in the world never, without a crash once: x",)) == (waiting, completed)


def test_an_answer_that_stands_twice_is_found() -> None:
    """An agent would be told one of the two, and nobody knows which."""
    told = {"type": "step_output", "stepId": "pay-1"}

    assert ("the answer of pay-1 stands 2 times in the journal",) == found(a_life(events=[told, told]))


def test_a_completed_run_with_a_lost_answer_is_found() -> None:
    """What was never told cannot have been taken into account."""
    lost = call(status="committed", capability=resolve("pay"))

    assert ("pay (pay-1) has no answer, and the run is completed",) == found(a_life(calls=[lost]))


def test_an_answer_that_was_withheld_is_not_lost() -> None:
    """A secret is not stored, by declaration."""
    secret = call(status="committed", capability=resolve("pay"), persistence="withheld")

    assert () == found(a_life(calls=[secret]))


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("no end", "it came to no end in 3 legs; without a crash: completed"),
        ("refused: run_state_locked", "ended as refused: run_state_locked (why); without a crash: completed"),
        ("failed: x", "ended as failed: x (why); without a crash: completed"),
        ("paused: resume_divergence", "its calls were others after the crash: resume_divergence (why)"),
    ],
)
def test_another_end_is_found(outcome: str, words: str) -> None:
    """Each in its own words, for each is another mistake."""
    assert (words,) == found(a_life(outcome=outcome, legs=3, detail="why"))


def test_a_question_to_a_person_is_an_honest_end() -> None:
    """Whatever the end without a crash is."""
    assert () == found(a_life(outcome="needs a person"))


def test_a_life_without_a_crash_that_never_ends_is_found_too() -> None:
    """Otherwise all lives would be measured by a life that hangs."""
    endless = a_life(outcome="no end", legs=3)

    assert ("it came to no end in 3 legs",) == found(endless, endless)


def test_what_tools_leave_unsaid_is_told() -> None:
    """By the tools that were called, not by all that are declared."""
    whole = a_life(calls=[call(tool="rate", capability=resolve("rate", "none")), call(capability=resolve("pay"))])

    unsaid = undeclared(plain, whole)

    assert ("pay says nothing of its effect",) == unsaid


@pytest.mark.parametrize(
    ("kill", "name", "words"),
    [
        (Kill(7, None), "after:7", "killed after append 7 of 12"),
        (Kill(7, 0), "before:7", "killed before append 7 of 12"),
        (Kill(7, 31, 2), "torn:7:2", "killed 31 of {size} bytes into append 7 of 12"),
    ],
)
def test_a_point_is_named_and_told(kill: Kill, name: str, words: str) -> None:
    """The name is for replaying, the words are for reading."""
    batch = a_batch()

    told = described(kill, 12, batch)

    expected = f"{words.format(size=len(batch.data))} (started pay, step_output pay-1, START of the run, pause)"
    assert (name, expected) == (kill.name, told)


def a_batch() -> Batch:
    """One record of each way to be told."""
    hand, drafts = Hand(), [
        Draft("event", {"event": {"type": "effect_receipt", "status": "started", "tool": "pay"}}),
        Draft("event", {"event": {"type": "step_output", "stepId": "pay-1"}}),
        Draft("operation", {"event": "START"}),
        Draft("pause", {}),
    ]  # fmt: skip
    batches = [hand.batch(draft.payload, kind=draft.kind) for draft in drafts]
    records = tuple(record for batch in batches for record in batch.records)
    return Batch("r1", 1, len(records), b"".join(batch.data for batch in batches), batches[-1].chain, records)
