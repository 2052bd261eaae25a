"""A line is read exactly or refused with a reason, and bytes are cut at LF alone."""

import json
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.session.lines import BadLine, Lines, damaged, dump, exact, fused_at, members, shown, spliced
from tests.core.session.scribe import line
from tests.strategies import json_values


@given(json_values())
def test_what_is_dumped_is_read_again(value: Any) -> None:
    """A migration and a writer go through here: nothing may come back as something else."""
    again = exact(dump(value))

    assert dump(value) == dump(again)


@given(st.dictionaries(st.text(max_size=5), json_values(), max_size=5), st.sampled_from([None, 1]))
def test_members_are_the_bytes_that_stand_there(value: dict[str, Any], indent: int | None) -> None:
    """Only bytes that are copied are surely the same."""
    text = json.dumps(value, indent=indent).encode()

    assert value == {name: json.loads(raw) for name, raw in members(text).items()}
    assert all(raw in text for raw in members(text).values())


def test_members_are_put_together_again() -> None:
    """What is spliced must be the object that was taken apart."""
    raw = b'{"a":1.50,"\\u0062":[1, 2]}'

    assert b'{"a":1.50,"b":[1, 2]}' == spliced(members(raw))


@pytest.mark.parametrize(
    ("reason", "raw"),
    [
        ("not_utf8", b'{"a":"\xff"}'),
        ("not_json", b'{"a":NaN}'),
        ("not_json", b'{"a":-Infinity}'),
        ("not_json", b'{"a":1e99999999999999999999}'),
        ("not_json", b'{"a":' + b"9" * 5000 + b"}"),
        ("not_json", b"[" * 100_000),
        ("not_json", b'{"a":1'),
        ("not_json", b"1 2"),
        ("not_json", b'{"a":1,}{}'),
        ("not_json", b"{" + b'"a":{' * 100_000),
        ("repeated_key", b'{"x":1,"a":{"b":1,"b":2}}'),
        ("fused_line", b'{"a":1.0}{"b":2}'),
        ("fused_line", b'{"a":1} x'),
        ("zero_bytes", b"\0\0\0"),
        ("empty_line", b" \t\r"),
        ("empty_line", b""),
        ("not_json", b'\xef\xbb\xbf{"a":1}'),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(reason: str, raw: bytes) -> None:
    """§8, rows 1, 13 and 15: a line with two readings is none."""
    with pytest.raises(BadLine) as caught:
        exact(raw)

    assert reason == caught.value.reason


def test_the_key_that_stands_twice_is_named() -> None:
    """Which of two amounts was meant is for a person to find out."""
    with pytest.raises(BadLine) as caught:
        exact(b'{"id":1,"pay":10,"pay":10000}')

    assert ("pay",) == caught.value.ids


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        ({"id": 2512292042121000001}, b'{"id":2512292042121000001}'),
        ({"id": 10**40}, b'{"id":1%b}' % (b"0" * 40)),
        ({"x": Decimal("1e400")}, b'{"x":1e400}'),
        ({"x": [Decimal("-1E+400"), "é"]}, b'{"x":[-1E+400,"\xc3\xa9"]}'),
        ({"s": "half \ud83e end"}, b'{"s":"half \\ud83e end"}'),
        ({"s": "x\u2028y\u2029z\x85w\x0b"}, line({"s": "x\u2028y\u2029z\x85w\x0b"})[:-1]),
        ({"a": 1}, b' {"a": 1}\r'),
    ],
)
def test_what_is_json_is_kept_exactly(value: Any, raw: bytes) -> None:
    """§8, rows 13 and 14: a rounded order number is another order."""
    found = exact(raw)

    assert value == found
    assert value == exact(dump(found))


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_lines_are_cut_at_lf_alone_however_the_bytes_come(data: bytes, cuts: list[int]) -> None:
    """`splitlines` would cut a legal line at U+2028; a piece of a file ends anywhere."""
    lines = Lines()
    places = [0, *sorted(cuts), len(data)]
    found = []
    for begin, end in pairwise(places):
        found += [(lines.number, lines.byte, each) for each in lines.feed(data[begin:end])]
    whole = data.split(b"\n")

    assert [each for _, _, each in found] == whole[:-1]
    assert all(data[byte : byte + len(each)] == each for _, byte, each in found)
    assert (len(whole) - 1, whole[-1]) == (lines.number, lines.rest)


@pytest.mark.parametrize(("at", "text"), [(8, '{"a":1} {"b":2}'), (None, '{"a":1} '), (None, '{"a"'), (None, "[1] 2")])
def test_a_second_record_on_a_line_is_found(at: int | None, text: str) -> None:
    """Whoever salvages must know where the second one begins."""
    assert at == fused_at(text)


def test_a_damaged_file_is_refused_with_its_place() -> None:
    """Line and byte are what somebody needs to look at it with another tool."""
    error = damaged(BadLine("it is bad", reason="r", ids=("a\x1b",)), 7, 300, session_id="s\n1")

    assert ("session_corrupt", "s\n1", 7, 300, "it is bad", "r", ["a\\x1b"]) == (
        error.code,
        *(error.facts[name] for name in ("session", "line", "byte", "why", "reason", "ids")),
    )
    assert "\x1b" not in error.message
    assert "\n" not in error.message


def test_a_long_name_is_cut() -> None:
    """A stranger's id of a megabyte must not fill a terminal."""
    assert len(shown("x" * 1000)) < 100
