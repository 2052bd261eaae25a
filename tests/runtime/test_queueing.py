"""Calls of one run that may change the same paths, side by side: each sees what it did itself, and nothing else."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.runtime.clock import SystemClock
from clew.runtime.door import Door
from clew.runtime.lanes import Lane, Lanes
from tests.runtime.scene import RUN, WAYS
from tests.runtime.study import Study, putting

PATIENCE_S = 20.0
"""How long a body waits for what will come; that it comes is what the test says."""

ONE: dict[str, Any] = {"path": "note", "text": "one"}
TWO: dict[str, Any] = {"path": "note", "text": "two"}

ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = Study(tmp_path)
    made.file().write_text("old")
    return made


class Queue:
    """Two calls of one run: the first body goes on when the second call stands behind it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Event()
        self.followed = threading.Event()
        self.entered = 0
        real = Lanes.enter

        def enter(lanes: Lanes, lane: Any) -> None:
            real(lanes, lane)
            self.entered += 1
            if self.entered == 2:
                self.followed.set()

        monkeypatch.setattr(Lanes, "enter", enter)

    def hold(self) -> None:
        """What the first body does."""
        self.begun.set()
        assert self.followed.wait(PATIENCE_S)

    def agent(
        self, way: str, first: clew.Tool, second: clew.Tool, one: dict[str, Any] = ONE, two: dict[str, Any] = TWO
    ) -> clew.Agent:
        """Calls the second when the body of the first has begun."""
        tools = [*{first.name: first, second.name: second}.values()]

        def plain(run: clew.SyncRun, prompt: str) -> Any:
            with run.group() as group:
                group.call(first, **one)
                assert self.begun.wait(PATIENCE_S)
                group.call(second, **two)
            return group.results

        async def agent(run: clew.Run, prompt: str) -> Any:
            async with run.group() as group:
                group.call(first, **one)
                await asyncio.to_thread(self.begun.wait, PATIENCE_S)
                group.call(second, **two)
            return group.results

        return clew.Agent(plain if way == "plain" else agent, name="agent", tools=tools)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    return Queue(monkeypatch)


def put(study: Study, deed: Callable[[], Any] = lambda: None, name: str = "put", **declared: Any) -> clew.Tool:
    """`put(path, text)`: something happens, then the file is written."""

    def body(path: str, text: str) -> str:
        study.starts.append(text)
        if text == "one":
            deed()
        study.file(path).write_text(text)
        return text

    return clew.Tool(body, name=name, **{"effect": "workspace", "paths": ("path",), **declared})


def texts(study: Study) -> list[tuple[Any, ...]]:
    """How each checkpoint says that the note stood, and was left."""

    def content(state: Any) -> Any:
        return None if state is None or state.sha256 is None else study.blobs.get(state.sha256).decode()

    return [
        (content((found.before or {}).get("note")), content((found.after or {}).get("note")))
        for found in study.checkpoints
    ]


@ways
def test_each_of_two_calls_on_one_path_keeps_its_own_work(study: Study, queue: Queue, way: str) -> None:
    """What one call is said to have left must be what it left, or putting it back takes the other's work away."""
    tool = put(study, queue.hold)
    result = study.run(queue.agent(way, tool, tool))

    assert (["one", "two"], [("old", "one"), ("one", "two")]) == (result.output, texts(study))


@ways
def test_a_call_that_may_change_anything_waits_for_all(study: Study, queue: Queue, way: str) -> None:
    """A command's changes are listed by two looks, and whatever changed between them counts as its own."""
    command = put(study, name="command", effect="process", paths=clew.WORKSPACE)
    study.run(queue.agent(way, put(study, queue.hold), command))

    assert [("old", "one"), ("one", "two")] == texts(study)


@ways
def test_a_call_that_declares_no_paths_waits_as_well(study: Study, queue: Queue, way: str) -> None:
    """Nobody knows what it changes, so it must not be in the middle of what another one says of itself."""
    silent = put(study, name="silent", paths=None)
    study.run(queue.agent(way, put(study, queue.hold), silent))

    assert ([("old", "one")], ["one", "two"]) == (texts(study), study.starts)


