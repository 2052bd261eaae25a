"""Counts of a run: what nobody reported is not zero (promise 9, W31)."""

from copy import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.metrics import RunMetrics, Usage

BARE = {
    "durationMs": 0,
    "turns": 0,
    "steps": {"total": 0, "succeeded": 0, "failed": 0},
    "toolCalls": 0,
    "toolFailures": 0,
    "retries": 0,
    "outputChars": 0,
    "unmeasuredTurns": 0,
}


def used(*turns: dict[str, Any]) -> tuple[int | None, int | None, int]:
    metrics = RunMetrics()
    for turn in turns:
        metrics.add_usage({"type": "turn_end", **turn})
    return metrics.tokens, metrics.cost_micro_usd, metrics.unmeasured_turns


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ((), (None, None, 0)),
        (({"usage": "unmeasured"},), (None, None, 1)),
        (({"tokens": 5},), (5, None, 0)),
        (({"tokens": 0},), (0, None, 0)),
        (({"costMicroUsd": 7},), (None, 7, 0)),
        (({"tokens": 5, "costMicroUsd": 7}, {"tokens": 1, "costMicroUsd": 2}), (6, 9, 0)),
        (({"tokens": 5}, {}, {"costMicroUsd": 0}), (5, 0, 1)),
        (({"inputTokens": 3, "outputTokens": 4},), (7, None, 0)),
        (({"tokens": 9, "inputTokens": 3, "outputTokens": 4},), (9, None, 0)),
        (({"inputTokens": 3},), (3, None, 0)),
    ],
)
def test_usage_is_counted_as_reported(
    turns: tuple[dict[str, Any], ...], expected: tuple[int | None, int | None, int]
) -> None:
    """Contract #169, W31: tokens and cost each stay null until they are reported; reported zeros are zeros."""
    assert expected == used(*turns)


@pytest.mark.parametrize("value", [None, "5", 5.0, True])
def test_what_is_no_number_is_unmeasured(value: object) -> None:
    """A turn whose usage cannot be read was not measured; it must not vanish from both counts."""
    assert (None, None, 1) == used({"tokens": value, "costMicroUsd": value})


@given(st.lists(st.fixed_dictionaries({}, optional={"tokens": st.integers(0, 9), "costMicroUsd": st.integers(0, 9)})))
def test_every_turn_is_measured_or_counted_as_unmeasured(turns: list[dict[str, Any]]) -> None:
    """Promise 9: whoever sees a sum also sees how many turns are not in it."""
    tokens, cost, unmeasured = used(*turns)

    assert len([turn for turn in turns if not turn]) == unmeasured
    assert [turn["tokens"] for turn in turns if "tokens" in turn] == [] or tokens is not None
    assert sum(turn.get("costMicroUsd", 0) for turn in turns) == (cost or 0)


def test_answers_are_counted_by_kind() -> None:
    """An error answer is a step that failed, not one that is missing."""
    metrics = RunMetrics()
    metrics.add_answer(is_error=True)
    metrics.add_answer(is_error=False)
    metrics.add_answer(is_error=False)

    assert (1, 2) == (metrics.steps_failed, metrics.steps_succeeded)


def test_a_copy_goes_its_own_way() -> None:
    """An append is judged on a fork; a refused one must not be counted."""
    metrics = RunMetrics(tokens=1)
    copy(metrics).add_usage({"tokens": 5})

    assert 1 == metrics.tokens


def test_the_record_leaves_out_what_was_not_measured() -> None:
    """journal.md §1: the reference refuses null there; the count of unmeasured turns stands beside."""
    recorded = RunMetrics().recorded(0, clock_stepped=False)

    assert BARE == recorded


def test_the_record_holds_what_was_measured() -> None:
    """Contract §2.8: whole numbers only; a clock step is marked (promise 9)."""
    metrics = RunMetrics(1, 2, 9, 4, 5, 6, 7, 8, 10, tokens=11, cost_micro_usd=12, rejected_after_abort=3)

    recorded = metrics.recorded(1000, clock_stepped=True)

    assert {
        "durationMs": 1000,
        "turns": 1,
        "steps": {"total": 9, "succeeded": 4, "failed": 5},
        "toolCalls": 6,
        "toolFailures": 7,
        "retries": 8,
        "outputChars": 10,
        "unmeasuredTurns": 2,
        "tokens": 11,
        "costMicroUsd": 12,
        "rejectedAfterAbort": 3,
        "clockStepped": True,
    } == recorded


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (RunMetrics(), {"tokens": None, "costUsd": None}),
        (RunMetrics(tokens=0, cost_micro_usd=0), {"tokens": 0, "costUsd": 0.0}),
        (RunMetrics(tokens=3, cost_micro_usd=2_500_000), {"tokens": 3, "costUsd": 2.5}),
    ],
)
def test_the_snapshot_says_null(metrics: RunMetrics, expected: dict[str, Any]) -> None:
    """Promise 9: in our snapshot the members are always there, and null when nobody measured."""
    snapshot = metrics.snapshot(0, clock_stepped=False)

    assert {**BARE, **expected} == snapshot


def test_usage_says_only_what_was_reported() -> None:
    """A `turn_end` event carries exactly the members that the provider gave, zeros included."""
    usage = msgspec.to_builtins(Usage(input_tokens=3, output_tokens=0))

    assert {"inputTokens": 3, "outputTokens": 0} == usage
