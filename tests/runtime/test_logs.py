"""What a run says to the standard `logging`, and whose lines the user's own are."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import clew
from clew.core.records import Record
from clew.errors import Stop
from clew.runtime.logs import FIELDS, LogContext, listener
from clew.stores.base import Command
from clew.stores.memory import MemoryBlobStore
from tests.histories import Scribe, read
from tests.runtime.stage import (
    RUN,
    WHO,
    Bank,
    Death,
    async_payer,
    died_in_the_payment,
    dies,
    mortal_home,
    payer,
    records_of,
)

USERS = logging.getLogger("bank.client")
SECRET = "sk_live_51H8yTqLk9z"


class Kept(logging.Handler):
    """A handler as a user's program has one."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record)

    @property
    def ours(self) -> list[logging.LogRecord]:
        return [line for line in self.lines if line.name.startswith("clew")]

    def said(self, words: str) -> list[logging.LogRecord]:
        return [line for line in self.ours if words in line.getMessage()]


@pytest.fixture
def log() -> Iterator[Kept]:
    """Everything is logged, to one handler at the root."""
    root, kept = logging.getLogger(), Kept()
    before = root.level
    root.addHandler(kept)
    root.setLevel(logging.DEBUG)
    yield kept
    root.removeHandler(kept)
    root.setLevel(before)


def attributes(line: logging.LogRecord) -> tuple[Any, ...]:
    return tuple(getattr(line, name) for name in FIELDS)


# What is said.


def test_a_leg_is_said_to_open_and_to_close(log: Kept) -> None:
    """Who reads the logs of a service sees which run was at work when."""
    home, _ = mortal_home()
    home.run_sync(payer(Bank().tool(), "1"), run_id=RUN)

    opened, *_, closed = log.ours

    assert f"run {RUN}: leg 1 opened to run by pid" in opened.getMessage()
    assert f"run {RUN}: leg closed, succeeded: completed" == closed.getMessage()
    assert [logging.INFO] * 2 == [opened.levelno, closed.levelno]


def test_every_line_of_ours_has_every_attribute(log: Kept) -> None:
    """A format that names one must never fail on a line of ours."""
    home, agent = died_in_the_payment(Bank(), happened=True)
    home.resume_sync(RUN, agent)

    assert log.ours
    assert all(hasattr(line, name) for line in log.ours for name in FIELDS)
    assert {RUN} == {line.run_id for line in log.ours}  # type: ignore[attr-defined]  # it is one of ours


def test_a_takeover_and_a_probes_verdict_are_said(log: Kept) -> None:
    """Both decide over money without a person having been asked."""
    home, agent = died_in_the_payment(Bank(), happened=True)
    log.lines.clear()
    home.resume_sync(RUN, agent)

    (taken,), (settled,) = log.said("taken over"), log.said("says probe")

    assert logging.WARNING == taken.levelno
    assert ("happened, says probe" in settled.getMessage(), RUN, 1) == (True, *attributes(settled)[::3])


@pytest.mark.parametrize("is_async", [False, True])
def test_an_uncertain_effect_is_a_warning_with_its_call(log: Kept, is_async: bool) -> None:
    """It is what somebody has to look after."""
    bank, (home, _) = Bank(), mortal_home()
    bank.fates = ["fails after"]
    if is_async:
        asyncio.run(home.run(async_payer(bank.tool(), "1"), run_id=RUN))
    else:
        home.run_sync(payer(bank.tool(), "1"), run_id=RUN)

    (line,) = log.said("outcome is unknown")
    (paused,) = log.said("paused: unknown_effect")

    assert (logging.WARNING, (RUN, "pay-1", "c1", 1)) == (line.levelno, attributes(line))
    assert logging.WARNING == paused.levelno


def test_a_second_attempt_is_said_under_its_number(log: Kept) -> None:
    """Its receipt is another event than the first one's."""
    bank, (home, _) = Bank(), mortal_home()
    bank.fates = ["fails before"]
    agent = payer(bank.tool(), "1")
    home.run_sync(agent, run_id=RUN)
    home.settle(RUN, clew.DidNotHappen(), **WHO)
    home.resume_sync(RUN, agent)

    assert [(RUN, "pay-1", "c1", 2)] * 2 == [attributes(line) for line in log.said("attempt 2")]


