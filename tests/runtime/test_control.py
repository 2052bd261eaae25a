"""Commands that reach a living run: the inbox, and the signals of a terminal."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.core.canon import fingerprint
from clew.runtime.control import POLL_S
from clew.runtime.deeds import DEEDS, Deed
from clew.stores.base import Command, CommandAnswer
from tests.disk.living import living
from tests.runtime.stage import (
    RUN,
    Death,
    Mortal,
    code_of,
    dies,
    events_of,
    kinds_of,
    mortal_home,
    records_of,
    state_of,
)


def command(name: str = "c-1", kind: str = "pause", **arguments: Any) -> Command:
    return Command(1, name, RUN, kind, "bob", "lunch", arguments)


def posting(home: clew.Home, *commands: Command) -> clew.Tool:
    """A tool during whose call another process posts these commands, and time passes."""

    def post() -> None:
        clock: Any = home._parts.clock
        for each in commands:
            home.reader.store.post(each)
        clock.advance(POLL_S)

    return clew.tool(name="post", effect="none")(post)


def agent_of(tool: clew.Tool, *, is_async: bool = False) -> clew.Agent:
    """Calls the tool, then does something more."""

    def plain(run: clew.SyncRun, prompt: Any) -> str:
        run.call(tool)
        run.step("more", lambda: 1)
        return "done"

    async def on_loop(run: clew.Run, prompt: Any) -> str:
        await run.call(tool)
        await asyncio.Event().wait()
        return "done"

    found = clew.agent(name="orders", tools=[tool])(on_loop if is_async else plain)
    assert isinstance(found, clew.Agent)
    return found


def told(home: clew.Home, name: str = "c-1") -> CommandAnswer:
    answer = home.reader.store.answered(RUN, name)
    assert answer is not None
    return answer


def states(home: clew.Home) -> list[str]:
    return [event["state"] for event in events_of(home, "control")]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(("kind", "end"), [("pause", ("paused", "pause_requested")), ("abort", ("failed", "aborted"))])
def test_a_command_is_recorded_applied_and_answered(kind: str, end: tuple[str, str], is_async: bool) -> None:
    """On the record before it acts, and again when it has; its sender hears of it."""
    home, _ = mortal_home()
    result = home.run_sync(agent_of(posting(home, command(kind=kind)), is_async=is_async), run_id=RUN)

    assert end == (result.operation.state, result.reason)
    assert (["accepted", "applied"], "applied") == (states(home), told(home).status)


def test_an_accepted_command_carries_its_content() -> None:
    """Who asked, for what, and why: the answer's file may be gone, the journal stays."""
    home, _ = mortal_home()
    home.run_sync(agent_of(posting(home, command())), run_id=RUN)

    event = events_of(home, "control")[0]

    assert ("pause", "bob", "lunch") == tuple(event["command"][name] for name in ("type", "by", "reason"))


@pytest.mark.parametrize(
    "wrong",
    [
        command(kind="dance"),
        command(kind="settle"),
        command(kind="settle", call="post-1", outcome="happened", evidence=5),
        command(kind="settle", call=5, outcome="happened"),
        command(kind="settle", call="post-1", outcome="happened", attempt="1"),
        command(kind="steer"),
        command(kind="steer", text=" "),
        command(kind="steer", text="x" * 100_001),
        msgspec.structs.replace(command(), by=" "),
        msgspec.structs.replace(command(), reason=""),
    ],
)
def test_a_command_that_nobody_understands_is_refused_and_nothing_is_recorded(wrong: Command) -> None:
    """Contract #207: the inbox is a folder, and what stands in it must never break a run or fill its journal."""
    home, _ = mortal_home()
    result = home.run_sync(agent_of(posting(home, wrong)), run_id=RUN)

    assert ("completed", []) == (result.operation.state, states(home))
    assert ("rejected", "control_invalid") == (told(home).status, told(home).code)


def test_a_command_that_cannot_be_done_is_recorded_as_rejected_and_the_run_goes_on() -> None:
    """Contract #209: it was understood and taken; why it was not done stands beside it, whoever asks later."""
    home, _ = mortal_home()
    result = home.run_sync(
        agent_of(posting(home, command(kind="settle", call="pay-9", outcome="happened"))), run_id=RUN
    )

    assert ("completed", ["accepted", "rejected"]) == (result.operation.state, states(home))
    assert ("rejected", True) == (told(home).status, "no call 'pay-9'" in events_of(home, "control")[1]["reason"])


