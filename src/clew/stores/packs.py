"""Many blobs in one file that never changes: how it is written and read. Which blobs there are elsewhere is not known.

A pack is a line that names the format, the stored contents one behind the other, an index and a trailer. The index has
57 bytes for each blob, by digest: the digest (32), where it begins (8), how many bytes are stored (8), how many they
are (8), how they lie there (1: 0 as they are, 1 zlib); numbers are big-endian. The trailer has the index's length (8),
its SHA-256 (32), which is the pack's name too, and `clewpack`.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from clew.disk import files
from clew.disk.draft import Draft, part_of
from clew.errors import ClewError
from clew.stores import squeezed
from clew.stores.base.kept import Kept

FOLDER: Final = "packs"
SUFFIX: Final = ".pack"
_MAGIC: Final = b"clew-pack 1\n"
_END: Final = b"clewpack"
_ROW: Final = struct.Struct(">32sQQQB")
_TRAILER: Final = struct.Struct(">Q32s8s")
_BUFFER: Final = 1 << 20
# In a pack every byte saved is saved; what is shorter than this hardly ever gets shorter.
_SMALLEST: Final = 128


class Place(NamedTuple):
    """Where one blob lies in a pack."""

    digest: bytes
    start: int
    stored: int
    size_bytes: int
    kind: int


class PackWriter:
    """A pack that is being written. Lives for one block; nothing is promised before `publish` has returned."""

    def __init__(self, folder: Path, is_kept: Callable[[str], bool]) -> None:
        self._folder = folder
        self._is_kept = is_kept
        self._draft: Draft | None = None
        self._buffer = bytearray()
        self._places: dict[bytes, Place] = {}

    def keep(self, pieces: Iterable[bytes]) -> Kept:
        """Take one more blob; one that is kept already is not written again. What `pieces` raises comes out."""
        rest = iter(pieces)
        head = head_of(rest, _BUFFER)
        if len(head) < _BUFFER:
            return self._keep_small(head)
        return self._keep_long(chain((head,), rest), head)

    def _keep_small(self, data: bytes) -> Kept:
        digest = hashlib.sha256(data)
        kept = Kept(digest.hexdigest(), len(data))
        if not self._is_known(digest.digest()):
            pressed = squeezed.pressed(data, smallest=_SMALLEST)
            stored = data if pressed is None else pressed
            start = self._write(stored)
            kind = int(pressed is not None)
            self._places[digest.digest()] = Place(digest.digest(), start, len(stored), len(data), kind)
        return kept

    def _keep_long(self, pieces: Iterator[bytes], head: bytes) -> Kept:
        counting, pays = Counting(pieces), squeezed.pays(head)
        draft = self._flushed()
        start = draft.size_bytes
        try:
            for piece in squeezed.compressed(counting, fast=True) if pays else counting:
                draft.write(piece)
        except BaseException:
            draft.cut(start)
            raise
        digest = counting.digest.digest()
        if self._is_known(digest):
            draft.cut(start)
        else:
            self._places[digest] = Place(digest, start, draft.size_bytes - start, counting.size_bytes, int(pays))
        return counting.kept()

    def _is_known(self, digest: bytes) -> bool:
        return digest in self._places or self._is_kept(digest.hex())

    def _write(self, data: bytes) -> int:
        draft = self._flushed() if len(self._buffer) >= _BUFFER else self._begun()
        start = draft.size_bytes + len(self._buffer)
        self._buffer += data
        return start

    def _begun(self) -> Draft:
        if self._draft is None:
            self._draft = Draft(self._folder)
            self._buffer += _MAGIC
        return self._draft

    def _flushed(self) -> Draft:
        draft = self._begun()
        if self._buffer:
            draft.write(bytes(self._buffer))
            self._buffer.clear()
        return draft

    def publish(self) -> None:
        """Give the pack its name, durably. `Storage`."""
        index = b"".join(_ROW.pack(*self._places[digest]) for digest in sorted(self._places))
        name = hashlib.sha256(index)
        self._buffer += index + _TRAILER.pack(len(index), name.digest(), _END)
        draft = self._flushed()
        draft.publish(self._folder / f"{name.hexdigest()}{SUFFIX}")

    def __len__(self) -> int:
        return len(self._places)

    def discard(self) -> None:
        """Nothing of it stays, unless it is published."""
        if self._draft is not None:
            with self._draft:
                pass


class Counting:
    """Pieces that are counted and digested as they pass."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.digest = hashlib.sha256()
        self.size_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.digest.update(piece)
            self.size_bytes += len(piece)
            yield piece

    def kept(self) -> Kept:
        """What has passed is known by this."""
        return Kept(self.digest.hexdigest(), self.size_bytes)


def head_of(pieces: Iterator[bytes], size: int) -> bytes:
    """The first pieces, until they are so many bytes."""
    head: list[bytes] = []
    found = 0
    for piece in pieces:
        head.append(piece)
        found += len(piece)
        if found >= size:
            break
    return head[0] if len(head) == 1 else b"".join(head)


class PackFile:
    """A pack that stands there; its index is in memory as it lies in the file.

    Raises:
        ValueError: it is no pack, or its index is damaged. Storage, Refused: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        size = files.size_of(path) or 0
        end = size - _TRAILER.size
        length, digest, mark = _TRAILER.unpack(self._read(end, size))
        self._index = self._read(end - length, end)
        if mark != _END or hashlib.sha256(self._index).digest() != digest or length % _ROW.size:
            raise ValueError("its index is damaged")

    def _read(self, start: int, end: int) -> bytes:
        data = b"".join(part_of(self.path, start, end)) if start >= 0 else b""
        if len(data) != end - start:
            raise ValueError("it is too short")
        return data

    def __len__(self) -> int:
        return len(self._index) // _ROW.size

    def places(self) -> Iterator[Place]:
        """Every blob in it, by digest."""
        return (Place(*row) for row in _ROW.iter_unpack(self._index))

    def find(self, digest: bytes) -> Place | None:
        """Where a blob lies in it."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            at = middle * _ROW.size
            found = self._index[at : at + 32]
            if found == digest:
                return Place(*_ROW.unpack_from(self._index, at))
            low, high = (middle + 1, high) if found < digest else (low, middle)
        return None

    def pieces(self, place: Place) -> Iterator[bytes]:
        """The content of a blob. `ValueError` when it cannot be what was kept."""
        stored = part_of(self.path, place.start, place.start + place.stored)
        return squeezed.expanded(stored) if place.kind else stored


def open_pack(path: Path) -> PackFile | None:
    """The pack at a path; None when it is damaged or cannot be read, so that nothing in it is known."""
    try:
        return PackFile(path)
    except (ValueError, ClewError):
        return None
