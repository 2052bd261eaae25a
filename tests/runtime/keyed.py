"""A firm that pays orders under business keys: what the tests of keys look at."""

import asyncio
from collections.abc import Callable
from typing import Any

import clew
from clew.errors import ClewError
from clew.stores.keys import MemoryKeyIndex
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.testing.clock import SetClock
from clew.testing.crash import CrashPoint, crashing
from tests.runtime.scene import agent_of, tool_of


class Firm:
    """A home in memory with its index, and what was really paid there, by run."""

    def __init__(self, index: Any = None) -> None:
        self.memory: Any = MemoryRunStore()
        self.blobs, self.clock = MemoryBlobStore(), SetClock()
        self.index = MemoryKeyIndex() if index is None else index
        self.paid: list[tuple[str, str]] = []

    def home(self, point: CrashPoint | None = None) -> clew.Home:
        store = self.memory if point is None else crashing(self.memory, point)
        parts: dict[str, Any] = {"store": store, "blobs": self.blobs, "clock": self.clock, "keys": self.index}
        return clew.Home(".clew", takeover="proven", **parts)

    def tool(self, way: str = "plain", then: Callable[[], Any] = lambda: None, **declared: Any) -> clew.Tool:
        """`pay(order)`: money moves, then something happens."""

        name = declared.pop("name", "pay")

        def pay(call: clew.Call, order: Any = "1042", cents: int = 1, password: str = "") -> Any:
            self.paid.append((call.key.partition(":")[0], str(order)))
            return then() or {"transfer": f"T-{call.short}"}

        pay.__name__ = name
        return tool_of(way, pay, **{"effect": "external", "key": lambda order, **_: order, **declared})

    def run(self, run_id: str, tool: clew.Tool, *orders: Any, way: str = "plain", **how: Any) -> clew.RunResult:
        """Pay each order; what is refused is told in its place."""
        agent = payer(way, tool, *orders or ("1042",))
        if agent.is_async:
            return asyncio.run(self.home(how.pop("point", None)).run(agent, None, run_id=run_id, **how))
        return self.home(how.pop("point", None)).run_sync(agent, None, run_id=run_id, signals=False, **how)

    def resume(self, run_id: str, tool: clew.Tool, *orders: Any) -> clew.RunResult:
        return self.home().resume_sync(run_id, payer("plain", tool, *orders or ("1042",)), signals=False)

    def words(self, run_id: str) -> list[str]:
        said = [record.payload["event"] for record in self.home().reader.records(run_id) if record.kind == "event"]
        return [event.get("status", event["type"]) for event in said if event["type"] != "error"]


def payer(way: str, tool: clew.Tool, *orders: Any) -> clew.Agent:
    def script(run: Any) -> Any:
        told = []
        for order in orders:
            try:
                told.append((yield run.call(tool, order)))
            except clew.ToolError as fault:
                told.append({"refused": fault.code, **{name: fault.facts.get(name) for name in ("run", "state")}})
        return told

    if way != "plain":
        return agent_of(way, script, tool)

    def plain(run: Any, prompt: Any) -> Any:
        told = []
        for order in orders:
            try:
                told.append(run.call(tool, order))
            except clew.ToolError as fault:
                told.append({"refused": fault.code, **{name: fault.facts.get(name) for name in ("run", "state")}})
        return told

    return clew.Agent(plain, name="agent", tools=[tool])


def held(run: str, state: str = "committed") -> dict[str, Any]:
    return {"refused": "key_held", "run": run, "state": state}


def boom() -> None:
    raise ConnectionError("the line is dead")


def unfunded() -> None:
    raise clew.NothingHappened("no funds")


def raising(tool: clew.Tool) -> clew.Agent:
    """An agent that lets go of nothing: what it is refused, its caller hears."""

    def agent(run: Any, prompt: Any) -> Any:
        run.call(tool, "1042")

    return clew.Agent(agent, name="agent", tools=[tool])


def pay_in(home: clew.Home, run_id: str, *orders: Any, **declared: Any) -> clew.RunResult:
    firm = Firm()
    agent = payer("plain", firm.tool(**declared), *orders or ("1042",))
    return home.run_sync(agent, None, run_id=run_id, signals=False)


def pay_in_raising(home: clew.Home, run_id: str, order: str = "1042") -> ClewError:
    tool, met = Firm().tool(), list[ClewError]()

    def agent(run: Any, prompt: Any) -> Any:
        try:
            run.call(tool, order)
        except ClewError as fault:
            met.append(fault)

    home.run_sync(clew.Agent(agent, tools=[tool]), None, run_id=run_id, signals=False)
    return met[0]
