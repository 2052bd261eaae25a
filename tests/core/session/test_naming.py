"""Very many names, each with its number, in little room."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from clew.core.session.naming import NONE, Names
from tests.strategies import texts


@given(st.lists(texts, max_size=200))
def test_names_are_numbered_as_they_come(names: list[str]) -> None:
    """An entry is known by its number; two names that shared one would be one entry."""
    found = Names()
    numbers = [found.add(name) for name in names]
    once = list(dict.fromkeys(names))

    assert once == list(found)
    assert numbers == [once.index(name) for name in names]
    assert all(found.find(name) == once.index(name) and name in found for name in names)


def test_what_is_not_there_has_no_number() -> None:
    """A parent that is missing must be seen to be."""
    names = Names()
    for number in range(100):
        names.add(f"e{number}")

    assert (NONE, False, False, 100) == (names.find("x"), "x" in names, None in names, len(names))


def test_a_name_takes_little_room() -> None:
    """A session of 500 MB has a quarter of a million of them, and `verify` 128 MB."""
    names = Names()
    for number in range(20_000):
        names.add(f"{number:08x}")
    size = sum(sys.getsizeof(getattr(names, slot)) for slot in Names.__slots__)

    assert size / 20_000 < 40
