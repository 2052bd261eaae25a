"""Who is at work in a folder, held by the kernel: many at once, or one alone. What they do there is not known here."""

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.disk.failures import failure
from clew.disk.files import read_bytes
from clew.disk.lock import try_lock
from clew.disk.streams import clear

_POLL_S = 0.02
_TEXT_LIMIT = 1 << 16
if sys.platform == "win32":
    _OPEN = os.O_BINARY | os.O_NOINHERIT | os.O_RDWR | os.O_CREAT
else:
    _OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_RDWR | os.O_CREAT


class Guest:
    """One who is at work in the folder beside others, until `leave`, or until nobody has this object any more."""

    def __init__(self, room: "_Room") -> None:
        self._room: _Room | None = room

    def leave(self) -> None:
        """Go. Safe to call twice."""
        self._room = None


class _Room:
    """The one descriptor by which all guests of this process hold a folder. Lives as long as they do.

    Nothing is counted, for an interrupt between two lines would leave a wrong count for ever.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.close = weakref.finalize(self, _close, fd)


_rooms: weakref.WeakValueDictionary[str, _Room] = weakref.WeakValueDictionary()
_turn = threading.RLock()


def join(path: Path, wait_s: float) -> Guest | None:
    """Be at work beside others; None when one is alone there for `wait_s` seconds.

    Args:
        path: The file that is locked; made when it is not there. Of a process all guests share one descriptor.
        wait_s: Seconds to wait.

    Raises:
        Storage: it cannot be opened or locked.
    """
    until = time.monotonic() + wait_s
    while True:
        with _turn:
            room = _rooms.get(os.fspath(path))
            if room is None or not _leads_to(path, room.fd):
                room = _enter(path)
            if room is not None:
                _rooms[os.fspath(path)] = room
                return Guest(room)
        if time.monotonic() >= until:
            return None
        time.sleep(_POLL_S)


@contextmanager
def alone(path: Path, said: bytes, wait_s: float) -> Iterator[bool]:
    """Be alone while the block lasts; False when others are at work, this process included.

    Args:
        path: As for `join`.
        said: What those who are kept out may read meanwhile, by `who`.
        wait_s: Seconds to wait: what a death or an exec lets go of lags behind it by milliseconds.

    Raises:
        Storage: as `join`.
    """
    fd = _opened(path)
    try:
        if not _taken(fd, path, wait_s):
            yield False
            return
        _say(fd, said)
        yield True
        _say(fd, b"")
    finally:
        _close(fd)


def who(path: Path) -> bytes:
    """What the one who is alone said, or who was killed there last; nothing when nobody said anything."""
    return read_bytes(path, _TEXT_LIMIT) or b""


def _enter(path: Path) -> _Room | None:
    fd = _opened(path)
    try:
        if _try(fd, path, shared=True):
            room, fd = _Room(fd), -1
            return room
        return None
    finally:
        if fd >= 0:
            _close(fd)


def _opened(path: Path) -> int:
    try:
        return clear(os.open(path, _OPEN, 0o600))
    except OSError as error:
        raise failure(error, path, "open") from error


def _try(fd: int, path: Path, *, shared: bool) -> bool:
    """The lock, on the file that has this path: who locks one that is not there any more keeps nobody out."""
    try:
        return try_lock(fd, shared=shared) and _leads_to(path, fd)
    except OSError as error:
        raise failure(error, path, "lock") from error


def _taken(fd: int, path: Path, wait_s: float) -> bool:
    until = time.monotonic() + wait_s
    while not _try(fd, path, shared=False):
        if time.monotonic() >= until:
            return False
        time.sleep(_POLL_S)
    return True


def _leads_to(path: Path, fd: int) -> bool:
    try:
        here, there = os.fstat(fd), os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _say(fd: int, said: bytes) -> None:
    """For people only: where the disk is full, nobody is told, and the lock holds all the same."""
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, said)


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


def _in_forked_child() -> None:
    """Close, never unlock: the parent is still at work. Who goes on here comes in by a descriptor of its own."""
    global _turn  # noqa: PLW0603  # a thread that is not here any more may have it
    _turn = threading.RLock()
    for room in list(_rooms.values()):
        room.close()
    _rooms.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
