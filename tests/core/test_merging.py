"""Two changes of one text: both where they are apart, neither where they meet, and never a byte of anybody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.merging import MERGE_BYTES, comparable, is_text, lines_of, merged

LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"d\r", b"", b"\xef\xbb\xbfe", b"\xd6\xd0"]), max_size=8)
TEXTS = st.builds(lambda lines, end: b"\n".join(lines) + end, LINES, st.sampled_from([b"", b"\n"]))

BASE = b"one\ntwo\nthree\nfour\nfive\n"


@given(TEXTS)
def test_lines_are_the_text(data: bytes) -> None:
    """C63: whatever ends a line stays with it."""
    assert data == b"".join(lines_of(data))


def test_only_a_line_feed_ends_a_line() -> None:
    """What other readers take for a line end is content here."""
    assert [b"a\r\n", b"b\x0bc\x85d\re"] == lines_of(b"a\r\nb\x0bc\x85d\re")


def test_two_changes_that_are_apart_are_both_there() -> None:
    """The call's change is taken back, the user's stays."""
    ours, theirs = BASE.replace(b"two", b"2"), BASE.replace(b"five", b"5")

    assert merged(BASE, ours, theirs) == b"one\n2\nthree\nfour\n5\n"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (BASE.replace(b"two", b"2"), BASE.replace(b"two", b"zwei")),
        (BASE.replace(b"two", b"2"), BASE.replace(b"three", b"3")),
        (BASE.replace(b"two\n", b""), BASE.replace(b"two", b"2")),
        (BASE + b"six\n", BASE + b"sechs\n"),
        (BASE + b"six", BASE.replace(b"five\n", b"5\n")),
    ],
)
def test_two_changes_that_meet_are_no_merge(ours: bytes, theirs: bytes) -> None:
    """Neighbouring lines count as one place; no mark of a conflict is ever written."""
    assert merged(BASE, ours, theirs) is None


@given(TEXTS, TEXTS)
def test_what_one_side_did_not_change_is_as_the_other_left_it(base: bytes, other: bytes) -> None:
    """Three laws of every merge."""
    assert [other, other, other] == [merged(base, base, other), merged(base, other, base), merged(base, other, other)]


@given(TEXTS, TEXTS, TEXTS)
def test_a_merge_has_no_favourite_and_invents_no_line(base: bytes, ours: bytes, theirs: bytes) -> None:
    """Turned round it is the same, and each line stands in one of the three."""
    found = merged(base, ours, theirs)
    known = {*lines_of(base), *lines_of(ours), *lines_of(theirs)}

    assert found == merged(base, theirs, ours)
    assert found is None or {*lines_of(found)} <= known


@pytest.mark.parametrize("data", [b"a\0b", "text".encode("utf-16"), b"\xfe\xff\x4e\x2d", b"a" * (MERGE_BYTES + 1)])
def test_what_has_no_lines_is_not_merged(data: bytes) -> None:
    """C59, C60: binary and UTF-16 would be broken by it, and a huge text takes too long."""
    assert merged(b"x\n", b"y\n", data) is None


def test_an_encoding_that_is_not_utf_8_is_text() -> None:
    """C60: lines of GB18030 end as those of ASCII do, and no byte is decoded."""
    base, ours, theirs = (
        "甲\n乙\n丙\n丁\n".replace(*change).encode("gb18030") for change in (("", ""), ("甲", "子"), ("丁", "午"))
    )

    assert (True, "子\n乙\n丙\n午\n".encode("gb18030")) == (is_text(base), merged(base, ours, theirs))


def test_many_equal_lines_are_not_compared() -> None:
    """A comparison of everything with everything would take hours."""
    many = [b"\n"] * 3000

    assert (False, True) == (comparable(many, many), comparable(many, [b"x\n"] * 3000))
    assert merged(b"\n" * 3000, b"\n" * 3001, b"x\n") is None
