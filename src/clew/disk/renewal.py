"""A locked file that gets other content in one step, and copies that are made once. What a file holds is not known."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from clew.disk.append import AppendFile
from clew.disk.failures import failure
from clew.disk.files import APPEND, discard, exclusive, place_new, rename_new, replace, sync, sync_folder
from clew.disk.lock import take
from clew.disk.look import let_go
from clew.disk.streams import clear
from clew.errors import Storage


def renew(file: AppendFile, pieces: Iterable[bytes]) -> AppendFile:
    """Put other bytes in the place of a locked file's: its name leads to all of the old or all of the new, always.

    The new file is locked before it gets the name, so nobody comes in between; the old one is closed when it is done,
    and poisoned where it failed. The pieces may be made from what the old one holds.

    Raises:
        Storage: `journal_replaced` when the name leads elsewhere meanwhile; `disk_full`, `storage_denied`,
            `durability_barrier_failed`, `publish_failed`; no temp file is left.

    Source:
        DESIGN §4 "Everything else"; reference/sessions.md §9, 2 and 8.
    """
    file.require_sound()
    path = file.path
    temp, fd = exclusive(path)
    try:
        size = _fill(fd, pieces, path)
        file.poisoned = True
        take(fd, 0.0)
        file.require_mine()
        naming, fd = fd, -1
        fd = _rename(naming, temp, file)
        sync_folder(path.parent)
    except BaseException as error:
        file.poisoned = True
        discard(temp, fd)
        if isinstance(error, OSError):
            raise failure(error, path, "publish") from error
        raise
    file.close()
    return AppendFile(fd, path, size)


def keep_new(path: Path, pieces: Iterable[bytes]) -> bool:
    """Make a file that is whole and durable before it has its name; False when something of that name is there.

    No second name of it ever exists where the system can rename without replacing.

    Raises:
        Storage: as `renew`.
    """
    temp, fd = exclusive(path)
    try:
        _fill(fd, pieces, path)
        closing, fd = fd, -1
        os.close(closing)
        _place(temp, path)
    except FileExistsError:
        discard(temp, fd)
        return False
    except BaseException as error:
        discard(temp, fd)
        if isinstance(error, OSError):
            raise failure(error, path, "keep a copy at") from error
        raise
    sync_folder(path.parent)
    return True


def confirm(path: Path) -> None:
    """Wait until the device has a file and its name: who made it may have died before that was sure.

    Raises:
        Storage: it cannot be opened or synced.
    """
    try:
        fd = os.open(path, APPEND)
    except OSError as error:
        raise failure(error, path, "open") from error
    try:
        sync(fd, path)
    finally:
        let_go(fd)
    sync_folder(path.parent)


def _fill(fd: int, pieces: Iterable[bytes], path: Path) -> int:
    size = 0
    for piece in pieces:
        rest = memoryview(piece)
        size += len(piece)
        try:
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError as error:
            raise failure(error, path, "write") from error
    sync(fd, path)
    return size


if sys.platform == "win32":
    _place = place_new

    def _rename(fd: int, temp: Path, file: AppendFile) -> int:
        """Windows does not rename open files: both are closed, renamed, and the new one is opened and locked again."""
        os.close(fd)
        file.close()
        replace(temp, file.path)
        again = clear(os.open(file.path, APPEND))
        if not take(again, 2.0):
            os.close(again)
            raise Storage(
                f"another process locked {str(file.path)!r} first; its new content is published",
                code="publish_failed",
                next="Wait for that process, then do it again.",
                path=str(file.path),
            )
        return again

else:

    def _place(temp: Path, path: Path) -> None:
        """Give it its name without a moment of two names, where the file system can."""
        try:
            rename_new(temp, path)
        except FileExistsError:
            raise
        except OSError:
            place_new(temp, path)

    def _rename(fd: int, temp: Path, file: AppendFile) -> int:
        try:
            replace(temp, file.path)
        except BaseException:
            let_go(fd)
            raise
        return fd
