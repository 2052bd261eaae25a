"""What providers report: normalised, set within one answer, counted once per message."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.usage import Usage, UsageCount, read_usage

counts = st.integers(0, 99)
maybe = st.none() | counts


def test_a_prompt_count_that_contains_the_cache_is_divided() -> None:
    """C14: added again, the cached part would count twice."""
    usage = Usage.from_openai(prompt_tokens=1000, cached_tokens=900, completion_tokens=20)

    assert (100, 900, None, 20, 1000, 1020, "available") == (
        usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens,
        usage.prompt_tokens, usage.all_tokens, usage.prompt_cache_status,
    )  # fmt: skip


@given(counts, counts, maybe)
def test_the_parts_of_a_prompt_are_the_providers_count(prompt: int, output: int, cached: int | None) -> None:
    """C14: input + cache read + cache write is what the provider says, whatever part of it was cached."""
    usage = Usage.from_openai(prompt_tokens=prompt, completion_tokens=output, cached_tokens=cached)

    assert prompt + output == usage.all_tokens
    assert usage.prompt_tokens == (None if (cached or 0) > prompt else prompt)


def test_a_cached_part_larger_than_the_prompt_is_not_believed() -> None:
    """A negative count would make other turns cheaper."""
    usage = Usage.from_openai(prompt_tokens=10, cached_tokens=11, completion_tokens=1)

    assert (None, None, 11) == (usage.input_tokens, usage.cache_read_tokens, usage.all_tokens)


@pytest.mark.parametrize("given_", [{"prompt_tokens": 3}, {"completion_tokens": 3}, {}])
def test_half_a_report_stays_half(given_: dict[str, int]) -> None:
    """Promise 9: a whole that nobody counted is not made of one part."""
    assert None is Usage.from_openai(**given_).tokens


def test_input_beside_the_cache_is_taken_as_it_is() -> None:
    """The other way of counting; both come to the same members."""
    usage = Usage.from_anthropic(
        input_tokens=3, cache_creation_input_tokens=9489, cache_read_input_tokens=20417, output_tokens=2, cost_usd=0.25
    )

    assert (3, 20417, 9489, 29909, 29911, 250_000, "available") == (
        usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.prompt_tokens, usage.all_tokens,
        usage.cost_micro_usd, usage.prompt_cache_status,
    )  # fmt: skip


def test_a_provider_that_says_nothing_of_a_cache_says_nothing() -> None:
    """Neither that there is one nor that there is none."""
    assert Usage(input_tokens=3) == Usage.from_anthropic(input_tokens=3)


def test_within_one_stream_values_are_set() -> None:
    """C15: its start and its end both carry the cache count."""
    start = Usage(cache_read_tokens=500, output_tokens=1)

    assert Usage(cache_read_tokens=500, output_tokens=20) == start.then(Usage(cache_read_tokens=500, output_tokens=20))


@given(st.builds(Usage, tokens=maybe, output_tokens=maybe), st.builds(Usage, tokens=maybe, output_tokens=maybe))
def test_a_report_that_comes_again_changes_nothing(first: Usage, second: Usage) -> None:
    """However often a stream repeats its end."""
    once = first.then(second)

    assert once == once.then(second)


@pytest.mark.parametrize("usage", [Usage(), Usage(cost_micro_usd=0)])
def test_what_nobody_reported_is_no_sum(usage: Usage) -> None:
    """C17: not zero."""
    assert (None, None) == (usage.prompt_tokens, usage.all_tokens)


@given(st.builds(Usage, tokens=maybe, input_tokens=maybe, cost_micro_usd=maybe, cache_read_tokens=maybe))
def test_usage_is_read_as_it_was_written(usage: Usage) -> None:
    """A `turn_end` carries it member for member."""
    assert usage == read_usage(msgspec.to_builtins(usage))


@pytest.mark.parametrize("value", [None, "5", 5.0, True])
def test_what_is_no_number_was_not_said(value: Any) -> None:
    """Another program may have written it."""
    assert Usage() == read_usage({"tokens": value, "promptCacheStatus": value})


# Many reports.


def test_each_message_counts_once() -> None:
    """C12, C13: a resumed transcript and split records repeat the usage of a message."""
    count = UsageCount()
    for output in (2, 2, 7):
        count.add(Usage(output_tokens=output), message_id="m1")
    count.add(Usage(output_tokens=3), message_id="m2")

    assert (10, 2, 2, 0) == (count.usage.output_tokens, count.messages, count.repeats, count.unmeasured)


def test_an_equal_record_without_an_id_is_the_same_one() -> None:
    """C21: verbatim replays of whole records; how many there were is told."""
    count = UsageCount()
    for record in ("a", "a", "b", "", ""):
        count.add(Usage(tokens=1), record=record)

    assert (4, 4, 1) == (count.usage.tokens, count.messages, count.repeats)


def test_a_message_without_usage_is_not_measured() -> None:
    """C16, C17: sums beside it are what was used at least; a later report of it wins."""
    count = UsageCount()
    count.add(None, message_id="m1")
    count.add(None, message_id="m2")
    count.add(Usage(tokens=4), message_id="m1")
    count.add(None, message_id="m1")

    assert (4, 1, 2) == (count.usage.tokens, count.unmeasured, count.repeats)


def test_nothing_reported_is_no_sum_at_all() -> None:
    """Promise 9."""
    assert Usage() == UsageCount().usage


@given(st.lists(st.tuples(st.sampled_from("abc"), st.builds(Usage, tokens=maybe))), st.data())
def test_a_transcript_that_is_read_twice_costs_what_it_costs_once(
    reports: list[tuple[str, Usage]], data: st.DataObject
) -> None:
    """C12: whatever part of it a resume writes again."""
    once, twice = UsageCount(), UsageCount()
    again = data.draw(st.integers(0, len(reports)))
    for name, usage in reports:
        once.add(usage, message_id=name)
    for name, usage in [*reports, *reports[again:]]:
        twice.add(usage, message_id=name)

    assert (once.usage, once.messages) == (twice.usage, twice.messages)
