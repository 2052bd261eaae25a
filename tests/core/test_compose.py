"""From what is to be said to one append that a reader will accept."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import events
from clew.core.compose import Close, Move, compose
from clew.core.outcome import Outcome
from clew.core.records import Draft
from clew.errors import Corrupt, Refused
from tests.histories import (
    RUN,
    Scribe,
    completed,
    facts,
    failed,
    paused,
    prefixes,
    read,
    refold,
    resume,
    review,
    start,
    started,
    view,
)
from tests.strategies import History, deeds, histories

CALL = facts()
TIME = "2026-11-29T14:00:00.000Z"


@given(histories())
def test_what_is_composed_is_what_a_reader_finds(history: History) -> None:
    """The bytes alone, folded anew, give the very state that the writer goes on with."""
    assert view(refold(history.data)) == view(history.state)


@given(histories())
def test_every_append_ends_in_the_state_that_was_promised(history: History) -> None:
    """Not only the last one."""
    data = b""
    for composed in history.scribe.appends:
        data += composed.batch.data
        found = refold(data)

        assert (composed.state.sequence, composed.state.chain, composed.state.state) == (
            found.sequence, found.chain, found.state,
        )  # fmt: skip


@given(histories(), st.data())
def test_a_reader_that_follows_knows_what_the_writer_knows(history: History, data: st.DataObject) -> None:
    """An append is judged the same on a state in memory and on one read from the disk."""
    possible = list(deeds(history.state))
    if not possible:
        return
    name, said = data.draw(st.sampled_from(possible))
    reader = history.scribe.ahead()
    reader.state = refold(history.data)
    reader.say(*said)
    history.scribe.say(*said)

    assert view(history.state) == view(reader.state), name


def test_all_records_of_an_append_share_number_and_time() -> None:
    """A broken line still says which append it belongs to."""
    batch = Scribe().born().say(*started(CALL)).batch

    assert [(4, 4), (5, 4), (6, 4)] == [(record.sequence, record.append) for record in batch.records]
    assert 1 == len({record.timestamp for record in batch.records})


def test_every_event_and_record_has_an_id_of_its_own() -> None:
    """Ids of events and records are never shared."""
    scribe = Scribe().born()
    scribe.say(*started(CALL))
    scribe.say(*paused())
    records = [record for record, _ in read(scribe.data)]
    ids = [record.event_id for record in records]
    ids += [record.payload["eventId"] for record in records if record.kind in ("event", "operation")]

    assert len(ids) == len(set(ids))


def test_a_blank_id_is_not_written() -> None:
    """Contract #39, W12: a reader refuses it, in records of every kind."""
    scribe = Scribe()
    with pytest.raises(Corrupt, match="eventId is blank") as error:
        compose(scribe.state, [start()], at=TIME, new_id=lambda: " ", size_bytes=0)

    assert ("run_state_corrupt", 1) == (error.value.code, error.value.facts["line"])


def test_events_are_numbered_through_the_run() -> None:
    """The trace goes on over legs (#71)."""
    scribe = Scribe().born()
    scribe.say(*started(CALL))
    scribe.say(resume(2))
    scribe.say(events.error("so", fatal=False))
    numbers = [record.payload["sequence"] for record, _ in read(scribe.data) if record.kind == "event"]

    assert [1, 2, 3, 4] == numbers


def test_a_review_gets_its_id_when_it_is_appended() -> None:
    """Two reviews in one append have two."""
    scribe = Scribe().born()
    scribe.say(*started(CALL), *started(facts(2)))
    scribe.say(review(CALL, "happened"), review(facts(2), "happened"))

    assert ["r1", "r2"] == [name for name, _ in scribe.state.reviews.items()]


def test_a_review_keeps_an_id_that_it_has() -> None:
    """A command from another process names its own."""
    scribe = Scribe().born()
    scribe.say(*started(CALL))
    scribe.say(review(CALL, "happened", review_id="mine"))

    assert ["mine"] == [name for name, _ in scribe.state.reviews.items()]