def test_a_deed_that_raises_whatever_is_recorded_as_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract #209: a fault of the deed is no fault of the run, and nobody is told that it was done."""

    def raising(gate: Any, given: Command) -> Any:
        yield from ()
        raise LookupError("nothing there")

    monkeypatch.setitem(DEEDS, "pause", Deed(lambda arguments: None, raising))
    home, _ = mortal_home()
    result = home.run_sync(agent_of(posting(home, command())), run_id=RUN)

    assert ("completed", ["accepted", "rejected"]) == (result.operation.state, states(home))
    assert "LookupError: nothing there" == told(home).reason


def test_a_command_of_another_run_is_refused() -> None:
    """Contract #210: a copied folder must not steer this run by what was said of that one."""
    home, store = mortal_home()
    stray = msgspec.structs.replace(command(), run_id="orders-2")

    def slip() -> None:
        store._journals[RUN].commands["c-1"] = stray
        posting(home)()

    result = home.run_sync(agent_of(clew.tool(name="slip", effect="none")(slip)), run_id=RUN)

    assert ("completed", []) == (result.operation.state, states(home))
    assert ("rejected", "control_run_mismatch") == (told(home).status, told(home).code)


def test_facts_of_commands_that_contradict_each_other_are_corrupt() -> None:
    """Contract #210: a journal that says twice what became of a command is believed in neither."""
    home, store = mortal_home()
    home.run_sync(agent_of(posting(home, command())), run_id=RUN)
    store._journals[RUN].data = bytearray(store.raw(RUN).replace(b'"state":"applied"', b'"state":"applied!"'))

    assert "run_state_corrupt" == code_of(home.result, RUN)


def test_commands_posted_at_the_very_end_are_drained() -> None:
    """Contract #208: closing looks once more: what came before the last append is decided by this leg."""
    home, _ = mortal_home()

    def last(run: clew.SyncRun, prompt: Any) -> str:
        home.reader.store.post(command())
        return "done"

    result = home.run_sync(clew.agent(name="orders")(last), run_id=RUN)

    assert ("paused", "applied") == (result.operation.state, told(home).status)


def answer_lost(home: clew.Home, store: Mortal, **changes: Any) -> None:
    """The command was applied; the process died before its sender was told, and its file was written again."""
    home.run_sync(agent_of(posting(home, command(**changes))), run_id=RUN)
    del store._journals[RUN].answers["c-1"]


def test_a_command_that_was_applied_before_a_death_is_a_duplicate() -> None:
    """Contract #203: it is not applied twice: this leg is not paused by yesterday's request."""
    home, store = mortal_home()
    answer_lost(home, store)
    result = home.resume_sync(RUN, agent_of(posting(home)))

    assert ("completed", "duplicate", "applied") == (result.operation.state, told(home).status, told(home).duplicate_of)
    assert ["accepted", "applied"] == states(home)
    placed = [number for number, word in enumerate(kinds_of(records_of(home)), 1) if word == "control"]
    assert placed == [told(home).accepted_sequence, told(home).applied_sequence]


def test_a_command_that_was_rejected_before_a_death_is_a_duplicate_of_that() -> None:
    """Its sender must not take "duplicate" for "done"."""
    home, store = mortal_home()
    paused, wrong = command("c-2"), command(kind="settle", call="pay-9", outcome="happened")
    home.run_sync(agent_of(posting(home, wrong, paused)), run_id=RUN)
    del store._journals[RUN].answers["c-1"]
    home.resume_sync(RUN, agent_of(posting(home)))

    assert ("duplicate", "rejected") == (told(home).status, told(home).duplicate_of)
    assert "no call 'pay-9'" in told(home).reason


def test_the_same_id_with_another_content_is_a_conflict() -> None:
    """Contract #205: the first stays bound."""
    home, store = mortal_home()
    answer_lost(home, store)
    store._journals[RUN].commands["c-1"] = command(kind="abort")
    result = home.resume_sync(RUN, agent_of(posting(home)))

    assert ("completed", "conflict") == (result.operation.state, told(home).status)


@pytest.mark.parametrize("lost", [False, True])
def test_a_command_that_was_only_accepted_is_applied_by_the_next_leg(lost: bool) -> None:
    """Contract #204: it was promised; the death in between does not unsay it, nor the loss of its file."""
    home, store = mortal_home()
    tool = posting(home, command())
    store.die_at(4)  # birth, call, answer, accepted, and then the step that says "applied"
    dies(home.run_sync, agent_of(tool), run_id=RUN)
    store.revive()
    before = states(home)
    if lost:
        del store._journals[RUN].commands["c-1"]
    result = home.resume_sync(RUN, agent_of(clew.tool(name="post", effect="none")(posting(home).body)))

    assert (["accepted"], "pause_requested") == (before, result.reason)
    assert ["accepted", "applied"] == states(home)


