"""A real process whose system calls fail or kill it, one at a time, by strace. What the process does is given."""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

FILE_CALLS = (
    "openat", "read", "pread64", "write", "fsync", "fdatasync", "rename", "renameat", "renameat2", "link", "unlink",
    "flock", "close", "fstat", "newfstatat", "ftruncate", "mkdir", "getdents64", "fadvise64",
)  # fmt: skip
ERRORS = ("ENOSPC", "EIO", "EACCES")
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\(")


class Strike(NamedTuple):
    """The n-th call of a kind, and what becomes of it: an error, or `kill`."""

    call: str
    number: int
    how: str

    def __str__(self) -> str:
        return f"{self.call}-{self.number}-{self.how}"

    @property
    def option(self) -> str:
        what = "signal=SIGKILL" if self.how == "kill" else f"error={self.how}"
        return f"inject={self.call}:{what}:when={self.number}"


def strikes(deed: Callable[[], object], calls: tuple[str, ...] = FILE_CALLS) -> list[Strike]:
    """Everything that may strike a deed, in the order in which it calls the system."""
    counted = dict.fromkeys(calls, 0)
    found = []
    for call in calls_of(deed, calls):
        counted[call] += 1
        found += [Strike(call, counted[call], how) for how in ("kill", *ERRORS)]
    return found


def calls_of(deed: Callable[[], object], calls: tuple[str, ...] = FILE_CALLS) -> list[str]:
    """The names of the system calls that a deed makes, in order; it must end well."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        code = traced(deed, "-e", f"trace={','.join(calls)}", "-o", str(trace))
        assert code == 0, f"the deed itself failed with {code}"
        lines = trace.read_text().splitlines()
    return [found[1] for line in lines if (found := _CALL.match(line))]


def struck(deed: Callable[[], object], strike: Strike) -> int:
    """Do it in a process of its own and strike it; its exit code, negative for a signal."""
    return traced(deed, "-e", f"trace={strike.call}", "-e", strike.option, "-o", os.devnull)


def traced(deed: Callable[[], object], *options: str) -> int:
    """Fork, let strace take hold of the child while it waits, then let it do the deed; its exit code."""
    waits, go = os.pipe()
    child = os.fork()
    if child == 0:
        _as_child(waits, deed)
    os.close(waits)
    tracer = subprocess.Popen(["strace", "-p", str(child), *options], stderr=subprocess.PIPE, text=True)
    try:
        said = tracer.stderr.readline() if tracer.stderr else ""
        if "attached" not in said:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.skip(f"strace cannot take hold of a process here: {said.strip()}")
        os.write(go, b"g")
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(go)
        tracer.wait(timeout=60)
        if tracer.stderr:
            tracer.stderr.close()


def _as_child(waits: int, deed: Callable[[], object]) -> None:
    """Wait by a call that is never struck, do it, and leave without anything of the parent's."""
    code = 1
    try:
        select.select([waits], [], [])
        deed()
        code = 0
    except BaseException as fault:  # whatever it is, it is how the deed ended
        code = getattr(fault, "exit_code", 99)
    finally:
        os._exit(code)


needs_strace = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("strace") is None, reason="strace strikes system calls on Linux only"
)


def every(found: list[Strike], step: int) -> Iterator[Strike]:
    """Every so many of them, each kind of strike in its turn."""
    yield from found[:: step + 1 if step % 4 == 0 else step]