@ways
def test_a_call_whose_paths_cannot_be_told_yet_is_alone(
    study: Study, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """They may be told a moment later, when they are kept: in the middle of what another call says of itself."""
    fails, alone, enter = [MemoryError(), MemoryError()], list[bool](), Lanes.enter

    def watched(lanes: Lanes, lane: Lane) -> None:
        alone.append(lane.everywhere)
        enter(lanes, lane)

    def paths(path: str, text: str) -> list[str]:
        if fails:
            raise fails.pop()
        return [path]

    monkeypatch.setattr(Lanes, "enter", watched)
    result = study.run(putting(study, way, put(study, paths=paths)))

    assert ("completed", [True]) == (result.operation.state, alone)


@ways
def test_calls_on_other_paths_run_side_by_side(study: Study, way: str) -> None:
    """Ten edits of ten files need not wait for each other."""
    both = threading.Barrier(2)

    def meet(path: str) -> bool:
        both.wait(PATIENCE_S)
        return True

    meeting = clew.Tool(meet, effect="workspace", paths=("path",))

    def plain(run: clew.SyncRun, prompt: str) -> Any:
        with run.group() as group:
            group.call(meeting, path="a")
            group.call(meeting, path="b")
        return group.results

    async def agent(run: clew.Run, prompt: str) -> Any:
        async with run.group() as group:
            group.call(meeting, path="a")
            group.call(meeting, path="b")
        return group.results

    result = study.run(clew.Agent(plain if way == "plain" else agent, name="agent", tools=[meeting]))

    assert [True, True] == result.output


@ways
def test_nothing_starts_behind_a_call_whose_effect_is_open(study: Study, queue: Queue, way: str) -> None:
    """The gate closes for it, also before one that waited already: it changes nothing, and a resume begins it."""

    def torn() -> None:
        queue.hold()
        study.file().write_text("half")
        raise RuntimeError("torn")

    tool = put(study, torn)
    result = study.run(queue.agent(way, tool, tool))

    assert ("paused", ["one"], 1) == (result.operation.state, study.starts, study.kinds.count("started"))
    assert ["c1"] == [call["callId"] for call in study.said("tool_call")]


@ways
@pytest.mark.parametrize("how", ["pause", "abort"])
def test_a_run_that_is_called_off_starts_nothing_that_waits(
    study: Study, queue: Queue, way: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who stops a run must not see a file change afterwards."""

    study.clock = SystemClock()  # type: ignore[assignment]  # an inbox is looked into by the time
    closed, close = threading.Event(), Door.close

    def closing(door: Door, why: Any) -> None:
        close(door, why)
        closed.set()

    def stop() -> None:
        queue.hold()
        asking.start()
        assert closed.wait(PATIENCE_S)

    asking = threading.Thread(target=lambda: getattr(study.home(), how)(RUN, by="ann", reason="enough"))
    monkeypatch.setattr(Door, "close", closing)
    tool = put(study, stop)
    result = study.run(queue.agent(way, tool, tool))
    asking.join()

    expected = {"pause": "paused", "abort": "failed"}[how]
    assert (expected, ["one"], "one") == (result.operation.state, study.starts, study.text())
    assert 1 == study.kinds.count("started")


def test_a_call_that_is_cancelled_while_it_waits_has_not_started(study: Study, queue: Queue) -> None:
    """A cancelled task changes nothing, and nobody has to settle it."""
    tool = put(study, queue.hold)

    async def agent(run: clew.Run, prompt: str) -> Any:
        first = asyncio.ensure_future(run.call(tool, path="note", text="one"))
        await asyncio.to_thread(queue.begun.wait, PATIENCE_S)
        second = asyncio.ensure_future(run.call(tool, path="note", text="two"))
        await asyncio.to_thread(queue.followed.wait, PATIENCE_S)
        second.cancel()
        told = await asyncio.gather(first, second, return_exceptions=True)
        return [told[0], type(told[1]).__name__]

    result = study.run(clew.Agent(agent, name="agent", tools=[tool]))

    assert (["one", "CancelledError"], ["one"], "one") == (result.output, study.starts, study.text())


def test_a_path_that_leads_elsewhere_by_then_is_kept_where_it_leads(study: Study, queue: Queue) -> None:
    """The call that went first exchanged a link: what is kept must be the file that is written."""
    for name in ("d1", "d2"):
        study.file(name).mkdir()
        study.file(f"{name}/note").write_text(name)
    study.file("now").symlink_to("d1")

    def relink(path: str) -> None:
        queue.hold()
        study.file("now").unlink()
        study.file("now").symlink_to("d2")

    first = clew.Tool(relink, effect="workspace", paths=("path",))
    two = {"path": "now/note", "text": "two"}
    study.run(queue.agent("plain", first, put(study), {"path": "now"}, two))

    assert (["d2/note"], "d1", "two") == (
        sorted(study.checkpoints[1].before or {}), study.text("d1/note"), study.text("d2/note"),
    )  # fmt: skip


def test_a_child_waits_for_its_parent(study: Study, queue: Queue) -> None:
    """They work in one workspace, and each says what it changed there."""
    tool = put(study, queue.hold)

    async def child(run: clew.Run, prompt: str) -> Any:
        return await run.call(tool, path="note", text="two")

    async def agent(run: clew.Run, prompt: str) -> Any:
        first = asyncio.ensure_future(run.call(tool, path="note", text="one"))
        await asyncio.to_thread(queue.begun.wait, PATIENCE_S)
        told = await run.child(clew.Agent(child, name="child", tools=[tool]), "go")
        return [await first, told]

    result = study.run(clew.Agent(agent, name="agent", tools=[tool]))

    assert (["one", "two"], ["one", "two"], [("old", "one")]) == (result.output, study.starts, texts(study))


@ways
def test_a_call_whose_turn_comes_when_the_time_of_the_run_is_over_does_not_start(
    study: Study, queue: Queue, way: str
) -> None:
    """It was in time when it was allowed; what it waited for was not, and a limit refuses the next start."""

    def outlast() -> None:
        queue.hold()
        study.clock.advance(100)

    tool = put(study, outlast)
    result = study.run(queue.agent(way, tool, tool), budget=clew.RunBudget(run_timeout_s=50))

    assert ("paused", "run_timeout", ["one"]) == (result.operation.state, result.reason, study.starts)
