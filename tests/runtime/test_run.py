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
