"""Asking a model through the gate: paid once, measured or counted as unmeasured, replayed as answered."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import clew
from clew.stores.memory import MemoryRunStore
from clew.testing.crash import CrashPoint
from tests.runtime.scene import WAYS, Scene, agent_of
from tests.runtime.test_drivers import crash
from tests.runtime.test_gate import FULL, FullDisk

ways = pytest.mark.parametrize("way", WAYS)


def bug() -> None:
    raise LookupError("a bug")


class Model:
    """Counts what it is asked; answers in the way that fits the agent."""

    def __init__(self, way: str, output: Any = "42", usage: clew.Usage | None = None) -> None:
        self.requests: list[Any] = []
        self.output = output
        self.usage = usage
        self.ask = self._later if way == "async" else self._now

    def _now(self, request: Any) -> clew.Turn:
        self.requests.append(request)
        return clew.Turn(self.output, self.usage)

    async def _later(self, request: Any) -> clew.Turn:
        return self._now(request)


@ways
def test_the_request_is_on_disk_before_the_model_is_asked(way: str) -> None:
    """A turn that died in between must be counted, and it can only be counted if it was written."""
    scene, seen = Scene(), []

    def ask(request: Any) -> str:
        seen.append(scene.events[-1]["type"])
        return "yes"

    result = scene.run(agent_of(way, lambda run: (yield run.turn(ask, "pay?"))))

    assert (["agent_start"], "yes") == (seen, result.output)
    assert ["agent_start", "step_output", "turn_end", "agent_end"] == scene.words


@ways
def test_a_turn_is_not_paid_twice(way: str) -> None:
    """The answer is recorded before anything is done with it."""
    scene, model, broken = Scene(), Model(way, {"tool": "pay"}), [True]

    def script(run: Any) -> Any:
        told = yield run.turn(model.ask, ["pay?"])
        if broken.pop() if broken else False:
            bug()
        return told

    agent = agent_of(way, script)
    scene.run(agent)
    result = scene.resume(agent)

    assert ({"tool": "pay"}, [["pay?"]]) == (result.output, model.requests)


@ways
def test_a_turn_that_died_is_asked_again_and_counted_as_unmeasured(way: str) -> None:
    """It may have cost something; what nobody reported is not zero."""
    scene, model = Scene(), Model(way, "yes", clew.Usage(tokens=7))
    agent = agent_of(way, lambda run: (yield run.turn(model.ask, "pay?")))
    crash(scene, agent, CrashPoint(2, 0))
    result = scene.resume(agent)

    metrics = result.snapshot["metrics"]
    assert (["pay?"] * 2, 1, 1, 7) == (model.requests, metrics["turns"], metrics["unmeasuredTurns"], metrics["tokens"])


@ways
def test_usage_that_was_not_reported_stays_null(way: str) -> None:
    """Promise 9: nothing is invented."""
    scene, model = Scene(), Model(way)

    result = scene.run(agent_of(way, lambda run: (yield run.turn(model.ask, "pay?"))))

    metrics = result.snapshot["metrics"]
    assert (None, None, 1) == (metrics["tokens"], metrics["costUsd"], metrics["unmeasuredTurns"])


@ways
def test_a_bare_answer_is_a_turn_without_usage(way: str) -> None:
    """The shortest model is a function."""
    scene = Scene()

    result = scene.run(agent_of(way, lambda run: (yield run.turn(lambda request: request.upper(), "pay?"))))

    assert "PAY?" == result.output


@ways
def test_a_model_that_raises_ends_its_turn_and_may_be_asked_again(way: str) -> None:
    """A refused request is the agent's to handle; the turn is closed, and the next one is a new one."""
    scene, tries = Scene(), []

    def ask(request: Any) -> str:
        tries.append(request)
        if len(tries) == 1:
            raise ConnectionError("overloaded")
        return "yes"

    def script(run: Any) -> Any:
        try:
            yield run.turn(ask, "pay?")
        except ConnectionError:
            return (yield run.turn(ask, "pay?"))

    result = scene.run(agent_of(way, script))

    assert ("yes", ["turn-1", "turn-1", "turn-2", "turn-2"]) == (
        result.output,
        [event["turnId"] for event in scene.events if "turnId" in event],
    )


