"""From what strace saw of a process to what it did to one folder: names, bytes, sizes and syncs, in their order.

Only what changes the folder, or makes a change durable, or was told meanwhile is kept. What a crash may leave of it is
`states`' affair.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.crash.studio import TELLS
from tests.crash.telling import Fact

CALLS = (
    "openat,open,creat,read,write,pwrite64,writev,pwritev,fsync,fdatasync,sync_file_range,rename,renameat,renameat2,"
    "link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,truncate,ftruncate,fallocate,lseek,close,dup,"
    "dup2,dup3,fcntl,copy_file_range,sendfile"
)
OPTIONS = ("-f", "-xx", "-s", "40000000", "-e", f"trace={CALLS}")
_WHOLE = re.compile(r"^(\d+ +)?(\w+)\((.*)\) += (-?\d+)")
_BEGUN = re.compile(r"^(\d+ +)?(\w+)\((.*?)(?:, )? <unfinished \.\.\.>$")
_GOES_ON = re.compile(r"^(\d+ +)?<\.\.\. (\w+) resumed>(.*)\) += (-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_CANNOT = ("pwritev", "writev", "symlink", "symlinkat", "fallocate", "copy_file_range", "sendfile", "truncate")


class Name(NamedTuple):
    """One change of the names in `folder`: an inode given a name, one taken away, or both at once."""

    folder: str
    gives: str = ""
    inode: int = 0
    takes: str = ""


class Swap(NamedTuple):
    """Two names of `folder` that change places: `one` is given the inode `first`, `other` is given `second`."""

    folder: str
    one: str
    first: int
    other: str
    second: int


class Folder(NamedTuple):
    """A folder made (or, `gone`, removed) in `folder`."""

    folder: str
    path: str
    gone: bool = False


class Bytes(NamedTuple):
    """Bytes written at a place."""

    inode: int
    at: int
    data: bytes


class Cut(NamedTuple):
    """A file that became shorter."""

    inode: int
    size: int


class SyncFile(NamedTuple):
    """All of a file so far is on the device."""

    inode: int


class SyncFolder(NamedTuple):
    """All names of a folder so far are on the device."""

    folder: str


class Said(NamedTuple):
    """What the process told at this moment."""

    fact: Fact


Op = Name | Swap | Folder | Bytes | Cut | SyncFile | SyncFolder | Said


class _Open:
    """An open file description: a folder, or a file with its place."""

    def __init__(self, path: str, inode: int, *, appends: bool) -> None:
        self.path, self.inode, self.appends, self.at = path, inode, appends, 0


class Tracing:
    """What stands below `root` while legs are read one after the other; `ops` grows."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.ops: list[Op] = []
        self.names: dict[str, int] = {}
        self.sizes: dict[int, int] = {}
        self._fds: dict[int, _Open | None] = {}

    def read(self, log: Path) -> None:
        """One leg, one process with its threads; its descriptors begin anew."""
        self._fds = {}
        for call, arguments, result in _calls(log):
            if result >= 0:
                self._take(call, arguments, [_bytes(text) for text in _TEXT.findall(arguments)], result)

    def _take(self, call: str, arguments: str, texts: list[bytes], result: int) -> None:
        take = getattr(self, f"_{call}", None)
        if take is not None:
            take(arguments, texts, result)
        elif call in _CANNOT and (self._of(arguments) is not None or any(map(self._inside, map(os.fsdecode, texts)))):
            raise NotImplementedError(f"the disk model knows no {call}: {arguments[:200]}")

    def _inside(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root + "/")

    def _of(self, arguments: str) -> _Open | None:
        head = arguments.split(",", 1)[0]
        return self._fds.get(int(head)) if head.isdigit() else None

    def _path(self, arguments: str, texts: list[bytes], number: int = 0, at: int = 0) -> str:
        """The `number`-th text as a path; `at` is the argument with the folder's descriptor."""
        name = os.fsdecode(texts[number])
        parts = _TEXT.sub("T", arguments).split(", ")
        where = parts[at]
        if not name.startswith("/") and where.isdigit():
            folder = self._fds.get(int(where))
            name = f"{folder.path}/{name}" if folder is not None else name
        return os.path.normpath(name)

    def _openat(self, arguments: str, texts: list[bytes], result: int) -> None:
        path = self._path(arguments, texts)
        if not self._inside(path) and path != os.path.dirname(self.root):
            self._fds[result] = None
            return
        inode = self.names.get(path, 0)
        if not inode and "O_CREAT" in arguments:
            inode = self._new(path)
        elif inode and "O_TRUNC" in arguments and self.sizes[inode]:
            self.ops.append(Cut(inode, 0))
            self.sizes[inode] = 0
        self._fds[result] = _Open(path, inode, appends="O_APPEND" in arguments)

    def _new(self, path: str) -> int:
        inode = len(self.sizes) + 1
        self.sizes[inode], self.names[path] = 0, inode
        self.ops.append(Name(os.path.dirname(path), path, inode))
        return inode

    def _write(self, arguments: str, texts: list[bytes], result: int) -> None:
        if int(arguments.split(",", 1)[0]) == TELLS:
            self.ops.append(Said(json.loads(texts[0])))
            return
        file = self._of(arguments)
        if file is not None and file.inode:
            at = self.sizes[file.inode] if file.appends else file.at
            self._put(file, at, texts[0][:result])
            file.at = at + result

    def _pwrite64(self, arguments: str, texts: list[bytes], result: int) -> None:
        file = self._of(arguments)
        if file is not None and file.inode:
            self._put(file, int(arguments.rsplit(",", 1)[1]), texts[0][:result])

    def _put(self, file: _Open, at: int, data: bytes) -> None:
        self.ops.append(Bytes(file.inode, at, data))
        self.sizes[file.inode] = max(self.sizes[file.inode], at + len(data))

    def _read(self, arguments: str, texts: list[bytes], result: int) -> None:
        file = self._of(arguments)
        if file is not None:
            file.at += result

    def _lseek(self, arguments: str, texts: list[bytes], result: int) -> None:
        file = self._of(arguments)
        if file is not None:
            file.at = result

    def _fsync(self, arguments: str, texts: list[bytes], result: int) -> None:
        file = self._of(arguments)
        if file is not None:
            self.ops.append(SyncFile(file.inode) if file.inode else SyncFolder(file.path))

    _fdatasync = _fsync

    def _ftruncate(self, arguments: str, texts: list[bytes], result: int) -> None:
        file = self._of(arguments)
        if file is not None:
            size = int(arguments.rsplit(",", 1)[1])
            assert size <= self.sizes[file.inode], "a file that grows by a cut is not modelled"
            self.ops.append(Cut(file.inode, size))
            self.sizes[file.inode] = size

    def _mkdir(self, arguments: str, texts: list[bytes], result: int) -> None:
        self._folder(self._path(arguments, texts))

    _mkdirat = _mkdir

    def _folder(self, path: str) -> None:
        if self._inside(path):
            self.ops.append(Folder(os.path.dirname(path), path))

    def _rmdir(self, arguments: str, texts: list[bytes], result: int) -> None:
        path = self._path(arguments, texts)
        if self._inside(path):
            self.ops.append(Folder(os.path.dirname(path), path, gone=True))

    def _rename(self, arguments: str, texts: list[bytes], result: int) -> None:
        self._move(self._path(arguments, texts), self._path(arguments, texts, 1))

    def _renameat(self, arguments: str, texts: list[bytes], result: int) -> None:
        self._move(self._path(arguments, texts), self._path(arguments, texts, 1, 2))

    def _renameat2(self, arguments: str, texts: list[bytes], result: int) -> None:
        one, other = self._path(arguments, texts), self._path(arguments, texts, 1, 2)
        if "RENAME_EXCHANGE" not in arguments:
            self._move(one, other)
        elif self._inside(one):
            assert os.path.dirname(one) == os.path.dirname(other), "an exchange between folders is not modelled"
            first, second = self.names[other], self.names[one]
            self.names[one], self.names[other] = first, second
            self.ops.append(Swap(os.path.dirname(one), one, first, other, second))

    def _move(self, old: str, new: str) -> None:
        if old not in self.names:
            assert not self._inside(old), f"a folder that moves is not modelled: {old}"
            return
        assert os.path.dirname(old) == os.path.dirname(new), "a file that moves between folders is not modelled"
        inode = self.names[new] = self.names.pop(old)
        self.ops.append(Name(os.path.dirname(new), new, inode, old))

    def _link(self, arguments: str, texts: list[bytes], result: int) -> None:
        self._name(self._path(arguments, texts), self._path(arguments, texts, 1))

    def _linkat(self, arguments: str, texts: list[bytes], result: int) -> None:
        self._name(self._path(arguments, texts), self._path(arguments, texts, 1, 2))

    def _name(self, old: str, new: str) -> None:
        if old in self.names:
            inode = self.names[new] = self.names[old]
            self.ops.append(Name(os.path.dirname(new), new, inode))

    def _unlink(self, arguments: str, texts: list[bytes], result: int) -> None:
        path = self._path(arguments, texts)
        if path in self.names:
            del self.names[path]
            self.ops.append(Name(os.path.dirname(path), takes=path))

    def _unlinkat(self, arguments: str, texts: list[bytes], result: int) -> None:
        (self._rmdir if "AT_REMOVEDIR" in arguments else self._unlink)(arguments, texts, result)

    def _close(self, arguments: str, texts: list[bytes], result: int) -> None:
        self._fds.pop(int(arguments), None)

    def _dup(self, arguments: str, texts: list[bytes], result: int) -> None:
        self._fds[result] = self._of(arguments)

    _dup2 = _dup3 = _dup

    def _fcntl(self, arguments: str, texts: list[bytes], result: int) -> None:
        if "F_DUPFD" in arguments:
            self._fds[result] = self._of(arguments)


def _calls(log: Path) -> Iterator[tuple[str, str, int]]:
    """Name, arguments and result of each call, at the moment in which it returned."""
    begun: dict[str, str] = {}
    with log.open("r", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if found := _WHOLE.match(line):
                yield found[2], found[3], int(found[4])
            elif found := _BEGUN.match(line.rstrip("\n")):
                begun[found[1] or ""] = found[3]
            elif found := _GOES_ON.match(line):
                rest = found[3].removeprefix(", ")
                yield found[2], ", ".join(filter(None, (begun.pop(found[1] or "", ""), rest))), int(found[4])


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))
