"""The end of what an aborted run still does: ended where it can be, waited for where not, and named."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.needs import Closing
from clew.core.state import RunState
from clew.runtime.living import running
from clew.runtime.stilling import PATIENCE_S, outlast, still
from clew.testing.clock import SetClock
from tests.disk.living import lives
from tests.runtime.stage import RUN, WHO, events_of, mortal_home


class Machine:
    """Processes as they are said to be; `left` could not be ended."""

    def __init__(self, left: dict[str, str], marked: dict[str, str]) -> None:
        self.left, self.marked = left, marked
        self.asked: list[tuple[str, list[str]]] = []

    def end(self, run_id: str, legs: Any) -> dict[str, str]:
        self.asked.append((run_id, list(legs)))
        return self.left

    def living(self, run_id: str) -> dict[str, str]:
        return self.marked

    def run(self, order: Any, stop: Any) -> Any:
        raise AssertionError(order)

    def adopting(self) -> Any:
        raise AssertionError


def test_what_goes_on_all_the_same_is_named() -> None:
    """What could not be ended, what nobody may end on a guess, and a body in a thread: of this run alone."""
    machine = Machine({"r1:a-1:c1#1": "pid 7"}, {"r1:a-1:c1#1": "pid 7, pid 8", "r1:b-1:c2#1": "pid 9"})
    with running("r1:c-1:c3", 1), running("r2:c-1:c3", 1):
        found = still(machine, RunState("r1"))

    assert {
        "r1:a-1:c1#1": "pid 7",
        "r1:b-1:c2#1": "pid 9",
        "r1:c-1:c3#1": "its body still runs in this process",
    } == found


def test_bodies_are_waited_for_when_the_processes_have_ended() -> None:
    """A thread that waits for its process comes back by itself then, and what it knows is told."""
    machine = Machine({}, {})
    asked: list[int] = []
    still(machine, RunState("r1"), wait=lambda: asked.append(len(machine.asked)))

    assert [1] == asked


@pytest.mark.parametrize(("ends_after", "waited"), [(0, 0), (3, 3)])
def test_what_ends_by_itself_is_waited_for(ends_after: int, waited: int) -> None:
    """Not longer than it takes."""
    clock = SetClock()
    outlast(lambda: len(clock.slept) < ends_after, clock)

    assert waited == len(clock.slept)


def test_nobody_waits_for_ever() -> None:
    """Contract #103: behind its patience an abort only says that it waited."""
    clock = SetClock()
    outlast(lambda: True, clock)

    assert PATIENCE_S == pytest.approx(clock.monotonic_s(), abs=0.1)


def test_who_is_in_a_hurry_waits_no_more() -> None:
    """Ctrl-C a third time."""
    clock = SetClock()
    outlast(lambda: True, clock, lambda: len(clock.slept) > 2)

    assert 3 == len(clock.slept)


@contextmanager
def deaf() -> Iterator[threading.Event]:
    """A body in a thread that hears nothing until it is let go."""
    go = threading.Event()
    try:
        yield go
    finally:
        go.set()


def aborted_in(body: Callable[..., Any], **declared: Any) -> clew.Home:
    """A run of an async agent that was aborted while this plain tool ran in its thread."""
    home, _ = mortal_home()
    begun = threading.Event()

    def tool_body(call: clew.Call) -> Any:
        begun.set()
        return body(call)

    async def agent(run: clew.Run, prompt: Any) -> Any:
        call = asyncio.ensure_future(run.call(clew.Tool(tool_body, name="work", effect="external", **declared)))
        while not begun.is_set():
            await asyncio.sleep(0)
        run._gate.aborting = "by ann: enough"
        run._gate.close(Closing("aborted"))
        return await call

    result = home.run_sync(agent, run_id=RUN)
    assert ("failed", "aborted") == (result.operation.state, result.reason)
    return home


def test_a_thread_that_does_not_come_back_is_named_and_its_effect_stays_unknown() -> None:
    """Contract #103, W19: how long was waited stands in the journal, and what may still land."""
    with deaf() as go:
        home = aborted_in(lambda call: go.wait())
        row = home.reader.row(RUN)

    assert [round(PATIENCE_S * 1000)] == [event["timeoutMs"] for event in events_of(home, "quiescence_timeout")]
    assert f"{RUN}:work-1:c1#1: its body still runs in this process" in row["message"]
    assert ["unknown"] == [effect["status"] for effect in home.result(RUN).waiting]


def test_a_thread_that_hears_that_it_is_called_off_tells_what_it_did() -> None:
    """A tool that listens is given its moment: nothing is unknown, and nothing is left."""

    def listens(call: clew.Call) -> str:
        while not call.called_off:
            pass
        return "undone"

    home = aborted_in(listens)

    assert ([], [], "") == (
        home.result(RUN).waiting, events_of(home, "quiescence_timeout"), home.reader.row(RUN)["message"],
    )  # fmt: skip


CHILD = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").close()
while True:
    time.sleep(60)
"""
LEAKS = """
import subprocess, sys, threading
from pathlib import Path
import clew
@clew.tool(effect="external")
def leak(call: clew.Call):
    process = subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[3]], env=call.environment())
    while not Path(sys.argv[3]).exists():
        pass
    print(process.pid, flush=True)
    process.wait()
@clew.agent(tools=[leak], name="orders")
async def orders(run, prompt):
    await run.call(leak)
result = clew.Home(sys.argv[1]).run_sync(orders, run_id="orders-1")
print(result.operation.state, result.reason, flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in procfs")
def test_a_run_is_aborting_until_the_end_of_a_deaf_child_is_proven(tmp_path: Path) -> None:
    """C45: "aborted" is not said while the tool's child runs on; it is told, and then it is killed."""
    home = clew.Home(tmp_path / ".clew")
    said = [sys.executable, "-c", LEAKS, str(tmp_path / ".clew"), CHILD, str(tmp_path / "up")]
    with subprocess.Popen(said, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        home.abort(RUN, **WHO)
        told = [(home.result(RUN).operation.state, lives(pid))]
        while told[-1][0] == "aborting":
            told.append((home.result(RUN).operation.state, lives(pid)))
        ended = process.stdout.readline()

    assert ("failed aborted\n", ("failed", False)) == (ended, told[-1])
    assert "" == home.reader.row(RUN)["message"]
    assert ["unknown"] == [effect["status"] for effect in home.result(RUN).waiting]
