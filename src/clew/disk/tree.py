"""Folders that belong to a user: where a path really leads, what stands there, what lies in a folder, new folders."""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from clew.disk.failures import failure
from clew.disk.files import is_link

Kind = Literal["file", "folder", "link", "other"]


def real(path: Path) -> Path:
    """The absolute path with every link followed as far as there are any; what does not exist stays as it is.

    Raises:
        ValueError: no file can have this path.
    """
    if "\0" in str(path):
        raise ValueError("it has a NUL in it")
    _check_spelled(path)
    return Path(os.path.realpath(path))


def real_bytes(path: Path) -> Path:
    """As `real`, also for names that are not UTF-8, which are text with surrogate escapes.

    Raises:
        ValueError: no file can have this path.
    """
    return real(path) if sys.platform == "win32" else Path(os.fsdecode(os.path.realpath(os.fsencode(path))))


def kind_of(path: Path) -> Kind | None:
    """What stands at a path, itself and not what a link leads to; None when there is nothing."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "link"
        raise failure(error, path, "look at") from error
    return "link" if is_link(path) else _kind(mode)


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def entries(folder: Path) -> list[tuple[str, Kind]]:
    """Names and kinds in a folder, by the code points of the names; what vanishes meanwhile is left out."""
    try:
        with os.scandir(folder) as found:
            names = sorted(entry.name for entry in found)
    except OSError as error:
        raise failure(error, folder, "list") from error
    kinds = ((name, kind_of(folder / name)) for name in names)
    return [(name, kind) for name, kind in kinds if kind is not None]


class Entry(NamedTuple):
    """Something below a folder: where, what, its mode and length; `denied` is a folder that cannot be looked into."""

    path: Path
    kind: Kind | Literal["denied"]
    mode: int
    size_bytes: int = 0


def walk(root: Path) -> Iterator[Entry]:
    """Everything below a folder, links not followed, folder by folder; what vanishes meanwhile is left out."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as found:
                names = sorted(entry.name for entry in found)
        except FileNotFoundError:
            continue
        except OSError:
            yield Entry(folder, "denied", 0)
            continue
        for path in (folder / name for name in names):
            entry = _entry(path)
            if entry is not None:
                yield entry
                if entry.kind == "folder":
                    waiting.append(path)


def _entry(path: Path) -> Entry | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return Entry(path, "link" if is_link(path) else _kind(found.st_mode), found.st_mode, found.st_size)


if sys.platform == "win32":

    def _check_spelled(path: Path) -> None:
        for part in path.parts[1:]:
            if ":" in part or Path(part).is_reserved():
                raise ValueError(f"{part!r} names a device or a stream")

else:

    def _check_spelled(path: Path) -> None:
        os.fspath(path).encode()
