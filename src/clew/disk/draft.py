"""A file that is filled piece by piece and named only when it is whole; a part of a file; has a file changed?"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from clew.disk import files
from clew.disk.failures import failure
from clew.disk.look import let_go


class Draft:
    """A temp file that nobody sees. Lives for one block, at whose end it has its name or is gone.

    Raises:
        Storage: from each deed, when the machine refuses.
    """

    def __init__(self, folder: Path) -> None:
        self._place = folder / "draft"
        self._temp, self._fd = files.exclusive(self._place)
        self.size_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            files.discard(self._temp, self._fd)
            self._fd = -1

    def write(self, data: bytes) -> None:
        """Append all of it."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            raise failure(error, self._place, "write") from error
        self.size_bytes += len(data)

    def cut(self, size_bytes: int) -> None:
        """Take back what was appended behind so many bytes."""
        try:
            os.ftruncate(self._fd, size_bytes)
        except OSError as error:
            raise failure(error, self._place, "write") from error
        self.size_bytes = size_bytes

    def publish(self, path: Path) -> None:
        """Sync it and give it its name, in place of what has it; durable when this returns."""
        files.sync(self._fd, self._place)
        self.name(path)
        files.sync_folder(path.parent)

    def name(self, path: Path) -> None:
        """Give it its name, in place of what has it; a power cut may leave anything of it."""
        try:
            closing, self._fd = self._fd, -1
            os.close(closing)
            files.replace(self._temp, path)
        except BaseException as error:
            files.discard(self._temp, -1)
            if isinstance(error, OSError):
                raise failure(error, path, "publish") from error
            raise

    def born_ns(self) -> int:
        """When it was made, by the clock that its file system gives times from."""
        return os.fstat(self._fd).st_ctime_ns


def part_of(path: Path, start: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from `start` to `end`, in pieces of 1 MiB; fewer when it is shorter.

    Raises:
        Storage: when it cannot be read, or is not there. Refused: `home_link_refused`.
    """
    try:
        fd = os.open(path, files.READ)
    except OSError as error:
        raise failure(error, path, "open") from error
    try:
        yield from files.pieces_of(fd, path, start, end)
    finally:
        let_go(fd)


def standing(path: Path) -> tuple[int, ...]:
    """What changes when a file or folder does: device, inode, size, both times; empty when nothing is there.

    Raises:
        Storage: it cannot be looked at.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise failure(error, path, "look at") from error
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
