"""What happens where themes meet: approvals, limits, keys, aborts, checks and extensions of one run at one moment."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import clew
from clew.core.folding import fold
from clew.core.records import Batch
from clew.errors import ClewError
from clew.runtime.extensions import Extension
from clew.stores.base import Command
from clew.stores.keys import MemoryKeyIndex
from clew.stores.memory import MemoryRunStore
from tests.runtime.keyed import Firm
from tests.runtime.scene import agent_of

RUN = "r1"
WHO: dict[str, Any] = {"by": "ann", "reason": "looked"}


def sound(firm: Firm) -> None:
    """Every run of the home is read again without a finding, by both readers."""
    home = firm.home()
    for run_id in firm.memory.ids():
        assert [] == home.verify(run_id, deep=True)["findings"]
        fold(firm.memory.read(run_id), run_id)


# A deed whose append is queued behind the one that puts `aborting` on the disk.


class Slow(MemoryRunStore):
    """A store whose append of an abort lasts until the agent has done what it does meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.meanwhile: Callable[[], None] = lambda: None

    def open(self, run_id: str, **how: Any) -> Any:
        return SlowWriter(self, super().open(run_id, **how))

    def create(self, run_id: str, batch: Batch, **how: Any) -> Any:
        return SlowWriter(self, super().create(run_id, batch, **how))


class SlowWriter:
    def __init__(self, store: Slow, writer: Any) -> None:
        self._store = store
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, batch: Batch, *, starts_effect: bool = False) -> int:
        if any(record.kind == "operation" and record.payload["to"] == "aborting" for record in batch.records):
            assert self._store.loop is not None
            self._store.loop.call_soon_threadsafe(self._store.meanwhile)
            for _ in range(50):
                turned = threading.Event()
                self._store.loop.call_soon_threadsafe(turned.set)
                turned.wait(10)
        return int(self._writer.append(batch, starts_effect=starts_effect))


async def _denied(run: clew.Run, pay: clew.Tool, go: asyncio.Event) -> None:
    await run.propose(pay, "1")


async def _asked(run: clew.Run, pay: clew.Tool, go: asyncio.Event) -> None:
    await go.wait()
    await run.propose(pay, "1")


async def _called(run: clew.Run, pay: clew.Tool, go: asyncio.Event) -> None:
    await go.wait()
    await run.call(pay, "1")


async def _turned(run: clew.Run, pay: clew.Tool, go: asyncio.Event) -> None:
    async def model(request: Any) -> Any:
        await go.wait()
        return clew.Turn("said", usage=clew.Usage(input_tokens=3, output_tokens=4))

    await run.turn(model, {"ask": 1})


async def _turn_begun(run: clew.Run, pay: clew.Tool, go: asyncio.Event) -> None:
    async def model(request: Any) -> Any:
        return "said"

    await go.wait()
    await run.turn(model, {"ask": 1})


async def _checked(run: clew.Run, pay: clew.Tool, go: asyncio.Event) -> None:
    async def look() -> bool:
        await go.wait()
        return True

    await run.check("the books", look)


async def _stepped(run: clew.Run, pay: clew.Tool, go: asyncio.Event) -> None:
    await run.step("plan", go.wait)


async def _recorded(run: clew.Run, pay: clew.Tool, go: asyncio.Event) -> None:
    await go.wait()
    await run.record("loop", {"status": "planning", "iteration": 1})


async def _steered(run: clew.Run, pay: clew.Tool, go: asyncio.Event) -> None:
    await go.wait()
    await run.steering()


async def _valued(run: clew.Run, pay: clew.Tool, go: asyncio.Event) -> None:
    await go.wait()
    run.now()
    await run.steering()


async def _ended(run: clew.Run, pay: clew.Tool, go: asyncio.Event) -> None:
    await go.wait()


DEEDS = [
    _denied, _asked, _called, _turned, _turn_begun, _checked, _stepped, _recorded, _steered, _valued, _ended,
]  # fmt: skip


