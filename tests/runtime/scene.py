"""A home in memory with a bank beside it: what the tests of the living run look at when an agent has acted."""

import asyncio
import inspect
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import clew
from clew.core.invariants import check
from clew.core.state import RunState
from clew.runtime.reader import Reader
from clew.runtime.tools import as_agent
from clew.stores.base import BlobStore, RunStore
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.testing.clock import SetClock
from clew.testing.crash import CrashPoint, crashing

RUN = "r1"


class Scene:
    """One home, its bytes and its clock; it outlives every process that dies in it."""

    def __init__(self, *, blobs: BlobStore | None = None) -> None:
        self.memory = MemoryRunStore()
        self.blobs: Any = blobs or MemoryBlobStore()
        self.clock = SetClock()
        self.bank = Bank(self)

    def home(self, point: CrashPoint | None = None, *, store: RunStore | None = None) -> clew.Home:
        """The home as one process opens it; it dies at `point`."""
        inner = store or (self.memory if point is None else crashing(self.memory, point))
        return clew.Home(".clew", takeover="proven", store=inner, blobs=self.blobs, clock=self.clock)

    def run(self, agent: Any, prompt: Any = "go", *, point: CrashPoint | None = None, **how: Any) -> clew.RunResult:
        """Run an agent in one process, an async one on a loop of its own, and look at what it left."""
        home = self.home(point)
        result = start(home, agent, prompt, **how)
        self.check()
        return result

    def resume(self, agent: Any, *, point: CrashPoint | None = None, **how: Any) -> clew.RunResult:
        """Let another process go on."""
        home = self.home(point)
        if as_agent(agent).is_async:
            result = asyncio.run(home.resume(RUN, agent, **how))
        else:
            result = home.resume_sync(RUN, agent, signals=False, **how)
        self.check()
        return result

    def die(self) -> None:
        """Every writer is gone, the bytes stay."""
        self.memory.forget_writers()

    def settle(self, verdict: Any, call: str | None = None) -> dict[str, Any]:
        return self.home().settle(RUN, verdict, by="ops", reason="looked it up", call=call)

    @property
    def state(self) -> RunState:
        """The run, folded from its bytes."""
        return Reader(self.memory, self.blobs, self.clock).see(RUN).state

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.memory.raw(RUN).splitlines()]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [line["payload"]["event"] for line in self.lines if line["kind"] == "event"]

    @property
    def words(self) -> list[str]:
        """What is said of calls, turns and steps: a receipt by its status, all else by its type."""
        return [event.get("status", event["type"]) for event in self.events]

    def said(self, kind: str) -> list[dict[str, Any]]:
        """The events of one type."""
        return [event for event in self.events if event["type"] == kind]

    def check(self) -> None:
        """What must hold whatever happened: DESIGN §1, promises 2, 5 and 8."""
        state = self.state
        records = list(Reader(self.memory, self.blobs, self.clock).records(RUN))
        assert not list(check(records))
        assert not (state.state == "completed" and state.unsettled())
        assert all(self.bank.promised), "a tool ran before its start was on disk"
        if state.finish is not None or records[-1].kind == "pause":
            assert state.unclosed_leg is None


class Forest(Scene):
    """A scene whose runs have children: what is said of a payment may stand in any journal."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for run_id in self.memory.ids() for line in self.memory.raw(run_id).splitlines()]


def start(home: clew.Home, agent: Any, prompt: Any = "go", **how: Any) -> clew.RunResult:
    """Run an agent to its end, in the way that fits it."""
    if as_agent(agent).is_async:
        return asyncio.run(home.run(agent, prompt, run_id=RUN, **how))
    return home.run_sync(agent, prompt, run_id=RUN, signals=False, **how)


class Bank:
    """The outside world: it never forgets a payment, and asks at each one whether its start was on disk."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._lock = threading.Lock()
        self.paid: list[str] = []
        self.orders: Counter[str] = Counter()
        self.promised: list[bool] = []

    def pay(self, call: clew.Call, order: str = "") -> str:
        """Money moves."""
        with self._lock:
            self.paid.append(call.key)
            self.orders[order] += 1
            self.promised.append(self._started(call))
        return f"transfer-{call.short}"

    def find(self, call: clew.Call) -> clew.Verdict:
        """The probe of an honest bank."""
        return clew.Happened(f"transfer-{call.short}") if call.key in self.paid else clew.DidNotHappen()

    def _started(self, call: clew.Call) -> bool:
        """Do the bytes say that this very attempt has started, and nothing after it?"""
        events = [event for event in self._scene.events if event.get("idempotencyKey") == call.key]
        events += [
            event for event in self._scene.events if str(event.get("attemptId", "")).partition("#")[0] == call.key
        ]
        receipts = [event for event in events if "status" in event]
        last = receipts[-1] if receipts else {}
        return (last.get("status"), last.get("attempt", 1)) == ("started", call.attempt)


WAYS = ("async", "thread", "plain")
"""An async agent and tool; an async agent whose tool is plain and runs in a thread; a plain agent and tool."""


def agent_of(way: str, script: Callable[[Any], Any], *tools: Any, **declared: Any) -> clew.Agent:
    """One script as an agent of either kind: a generator that yields what an async agent would await."""

    def plain(run: clew.SyncRun, prompt: Any) -> Any:
        steps, made = script(run), None
        while True:
            try:
                made = steps.send(made)
            except StopIteration as end:
                return end.value

    async def awaiting(run: clew.Run, prompt: Any) -> Any:
        steps, made, fault = script(run), None, None
        while True:
            try:
                made = steps.send(made) if fault is None else steps.throw(fault)
            except StopIteration as end:
                return end.value
            try:
                made, fault = (await made if inspect.isawaitable(made) else made), None
            except BaseException as struck:
                made, fault = None, struck

    return clew.Agent(plain if way == "plain" else awaiting, name="agent", tools=tools, **declared)


def tool_of(way: str, body: Callable[..., Any], **declared: Any) -> clew.Tool:
    """A plain body as a tool of either kind."""
    name = body.__name__
    if way != "async":
        return clew.Tool(body, name=name, **declared)

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return body(*args, **kwargs)

    awaited.__signature__ = inspect.signature(body)  # type: ignore[attr-defined]  # a function may say so
    return clew.Tool(awaited, name=name, **declared)


def paying(scene: Scene, way: str, then: Callable[[], Any] = lambda: None, **declared: Any) -> clew.Tool:
    """`pay(order)`: the money moves, then something happens before anybody hears of it."""

    def pay(call: clew.Call, order: str = "a") -> str:
        transfer = scene.bank.pay(call, order)
        then()
        return transfer

    return tool_of(way, pay, **{"effect": "external", **declared})


@contextmanager
def awaited_bodies() -> Iterator[None]:
    """The thread of every tool that is left behind within it has ended behind it; let them go inside."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("clew-tool-"):
            thread.join(60)


def lose_the_line() -> None:
    """The answer is lost on its way."""
    raise ConnectionError("the line is dead")
