"""How a run stands: exit codes, what closes a leg, how an effect is listed."""

from typing import Any

import msgspec
import pytest

from clew.core.calls import AnswerRef, CallState
from clew.core.codec import LineReader
from clew.core.compose import Close, Move
from clew.core.folding import fold
from clew.core.operation import DurableOperation
from clew.core.outcome import (
    EXIT_BY_REASON,
    PERSON_REASONS,
    Outcome,
    closing_payload,
    effect_row,
    exit_code,
    outcome_now,
)
from clew.core.records import Record
from clew.core.review import Review
from clew.core.state import RunState
from tests.core.journals import EXAMPLES
from tests.histories import Scribe

AT = "2026-11-29T14:00:00.000Z"
CALL = CallState("pay-1", "c1", "r1:pay-1:c1", "pay", "turn-0", "f" * 64, 7)
BARE = {
    "stepId": "pay-1",
    "callId": "c1",
    "tool": "pay",
    "idempotencyKey": "r1:pay-1:c1",
    "attempt": 0,
    "status": "not_started",
    "answered": False,
    "repeatable": False,
}


def records(name: str) -> list[Record]:
    path = next(path for path in EXAMPLES if path.stem == name)
    lines = path.read_bytes().splitlines()
    reader = LineReader(msgspec.json.decode(lines[0])["runId"])
    return [reader.feed(line) for line in lines]


def folded(found: list[Record]) -> RunState:
    return fold(((record, at) for at, record in enumerate(found)), found[0].run_id)


def failed(reason: str | None) -> RunState:
    state = RunState("r1")
    operation = DurableOperation.create(run_id="r1", operation_id="op-1", event_id="e1", at=AT)
    state.operation = operation.move("FAIL", event_id="e2", at=AT, reason=reason)
    return state


@pytest.mark.parametrize(
    ("state", "reason", "code"),
    [
        ("completed", None, 0),
        ("completed", "unknown_effect", 0),
        ("failed", "aborted", 3),
        ("failed", "budget_exceeded", 3),
        ("paused", "budget_exceeded", 5),
        ("paused", "run_timeout", 5),
        ("paused", "budget_not_enforceable", 5),
        ("paused", "approval_required", 20),
        ("paused", "unknown_effect", 21),
        ("paused", "committed_effect_pending", 21),
        ("paused", "process_alive", 21),
        ("paused", "agent_error", 22),
        ("paused", "crash_loop", 22),
        ("paused", "pause_requested", 23),
        ("paused", "interrupted", 130),
        ("paused", "terminated", 143),
        ("paused", "a reason of tomorrow", 21),
        ("running", None, 21),
    ],
)
def test_a_state_has_its_exit_code(state: str, reason: str | None, code: int) -> None:
    """DESIGN §9: scripts branch on it; what is not known needs a person and is never a success."""
    assert code == exit_code(state, reason)


def test_only_a_completed_run_exits_with_success() -> None:
    """Promise 8: no reason, known or not, turns another state into 0."""
    codes = {exit_code(state, reason) for state in ("accepted", "paused", "failed") for reason in EXIT_BY_REASON}

    assert 0 not in codes


def test_the_reasons_that_need_a_person_share_an_exit_code() -> None:
    """DESIGN §9: 21 is "somebody must look"; the views advise on exactly these."""
    assert {21} == {exit_code("paused", reason) for reason in PERSON_REASONS}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_closing_record_follows_from_the_state_before_it(path: Any) -> None:
    """Journals of ours equal the examples member for member, in the order of the contract."""
    found = records(path.stem)
    said = found[-1].payload

    payload = closing_payload(folded(found[:-1]), outcome_now(folded(found)))

    assert list(said) == list(payload)
    assert {**said, "metrics": list(said["metrics"])} == {**payload, "metrics": list(payload["metrics"])}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("completed", Outcome("succeeded", "completed")), ("paused", Outcome("paused", "approval_required"))],
)
def test_a_closed_run_says_its_recorded_outcome(name: str, expected: Outcome) -> None:
    """Promise 9: what was recorded is said again, nothing is derived anew."""
    assert expected == outcome_now(folded(records(name)))


def test_a_recorded_error_is_kept() -> None:
    """Whoever looks later sees why the agent stopped."""
    state = RunState("r1")
    state.pause = {"outcome": {"status": "paused", "finishReason": "agent_error", "error": {"code": "agent_error"}}}

    assert Outcome("paused", "agent_error", {"code": "agent_error"}) == outcome_now(state)


def test_a_finish_speaks_before_a_pause() -> None:
    """A foreign run may hold both; the later one is the end."""
    state = RunState("r1")
    state.pause = {"outcome": {"status": "paused", "finishReason": "agent_error"}}
    state.finish = {"outcome": {"status": "failed", "finishReason": "aborted"}}

    assert Outcome("failed", "aborted") == outcome_now(state)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (RunState("r1"), Outcome("accepted", "accepted")),
        (failed(None), Outcome("failed", "failed")),
        (failed("effect_given_up"), Outcome("failed", "effect_given_up")),
    ],
)
def test_a_run_in_motion_says_where_its_operation_is(state: RunState, expected: Outcome) -> None:
    """Between the operation's move and the closing record a crash may lie; the reason must not be lost."""
    assert expected == outcome_now(state)


def test_a_closing_record_without_an_outcome_is_looked_past() -> None:
    """A foreign finish may have any shape; showing it must not fail."""
    state = failed("aborted")
    state.finish = {"outcome": "bad"}

    assert Outcome("failed", "aborted") == outcome_now(state)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome("succeeded", "completed"), {"status": "succeeded", "finishReason": "completed"}),
        (
            Outcome("failed", "x", {"code": "x", "message": "y"}),
            {"status": "failed", "finishReason": "x", "error": {"code": "x", "message": "y"}},
        ),
    ],
)
def test_an_outcome_leaves_out_the_error_that_was_none(outcome: Outcome, expected: dict[str, Any]) -> None:
    """Contract §2.8: `error` is there only when there was one."""
    assert expected == outcome.as_json()


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, {}),
        ({"answer": AnswerRef(9, is_error=True)}, {"answered": True}),
        (
            {"attempt": 2, "status": "unknown", "started_ms": 1_795_960_800_000},
            {"attempt": 2, "status": "unknown", "startedAt": AT},
        ),
        (
            {"review": Review("r1", "happened", "operator", "ops", "seen", result_recorded=False, complete=False)},
            {"review": {"outcome": "happened", "source": "operator", "by": "ops", "reason": "seen"}},
        ),
        ({"review": Review("r1", "happened", "operator", "ops", "seen", result_recorded=True, complete=False)}, {}),
    ],
    ids=["new", "answered", "open", "settled", "torn review"],
)
def test_an_effect_is_listed_with_what_is_known(members: dict[str, Any], expected: dict[str, Any]) -> None:
    """DESIGN §5: the evidence is shown before anybody settles; a torn review is not shown as one."""
    call: CallState = msgspec.structs.replace(CALL, **members)

    assert {**BARE, **expected} == effect_row(call)


def test_a_leg_whose_clock_was_set_says_how_long_it_ran() -> None:
    """C122, W33: the times of its records lie, and a limit must not believe them."""
    scribe = Scribe().born()
    scribe.say(Move("PAUSE", "x"), Close("pause", Outcome("paused", "x"), active_ms=70))
    assert scribe.state.pause is not None

    assert (70, True, 70, True) == (
        scribe.state.pause["metrics"]["activeMs"], scribe.state.pause["metrics"]["clockStepped"],
        scribe.state.active_ms, scribe.state.clock_stepped,
    )  # fmt: skip
