"""Real processes that the test starts, stops and kills itself; interrupts at any bytecode; calls of the system."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any


class Living:
    """A process that runs a piece of Python and waits where it reads from its input."""

    def __init__(self, code: str, *arguments: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def says(self) -> str:
        """Its next line; waits for it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def go_on(self) -> None:
        """Let it go on behind its next read."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """SIGSTOP, and wait until the kernel says that it is stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self.process.kill()
        self.process.wait()

    def ends(self) -> int:
        """Its exit code; waits for it."""
        return self.process.wait()


@contextmanager
def living(code: str, *arguments: Any) -> Iterator[Living]:
    """A process that is gone when the test is over, whatever happened."""
    started = Living(code, *arguments)
    try:
        yield started
    finally:
        started.kill()
        for pipe in (started.process.stdin, started.process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def orphan(**environment: str) -> Iterator[int]:
    """A process with this environment that descends from nobody here: it has lost its parent. Yields its number."""
    started = subprocess.run(
        ["setsid", "sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"],
        env={**os.environ, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    pid = int(started.stdout)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def lives(pid: int) -> bool:
    """Does it live? One that has died and is not taken in yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def output_of(code: str, *arguments: Any) -> list[str]:
    """The lines that a piece of Python prints in a process of its own, which must end well."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def interrupted_at(
    nth: int, modules: Sequence[ModuleType], deed: Callable[..., Any], *given: Any, **named: Any
) -> bool:
    """Do it with a KeyboardInterrupt at the nth bytecode of the modules' functions; False when there were fewer."""
    left, files = nth, [module.__file__ for module in modules]

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        deed(*given, **named)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


CALLS = ("flock", "write", "fsync", "fdatasync", "ftruncate", "posix_fadvise", "mkdir", "link", "unlink", "replace")


def calls_of(deed: Callable[..., Any], *given: Any, **named: Any) -> list[str]:
    """What it asks of the system to change or to sync, in order. The order is what a power cut is survived by."""
    calls = []

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ in CALLS and called.__module__ in ("posix", "fcntl"):
            calls.append(called.__name__)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        deed(*given, **named)
    finally:
        sys.setprofile(before)
    return calls


HOLDER = """
import sys
from pathlib import Path
from clew.disk.append import AppendFile
file = AppendFile.open(Path(sys.argv[1]), wait_s=0.0)
print("held" if file else "refused", flush=True)
sys.stdin.readline()
"""
