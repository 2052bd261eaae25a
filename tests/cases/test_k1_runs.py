"""Kinds K1 and K11 where a run and its conversation meet: aborts, failures, retries, summaries. Row by row."""

import asyncio
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.session.projecting import OUTCOME_UNKNOWN
from clew.errors import Refused
from clew.runtime.control import POLL_S
from clew.runtime.living import running_here
from clew.stores.base import Command
from clew.testing.clock import SetClock
from tests.cli.shell import Shell
from tests.core.session.scribe import asked, calling, result, session

RUN = "r1"


class Room:
    """A home in memory, its clock, and a model that counts how often it is asked."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.home = clew.Home.memory(clock=self.clock)
        self.requests: list[Any] = []

    def ask(self, request: Any) -> clew.Turn:
        self.requests.append(request)
        return clew.Turn("an answer")

    def abort(self) -> None:
        """What `clew abort` in another terminal leaves for the run."""
        self.home.reader.store.post(Command(1, "c-1", RUN, "abort", "ann", "enough", {}))
        self.clock.advance(POLL_S)

    def run(self, agent: Any, prompt: str = "go", *, run_id: str = RUN, **how: Any) -> clew.RunResult:
        given: dict[str, Any] = {"session": "talk", "signals": False} | how
        return self.home.run_sync(agent, prompt, run_id=run_id, **given)

    def events(self) -> list[dict[str, Any]]:
        return [line.payload["event"] for line, _ in self.home.reader.store.read(RUN) if line.kind == "event"]

    def sent(self) -> list[dict[str, Any]]:
        return list(self.home.project_session("talk").messages)


@pytest.fixture
def room() -> Room:
    return Room()


def calls_a_tool(room: Room, body: Callable[[], Any], **capability: Any) -> clew.Agent:
    """An agent whose model wants one call; call and result go to the session, then the model is asked again."""
    tool = clew.tool(name="pay", **capability)(body)

    def agent(run: Any, prompt: str) -> str:
        run.say({"role": "user", "content": prompt})
        run.turn(room.ask, run.conversation())
        run.say(asked("c1"))
        failed, text = False, ""
        try:
            text = str(run.call(tool))
        except clew.ToolError as fault:
            failed, text = True, str(fault)
        content = [{"type": "text", "text": text}]
        run.say({"role": "toolResult", "toolCallId": "c1", "toolName": "pay", "content": content, "isError": failed})
        return str(run.turn(room.ask, run.conversation()))

    found = clew.agent(name="orders", tools=[tool])(agent)
    assert isinstance(found, clew.Agent)
    return found


def aborting(room: Room) -> clew.Agent:
    """A person aborts it while its payment is under way, and nobody hears what became of that."""

    def body() -> None:
        room.abort()
        raise ConnectionError("no answer from the bank")

    return calls_a_tool(room, body, effect="external")


def answers(run: Any, prompt: str) -> int:
    run.say({"role": "user", "content": prompt})
    return int(run.turn(lambda request: clew.Turn(len(request)), run.conversation()))


# C02, C08: abort in a call.


def test_a_conversation_goes_on_after_an_abort_in_a_call(room: Room) -> None:
    """C02: the call has one result in what the next turn sends, and the run lists it as unknown."""
    aborted = room.run(aborting(room))

    after = room.run(answers, "and now?", run_id="r2")

    sent = [(each["role"], each.get("toolCallId")) for each in room.sent()]
    assert [("user", None), ("assistant", None), ("toolResult", "c1"), ("user", None)] == sent
    assert OUTCOME_UNKNOWN == room.sent()[2]["content"][0]["text"]
    assert ("failed", "completed", 4) == (aborted.operation.state, after.operation.state, after.output)
    [effect] = aborted.snapshot["effects"]
    assert ("pay", "unknown") == (effect["tool"], effect["status"])


def test_after_an_abort_no_model_is_asked(room: Room) -> None:
    """C08: an interrupted call is no open work; a request would be paid for and rejected."""
    room.run(aborting(room))
    before = len(room.requests)

    with pytest.raises(Refused, match=r"failed"):
        room.home.resume_sync(RUN, aborting(room), signals=False)

    assert (1, 1) == (before, len(room.requests))
    with room.home.session("talk") as talk:
        assert () == talk.judgement().open_operations


# C03: a tool that fails.


def raises() -> None:
    raise RuntimeError("the server broke off")


def refused() -> Any:
    return clew.Failed("-32603: internal error")


RELEASED = threading.Event()


def never() -> None:
    RELEASED.wait()


@pytest.mark.parametrize(
    ("body", "more"), [(raises, {}), (refused, {}), (never, {"timeout_s": 0})], ids=["raises", "protocol", "times out"]
)
def test_a_call_that_fails_has_one_result_before_the_model_is_asked_again(
    room: Room, body: Callable[[], Any], more: dict[str, Any]
) -> None:
    """C03: without it the provider rejects the next request, and every later one."""
    RELEASED.clear()
    result = room.run(calls_a_tool(room, body, effect="none", **more))
    RELEASED.set()
    while running_here():
        """What was left behind ends before another test looks who is still at work."""

    told = [each["type"] for each in room.events() if each["type"] in ("tool_call", "tool_result", "agent_start")]
    ends = [each["isError"] for each in room.events() if each["type"] == "tool_result"]
    assert ("completed", ["agent_start", "tool_call", "tool_result", "agent_start"]) == (result.operation.state, told)
    assert ([True], [True]) == (ends, [each["isError"] for each in room.sent() if each["role"] == "toolResult"])


# C05: orphans.


def test_a_doctor_counts_orphans_and_looking_adds_none(shell: Shell) -> None:
    """C05: three sessions, five orphans, and the doctor asked twice: not a byte is changed."""
    folder = shell.folder / ".clew" / "sessions"
    shell("run", "agent.py:settle", "1", "--run-id", "r1")
    folder.mkdir(exist_ok=True)
    old = {
        "one": [calling("a", None, "c1", "c2"), result("r", "a", "c1")],
        "two": [calling("a", None, "c1", "c2", "c3", "c4")],
        "three": [calling("a", None, "c1"), result("r", "a", "c1")],
    }
    for name, entries in old.items():
        (folder / f"{name}.jsonl").write_bytes(session(*entries, id=name))
    before = shell.bytes_and_times()

    told = [shell("doctor", "--json").json["facts"]["talks"] for _ in range(2)]

    assert told[0] == told[1]
    assert (3, 5) == (told[0]["sessions"], told[0]["orphanCalls"])
    assert {"one": 1, "two": 4} == {each["session"]: each["calls"] for each in told[0]["orphaned"]["first"]}
    assert before == shell.bytes_and_times()
    assert {"one": 1, "two": 4, "three": 0} == {
        row["session"]: row["orphanCalls"] for row in shell("session", "ls", "--json").json
    }


def test_a_message_that_is_sent_again_adds_no_orphan(room: Room) -> None:
    """C05: each retry of an interrupted message had added one more."""
    room.run(aborting(room))

    counts = []
    for number in range(2, 5):
        room.run(answers, "go on", run_id=f"r{number}")
        counts.append([each["orphanCalls"] for each in room.home.sessions()])

    assert [[1]] * 3 == counts


# C07: every way to cancel.


def by_abort(room: Room) -> None:
    room.abort()


def by_interrupts(_: Room) -> None:
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


def by_nothing(_: Room) -> None:
    """Its time runs out."""


def cancelled(room: Room, how: Callable[[Room], None], timeout_s: float | None) -> dict[str, Any]:
    """How the call was closed in the journal."""

    async def body() -> None:
        how(room)
        await asyncio.Event().wait()

    tool = clew.tool(name="pay", effect="external", timeout_s=timeout_s)(body)

    async def agent(run: clew.Run, prompt: str) -> None:
        await run.call(tool)

    notice: dict[str, Any] = {"signals": how is by_interrupts, "notice": lambda text: None}
    room.run(clew.agent(name="orders", tools=[tool])(agent), session=None, **notice)
    receipts = [each for each in room.events() if each["type"] == "effect_receipt"]
    return receipts[-1]


def test_every_way_to_cancel_a_call_closes_it_alike() -> None:
    """C07: abort command, Ctrl-C and timeout store the same record, so that whoever reads it knows one case."""
    ways = ((by_abort, None), (by_interrupts, None), (by_nothing, 0.0))

    closed = [cancelled(Room(), how, timeout_s) for how, timeout_s in ways]

    assert ["unknown"] * 3 == [each["status"] for each in closed]
    assert sorted(closed[0]) == sorted(closed[1]) == sorted(closed[2])
    assert closed[0]["idempotencyKey"] == closed[1]["idempotencyKey"] == closed[2]["idempotencyKey"]


# C108: a summary is no evidence.


def test_what_a_summary_says_of_finished_work_decides_nothing(tmp_path: Path) -> None:
    """C108: the conversation says that nothing was paid; the journal knows better, and it is not paid again."""
    home, paid, legs = clew.Home(tmp_path / ".clew"), list[str](), list[str]()

    @clew.tool(effect="external")
    def pay(order: str) -> str:
        paid.append(order)
        return f"T-{order}"

    @clew.agent(tools=[pay])
    def settle(run: Any, prompt: str) -> str:
        run.say({"role": "user", "content": prompt})
        answer = run.call(pay, order="7")
        legs.append(prompt)
        if len(legs) == 1:
            run.pause("lunch")
        run.say({"role": "assistant", "content": answer})
        return str(answer)

    home.run_sync(settle, "pay it", run_id=RUN, session="talk", signals=False)
    with home.session("talk") as talk:
        talk.compact("Nothing was paid yet; the payment is still pending.")
    result = home.resume_sync(RUN, settle, signals=False)

    assert ("completed", "T-7", ["7"]) == (result.operation.state, result.output, paid)
