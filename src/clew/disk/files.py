"""Files that are published whole, folders, and reading without a trace. The growing file is `append`.

Every `OSError` leaves here as `Storage` or `Refused`, with path and errno.
"""

import contextlib
import ctypes
import errno
import itertools
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from clew.disk.failures import barrier_failed, failure, link_refused
from clew.disk.look import let_go, look
from clew.disk.streams import clear
from clew.errors import Storage

PIECE = 1 << 20
Content = bytes | Callable[[int], bytes]
"""What a file is to hold: bytes, or what makes them from the descriptor of the very file that will be there."""
_TEMP_NUMBERS = itertools.count(1)
_TEMP_NAME = re.compile(r"\..+\.(\d+-\d+|[a-z2-7]{16})\.tmp", re.ASCII | re.DOTALL)

if sys.platform == "win32":
    _BASE = os.O_BINARY | os.O_NOINHERIT
else:
    _BASE = os.O_CLOEXEC | os.O_NOFOLLOW
# Opening a pipe that somebody put in the place of a file would wait for its writer.
READ = _BASE | os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
APPEND = _BASE | os.O_RDWR | os.O_APPEND
_BORN = APPEND | os.O_CREAT | os.O_EXCL


# ---------------------------------------------------------------------------------------------------------- publishing


def publish(path: Path, data: Content) -> None:
    """Put `data` at `path`, in place of what was there: a reader sees the old bytes or the new, a crash too.

    Raises:
        Storage: `disk_full`, `storage_denied`, `durability_barrier_failed`, `publish_failed`; no temp file is left.

    Source:
        DESIGN §4 "Everything else".
    """
    _publish(path, data, replace)


def publish_new(path: Path, data: Content) -> bool:
    """Put `data` at `path` unless something is there already, which is never replaced; False then.

    Raises:
        Storage: as `publish`.
    """
    try:
        _publish(path, data, place_new)
    except FileExistsError:
        return False
    return True


def _publish(path: Path, data: Content, name: Callable[[Path, Path], None]) -> None:
    temp, fd = exclusive(path)
    try:
        fill(fd, data if isinstance(data, bytes) else data(fd), path)
        closing, fd = fd, -1
        os.close(closing)
        name(temp, path)
    except BaseException as error:
        discard(temp, fd)
        if isinstance(error, OSError) and not isinstance(error, FileExistsError):
            raise failure(error, path, "publish") from error
        raise
    sync_folder(path.parent)


def exclusive(path: Path, mode: int = 0o600, mark: str = "") -> tuple[Path, int]:
    """A new temp file beside `path`, open to append, that nobody else has; with a `mark` always the same one."""
    while True:
        # Cut, so that the longest name that a file may have leaves room for a temp file beside it.
        temp = path.with_name(f".{path.name[:40]}.{mark or f'{os.getpid()}-{next(_TEMP_NUMBERS)}'}.tmp")
        try:
            return temp, clear(os.open(temp, _BORN, mode))
        except FileExistsError:
            if mark:
                discard(temp, -1)
        except OSError as error:
            raise failure(error, path, "write") from error


def is_temp(name: str) -> bool:
    """Is it the name of such a temp file, in use or left behind by a crash?"""
    return _TEMP_NAME.fullmatch(name) is not None


def discard(temp: Path, fd: int) -> None:
    """Close `fd` unless it is -1 and remove the temp file if it is still there."""
    with contextlib.suppress(OSError):
        if fd >= 0:
            os.close(fd)
    with contextlib.suppress(OSError):
        os.unlink(temp)


def fill(fd: int, data: bytes, path: Path) -> None:
    """Write all of `data` to a file that nobody sees yet, and sync it."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError as error:
        raise failure(error, path, "write") from error
    sync(fd, path)


def sync(fd: int, path: Path) -> None:
    """Wait until the device has it."""
    try:
        os.fsync(fd)
    except OSError as error:
        raise barrier_failed(error, path) from error


if sys.platform == "win32":

    def sync_folder(folder: Path) -> None:
        """Nothing: Windows keeps names without being asked."""

    def place_new(temp: Path, path: Path) -> None:
        """Give the temp file its name; `FileExistsError` when the name is taken."""
        _patiently(os.rename, temp, path)

else:

    def sync_folder(folder: Path) -> None:
        """Wait until the device has the names in this folder."""
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise barrier_failed(error, folder) from error
        try:
            sync(fd, folder)
        finally:
            let_go(fd)

    def place_new(temp: Path, path: Path) -> None:
        """Give the temp file its name; `FileExistsError` when the name is taken.

        A file system without hard links is asked for a rename that does not replace; one without either refuses.
        """
        try:
            os.link(temp, path)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            rename_new(temp, path)
        else:
            os.unlink(temp)

    def rename_new(temp: Path, path: Path) -> None:
        """`rename` that fails with `FileExistsError` instead of replacing."""
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "renameat2"):
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), str(path))
        here, no_replace = -100, 1
        if libc.renameat2(here, os.fsencode(temp), here, os.fsencode(path), no_replace):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))


def replace(temp: Path, path: Path) -> None:
    """Give the temp file its name, in place of what has it."""
    return _patiently(os.replace, temp, path) if sys.platform == "win32" else os.replace(temp, path)


def _patiently(deed: Callable[[Path, Path], None], temp: Path, path: Path) -> None:
    """Do it again while Windows says that somebody (a scanner, an indexer) has the file open: about 2.5 s."""
    for wait_ms in (10, 20, 40, 80, 160, 320, 640, 1280):
        try:
            return deed(temp, path)
        except PermissionError as error:
            if getattr(error, "winerror", None) not in (5, 32):
                raise
            time.sleep(wait_ms / 1000)
    raise Storage(
        f"cannot give {str(path)!r} its new content: another program keeps it open",
        code="publish_failed",
        next="Close the program that has the file open, then do it again.",
        path=str(path),
    )


# ------------------------------------------------------------------------------------------------------------- folders


def make_folder(path: Path) -> None:
    """A folder for this user alone, there after a power cut as well. Its parent must exist.

    Raises:
        Storage: when it cannot be made. Refused: `home_link_refused` when a link stands there.
    """
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise failure(error, path, "make folder") from error
    if is_link(path):
        raise link_refused(path)
    sync_folder(path.parent)


def claim_folder(path: Path) -> bool:
    """Make a folder for this user alone; False when something of this name is there, be it what it may.

    Of several that try at once, one makes it. It is durable when its parent is synced.

    Raises:
        Storage: when it cannot be made.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return False
    except OSError as error:
        raise failure(error, path, "make folder") from error
    return True