def test_a_persons_act_is_said_too(log: Kept) -> None:
    """A settlement has no agent, but it opens a leg and decides."""
    bank, (home, _) = Bank(), mortal_home()
    bank.fates = ["fails after"]
    home.run_sync(payer(bank.tool(), "1"), run_id=RUN)
    log.lines.clear()
    home.settle(RUN, clew.DidNotHappen(), **WHO)

    said = [line.getMessage() for line in log.ours]

    assert f"run {RUN}: leg 2 opened to settle by pid" in said[0]
    assert f"effect {RUN}:pay-1:c1, attempt 1: did_not_happen, says operator (ann)" == said[1]
    assert [f"run {RUN}: leg 2 closed"] == said[2:]


def test_a_poisoned_journal_is_said_when_it_happens(log: Kept) -> None:
    """The error is raised when the leg has ended; until then the agent goes on to be refused."""
    home, store = mortal_home()
    store.die_at(1)
    dies(home.run_sync, payer(Bank().tool(), "1"), run_id=RUN)

    (line,) = log.said("poisoned")

    assert (logging.WARNING, None) == (line.levelno, line.exc_info)


def test_no_argument_and_no_answer_is_ever_said(log: Kept) -> None:
    """Logs go to places that journals do not."""

    def body(call: clew.Call, token: str) -> str:
        raise ConnectionError(f"no answer for {token}")

    def agent(run: clew.SyncRun, prompt: Any) -> Any:
        return run.call(clew.tool(name="pay", effect="external")(body), token=SECRET)

    home, _ = mortal_home()
    home.run_sync(agent, SECRET, run_id=RUN)
    home.settle(RUN, clew.Happened({"token": SECRET}), by="ann", reason=SECRET)

    assert log.ours
    assert not any(SECRET in line.getMessage() or SECRET in str(vars(line)) for line in log.ours)


def test_an_error_that_is_raised_is_not_logged(log: Kept) -> None:
    """Who catches it decides whether it is worth a line."""
    home, _ = mortal_home()
    home.run_sync(payer(Bank().tool(), "1"), run_id=RUN)
    log.lines.clear()
    with pytest.raises(clew.Refused):
        home.resume_sync(RUN, payer(Bank().tool(), "1"))

    assert [] == log.ours


def test_a_denied_call_and_a_command_are_said_without_their_reasons(log: Kept) -> None:
    """Reasons are text of whoever gave them, and stand in the journal."""
    home, store = mortal_home()
    pay = Bank().tool()

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        with suppress(clew.Denied):
            run.call(pay, order="1")
        store.post(Command(1, "pause-1", RUN, "pause", "ann", SECRET))

    declared = clew.agent(tools=[pay], policy=lambda call: SECRET)(agent)
    result = home.run_sync(declared, run_id=RUN)

    assert ("pause_requested", 1) == (result.reason, len(log.said("the policy denied a call")))
    assert [f"run {RUN}: command pause-1 is {state}" for state in ("accepted", "applied")] == [
        line.getMessage() for line in log.said("command")
    ]
    assert not any(SECRET in line.getMessage() for line in log.ours)


def test_a_torn_end_that_was_cut_is_a_warning(log: Kept) -> None:
    """It says that a process died in the middle of a write."""
    home, store = mortal_home()
    store.die_at(1, 20)
    agent = payer(Bank().tool(), "1")
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    home.resume_sync(RUN, agent)

    (line,) = log.said("torn end")

    assert (logging.WARNING, "20 bytes") == (line.levelno, line.getMessage()[line.getMessage().index("20") :][:8])


# Who listens.


