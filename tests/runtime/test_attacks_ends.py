"""How a leg ends when something strikes in the wrong moment: found by attacking the promises."""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.compose import Move
from clew.core.usage import Usage
from clew.runtime.deeds import request_abort
from clew.stores.base import Command
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, lose_the_line, paying, start, tool_of

ways = pytest.mark.parametrize("way", WAYS)


def look(n: int = 0) -> int:
    return n


# An abort.


@ways
@pytest.mark.parametrize("what", ["free", "pay", "turn"])
def test_what_comes_behind_an_abort_begins_no_more(way: str, what: str) -> None:
    """Its turn to append came after REQUEST_ABORT: it must not break the journal, and the run ends as aborted."""
    scene = Scene()
    pay = paying(scene, way)
    free = tool_of(way, look, effect="none", replay="safe")

    def script(run: Any) -> Any:
        gate = run._gate
        for _ in request_abort(gate, "enough"):
            gate.journal.append([Move("REQUEST_ABORT", "enough")])
            # Here, before the gate has closed, another task or thread gets its turn.
            yield run.turn(lambda request: "hi", "q") if what == "turn" else run.call(free if what == "free" else pay)

    result = scene.run(agent_of(way, script, free, pay))

    assert ("failed", "aborted", []) == (result.operation.state, result.reason, scene.bank.paid)


# Threads and tasks that go on.


def background(run: clew.SyncRun, pay: clew.Tool) -> threading.Thread:
    """A thread that carries its step, and pays until it is told to stop."""

    def body() -> None:
        with suppress(clew.Stop):
            while True:
                run.call(pay)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(body,), daemon=True)
    thread.start()
    return thread


def test_a_plain_agent_that_returns_is_waited_for_by_what_its_threads_began() -> None:
    """A payment under way is no open effect because the agent was faster; what would begin then comes too late."""
    scene = Scene()
    pay = paying(scene, "plain")
    threads: list[threading.Thread] = []

    def agent(run: clew.SyncRun, prompt: Any) -> str:
        threads.extend(background(run, pay) for _ in range(3))
        while len(scene.bank.paid) < 5:
            pass
        return "done"

    result = scene.run(clew.Agent(agent, tools=[pay]))
    for thread in threads:
        thread.join(20)

    receipts = [event["status"] for event in scene.said("effect_receipt")]
    assert ("completed", "done") == (result.operation.state, result.output)
    assert len(scene.bank.paid) == receipts.count("started") == receipts.count("committed")