def remove_empty(folder: Path) -> None:
    """Take back a claim; what is in use by now stays."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def below(root: Path, *parts: str) -> Path:
    """The path of `parts` below `root`, none of which may be a link; `root` itself may.

    Raises:
        Refused: `home_link_refused`.

    Source:
        DESIGN §4: "The home may be a link, nothing below it may."
    """
    path = root
    for part in parts:
        path = unlinked(path / part)
    return path


def unlinked(path: Path) -> Path:
    """The path itself, which may be no link. `Refused` (`home_link_refused`)."""
    if is_link(path):
        raise link_refused(path)
    return path


def is_link(path: Path) -> bool:
    """Is there a symbolic link, or on Windows any reparse point?"""
    try:
        return _leads_away(os.lstat(path))
    except OSError:
        return False


def _leads_away(found: os.stat_result) -> bool:
    return stat.S_ISLNK(found.st_mode) or bool(getattr(found, "st_reparse_tag", 0))


def list_names(folder: Path) -> list[str]:
    """The names in a folder, none when there is no folder."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise failure(error, folder, "list") from error


def list_unlinked(folder: Path) -> list[str]:
    """As `list_names`, in one look where no folder is; it may be no link: `Refused` (`home_link_refused`)."""
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return []
    except OSError:
        return list_names(folder)
    if _leads_away(found):
        raise link_refused(folder)
    return list_names(folder)


# ------------------------------------------------------------------------------------------------------------- reading


def size_of(path: Path) -> int | None:
    """Length in bytes now; None when there is no such file."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failure(error, path, "look at") from error
    if stat.S_ISLNK(found.st_mode):
        raise link_refused(path)
    return found.st_size


def mode_of(path: Path) -> int | None:
    """The permissions of a file (the lowest nine bits); None when there is no such file."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode) & 0o777
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failure(error, path, "look at") from error


def read_bytes(path: Path, limit: int) -> bytes | None:
    """At most `limit` bytes of a file; None when there is no such file."""
    try:
        fd = os.open(path, READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failure(error, path, "open") from error
    try:
        return b"".join(pieces_of(fd, path, 0, min(limit, look(fd, path).st_size)))
    finally:
        let_go(fd)


def pieces(path: Path, start: int, end: int | None = None) -> Iterator[bytes]:
    """The bytes from `start` to `end` or the length that the file has at the first piece, read without any trace.

    Raises:
        Storage: when it cannot be read, or is not there any more.
    """
    try:
        fd = os.open(path, READ)
    except OSError as error:
        raise failure(error, path, "open") from error
    try:
        size = look(fd, path).st_size
        yield from pieces_of(fd, path, start, size if end is None else min(size, end))
    finally:
        let_go(fd)


def pieces_of(fd: int, path: Path, start: int, end: int) -> Iterator[bytes]:
    """The bytes from `start` to `end` of an open file, in pieces of 1 MiB; fewer when it became shorter."""
    while start < end:
        try:
            piece = pread(fd, min(PIECE, end - start), start)
        except OSError as error:
            raise failure(error, path, "read") from error
        if not piece:
            return
        yield piece
        start += len(piece)


if sys.platform == "win32":

    def pread(fd: int, size: int, start: int) -> bytes:
        """Bytes at a place of an open file."""
        os.lseek(fd, start, os.SEEK_SET)
        return os.read(fd, size)

else:
    pread = os.pread


def read_line(path: Path, start: int, limit: int) -> bytes | None:
    """The line that begins at `start`, without its LF; None when nothing is there or it is longer than `limit`."""
    try:
        fd = os.open(path, READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failure(error, path, "open") from error
    try:
        return _read_line(fd, path, start, min(look(fd, path).st_size, start + limit))
    finally:
        let_go(fd)


def _read_line(fd: int, path: Path, start: int, end: int) -> bytes | None:
    line, ask = b"", 4096
    while b"\n" not in line and start + len(line) < end:
        piece = b"".join(pieces_of(fd, path, start + len(line), min(end, start + len(line) + ask)))
        if not piece:
            break
        line, ask = line + piece, ask * 4
    return line.split(b"\n", 1)[0] or None
