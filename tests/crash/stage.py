"""A folder on which one disk state after another is laid out, changing only what differs. What it means is not known.

A home's own file says which inode it is, so it is written anew for the inode that it gets here, as on the disk that
the state stands for it would have kept its own.
"""

import os
import shutil
from pathlib import Path

from clew.disk.origin import origin_of
from clew.stores.homefile import NAME, HomeText
from clew.stores.published import decode, encode
from tests.crash.states import State

_Seen = tuple[int, int, int]


class Stage:
    """`root` is where the states' own root is laid out. Lives for one sweep."""

    def __init__(self, root: Path, theirs: Path, contents: dict[bytes, bytes]) -> None:
        self.root = root
        self._theirs = str(theirs)
        self._contents = contents
        self._laid: dict[str, tuple[bytes, _Seen]] = {}

    def lay(self, state: State) -> None:
        """Make the folder hold this state and nothing else."""
        folders = {self._here(path) for path in state.folders}
        files = {self._here(path): digest for path, digest in state.files}
        self._clear(folders, files)
        for folder in sorted(folders):
            if not os.path.isdir(folder):
                os.mkdir(folder, 0o700)
        for path, digest in files.items():
            if path not in self._laid:
                self._write(path, digest)

    def _here(self, path: str) -> str:
        return str(self.root) + path[len(self._theirs) :]

    def _clear(self, folders: set[str], files: dict[str, bytes]) -> None:
        """Take away what is not part of it, or is not any more what was laid out."""
        for folder, below, names in os.walk(self.root):
            for name in names:
                path = f"{folder}/{name}"
                laid = self._laid.get(path)
                if laid is None or laid[0] != files.get(path) or laid[1] != _seen(path):
                    self._laid.pop(path, None)
                    os.unlink(path)
            for name in [name for name in below if f"{folder}/{name}" not in folders]:
                shutil.rmtree(f"{folder}/{name}")
                below.remove(name)
        if not folders:
            shutil.rmtree(self.root, ignore_errors=True)
        self._laid = {path: laid for path, laid in self._laid.items() if path in files and os.path.exists(path)}

    def _write(self, path: str, digest: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(fd, _own(self._contents[digest], fd, Path(path)))
        finally:
            os.close(fd)
        self._laid[path] = digest, _seen(path)


def _seen(path: str) -> _Seen:
    found = os.lstat(path)
    return found.st_ino, found.st_mtime_ns, found.st_size


def _own(data: bytes, fd: int, path: Path) -> bytes:
    if path.name != NAME:
        return data
    try:
        text = decode(data, HomeText)
    except ValueError:
        return data
    return encode(HomeText(text.layout, *origin_of(fd, path), text.unlocked)) + b"\n"