class Drained(MemoryRunStore):
    """A store that lets something happen while the inbox is looked into for the last time."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] = lambda: None

    def pending(self, run_id: str) -> Sequence[Command]:
        self.meanwhile()
        return super().pending(run_id)


def test_nothing_begins_behind_the_end_of_an_async_agent() -> None:
    """A task that it left behind gets its turn while the end is being written; the end stands."""
    scene, store = Scene(), Drained()
    scene.memory = store
    pay = paying(scene, "async")

    async def later(run: clew.Run, go: asyncio.Event, tried: threading.Event) -> None:
        await go.wait()
        try:
            await run.call(pay)
        finally:
            tried.set()

    async def agent(run: clew.Run, prompt: Any) -> str:
        loop, go, tried = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
        left.append(asyncio.ensure_future(later(run, go, tried)))

        def meanwhile() -> None:
            loop.call_soon_threadsafe(go.set)
            tried.wait(20)

        store.meanwhile = meanwhile
        return "done"

    left: list[asyncio.Task[Any]] = []

    async def whole() -> tuple[clew.RunResult, list[Any]]:
        result = await scene.home().run(clew.Agent(agent, tools=[pay]), run_id=RUN)
        return result, await asyncio.gather(*left, return_exceptions=True)

    result, (fault,) = asyncio.run(whole())
    scene.check()

    assert ("completed", clew.Stop, []) == (result.operation.state, type(fault), scene.bank.paid)


@pytest.mark.parametrize("way", ["async", "thread"])
def test_an_agent_that_never_gives_in_is_left_behind_in_its_groups_too(way: str) -> None:
    """A group that is refused before anything was awaited would hold the loop for ever."""
    scene = Scene()
    pay = paying(scene, way, lose_the_line)

    async def agent(run: clew.Run, prompt: Any) -> None:
        while True:
            try:
                async with run.group() as group:
                    group.call(pay)
            except BaseException:
                continue

    result = scene.run(clew.Agent(agent, tools=[pay]))

    assert ("paused", 21, 1) == (result.operation.state, result.exit_code, len(scene.bank.paid))


def test_a_call_that_was_cancelled_before_it_began_has_no_answer() -> None:
    """None would be an answer, and one that nobody gave."""
    scene = Scene()
    pay = paying(scene, "async")
    told: list[str] = []

    async def agent(run: clew.Run, prompt: Any) -> None:
        group = run.group()
        async with group:
            handle = group.call(pay)
            try:
                handle.result()
            except clew.ClewError as fault:
                told.append(fault.code)

    scene.run(clew.Agent(agent, tools=[pay]))

    assert ["group_not_ended"] == told


def test_a_plain_agent_in_a_group_hears_commands() -> None:
    """It blocks until its group has ended, and calls nothing else; the inbox is looked into all the same."""
    scene, begun = Scene(), []
    free = clew.Tool(look, effect="none", replay="safe")

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        for number in range(100):
            begun.append(number)
            with run.group() as group:
                group.call(free, n=number)
            if number == 3:
                scene.memory.post(Command(1, "p-1", RUN, "pause", "bob", "lunch", {}))
                scene.clock.advance(1)

    result = scene.run(clew.Agent(agent, tools=[free]))

    assert ("pause_requested", [0, 1, 2, 3, 4]) == (result.reason, begun)


# What does not fit, what is not one.


@ways
def test_an_output_that_does_not_fit_into_an_append_pauses_the_run(way: str) -> None:
    """It is the agent's mistake, not the journal's; mended, the run completes."""
    scene, sizes = Scene(), [40_000_000, 5]

    def script(run: Any) -> Any:
        yield run.step("one", lambda: 1)
        return "x" * sizes.pop(0)

    agent = agent_of(way, script)
    first = scene.run(agent)
    second = scene.resume(agent)

    assert (("paused", "agent_error"), "xxxxx") == ((first.operation.state, first.reason), second.output)


@ways
@pytest.mark.parametrize("tokens", [float("nan"), -1, True, "5"])
def test_usage_that_is_no_count_is_refused_before_it_is_recorded(way: str, tokens: Any) -> None:
    """NaN cannot be written, and minus one token would give budget back."""
    scene = Scene()

    def script(run: Any) -> Any:
        yield run.turn(lambda request: clew.Turn("hi", Usage(tokens=tokens)), "q")

    result = scene.run(agent_of(way, script))

    assert ("paused", "agent_error", 1) == (result.operation.state, result.reason, scene.state.metrics.unmeasured_turns)


# Places.


def test_a_tool_may_change_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that was named by a relative path, or not at all, stays where it was."""
    monkeypatch.delenv("CLEW_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()

    def move(call: clew.Call) -> str:
        os.chdir("/")
        return "x" * 20_000

    pay = clew.Tool(move)
    result = start(
        clew.Home(), clew.Agent(lambda run, prompt: [run.call(pay), run.call(pay)][:0], name="a", tools=[pay])
    )

    assert "completed" == result.operation.state


@pytest.mark.parametrize("deed", ["run_sync", "resume_sync", "ensure_sync"])
def test_plain_code_inside_a_loop_is_told_so_before_anything_is_begun(deed: str) -> None:
    """A run that was born and never ran would keep its lock as long as the process lives."""
    scene = Scene()

    async def agent(run: clew.Run, prompt: Any) -> None: ...

    async def inside() -> str:
        home = scene.home()
        given: Any = (RUN, agent) if deed == "resume_sync" else (agent,)
        how: Any = {} if deed == "resume_sync" else {"run_id": RUN}
        try:
            getattr(home, deed)(*given, **how)
        except clew.ClewError as fault:
            return fault.code
        return ""

    code = asyncio.run(inside())

    assert ("event_loop_running", []) == (code, scene.memory.ids())


def test_another_input_of_equal_value_is_another_input() -> None:
    """In Python True equals 1; in JSON, and to a model, it does not."""
    home = clew.Home.memory()
    agent = clew.Agent(lambda run, prompt: prompt, name="a")
    home.ensure_sync(agent, 1, run_id=RUN)

    with pytest.raises(clew.Refused, match="another input"):
        home.ensure_sync(agent, True, run_id=RUN)


@ways
@pytest.mark.parametrize(("by", "reason"), [("", "looked"), ("ann", " ")])
def test_a_command_that_names_nobody_is_rejected_and_the_run_goes_on(way: str, by: str, reason: str) -> None:
    """Whoever writes into the inbox by hand must not be able to break the journal of a living run."""
    scene = Scene()
    pay = paying(scene, way, lose_the_line)

    def script(run: Any) -> Any:
        scene.memory.post(Command(1, "s-1", RUN, "settle", by, reason, {"outcome": "happened"}))
        scene.clock.advance(1)
        yield run.call(pay)

    result = scene.run(agent_of(way, script, pay))
    answer = scene.memory.answered(RUN, "s-1")

    assert ("unknown_effect", "rejected") == (result.reason, answer.status if answer else "")


# What a person says.


@pytest.mark.parametrize(
    ("gone", "verdict", "code"),
    [
        (False, clew.Happened("other"), "nothing_to_settle"),
        (False, clew.DidNotHappen(), "nothing_to_settle"),
        (True, clew.DidNotHappen(), "review_conflict"),
        (True, clew.GiveUp(), "review_conflict"),
        (True, clew.Happened("other"), ""),
    ],
)
def test_an_answer_that_was_told_is_only_replaced_when_it_is_lost(gone: bool, verdict: Any, code: str) -> None:
    """It is replayed as told, whatever is learnt later; and a refusal is no damage of the journal."""
    scene, runs = Scene(), [1, 2]
    long = clew.Tool(lambda: "x" * 20_000, name="pay")

    def script(run: Any) -> Any:
        yield run.call(long)
        if runs.pop(0) == 1:
            raise LookupError("a bug")

    scene.run(agent_of("plain", script, long))
    if gone:
        scene.blobs = MemoryBlobStore()
    found = ""
    try:
        scene.settle(verdict, "pay-1")
    except clew.Refused as fault:
        found = fault.code

    assert (code, None) == (found, scene.state.unclosed_leg)