@ways
def test_usage_of_another_kind_is_refused_and_the_turn_is_closed(way: str) -> None:
    """A dict that looks like usage would be recorded as whatever it says."""
    scene = Scene()
    odd: Any = {"tokens": "many"}

    result = scene.run(agent_of(way, lambda run: (yield run.turn(lambda request: clew.Turn("yes", odd), "pay?"))))

    assert ("agent_error", ["agent_start", "turn_end", "error"]) == (result.reason, scene.words)


@ways
def test_secrets_are_hidden_in_an_answer_before_the_agent_sees_them(way: str) -> None:
    """Live and replayed are the same bytes."""
    scene, seen, broken = Scene(), [], [True]

    def script(run: Any) -> Any:
        seen.append((yield run.turn(lambda request: {"say": "hunter22"}, "pay?")))
        if broken.pop() if broken else False:
            bug()

    agent = agent_of(way, script, secrets=["hunter22"])
    scene.run(agent)
    scene.resume(agent)

    assert [{"say": "[redacted:configured]"}] * 2 == seen


@ways
def test_a_long_answer_is_kept_beside_the_journal(way: str) -> None:
    """Models talk."""
    scene, broken = Scene(), [True]

    def script(run: Any) -> Any:
        told = yield run.turn(lambda request: "x" * 20_000, "pay?")
        if broken.pop() if broken else False:
            bug()
        return len(told)

    agent = agent_of(way, script)
    scene.run(agent)
    result = scene.resume(agent)

    assert (20_000, 1) == (result.output, len(scene.blobs.kept))


@ways
def test_an_answer_that_cannot_be_kept_pauses_the_run_and_its_usage_stays_counted(way: str) -> None:
    """It was paid; that it has to be asked again does not make the first one free."""
    scene = Scene(blobs=FullDisk(FULL))
    model = Model(way, "x" * 20_000, clew.Usage(tokens=7))

    def script(run: Any) -> Any:
        try:
            return len((yield run.turn(model.ask, "pay?")))
        except Exception:
            return "went on"

    agent = agent_of(way, script)
    first = scene.run(agent)
    scene.blobs.fault = None
    last = scene.resume(agent)

    assert ("paused", "result_not_kept") == (first.operation.state, first.reason)
    assert (20_000, 14) == (last.output, last.snapshot["metrics"]["tokens"])


@ways
def test_a_request_that_is_not_json_is_refused_before_it_is_asked(way: str) -> None:
    """Its fingerprint is what a replay is matched by."""
    scene, model = Scene(), Model(way)

    def script(run: Any) -> Any:
        try:
            yield run.turn(model.ask, object())
        except clew.ClewError as fault:
            return fault.code

    result = scene.run(agent_of(way, script))

    assert ("value_not_json", []) == (result.output, model.requests)


def test_a_plain_run_may_ask_an_async_model() -> None:
    """Its answer is awaited, not recorded as a coroutine."""
    scene, model = Scene(), Model("async")

    result = scene.run(agent_of("plain", lambda run: (yield run.turn(model.ask, "pay?"))))

    assert ("42", ["pay?"]) == (result.output, model.requests)


def test_a_cancelled_turn_is_closed() -> None:
    """An agent's own timeout around a model ends the turn, not the run."""
    scene = Scene()

    async def slow(request: Any) -> None:
        await asyncio.Event().wait()

    @clew.agent
    async def agent(run: clew.Run, prompt: str) -> str:
        task = asyncio.ensure_future(run.turn(slow, "pay?"))
        while "agent_start" not in scene.words:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return "cancelled" if task.cancelled() else "not"

    result = scene.run(agent)

    assert ("completed", "cancelled") == (result.operation.state, result.output)


@ways
def test_a_journal_that_fails_at_the_answer_ends_the_leg(way: str) -> None:
    """The agent is stopped; the error is the run's."""
    scene, model = Scene(), Model(way)

    def script(run: Any) -> Any:
        try:
            yield run.turn(model.ask, "pay?")
        except Exception:
            return "went on"

    agent = agent_of(way, script)
    crash(scene, agent, CrashPoint(2, 0))

    assert ["agent_start"] == scene.words


