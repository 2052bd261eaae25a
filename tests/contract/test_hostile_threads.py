"""A container that lets no process or thread more begin: all that was acknowledged stands, nothing starts in doubt."""

import asyncio
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import clew
from clew.runtime import looping
from clew.runtime.control import POLL_S
from clew.runtime.lookout import Lookout
from tests.house.tree import ROOT
from tests.runtime.scene import RUN, Forest, Scene, agent_of, paying, start
from tests.threadless import no_threads, none_starts

WHOLE = """
import asyncio, sys
import clew
from tests.threadless import no_threads, none_starts
@clew.tool(effect="external")
async def pay(order: str) -> str:
    return order
@clew.agent(tools=[pay], name="orders")
async def orders(run, prompt):
    return [await run.call(pay, order=order) for order in "ab"]
with no_threads():
    assert none_starts()
    result = asyncio.run(clew.Home(sys.argv[1]).run(orders, run_id="orders-1"))
print(result.operation.state, result.output)
"""


def limited(scene: Scene, way: str) -> tuple[clew.Agent, list[str]]:
    """An agent that pays, and tells what it met; the tool needs a thread for its time is limited, or a loop runs."""
    met: list[str] = []

    @clew.tool(effect="external", timeout_s=60)
    def pay(call: clew.Call, order: str) -> str:
        return scene.bank.pay(call, order)

    def script(run: Any) -> Any:
        try:
            yield run.call(pay, order="a")
        except clew.ToolError as fault:
            met.append(str(fault))
        return "went on"

    return agent_of(way, script, pay), met


def test_no_thread_starts_here() -> None:
    """Else all below would prove nothing."""
    with no_threads():
        inside = none_starts()

    assert (True, False) == (inside, none_starts())


def test_a_run_needs_no_thread(tmp_path: Path) -> None:
    """An async agent with async tools: its event loop does what the threads would have done."""
    done = subprocess.run(
        [sys.executable, "-c", WHOLE, str(tmp_path / ".clew")], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip

    assert ("completed ['a', 'b']\n", "") == (done.stdout, done.stderr)


def test_without_a_lookout_the_leg_looks_into_its_inbox_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would ring, so an abort would be heard of when the agent has ended."""
    monkeypatch.setattr(looping, "LOOKOUT", Lookout())
    control: Any = SimpleNamespace(knocked=bool, gate=SimpleNamespace(store=SimpleNamespace(boundary="process")))
    with no_threads(), looping._heard(control, lambda: None) as alone:
        pass
    with looping._heard(control, lambda: None) as rung:
        pass

    assert (POLL_S, None) == (alone, rung)


@pytest.mark.parametrize("way", ["thread", "plain"])
def test_a_tool_that_gets_no_thread_has_done_nothing(way: str) -> None:
    """It is told to the agent as an error, for it is known: the body was not begun."""
    scene = Scene()
    agent, met = limited(scene, way)
    with no_threads():
        result = scene.run(agent)

    assert ("completed", "went on", 0) == (result.operation.state, result.output, len(scene.bank.paid))
    assert ["can't start new thread: too many processes or threads, or too little memory"] == met


@pytest.mark.parametrize("way", ["async", "plain"])
def test_a_probe_that_gets_no_thread_cannot_tell(way: str) -> None:
    """Nobody has asked the bank: the payment stays unknown, and is not repeated."""
    scene = Scene()

    def fails(call: clew.Call, order: str) -> str:
        scene.bank.pay(call, order)
        raise ConnectionError("no answer")

    async def fails_on_the_loop(call: clew.Call, order: str) -> str:
        return fails(call, order)

    declared = clew.tool(name="pay", effect="external", probe=scene.bank.find, in_doubt_s=0)
    pay = declared(fails if way == "plain" else fails_on_the_loop)

    def script(run: Any) -> Any:
        yield run.call(pay, order="a")

    with no_threads():
        result = scene.run(agent_of(way, script, pay))

    assert ("paused", "unknown_effect") == (result.operation.state, result.reason)
    assert 1 == len(scene.bank.paid)


def test_a_plain_agent_on_a_loop_that_gets_no_thread_is_not_called() -> None:
    """It stands as it was born, and goes on when there are threads again."""
    scene = Scene()
    agent, _ = limited(scene, "plain")
    with no_threads(), pytest.raises(clew.Storage) as caught:
        asyncio.run(scene.home().run(agent, "go", run_id=RUN))
    resumed = scene.resume(agent)

    assert ("no_thread", "completed", 1) == (caught.value.code, resumed.operation.state, len(scene.bank.paid))


def test_calls_side_by_side_follow_each_other() -> None:
    """A plain group wants a thread a call."""
    scene = Scene()

    @clew.tool(effect="external")
    def pay(call: clew.Call, order: str) -> str:
        return scene.bank.pay(call, order)

    def orders(run: clew.SyncRun, prompt: Any) -> Any:
        with run.group() as group:
            told = [group.call(pay, order=order) for order in "abc"]
        return [each.result() for each in told]

    with no_threads():
        result = scene.run(clew.agent(tools=[pay])(orders))

    assert ("completed", ["a", "b", "c"]) == (result.operation.state, list(scene.bank.orders))


def test_a_child_that_gets_no_thread_pauses_its_parent() -> None:
    """Its leg is over, and both go on when there are threads again."""
    scene = Forest()
    worker, _ = limited(scene, "plain")
    worker.name = "worker"

    def script(run: Any) -> Any:
        told = yield run.child(worker)
        return told

    boss = agent_of("plain", script)
    with no_threads():
        stays = start(scene.home(), boss)
    goes_on = scene.resume(boss)

    assert ("paused", "completed", 1) == (stays.operation.state, goes_on.operation.state, len(scene.bank.paid))


@pytest.mark.parametrize("way", ["async", "plain"])
def test_a_question_that_gets_no_thread_waits(way: str) -> None:
    """Nobody was asked, so nobody has agreed."""
    scene = Scene()

    def script(run: Any) -> Any:
        yield run.propose(paying(scene, way), order="a")

    with no_threads():
        result = scene.run(agent_of(way, script), approver=lambda request: clew.Approve("ann", "looked"))

    assert ("approval_required", 0) == (result.reason, len(scene.bank.paid))


@pytest.mark.parametrize("way", ["async", "plain"])
def test_an_extension_that_gets_no_thread_has_failed(way: str) -> None:
    """One that might have forbidden it was not heard, so nothing starts."""
    paid = list[str]()
    forbids = clew.Extension("guard", "1.0", before_tool=lambda context: None)
    home = clew.Home.memory(extensions=[forbids], trusted={"guard": []})

    @clew.tool(effect="external")
    async def pay(order: str) -> str:
        paid.append(order)
        return order

    def script(run: Any) -> Any:
        yield run.call(pay, order="a")

    with no_threads():
        result = start(home, agent_of(way, script, pay))

    assert ("paused", []) == (result.operation.state, paid)
