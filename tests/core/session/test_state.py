"""What is known of a session: ids that are taken, remarks that have an end, entries that take little room."""

import pytest

from clew.core.session.dialects import detect
from clew.core.session.lines import BadLine
from clew.core.session.state import Place, SessionState, need, role_kind, tail_of, texts
from clew.core.session.tree import NOWHERE, Kind
from clew.core.session.viewing import remarks
from tests.core.session.scribe import header, line, said, session, state_of, user, v4a


def empty() -> SessionState:
    return SessionState(detect(line(header())[:-1]))


def test_an_id_is_taken_once() -> None:
    """Entries and records share one space of names."""
    state = empty()
    state.enter("a", NOWHERE, Kind.MESSAGE, Place(2, 0, 1))
    state.other_ids.add("r")
    for name in ("a", "r", "", None):
        with pytest.raises(BadLine):
            state.check_id(name)

    assert "b" == state.check_id("b")


def test_remarks_have_an_end() -> None:
    """A hostile file must not fill the memory with what is odd about it."""
    state = empty()
    for number in range(300):
        state.remark("odd", str(number), Place(number, 0, 0))
    found = remarks(state)

    assert (201, "more", "and 100 more from here on") == (len(found), found[-1].code, found[-1].text)


def test_nowhere_has_no_name() -> None:
    """Before the first entry there is no leaf."""
    assert empty().name_of(NOWHERE) is None


def test_totals_of_a_v4_session_know_who_was_not_measured() -> None:
    """§6.1: usage records alone count; an answer without one is unmeasured, not free."""
    assert 0 == state_of(v4a()).totals().unmeasured


def test_checks_say_what_is_wrong() -> None:
    """The reader must be able to name the member."""
    for wrong in (
        lambda: need({"a": 1}, "a", str),
        lambda: texts([1], "names"),
        lambda: role_kind(None),
        lambda: tail_of({"retainedTail": {}}),
    ):
        with pytest.raises(BadLine):
            wrong()

    assert Kind.SYSTEM == role_kind(said("system"))
    assert tail_of({}) is None


def test_format_and_id_are_the_header_s() -> None:
    """Who is asked must not read the file again."""
    state = state_of(session(user("a")))

    assert ("v3", "s1", 1) == (state.format, state.id, state.entries)
