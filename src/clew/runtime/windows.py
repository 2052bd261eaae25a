"""Places of a long file read again and again, through few blocks of it. What stands there is not known here."""

from collections.abc import Iterable
from typing import Final, Protocol

from clew.core.session.values import ReadAt

BLOCK = 1 << 20
_KEPT: Final = 4


class Ranges(Protocol):
    """What gives the bytes of a range: the writer of a session, or its store for one id."""

    def read(self, start: int = 0, end: int | None = None) -> Iterable[bytes]:
        """The bytes of a range in pieces."""
        ...


def reading(source: Ranges) -> ReadAt:
    """So many bytes from an offset on, of what only grows; the last few blocks are kept.

    The entries of a view stand in order, so hardly a block is read twice.
    """
    blocks: dict[int, bytes] = {}

    def block(number: int, wanted: int) -> bytes:
        """At least so many bytes of a block, if there are as many: one that is not full may have grown."""
        found = blocks.pop(number, b"")
        if len(found) < wanted:
            found = b"".join(source.read(number * BLOCK, (number + 1) * BLOCK))
        blocks[number] = found
        if len(blocks) > _KEPT:
            del blocks[next(iter(blocks))]
        return found

    def read(offset: int, size: int) -> bytes:
        first, last = offset // BLOCK, max(offset, offset + size - 1) // BLOCK
        if last - first >= _KEPT:
            return b"".join(source.read(offset, offset + size))
        begin, end = offset - first * BLOCK, offset + size
        data = b"".join([block(number, min(BLOCK, end - number * BLOCK)) for number in range(first, last + 1)])
        return data[begin : begin + size]

    return read
