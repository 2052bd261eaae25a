"""The short way of a usual call: the lines and the state of `compose`, or nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import codec, events
from clew.core.capability import Capability
from clew.core.compose import Saying, compose
from clew.core.events import Answering, CallFacts, Opening, spelt
from clew.core.state import RunState
from clew.core.usual import Usual, usual
from tests.histories import (
    CHARGE,
    EDIT,
    LOOK,
    PAY,
    TOOLS,
    Scribe,
    after,
    approval,
    arguments,
    facts,
    kept,
    paused,
    proposed,
    read,
    refold,
    resume,
    returned,
    review,
    start,
    started,
    told,
    view,
)
from tests.strategies import History, histories, json_values, texts

TIME = "2026-11-29T15:00:00.000Z"
CALL = facts()


def ids() -> Callable[[], str]:
    """Event ids, each once; the same from the beginning."""
    numbers = iter(range(1_000))
    return lambda: f"e-{next(numbers)}"


def many(new_id: Callable[[], str]) -> Callable[[int], list[str]]:
    """The same ids, so many at once."""
    return lambda count: [new_id() for _ in range(count)]


def short(scribe: Scribe, *sayings: Saying, at: str = TIME) -> Usual | None:
    """What the short way makes of this."""
    return usual(scribe.state, sayings, at=at, new_ids=many(ids()), size_bytes=len(scribe.data))


def differs(scribe: Scribe, said: Saying, at: str = TIME) -> str:
    """How the short way differs from the long one; empty when it does not, or when it is not taken."""
    before = view(scribe.state)
    made = short(scribe, said, at=at)
    if made is None:
        return ""
    long = compose(scribe.state, [said], at=at, new_id=ids(), size_bytes=len(scribe.data))
    if view(scribe.state) != before:
        return "something was changed before it was written"
    moved = refold(scribe.data)
    made.apply(moved)
    expected, found = view(long.state), view(moved)
    wrong = [name for name in expected if expected[name] != found[name]]
    same = (made.batch.data, made.batch.records) == (long.batch.data, long.batch.records)
    return ", ".join(wrong) if same else f"{made.batch.data!r} is not {long.batch.data!r}"


@given(histories(), st.sampled_from(sorted(TOOLS)), st.integers(1, 4), st.booleans(), st.booleans())
def test_the_short_way_comes_to_the_lines_and_the_state_of_the_long_one(
    history: History, tool: str, number: int, opens: bool, back: bool
) -> None:
    """Who reads the journal afterwards knows no second way."""
    call = facts(number, TOOLS[tool])
    said = Opening(call, arguments(number)) if opens else Answering(call, '{"paid":true}')

    assert differs(history.scribe, said, "2026-11-29T13:00:00.000Z" if back else TIME) == ""


@given(json_values(), texts)
def test_any_arguments_and_any_answer_are_written_the_same(given_arguments: Any, text: str) -> None:
    """What a tool is given and gives is anybody's text."""
    new, open_ = Scribe().born(), opened()

    assert ("", "") == (differs(new, Opening(CALL, given_arguments)), differs(open_, Answering(CALL, text)))


@pytest.mark.parametrize("capability", [PAY, CHARGE, EDIT])
def test_a_usual_call_goes_the_short_way(capability: Capability) -> None:
    """Else all of this would be of no use."""
    call = facts(1, capability)
    scribe = Scribe().born()
    first = short(scribe, Opening(call, arguments()))
    scribe.say(*started(call))
    second = short(scribe, Answering(call, "null"))

    assert (True, True) == (first is not None, second is not None)


def test_a_call_inside_of_a_step_is_usual() -> None:
    """A path is part of its step and of its key."""
    call = changed(CALL, step_id="plan-1.pay-1", key=f"{CALL.run_id}:plan-1.pay-1:c1")
    scribe = Scribe().born()

    assert (True, "") == (short(scribe, Opening(call, {})) is not None, differs(scribe, Opening(call, {})))


def test_two_calls_side_by_side_are_usual() -> None:
    """Calls of a group open one after another and end in any order."""
    other, scribe = facts(2), opened()
    scribe.say(*started(other))

    assert ["", ""] == [differs(scribe, Answering(other, "1")), differs(scribe, Answering(CALL, "2"))]
    assert short(scribe, Answering(CALL, "2")) is not None


