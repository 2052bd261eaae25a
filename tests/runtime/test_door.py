"""A door that has closed stays closed, whatever the agent does about it."""

import asyncio
from typing import Any

import pytest

import clew
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, lose_the_line, paying

ways = pytest.mark.parametrize("way", WAYS)


def paused_once(scene: Scene, result: clew.RunResult) -> tuple[int, str, int, list[str]]:
    """What promise 2 asks of every agent: payments, state, exit code, what waits."""
    return len(scene.bank.paid), result.operation.state, result.exit_code, [row["status"] for row in result.waiting]


ONCE = (1, "paused", 21, ["unknown"])


@ways
def test_an_agent_that_swallows_everything_pays_once(way: str) -> None:
    """Stop is a courtesy; the closed gate is the truth, and the agent's cheerful end is not believed."""
    scene = Scene()
    pay = paying(scene, way, lose_the_line)

    def script(run: Any) -> Any:
        for _ in range(5):
            try:
                yield run.call(pay)
            except BaseException:
                continue
        return "all done"

    result = scene.run(agent_of(way, script, pay))

    assert ONCE == paused_once(scene, result)


@pytest.mark.parametrize("way", ["async", "thread"])
def test_an_agent_that_never_gives_in_is_left_behind(way: str) -> None:
    """`while True: try … except BaseException: pass` must neither pay twice nor hold the process for ever."""
    scene = Scene()
    pay = paying(scene, way, lose_the_line)

    def script(run: Any) -> Any:
        while True:
            try:
                yield run.call(pay)
            except BaseException:
                continue

    result = scene.run(agent_of(way, script, pay))

    assert ONCE == paused_once(scene, result)


def test_an_agent_that_was_left_behind_is_parked() -> None:
    """The program around it goes on, and does not share its loop with somebody who asks in vain for ever."""
    scene, asked = Scene(), list[int]()
    pay = paying(scene, "async", lose_the_line)

    @clew.agent(tools=[pay])
    async def agent(run: clew.Run, prompt: str) -> None:
        while True:
            try:
                asked.append(1)
                await run.call(pay)
            except BaseException:
                continue

    async def program() -> int:
        await scene.home().run(agent, "go", run_id=RUN)
        before = len(asked)
        for _ in range(100):
            await asyncio.sleep(0)
        return len(asked) - before

    more = asyncio.run(program())

    assert more <= 1


def test_a_plain_agent_that_never_gives_in_is_left_behind_by_its_loop() -> None:
    """Its thread cannot be stopped; the run is paused, the loop goes on, and the thread is parked."""
    scene = Scene()
    pay = paying(scene, "plain", lose_the_line)

    @clew.agent(tools=[pay])
    def agent(run: clew.SyncRun, prompt: str) -> None:
        while True:
            try:
                run.call(pay)
            except BaseException:
                continue

    result = asyncio.run(scene.home().run(agent, "go", run_id=RUN))
    scene.check()

    assert ONCE == paused_once(scene, result)


def test_a_plain_agent_that_gives_in_late_finds_its_run_paused() -> None:
    """After a thousand refusals the leg ends under it; the caller gets the same result when it returns at last."""
    scene, states = Scene(), list[str]()
    pay = paying(scene, "plain", lose_the_line)

    def script(run: Any) -> Any:
        for _ in range(2500):
            try:
                yield run.call(pay)
            except BaseException:
                continue
        states.append(scene.state.state)
        return "all done"

    result = scene.run(agent_of("plain", script, pay))

    assert (ONCE, ["paused"]) == (paused_once(scene, result), states)


def test_an_open_effect_has_closed_the_gate_before_its_call_counts_as_ended() -> None:
    """In between, a thread of the same group could start something new."""
    scene, seen = Scene(), list[Any]()
    pay = paying(scene, "plain", lose_the_line)

    def script(run: Any) -> Any:
        gate = run._gate
        gate.wake_by(lambda: seen.append((gate.flights.count, gate.closing is not None)))
        yield run.call(pay)

    scene.run(agent_of("plain", script, pay))

    assert (0, False) not in seen
    assert (0, True) in seen


def test_to_be_stopped_is_no_failure_of_the_journal() -> None:
    """Whoever comes too late is told so; the run is as sound as before."""
    scene = Scene()

    def script(run: Any) -> Any:
        with pytest.raises(clew.Stop), run._gate.flight():
            raise clew.Stop("too late")
        return (yield "done")

    result = scene.run(agent_of("plain", script))

    assert ("completed", "done") == (result.operation.state, result.output)
