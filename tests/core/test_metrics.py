"""Counts of a run: what nobody reported is not zero (promise 9, W31)."""

from copy import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.metrics import RunMetrics, Talk
from clew.core.usage import Usage

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
CONTEXT: dict[str, Any] = {
    "inputTokens": None,
    "outputTokens": None,
    "cacheReadTokens": None,
    "cacheWriteTokens": None,
    "promptCacheStatus": "unknown",
    "compactions": 0,
    "stablePrefixFingerprints": [],
}
OURS: dict[str, Any] = {
    "context": CONTEXT,
    "lastPromptTokens": None,
    "requests": 0,
    "unmeasuredTokens": 0,
    "unmeasuredCosts": 0,
    "repeatedMessages": 0,
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

    assert {**BARE, **OURS, **expected} == snapshot


def asked(*turns: dict[str, Any]) -> RunMetrics:
    """So many requests, each with the end of its turn."""
    metrics = RunMetrics()
    for turn in turns:
        metrics.add_request()
        metrics.add_usage({"type": "turn_end", **turn})
    return metrics


def test_context_is_the_sum_of_what_turns_reported() -> None:
    """Contract #167, W31: each count by itself, and null where no turn had it."""
    metrics = asked(
        {"inputTokens": 1, "outputTokens": 2, "cacheReadTokens": 3, "promptCacheStatus": "available"},
        {"inputTokens": 10, "promptCacheStatus": "unavailable", "cacheReadTokens": 30},
        {"tokens": 5},
    )

    found = metrics.snapshot(0, clock_stepped=False)["context"]

    assert {
        **CONTEXT, "inputTokens": 11, "outputTokens": 2, "cacheReadTokens": 33, "cacheWriteTokens": 0,
        "promptCacheStatus": "available",
    } == found  # fmt: skip


def test_without_a_cache_nothing_came_from_it() -> None:
    """Contract #168: the provider says that it has none, so zero is measured."""
    context = asked({"inputTokens": 1, "promptCacheStatus": "unavailable"}).snapshot(0, clock_stepped=False)["context"]

    assert ("unavailable", 0, 0) == (
        context["promptCacheStatus"], context["cacheReadTokens"], context["cacheWriteTokens"],
    )  # fmt: skip


def test_the_record_carries_the_context_that_was_measured() -> None:
    """Contract #169, journal.md §1: what nobody reported is left out, the whole member too."""
    bare, told = asked({"tokens": 5}), asked({"inputTokens": 1})

    assert "context" not in bare.recorded(0, clock_stepped=False)
    assert {"inputTokens": 1, "promptCacheStatus": "unknown", "compactions": 0, "stablePrefixFingerprints": []} == (
        told.recorded(0, clock_stepped=False)["context"]
    )


@pytest.mark.parametrize(
    "talk",
    [Talk(cache="available"), Talk(compactions=1, last_summary="s"), Talk(prefixes=("p",)), Talk(output_tokens=0)],
)
def test_each_part_of_the_context_is_worth_recording(talk: Talk) -> None:
    """A finish that lacks one would say that it was not there."""
    recorded = RunMetrics(talk=talk).recorded(0, clock_stepped=False)

    assert talk.context().items() >= recorded["context"].items()


def test_artifacts_are_counted_where_there_are_any() -> None:
    """Contract §2.8: stored, blocked, and the bytes of those that were stored."""
    recorded = RunMetrics(talk=Talk(artifacts=(2, 1, 30))).recorded(0, clock_stepped=False)

    assert {"stored": 2, "blocked": 1, "totalBytes": 30} == recorded["artifacts"]


def test_the_sum_of_requests_is_not_the_size_of_the_last_prompt() -> None:
    """C20: a context of 300 tokens that was sent three times cost more than 300."""
    found = asked(
        {"inputTokens": 100, "outputTokens": 1}, {"inputTokens": 20, "cacheReadTokens": 180, "outputTokens": 1},
        {"inputTokens": 30, "cacheReadTokens": 260, "cacheWriteTokens": 10, "outputTokens": 1}, {},
    ).snapshot(0, clock_stepped=False)  # fmt: skip

    assert (603, 300, 4, 1) == (
        found["tokens"], found["lastPromptTokens"], found["requests"], found["unmeasuredTokens"],
    )  # fmt: skip


def test_tokens_and_costs_are_unmeasured_each_by_itself() -> None:
    """W31: a provider that reports tokens and no cost is not free."""
    found = asked({"tokens": 5}, {"costMicroUsd": 7}, {}).snapshot(0, clock_stepped=False)

    assert (2, 2, 1) == (found["unmeasuredTokens"], found["unmeasuredCosts"], found["unmeasuredTurns"])


def test_a_request_that_is_open_is_not_measured() -> None:
    """C16: aborted in the middle, it was paid, perhaps; not measured is not zero."""
    metrics = asked({"tokens": 5})
    metrics.add_request()
    open_, lost = metrics.snapshot(0, clock_stepped=False), copy(metrics)
    lost.lose_open()
    lost.lose_open()

    assert [(5, 1, 1, 2)] * 2 == [
        (found["tokens"], found["unmeasuredTurns"], found["unmeasuredTokens"], found["unmeasuredCosts"])
        for found in (open_, lost.snapshot(0, clock_stepped=False))
    ]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"tokens": 5}, {"tokens": 8}, (8, None, 0, 0)),
        ({"tokens": 5}, {}, (5, None, 0, 0)),
        ({}, {"tokens": 8}, (8, None, 0, 0)),
        ({}, {}, (None, None, 1, 2)),
        ({"costMicroUsd": 3}, {"tokens": 8, "costMicroUsd": 2}, (8, 2, 0, 0)),
    ],
)
def test_a_message_is_counted_once_and_its_last_report_wins(
    first: dict[str, Any], second: dict[str, Any], expected: tuple[int | None, int | None, int, int]
) -> None:
    """C12: a resumed transcript that repeats its calls would cost two to four times what it did."""
    metrics = RunMetrics()
    earlier = metrics.add_usage(first)
    metrics.add_usage(second, earlier)

    assert (*expected[:2], 1) == (metrics.tokens, metrics.cost_micro_usd, metrics.talk.repeats)
    assert expected[2] == min(1, metrics.unmeasured_turns)


def test_usage_says_only_what_was_reported() -> None:
    """A `turn_end` event carries exactly the members that the provider gave, zeros included."""
    usage = msgspec.to_builtins(Usage(input_tokens=3, output_tokens=0))

    assert {"inputTokens": 3, "outputTokens": 0} == usage
