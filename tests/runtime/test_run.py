"""What an agent holds: steps, groups and recorded values, the same again when it is replayed."""

import asyncio
import datetime
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import Refused, UsageError
from clew.testing.crash import CrashPoint
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, lose_the_line, paying, start, tool_of
from tests.runtime.test_drivers import Strike, crash

ways = pytest.mark.parametrize("way", WAYS)


def bug() -> None:
    raise LookupError("a bug")


@ways
def test_times_and_chance_are_the_same_again(way: str) -> None:
    """An agent that decides by them must decide the same on replay."""
    scene, seen = Scene(), []
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        values = [run.now(), run.random(), run.uuid()]
        scene.clock.advance(1)
        values += [run.now(), run.random(), run.uuid()]
        seen.append(values)
        yield run.call(pay)
        if len(seen) == 1:
            bug()

    agent = agent_of(way, script, pay)
    scene.run(agent)
    scene.resume(agent)

    assert seen[0] == seen[1]
    assert 6 == len(set(map(str, seen[0])))


@ways
def test_a_value_that_nothing_rests_on_may_be_another_one(way: str) -> None:
    """It rides with the next append; dying before that, nothing durable knew it."""
    scene, seen = Scene(), []
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        seen.append(run.uuid())
        yield run.call(pay)
        return run.uuid() == seen[-1]

    agent = agent_of(way, script, pay)
    crash(scene, agent, CrashPoint(1, 0))
    result = scene.resume(agent)

    assert (False, 2, 1) == (result.output, len(set(seen)), len(scene.bank.paid))


@ways
def test_a_step_is_done_once_and_answers_again(way: str) -> None:
    """With arguments, restored by its annotation."""
    scene, done = Scene(), []

    def plan(day: str, *, shift: int) -> datetime.date:
        done.append(day)
        return datetime.date.fromisoformat(day) + datetime.timedelta(days=shift)

    def script(run: Any) -> Any:
        found = yield run.step("plan", plan, "2026-11-29", shift=2)
        if len(done) == 1 and not scene.state.legs[1:]:
            bug()
        return [found.isoformat(), type(found).__name__]

    agent = agent_of(way, script)
    scene.run(agent)
    result = scene.resume(agent)

    assert (["2026-12-01", "date"], ["2026-11-29"]) == (result.output, done)


@ways
def test_a_step_that_raises_is_not_recorded_and_is_done_again(way: str) -> None:
    """It is the agent's own work, with no effect of its own."""
    scene, tries = Scene(), []

    def plan() -> str:
        tries.append(1)
        if len(tries) == 1:
            bug()
        return "planned"

    agent = agent_of(way, lambda run: (yield run.step("plan", plan)))
    first = scene.run(agent)
    result = scene.resume(agent)

    assert ("agent_error", "planned", 2) == (first.reason, result.output, len(tries))


@ways
def test_steps_of_one_name_are_numbered(way: str) -> None:
    """Each is a step of its own."""
    scene = Scene()

    def script(run: Any) -> Any:
        first = yield run.step("add", lambda: 0)
        return [first, (yield run.step("add", lambda: 1)), (yield run.step("add", lambda: 2))]

    result = scene.run(agent_of(way, script))

    assert ["add-1", "add-2", "add-3"] == [event["stepId"] for event in scene.said("step_output")]
    assert [0, 1, 2] == result.output


@ways
def test_an_async_step_is_awaited_by_both(way: str) -> None:
    """A coroutine is no answer."""
    scene = Scene()

    async def plan() -> str:
        await asyncio.sleep(0)
        return "planned"

    result = scene.run(agent_of(way, lambda run: (yield run.step("plan", plan))))

    assert "planned" == result.output


@ways
@pytest.mark.parametrize("name", ["now", "turn", "pay", "a.b", ""])
def test_a_step_cannot_have_a_name_that_means_something_else(way: str, name: str) -> None:
    """Its id would be that of a call, a turn or a recorded time."""
    scene = Scene()
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        try:
            yield run.step(name, lambda: 1)
        except UsageError as fault:
            return fault.code

    result = scene.run(agent_of(way, script, pay))

    assert "invalid_step_name" == result.output


def test_a_step_that_is_cancelled_while_it_is_written_breaks_nothing() -> None:
    """A cancellation is not a failure of the journal."""
    for at_append in (1, 2, 3):
        scene, point = Scene(), Strike(at_append)

        @clew.agent
        async def agent(run: clew.Run, prompt: str, point: Strike = point) -> list[bool]:
            ends = []
            for work in (run.step("plan", lambda: 1), run.turn(lambda request: "yes", "pay?")):
                point.task = asyncio.ensure_future(work)
                await asyncio.wait([point.task])
                ends.append(point.task.cancelled())
            return ends

        result = scene.run(agent, point=point)

        assert ("completed", 1) == (result.operation.state, sum(result.output)), at_append


# Groups.


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


@pytest.mark.parametrize("asynchronous", [True, False])
def test_on_real_files_it_is_the_same(tmp_path: Path, asynchronous: bool) -> None:
    """Memory is the reference; the journal that counts lies on a disk."""
    home = clew.Home(tmp_path / ".clew", takeover="proven")
    way, paid = ("async" if asynchronous else "plain"), list[str]()

    def pay(call: clew.Call, order: str) -> str:
        journal = (tmp_path / ".clew" / "runs" / f"{call.run_id}.jsonl").read_bytes()
        assert journal.rstrip().splitlines()[-1].count(b'"status":"started"') == 1
        paid.append(order)
        if order == "b":
            lose_the_line()
        return "x" * 20_000

    tool = tool_of(way, pay, effect="external")

    def steps(run: Any) -> Any:
        first = yield run.call(tool, "a")
        return [len(first), len((yield run.call(tool, "b"))), len((yield run.call(tool, "c")))]

    agent = agent_of(way, steps, tool)
    first = start(home, agent)
    home.settle(RUN, clew.Happened("t1"), by="ops", reason="looked it up")
    again = home.resume(RUN, agent) if asynchronous else None
    last = asyncio.run(again) if again is not None else home.resume_sync(RUN, agent, signals=False)

    assert ("paused", "completed") == (first.operation.state, last.operation.state)
    assert ([20_000, 2, 20_000], ["a", "b", "c"]) == (last.output, paid)
    assert "clean" == home.verify(RUN)["tail"]["verdict"]


def test_refused_calls_of_a_run_that_ended_stop() -> None:
    """A run that was carried out of its agent has nothing to say any more."""
    scene, runs = Scene(), []
    pay = paying(scene, "plain")

    def script(run: Any) -> Any:
        runs.append(run)
        yield None
        return "done"

    scene.run(agent_of("plain", script, pay))

    with pytest.raises((Refused, clew.Stop)):
        runs[0].call(pay)
    assert [] == scene.bank.paid
