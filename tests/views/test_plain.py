from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.views.plain import When, arguments_text, count_text, duration_text, one_line, size_text, value_text
from tests.views.samples import WHEN


@given(st.text())
def test_recorded_text_never_reaches_the_terminal_as_a_command(text: str) -> None:
    """Prompts and answers are written by strangers; an escape sequence could repaint the screen or hide a row."""
    shown = one_line(text, 10_000)

    assert shown.isprintable()


@given(st.text(max_size=60), st.integers(1, 40))
def test_long_text_is_clipped_and_says_so(text: str, limit: int) -> None:
    """A list stays a list whatever somebody passes as an argument."""
    shown = one_line(text, limit)

    assert shown.endswith("…") if len(text) > limit else len(shown) >= len(text)


def test_what_is_hidden_is_written_out() -> None:
    """Two arguments that differ in a zero-width character must look different."""
    shown = one_line("a\x1b[2J\n\u200bb")

    assert "a\\x1b[2J\\n\\u200bb" == shown


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1042", "1042"),
        ("", '""'),
        ("a b", '"a b"'),
        ('say "x"', '"say \\"x\\""'),
        ("a=b", '"a=b"'),
        (4200, "4200"),
        (None, "null"),
        ({"a": [1]}, '{"a":[1]}'),
    ],
)
def test_a_value_is_as_short_as_it_can_be_without_doubt(value: object, expected: str) -> None:
    """Where one argument ends and the next begins must be plain to see."""
    shown = value_text(value)

    assert expected == shown


def test_arguments_read_like_an_order() -> None:
    """It is the first thing that a person compares with the bank's list."""
    shown = arguments_text({"order": "1042", "cents": 4200})

    assert "order=1042 cents=4200" == shown


def test_arguments_that_are_no_object_are_shown_as_they_are() -> None:
    """Another program's journal may carry a list."""
    shown = arguments_text([1, "a"])

    assert '[1,"a"]' == shown


@pytest.mark.parametrize(("count", "expected"), [(0, "0 calls"), (1, "1 call"), (2, "2 calls")])
def test_one_is_not_plural(count: int, expected: str) -> None:
    """Words that read wrong make numbers look wrong."""
    shown = count_text(count, "call")

    assert expected == shown


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [(0, "0.0 s"), (59_900, "59.9 s"), (60_000, "1 min 0 s"), (3_599_000, "59 min 59 s"), (7_260_000, "2 h 1 min")],
)
def test_a_duration_keeps_its_two_largest_units(milliseconds: int, expected: str) -> None:
    """Nobody reads 7260000."""
    shown = duration_text(milliseconds)

    assert expected == shown


def test_a_time_of_today_needs_no_day() -> None:
    """The usual case stays short."""
    shown = WHEN.minute("2026-11-29T13:54:02.000Z"), WHEN.second("2026-11-29T13:54:02.000Z")

    assert ("13:54", "13:54:02") == shown


def test_a_time_of_another_day_says_which() -> None:
    """Gone since 13:54 would be a lie about a run that died last week."""
    shown = WHEN.minute("2026-11-22T13:54:02.000Z")

    assert "2026-11-22 13:54" == shown


def test_times_stand_on_the_reader_s_clock() -> None:
    """The day too: what is today in UTC may be yesterday where the reader sits."""
    west = timezone(timedelta(hours=-15))
    when = When(WHEN.now_ms, lambda at: at.astimezone(west))

    shown = when.minute("2026-11-29T13:54:02.000Z"), when.day("2026-11-29T13:54:02.000Z")

    assert ("22:54", "2026-11-28") == shown


def test_what_is_no_time_is_shown_as_it_stands() -> None:
    """A journal of another program must not stop a list."""
    shown = WHEN.minute("soon\n"), WHEN.clock("soon"), WHEN.day("soon")

    assert ("soon\\n", "soon", "") == shown


def test_the_day_of_now_is_taken_from_the_instant() -> None:
    """The sample clock is what the other tests think it is."""
    at = datetime.fromisoformat("2026-11-29T14:00:00Z")

    assert WHEN.now_ms == at.timestamp() * 1000


def test_a_length_has_the_largest_unit_of_which_there_is_one() -> None:
    """Nobody counts the digits of bytes."""
    assert ["1 byte", "1023 bytes", "1.0 KiB", "1.5 MiB", "3.6 GiB"] == [
        size_text(size) for size in (1, 1023, 1024, 3 << 19, 3_865_470_566)
    ]