# What is not usual is left to the long way.


def opened(call: CallFacts = CALL) -> Scribe:
    """A run with one call under way."""
    scribe = Scribe().born()
    scribe.say(*started(call))
    return scribe


def changed(call: CallFacts, **members: Any) -> CallFacts:
    """Another call than this in some members."""
    held = {name: getattr(call, name) for name in CallFacts.__struct_fields__}
    return CallFacts(**{**held, **members})


UNREADABLE = Capability("pay", "unknown", "unknown", "run_serial", "none", "critical", "fallback", "fallback")
RUN = CALL.run_id
NOT_OPENED: dict[str, tuple[Scribe, CallFacts, Any]] = {
    "an argument that may be no number": (after(), CALL, {"note": None}),
    "an argument with half an emoji": (after(), CALL, {"note": "\ud83d"}),
    "a business key": (after(), changed(CALL, business={"scope": "pay", "value": "1"}), {}),
    "a key of another run": (after(), changed(CALL, run_id="other", key="other:pay-1:c1"), {}),
    "a key that does not follow": (after(), changed(CALL, key=f"{RUN}:pay-1:c2"), {}),
    "a key with too many parts": (after(), changed(CALL, call_id="c:1", key=f"{RUN}:pay-1:c:1"), {}),
    "a step without a name": (after(), changed(CALL, step_id="", key=f"{RUN}::c1"), {}),
    "a call without a name": (after(), changed(CALL, call_id="", key=f"{RUN}:pay-1:"), {}),
    "a key that looks like an attempt": (after(), changed(CALL, call_id="c#1", key=f"{RUN}:pay-1:c#1"), {}),
    "a name with a quote": (after(), changed(CALL, tool='pay"'), {}),
    "a name with a backslash": (after(), changed(CALL, tool="pay\\"), {}),
    "a name beyond ASCII": (after(), changed(CALL, turn_id="türn"), {}),
    "a name that cannot be printed": (after(), changed(CALL, fingerprint="a\n"), {}),
    "a capability that nobody would read": (after(), changed(CALL, capability=UNREADABLE), {}),
    "a step that a call has": (after(proposed(CALL)), CALL, {}),
    "a step that has its answer": (after([events.step_output("pay-1", "1")]), CALL, {}),
    "a step that a turn has": (after([events.agent_start("pay-1", "f" * 64)]), CALL, {}),
    "a run in which a person was asked": (after([approval(CALL)]), facts(2), {}),
    "a run that is paused": (after(paused()), CALL, {}),
    "a leg that only settles": (
        after(started(CALL), paused("unknown_effect"), [resume(2, "settle")]), facts(2), {}
    ),
    "an append that is too large": (after(), CALL, {"text": "x" * codec.MAX_APPEND}),
}  # fmt: skip


@pytest.mark.parametrize("why", NOT_OPENED)
def test_an_unusual_opening_is_left_to_the_long_way(why: str) -> None:
    """It looks at more, and it is the one that refuses."""
    scribe, call, given_arguments = NOT_OPENED[why]

    assert short(scribe, Opening(call, given_arguments)) is None


NOT_ANSWERED: dict[str, tuple[Scribe, CallFacts]] = {
    "a call that is not there": (after(), CALL),
    "a call that has not started": (after(proposed(CALL)), CALL),
    "a call that has its answer": (after(started(CALL), [told(CALL)]), CALL),
    "a call whose end is known": (after(started(CALL), [events.effect_receipt(CALL, "committed")]), CALL),
    "a second attempt": (
        after(started(facts(1, CHARGE)), [events.receipt(facts(1, CHARGE), 2, "started")]), facts(1, CHARGE)
    ),
    "an attempt that was settled": (after(started(CALL), [review(CALL, "happened")]), CALL),
    "another run": (opened(), changed(CALL, run_id="other")),
    "another key": (opened(), changed(CALL, key=f"{RUN}:pay-1:c2")),
    "another call": (opened(), changed(CALL, call_id="c2")),
    "another tool": (opened(), changed(CALL, tool="charge")),
    "another turn": (opened(), changed(CALL, turn_id="turn-1")),
    "another fingerprint": (opened(), changed(CALL, fingerprint="b" * 64)),
    "another capability": (opened(), changed(CALL, capability=CHARGE)),
    "a call that needs no receipt": (opened(facts(1, LOOK)), facts(1, LOOK)),
    "a name with a quote": (opened(changed(CALL, turn_id='turn"')), changed(CALL, turn_id='turn"')),
    "a leg that has ended": (after(started(CALL), paused()), CALL),
}  # fmt: skip


