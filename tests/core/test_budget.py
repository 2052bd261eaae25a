"""Limits: they refuse the next start and say by how much."""

from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.budget import (
    LIMIT_OF,
    NEW_ATTEMPT,
    NEW_CALL,
    NEW_STEP,
    NEW_TURN,
    NOTHING_NEW,
    TURN_AGAIN,
    Exceeded,
    LimitCode,
    RunBudget,
    Spent,
    exceeded,
)
from clew.errors import UsageError

BUDGET: LimitCode = "budget_exceeded"


@pytest.mark.parametrize(
    ("budget", "spent", "adds", "expected"),
    [
        (RunBudget(), Spent(10**9, 10**9, 10**9, 10**9, 10**9, 10**9, 10**9, 1, 1, 10**9), NEW_TURN, None),
        (RunBudget(max_calls=0), Spent(), NEW_CALL, Exceeded(BUDGET, "toolCalls", 0, 0)),
        (RunBudget(max_calls=2), Spent(calls=1), NEW_CALL, None),
        (RunBudget(max_calls=2), Spent(calls=2), NEW_CALL, Exceeded(BUDGET, "toolCalls", 2, 2)),
        (RunBudget(max_calls=2), Spent(calls=2), NEW_TURN, None),
        (RunBudget(max_calls=2), Spent(calls=3), NOTHING_NEW, Exceeded(BUDGET, "toolCalls", 2, 3)),
        (RunBudget(max_tool_failures=2), Spent(failures=2), NEW_CALL, None),
        (RunBudget(max_tool_failures=2), Spent(failures=3), NEW_STEP, Exceeded(BUDGET, "toolFailures", 2, 3)),
        (RunBudget(max_turns=1), Spent(turns=1), NEW_TURN, Exceeded(BUDGET, "turns", 1, 1)),
        (RunBudget(max_turns=1), Spent(turns=1), TURN_AGAIN, None),
        (RunBudget(max_steps=4), Spent(steps=4), NEW_STEP, Exceeded(BUDGET, "steps", 4, 4)),
        (RunBudget(max_steps=4), Spent(steps=4), NEW_CALL, Exceeded(BUDGET, "steps", 4, 4)),
        (RunBudget(max_steps=4), Spent(steps=4), NOTHING_NEW, None),
        (RunBudget(max_retries=1), Spent(retries=1), NEW_ATTEMPT, Exceeded(BUDGET, "retries", 1, 1)),
        (RunBudget(max_tokens=10), Spent(tokens=9), NEW_TURN, None),
        (RunBudget(max_tokens=10), Spent(tokens=10), TURN_AGAIN, Exceeded(BUDGET, "tokens", 10, 10)),
        (RunBudget(max_tokens=10), Spent(tokens=10), NEW_CALL, None),
        (RunBudget(max_tokens=10), Spent(tokens=11), NEW_CALL, Exceeded(BUDGET, "tokens", 10, 11)),
        (RunBudget(max_tokens=0), Spent(), NEW_TURN, Exceeded(BUDGET, "tokens", 0, 0)),
        (RunBudget(max_cost_usd=0.5), Spent(cost_micro_usd=499_999), NEW_TURN, None),
        (
            RunBudget(max_cost_usd=0.5), Spent(cost_micro_usd=500_000), NEW_TURN,
            Exceeded(BUDGET, "costUsd", 500_000, 500_000),
        ),
        (RunBudget(run_timeout_s=1.5), Spent(active_ms=1499), NOTHING_NEW, None),
        (
            RunBudget(run_timeout_s=1.5), Spent(active_ms=1500), NOTHING_NEW,
            Exceeded("run_timeout", "activeTime", 1500, 1500),
        ),
        (
            RunBudget(max_calls=1, run_timeout_s=1), Spent(calls=1, active_ms=2000), NEW_CALL,
            Exceeded(BUDGET, "toolCalls", 1, 1),
        ),
    ],
)  # fmt: skip
def test_a_limit_refuses_the_start_that_would_pass_it_or_that_comes_after(
    budget: RunBudget, spent: Spent, adds: frozenset[str], expected: Exceeded | None
) -> None:
    """Contract #172 to #176, W34: what is above its limit refuses every start, and no limit is there unless given."""
    assert expected == exceeded(budget, spent, adds)


