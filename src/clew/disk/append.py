"""The file that only grows: one descriptor a leg, one write and one sync an append, dead after the first failure."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from clew.disk.failures import barrier_failed, failure, no_room_left
from clew.disk.files import APPEND, discard, exclusive, fill, pieces_of, place_new, sync, sync_folder
from clew.disk.lock import take
from clew.disk.look import let_go, look
from clew.disk.streams import clear
from clew.errors import Storage

_open_files: set["AppendFile"] = set()


class AppendFile:
    """An open file that grows at its end, with the kernel's lock on it. Lives as long as a leg.

    After any exception inside a change, an interrupt included, it is poisoned for good: the bytes at the end are not
    known any more. A forked child closes its copy of the descriptor, which leaves the lock with the parent.

    Source:
        DESIGN §4 "Append" and "Lock"; promise 12; reliability findings 3 to 6.
    """

    def __init__(self, fd: int, path: Path, size_bytes: int) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.poisoned = False
        self._fd = fd
        self._name = os.fspath(path)
        _open_files.add(self)

    @classmethod
    def open(cls, path: Path, *, wait_s: float) -> "AppendFile | None":
        """Open and lock; None when another descriptor keeps the lock for `wait_s` seconds.

        Raises:
            FileNotFoundError: there is no such file.
            Storage: `journal_replaced` when the path became another file meanwhile; or it cannot be opened.
        """
        try:
            fd = clear(os.open(path, APPEND))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise failure(error, path, "open") from error
        file = cls(fd, path, 0)
        try:
            if not _take(fd, path, wait_s):
                file.close()
                return None
            file.size_bytes = file._look().st_size
            file._require_same()
        except BaseException:
            file.close()
            raise
        return file

    def append(self, data: bytes, *, check_path: bool = False) -> int:
        """Make `data` durable at the end. Returns the place where it begins.

        `check_path` also compares the path with the open file: one more look before something that cannot be undone.

        Raises:
            Storage: `fact_ledger_poisoned`, `journal_replaced`, `disk_full`, `storage_denied`, `run_state_failed`,
                `durability_barrier_failed`. After each of them the file is poisoned.
        """
        self.require_sound()
        self.poisoned = True
        at = self.size_bytes
        found = self._require_untouched()
        if check_path and not self._leads_to(found):
            raise self._replaced("is another file than the one that is open")
        self._write(data)
        self._sync_data()
        self.size_bytes = at + len(data)
        self.poisoned = False
        return at

    def truncate(self, size_bytes: int) -> None:
        """Cut the end off, durably. The same guards and the same poisoning as `append`."""
        self.require_sound()
        self.poisoned = True
        self.require_mine()
        try:
            os.ftruncate(self._fd, size_bytes)
        except OSError as error:
            raise failure(error, self.path, "truncate") from error
        sync(self._fd, self.path)
        self.size_bytes = size_bytes
        self.poisoned = False

    def forget_cache(self) -> None:
        """Sync, then let the kernel drop its pages: what is read next is what the device has.

        After a failed sync the cache still shows the lost bytes, and a second sync succeeds; so only the device counts.

        Source:
            DESIGN §4, last paragraph of "Lock"; reliability finding 3.
        """
        self.require_sound()
        sync(self._fd, self.path)
        try:
            _drop_pages(self._fd)
        except OSError as error:
            raise failure(error, self.path, "drop the cache of") from error

    def pieces(self, start: int, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` to `end` or the known end, through this descriptor."""
        self.require_sound()
        return pieces_of(self._fd, self.path, start, self.size_bytes if end is None else min(self.size_bytes, end))

    def is_same(self) -> bool:
        """Does the path still lead to this very file?"""
        return self._leads_to(self._look())

    def _leads_to(self, here: os.stat_result) -> bool:
        try:
            there = os.stat(self._name, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise failure(error, self.path, "look at") from error
        return here.st_ino == there.st_ino and here.st_dev == there.st_dev

    def close(self) -> None:
        """Let the lock go. Safe to call twice; nothing can be done with the file afterwards."""
        fd, self._fd, self.poisoned = self._fd, -1, True
        _open_files.discard(self)
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)

    def require_sound(self) -> None:
        """Refuse after a failure, after `close`, and in a forked child."""
        if self.poisoned:
            raise Storage(
                f"{str(self.path)!r} is closed to this writer: an earlier append failed, was interrupted, "
                "or this is a forked child",
                code="fact_ledger_poisoned",
                next="Resume the run in a new process: it reads what the disk really kept.",
                path=str(self.path),
            )

    def require_mine(self) -> None:
        """Refuse when somebody else changed the length, deleted the file or put another one at its path."""
        self._require_untouched()
        self._require_same()

    def _look(self) -> os.stat_result:
        return look(self._fd, self.path)

    def _require_untouched(self) -> os.stat_result:
        found = self._look()
        if found.st_nlink == 0 or found.st_size != self.size_bytes:
            raise self._replaced(f"has {found.st_size} bytes and {found.st_nlink} names, expected {self.size_bytes}")
        return found

    def _require_same(self) -> None:
        if not self.is_same():
            raise self._replaced("is another file than the one that is open")

    def _replaced(self, what: str) -> Storage:
        return Storage(
            f"{str(self.path)!r} {what}; somebody else changed the journal",
            code="journal_replaced",
            next="Find out what touched the file, then `clew verify` the run.",
            path=str(self.path),
        )

    def _write(self, data: bytes) -> None:
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            raise failure(error, self.path, "append to") from error
        if written != len(data):
            raise Storage(
                f"only {written} of {len(data)} bytes went to the end of {str(self.path)!r}",
                code="disk_full" if no_room_left(self.path.parent) else "run_state_failed",
                next="Free space on that disk, then `clew resume` the run.",
                path=str(self.path),
                written=written,
                expected=len(data),
            )

    def _sync_data(self) -> None:
        try:
            _sync_data(self._fd)
        except OSError as error:
            raise barrier_failed(error, self.path) from error


