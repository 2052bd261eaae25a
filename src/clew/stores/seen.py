"""What a look over a workspace remembers of its files, so that the next one need not read them again. May be lost.

A file counts as unchanged while its size, both times, its inode and its mode are as they were when it was read, and
were older than 20 ms then: within one tick of the clock a file can change and look the same.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import msgspec

from clew.disk import files
from clew.disk.anchor import Folder
from clew.disk.draft import Draft
from clew.errors import ClewError

FOLDER: Final = "covers"
SETTLED_NS: Final = 20_000_000
_LIMIT: Final = 1 << 28

Row = tuple[bytes, int, int, int, int, int, bytes]
"""Path, inode, size, time of content, time of change, mode, SHA-256."""
_ROWS = msgspec.msgpack.Decoder(list[Row])


class Seen:
    """What was known, and what is known now; lives for one look.

    Args:
        path: Where it is kept; None where it is not.
        began_ns: When the look began, by the clock of the files.
    """

    def __init__(self, path: Path | None, began_ns: int) -> None:
        self._path = path
        self._settled_ns = began_ns - SETTLED_NS
        self._before = _read(path)
        self._now: list[Row] = []

    @classmethod
    @contextmanager
    def of(cls, root: Path, home: Path | None, folder: Folder) -> Iterator[Self]:
        """What is remembered of a workspace in its home. Nothing where its files have the times of another clock."""
        path, began_ns = None, 0
        with contextlib.suppress(ClewError, OSError):
            if home is not None and os.stat(home).st_dev == folder.identity()[0]:
                place = files.below(home, FOLDER)
                if files.size_of(place) is None:
                    files.make_folder(place)
                with Draft(place) as draft:
                    began_ns = draft.born_ns()
                path = place / hashlib.sha256(os.fsencode(root)).hexdigest()
        yield cls(path, began_ns)

    def digest(self, path: str, found: os.stat_result) -> str | None:
        """Of a file's content, if it did not change; None when it must be read."""
        row = self._before.get(os.fsencode(path))
        if row is None or row[1:6] != _signature(found):
            return None
        self._now.append(row)
        return row[6].hex()

    def saw(self, path: str, found: os.stat_result, sha256: str | None) -> None:
        """A file was read while it stood so."""
        if sha256 and max(found.st_mtime_ns, found.st_ctime_ns) < self._settled_ns:
            self._now.append((os.fsencode(path), *_signature(found), bytes.fromhex(sha256)))

    def keep(self) -> None:
        """Remember it for the next look. That this cannot be done, or is torn by a power cut, costs only time."""
        if self._path is None:
            return
        data = msgspec.msgpack.encode(self._now)
        with contextlib.suppress(ClewError), Draft(self._path.parent) as draft:
            draft.write(data + hashlib.sha256(data).digest())
            draft.name(self._path)


def _signature(found: os.stat_result) -> tuple[int, int, int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode


def _read(path: Path | None) -> dict[bytes, Row]:
    """What was kept; nothing where it is damaged."""
    with contextlib.suppress(ClewError, ValueError):
        data = None if path is None else files.read_bytes(path, _LIMIT)
        if data and hashlib.sha256(data[:-32]).digest() == data[-32:]:
            return {row[0]: row for row in _ROWS.decode(data[:-32])}
    return {}
