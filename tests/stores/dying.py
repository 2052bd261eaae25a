"""Processes that are really killed at a file operation that was named; and strangers who strike between two of them."""

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clew.disk import anchor, files

CHANGING = (
    "open", "write", "fsync", "ftruncate", "fchmod", "fchown", "chmod", "mkdir", "rmdir", "unlink", "link", "symlink",
    "rename", "replace",
)  # fmt: skip


LOOKING = ("stat", "lstat", "readlink", "listdir", "scandir")


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder whose syncs cost nothing, where the machine has one: a sweep is about the order of deeds."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder).resolve()


class Counter:
    """Calls `strike` before the n-th operation on files; with `half`, in the middle of it if it is a write.

    With `looks`, what only looks is an operation too.
    """

    def __init__(self, at: int, strike: Callable[[], object], *, half: bool = False, looks: bool = False) -> None:
        self.at = at
        self.count = 0
        self._strike = strike
        self._half = half
        self._real: dict[str, Any] = {name: getattr(os, name) for name in (*CHANGING, *(LOOKING if looks else ()))}
        self._rename = anchor._rename

    def install(self) -> None:
        """From now on every operation is counted."""
        for name in self._real:
            setattr(os, name, self._counting(name))
        anchor._rename = self._counted(self._rename)

    def remove(self) -> None:
        """As before."""
        for name, real in self._real.items():
            setattr(os, name, real)
        anchor._rename = self._rename

    def _counting(self, name: str) -> Callable[..., Any]:
        counted = self._counted(self._real[name])

        def write(fd: int, data: Any) -> int:
            self.count += 1
            if self.count == self.at:
                self._real["write"](fd, bytes(data)[: len(data) // 2])
                self._strike()
            return int(self._real["write"](fd, data))

        return write if name == "write" and self._half else counted

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def deed(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                self._strike()
            return real(*args, **kwargs)

        return deed


def die_at(at: int, deed: Callable[[], object], *, half: bool = False) -> bool:
    """Do it in a forked child that is killed at its n-th operation; False when it came to its end before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        try:
            signal.alarm(60)
            Counter(at, lambda: os.kill(os.getpid(), signal.SIGKILL), half=half).install()
            deed()
        except BaseException:
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def as_nobody(deed: Callable[[], bool]) -> bool:
    """What it says in a process of an ordinary user; its folders must be open to everybody."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os._exit(0 if deed() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


NOBODY = 65534


def without_exchange(*args: Any) -> bool:
    """`renameat2` of a machine that knows only how not to replace."""
    folder, name, there, to, kind = args
    return False if kind == anchor._EXCHANGE else _RENAME(folder, name, there, to, kind)


_RENAME = anchor._rename
is_temp = files.is_temp
