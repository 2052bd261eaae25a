"""How a leg ends: completed, paused or failed, and what is said of it."""

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.compose import Move
from clew.core.needs import Closing, Raised, Returned
from clew.core.outcome import PERSON_REASONS
from clew.runtime.ending import late_returns, row
from clew.stores.memory import MemoryRunStore
from clew.testing.clock import SetClock
from tests.disk.living import orphan
from tests.histories import CHARGE, Scribe, facts, paused, started
from tests.runtime.stage import RUN, Bank, async_payer, dies, events_of, mortal_home, payer, records_of, state_of


def run_of(agent: Any, **how: Any) -> tuple[clew.Home, clew.RunResult]:
    home, _ = mortal_home()
    return home, home.run_sync(agent, run_id=RUN, **how)


# Promise 8.


def test_completed_is_said_of_a_recorded_end_alone() -> None:
    """The agent's end, then COMPLETE, then the finish: each prefix of it is a legal, more doubtful state."""
    home, _ = run_of(clew.agent(name="orders")(lambda run, prompt: "done"))

    last = records_of(home)[-3:]

    assert ["event", "operation", "finish"] == [record.kind for record in last]
    assert 1 == len({record.append for record in last})


@pytest.mark.parametrize("payer_of", [payer, async_payer])
def test_an_agent_that_returns_over_an_open_effect_is_paused(payer_of: Any) -> None:
    """Text is not evidence: "all paid" beside an open payment is not completed."""
    bank = Bank()
    bank.fates = ["fails after"]
    pay = bank.tool()

    def agent(run: clew.SyncRun, prompt: Any) -> str:
        try:
            run.call(pay, order="1")
        except BaseException:
            return "all paid"
        return "never"

    _, result = run_of(clew.agent(tools=[pay], name="orders")(agent))

    assert ("paused", "unknown_effect", None) == (result.operation.state, result.reason, result.output)


def test_an_open_effect_outweighs_the_agents_error() -> None:
    """Both are true; a person must hear of the money first."""
    bank = Bank()
    bank.fates = ["fails after"]
    pay = bank.tool()

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        try:
            run.call(pay, order="1")
        finally:
            raise LookupError("and then this")

    _, result = run_of(clew.agent(tools=[pay], name="orders")(agent))

    assert ("unknown_effect", 21) == (result.reason, result.exit_code)


def test_a_fault_is_recorded_as_text_without_secrets_and_bounded() -> None:
    """The journal is read by others; a traceback with a password in it would stay there for ever."""

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        raise ValueError("token hunter22222 refused " + "x" * 5000)

    home, _ = run_of(clew.agent(name="orders", secrets=["hunter22222"])(agent))

    message = events_of(home, "error")[0]["message"]
    assert ("hunter22222" in message, 2000) == (False, len(message))


def test_an_interrupt_inside_the_agent_is_an_interruption() -> None:
    """Where nobody took the signal, Python raises it in the agent: no bug of the agent's."""

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        raise KeyboardInterrupt

    _, result = run_of(clew.agent(name="orders")(agent), signals=False)

    assert ("paused", "interrupted", 130) == (result.operation.state, result.reason, result.exit_code)


def test_an_agent_that_stops_by_itself_is_paused() -> None:
    """`Stop` is told by the gate; raised by the agent's own hand it is a wish to pause."""

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        raise clew.Stop

    _, result = run_of(clew.agent(name="orders")(agent))

    assert "pause_requested" == result.reason


def test_the_output_is_recorded_as_json_and_redacted() -> None:
    """What `result.output` shows is what the next process reads."""
    home, result = run_of(clew.agent(name="orders", secrets=["hunter22222"])(lambda run, prompt: ("pw", "hunter22222")))

    assert events_of(home, "agent_end")[0]["output"] == result.output == ["pw", "[redacted:configured]"]


def test_a_long_output_stands_whole_in_the_end() -> None:
    """There is no step whose blob it could be; the append's bound holds it."""
    _, result = run_of(clew.agent(name="orders")(lambda run, prompt: "x" * 100_000))

    assert 100_000 == len(result.output)


@pytest.mark.parametrize("reason", sorted(PERSON_REASONS))
def test_what_a_person_must_see_keeps_its_own_reason(reason: str) -> None:
    """`result_not_kept` must not be called `unknown_effect`: the person would look at the wrong thing."""
    home, _ = mortal_home()

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        run._gate.close(Closing(reason, "why"))
        run.step("more", lambda: 1)

    assert reason == home.run_sync(clew.agent(name="orders")(agent), run_id=RUN).reason


# Bodies that returned after their time.


