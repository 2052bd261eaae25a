"""The short way of reading a usual call: it comes to what the long way comes to, or leaves it all to it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import events
from clew.core.codec import BadLine, encode_append, record_of
from clew.core.compose import Move, Saying
from clew.core.events import CallFacts, Event, Opening
from clew.core.folding import fold, take
from clew.core.records import Draft, Record
from clew.core.state import RunState
from clew.core.times import format_ms
from clew.core.usualfold import RECORDS, Placed, take_usual
from clew.errors import ClewError, Corrupt
from tests.histories import (
    CHARGE,
    EDIT,
    LOOK,
    PAY,
    RUN,
    TOOLS,
    Scribe,
    after,
    approval,
    facts,
    failed,
    kept,
    left,
    paused,
    proposed,
    read,
    resume,
    returned,
    review,
    started,
    told,
    view,
)
from tests.strategies import History, histories

CALL = facts()
GONE = object()


def one_by_one(records: Iterable[Placed], run_id: str) -> RunState:
    """The long way."""
    state = RunState(run_id)
    for record, position in records:
        take(state, record, position)
    return state


def comes_to(way: Callable[[Iterable[Placed], str], RunState], records: Iterable[Placed], run_id: str = RUN) -> Any:
    """All that the state knows, or what was said against the records."""
    try:
        return view(way(records, run_id))
    except ClewError as fault:
        return fault.code, str(fault)


def differs(records: Sequence[Placed], run_id: str = RUN) -> str:
    """What one way says and the other does not; empty when they agree."""
    short, long = comes_to(fold, records, run_id), comes_to(one_by_one, records, run_id)
    return "" if short == long else f"{short} is not {long}"


def is_short(scribe: Scribe, *sayings: Saying) -> bool:
    """Is the next append of this run, as it is said, judged in one step?"""
    before = one_by_one(read(scribe.data), RUN)
    at, was = len(read(scribe.data)), view(before)
    scribe.say(*sayings)
    taken = take_usual(before, read(scribe.data)[at:])
    assert view(before) == (view(scribe.state) if taken else was)
    return taken


# The same, whatever stands there.


@given(histories())
def test_a_run_is_read_as_record_by_record(history: History) -> None:
    """Nobody who reads it can tell which way was gone."""
    assert differs(read(history.data)) == ""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every member at any depth."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in inside:
        yield (*path, name)
        yield from places(member, (*path, name))


def at(value: Any, path: Sequence[Any]) -> Any:
    """What stands there."""
    for name in path:
        value = value[name]
    return value


def members(record: Record) -> dict[str, Any]:
    """What the line of a record holds, to be changed."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    return found


def altered(records: Sequence[Placed], number: int, path: Sequence[Any], other: Any) -> list[Placed]:
    """The records with another value at one place of one of them, or without it.

    Raises:
        BadLine: no reader would make a record of it.
    """
    record, position = records[number]
    line, (*way, last) = members(record), path
    if other is GONE:
        del at(line, way)[last]
    else:
        at(line, way)[last] = other
    return [*records[:number], (record_of(line), position), *records[number + 1 :]]


ODD: tuple[Any, ...] = (
    GONE, None, True, False, 0, 1, 1.0, -1, 2**70, "", " ", "x", "a:b", "a#1", "pay-2", "c2", "main", "loop", [], {},
    {"version": 1},
)  # fmt: skip


def twisted(records: Sequence[Placed], first: int) -> Iterator[tuple[str, list[Placed]]]:
    """The records with each member from record `first` on changed to each odd value, and with one that is new."""
    for number in range(first, len(records)):
        line = members(records[number][0])
        for path in places(line):
            more = [((*path, "more"), 1)] if isinstance(at(line, path), dict) else []
            for where, other in [*((path, other) for other in ODD), *more]:
                with suppress(BadLine):
                    yield f"{number} {where} {other!r}", altered(records, number, where, other)


def test_whatever_is_changed_in_a_usual_call_both_ways_say_the_same_of_it() -> None:
    """A short way that took what the other refuses would be a hole; each member of each record of two calls."""
    other = facts(2, CHARGE)
    records = read(after(started(CALL), started(other), returned(other), returned(CALL), started(facts(3))).data)
    wrong = [(what, differs(changed)) for what, changed in twisted(records, 3)]

    assert [] == [each for each in wrong if each[1]]
    assert len(wrong) > 5_000