@pytest.mark.parametrize(("dimension", "member"), [("tokens", "no_tokens"), ("costUsd", "no_cost")])
def test_a_limit_of_what_is_not_measured_cannot_be_kept(dimension: str, member: str) -> None:
    """C17, promise 9: a provider that reports nothing would else be free for ever."""
    budget = RunBudget(**{LIMIT_OF[dimension]: 7})  # type: ignore[arg-type]  # a limit by its name
    found = exceeded(budget, Spent(**{member: 2}), NEW_CALL)

    assert found is not None
    assert ("budget_not_enforceable", dimension, 0, 2) == (
        found.code, found.dimension, found.actual, found.unmeasured,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        (RunBudget(max_tokens=7, on_unmeasured="continue"), Spent(no_tokens=2)),
        (RunBudget(max_tokens=7), Spent(no_cost=2)),
        (RunBudget(max_cost_usd=7), Spent(no_tokens=2)),
        (RunBudget(max_calls=7), Spent(no_tokens=2, no_cost=2)),
    ],
)
def test_what_is_not_measured_refuses_nothing_where_nobody_asks(budget: RunBudget, spent: Spent) -> None:
    """W31: tokens and cost are told apart, and who wants to go on may."""
    assert None is exceeded(budget, spent, NEW_TURN)


def test_what_is_known_to_be_too_much_is_said_before_what_is_not_known() -> None:
    """More than the limit is more, whatever else was used."""
    found = exceeded(RunBudget(max_tokens=7, on_unmeasured="pause"), Spent(tokens=8, no_tokens=1))

    assert Exceeded(BUDGET, "tokens", 7, 8) == found


@given(st.integers(0, 20), st.integers(0, 20))
def test_a_limit_allows_exactly_as_many_calls(limit: int, spent: int) -> None:
    """Contract #175: what earlier legs spent counts; `limit` calls may be proposed over all of them."""
    budget = RunBudget(max_calls=limit)

    allowed = sum(exceeded(budget, Spent(calls=calls), NEW_CALL) is None for calls in range(spent, 50))

    assert max(0, limit - spent) == allowed


@pytest.mark.parametrize("member", LIMIT_OF.values())
@pytest.mark.parametrize("value", [-1, True, nan, inf, "3", [1]])
def test_what_is_no_limit_is_refused(member: str, value: Any) -> None:
    """A limit that is never reached because it is no number would be a silent lack of one."""
    with pytest.raises(UsageError, match=f"budget {member} is ") as caught:
        RunBudget(**{member: value})

    assert "invalid_budget" == caught.value.code


@pytest.mark.parametrize("member", sorted(set(LIMIT_OF.values()) - {"max_cost_usd", "run_timeout_s"}))
def test_half_of_what_is_counted_is_refused(member: str) -> None:
    """Calls are counted in whole numbers; rounding would decide for the user."""
    with pytest.raises(UsageError, match=rf"budget {member} is 2\.5"):
        RunBudget(**{member: 2.5})  # type: ignore[arg-type]  # the point of the test


def test_what_to_do_about_unmeasured_usage_is_one_of_two_words() -> None:
    """A slip of the pen must not switch a limit off."""
    with pytest.raises(UsageError, match="budget on_unmeasured is 'go'"):
        RunBudget(on_unmeasured="go")  # type: ignore[arg-type]  # the point of the test


