"""Calls side by side: in call order, each judged alone, replayed, cancelled. Single calls are in test_run."""

import asyncio
from typing import Any

import pytest

import clew
from clew.errors import UsageError
from clew.testing.crash import CrashPoint
from tests.runtime.scene import RUN, WAYS, Scene, paying, tool_of
from tests.runtime.test_drivers import crash

ways = pytest.mark.parametrize("way", WAYS)


def bug() -> None:
    raise LookupError("a bug")


def grouped(way: str, fill: Any, *tools: clew.Tool) -> clew.Agent:
    """An agent whose calls run side by side."""
    if way == "plain":

        def plain(run: clew.SyncRun, prompt: str) -> Any:
            with run.group() as group:
                fill(group)
            return group.results

        return clew.Agent(plain, name="agent", tools=tools)

    async def agent(run: clew.Run, prompt: str) -> Any:
        async with run.group() as group:
            fill(group)
        return group.results

    return clew.Agent(agent, name="agent", tools=tools)


@ways
def test_a_group_answers_in_call_order_and_replays(way: str) -> None:
    """Whichever ends first; its calls are named below the group."""
    scene = Scene()
    pay = paying(scene, way)

    def fill(group: Any) -> None:
        for order in "abc":
            group.call(pay, order)

    result = scene.run(grouped(way, fill, pay))

    keys = [f"{RUN}:group-1.pay-{n}:c{n}" for n in (1, 2, 3)]
    assert [f"transfer-{clew.Call(key).short}" for key in keys] == result.output
    assert sorted(keys) == sorted(scene.bank.paid)


@ways
def test_a_group_that_died_pays_only_what_was_not_paid(way: str) -> None:
    """Each call is judged alone after a death as well."""
    for at_append in range(1, 7):
        scene = Scene()
        pay = paying(scene, way, probe=scene.bank.find, in_doubt_s=0)

        def fill(group: Any, pay: Any = pay) -> None:
            for order in "abc":
                group.call(pay, order)

        agent = grouped(way, fill, pay)
        crash(scene, agent, CrashPoint(at_append, 0))
        result = scene.resume(agent)

        assert ("completed", {"a": 1, "b": 1, "c": 1}) == (result.operation.state, scene.bank.orders), at_append


@ways
def test_a_call_that_a_group_refused_leaves_no_gap(way: str) -> None:
    """Arguments that do not fit are the agent's to mend; the results are those of the calls that were let in."""
    scene = Scene()
    pay = paying(scene, way)

    def fill(group: Any) -> None:
        with pytest.raises(UsageError):
            group.call(pay, object())
        group.call(pay, "a")

    result = scene.run(grouped(way, fill, pay))

    assert (1, {"a": 1}) == (len(result.output), scene.bank.orders)


@ways
def test_a_handle_tells_its_own_answer_or_error(way: str) -> None:
    """`results` raises the first error; a handle knows its own."""
    scene, told = Scene(), []

    def pay(order: str) -> str:
        if order == "bad":
            raise clew.NothingHappened("declined")
        return order

    tool = tool_of(way, pay, effect="external")
    handles: list[Any] = []

    def fill(group: Any) -> None:
        handles[:] = [group.call(tool, order) for order in ("bad", "good")]

    result = scene.run(grouped(way, fill, tool))
    for handle in handles:
        try:
            told.append(handle.result())
        except clew.ToolError as fault:
            told.append(fault.message)

    assert (["declined", "good"], "agent_error") == (told, result.reason)


def test_a_cancelled_group_cancels_its_calls_and_waits_for_their_records() -> None:
    """None of them goes on behind the agent's back."""
    scene, moved = Scene(), asyncio.Event()

    @clew.tool(effect="external")
    async def pay(call: clew.Call, order: str) -> None:
        scene.bank.pay(call, order)
        if len(scene.bank.paid) == 3:
            moved.set()
        await asyncio.Event().wait()

    @clew.agent(tools=[pay])
    async def agent(run: clew.Run, prompt: str) -> str:
        async def all_of_them() -> None:
            async with run.group() as group:
                for order in "abc":
                    group.call(pay, order)

        task = asyncio.ensure_future(all_of_them())
        await moved.wait()
        task.cancel()
        await asyncio.wait([task])
        return "all done"

    result = scene.run(agent)

    assert ("paused", 21, ["unknown"] * 3) == (
        result.operation.state,
        result.exit_code,
        [row["status"] for row in result.waiting],
    )


# What is recorded in another order than it was asked for.


def side_by_side(way: str, tool: clew.Tool, orders: list[str], then: Any) -> clew.Agent:
    """An agent that pays these orders side by side, in a group or in tasks of its own."""
    if way != "gather":
        agent = grouped(way, lambda group: [group.call(tool, order) for order in orders], tool)
        return clew.Agent(_followed(agent.body, then), name="agent", tools=[tool])

    async def gather(run: clew.Run, prompt: str) -> Any:
        return await asyncio.gather(*[run.call(tool, order) for order in orders])

    return clew.Agent(_followed(gather, then), name="agent", tools=[tool])


def _followed(body: Any, then: Any) -> Any:
    if asyncio.iscoroutinefunction(body):

        async def agent(run: Any, prompt: Any) -> Any:
            told = await body(run, prompt)
            then()
            return told

        return agent

    def plain(run: Any, prompt: Any) -> Any:
        told = body(run, prompt)
        then()
        return told

    return plain


abreast = pytest.mark.parametrize("way", [*WAYS, "gather"])


@abreast
def test_a_call_that_another_one_overtook_is_made_once_that_one_is_asked_for_again(way: str) -> None:
    """It was asked for first and not recorded when all stopped: whoever does the same again has not diverged."""
    scene = Scene()
    pay = paying(scene, "plain" if way == "gather" else way)
    scene.run(side_by_side(way, pay, ["b"], bug))
    result = scene.resume(side_by_side(way, pay, ["a", "c", "b"], lambda: None))

    told = [f"transfer-{clew.Call(key).short}" for key in scene.bank.paid]
    assert ("completed", {"b": 1, "a": 1, "c": 1}, told[0]) == (
        result.operation.state, scene.bank.orders, result.output[2],
    )  # fmt: skip


@abreast
def test_a_call_in_the_place_of_a_recorded_one_that_nobody_asks_for_again_does_not_start(way: str) -> None:
    """It may be the same payment with one cent more: side by side as well as alone."""
    scene = Scene()
    pay = paying(scene, "plain" if way == "gather" else way)
    scene.run(side_by_side(way, pay, ["b"], bug))
    result = scene.resume(side_by_side(way, pay, ["a", "c"], lambda: None))

    assert ("resume_divergence", {"b": 1}) == (result.reason, scene.bank.orders)
