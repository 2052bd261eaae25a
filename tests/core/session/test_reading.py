"""A session from its bytes, whole or in pieces, and the end of its file."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.session.reading import SessionReader, read_session
from clew.errors import ClewError
from tests.core.session.scribe import header, line, session, speaks, user, v4a
from tests.core.session.trees import trees


def refused(data: bytes, expect: str | None = None) -> ClewError:
    with pytest.raises(ClewError) as caught:
        read_session(data, expect=expect)
    return caught.value


@given(trees(), st.lists(st.integers(0, 3000), max_size=6))
@settings(max_examples=50, deadline=None)
def test_pieces_tell_what_the_whole_tells(data: bytes, cuts: list[int]) -> None:
    """A file is read in pieces of whatever size the store gives."""
    reader = SessionReader()
    places = [0, *sorted(cuts), len(data)]
    for begin, end in pairwise(places):
        reader.feed(data[begin:end])
    found, whole = reader.finish(), read_session(data)

    assert (list(whole.ids), list(whole.tree.offsets), whole.lanes) == (
        list(found.ids), list(found.tree.offsets), found.lanes,
    )  # fmt: skip


@given(trees(), st.integers(0, 4000))
@settings(max_examples=60, deadline=None)
def test_a_file_that_is_cut_tells_what_stands_before_the_cut(data: bytes, cut: int) -> None:
    """A crash ends a file anywhere; nothing before that may be lost or changed by looking."""
    cut = max(data.index(b"\n") + 1, min(cut, len(data)))
    state = read_session(data[:cut])
    whole = data[:cut].rfind(b"\n") + 1
    complete = data[whole:cut] != b"" and data[cut : cut + 1] == b"\n"

    assert (cut if complete else whole) == state.size
    assert ("unterminated" if complete else "clean" if whole == cut else "torn") == state.ending


def test_a_torn_end_says_how_much_it_is() -> None:
    """Who repairs it cuts exactly these bytes."""
    state = read_session(session(user("a")) + b'{"type":"mess\xf0\x9f')

    assert ("torn", 15, 1, "torn") == (state.ending, state.torn_bytes, state.entries, state.remarks[0].code)


def test_an_unterminated_last_record_is_kept() -> None:
    """§7: nothing of it is missing but the byte behind it."""
    state = read_session(session(user("a"))[:-1])

    assert ("unterminated", 1) == (state.ending, state.entries)


def test_a_lone_header_without_an_end_is_a_session() -> None:
    """The first append of another program may have been cut just there."""
    state = read_session(session()[:-1])

    assert ("unterminated", 0) == (state.ending, state.entries)


@pytest.mark.parametrize("data", [b"", b'{"type":"session","vers'])
def test_nothing_and_a_part_of_a_header_are_no_session(data: bytes) -> None:
    """§7: nothing precedes it, so nothing says what it was."""
    assert "no_header" == refused(data).facts["reason"]


def test_garbage_that_ends_is_no_interrupted_append() -> None:
    """§7: its end is there, so this was written, and by nobody who writes sessions."""
    error = refused(session(user("a")) + b'{"type":"mess\n')

    assert ("session_corrupt", 3) == (error.code, error.facts["line"])


def test_a_second_record_behind_an_unterminated_one_is_damage() -> None:
    """The first of the two is whole; taking the rest for torn would lose it."""
    error = refused(session(user("a")) + line(user("b"))[:-1] + b'{"ty')

    assert ("fused_line", 3) == (error.facts["reason"], error.facts["line"])


def test_line_and_byte_of_damage_are_exact() -> None:
    """They are what a person goes to."""
    head, first = session(), line(user("a"))
    error = refused(head + first + b"nonsense\n" + line(user("b", "a")))

    assert (3, len(head + first)) == (error.facts["line"], error.facts["byte"])


def test_another_session_under_this_name_is_refused() -> None:
    """A file that was copied over another must not be taken for it."""
    error = refused(session(), expect="other")

    assert ("another_session", True) == (error.facts["reason"], "call the file by it" in error.next)
    assert "s1" == read_session(session(), expect="s1").id


def test_a_byte_order_mark_is_reported() -> None:
    """§8, row 12: read over, and said."""
    state = read_session(b"\xef\xbb\xbf" + session(user("a")))

    assert ["byte_order_mark"] == [each.code for each in state.remarks]


def test_a_v4_session_is_read_on_as_it_grows() -> None:
    """A writer knows where it stands without reading again."""
    reader = SessionReader()
    reader.feed(v4a())
    before = reader.state
    reader.feed(line({**speaks("a"), "seq": 1}))

    assert before is reader.state
    assert before is not None
    assert 1 == before.sequence


def test_nothing_is_known_before_the_header() -> None:
    """A reader that was fed nothing has no state to show."""
    reader = SessionReader()
    reader.feed(line(header())[:5])

    assert reader.state is None


def test_parents_are_judged_at_the_end_with_the_place_of_the_child() -> None:
    """Whether a parent is missing or only behind its child is known when all is read."""
    data = session(user("a"), user("b", "gone"), user("c", "b"))
    error = refused(data)

    assert ("parent_missing", 3, ["b", "gone"]) == (
        error.facts["reason"], error.facts["line"], error.facts["ids"],
    )  # fmt: skip