class Standing:
    """What `late_returns` looks at of a gate."""

    def is_cut_off(self, key: str, attempt: int) -> bool:
        return (key, attempt) in self.cut

    cut: tuple[tuple[str, int], ...] = ()

    def __init__(self, scribe: Scribe, *late: Any) -> None:
        self.late = list(late)
        self.journal = type("J", (), {"state": scribe.state, "clock": SetClock()})()


def late_of(outcome: Any, attempt: int = 1, *, secret: bool = False) -> list[Any]:
    """The events that a late return of the open call brings."""
    scribe = Scribe().born()
    scribe.say(*started(facts()))
    tool = clew.Tool(lambda: None, name="pay", secret=secret)
    ticket = type("T", (), {"facts": facts(), "tool": tool})()
    gate: Any = Standing(scribe, (ticket, attempt, outcome))
    return [event for need in late_returns(gate) for event in need.events]  # type: ignore[union-attr]  # appends only


def test_a_late_return_is_known_and_settles_the_attempt() -> None:
    """It came after the time was up, and before the end: the tool itself is the witness."""
    review, output = late_of(Returned({"transfer": "T-1"}))

    assert ("happened", "tool", "pay", True) == tuple(
        review[name] for name in ("outcome", "source", "by", "resultRecorded")
    )
    assert ("step_output", "late_return") == (output["type"], review["evidence"][0]["kind"])


def test_a_late_return_of_a_secret_tool_is_known_and_never_stored() -> None:
    """That it came late must not bring into the journal what would not be there in time."""
    (review,) = late_of(Returned("hunter2"), secret=True)

    assert ("happened", False, False) == (review["outcome"], review["resultRecorded"], "hunter2" in str(review))


def test_a_late_failure_says_that_it_happened_and_nothing_of_its_result() -> None:
    """`Failed` is an answer with a value of its own kind; as a plain result it would be told as a success."""
    (review,) = late_of(Returned(None, "refused"))

    assert ("happened", False) == (review["outcome"], review["resultRecorded"])


@pytest.mark.parametrize(("outcome", "attempt"), [(Raised("E", "x"), 1), (Returned(1), 2)])
def test_what_proves_nothing_is_left_open(outcome: Any, attempt: int) -> None:
    """A late error knows no more than an early one, and another attempt's return is not this one's."""
    assert [] == late_of(outcome, attempt)


# Rows and heads.


def test_a_row_says_what_lists_show() -> None:
    """It is published in the head, so that a list need not read a journal."""
    scribe = Scribe().born()
    scribe.say(*started(facts()))
    scribe.say(*paused("unknown_effect"))

    told = row(scribe.state)

    assert ("paused", "unknown_effect", "orders", 1, 1, True) == tuple(
        told[name] for name in ("state", "reason", "agent", "calls", "waitingCount", "legClosed")
    )


@clew.agent
def raises(run: clew.SyncRun, prompt: str) -> None:
    raise LookupError("a bug")


WHY = ("state", "reason", "message", "pausedAt", "shown")


def test_a_row_keeps_why_the_run_waits_over_a_persons_leg() -> None:
    """Who only told it something has changed neither what went wrong, nor when, nor what is to be done."""
    home, _ = run_of(raises)
    before = home.reader.row(RUN)
    home.reader.clock.sleep(5.0, lambda: False)
    home.steer(RUN, "look again", by="ann")
    told = home.reader.row(RUN)

    assert ("paused", "agent_error", "LookupError: a bug") == tuple(told[name] for name in WHY[:3])
    assert [before[name] for name in WHY] == [told[name] for name in WHY]
    assert told["pausedAt"] < told["updatedAt"]


def test_a_row_forgets_the_pause_when_the_agent_runs_again() -> None:
    """What went wrong in an earlier leg would be taken for what is wrong now."""
    home, store = mortal_home()
    home.run_sync(raises, run_id=RUN)
    store.die_at(1, 0)
    dies(home.resume_sync, RUN, raises)
    store.revive()
    told = home.reader.row(RUN)

    assert ("running", "", "", "interrupted") == tuple(told[name] for name in ("state", "reason", "message", "shown"))
    assert "pausedAt" not in told


def test_a_row_of_a_persons_leg_that_died_keeps_why_the_run_waits() -> None:
    """Two things are wrong then, and the one that was there first is the one to be mended."""
    home, store = mortal_home()
    home.run_sync(raises, run_id=RUN)
    store.die_at(1, 0)
    dies(home.steer, RUN, "look again", by="ann")
    store.revive()

    assert ("paused", "agent_error", "LookupError: a bug", "interrupted") == tuple(
        home.reader.row(RUN)[name] for name in ("state", "reason", "message", "shown")
    )


