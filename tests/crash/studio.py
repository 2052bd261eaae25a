"""A process that forks the legs of a work, has them traced or struck by strace, and tells how they ended.

    python -m tests.crash.studio

Imports are paid once: each leg is a fork that waits until strace has hold of it. A line of JSON in, a line out.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from clew.errors import ClewError
from tests.crash.inside import struck
from tests.crash.telling import Fact, Tell
from tests.crash.works import WORKS

STRACE = shutil.which("strace")
PATIENCE_S = 20
_LET_TRACE, _ANYBODY = 0x59616D61, 0xFFFFFFFFFFFFFFFF
TELLS = 100
"""The descriptor on which a leg tells; a trace knows its lines by it."""


def can_trace() -> bool:
    """Is strace here, and may it trace?"""
    if STRACE is None or sys.platform != "linux":
        return False
    return (
        subprocess.run([STRACE, "-o", os.devnull, "true"], check=False, capture_output=True, timeout=60).returncode == 0
    )


class Ended(NamedTuple):
    """How a leg ended: `ok`, the code of a `ClewError`, `raw` for any other exception, `killed`, `hung` or `died`."""

    how: str
    text: str
    said: list[Fact]


class Studio:
    """The other end of the studio's pipes. Lives for a module of tests."""

    def __init__(self) -> None:
        here = Path(__file__).parents[2]
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "tests.crash.studio"]
        self.process = subprocess.Popen(command, cwd=here, stdin=pipe, stdout=pipe, text=True)

    def leg(
        self, work: str, leg: str, root: Path, strace: Sequence[str] | None = None, inside: Sequence[Any] = ()
    ) -> Ended:
        """One leg in a process of its own, with these options of strace if any, or a fault `inside` it by its name."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"work": work, "leg": leg, "root": str(root), "strace": strace, "inside": inside}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return Ended(*json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        """End it."""
        self.process.communicate(timeout=30)


@contextlib.contextmanager
def studio() -> Iterator[Studio]:
    """A studio for as long as it is needed."""
    made = Studio()
    try:
        yield made
    finally:
        made.close()


def _play(asked: dict[str, Any]) -> Ended:
    gate, go = os.pipe()
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)
        os.close(heard)
        _perform(asked, gate, told)
    os.close(gate)
    os.close(told)
    tracer = _attached(pid, asked["strace"])
    os.write(go, b"x")
    os.close(go)
    said = _listen(heard, pid)
    status = os.waitpid(pid, 0)[1]
    if tracer is not None:
        tracer.communicate(timeout=PATIENCE_S)
    return _ended(said, status)


def _perform(asked: dict[str, Any], gate: int, told: int) -> None:
    """In the fork: wait for the tracer, do the deed, tell its end, and be gone without any cleaning up."""
    os.dup2(told, TELLS)
    os.close(told)
    # Where only a parent may trace, the tracer, which is a brother, must be let in.
    ctypes.CDLL(None).prctl(_LET_TRACE, ctypes.c_ulong(_ANYBODY), 0, 0, 0)
    tell, code = Tell(TELLS), 0
    if asked["inside"]:
        how, number = asked["inside"]
        tell.strike = partial(struck, how, number, tell)
    os.read(gate, 1)
    os.close(gate)
    try:
        text = WORKS[asked["work"]].perform(asked["leg"], Path(asked["root"]), tell)
        end = ("ok", text)
    except ClewError as fault:
        end, code = (fault.code, fault.message), 3
    except BaseException as fault:
        end, code = ("raw", "".join(traceback.format_exception(fault))), 4
    try:
        tell.kept("end", *end)
    finally:
        os._exit(code)


def _attached(pid: int, options: Sequence[str] | None) -> "subprocess.Popen[bytes] | None":
    if options is None:
        return None
    assert STRACE is not None
    tracer = subprocess.Popen([STRACE, "-p", str(pid), *options], stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    line = tracer.stderr.readline()
    assert b"attached" in line, line
    return tracer


def _listen(heard: int, pid: int) -> list[Fact]:
    """What a leg tells until its pipe closes; one that says nothing more for too long is ended."""
    signal.signal(signal.SIGALRM, lambda number, frame: os.kill(pid, signal.SIGKILL))
    signal.alarm(PATIENCE_S)
    with os.fdopen(heard, "rb") as lines:
        said = [json.loads(line) for line in lines.read().splitlines()]
    if signal.alarm(0) == 0:
        said.append(["kept", "end", "hung", ""])
    return said


def _ended(said: list[Fact], status: int) -> Ended:
    if said and said[-1][1] == "end":
        return Ended(said[-1][2], said[-1][3], said[:-1])
    if os.WIFSIGNALED(status):
        return Ended("killed", "", said)
    code = os.waitstatus_to_exitcode(status)
    return Ended({0: "ok", 3: "untold", 4: "raw"}.get(code, "died"), "", said)


def main() -> None:
    """Serve until the pipe closes."""
    for line in sys.stdin:
        print(json.dumps(_play(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
