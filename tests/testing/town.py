"""A bank that forgets on demand, and agents that pay with it, well and badly: what the kit for agents is tried on."""

import time
from typing import Any

import clew
from clew.testing import Report, crash_points


class Bank:
    """The outside world of a test: `payments` is what happened, `keys` is what a probe can find."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """A new world."""
        self.payments: list[tuple[str, int]] = []
        self.keys: list[str] = []

    def pay(self, call: clew.Call, order: str, cents: int = 100) -> dict[str, str]:
        """Money moves."""
        self.payments.append((order, cents))
        self.keys.append(call.key)
        return {"transfer": f"T-{order}"}

    async def pay_later(self, call: clew.Call, order: str, cents: int = 100) -> dict[str, str]:
        """As `pay`, from a coroutine."""
        return self.pay(call, order, cents)

    def pay_once(self, call: clew.Call, order: str, cents: int = 100) -> dict[str, str]:
        """A bank that honours keys."""
        return {"transfer": f"T-{order}"} if call.key in self.keys else self.pay(call, order, cents)

    def find(self, call: clew.Call) -> clew.Verdict:
        """An honest probe."""
        if call.key in self.keys:
            return clew.Happened({"transfer": f"T-{call.arguments['order']}"})
        return clew.DidNotHappen()

    def try_out(self, agent: Any, **how: Any) -> Report:
        """The kit over an agent, its payments listed, its world new each time."""
        return crash_points(agent, "go", **{"fresh": self.reset, "effects": lambda: self.payments, **how})


def touch_nothing(call: clew.Call) -> clew.Verdict:
    raise AssertionError("the real bank was asked")


@clew.tool(effect="external", probe=touch_nothing, in_doubt_s=30)
def pay(order: str, cents: int = 100) -> dict[str, str]:
    """The real thing; no test may come here."""
    raise AssertionError("real money moved")


@clew.tool
def wire(call: clew.Call, order: str) -> dict[str, str]:
    """The real thing, undeclared."""
    raise AssertionError("real money moved")


@clew.tool(effect="none")
def rate(order: str) -> int:
    """Looks something up."""
    return 100


@clew.agent(tools=[rate, pay])
def plain(run: clew.SyncRun, prompt: str) -> list[str]:
    """A good agent."""
    return [run.call(pay, order=order, cents=run.call(rate, order))["transfer"] for order in ("a", "b")]


@clew.agent(tools=[rate, pay])
async def awaiting(run: clew.Run, prompt: str) -> list[str]:
    """A good agent, on a loop."""
    rates = [await run.call(rate, order) for order in ("a", "b")]
    paid = [await run.call(pay, order=order, cents=cents) for order, cents in zip(("a", "b"), rates, strict=True)]
    return [each["transfer"] for each in paid]


@clew.agent(tools=[pay])
async def side_by_side(run: clew.Run, prompt: str) -> list[Any]:
    """A good agent that pays in parallel."""
    async with run.group() as group:
        for order in ("a", "b"):
            group.call(pay, order=order)
    return group.results


@clew.agent(tools=[pay])
def threaded(run: clew.SyncRun, prompt: str) -> list[Any]:
    """A good agent that pays in threads."""
    with run.group() as group:
        for order in ("a", "b"):
            group.call(pay, order=order)
    return group.results


@clew.agent(tools=[pay])
def stepwise(run: clew.SyncRun, prompt: str) -> list[Any]:
    """A good agent that pays inside of named steps."""
    return [run.step("settle", lambda order=order: run.call(pay, order=order)["transfer"]) for order in ("a", "b")]


def no_b(call: clew.Call) -> str | None:
    return "not b" if call.arguments["order"] == "b" else None


@clew.agent(tools=[pay], policy=no_b)
def refused(run: clew.SyncRun, prompt: str) -> list[Any]:
    """A good agent that is denied one payment and goes on."""
    told = []
    for order in ("b", "a"):
        try:
            told.append(run.call(pay, order=order)["transfer"])
        except clew.Denied as denied:
            told.append(denied.message)
    return told


@clew.agent(tools=[rate, pay])
def thorough(run: clew.SyncRun, prompt: str) -> list[Any]:
    """A good agent with all that a run offers."""
    orders = run.step("plan", lambda: ["a"])
    told = run.turn(lambda request: clew.Turn("ok", clew.Usage(tokens=1)), "may I?")
    luck = run.random() < 1 and run.uuid() != ""
    return [told, luck, *(run.call(pay, order=order) for order in orders)]


@clew.agent(tools=[wire])
def asking(run: clew.SyncRun, prompt: str) -> list[Any]:
    """A good agent whose tool says nothing of its effect."""
    return [run.call(wire, order=order) for order in ("a", "b")]


@clew.agent(tools=[pay])
def cautious(run: clew.SyncRun, prompt: str) -> str:
    """A good agent that catches what it may catch."""
    try:
        return str(run.call(pay, order="a")["transfer"])
    except Exception as fault:
        return f"could not: {type(fault).__name__}"


@clew.agent(tools=[pay])
def greedy(run: clew.SyncRun, prompt: str) -> str:
    """An agent that catches what it should not; the gate does not need it to behave."""
    try:
        run.call(pay, order="a")
    except BaseException:
        return "whatever"
    return "paid"


@clew.agent(tools=[rate])
def by_the_watch(run: clew.SyncRun, prompt: str) -> int:
    """A bad agent: its second life asks for something else."""
    return int(run.call(rate, order=str(time.time_ns())))


def loosely(run: clew.SyncRun, prompt: str) -> str:
    """An agent that declares no tools."""
    return str(run.call(wire, order="a")["transfer"])
