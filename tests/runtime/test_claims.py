"""Which recorded call or turn a replayed agent means; one that does otherwise is stopped, not guessed at."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import clew
from clew.core.state import RunState
from clew.runtime.claims import Claims
from clew.testing.crash import CrashPoint
from tests.histories import Scribe, facts, started
from tests.runtime.scene import WAYS, Scene, agent_of, paying, tool_of
from tests.runtime.test_drivers import crash

ways = pytest.mark.parametrize("way", WAYS)


def twice(way: str, first: Callable[..., Any], second: Callable[..., Any]) -> tuple[Scene, clew.RunResult]:
    """The bug that an agent raised in the first leg is mended, and it goes on as `second`."""
    scene = Scene()
    pay = paying(scene, way)

    def refund(call: clew.Call, order: str) -> str:
        return scene.bank.pay(call, order)

    other = tool_of(way, refund, effect="external")
    scene.run(agent_of(way, lambda run: first(run, pay, other), pay, other))
    return scene, scene.resume(agent_of(way, lambda run: second(run, pay, other), pay, other))


def bug() -> None:
    raise LookupError("a bug")


def look() -> int:
    return 1


@ways
def test_equal_calls_are_told_apart_by_their_number(way: str) -> None:
    """Paying the same order twice is two payments; a replay takes the first answer first."""

    def first(run: Any, pay: Any, other: Any) -> Any:
        yield run.call(pay, "x")
        yield run.call(pay, "x")
        bug()

    def second(run: Any, pay: Any, other: Any) -> Any:
        return [(yield run.call(pay, "x")), (yield run.call(pay, "x")), (yield run.call(pay, "x"))]

    scene, result = twice(way, first, second)

    expected = [f"transfer-{clew.Call(key).short}" for key in ("r1:pay-1:c1", "r1:pay-2:c2", "r1:pay-3:c3")]
    assert (expected, {"x": 3}) == (result.output, scene.bank.orders)


@ways
def test_calls_may_come_back_in_another_order(way: str) -> None:
    """Parallel calls do; each is found by what it asks for."""

    def first(run: Any, pay: Any, other: Any) -> Any:
        yield run.call(pay, "x")
        yield run.call(pay, "y")
        bug()

    def second(run: Any, pay: Any, other: Any) -> Any:
        yield run.call(pay, "y")
        yield run.call(pay, "x")

    scene, result = twice(way, first, second)

    assert ("completed", {"x": 1, "y": 1}) == (result.operation.state, scene.bank.orders)


@ways
def test_another_call_while_a_recorded_one_is_unclaimed_closes_the_gate(way: str) -> None:
    """It may be the same payment with one cent more; nobody starts it on a guess."""

    def first(run: Any, pay: Any, other: Any) -> Any:
        yield run.call(pay, "x")
        bug()

    def second(run: Any, pay: Any, other: Any) -> Any:
        for _ in range(3):
            try:
                yield run.call(pay, "z")
            except Exception:
                continue
        return "all done"

    scene, result = twice(way, first, second)

    assert ("paused", "resume_divergence", 22) == (result.operation.state, result.reason, result.exit_code)
    assert {"x": 1} == scene.bank.orders
    message = scene.lines[-1]["payload"]["outcome"]["error"]["message"]
    assert ("'pay'" in message, "'pay-1'" in message) == (True, True)


@ways
def test_another_tool_is_free_to_start(way: str) -> None:
    """New work beside recorded work is no divergence."""

    def first(run: Any, pay: Any, other: Any) -> Any:
        yield run.call(pay, "x")
        bug()

    def second(run: Any, pay: Any, other: Any) -> Any:
        yield run.call(other, "z")
        yield run.call(pay, "x")

    scene, result = twice(way, first, second)

    assert ("completed", {"x": 1, "z": 1}) == (result.operation.state, scene.bank.orders)


@ways
def test_another_request_while_an_answered_turn_is_unclaimed_closes_the_gate(way: str) -> None:
    """What was decided on that answer has been done already."""

    def first(run: Any, pay: Any, other: Any) -> Any:
        yield run.turn(lambda request: "yes", "pay x?")
        yield run.call(pay, "x")
        bug()

    def second(run: Any, pay: Any, other: Any) -> Any:
        yield run.turn(lambda request: "no", "pay z?")

    _, result = twice(way, first, second)

    assert ("paused", "resume_divergence") == (result.operation.state, result.reason)


def down(request: Any) -> Any:
    raise ConnectionError("the model is down")


@ways
def test_an_agent_that_went_on_without_a_models_answer_is_led_the_same_way_again(way: str) -> None:
    """It fell back on another model, and what that one said was paid for: who does the same again has not diverged."""
    asked: list[str] = []

    def first(run: Any, pay: Any, other: Any) -> Any:
        try:
            order = yield run.turn(down, "the good one")
        except (ConnectionError, clew.ToolError) as fault:
            asked.append(getattr(fault, "code", "down"))
            order = yield run.turn(lambda request: "x", "the cheap one")
        yield run.call(pay, order)
        if len(asked) == 1:
            bug()

    scene, result = twice(way, first, first)

    assert ("completed", {"x": 1}, ["down", "turn_failed"]) == (result.operation.state, scene.bank.orders, asked)


def test_a_model_that_failed_beside_another_one_is_asked_anew() -> None:
    """Nothing rests on its silence: both were asked before anybody knew of it."""
    scene, answers = Scene(), ["fails", "answers"]

    async def agent(run: clew.Run, prompt: str) -> Any:
        beside = asyncio.Event()

        async def first(request: Any) -> str:
            if answers.pop(0) == "fails":
                await beside.wait()
                raise ConnectionError("the model is down")
            return "one"

        async def second(request: Any) -> str:
            beside.set()
            return "two"

        told = await asyncio.gather(run.turn(first, "1"), run.turn(second, "2"), return_exceptions=True)
        if isinstance(told[0], BaseException):
            raise told[0]
        return told

    whole = clew.Agent(agent, name="agent")
    scene.run(whole)
    result = scene.resume(whole)

    assert ["one", "two"] == result.output


def test_a_turn_that_died_without_an_answer_may_be_another_one() -> None:
    """Nothing rests on it; the model may be asked something else."""
    scene, asked = Scene(), []

    def agent(word: str) -> clew.Agent:
        def ask(request: Any) -> str:
            asked.append(request)
            return word

        return agent_of("plain", lambda run: (yield run.turn(ask, word)))

    crash(scene, agent("one"), CrashPoint(2, 0))
    result = scene.resume(agent("two"))

    assert ("two", ["one", "two"]) == (result.output, asked)


@ways
def test_what_is_recorded_and_not_asked_for_again_does_not_hold_the_run(way: str) -> None:
    """An agent that was mended may need less; the effects stand all the same."""

    def first(run: Any, pay: Any, other: Any) -> Any:
        yield run.call(pay, "x")
        bug()

    def second(run: Any, pay: Any, other: Any) -> Any:
        yield None
        return "less"

    scene, result = twice(way, first, second)

    assert ("completed", "less", {"x": 1}) == (result.operation.state, result.output, scene.bank.orders)


@ways
def test_a_call_inside_of_a_step_is_another_call(way: str) -> None:
    """The path belongs to the match: `plan-1.pay-1` is not `pay-1`."""
    scene = Scene()
    pay = paying(scene, way)
    tool = tool_of(way, look, effect="none")

    if way == "plain":

        def plain(run: Any) -> Any:
            inner = yield run.step("plan", lambda: run.call(pay, "x"))
            return [inner == run.call(pay, "x"), run.call(tool)]

        script = plain
    else:

        async def work(run: Any) -> Any:
            return await run.call(pay, "x")

        def awaiting(run: Any) -> Any:
            inner = yield run.step("plan", work, run)
            return [inner == (yield run.call(pay, "x")), (yield run.call(tool))]

        script = awaiting

    result = scene.run(agent_of(way, script, pay, tool))

    assert ([False, 1], {"x": 2}) == (result.output, scene.bank.orders)
    assert ["plan-1.pay-1", "pay-1", "look-1"] == [event["stepId"] for event in scene.said("tool_call")]


def test_a_call_whose_answer_was_not_heard_is_meant_by_an_equal_one_and_bars_no_other() -> None:
    """A retry behind the agent's own timeout must find it; an agent that goes on to the next order has not diverged."""
    scribe = Scribe().born()
    scribe.say(*started(facts()))
    (call,) = scribe.state.calls.values()
    claims = Claims(RunState("r1"))
    claims.give_back(call)

    other = claims.call("", call.tool, "f" * 64)
    elsewhere = claims.call("plan-1", call.tool, call.fingerprint)
    found = claims.call("", call.tool, call.fingerprint)

    assert (None, None, "pay-1") == (other, elsewhere, found and found.step_id)
    assert claims.call("", call.tool, call.fingerprint) is None