@pytest.mark.parametrize("as_answer", [False, True], ids=["no", "no as answer"])
@pytest.mark.parametrize("deed", DEEDS, ids=[deed.__name__[1:] for deed in DEEDS])
def test_what_is_said_while_an_abort_reaches_the_disk_comes_too_late_and_hurts_nothing(
    deed: Any, as_answer: bool
) -> None:
    """#95 to #99: an abort that meets a person's no, a question or a text ends the run as aborted, not as broken."""
    firm, store = Firm(), Slow()
    firm.memory = store
    pay = firm.tool("async")
    go = asyncio.Event()
    home = firm.home()

    def aborted() -> None:
        store.post(Command(1, "steer-1", RUN, "steer", "ann", "looked", {"text": "hurry"}))
        store.post(Command(1, "stop-1", RUN, "abort", "ann", "looked", {}))

    async def agent(run: clew.Run, prompt: Any) -> Any:
        aborted()
        await deed(run, pay, go)

    async def approver(request: clew.ApprovalRequest) -> Any:
        await go.wait()
        return clew.Reject("ann", "too much", as_answer)

    async def go_on() -> Any:
        store.loop, store.meanwhile = asyncio.get_running_loop(), go.set
        return await home.run(clew.Agent(agent, name="agent", tools=[pay]), None, run_id=RUN, approver=approver)

    result = asyncio.run(go_on())

    assert ("failed", "aborted", []) == (result.operation.state, result.reason, firm.paid)
    sound(firm)


# A person's word and a business key.


def proposer(tool: clew.Tool, *orders: str) -> clew.Agent:
    """A plain agent that proposes each order as a model does, and goes on when it is refused one."""

    def agent(run: clew.SyncRun, prompt: Any) -> Any:
        told = []
        for order in orders or ("1042",):
            try:
                told.append(run.propose(tool, order))
            except clew.ToolError as fault:
                told.append(type(fault).__name__)
        return told

    return clew.Agent(agent, name="agent", tools=[tool])


def propose(firm: Firm, run_id: str, tool: clew.Tool, *orders: str, **how: Any) -> clew.RunResult:
    return firm.home().run_sync(proposer(tool, *orders), None, run_id=run_id, signals=False, **how)


def go_on(firm: Firm, run_id: str, tool: clew.Tool, *orders: str, **how: Any) -> clew.RunResult:
    return firm.home().resume_sync(run_id, proposer(tool, *orders), signals=False, **how)


def yes(request: clew.ApprovalRequest) -> Any:
    return clew.Approve("ann", "looked")


def deny_by_inbox(firm: Firm, tool: clew.Tool) -> None:
    """The no reaches the run while its approver is asked."""

    def approver(request: clew.ApprovalRequest) -> Any:
        told = {"approval": request.approval_id, "asAnswer": False}
        firm.memory.post(Command(1, "no-1", RUN, "deny", "ann", "too much", told))
        firm.clock.advance(1)
        while not request.over():
            threading.Event().wait(0.01)

    propose(firm, RUN, tool, approver=approver)


def deny_at_the_desk(firm: Firm, tool: clew.Tool) -> None:
    """The no is said while nobody runs the run."""
    propose(firm, RUN, tool)
    firm.home().deny(RUN, **WHO)


def deny_when_asked(firm: Firm, tool: clew.Tool) -> None:
    """The no is the approver's."""
    propose(firm, RUN, tool, approver=lambda request: clew.Reject("ann", "too much"))


@pytest.mark.parametrize("deny", [deny_by_inbox, deny_at_the_desk, deny_when_asked])
def test_a_call_that_was_denied_once_takes_its_key_when_it_is_allowed_after_all(deny: Any) -> None:
    """One execution a business key: a no must not make a call forget what it is for."""
    firm = Firm()
    deny(firm, firm.tool())
    firm.run("r2", firm.tool())
    result = go_on(firm, RUN, firm.tool(), approver=yes)

    assert ([("r2", "1042")], ["KeyHeld"]) == (firm.paid, result.output)
    sound(firm)


@pytest.mark.parametrize("deny", [deny_by_inbox, deny_at_the_desk, deny_when_asked])
def test_a_call_that_was_denied_once_is_found_by_its_key_when_it_has_happened(deny: Any) -> None:
    """Who looks for the key must find the run that paid, also in an index that was built anew."""
    firm = Firm()
    deny(firm, firm.tool())
    go_on(firm, RUN, firm.tool(), approver=yes)
    second = firm.run("r2", firm.tool())
    firm.index = MemoryKeyIndex()
    firm.home().rebuild_keys()

    assert ([(RUN, "1042")], [RUN]) == (firm.paid, [row["run"] for row in firm.home().find_key("1042")])
    assert "key_held" == second.output[0]["refused"]
    sound(firm)


