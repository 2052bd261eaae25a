"""A folder held by a descriptor, and what is done in it, by names, never through a link. What it is for is not known.

Every `OSError` leaves here as it came: whoever asks knows which of them are answers.
"""

import contextlib
import ctypes
import errno
import itertools
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Self

from clew.disk.files import APPEND, READ, is_link, pread
from clew.disk.look import let_go
from clew.disk.streams import clear

PIECE: Final = 1 << 20
_FOLDER: Final = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_BORN: Final = APPEND | os.O_CREAT | os.O_EXCL
_TEMP_NUMBERS: Final = itertools.count(1)
_NO_REPLACE, _EXCHANGE = 1, 2
# A file system or a kernel that does not know this kind of rename.
_NO_SUCH_RENAME: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})


class Folder:
    """An open folder. Whatever its path leads to later, this stays the folder that was opened.

    Names are text, those that are not UTF-8 with surrogate escapes. On Windows there are no such descriptors: there
    the path is held, and each folder on it is looked at for links as it is entered; who exchanges one for a link after
    that is not guarded against.

    Source:
        issue 5: "a file swapped for a link between check and write: refused, nothing written outside".
    """

    def __init__(self, path: Path, fd: int | None) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def at(cls, path: Path) -> Self:
        """The folder at a path that is real. `OSError` where none is."""
        return cls(path, None if sys.platform == "win32" else clear(os.open(path, os.O_RDONLY | _FOLDER)))

    def enter(self, name: str) -> Self:
        """A folder in this one. `FileNotFoundError`; `NotADirectoryError` where a link or anything else stands."""
        path = self.path / name
        try:
            if self.fd is not None:
                return type(self)(path, clear(os.open(name, os.O_RDONLY | _FOLDER, dir_fd=self.fd)))
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
        if is_link(path) or not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return type(self)(path, None)

    def close(self) -> None:
        """Let go; nothing that was done is undone."""
        if self.fd is not None:
            with contextlib.suppress(OSError):
                os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _of(self, name: str) -> str:
        return name if self.fd is not None else str(self.path / name)

    # Looking.

    def identity(self) -> tuple[int, int]:
        """Device and inode: which folder this is, whatever it is called."""
        found = os.stat(self.path if self.fd is None else self.fd)
        return found.st_dev, found.st_ino

    def look(self, name: str) -> os.stat_result | None:
        """What stands under a name, itself; None when nothing does."""
        try:
            return os.stat(self._of(name), dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """All names in here, by code points."""
        return sorted(os.listdir(self.path if self.fd is None else self.fd))

    def target(self, name: str) -> str:
        """What a link says."""
        return os.readlink(self._of(name), dir_fd=self.fd)

    def open(self, name: str) -> int:
        """A descriptor to read a file; a pipe does not make it wait. `OSError` (ELOOP) for a link."""
        return clear(os.open(self._of(name), READ, dir_fd=self.fd))

    def temp_beside(self, name: str, mark: str = "") -> str:
        """The name for a temp file beside another; with a `mark` always the same one (`disk.files.is_temp`)."""
        # Cut, so that the longest name that a file may have leaves room for it.
        return f".{name[:40]}.{mark or f'{os.getpid()}-{next(_TEMP_NUMBERS)}'}.tmp"

    # Changing. What is new here is durable when `sync` has returned.

    def born(self, name: str, mode: int | None = None) -> int:
        """A descriptor of a new empty file, to read and append. `FileExistsError`.

        It is of exactly this mode before anything is in it; without one, of what the umask leaves.
        """
        fd = clear(os.open(self._of(name), _BORN, 0o666 if mode is None else mode & 0o777, dir_fd=self.fd))
        try:
            if mode is not None:
                set_mode(fd, mode)
        except BaseException:
            let_go(fd)
            raise
        return fd

    def make_folder(self, name: str, mode: int | None = None) -> None:
        """A new folder, of this mode or of what the umask leaves. `FileExistsError`."""
        os.mkdir(self._of(name), 0o777 if mode is None else mode | 0o700, dir_fd=self.fd)
        if mode is not None:
            self.set_folder_mode(name, mode)

    def set_folder_mode(self, name: str, mode: int) -> None:
        """Another mode for a folder. `NotADirectoryError` where none stands."""
        with self.enter(name) as folder:
            if folder.fd is None:
                os.chmod(folder.path, mode)
            else:
                os.fchmod(folder.fd, mode)
                require_mode(folder.fd, mode)
            folder.sync()

    def make_link(self, name: str, target: str) -> None:
        """A new link that says `target`. `FileExistsError`."""
        os.symlink(target, self._of(name), dir_fd=self.fd)

    def replace(self, name: str, to: str) -> None:
        """Give what stands under a name another name in here, in place of the file or link that has it."""
        os.replace(self._of(name), self._of(to), src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def exchange(self, name: str, other: str) -> bool:
        """Two names in here for each other, at once, whatever they are; False where the machine has no such deed."""
        return _rename(self, name, self, other, _EXCHANGE)

    def rename_new(self, name: str, to: str, folder: "Folder | None" = None) -> None:
        """Give what stands here another name, here or in another folder. `FileExistsError` when anything has it.

        Where the machine has no such deed a file is linked and unlinked, and all else renamed behind a look.
        """
        there = folder or self
        if not _rename(self, name, there, to, _NO_REPLACE):
            self._rename_seen(name, to, there)

    def _rename_seen(self, name: str, to: str, there: "Folder") -> None:
        if there.look(to) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(there.path / to))
        found = self.look(name)
        if sys.platform != "win32" and found is not None and stat.S_ISREG(found.st_mode):
            with contextlib.suppress(PermissionError):
                os.link(name, to, src_dir_fd=self.fd, dst_dir_fd=there.fd, follow_symlinks=False)
                os.unlink(name, dir_fd=self.fd)
                return
        os.rename(self._of(name), there._of(to), src_dir_fd=self.fd, dst_dir_fd=there.fd)

    def remove(self, name: str) -> None:
        """Remove a file or a link itself."""
        os.unlink(self._of(name), dir_fd=self.fd)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder. `OSError` (ENOTEMPTY) when anything is in it."""
        os.rmdir(self._of(name), dir_fd=self.fd)

    def sync(self) -> None:
        """Wait until the device has the names in here."""
        if self.fd is not None:
            os.fsync(self.fd)


def is_not_empty(error: OSError) -> bool:
    """Did a folder stay because something is in it?"""
    return error.errno in (errno.ENOTEMPTY, errno.EEXIST)


# Open files.


def set_mode(fd: int, mode: int) -> None:
    """The permission bits of an open file; on Windows they stay as they are."""
    if sys.platform != "win32":
        os.fchmod(fd, mode)


def require_mode(fd: int, mode: int) -> None:
    """`PermissionError` where an open file did not get its mode: a group's rights are kept from who is not in it."""
    if sys.platform != "win32" and stat.S_IMODE(os.fstat(fd).st_mode) != mode:
        raise PermissionError(errno.EPERM, f"the machine does not give it the mode {mode:o}")


def give_to(fd: int, owner: int, group: int) -> bool:
    """Another owner for an open file, where we may; True when it got one, which may have cleared bits of its mode."""
    if sys.platform != "win32":
        found = os.fstat(fd)
        if (found.st_uid, found.st_gid) != (owner, group):
            with contextlib.suppress(PermissionError):
                os.fchown(fd, owner, group)
                return True
    return False


def pieces_of(fd: int, limit: int = 1 << 62) -> Iterator[bytes]:
    """The bytes of an open file from its beginning to where it ends, at most so many, in pieces of 1 MiB."""
    start = 0
    while start < limit and (piece := pread(fd, min(PIECE, limit - start), start)):
        yield piece
        start += len(piece)


def append(fd: int, pieces: Iterable[bytes]) -> None:
    """Write all of it at the end of an open file."""
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(fd, rest) :]


if sys.platform == "win32":

    def _rename(folder: Folder, name: str, there: Folder, to: str, kind: int) -> bool:
        return False

else:
    _LIBC: Final = ctypes.CDLL(None, use_errno=True)

    def _rename(folder: Folder, name: str, there: Folder, to: str, kind: int) -> bool:
        """`renameat2`; False where it is not known."""
        if not hasattr(_LIBC, "renameat2"):
            return False
        if not _LIBC.renameat2(folder.fd, os.fsencode(name), there.fd, os.fsencode(to), kind):
            return True
        code = ctypes.get_errno()
        if code in _NO_SUCH_RENAME:
            return False
        raise OSError(code, os.strerror(code), str(there.path / to))