ALL = RunBudget(
    max_calls=1, max_tool_failures=2, max_turns=3, max_steps=4, max_retries=5, max_tokens=6, max_cost_usd=0.29,
    run_timeout_s=0.29, on_unmeasured="continue",
)  # fmt: skip
WRITTEN = {
    "maxCalls": 1, "maxToolFailures": 2, "maxTurns": 3, "maxSteps": 4, "maxRetries": 5, "maxTokens": 6,
    "maxCostMicroUsd": 290_000, "runTimeoutMs": 290, "onUnmeasured": "continue",
}  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "expected"),
    [(RunBudget(), {}), (RunBudget(max_calls=20), {"maxCalls": 20}), (ALL, WRITTEN)],
)
def test_limits_are_recorded_in_whole_numbers(budget: RunBudget, expected: dict[str, Any]) -> None:
    """journal.md §1: no floats in members of ours; what is unlimited is left out."""
    recorded = budget.as_json()

    assert expected == recorded
    assert {int, str} >= {type(value) for value in recorded.values()}


@pytest.mark.parametrize("budget", [RunBudget(), ALL, RunBudget(max_cost_usd=3)])
def test_recorded_limits_are_read_again(budget: RunBudget) -> None:
    """A resume goes on under what the record says."""
    assert budget == RunBudget.from_json({**budget.as_json(), "maxOfTomorrow": 1})


@pytest.mark.parametrize("limits", [{"maxCalls": "3"}, {"maxCostMicroUsd": 0.5e-9 - 1}, {"onUnmeasured": 1}])
def test_limits_that_cannot_be_read_are_refused(limits: dict[str, Any]) -> None:
    """None would hold otherwise."""
    with pytest.raises(UsageError, match="budget "):
        RunBudget.from_json(limits)


@pytest.mark.parametrize(
    ("found", "recorded", "message"),
    [
        (
            Exceeded(BUDGET, "toolCalls", 2, 3),
            {"dimension": "toolCalls", "limit": 2, "actual": 3},
            "limit toolCalls = 2 reached (3)",
        ),
        (
            Exceeded("run_timeout", "activeTime", 1001, 2000),
            {"dimension": "activeTime", "limit": 1001, "actual": 2000},
            "limit activeTime = 1.001 reached (2)",
        ),
        (
            Exceeded(BUDGET, "costUsd", 500_000, 620_000),
            {"dimension": "costUsd", "limit": 500_000, "actual": 620_000},
            "limit costUsd = 0.5 reached (0.62)",
        ),
        (
            Exceeded("budget_not_enforceable", "tokens", 100, 7, 1),
            {"dimension": "tokens", "limit": 100, "actual": 7, "unmeasuredTurns": 1},
            "limit tokens = 100 cannot be kept: 1 turn not measured (at least 7 used)",
        ),
        (
            Exceeded("budget_not_enforceable", "costUsd", 100, 0, 2),
            {"dimension": "costUsd", "limit": 100, "actual": 0, "unmeasuredTurns": 2},
            "limit costUsd = 0.0001 cannot be kept: 2 turns not measured (at least 0 used)",
        ),
    ],
)
def test_a_reached_limit_says_which(found: Exceeded, recorded: dict[str, Any], message: str) -> None:
    """The event and the sentence name the limit and what was spent, time in milliseconds in the journal."""
    assert (recorded, message) == (found.as_json(), found.message)


def test_what_two_have_spent_is_both_together() -> None:
    """A run and its children share one limit."""
    both = Spent(calls=1, tokens=5, no_cost=1).plus(Spent(calls=2, tokens=7, active_ms=3))

    assert Spent(calls=3, tokens=12, no_cost=1, active_ms=3) == both


@pytest.mark.parametrize(("mine", "theirs", "tokens"), [(None, None, None), (None, 4, 4), (4, None, 4), (0, None, 0)])
def test_what_neither_measured_is_not_measured(mine: int | None, theirs: int | None, tokens: int | None) -> None:
    """Promise 9: nothing is made a zero by adding."""
    assert tokens == Spent(tokens=mine).plus(Spent(tokens=theirs)).tokens
