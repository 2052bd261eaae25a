"""Limits: they refuse the next start and say by how much."""

from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.budget import Exceeded, RunBudget, exceeded, out_of_time
from clew.errors import UsageError


@pytest.mark.parametrize(
    ("budget", "calls", "active_s", "expected"),
    [
        (RunBudget(), 10**9, 1e9, None),
        (RunBudget(max_calls=0), 0, 0, Exceeded("budget_exceeded", "toolCalls", 0, 0)),
        (RunBudget(max_calls=2), 1, 0, None),
        (RunBudget(max_calls=2), 2, 0, Exceeded("budget_exceeded", "toolCalls", 2, 2)),
        (RunBudget(max_calls=2), 3, 0, Exceeded("budget_exceeded", "toolCalls", 2, 3)),
        (RunBudget(run_timeout_s=1.5), 9, 1.4, None),
        (RunBudget(run_timeout_s=1.5), 9, 1.5, Exceeded("run_timeout", "activeTime", 1.5, 1.5)),
        (RunBudget(max_calls=1, run_timeout_s=1), 1, 2, Exceeded("budget_exceeded", "toolCalls", 1, 1)),
    ],
)
def test_a_limit_refuses_the_start_that_would_pass_it(
    budget: RunBudget, calls: int, active_s: float, expected: Exceeded | None
) -> None:
    """Contract #172, #175: a limit of 0 allows nothing; without limits nothing is refused (DESIGN §13 on #176)."""
    assert expected == exceeded(budget, calls=calls, active_s=active_s)


@given(st.integers(0, 20), st.integers(0, 20))
def test_a_limit_allows_exactly_as_many_calls(limit: int, spent: int) -> None:
    """Contract #175: what earlier legs spent counts; `limit` calls may be proposed over all of them."""
    budget = RunBudget(max_calls=limit)

    allowed = sum(exceeded(budget, calls=calls, active_s=0) is None for calls in range(spent, 50))

    assert max(0, limit - spent) == allowed


@pytest.mark.parametrize(("active_s", "over"), [(0.9, False), (1.0, True)])
def test_time_can_be_asked_for_alone(active_s: float, over: bool) -> None:
    """A turn is no call, but it takes time."""
    found = out_of_time(RunBudget(max_calls=0, run_timeout_s=1), active_s)

    assert over == (found is not None)


@pytest.mark.parametrize("member", ["max_calls", "run_timeout_s"])
@pytest.mark.parametrize("value", [-1, True, nan, inf, "3", [1]])
def test_what_is_no_limit_is_refused(member: str, value: Any) -> None:
    """A limit that is never reached because it is no number would be a silent lack of one."""
    with pytest.raises(UsageError, match=f"budget {member} is ") as caught:
        RunBudget(**{member: value})

    assert "invalid_budget" == caught.value.code


def test_half_a_call_is_refused() -> None:
    """Calls are counted in whole numbers; rounding would decide for the user."""
    with pytest.raises(UsageError, match=r"budget max_calls is 2\.5"):
        RunBudget(max_calls=2.5)  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (RunBudget(), {}),
        (RunBudget(max_calls=20), {"maxCalls": 20}),
        (RunBudget(max_calls=0, run_timeout_s=0.29), {"maxCalls": 0, "runTimeoutMs": 290}),
        (RunBudget(run_timeout_s=900), {"runTimeoutMs": 900_000}),
    ],
)
def test_limits_are_recorded_in_whole_numbers(budget: RunBudget, expected: dict[str, int]) -> None:
    """journal.md §1: no floats in members of ours; what is unlimited is left out."""
    recorded = budget.as_json()

    assert expected == recorded
    assert {int} >= {type(value) for value in recorded.values()}


@pytest.mark.parametrize(
    ("found", "recorded", "message"),
    [
        (
            Exceeded("budget_exceeded", "toolCalls", 2, 3),
            {"dimension": "toolCalls", "limit": 2, "actual": 3},
            "limit toolCalls = 2 reached (3)",
        ),
        (
            Exceeded("run_timeout", "activeTime", 1.001, 2.0),
            {"dimension": "activeTime", "limit": 1001, "actual": 2000},
            "limit activeTime = 1.001 reached (2)",
        ),
    ],
)
def test_a_reached_limit_says_which(found: Exceeded, recorded: dict[str, Any], message: str) -> None:
    """The event and the sentence name the limit and what was spent, time in milliseconds in the journal."""
    assert (recorded, message) == (found.as_json(), found.message)
