"""What a run used, under which limits, and what its checks found, as people read it."""

from typing import Any

import pytest

from clew.core.budget import LIMIT_OF, Exceeded, RunBudget
from clew.views.measures import FLAGS, check_lines, limit_reached, limits_text, usage_text


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"turns": 0, "tokens": None}, []),
        ({"turns": 2, "tokens": None, "unmeasuredTurns": 2}, ["tokens not reported"]),
        ({"turns": 2, "requests": 2, "tokens": 12_300}, ["12,300 tokens"]),
        (
            {"turns": 9, "requests": 9, "tokens": 12_300, "unmeasuredTokens": 2, "unmeasuredTurns": 2},
            ["at least 12,300 tokens (2 of 9 turns unmeasured)"],
        ),
        (
            {"turns": 1, "requests": 2, "tokens": 7, "unmeasuredTokens": 1},
            ["at least 7 tokens (1 of 2 turns unmeasured)"],
        ),
        (
            {"turns": 2, "requests": 2, "tokens": 7, "costUsd": 1.5, "unmeasuredCosts": 1},
            ["7 tokens", "at least $1.50 (1 of 2 turns unmeasured)"],
        ),
        ({"turns": 1, "tokens": 7, "costUsd": 0.000005}, ["7 tokens", "$0.000005"]),
        ({"turns": 1, "tokens": 7, "costUsd": 0.0}, ["7 tokens", "$0.00"]),
        ({"turns": 3, "tokens": 7, "repeatedMessages": 2}, ["7 tokens", "2 repeated reports not counted again"]),
    ],
)
def test_a_sum_says_what_is_not_in_it(metrics: dict[str, Any], expected: list[str]) -> None:
    """Promise 9, C16, C17: never a bare total when something is unmeasured, never zero for what nobody reported."""
    assert expected == usage_text(metrics)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (RunBudget(), ""),
        (RunBudget(max_calls=1), "at most 1 call"),
        (
            RunBudget(
                max_calls=20, max_tool_failures=3, max_turns=9, max_steps=100, max_retries=2, max_tokens=10_000,
                max_cost_usd=2.5, run_timeout_s=90, on_unmeasured="continue",
            ),
            (
                "at most 20 calls, 3 error answers, 9 turns, 100 steps, 2 further attempts, 10,000 tokens, $2.50, "
                "1 min 30 s of running, whatever is not measured"
            ),
        ),
        (RunBudget(max_calls=2, on_unmeasured="continue"), "at most 2 calls"),
    ],
)  # fmt: skip
def test_the_limits_in_force_are_said(budget: RunBudget, expected: str) -> None:
    """Who looks at a paused run wants to know what holds it."""
    assert expected == limits_text(budget.as_json())


def test_limits_of_another_program_are_passed_over() -> None:
    """They may be of any shape; a page must not fail of them."""
    assert "" == limits_text({"maxCalls": "many"})


@pytest.mark.parametrize("dimension", LIMIT_OF)
def test_every_limit_has_its_option(dimension: str) -> None:
    """The next step names the very option that helps."""
    message = Exceeded("budget_exceeded", dimension, 2, 3).message

    assert (dimension, True) == (limit_reached({"message": message}), dimension in FLAGS)


@pytest.mark.parametrize("message", ["", "limit", "limit of patience", "the limit tokens = 2", None])
def test_a_message_that_names_no_limit_names_none(message: Any) -> None:
    """What an older clew or another program wrote is no option."""
    assert "" == limit_reached({"message": message})


def test_checks_are_told_with_what_they_rest_on() -> None:
    """A verdict without its evidence is an opinion."""
    checks = [
        {"id": "totals match", "passed": True, "score": 0.5, "evidence": ["line 3"], "findings": []},
        {"id": "no keys", "passed": False, "reason": "one\nkey", "evidence": [], "findings": ["AKIA…"]},
    ]
    readiness = {"ready": False, "blockers": ["check 'no keys' did not pass"], "warnings": ["1 effect outside"]}

    assert [
        "totals match: passed, 0.5",
        "  evidence: line 3",
        "no keys: NOT PASSED: one\\nkey",
        "  finding: AKIA…",
        "not ready: check 'no keys' did not pass",
        "warning: 1 effect outside",
    ] == check_lines(checks, readiness)


def test_a_run_that_is_ready_says_so() -> None:
    """One line."""
    lines = check_lines([{"id": "a", "passed": True}], {"ready": True, "blockers": [], "warnings": []})

    assert ["a: passed", "ready for release"] == lines


def test_a_run_without_checks_says_nothing_of_them() -> None:
    """W32: nothing is scored that did not run."""
    assert [] == check_lines([], {"ready": False, "blockers": ["no evaluation ran"]})