@pytest.mark.parametrize("why", NOT_ANSWERED)
def test_an_unusual_answer_is_left_to_the_long_way(why: str) -> None:
    """It looks at more, and it is the one that refuses."""
    scribe, call = NOT_ANSWERED[why]

    assert short(scribe, Answering(call, "1")) is None


def test_an_answer_with_half_an_emoji_is_left_to_the_long_way() -> None:
    """Only the standard library writes it."""
    assert short(opened(), Answering(CALL, '"\ud83d"')) is None


def test_a_run_that_is_aborting_is_asked_about_each_record() -> None:
    """What comes too late for an abort is counted and not written."""
    scribe = opened()
    scribe.state.aborting = True

    assert short(scribe, Answering(CALL, "1")) is None


def test_a_checkpoint_whose_start_is_missing_is_asked_about_the_next_record() -> None:
    """Nothing but its own start may follow it."""
    scribe = after(kept(facts(1, EDIT)))
    scribe.state.guard = "edit-1"

    assert short(scribe, Answering(facts(1, EDIT), "1")) is None


def test_a_run_of_another_program_is_never_gone_on_with() -> None:
    """There is no short way into a journal that is not ours."""
    scribe = opened()
    scribe.state.own = False

    assert short(scribe, Answering(CALL, "1")) is None


def test_a_run_without_an_operation_opens_nothing() -> None:
    """Not even where a leg is open already."""
    scribe = Scribe()
    scribe.say(start())

    assert short(scribe, Opening(CALL, {})) is None


def test_a_child_keeps_its_step() -> None:
    """No call may take it."""
    scribe = after()
    scribe.state.delegations = {"pay-1": None}  # type: ignore[dict-item]  # only its name is looked at

    assert short(scribe, Opening(CALL, {})) is None


def test_a_time_that_is_none_is_left_to_the_long_way() -> None:
    """No event without a readable time is written."""
    assert short(Scribe().born(), Opening(CALL, {}), at="yesterday") is None


@pytest.mark.parametrize("sayings", [[], [*started(CALL)], [Opening(CALL, {}), events.leg_ended(1)]])
def test_all_else_is_left_to_the_long_way(sayings: list[Saying]) -> None:
    """Two appends are usual, each alone."""
    assert short(Scribe().born(), *sayings) is None


def test_an_opening_and_an_answer_are_said_event_by_event_where_more_is_said() -> None:
    """A driver, a test or another store that knows nothing of the short way sees the events themselves."""
    said = [Opening(CALL, arguments()), events.leg_ended(1), Answering(CALL, "null")]

    assert (*started(CALL), events.leg_ended(1), *returned(CALL)) == spelt(said)


def test_what_went_the_short_way_is_read_by_every_reader() -> None:
    """The whole of a run, written so, is the run that was written the other way."""
    scribe = Scribe().born()
    for said in (Opening(CALL, arguments()), Answering(CALL, "null")):
        made = usual(scribe.state, [said], at=TIME, new_ids=many(scribe.new_id), size_bytes=len(scribe.data))
        assert made is not None
        scribe.data += made.batch.data
        made.apply(scribe.state)

    assert view(refold(scribe.data)) == view(scribe.state)
    assert [record.sequence for record, _ in read(scribe.data)][-6:] == [4, 5, 6, 7, 8, 9]


def test_a_state_of_nothing_has_no_usual_call() -> None:
    """Before its birth nothing is said of a run."""
    assert usual(RunState(RUN), [Opening(CALL, {})], at=TIME, new_ids=many(ids()), size_bytes=0) is None