# A permission that lapses on the way to its start.


@pytest.mark.parametrize("way", ["plain", "async"])
def test_a_permission_that_lapses_while_an_extension_is_asked_starts_nothing(way: str) -> None:
    """A yes until two o'clock is no yes behind it; a resume asks anew, naming the one that lapsed."""
    firm = Firm()
    pay = firm.tool(way)
    slow = Extension("slow", "1.0", before_tool=lambda payload: firm.clock.advance(100))
    home = clew.Home(
        ".clew", takeover="proven", store=firm.memory, blobs=firm.blobs, clock=firm.clock, keys=firm.index,
        extensions=[slow], trusted={"slow": ()},
    )  # fmt: skip
    agent = agent_of(way, lambda run: (yield run.propose(pay, "1042")), pay)

    def approver(request: clew.ApprovalRequest) -> Any:
        return clew.Approve("ann", "looked", expires_in_s=10)

    if way == "plain":
        result = home.run_sync(agent, None, run_id=RUN, signals=False, approver=approver)
    else:
        result = asyncio.run(home.run(agent, None, run_id=RUN, approver=approver))

    assert ("paused", "approval_required", 20, []) == (
        result.operation.state, result.reason, result.exit_code, firm.paid,
    )  # fmt: skip
    sound(firm)
    again = asyncio.run(firm.home().resume(RUN, agent, approver=yes))
    assert ("completed", 1) == (again.operation.state, len(firm.paid))
    sound(firm)


# Who has a key, when its run came to nothing.


def aborted(firm: Firm) -> None:
    propose(firm, RUN, firm.tool())
    firm.home().approve(RUN, **WHO)
    firm.home().abort(RUN, **WHO)


def limited(firm: Firm) -> None:
    propose(firm, RUN, firm.tool(), budget=clew.RunBudget(max_calls=0), approver=yes)


def out_of_time(firm: Firm) -> None:
    def slow(request: clew.ApprovalRequest) -> Any:
        firm.clock.advance(100)
        return clew.Approve("ann", "looked")

    propose(firm, RUN, firm.tool(), budget=clew.RunBudget(run_timeout_s=50), approver=slow)


def asked(firm: Firm) -> None:
    propose(firm, RUN, firm.tool())


def denied(firm: Firm) -> None:
    deny_at_the_desk(firm, firm.tool())


@pytest.mark.parametrize("ends", [aborted, limited, out_of_time, asked, denied])
def test_a_run_that_never_started_a_call_never_had_its_key(ends: Any) -> None:
    """A key is taken right before a start: whoever waits, is refused or runs out of something holds nobody up."""
    firm = Firm()
    ends(firm)
    before = firm.index.mark() and firm.home().find_key("1042")
    firm.run("r2", firm.tool())

    assert (False, [("r2", "1042")], ["r2"]) == (
        bool(before), firm.paid, [row["run"] for row in firm.home().find_key("1042")],
    )  # fmt: skip
    sound(firm)


def test_an_aborted_run_keeps_the_key_of_what_it_had_started() -> None:
    """Nobody knows whether it happened, and after an abort nobody will: another run must not pay beside it."""
    firm = Firm()

    def lose() -> None:
        raise ConnectionError("the line is dead")

    propose(firm, RUN, firm.tool(then=lose), approver=yes)
    firm.home().abort(RUN, **WHO)
    second = firm.run("r2", firm.tool())

    assert ("key_held", 1) == (second.output[0]["refused"], len(firm.paid))
    sound(firm)


# Time and limits beside a person.


def test_the_time_in_which_a_person_was_asked_counts_and_their_yes_is_kept() -> None:
    """The leg was running; what was allowed in it starts under a new limit without being asked for again."""
    firm = Firm()
    out_of_time(firm)
    first = firm.home().result(RUN)
    result = go_on(firm, RUN, firm.tool(), budget=clew.RunBudget(run_timeout_s=150))

    assert ("run_timeout", "completed", 1) == (first.reason, result.operation.state, len(firm.paid))
    sound(firm)


