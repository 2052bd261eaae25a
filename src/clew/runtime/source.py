"""Where an agent is written: the file in which a later process finds it, and what that file holds. Loads nothing."""

import hashlib
import inspect
import os
import stat
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from clew.runtime.clock import Clock
from clew.runtime.tools import Agent

SETTLED_S: Final = 0.02
KNOWN: Final = 64

Stands = tuple[int, int, int, int, int]
"""How a file stands: device, inode, size, time of content, time of change."""


class Source(msgspec.Struct, frozen=True):
    """An agent as a start records it: `FILE:NAME`, and the SHA-256 of that file; empty where there is none.

    The digest is shown, never compared.
    """

    path: str = ""
    digest: str = ""


class _Seen(NamedTuple):
    stands: Stands
    since_s: float
    digest: str = ""


class Sources:
    """The files that the agents of a home are written in; lives as long as the home.

    A file is looked at for each run. It is read again unless it stands as it did when it was read, and had stood so for
    20 ms then: within one tick of the clock a file can change and look the same. That it had is known by an earlier
    look and a clock of this process, for the times of a file may be those of another machine.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def of(self, agent: Agent, base: Path) -> Source:
        """Where an agent is found again from `base`, and what is written there: now."""
        file = _file_of(agent.body)
        stands = None if file is None else _look(file)
        if file is None or stands is None:
            return Source()
        name = getattr(agent.body, "__qualname__", agent.name)
        return Source(f"{relative(Path(file), base)}:{name}", self._digest(file, stands))

    def _digest(self, file: str, stands: Stands) -> str:
        now_s, seen = self._clock.monotonic_s(), self._seen.get(file)
        if seen is None or seen.stands != stands:
            seen = _Seen(stands, now_s)
        elif seen.digest:
            return seen.digest
        try:
            read, digest = _read(file)
        except OSError:
            return ""
        if read == stands and now_s - seen.since_s > SETTLED_S:
            seen = seen._replace(digest=digest)
        if len(self._seen) >= KNOWN:
            self._seen.clear()
        self._seen[file] = seen
        return digest


def relative(path: Path, base: Path) -> str:
    """A path as it is recorded: relative to the home's parent where it lies below it. Links are followed as of now."""
    if path == base:
        return "."
    if not (_is_real(path) and _is_real(base)):
        path, base = path.resolve(), base.resolve()
    return _below(str(path), str(base))


def _is_real(path: Path) -> bool:
    """Would `resolve` give the path itself? A look at each step; False also where it cannot be told that cheaply."""
    steps = _steps(str(path))
    try:
        return bool(steps) and not any(stat.S_ISLNK(os.lstat(step).st_mode) for step in steps)
    except OSError:
        return False


@lru_cache(maxsize=KNOWN)
def _steps(path: str) -> tuple[str, ...]:
    """The path and all folders above it but the root; none where one place has several spellings."""
    whole = Path(path)
    if sys.platform == "win32" or not whole.is_absolute() or ".." in whole.parts:
        return ()
    return tuple(str(step) for step in (whole, *whole.parents) if step != step.parent)


@lru_cache(maxsize=KNOWN)
def _below(path: str, base: str) -> str:
    """By their spelling alone."""
    whole = Path(path)
    return whole.relative_to(base).as_posix() if whole.is_relative_to(base) else whole.as_posix()


def _file_of(body: Callable[..., Any]) -> str | None:
    if inspect.isfunction(body):
        return body.__code__.co_filename
    try:
        return inspect.getsourcefile(body)
    except (TypeError, OSError):
        return None


def _look(file: str) -> Stands | None:
    """How a file stands; None where there is none, as of what was typed at a prompt."""
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return _stands(found) if stat.S_ISREG(found.st_mode) else None


def _stands(found: os.stat_result) -> Stands:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(file: str) -> tuple[Stands, str]:
    """What is in a file, as SHA-256, and how the one stood that was read."""
    with Path(file).open("rb") as opened:
        stands = _stands(os.fstat(opened.fileno()))
        return stands, hashlib.sha256(opened.read()).hexdigest()
