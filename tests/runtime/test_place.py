"""Where calls may come from: the agent's own context, and nowhere else."""

import asyncio
import contextvars
import threading
from typing import Any

import pytest

import clew
from clew.errors import Refused
from clew.runtime.place import HERE, Place, here
from tests.runtime.scene import WAYS, Scene, agent_of, paying, tool_of


def test_a_place_is_of_one_run() -> None:
    """Two runs in one process must not take each other's calls."""
    token = HERE.set(Place("r1", "plan-1"))
    try:
        with pytest.raises(Refused) as caught:
            here("r2")

        assert (Place("r1", "plan-1"), "call_outside_of_step") == (here("r1"), caught.value.code)
    finally:
        HERE.reset(token)


def test_inside_a_step_the_path_is_the_steps() -> None:
    """`plan-1.pay-1` is another call than `pay-1`."""
    place = Place("r1").inside("plan-1")

    assert Place("r1", "plan-1") == place


@pytest.mark.parametrize("way", WAYS)
def test_inside_a_tool_the_place_is_of_its_attempt(way: str) -> None:
    """A line that is logged there is found again by the effect's key."""
    scene, places = Scene(), list[Place | None]()
    pay = paying(scene, way, lambda: places.append(HERE.get()))

    def script(run: Any) -> Any:
        yield run.call(pay, order="a")

    scene.run(agent_of(way, script, pay))

    assert [Place("r1", in_tool=True, key="r1:pay-1:c1", attempt=1)] == places


def in_thread(work: Any) -> Any:
    """What a thread of the agent's own says."""
    told: list[Any] = []

    def body() -> None:
        try:
            told.append(work())
        except Refused as fault:
            told.append(fault.code)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return told[0]


def test_a_bare_thread_has_no_place_and_one_with_the_context_has() -> None:
    """A call whose step is not known could not be matched after a crash."""
    scene = Scene()
    pay = paying(scene, "plain")

    @clew.agent(tools=[pay])
    def agent(run: clew.SyncRun, prompt: str) -> list[str]:
        context = contextvars.copy_context()
        bare = in_thread(lambda: run.call(pay, "bare"))
        return [bare, in_thread(lambda: context.run(run.call, pay, "carried"))[:8]]

    result = scene.run(agent)

    assert (["call_outside_of_step", "transfer"], {"carried": 1}) == (result.output, scene.bank.orders)


def test_a_task_of_the_agent_carries_its_place() -> None:
    """Tasks copy their context: gather and task groups simply work."""
    scene = Scene()
    pay = paying(scene, "async")

    @clew.agent(tools=[pay])
    async def agent(run: clew.Run, prompt: str) -> int:
        return len(await asyncio.gather(*(run.call(pay, order) for order in "abc")))

    result = scene.run(agent)

    assert (3, 3) == (result.output, len(scene.bank.paid))


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_cannot_call_the_run_it_is_called_by(way: str) -> None:
    """A tool is one effect; a second one inside of it could not be judged alone."""
    scene, runs = Scene(), list[Any]()
    pay = paying(scene, way)

    def outer() -> str:
        try:
            runs[0].now()
        except Refused as fault:
            return fault.code
        return "let in"

    tool = tool_of(way, outer, effect="none")

    def script(run: Any) -> Any:
        runs.append(run)
        return (yield run.call(tool))

    result = scene.run(agent_of(way, script, tool, pay))

    assert "nested_call" == result.output