@given(histories(), st.data())
def test_whatever_is_changed_in_a_run_both_ways_say_the_same_of_it(history: History, data: st.DataObject) -> None:
    """In the middle of all else that a run may hold."""
    records = read(history.data)
    number = data.draw(st.integers(0, len(records) - 1))
    path = data.draw(st.sampled_from([path for path in places(members(records[number][0])) if path[0] == "payload"]))
    changed = altered(records, number, path, data.draw(st.sampled_from(ODD))) if len(path) > 1 else records

    assert differs(changed) == ""


@given(histories(), st.data())
def test_records_that_are_missing_doubled_or_exchanged_are_seen(history: History, data: st.DataObject) -> None:
    """A group of three may be any three."""
    records = read(history.data)
    one, two = (data.draw(st.integers(0, len(records) - 1)) for _ in range(2))
    without = records[:one] + records[one + 1 :]
    exchanged = list(records)
    exchanged[one], exchanged[two] = records[two], records[one]
    doubled = [*records[: one + 1], *records[one:]]

    assert ["", "", ""] == [differs(changed) for changed in (without, exchanged, doubled)]


def forced(scribe: Scribe, said: Sequence[Event]) -> list[Placed]:
    """The run with one append more, whatever it says."""
    records, time = read(scribe.data), format_ms(scribe.at_ms)
    numbers = range(scribe.state.trace_sequence + 1, scribe.state.trace_sequence + 1 + len(said))
    drafts = [
        Draft("event", {"eventId": f"e{number}", "runId": RUN, "sequence": number, "timestamp": time, "event": event})
        for number, event in zip(numbers, said, strict=True)
    ]
    ids = [f"f{number}" for number in numbers]
    batch = encode_append(
        RUN, after=len(records), chain=records[-1][0].chain or "", drafts=drafts, timestamp=time, event_ids=ids
    )
    return [*records, *((record, len(scribe.data) + number) for number, record in enumerate(batch.records))]


@given(histories(), st.sampled_from(sorted(TOOLS)), st.integers(1, 5), st.booleans())
def test_a_usual_append_that_comes_at_any_time_is_judged_the_same(
    history: History, tool: str, number: int, opens: bool
) -> None:
    """Too early, too late, twice, after the end."""
    call = facts(number, TOOLS[tool])

    assert differs(forced(history.scribe, started(call) if opens else returned(call))) == ""


def changed(call: CallFacts, **named: Any) -> CallFacts:
    """Another call than this in some members; its key follows from the others unless it is named."""
    held = {name: getattr(call, name) for name in CallFacts.__struct_fields__} | named
    key = f"{held['run_id']}:{held['step_id']}:{held['call_id']}"
    return CallFacts(**(held | {"key": named.get("key", key)}))


OPENED: dict[str, CallFacts] = {
    "no name of a step": changed(CALL, step_id=""),
    "no name of a call": changed(CALL, call_id=""),
    "a step that is a number": changed(CALL, step_id=1),
    "a call that is a number": changed(CALL, call_id=1),
    "a tool that is a number": changed(CALL, tool=1),
    "a turn that is a number": changed(CALL, turn_id=1),
    "a fingerprint that is a number": changed(CALL, fingerprint=1),
    "a key that is a number": changed(CALL, key=1),
    "a key that does not follow": changed(CALL, key=f"{RUN}:pay-1:c2"),
    "a key of another run": changed(CALL, run_id="other"),
    "a key with too many parts": changed(CALL, call_id="c:1"),
    "a key that looks like an attempt": changed(CALL, call_id="c#1"),
    "a key that cannot be printed": changed(CALL, call_id="c\n1"),
    "a business key": changed(CALL, business={"scope": "pay", "value": "1"}),
    "a business key that is none": changed(CALL, business={}),
    "a call that needs no receipt": facts(1, LOOK),
}


