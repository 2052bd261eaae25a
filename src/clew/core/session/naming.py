"""Names by number and numbers by name, in some thirty bytes a name: a session has many. What they name is not here."""

from array import array
from collections.abc import Iterator
from typing import Final

NONE: Final = -1
_FIRST: Final = 64


class Names:
    """Names in the order in which they came, numbered from 0; each is there once.

    They stand in one stretch of bytes, and are found by a table of numbers, so that no object is kept for any of them.
    """

    __slots__ = ("_bytes", "_ends", "_table")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("Q", [0])
        self._table = array("i", [NONE]) * _FIRST

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[str]:
        return map(self.at, range(len(self)))

    def __contains__(self, name: object) -> bool:
        return type(name) is str and self.find(name) != NONE

    def at(self, number: int) -> str:
        """The name of a number."""
        return self._raw(number).decode("utf-8", "surrogatepass")

    def _raw(self, number: int) -> bytes:
        return bytes(self._bytes[self._ends[number] : self._ends[number + 1]])

    def find(self, name: str) -> int:
        """The number of a name, `NONE` when it is not there."""
        return self._table[self._slot(name.encode("utf-8", "surrogatepass"))]

    def add(self, name: str) -> int:
        """Enter a name, if it is not there; its number."""
        raw = name.encode("utf-8", "surrogatepass")
        slot = self._slot(raw)
        if self._table[slot] != NONE:
            return self._table[slot]
        number = len(self)
        self._bytes += raw
        self._ends.append(len(self._bytes))
        self._table[slot] = number
        if len(self) * 2 > len(self._table):
            self._grow()
        return number

    def _slot(self, raw: bytes) -> int:
        """Where a name stands in the table, or would."""
        table, mask = self._table, len(self._table) - 1
        slot = hash(raw) & mask
        while (number := table[slot]) != NONE and self._raw(number) != raw:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        self._table = array("i", [NONE]) * (len(self._table) * 2)
        for number in range(len(self)):
            self._table[self._slot(self._raw(number))] = number