def test_a_call_that_waited_for_a_person_is_counted_once() -> None:
    """Asked in one leg, allowed in another, started in a third: one call of the one that it may have."""
    firm, budget = Firm(), clew.RunBudget(max_calls=1)
    propose(firm, RUN, firm.tool(), budget=budget)
    go_on(firm, RUN, firm.tool(), budget=budget)
    firm.home().approve(RUN, **WHO)
    result = go_on(firm, RUN, firm.tool(), budget=budget)

    assert ("completed", 1, 1) == (
        result.operation.state, len(firm.paid), result.snapshot["metrics"]["toolCalls"],
    )  # fmt: skip
    sound(firm)


# A word at the very end of a leg.


@pytest.mark.parametrize(
    ("word", "reason", "paid"), [("approve", "approval_required", 1), ("deny", "tool_approval_denied", 0)]
)
def test_a_word_that_comes_when_the_leg_is_ending_is_kept(word: str, reason: str, paid: int) -> None:
    """The inbox is looked into once more before the last append; the sender was told, so a resume must know."""
    firm = Firm()

    def agent(run: clew.SyncRun, prompt: Any) -> Any:
        try:
            return run.propose(pay, "1042")
        except clew.Stop:
            firm.memory.post(Command(1, "word-1", RUN, word, "ann", "looked", {"approval": "a1"}))
            raise

    pay = firm.tool()
    made = clew.Agent(agent, name="agent", tools=[pay])
    first = firm.home().run_sync(made, None, run_id=RUN, signals=False)
    answer = firm.memory.answered(RUN, "word-1")
    firm.home().resume_sync(RUN, made, signals=False)

    assert (reason, "applied", paid) == (first.reason, answer.status if answer else "", len(firm.paid))
    sound(firm)


# Behind an abort.


@pytest.mark.parametrize("started", [False, True], ids=["asked", "lost"])
def test_behind_an_abort_every_word_is_refused_and_changes_nothing(started: bool) -> None:
    """#93: an aborted run never resumes; who comes too late is told so, and the journal stays as it is."""
    firm = Firm()

    def lose() -> None:
        raise ConnectionError("the line is dead")

    pay = firm.tool(then=lose)
    propose(firm, RUN, pay, approver=yes if started else None)
    home = firm.home()
    home.abort(RUN, **WHO, control_id="stop-1")
    before = firm.memory.raw(RUN)
    said = {
        "again": lambda: home.abort(RUN, **WHO, control_id="stop-2"),
        "resume": lambda: go_on(firm, RUN, pay),
        "approve": lambda: home.approve(RUN, **WHO),
        "deny": lambda: home.deny(RUN, **WHO),
        "steer": lambda: home.steer(RUN, "hurry", by="ann"),
        "pause": lambda: home.pause(RUN, **WHO),
    }
    codes = {name: refused(deed) for name, deed in said.items()}

    over = "run_already_finished"
    assert {
        "again": over, "resume": over, "approve": "nothing_to_approve", "deny": "nothing_to_approve", "steer": over,
        "pause": "run_not_living",
    } == codes  # fmt: skip
    assert before == firm.memory.raw(RUN)
    assert "duplicate" == home.abort(RUN, **WHO, control_id="stop-1")["status"]
    sound(firm)


def refused(deed: Callable[[], Any]) -> str:
    with pytest.raises(ClewError) as caught:
        deed()
    return caught.value.code


# A permission for what has no effect.


def test_a_permission_for_what_has_no_effect_is_used_up_by_its_answer() -> None:
    """It starts without a receipt; a second look is asked for anew, and a death before the answer asks for nothing."""
    firm = Firm()
    look = firm.tool(name="look", key=None, effect="none")

    def policy(call: clew.Call) -> Any:
        return clew.Ask("somebody looks at it")

    def agent(run: clew.SyncRun, prompt: Any) -> Any:
        return [run.call(look, "1042"), run.call(look, "1042")]

    made = clew.Agent(agent, name="agent", tools=[look], policy=policy)
    firm.home().run_sync(made, None, run_id=RUN, signals=False)
    firm.home().approve(RUN, **WHO)
    second = firm.home().resume_sync(RUN, made, signals=False)
    firm.home().approve(RUN, **WHO)
    third = firm.home().resume_sync(RUN, made, signals=False)

    assert (["pending"], "completed", 2) == (
        [row["standing"] for row in second.waiting], third.operation.state, len(firm.paid),
    )  # fmt: skip
    sound(firm)
