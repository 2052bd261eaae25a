"""What lies under a home: its file system, the room on it, and what would make a sync mean nothing. Writes nothing."""

import contextlib
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Final, NamedTuple

from clew.disk.mounts import file_system, mount_options

_UNDOING: Final = ("eatmydata", "nosync")
_MAPS: Final = Path("/proc/self/maps")


class Volume(NamedTuple):
    """A file system: its kind, how it is mounted, what undoes a sync on it, and its room. None where nobody tells."""

    kind: str
    local: bool | None
    options: tuple[str, ...]
    undone: tuple[str, ...]
    free_bytes: int | None
    total_bytes: int | None
    free_inodes: int | None
    total_inodes: int | None
    writable: bool


def volume_of(path: Path) -> Volume:
    """The volume that holds `path`, asked without writing: whether it may be written is what the system says."""
    found = file_system(path)
    room = _room(path)
    inodes = _inodes(path)
    return Volume(
        kind=found.name,
        local=found.local,
        options=mount_options(path),
        undone=undone(_loaded()),
        free_bytes=room[0],
        total_bytes=room[1],
        free_inodes=inodes[0],
        total_inodes=inodes[1],
        writable=os.access(path, os.W_OK | os.X_OK),
    )


def undone(loaded: str) -> tuple[str, ...]:
    """The libraries, by the names of what is loaded, that answer a sync without doing it."""
    return tuple(word for word in _UNDOING if word in loaded)


def _loaded() -> str:
    """What the dynamic linker was told to load first, and what is mapped into this process."""
    told = os.environ.get("LD_PRELOAD", "")
    with contextlib.suppress(OSError):
        told += _MAPS.read_text(errors="replace")
    return told


def _room(path: Path) -> tuple[int | None, int | None]:
    """Bytes that this user may still write, and bytes in all."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None, None
    return usage.free, usage.total


if sys.platform == "win32":

    def _inodes(path: Path) -> tuple[int | None, int | None]:
        del path
        return None, None

    def too_open(mode: int) -> bool:
        """Windows keeps permissions elsewhere."""
        del mode
        return False

else:

    def _inodes(path: Path) -> tuple[int | None, int | None]:
        """Free and all; some file systems have no fixed number and say 0."""
        try:
            found = os.statvfs(path)
        except OSError:
            return None, None
        return (found.f_favail, found.f_files) if found.f_files else (None, None)

    def too_open(mode: int) -> bool:
        """May anybody but the owner open it?"""
        return bool(stat.S_IMODE(mode) & 0o077)
