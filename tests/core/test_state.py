"""What a folded run answers to those who ask it, and how it is tried out on a fork."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import events
from clew.core.answers import Answer, beside
from clew.core.calls import Illegal
from clew.core.chain import genesis
from clew.core.compose import Close, Move
from clew.core.folding import fold
from clew.core.outcome import Outcome
from clew.core.records import Record
from clew.core.state import RunState, illegal
from clew.errors import Corrupt
from tests.histories import (
    RUN,
    Scribe,
    completed,
    facts,
    foreign,
    paused,
    proposed,
    read,
    refold,
    resume,
    returned,
    started,
    view,
)
from tests.strategies import History, deeds, histories

CALL = facts()


def test_a_run_without_records_is_accepted_and_knows_nothing() -> None:
    """It is what the first append is judged on."""
    state = RunState(RUN)

    assert ("accepted", None, None, False, 0, genesis(RUN)) == (
        state.state, state.leg, state.unclosed_leg, state.ended, state.duration_ms, state.chain,
    )  # fmt: skip


def test_a_run_says_where_it_stands() -> None:
    """Every door asks the same questions."""
    scribe = Scribe().born()
    scribe.say(*started(CALL))
    state = scribe.state

    assert ("running", 1, "settle order 1042", False, 1000) == (
        state.state, state.leg.number if state.leg else 0, state.input, state.ended, state.duration_ms,
    )  # fmt: skip


def test_a_closed_leg_claims_nothing() -> None:
    """The next one may open without any proof."""
    scribe = Scribe().born()
    scribe.say(*paused())

    assert ("pause", None) == (scribe.state.legs[-1].closed_by, scribe.state.unclosed_leg)


@pytest.mark.parametrize("time", ["", "yesterday"])
def test_a_duration_that_cannot_be_measured_is_none(time: str) -> None:
    """A foreign journal may carry any text for a time."""
    state = RunState(RUN)
    state.started_at = time

    assert 0 == state.duration_ms


def test_completed_steps_stand_in_the_order_of_their_answers() -> None:
    """Calls, turns and steps are told in one line."""
    scribe = Scribe().born()
    scribe.say(events.agent_start("turn-1", "f"))
    scribe.say(*started(CALL))
    scribe.say(events.step_output("plan-1", "1"))
    scribe.say(*returned(CALL))
    scribe.say(events.step_output("turn-1", "1"), events.turn_end("turn-1", None))
    scribe.say(events.agent_start("turn-2", "f"))

    assert ["plan-1", "pay-1", "turn-1"] == scribe.state.completed_steps()


@pytest.mark.parametrize("name", ["pay-2", "c2", f"{RUN}:pay-2:c2"])
def test_a_call_is_found_by_step_call_or_key(name: str) -> None:
    """People type what they see."""
    scribe = Scribe().born()
    scribe.say(*proposed(facts(1)))
    scribe.say(*proposed(facts(2)))
    found = scribe.state.find_call(name)

    assert found is not None
    assert "pay-2" == found.step_id


def test_steps_are_neither_calls_nor_turns() -> None:
    """Those are judged by rules of their own."""
    scribe = Scribe().born()
    scribe.say(events.agent_start("turn-1", "f"))
    scribe.say(events.step_output("turn-1", "1"), events.turn_end("turn-1", None))
    scribe.say(*started(CALL), *returned(CALL))
    scribe.say(events.step_output("plan-1", "1"))

    assert ["plan-1"] == [name for name, _ in scribe.state.named_steps()]


def test_a_foreign_call_whose_key_is_its_step_is_not_listed_twice() -> None:
    """The output of a step is the answer of its calls there."""
    call = ("event", {"event": {"type": "tool_call", "tool": "pay", "stepId": "s1", "idempotencyKey": "s1"}})
    output = ("event", {"event": {"type": "step_output", "stepId": "s1", "text": "done"}})
    state = fold(foreign(("start", {}), call, output), "run-1")

    assert ([], []) == (list(state.named_steps()), state.unsettled())


def test_a_call_that_is_not_there_is_not_found() -> None:
    """Nothing near is taken for it."""
    scribe = Scribe().born()
    scribe.say(*proposed(CALL))

    assert None is scribe.state.find_call("pay-")


def test_positions_are_where_the_lines_begin() -> None:
    """Outputs are read by offset, not kept."""
    scribe = Scribe().born()
    scribe.say(*started(CALL))
    scribe.say(*returned(CALL, value={"transfer": "T-77"}))
    (call,) = scribe.state.calls.values()
    assert call.answer is not None
    lines = {
        position: record.payload["event"]["type"] for record, position in read(scribe.data) if record.kind == "event"
    }

    assert ("tool_call", "step_output") == (lines[call.position], lines[call.answer.position])


# Forks.


@given(histories(), st.data())
def test_what_is_tried_on_a_fork_never_reaches_the_state(history: History, data: st.DataObject) -> None:
    """Validate, append, then apply: an append that fails must have changed nothing."""
    scribe, before = history.scribe, view(history.state)
    possible = list(deeds(scribe.state))
    if possible:
        scribe.compose(*data.draw(st.sampled_from(possible))[1])

    assert before == view(scribe.state)


@given(histories(), st.data())
def test_what_is_refused_never_reaches_the_state(history: History, data: st.DataObject) -> None:
    """A refusal half-way through an append leaves nothing of its first half."""
    scribe, before = history.scribe, view(history.state)
    possible = list(deeds(scribe.state))
    if possible:
        with pytest.raises(Corrupt):
            scribe.compose(*data.draw(st.sampled_from(possible))[1], {"type": "teleported"})

    assert before == view(scribe.state)


@given(histories(), st.data())
def test_a_fork_of_a_fork_knows_what_a_reader_of_both_would_know(history: History, data: st.DataObject) -> None:
    """An append may be judged on one that is not applied yet."""
    ahead = history.scribe.ahead()
    for _ in range(2):
        possible = list(deeds(ahead.state))
        if possible:
            composed = ahead.compose(*data.draw(st.sampled_from(possible))[1])
            ahead.state, ahead.data = composed.state, ahead.data + composed.batch.data

    assert view(refold(ahead.data)) == view(ahead.state)


def test_a_merge_is_the_fork() -> None:
    """After the sync the state is what was judged."""
    scribe = Scribe().born()
    composed = scribe.compose(*started(CALL))
    scribe.state.merge(composed.state)

    assert view(composed.state) == view(scribe.state)


def test_what_is_tried_on_a_merged_fork_stays_there_too() -> None:
    """A leg judges all its appends on one fork: the next try may be refused, and must not have counted."""
    scribe = Scribe().born()
    composed = scribe.compose(*started(CALL))
    scribe.state.merge(composed.state)
    before = scribe.state.metrics.tool_calls

    composed.state.metrics.tool_calls += 1

    assert before == scribe.state.metrics.tool_calls


# Errors.


def test_an_illegal_record_is_named_by_its_line() -> None:
    """An operator must find it."""
    record = Record(1, RUN, 7, "n-1", "-", "event", {})
    error = illegal(RunState(RUN), record, Illegal("too much", "review_conflict"))

    assert ("review_conflict", {"run": RUN, "line": 7, "why": "too much"}) == (error.code, error.facts)


def test_an_illegal_record_is_corrupt_unless_it_has_a_code_of_its_own() -> None:
    """Most of them are simply not what clew wrote."""
    record: Any = Record(1, RUN, 7, "n-1", "-", "event", {})

    assert "run_state_corrupt" == illegal(RunState(RUN), record, Illegal("why")).code


def test_an_unsettled_effect_is_listed_until_it_has_its_answer() -> None:
    """It is what the run waits for."""
    scribe = Scribe().born()
    scribe.say(*started(CALL))
    waiting = [call.key for call in scribe.state.unsettled()]
    scribe.say(beside(CALL.step_id, Answer("x"), '"x"', "d" * 64, 3), *returned(CALL)[1:])
    scribe.say(*completed())

    assert ([CALL.key], [], True) == (waiting, scribe.state.unsettled(), scribe.state.ended)


def test_a_run_that_is_aborting_has_not_ended() -> None:
    """Its receipts are still awaited."""
    scribe = Scribe().born()
    scribe.say(Move("REQUEST_ABORT", "asked"))
    scribe.say(resume(2))

    assert ("aborting", False) == (scribe.state.state, scribe.state.ended)


def test_a_run_is_paused_since_its_last_pause() -> None:
    """A pause may renew the one before it without a move; who looked in since paused nothing."""
    scribe = Scribe().born()
    scribe.say(*paused("agent_error"))
    first = scribe.state.paused_at
    scribe.opened("resume", Close("pause", Outcome("paused", "process_alive")))
    scribe.opened("control")
    scribe.say(events.leg_ended(3))

    assert ["2026-11-29T14:00:01.000Z", "2026-11-29T14:00:02.000Z"] == [first, scribe.state.paused_at]


def test_a_pause_that_a_death_took_was_when_the_run_moved_there() -> None:
    """The move stands before the record that closes; a machine may keep the one and not the other."""
    scribe = Scribe().born()
    scribe.say(Move("PAUSE", "agent_error"))
    scribe.opened("control")

    assert (None, "2026-11-29T14:00:01.000Z") == (scribe.state.pause, scribe.state.paused_at)
