"""The lines of an old session made anew; what they show is tested beside `migrating`."""

import json
from typing import Any

import pytest

from clew.core.session.converting import Conversion, Standings
from clew.core.session.reading import read_session
from clew.core.session.tree import NOWHERE
from tests.core.session.scribe import at, reading, session, state_of, user


def converted(data: bytes) -> list[dict[str, Any]]:
    conversion = Conversion(read_session(data), reading(data), "0" * 64, "b")
    return [json.loads(line) for piece in conversion.lines() for line in piece.splitlines()]


def test_what_leaves_the_tree_is_stood_for_by_what_is_above_it() -> None:
    """W44: every reference to it must lead somewhere."""
    state = state_of(
        session(
            at("session_info", "t", None, name="x"), user("a", "t"), at("label", "l", "a", targetId="a", label="x"),
            at("usage", "u", "l", usage={}), user("b", "u"),
        )
    )  # fmt: skip
    standings = Standings(state)

    assert [None, "a", "a", "a", "b", None] == [standings.name(name) for name in ("t", "a", "l", "u", "b", "gone")]
    assert NOWHERE == standings.node(NOWHERE)


def test_sequences_are_consecutive_over_all_lines() -> None:
    """§6.1: a gap is damage."""
    data = session(
        user("a"), user("b", "a"), user("c", "a"), at("label", "l", "c", targetId="a", label="x"),
        at("leaf", "m", "l", targetId="b"),
    )  # fmt: skip
    found = converted(data)

    assert list(range(1, len(found))) == [each["seq"] for each in found[1:]]


def test_a_branch_begins_with_a_move_of_the_lane() -> None:
    """An entry must hang on the leaf of its lane."""
    found = converted(session(user("a"), user("b", "a"), user("c", "a")))

    assert ["entry", "entry", "lane", "entry"] == [each["kind"] for each in found[1:]]


def test_a_file_that_ends_at_a_label_ends_where_that_hangs() -> None:
    """The position is an entry that is there."""
    found = converted(session(user("a"), user("b", "a"), at("label", "l", "a", targetId="a", label="x")))

    assert ("lane", "a") == (found[-1]["kind"], found[-1]["leafId"])


@pytest.mark.parametrize("name", ["kind", "lane", "seq"])
def test_a_member_that_means_something_else_is_refused(name: str) -> None:
    """It would be read as ours."""
    with pytest.raises(Exception, match="another meaning"):
        converted(session({**user("a"), name: "x"}))


def test_unknown_members_stay_where_they_were() -> None:
    """§4: later releases added fields without a new number."""
    assert {"z": 1} == converted(session({**user("a"), "future": {"z": 1}}))[1]["future"]