if sys.platform == "win32":
    _sync_data = os.fsync

    def _drop_pages(fd: int) -> None:
        """Nothing: Windows has no such call."""

else:
    _sync_data = os.fdatasync

    def _drop_pages(fd: int) -> None:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def birth(path: Path, data: bytes, naming: contextlib.AbstractContextManager[None] | None = None) -> AppendFile:
    """A new file with its first bytes, durable and locked before anybody can see it.

    `naming` stands around the moment in which it gets its name; what that raises is raised here, and nothing is named.

    Raises:
        FileExistsError: the name is taken; what is there is untouched.
        Storage: it cannot be made; no temp file is left.

    Source:
        DESIGN §4: "A journal is *born* locked".
    """
    temp, fd = exclusive(path)
    try:
        _take(fd, path, 0.0)
        fill(fd, data, path)
        with naming or contextlib.nullcontext():
            named, fd = fd, -1
            fd = _name(named, temp, path)
        sync_folder(path.parent)
        return AppendFile(fd, path, len(data))
    except BaseException as error:
        discard(temp, fd)
        if isinstance(error, OSError) and not isinstance(error, FileExistsError):
            raise failure(error, path, "create") from error
        raise


if sys.platform == "win32":

    def _name(fd: int, temp: Path, path: Path) -> int:
        """Windows does not rename an open file: closed, named, opened and locked again."""
        os.close(fd)
        place_new(temp, path)
        again = clear(os.open(path, APPEND))
        if not _take(again, path, 2.0):
            os.close(again)
            raise PermissionError(13, "another process locked it first", str(path))
        return again

else:

    def _name(fd: int, temp: Path, path: Path) -> int:
        try:
            place_new(temp, path)
        except BaseException:
            let_go(fd)
            raise
        return fd


def _take(fd: int, path: Path, wait_s: float) -> bool:
    try:
        return take(fd, wait_s)
    except OSError as error:
        raise failure(error, path, "lock") from error


def _in_forked_child() -> None:
    """Close, never unlock: the lock belongs to the parent's descriptor too, and stays with it."""
    for file in tuple(_open_files):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