@pytest.mark.parametrize("why", OPENED)
def test_a_call_of_any_name_is_judged_the_same(why: str) -> None:
    """All its events say the same, so that only this can be wrong."""
    opened = list(Opening(OPENED[why], {}).events())

    assert differs(forced(after(), opened)) == ""


TAKEN: dict[str, Scribe] = {
    "by a call": after(proposed(CALL)),
    "by a call that is over": after(started(CALL), returned(CALL)),
    "by an answer": after([events.step_output("pay-1", "1")]),
    "by a turn": after([events.agent_start("pay-1", "f" * 64)]),
    "by an approval": after([approval(CALL)]),
    "in a run that is paused": after(paused()),
    "in a run that has ended": after(failed()),
    "in a leg that only settles": after(started(facts(2)), paused("unknown_effect"), [resume(2, "settle")]),
    "in a leg before the run goes on": after(started(facts(2)), paused("unknown_effect"), [resume(2)]),
    "in a run that is aborting": after([Move("REQUEST_ABORT", "asked")]),
    "behind a checkpoint without its start": after(kept(facts(2, EDIT))[:-1]),
}


@pytest.mark.parametrize("why", TAKEN)
def test_a_call_at_any_place_is_judged_the_same(why: str) -> None:
    """Its step may be taken, or this no time to begin."""
    assert differs(forced(TAKEN[why], started(CALL))) == ""


def test_a_time_that_is_none_is_judged_the_same() -> None:
    """Wherever it stands."""
    records = forced(after(), started(CALL))
    for number in range(len(records) - RECORDS, len(records)):
        for path in (("timestamp",), ("payload", "timestamp")):
            records = altered(records, number, path, "yesterday")

    assert differs(records) == ""


def test_a_child_keeps_its_step() -> None:
    """No call may take it."""
    records = forced(after(), started(CALL))
    state = one_by_one(records[:-RECORDS], RUN)
    state.delegations = {"pay-1": None}  # type: ignore[dict-item]  # only its name is looked at

    assert not take_usual(state, records[-RECORDS:])


ANSWERED: dict[str, tuple[Scribe, CallFacts]] = {
    "a call that is not there": (after(), CALL),
    "a call without a capability": (after(proposed(CALL)[:1]), CALL),
    "a call that has not started": (after(proposed(CALL)), CALL),
    "a call that has its answer": (after(started(CALL), [told(CALL)]), CALL),
    "a call that is over": (after(started(CALL), returned(CALL)), CALL),
    "a call whose end is known": (after(started(CALL), [events.effect_receipt(CALL, "committed")]), CALL),
    "a call in doubt": (after(started(CALL), [events.effect_receipt(CALL, "unknown")]), CALL),
    "a second attempt": (
        after(started(facts(1, CHARGE)), [events.receipt(facts(1, CHARGE), 2, "started")]), facts(1, CHARGE)
    ),
    "a call that was settled": (after(started(CALL), [review(CALL, "happened")]), CALL),
    "a call whose result is to follow": (
        after(started(CALL), [review(CALL, "happened", result_recorded=True)]), CALL
    ),
    "a call that needs no receipt": (after(started(facts(1, LOOK))), facts(1, LOOK)),
    "a call that is proposed and needs none": (after(proposed(facts(1, LOOK))), facts(1, LOOK)),
    "another key": (after(started(CALL)), changed(CALL, key=f"{RUN}:pay-1:c2")),
    "another call": (after(started(CALL)), changed(CALL, call_id="c2")),
    "another tool": (after(started(CALL)), changed(CALL, tool="charge")),
    "another turn": (after(started(CALL)), changed(CALL, turn_id="turn-1")),
    "another fingerprint": (after(started(CALL)), changed(CALL, fingerprint="b" * 64)),
    "another capability": (after(started(CALL)), changed(CALL, capability=CHARGE)),
    "a leg that has ended": (after(started(CALL), paused("unknown_effect")), CALL),
    "a run that is aborting": (after(started(CALL), [Move("REQUEST_ABORT", "asked")]), CALL),
    "behind a checkpoint without its start": (after(started(CALL), kept(facts(2, EDIT))[:-1]), CALL),
}  # fmt: skip