def test_nobody_listens_unless_somebody_does() -> None:
    """A program without a handler pays nothing and hears nothing, not even from the handler of last resort."""
    program = """
import clew
from clew.runtime.logs import listener
print(listener())
def agent(run, prompt):
    1 / 0
clew.Home.memory().run_sync(agent, on_record=lambda record: 1 / 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert ("None\n", "") == (done.stdout, done.stderr)


@pytest.mark.parametrize("name", ["", "clew", "clew.run", "clew.effect"])
def test_a_handler_anywhere_above_is_somebody(name: str) -> None:
    """Loggers are a tree."""
    logger, kept = logging.getLogger(name), Kept()
    logger.addHandler(kept)
    try:
        assert listener() is not None
    finally:
        logger.removeHandler(kept)


def test_a_logger_that_is_switched_off_is_nobody(log: Kept) -> None:
    """`logging.disable` or a level above all is how one is switched off."""
    logging.disable(logging.CRITICAL)
    try:
        assert listener() is None
    finally:
        logging.disable(logging.NOTSET)


# A caller that is told of records.


def raiser(fault: BaseException, seen: list[Record]) -> Any:
    def on_record(record: Record) -> None:
        seen.append(record)
        raise fault

    return on_record


@pytest.mark.parametrize("fault", [ValueError("a bug"), SystemExit(3), Stop("no"), Death(), asyncio.CancelledError()])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_caller_that_raises_hurts_neither_the_run_nor_its_journal(
    log: Kept, fault: BaseException, is_async: bool
) -> None:
    """What it raises comes out of the middle of an append that was acknowledged."""
    (home, _), bank, seen = mortal_home(), Bank(), list[Record]()
    on_record = raiser(fault, seen)
    if is_async:
        result = asyncio.run(home.run(async_payer(bank.tool(), "1"), run_id=RUN, on_record=on_record))
    else:
        result = home.run_sync(payer(bank.tool(), "1"), run_id=RUN, on_record=on_record)

    (line,) = log.said("on_record raised at record 1")

    assert ("completed", {"1": 1}, 1) == (result.operation.state, dict(bank.orders), len(seen))
    assert fault is (line.exc_info or (None, None))[1]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_caller_that_calls_the_run_is_refused_instead_of_waiting_for_itself(log: Kept, is_async: bool) -> None:
    """The append that it is told of is not over yet; a call would wait for it for ever."""
    (home, _), bank, runs = mortal_home(), Bank(), list[Any]()
    pay = bank.tool()

    def on_record(record: Record) -> None:
        if runs:
            called = runs[0].call(pay, order="2")
            if is_async:
                called.send(None)

    def plain(run: clew.SyncRun, prompt: Any) -> None:
        runs.append(run)
        run.call(pay, order="1")

    async def awaiting(run: clew.Run, prompt: Any) -> None:
        runs.append(run)
        await run.call(pay, order="1")

    if is_async:
        result = asyncio.run(home.run(awaiting, run_id=RUN, on_record=on_record))
    else:
        result = home.run_sync(plain, run_id=RUN, on_record=on_record)

    (line,) = log.said("on_record raised")

    assert ("completed", {"1": 1}) == (result.operation.state, dict(bank.orders))
    assert "call_outside_of_step" == getattr((line.exc_info or (None, None))[1], "code", None)


def test_a_filter_that_raises_hurts_neither_the_run_nor_the_caller(log: Kept) -> None:
    """`logging` lets what a filter raises through."""
    (home, store), seen, logger = mortal_home(), list[Record](), logging.getLogger("clew.run")

    def break_it(line: logging.LogRecord) -> bool:
        raise RuntimeError("a bug in a filter")

    logger.addFilter(break_it)
    try:
        result = home.run_sync(payer(Bank().tool(), "1"), run_id=RUN, on_record=seen.append)
        store.die_at(1)
        dies(home.run_sync, payer(Bank().tool(), "1"), run_id="other")
    finally:
        logger.removeFilter(break_it)

    assert ("completed", records_of(home)) == (result.operation.state, seen)


def test_ctrl_c_in_a_caller_goes_on() -> None:
    """It is the person's, not the caller's fault."""
    told = listener(raiser(KeyboardInterrupt(), []))
    assert told is not None

    with pytest.raises(KeyboardInterrupt):
        told(read(Scribe().born().data)[0][0])


def test_a_caller_is_told_in_order_one_at_a_time(log: Kept) -> None:
    """Whatever it keeps needs no lock of its own, although calls of a group end in threads."""
    seen, inside, met = list[int](), threading.Lock(), list[bool]()

    def on_record(record: Record) -> None:
        met.append(inside.acquire(blocking=False))
        seen.append(record.sequence)
        inside.release()

    async def agent(run: clew.Run, prompt: Any) -> None:
        pay = Bank().tool()
        async with run.group() as group:
            for order in "12345":
                group.call(pay, order=order)

    home, _ = mortal_home()
    asyncio.run(home.run(agent, run_id=RUN, on_record=on_record))

    assert list(range(1, len(seen) + 1)) == seen
    assert all(met)


def test_a_caller_is_told_of_a_leg_that_only_says_what_the_run_waits_for() -> None:
    """The takeover of a dead owner stands in it, and no agent is called."""
    bank, seen = Bank(), list[Record]()
    home, store = mortal_home()
    agent = payer(bank.tool(), "1")
    store.die_at(2)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    result = home.resume_sync(RUN, agent, on_record=seen.append)

    assert ("unknown_effect", ["resume", "operation", "pause"]) == (result.reason, [record.kind for record in seen])


# The user's own lines.


def context(log: Kept) -> list[tuple[Any, ...]]:
    return [attributes(line) for line in log.lines if line.name == USERS.name]


@pytest.fixture
def with_context(log: Kept) -> Kept:
    log.addFilter(LogContext())
    return log


def speaking(where: str) -> clew.Tool:
    def pay(call: clew.Call, order: str) -> str:
        USERS.info("%s %s", where, order)
        return order

    async def pay_async(call: clew.Call, order: str) -> str:
        return pay(call, order)

    kinds: dict[str, dict[str, Any]] = {"plain": {}, "thread": {"timeout_s": 60}, "async": {}}
    body: Any = pay_async if where == "async" else pay
    return clew.Tool(body, name="pay", effect="external", **kinds[where])


@pytest.mark.parametrize("where", ["plain", "thread", "async"])
def test_a_line_from_inside_of_a_tool_carries_its_call(with_context: Kept, where: str) -> None:
    """The bank's client logs, and knows nothing of clew."""
    home, _ = mortal_home()
    home.run_sync(payer(speaking(where), "1", "2"), run_id=RUN)

    assert [(RUN, "pay-1", "c1", 1), (RUN, "pay-2", "c2", 1)] == context(with_context)