class Deaf(Mortal):
    """A store whose inbox cannot be read or written."""

    def pending(self, run_id: str) -> Any:
        raise clew.Storage("no", code="storage_denied", next="-")

    def answer(self, run_id: str, answer: CommandAnswer) -> None:
        raise clew.Storage("no", code="storage_denied", next="-")


def test_a_run_does_not_depend_on_its_inbox() -> None:
    """A folder that cannot be read is no reason to stop paying."""
    home, _ = mortal_home(store=Deaf())
    result = home.run_sync(agent_of(posting(home, command())), run_id=RUN)

    assert "completed" == result.operation.state


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_journal_that_fails_while_a_command_is_recorded_ends_the_leg(is_async: bool) -> None:
    """The agent is not told by an error of its own call, and nothing more starts."""
    home, store = mortal_home()
    tool = posting(home, command())
    store.die_at(3)
    with pytest.raises((clew.Storage, Death)):
        home.run_sync(agent_of(tool, is_async=is_async), run_id=RUN)
    store.revive()

    assert ("running", []) == (state_of(home).state, states(home))


def open_beside(home: clew.Home, *commands: Command) -> clew.RunResult:
    """A run with an open effect and another call under way, during which these commands come."""

    @clew.tool(effect="external")
    def fails() -> None:
        raise ConnectionError("no answer")

    async def on_loop(run: clew.Run, prompt: Any) -> None:
        async with run.group() as group:
            group.call(fails)
            group.call(waits)

    @clew.tool(effect="external")
    async def waits() -> None:
        while not state_of(home).unsettled() or state_of(home).unsettled()[0].status != "unknown":
            await asyncio.sleep(0)
        posting(home, *commands)()
        while any(home.reader.store.answered(RUN, each.control_id) is None for each in commands):
            clock: Any = home._parts.clock
            clock.advance(POLL_S)
            await asyncio.sleep(0)

    return home.run_sync(clew.agent(name="orders", tools=[fails, waits])(on_loop), run_id=RUN)


@pytest.mark.parametrize(
    ("outcome", "end"),
    [("happened", ("paused", "unknown_effect")), ("give_up", ("failed", "effect_given_up"))],
)
def test_an_effect_is_settled_while_its_sibling_is_under_way(outcome: str, end: tuple[str, str]) -> None:
    """The gate is closed and the writer lives: the word of a person is taken all the same."""
    home, _ = mortal_home()

    result = open_beside(home, command(kind="settle", call="group-1.fails-1", outcome=outcome))

    assert (end, "applied") == ((result.operation.state, result.reason), told(home).status)
    assert [("bob", outcome)] == [(event["by"], event["outcome"]) for event in events_of(home, "effect_review")]


@pytest.mark.parametrize(("attempt", "status"), [(1, "applied"), (2, "rejected"), (0, "rejected")])
def test_a_settlement_is_of_the_attempt_that_it_names(attempt: int, status: str) -> None:
    """What was found out of one start must not speak for another that came while the command waited."""
    home, _ = mortal_home()
    settling = command(kind="settle", call="group-1.fails-1", outcome="happened", attempt=attempt)
    open_beside(home, settling)

    assert status == told(home).status


def test_the_sibling_itself_is_not_settled() -> None:
    """It may return at any moment."""
    home, _ = mortal_home()

    open_beside(home, command(kind="settle", call="group-1.waits-1", outcome="happened"))

    assert ("rejected", True) == (told(home).status, "under way" in told(home).reason)


# Signals, in processes of their own.

PLAIN = """
import os, signal, sys
import clew
@clew.tool(effect="external", timeout_s=None)
def pay():
    for word in sys.argv[2:]:
        os.kill(os.getpid(), getattr(signal, word))
    return "paid"
@clew.agent(tools=[pay], name="orders")
def orders(run, prompt):
    run.call(pay)
    return run.step("more", lambda: 1)
result = clew.Home(sys.argv[1]).run_sync(orders, run_id="orders-1", notice=lambda text: print(text, flush=True))
print(result.operation.state, result.reason, result.exit_code, len(result.waiting))
"""
ASYNC = """
import asyncio, os, signal, sys
import clew
@clew.tool(effect="external")
async def pay():
    for word in sys.argv[2:]:
        os.kill(os.getpid(), getattr(signal, word))
    if sys.argv[2:] == ["SIGINT", "SIGINT"]:
        await asyncio.Event().wait()
    return "paid"
@clew.agent(tools=[pay], name="orders")
async def orders(run, prompt):
    await run.call(pay)
    await run.step("more", lambda: 1)
result = clew.Home(sys.argv[1]).run_sync(orders, run_id="orders-1", notice=lambda text: print(text, flush=True))
print(result.operation.state, result.reason, result.exit_code, len(result.waiting))
"""
# A plain agent beside a loop: the signal comes to the main thread, which is the loop's and must not be torn.
BESIDE = """
import asyncio, os, signal, sys, threading
import clew
@clew.tool(effect="external")
def pay():
    for word in sys.argv[2:]:
        os.kill(os.getpid(), getattr(signal, word))
        heard = threading.Event()
        loop.call_soon_threadsafe(heard.set)
        heard.wait()
    return "paid"
@clew.agent(tools=[pay], name="orders")
def orders(run, prompt):
    run.call(pay)
    return run.step("more", lambda: 1)
async def main():
    global loop
    loop = asyncio.get_running_loop()
    home = clew.Home(sys.argv[1])
    return await home.run(orders, run_id="orders-1", signals=True, notice=lambda text: print(text, flush=True))
result = asyncio.run(main())
print(result.operation.state, result.reason, result.exit_code)
"""
NOTICE = "pausing at the next safe point; press Ctrl-C again to abort"


