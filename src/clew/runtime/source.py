"""Where an agent is written: the file in which a later process finds it, and what that file holds. Loads nothing."""

import hashlib
import inspect
import stat
import weakref
from collections.abc import Callable
from functools import lru_cache
from os import stat_result
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.runtime.tools import Agent

_FILES: Final[weakref.WeakKeyDictionary[Callable[..., Any], Path]] = weakref.WeakKeyDictionary()
_KNOWN: Final = 64


class Source(msgspec.Struct, frozen=True):
    """An agent as a start records it: `FILE:NAME`, and the SHA-256 of that file; empty where there is none.

    The digest is shown, never compared.
    """

    path: str = ""
    digest: str = ""


def source_of(agent: Agent, base: Path) -> Source:
    """Where an agent is found again from `base`, looked up now: one look at its file, which is read when it changed."""
    file = _file_of(agent.body)
    found = None if file is None else _look(file)
    if file is None or found is None or not stat.S_ISREG(found.st_mode):
        return Source()
    name = getattr(agent.body, "__qualname__", agent.name)
    return Source(f"{_relative(file, found, base)}:{name}", _digest(file, found))


def relative(path: Path, base: Path) -> str:
    """A path as it is recorded: relative to the home's parent where it lies below it."""
    return "." if path == base else _relative(path, _look(path), base)


def _file_of(body: Callable[..., Any]) -> Path | None:
    """The file that a function was written in, found once for each."""
    if not inspect.isfunction(body):
        return _found(body)
    file = _FILES.get(body) or _found(body)
    if file is not None:
        _FILES[body] = file
    return file


def _found(body: Callable[..., Any]) -> Path | None:
    try:
        name = inspect.getsourcefile(body)
    except (TypeError, OSError):
        return None
    return None if name is None else Path(name)


def _look(path: Path) -> stat_result | None:
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def _relative(path: Path, found: stat_result | None, base: Path) -> str:
    """Links are followed once for as long as both names lead to the same file and folder."""
    ground = _look(base)
    if found is None or ground is None:
        return _resolved(path, base)
    return _resolved_once(path, (found.st_dev, found.st_ino), base, (ground.st_dev, ground.st_ino))


@lru_cache(maxsize=_KNOWN)
def _resolved_once(path: Path, file: tuple[int, int], base: Path, folder: tuple[int, int]) -> str:
    del file, folder
    return _resolved(path, base)


def _resolved(path: Path, base: Path) -> str:
    real = path.resolve()
    try:
        return real.relative_to(base.resolve()).as_posix()
    except ValueError:
        return real.as_posix()


def _digest(path: Path, found: stat_result) -> str:
    try:
        return _digest_of(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    except OSError:
        return ""


@lru_cache(maxsize=_KNOWN)
def _digest_of(path: Path, *stands: int) -> str:
    """Read once for as long as the file stands as it did."""
    del stands
    return hashlib.sha256(path.read_bytes()).hexdigest()