def test_lines_of_parallel_calls_carry_each_its_own(with_context: Kept) -> None:
    """Threads and tasks have contexts of their own."""
    tool = speaking("plain")

    async def agent(run: clew.Run, prompt: Any) -> None:
        async with run.group() as group:
            for order in "123":
                group.call(tool, order=order)

    home, _ = mortal_home()
    asyncio.run(home.run(agent, run_id=RUN))
    lines = [line for line in with_context.lines if line.name == USERS.name]

    assert 3 == len({line.call_id for line in lines})  # type: ignore[attr-defined]  # the filter put it there
    assert 3 == len({line.getMessage() for line in lines})


def test_a_line_of_a_probe_carries_the_call_that_it_asks_after(with_context: Kept) -> None:
    """It is asked long after, in another process."""
    bank = Bank()
    home, agent = died_in_the_payment(bank, happened=True)
    find = bank.find

    def asking(call: clew.Call) -> clew.Verdict:
        USERS.info("asking")
        return find(call)

    agent.tools["pay"].probe = asking
    home.resume_sync(RUN, agent)

    assert [(RUN, "pay-1", "c1", 1)] == context(with_context)


def test_a_line_of_the_agent_carries_its_run_and_step(with_context: Kept) -> None:
    """Between two calls there is no call."""

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        USERS.info("outside")
        run.step("plan", lambda: USERS.info("inside"))

    home, _ = mortal_home()
    home.run_sync(agent, run_id=RUN)

    assert [(RUN, "", "", 0), (RUN, "plan-1", "", 0)] == context(with_context)


def test_a_line_from_outside_of_any_run_has_the_attributes_empty(with_context: Kept) -> None:
    """One format for all lines of a program."""
    USERS.info("starting up")

    assert [("", "", "", 0)] == context(with_context)


def test_what_a_line_has_already_stays(with_context: Kept) -> None:
    """A program may know better."""
    USERS.info("replaying", extra={"run_id": "mine"})

    assert [("mine", "", "", 0)] == context(with_context)


def test_the_filter_lets_every_line_pass() -> None:
    """It adds, it does not choose."""
    line = logging.makeLogRecord({"msg": "x"})

    assert LogContext().filter(line) is True


def test_a_format_that_names_the_attributes_fits_every_line(log: Kept) -> None:
    """The whole recipe of the documentation."""
    home = clew.Home(".clew", takeover="proven", store=mortal_home()[1], blobs=MemoryBlobStore())
    log.addFilter(clew.LogContext())
    log.setFormatter(logging.Formatter("%(run_id)s %(step_id)s %(call_id)s#%(attempt)s %(message)s"))
    home.run_sync(payer(speaking("plain"), "1"), run_id=RUN)
    USERS.info("done")

    lines = [log.format(line) for line in log.lines if line.name == USERS.name]

    assert [f"{RUN} pay-1 c1#1 plain 1", "  #0 done"] == lines


def test_a_guard_that_failed_is_a_warning_and_one_that_did_not_is_silent(log: Kept) -> None:
    """W50: calls that are denied because somebody's code is broken must reach whoever watches."""
    bank = Bank()

    def broken(payload: Any) -> None:
        raise ValueError(SECRET)

    extension = clew.Extension("guard", "1.0", before_tool=broken, after_tool=lambda payload: None)
    home, _ = mortal_home(extensions=[extension], trusted={"guard": []})

    home.run_sync(payer(bank.tool(), "1"), run_id=RUN)

    assert [f"run {RUN}: extension guard failed at before-tool; the call is denied"] == [
        line.getMessage() for line in log.said("extension")
    ]