@pytest.mark.parametrize("code", [PLAIN, ASYNC], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("signals", "lines"),
    [
        (["SIGINT"], [NOTICE, "paused interrupted 130 0"]),
        (["SIGTERM"], ["terminated: pausing at the next safe point", "paused terminated 143 0"]),
        (["SIGINT", "SIGINT"], [NOTICE, "failed aborted 3 1"]),
    ],
    ids=["once", "terminated", "twice"],
)
def test_signals_pause_first_and_abort_when_repeated(
    tmp_path: Path, code: str, signals: list[str], lines: list[str]
) -> None:
    """Ctrl-C lets the payment end and pauses; who presses it again means it, and the payment stays listed."""
    with living(code, tmp_path / ".clew", *signals) as process:
        said = [process.says() for _ in lines]
        process.ends()

    assert lines == said


@pytest.mark.parametrize(
    ("signals", "line"), [(["SIGINT"], "paused interrupted 130"), (["SIGINT", "SIGINT"], "failed aborted 3")]
)
def test_signals_beside_a_loop_reach_the_plain_agent_only_through_its_gate(
    tmp_path: Path, signals: list[str], line: str
) -> None:
    """Its thread cannot be interrupted, and the loop belongs to the program: nothing is raised in either."""
    with living(BESIDE, tmp_path / ".clew", *signals) as process:
        said = [process.says(), process.says()]
        process.ends()

    assert [NOTICE, line] == said


def test_an_aborted_run_has_aborting_on_disk_first(tmp_path: Path) -> None:
    """Contract #8, W18: in this order, whoever kills it in between."""
    with living(ASYNC, tmp_path / ".clew", "SIGINT", "SIGINT") as process:
        process.ends()

    kinds = kinds_of(records_of(clew.Home(tmp_path / ".clew")))
    assert ["REQUEST_ABORT", "effect_receipt", "FAIL", "finish"] == [
        kind for kind in kinds[6:] if kind in ("REQUEST_ABORT", "effect_receipt", "FAIL", "finish")
    ]


def test_handlers_are_put_back() -> None:
    """A program that ran an agent keeps its own Ctrl-C."""
    home, _ = mortal_home()
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    home.run_sync(clew.agent(name="orders")(lambda run, prompt: 1), run_id=RUN)

    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))


def test_elsewhere_than_in_the_main_thread_signals_are_left_alone() -> None:
    """Python would refuse them there, and a library must not take what is the program's."""
    home, _ = mortal_home()

    async def run() -> str:
        result = await asyncio.to_thread(home.run_sync, clew.agent(name="orders")(lambda run, prompt: 1), run_id=RUN)
        return str(result.operation.state)

    assert "completed" == asyncio.run(run())
    assert "run_id_conflict" == code_of(home.run_sync, clew.agent(name="orders")(lambda run, prompt: 1), run_id=RUN)


@pytest.mark.parametrize("kind", ["pause", "abort", "settle"])
def test_what_a_command_says_is_recorded_without_secrets(kind: str) -> None:
    """C125: its sender knew nothing of the agent's own secrets; its id stays bound to what was sent."""
    home, store = mortal_home()
    told: dict[str, Any] = {"evidence": [{"kind": "text", "text": "hunter2-and-more"}], "result": ["hunter2-and-more"]}
    sent = Command(1, "c-1", RUN, kind, "bob", "hunter2-and-more", {"call": "post-1", "outcome": "happened", **told})
    agent = agent_of(posting(home, sent))
    agent.secrets = ("hunter2-and-more",)
    home.run_sync(agent, run_id=RUN)
    recorded = events_of(home, "control")[0]

    assert "[redacted:configured]" == recorded["command"]["reason"]
    assert b"hunter2" not in store.raw(RUN)
    assert fingerprint(msgspec.to_builtins(sent)) == recorded["fingerprint"]