@pytest.mark.parametrize("why", ANSWERED)
def test_an_answer_of_any_call_is_judged_the_same(why: str) -> None:
    """What stands before it decides whether it may stand there."""
    scribe, call = ANSWERED[why]

    assert differs(forced(scribe, returned(call))) == ""


def test_what_was_read_is_judged_before_what_could_not_be() -> None:
    """The first place that is wrong is the one that is told."""
    records = read(after(started(CALL)).data)
    bad = altered(records, len(records) - 2, ("payload", "event", "stepId"), "pay-9")

    def breaks_off() -> Iterator[Placed]:
        yield from bad[:-1]
        raise Corrupt("the bytes behind it", code="run_state_corrupt", next="")

    assert comes_to(one_by_one, bad) == comes_to(lambda _, run_id: fold(breaks_off(), run_id), [])


def test_what_could_not_be_read_is_told_where_all_before_it_is_well() -> None:
    """Nothing takes its place."""

    def breaks_off() -> Iterator[Placed]:
        yield from read(after(started(CALL)).data)
        raise Corrupt("the bytes behind it", code="run_state_corrupt", next="")

    with pytest.raises(Corrupt, match="the bytes behind it"):
        fold(breaks_off(), RUN)


# The short way is gone where it should be.


@pytest.mark.parametrize("capability", [PAY, CHARGE, EDIT])
def test_a_usual_call_is_read_in_two_steps(capability: Any) -> None:
    """Else all of this would be of no use."""
    call, scribe = facts(1, capability), after()
    ways = [is_short(scribe, *started(call)), is_short(scribe, *returned(call))]

    assert [True, True] == ways


def test_a_call_in_a_leg_whose_clock_went_back_is_usual() -> None:
    """That it did is noted all the same."""
    records = read(after(started(CALL)).data)
    old = "2001-01-01T00:00:00.000Z"
    for number in range(len(records) - RECORDS, len(records)):
        records = altered(records, number, ("timestamp",), old)
        records = altered(records, number, ("payload", "timestamp"), old)

    assert (differs(records), fold(records, RUN).clock_stepped) == ("", True)


LEFT: dict[str, tuple[Scribe, Sequence[Saying]]] = {
    "a call that is only proposed": (after(), [*proposed(CALL), events.policy_denied(CALL, "no")]),
    "a call of a tool that needs no receipt, answered": (
        after(started(facts(1, LOOK))), returned(facts(1, LOOK))
    ),
    "a second attempt": (
        after(started(facts(1, CHARGE)), [events.receipt(facts(1, CHARGE), 2, "started")]),
        returned(facts(1, CHARGE), 2),
    ),
    "an attempt that was settled": (
        after(started(CALL), [review(CALL, "happened")]),
        [told(CALL), events.tool_result(CALL, is_error=False), events.leg_ended(1)],
    ),
    "two records": (after(started(CALL)), [told(CALL), events.leg_ended(1)]),
    "a run in which a person was asked": (after([approval(CALL)]), started(facts(2))),
    "a checkpoint before it": (after(kept(facts(1, EDIT))), [*returned(facts(1, EDIT)), left(facts(1, EDIT))]),
    "a run that is paused": (after(started(CALL)), paused("unknown_effect")),
    "a leg that opens": (after(started(CALL), paused("unknown_effect")), [resume(2)]),
}  # fmt: skip


@pytest.mark.parametrize("why", LEFT)
def test_all_else_is_read_record_by_record(why: str) -> None:
    """It is looked at more closely there."""
    scribe, sayings = LEFT[why]
    at_records = len(read(scribe.data))
    scribe.say(*sayings)
    records = read(scribe.data)
    before = one_by_one(records[:at_records], RUN)

    assert not take_usual(before, records[at_records:])


def test_a_run_without_an_operation_has_no_usual_call() -> None:
    """Not even where a leg is open already."""
    whole = read(after(started(CALL)).data)
    state = one_by_one(whole[:1], RUN)
    opening = whole[-RECORDS:]
    for number, (record, _) in enumerate(opening, 2):
        record.sequence, record.append, record.payload["sequence"] = number, 2, number - 1

    assert not take_usual(state, opening)