def test_what_was_said_is_not_changed() -> None:
    """The caller may say it again when the append failed."""
    scribe = Scribe().born()
    scribe.say(*started(CALL))
    said = review(CALL, "happened")
    before = json.dumps(said)
    scribe.compose(said)

    assert before == json.dumps(said)


def test_a_move_is_refused_when_the_table_does_not_allow_it() -> None:
    """Promise 1, before anything is written."""
    with pytest.raises(Refused) as error:
        Scribe().born().compose(Move("RESUME"))

    assert "invalid_operation_transition" == error.value.code


def test_moves_in_one_append_follow_one_another() -> None:
    """A leg after a death pauses and resumes in its first append."""
    scribe = Scribe().born()
    scribe.say(resume(2), Move("PAUSE", "process_interrupted"), Move("RESUME"))
    assert scribe.state.operation is not None

    assert ["accepted", "running", "paused", "running"] == [record.to for record in scribe.state.operation.records]


def test_the_operation_takes_the_name_that_the_start_gives() -> None:
    """Records of one run name one operation."""
    scribe = Scribe()
    scribe.say(start(operationId="op-7"))
    scribe.say(Move("ACCEPT"))
    assert scribe.state.operation is not None

    assert "op-7" == scribe.state.operation.operation_id


@pytest.mark.parametrize(
    "sayings",
    [
        [events.agent_end("done")],
        [{"type": "teleported"}],
        [Draft("loop", {})],
        [*started(CALL), events.effect_receipt(CALL, "started")],
        [*paused(), events.error("late", fatal=False)],
        [Close("finish", Outcome("succeeded", "completed"))],
        [*started(facts(2)), *completed()],
    ],
    ids=["unsettled", "unknown event", "foreign kind", "twice", "after the leg", "no end", "complete over a doubt"],
)
def test_what_a_reader_would_refuse_is_refused_before_it_is_written(sayings: list[Any]) -> None:
    """Validate, append, then apply."""
    scribe = Scribe().born()
    scribe.say(*started(CALL))
    before = (scribe.data, view(scribe.state))
    with pytest.raises(Corrupt):
        scribe.say(*sayings)

    assert before == (scribe.data, view(scribe.state))


def test_a_closing_record_tells_what_was_said_in_its_own_append() -> None:
    """Metrics, operation and outcome are those behind the moves before it."""
    scribe = Scribe().born()
    payload = scribe.say(*completed("settled")).batch.records[-1].payload

    assert ("completed", 7, "succeeded") == (
        payload["operation"]["state"], payload["metrics"]["outputChars"], payload["outcome"]["status"],
    )  # fmt: skip


def test_an_append_torn_at_any_line_is_never_a_success() -> None:
    """Agent end before COMPLETE before finish: the last line decides."""
    scribe = Scribe().born()
    before = len(scribe.data)
    scribe.say(*completed())
    states = [refold(prefix).state for prefix in prefixes(scribe.data) if len(prefix) >= before]

    assert ["running", "running", "completed", "completed"] == states


def test_a_failed_run_is_closed_in_one_append() -> None:
    """FAIL and its finish stand together."""
    scribe = Scribe().born()
    scribe.say(*failed("effect_given_up"))
    assert scribe.state.finish is not None

    assert ("failed", "effect_given_up", "finish") == (
        scribe.state.state, scribe.state.finish["outcome"]["finishReason"], scribe.state.legs[-1].closed_by,
    )  # fmt: skip


def test_a_run_is_born_on_its_own_chain() -> None:
    """A line cannot move to another run."""
    first, second = Scribe(RUN).born(), Scribe("another").born()

    assert first.state.chain != second.state.chain
    with pytest.raises(ValueError, match="not record 1"):
        read(second.data, RUN)