def test_a_pause_that_a_death_took_is_told_as_far_as_it_is_known() -> None:
    """The move says for which reason; in what words it went wrong is in the log alone."""
    scribe = Scribe().born()
    scribe.say(Move("PAUSE", "agent_error"))
    told = row(scribe.state)

    assert ("paused", "agent_error", "", told["updatedAt"]) == tuple(told[name] for name in WHY[:4])


@pytest.mark.parametrize(("given", "shown"), [("x" * 90, "x" * 79 + "…"), ({"a": 1}, '{"a":1}'), (None, "")])
def test_a_row_shows_the_beginning_of_the_input(given: Any, shown: str) -> None:
    """One line of a list, whatever the input is."""
    home, _ = mortal_home()
    home.run_sync(clew.agent(name="orders")(lambda run, prompt: 1), given, run_id=RUN)

    assert shown == row(state_of(home))["input"]


class Full(MemoryRunStore):
    """A store of which heads cannot be published."""

    def create(self, run_id: str, batch: Any, *, wait_s: float = 0.0) -> Any:
        writer: Any = super().create(run_id, batch, wait_s=wait_s)
        writer.publish_head = self.refuse
        return writer

    @staticmethod
    def refuse(head: Any) -> None:
        raise clew.Storage("full", code="disk_full", next="-")


def test_a_head_that_cannot_be_published_ends_nothing() -> None:
    """It is a lower bound: an older one, or none, is still true, and the journal is whole."""
    home, _ = mortal_home(store=Full())

    assert "completed" == home.run_sync(clew.agent(name="orders")(lambda run, prompt: 1), run_id=RUN).operation.state


def test_the_head_is_published_at_the_opening_and_at_the_end(tmp_path: Path) -> None:
    """What no local rule can see without it: a shorter file."""
    home = clew.Home(tmp_path / ".clew")
    seen: list[int] = []

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        head = home.reader.store.head(RUN)
        seen.append(0 if head is None else head.sequence)

    home.run_sync(clew.agent(name="orders")(agent), run_id=RUN)
    head = home.reader.store.head(RUN)

    assert head is not None
    assert ([3], len(records_of(home))) == (seen, head.sequence)


def test_a_row_begins_with_the_effect_that_needs_somebody() -> None:
    """Only three are listed: what a resume repeats by itself must not hide the one that a person is to settle."""
    scribe = Scribe().born()
    for number in (1, 2, 3):
        scribe.say(*started(facts(number, CHARGE)))
    scribe.say(*started(facts(4)))

    told = row(scribe.state)

    assert (["pay", "charge", "charge"], 4) == ([effect["tool"] for effect in told["waiting"]], told["waitingCount"])


def aborted_with(folder: Path, begin: Callable[[clew.Call], Any]) -> tuple[dict[str, Any], Any]:
    """The row of a run that was aborted while a tool of it waited, and what the tool began."""
    home, run_id, begun = clew.Home(folder / ".clew"), f"leaky-{os.getpid()}", queue.SimpleQueue[Any]()

    async def leak(call: clew.Call) -> None:
        begun.put(begin(call))
        await asyncio.Event().wait()

    async def work(run: clew.Run, prompt: Any) -> None:
        await run.call(clew.Tool(leak, effect="external"))

    leg = threading.Thread(target=lambda: home.run_sync(work, run_id=run_id, signals=False))
    leg.start()
    made = begun.get(timeout=30)
    home.abort(run_id, by="ann", reason="enough")
    leg.join(30)
    return home.reader.row(run_id), made


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in procfs")
def test_an_abort_ends_what_a_tool_started_and_forgot(tmp_path: Path) -> None:
    """C45: what goes on behind a run that has failed may still change the world."""

    def begin(call: clew.Call) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=call.environment(), start_new_session=True
        )

    row, process = aborted_with(tmp_path, begin)
    with process:
        ended = process.wait(30)

    assert ("failed", "aborted", "", -signal.SIGTERM) == (row["state"], row["reason"], row["message"], ended)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in procfs")
def test_an_aborted_run_names_what_it_could_not_stop(tmp_path: Path) -> None:
    """It carries the mark, but another home may have a run of this id: it is named, and nothing is ended on a guess."""
    with ExitStack() as over:
        row, pid = aborted_with(
            tmp_path, lambda call: over.enter_context(orphan(CLEW_CALL=f"{call.key}#{call.attempt}"))
        )
        os.kill(pid, 0)

    assert ("failed", "aborted") == (row["state"], row["reason"])
    assert f"could be stopped; leaky-{os.getpid()}:leak-1:c1#1: pid {pid} (" in row["message"]
