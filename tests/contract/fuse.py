"""A FUSE file system of a few lines, to be looked at and locked: it shows a folder, and refuses every change.

    python -m tests.contract.fuse FOLDER PLACE

Prints `mounted` once it is there, and ends when it is unmounted. Speaks the kernel's protocol 7.31 by itself, so that
no FUSE program is needed; what it does not know is answered with ENOSYS.
"""

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FSYNC, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 20, 25, 26
OPENDIR, READDIR, RELEASEDIR, FSYNCDIR, ACCESS, BATCH_FORGET = 27, 28, 29, 30, 34, 42
UNANSWERED: Final = (FORGET, BATCH_FORGET)
HEADER: Final = struct.Struct("<IIQQIIII")


class Shown:
    """A folder as a FUSE file system shows it. Node 1 is the folder itself."""

    def __init__(self, folder: Path) -> None:
        self.paths = {1: folder}
        self.nodes = {folder: 1}
        self.answers: dict[int, Callable[[int, bytes], bytes]] = {
            INIT: self.init, LOOKUP: self.lookup, GETATTR: self.attributes, OPEN: self.opened, OPENDIR: self.opened,
            READ: self.read, READDIR: self.names, STATFS: self.statfs, RELEASE: nothing, RELEASEDIR: nothing,
            FSYNC: nothing, FSYNCDIR: nothing, FLUSH: nothing, ACCESS: nothing,
        }  # fmt: skip

    def answer(self, request: bytes) -> bytes | None:
        """The reply to one request of the kernel."""
        _, opcode, unique, node, *_ = HEADER.unpack_from(request)
        if opcode in UNANSWERED:
            return None
        said, fault = b"", 0
        try:
            found = self.answers.get(opcode)
            if found is None:
                fault = errno.ENOSYS
            else:
                said = found(node, request[HEADER.size :])
        except OSError as error:
            fault = error.errno or errno.EIO
        return struct.pack("<IiQ", 16 + len(said), -fault, unique) + said

    def init(self, node: int, body: bytes) -> bytes:
        return struct.pack("<IIIIHHIIHHI7I", 7, 31, 0, 0, 12, 9, 4096, 1, 1, 0, 0, *[0] * 7)

    def lookup(self, node: int, body: bytes) -> bytes:
        path = self.paths[node] / os.fsdecode(body.rstrip(b"\0"))
        attributes = attributes_of(path)
        found = self.nodes.setdefault(path, len(self.nodes) + 1)
        self.paths[found] = path
        return struct.pack("<QQQQII", found, 0, 0, 0, 0, 0) + attributes

    def attributes(self, node: int, body: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + attributes_of(self.paths[node])

    def opened(self, node: int, body: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0)

    def read(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        with self.paths[node].open("rb") as file:
            return os.pread(file.fileno(), size, offset)

    def names(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        said = b""
        for number, name in list(enumerate(sorted(os.listdir(self.paths[node])), 1))[offset:]:
            raw = os.fsencode(name)
            entry = struct.pack("<QQII", number, number, len(raw), 0) + raw
            entry += b"\0" * (-len(entry) % 8)
            if len(said) + len(entry) > size:
                break
            said += entry
        return said

    def statfs(self, node: int, body: bytes) -> bytes:
        return struct.pack("<QQQQQIIII6I", 1, 1, 1, 1, 1, 4096, 255, 4096, 0, *[0] * 6)


def nothing(node: int, body: bytes) -> bytes:
    """Done: there was nothing to do."""
    return b""


def attributes_of(path: Path) -> bytes:
    """A file's attributes as the kernel wants them."""
    seen = path.lstat()
    times = (seen.st_atime_ns, seen.st_mtime_ns, seen.st_ctime_ns)
    return struct.pack(
        "<QQQQQQIIIIIIIIII", seen.st_ino, seen.st_size, seen.st_blocks, *(ns // 10**9 for ns in times),
        *(ns % 10**9 for ns in times), seen.st_mode, seen.st_nlink, seen.st_uid, seen.st_gid, 0, 4096, 0,
    )  # fmt: skip


def mount(place: Path) -> int:
    """The descriptor by which the kernel asks. `OSError` where this user or this machine may not mount."""
    fd = os.open("/dev/fuse", os.O_RDWR)
    kernel = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()}"
    if kernel.mount(b"clew-test", os.fsencode(place), b"fuse.clewtest", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    return fd


def serve(fd: int, shown: Shown) -> None:
    """Answer until it is unmounted."""
    while True:
        try:
            request = os.read(fd, 1 << 17)
        except InterruptedError:
            continue
        except OSError as error:
            if error.errno in (errno.ENODEV, errno.EBADF):
                return
            raise
        reply = shown.answer(request)
        if reply is not None:
            os.write(fd, reply)


if __name__ == "__main__":
    descriptor = mount(Path(sys.argv[2]))
    print("mounted", flush=True)
    serve(descriptor, Shown(Path(sys.argv[1])))
