"""What kind of file system a path lies on, and whether it is one of this machine."""

import ctypes
import os
import sys
from pathlib import Path
from typing import NamedTuple

_LOCAL = frozenset({
    "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "NTFS", "overlay", "tmpfs", "xfs", "zfs",
})  # fmt: skip
_REMOTE = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb2",
    "smb3", "smbfs", "virtiofs",
})  # fmt: skip
_MOUNTS = Path("/proc/self/mountinfo")


class FileSystem(NamedTuple):
    """A kind of file system; `local` is None when it is not one that we know."""

    name: str
    local: bool | None


def kind(name: str) -> FileSystem:
    """A kind by its name. Only on a local one does the kernel's lock prove that nobody else writes.

    Source:
        reliability f, proof (2).
    """
    if name in _LOCAL:
        return FileSystem(name, True)
    if name in _REMOTE or name.startswith("fuse"):
        return FileSystem(name, False)
    return FileSystem(name, None)


def mounted(path: str, mountinfo: str) -> str | None:
    """The kind of the file system that holds `path`, by the text of mountinfo."""
    found = mount_of(path, mountinfo)
    return None if found is None else found[0]


def mount_of(path: str, mountinfo: str) -> tuple[str, tuple[str, ...]] | None:
    """The kind and the options of the mount that holds `path`: the longest and latest one wins."""
    best, found = -1, None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(" "), right.split(" ")
        if len(fields) < 5 or not kinds[0]:
            continue
        point = _plain(fields[4])
        if len(point) >= best and (path + "/").startswith(point.rstrip("/") + "/"):
            options = ",".join((*fields[5:6], *kinds[2:3])).split(",")
            best, found = len(point), (kinds[0], tuple(dict.fromkeys(options)))
    return found


def _plain(point: str) -> str:
    for code, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, sign)
    return point


if sys.platform == "win32":

    def file_system(path: Path) -> FileSystem:
        """The file system that holds `path`: its volume's, if the volume is a fixed drive."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        drive = Path(os.path.realpath(path)).anchor
        name = ctypes.create_unicode_buffer(64)
        if not kernel.GetVolumeInformationW(drive, None, 0, None, None, None, name, 64):
            return FileSystem("unknown", None)
        fixed, remote = 3, 4
        where = kernel.GetDriveTypeW(drive)
        if where == remote:
            return FileSystem(name.value, False)
        return kind(name.value) if where == fixed else FileSystem(name.value, None)

    def mount_options(path: Path) -> tuple[str, ...]:
        """None are told."""
        del path
        return ()

else:

    def file_system(path: Path) -> FileSystem:
        """The file system that holds `path`, as the kernel's mount table tells it."""
        found = _mount(path)
        return kind(found[0]) if found else FileSystem("unknown", None)

    def mount_options(path: Path) -> tuple[str, ...]:
        """How the file system that holds `path` is mounted."""
        found = _mount(path)
        return found[1] if found else ()

    def _mount(path: Path) -> tuple[str, tuple[str, ...]] | None:
        try:
            return mount_of(os.path.realpath(path), _MOUNTS.read_text(errors="surrogateescape"))
        except OSError:
            return None
