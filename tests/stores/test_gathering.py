"""Legs beside one another in a home in memory, or one who prunes it alone."""

import pytest

from clew.errors import Held
from clew.stores.gathering import MemoryPresence


def test_one_is_alone_only_where_nobody_is() -> None:
    """Until the last of them has left."""
    presence, found = MemoryPresence(), list[bool]()
    first, second = presence.join(), presence.join()
    for guest in (first, first, second):
        with presence.alone(b"me") as is_alone:
            found.append(is_alone)
        guest.leave()
    with presence.alone(b"me") as is_alone:
        found.append(is_alone)

    assert [False, False, False, True] == found


def test_beside_one_who_is_alone_nobody_begins() -> None:
    """What a leg puts down before its record would be dropped."""
    presence = MemoryPresence()
    with presence.alone(b"pid 7"), pytest.raises(Held, match="pid 7") as caught:
        presence.join()

    assert "home_being_pruned" == caught.value.code


def test_two_are_not_alone() -> None:
    """And the one who was refused takes nothing away from the other."""
    presence = MemoryPresence()
    with presence.alone(b"me"):
        with presence.alone(b"you") as second:
            pass
        with presence.alone(b"you") as third:
            pass

    assert (False, False) == (second, third)