@ways
def test_a_turn_inside_of_a_step_is_matched_there(way: str) -> None:
    """A step that has its answer never asks again: its turns must not stand in the way of later ones, nor be theirs."""
    scene, asked, legs = Scene(), [], []

    def ask(request: Any) -> str:
        asked.append(request)
        return f"answer {len(asked)}"

    def script(run: Any) -> Any:
        async def on_loop() -> Any:
            return await run.turn(ask, "same")

        inner = (lambda: run.turn(ask, "same")) if way == "plain" else on_loop
        first = yield run.step("first", inner)
        legs.append(first)
        if len(legs) == 1:
            raise LookupError("a bug")
        second = yield run.step("second", inner)
        third = yield run.turn(ask, "another")
        return [first, second, third]

    agent = agent_of(way, script)
    scene.run(agent)
    result = scene.resume(agent)

    assert (["answer 1", "answer 2", "answer 3"], ["same", "same", "another"]) == (result.output, asked)
    assert ["first-1", "second-1", None] == [event.get("stepId") for event in scene.said("agent_start")]


class Striking(MemoryRunStore):
    """A store at whose append of a request to a model something strikes, before it is durable or instead of it."""

    def __init__(self, strike: Callable[[], None], fault: Exception | None = None) -> None:
        super().__init__()
        self.strike = strike
        self.fault = fault

    def create(self, *given: Any, **how: Any) -> Any:
        return StrikingWriter(self, super().create(*given, **how))


class StrikingWriter:
    def __init__(self, store: Striking, writer: Any) -> None:
        self._store = store
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, batch: Any, **how: Any) -> Any:
        if any(record.kind == "event" and record.payload["event"]["type"] == "agent_start" for record in batch.records):
            self._store.strike()
            if self._store.fault is not None:
                raise self._store.fault
        return self._writer.append(batch, **how)


def cancelled_as_it_begins(fault: Exception | None = None) -> tuple[Scene, Model, Any]:
    """An agent gives a turn up while its request is on the way to the disk, and goes on without it."""
    scene, model, tasks = Scene(), Model("async"), list[Any]()

    def strike() -> None:
        turned = threading.Event()
        tasks[0].get_loop().call_soon_threadsafe(tasks[0].cancel)
        tasks[0].get_loop().call_soon_threadsafe(turned.set)
        turned.wait(10)

    async def agent(run: clew.Run, prompt: Any) -> str:
        tasks.append(asyncio.ensure_future(run.turn(model.ask, "pay?")))
        try:
            return str(await tasks[0])
        except asyncio.CancelledError:
            return "without"

    scene.memory = Striking(strike, fault)
    home = scene.home()
    return scene, model, lambda: asyncio.run(home.run(clew.Agent(agent, name="agent"), "go", run_id="r1"))


def test_a_turn_that_is_cancelled_as_it_begins_has_ended() -> None:
    """Else it stands open for ever, and whoever counts open turns counts it beside the one that is asked anew."""
    scene, model, deed = cancelled_as_it_begins()

    result = deed()

    assert ("without", [], 1) == (result.output, model.requests, result.snapshot["metrics"]["unmeasuredTurns"])
    assert ["agent_start", "turn_end", "agent_end"] == scene.words


def test_a_turn_whose_beginning_failed_has_no_end() -> None:
    """Nothing is recorded of what was never durable (promise 9), and nothing behind a failed append (promise 12)."""
    scene, model, deed = cancelled_as_it_begins(clew.Storage("the disk is full", code="disk_full", next="Make room."))

    with pytest.raises(clew.Storage):
        deed()

    assert ([], []) == (scene.words, model.requests)


def test_a_plain_turn_that_is_interrupted_as_it_begins_has_ended() -> None:
    """Ctrl-C strikes between the record of the request and the model as well."""
    scene, model = Scene(), Model("plain")

    def agent(run: clew.SyncRun, prompt: Any) -> str:
        flights = run._gate.flights
        flights.awaited, flights.landed = True, strike
        try:
            return str(run.turn(model.ask, "pay?"))
        except KeyboardInterrupt:
            return "without"

    def strike() -> None:
        if scene.words == ["agent_start"]:
            raise KeyboardInterrupt

    result = scene.run(clew.Agent(agent, name="agent"))

    assert ("without", [], 1) == (result.output, model.requests, result.snapshot["metrics"]["unmeasuredTurns"])
    assert ["agent_start", "turn_end", "agent_end"] == scene.words
