"""How content lies in a blob or a pack: as it is, or compressed where that pays. No file is known here."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

MAGIC: Final = b"clew-blob 1 "
_ZLIB, _PLAIN = MAGIC + b"zlib\n", MAGIC + b"plain\n"
HEAD_BYTES: Final = len(_PLAIN)
PIECE: Final = 1 << 20
# Below one block of the disk nothing is saved by a file that is smaller, and everybody can read it as it is.
_SMALLEST: Final = 4096
_TRIED: Final = 1 << 16
_SAVED: Final = 0.9
_WELL, _FAST = 6, 1


def pays(sample: bytes) -> bool:
    """Is content that begins so worth being compressed? Tried on its first 64 KiB."""
    if len(sample) < _SMALLEST:
        return False
    tried = sample[:_TRIED]
    return len(zlib.compress(tried, _FAST)) < len(tried) * _SAVED


def pressed(data: bytes, *, smallest: int = _SMALLEST) -> bytes | None:
    """Content that is held whole, compressed fast; None where that does not pay."""
    if len(data) < smallest or (len(data) > _TRIED and not pays(data)):
        return None
    squeezed = zlib.compress(data, _FAST)
    return squeezed if len(squeezed) < len(data) * _SAVED else None


def compressed(pieces: Iterable[bytes], *, fast: bool) -> Iterator[bytes]:
    """The same content in fewer bytes."""
    press = zlib.compressobj(_FAST if fast else _WELL)
    for piece in pieces:
        if squeezed := press.compress(piece):
            yield squeezed
    yield press.flush()


def expanded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The content of what `compressed` made, in pieces of at most 1 MiB whatever it says of itself.

    Raises:
        ValueError: it is cut, goes on behind its end, or is nothing of that kind.
    """
    press = zlib.decompressobj()
    try:
        for piece in pieces:
            rest = piece
            while rest:
                if press.eof:
                    raise ValueError("it goes on behind its end")
                yield press.decompress(rest, PIECE)
                rest = press.unconsumed_tail or press.unused_data
    except zlib.error as fault:
        raise ValueError(f"it cannot be expanded: {fault}") from None
    # Its last bytes are a sum over all of it, which is not taken in before all of it has come out.
    if not press.eof:
        raise ValueError("its end is missing")


def framed(pieces: Iterable[bytes], sample: bytes, *, fast: bool) -> Iterator[bytes]:
    """What the file of one blob holds: the content, or a line that says how it lies there and what is behind it.

    Args:
        pieces: The whole content.
        sample: Its first bytes, at least 64 KiB of them if there are as many.
        fast: For content that is long.
    """
    if pays(sample):
        yield _ZLIB
        yield from compressed(pieces, fast=fast)
    else:
        # Content that begins as such a line does is told apart by a line of its own.
        if sample.startswith(MAGIC):
            yield _PLAIN
        yield from pieces


def unframed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The content of such a file. One without such a line is the content itself, as every blob of before is.

    Raises:
        ValueError: the line, or what is behind it, is not as it says.
    """
    first = next(pieces, b"")
    if first.startswith(_ZLIB):
        yield from expanded(_chained(first[len(_ZLIB) :], pieces))
    elif first.startswith(MAGIC):
        if not first.startswith(_PLAIN):
            raise ValueError("it lies there in a way that this clew does not know")
        yield from _chained(first[len(_PLAIN) :], pieces)
    else:
        yield from _chained(first, pieces)


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest
