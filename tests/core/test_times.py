"""Times as they stand in records."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.times import format_ms, parse_ms, valid_time

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


@given(st.integers(FIRST_MS, LAST_MS))
def test_a_time_comes_back_as_it_was(at_ms: int) -> None:
    """From the year 1 to 9999, to the millisecond: windows and durations are computed from what was read back."""
    text = format_ms(at_ms)

    assert at_ms == parse_ms(text)


@given(st.integers(FIRST_MS, LAST_MS), st.integers(FIRST_MS, LAST_MS))
def test_texts_are_ordered_as_times_are(one: int, other: int) -> None:
    """The fold sees a clock step by comparing texts, so all must have one width."""
    assert (one < other) == (format_ms(one) < format_ms(other))


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_795_960_800_007, "2026-11-29T14:00:00.007Z"),
        (FIRST_MS, "0001-01-01T00:00:00.000Z"),
        (LAST_MS, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_has_one_form(at_ms: int, text: str) -> None:
    """The form of the contract: UTC, milliseconds, `Z`."""
    assert text == format_ms(at_ms)


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2026-11-29T14:00:00Z", 1_795_960_800_000),
        ("2026-11-29T14:00:00.5Z", 1_795_960_800_500),
        ("2026-11-29T14:00:00.000999Z", 1_795_960_800_000),
    ],
)
def test_other_programs_times_are_read(text: str, at_ms: int) -> None:
    """Foreign journals may write fewer or more digits; what is finer than a millisecond is dropped."""
    assert at_ms == parse_ms(text)


@st.composite
def spoiled_times(draw: st.DrawFn) -> str:
    """Texts as long as a time of ours, and nearly one."""
    text = list(format_ms(draw(st.integers(FIRST_MS, LAST_MS))))
    for _ in range(draw(st.integers(0, 3))):
        text[draw(st.integers(0, len(text) - 1))] = draw(st.sampled_from("0123456789:.-+TZW _٣"))
    return "".join(text)


@given(spoiled_times())
def test_a_time_is_read_as_the_standard_library_reads_it(text: str) -> None:
    """Minutes are read once for all their seconds; that must make no time of what is none, and no other time."""
    try:
        wanted = (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except (ValueError, TypeError):
        wanted = None

    assert (wanted if text.endswith("Z") else None) == parse_ms(text)


@pytest.mark.parametrize(
    "text",
    ["", "Z", "yesterday Z", "2026-11-29Z", "2026-11-29T25:00:00Z", "2026-02-30T00:00:00Z", "2026-11-29T14:00:00",
     "2026-11-29T14:00:00+00:00", "2026-11-29T14:00:00+01:00Z", "\ud800Z", None, 1_795_960_800_000],
)  # fmt: skip
def test_what_is_no_time_in_utc_is_none(text: object) -> None:
    """A time without its zone, or none at all, is never guessed; the two questions agree."""
    assert (None, False) == (parse_ms(text), valid_time(text))


@given(st.text(max_size=30))
def test_no_text_breaks_the_reader(text: str) -> None:
    """A journal may hold anything in the place of a time; the answer is then `None`, never an exception."""
    found = parse_ms(f"{text}Z")

    assert found is None or valid_time(f"{text}Z")
