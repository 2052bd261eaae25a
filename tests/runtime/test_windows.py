"""A long file is read at many places through few blocks of it, and never says what is not there."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.runtime import windows
from clew.runtime.windows import reading


class Source:
    """Bytes, and how often they were asked for."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked = 0

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        self.asked += 1
        yield self.data[start:end]


@given(st.data())
def test_any_place_is_read_as_it_is(data: st.DataObject) -> None:
    """Blocks begin and end anywhere in what is asked for."""
    source = Source(bytes(index % 251 for index in range(700)))
    before = windows.BLOCK
    windows.BLOCK = 64
    try:
        read = reading(source)
        for _ in range(10):
            offset, size = data.draw(st.integers(0, 700)), data.draw(st.integers(0, 500))

            assert source.data[offset : offset + size] == read(offset, size)
    finally:
        windows.BLOCK = before


def test_neighbours_are_read_at_once() -> None:
    """A conversation of thousands of entries is not read by as many calls of the system."""
    source = Source(bytes(100_000))
    read = reading(source)

    for offset in range(0, 100_000, 100):
        read(offset, 100)

    assert 1 == source.asked


def test_what_has_grown_is_read_again() -> None:
    """A block that was not full may be longer by now."""
    source = Source(b"abc")
    read = reading(source)
    read(0, 3)
    source.data += b"def"

    assert b"cdef" == read(2, 4)


@pytest.mark.parametrize("offset", [3, 10])
def test_behind_the_end_there_is_nothing(offset: int) -> None:
    """And nothing is made up."""
    assert b"" == reading(Source(b"abc"))(offset, 5)
