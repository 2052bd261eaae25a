"""What tells a file from its copies: the inode and the birth time that no copy takes along. Writes nothing."""

import ctypes
import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

from clew.disk.failures import failure
from clew.disk.files import READ, pieces_of
from clew.disk.look import let_go, look
from clew.disk.mounts import file_system

# FAT makes its numbers up while it is mounted, and keeps times in the local zone of whoever mounts it.
_NOTHING_LASTS: Final = frozenset({"exfat", "FAT", "FAT32", "msdos", "vfat"})
# There the numbers are made up anew at each mount.
_NUMBERED_ANEW: Final = ("9p", "fuse")


class Origin(NamedTuple):
    """What a file has and its copy has not. A member is None where it cannot be told or does not last.

    `born` is seconds and nanoseconds since 1970, as `1764439167.000000001`: an inode's number is given away again
    after the file is deleted, its birth time is not.
    """

    inode: int | None
    born: str | None

    def differs(self, other: "Origin") -> bool:
        """Is it provably another file?"""
        pairs = zip(self, other, strict=True)
        return any(one is not None and two is not None and one != two for one, two in pairs)

    def tells_from(self, other: "Origin") -> bool:
        """Have the two a member in common by which a copy would be seen?"""
        return any(one is not None and two is not None for one, two in zip(self, other, strict=True))


def origin_of(fd: int, path: Path) -> Origin:
    """Of an open file that has, or is to have, this path. The device's number is left out: it changes at a reboot.

    Raises:
        Storage: the system does not tell.
    """
    number = look(fd, path).st_ino
    kind = file_system(path.parent).name
    if kind in _NOTHING_LASTS:
        return Origin(None, None)
    return Origin(number if number and not kind.startswith(_NUMBERED_ANEW) else None, _born(fd))


def read_with_origin(path: Path, limit: int) -> tuple[bytes, Origin] | None:
    """At most `limit` bytes of a file and what tells that very file from its copies; None when there is no such file.

    Raises:
        Storage: it cannot be looked at. Refused: `home_link_refused` when a link stands there.
    """
    try:
        fd = os.open(path, READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failure(error, path, "open") from error
    try:
        return b"".join(pieces_of(fd, path, 0, min(limit, look(fd, path).st_size))), origin_of(fd, path)
    finally:
        let_go(fd)


if sys.platform == "linux":
    _EMPTY_PATH, _BIRTH_TIME, _SIZE, _SECONDS_AT, _NANOSECONDS_AT = 0x1000, 0x800, 256, 80, 88

    def _born(fd: int) -> str | None:
        """By `statx`, which the standard library does not have: its mask says whether the file system knows."""
        libc = ctypes.CDLL(None)
        buffer = ctypes.create_string_buffer(_SIZE)
        if not hasattr(libc, "statx") or libc.statx(fd, b"", _EMPTY_PATH, _BIRTH_TIME, buffer):
            return None
        if not int.from_bytes(buffer.raw[:4], sys.byteorder) & _BIRTH_TIME:
            return None
        seconds = int.from_bytes(buffer.raw[_SECONDS_AT : _SECONDS_AT + 8], sys.byteorder, signed=True)
        nanoseconds = int.from_bytes(buffer.raw[_NANOSECONDS_AT : _NANOSECONDS_AT + 4], sys.byteorder)
        return f"{seconds}.{nanoseconds:09}"

else:

    def _born(fd: int) -> str | None:
        """Not told: Windows gives a new file the birth time of one that had its name before, and needs none."""
        return None
