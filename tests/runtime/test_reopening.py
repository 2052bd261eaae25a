"""Before the agent of a reopened run: probes are asked, what waits is paused, what loops is stopped."""

import os
import signal
import sys
import threading
from typing import Any

import pytest

import clew
from clew.core.resume import ResumePlan, Step
from clew.runtime.recovery import fail_sayings
from clew.runtime.reopening import blocked_reason, reopening
from tests.core.test_delegation import at as child_at
from tests.disk.living import orphan
from tests.histories import Scribe
from tests.runtime.stage import (
    RUN,
    Bank,
    async_payer,
    died_in_the_payment,
    dies,
    events_of,
    kinds_of,
    mortal_home,
    payer,
    records_of,
)

# Probes come first.


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(("happened", "paid"), [(True, 1), (False, 2)])
def test_a_probe_decides_what_a_death_left_open(happened: bool, paid: int, is_async: bool) -> None:
    """The world is asked before the agent runs: what happened is answered, what did not starts again."""
    bank = Bank()
    home, agent = died_in_the_payment(bank, happened=happened, is_async=is_async)

    result = home.resume_sync(RUN, agent)

    assert ("completed", [{"transfer": "T-1"}], paid) == (result.operation.state, result.output, bank.orders["1"])


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_run_stays_paused_until_its_probes_have_answered(is_async: bool) -> None:
    """A reader in between must not see it running: nobody knows yet whether it may."""
    bank = Bank()
    home, agent = died_in_the_payment(bank, happened=True, is_async=is_async)
    home.resume_sync(RUN, agent)

    kinds = kinds_of(records_of(home))

    assert ["resume", "PAUSE", "effect_review", "step_output", "RESUME", "agent_end"] == kinds[6:12]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_probe_that_cannot_tell_pauses_and_says_when_to_come_back(is_async: bool) -> None:
    """Nothing is guessed; the agent is not called."""
    bank = Bank()
    home, agent = died_in_the_payment(bank, happened=True, is_async=is_async)
    bank.knows = False

    result = home.resume_sync(RUN, agent)

    assert ("paused", "unknown_effect", 3600, 1) == (
        result.operation.state,
        result.reason,
        result.retry_in_s,
        bank.orders["1"],
    )


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_probe_that_gives_up_ends_the_run(is_async: bool) -> None:
    """The bank itself says that nobody will ever know."""
    bank = Bank()
    home, _ = died_in_the_payment(bank, happened=True, is_async=is_async)
    bank.find = lambda call: clew.GiveUp("archived")  # type: ignore[method-assign]  # another bank
    pay = bank.tool(probe=True)

    result = home.resume_sync(RUN, async_payer(pay, "1") if is_async else payer(pay, "1"))

    assert ("failed", "effect_given_up") == (result.operation.state, result.reason)


def test_a_probe_with_redacted_arguments_waits_until_the_agent_asks_again() -> None:
    """Asked with stars in place of the order, it would answer about nothing."""
    bank = Bank()
    home, store = mortal_home()
    pay = bank.tool(probe=True)
    agent = payer(pay, "order-77", secrets=["order-77"])
    store.die_at(2)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()

    result = home.resume_sync(RUN, agent)

    assert ("completed", 1) == (result.operation.state, bank.orders["order-77"])
    assert ["resume", "PAUSE", "RESUME"] == kinds_of(records_of(home))[6:9]


@pytest.mark.parametrize(
    ("presses", "end", "asked"), [(1, ("paused", "interrupted"), 1), (2, ("failed", "aborted"), 1)]
)
def test_a_signal_while_probes_are_asked_is_heard(presses: int, end: tuple[str, str], asked: int) -> None:
    """Asking may take a minute for each effect; who presses Ctrl-C waits for one answer, not for all."""
    home, store = mortal_home()
    seen, heard = list[str](), threading.Event()

    def find(call: clew.Call) -> clew.Verdict:
        seen.append(call.key)
        for _ in range(presses if len(seen) == 1 else 0):
            os.kill(os.getpid(), signal.SIGINT)
            heard.wait()
        return clew.Happened(1)

    def body(order: str) -> int:
        return 1

    pay = clew.tool(name="pay", effect="external", probe=find, in_doubt_s=0)(body)

    async def agent(run: clew.Run, prompt: Any) -> None:
        async with run.group() as group:
            group.call(pay, order="1")
            group.call(pay, order="2")

    declared = clew.agent(tools=[pay], name="orders")(agent)
    store.die_at(3)
    dies(home.run_sync, declared, run_id=RUN)
    store.revive()
    result = home.resume_sync(RUN, declared, notice=lambda text: heard.set())

    assert (*end, asked) == (result.operation.state, result.reason, len(seen))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in procfs")
def test_an_abort_while_probes_are_asked_names_what_lives() -> None:
    """One effect is asked after, a process of the other still runs: the failed run must say that it may yet come."""
    home, store = mortal_home()
    run_id, heard = f"orders-{os.getpid()}", threading.Event()

    def find(call: clew.Call) -> clew.Verdict:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            heard.wait()
        return clew.Happened(1)

    def body(order: str) -> int:
        return 1

    probed = clew.tool(name="pay", effect="external", probe=find, in_doubt_s=0)(body)
    blind = clew.tool(name="wire", effect="external")(body)

    async def agent(run: clew.Run, prompt: Any) -> None:
        async with run.group() as group:
            group.call(probed, order="1")
            group.call(blind, order="2")

    declared = clew.agent(tools=[probed, blind], name="orders")(agent)
    store.die_at(3)
    dies(home.run_sync, declared, run_id=run_id)
    store.revive()
    (wired,) = (call for call in home.reader.see(run_id).state.unsettled() if call.tool == "wire")
    with orphan(CLEW_CALL=f"{wired.key}#1") as pid:
        result = home.resume_sync(run_id, declared, notice=lambda text: heard.set())

    assert ("failed", "aborted") == (result.operation.state, result.reason)
    assert f"{wired.key}#1: pid {pid} (" in home.reader.row(run_id)["message"]


def test_what_no_probe_can_tell_keeps_the_run_paused_after_the_probes() -> None:
    """One answered, one waits for a person: the agent is called when all is known."""
    home, store = mortal_home()
    bank = Bank()
    probed, blind = bank.tool(probe=True), bank.tool("wire")

    async def agent(run: clew.Run, prompt: Any) -> None:
        async with run.group() as group:
            group.call(probed, order="1")
            group.call(blind, order="2")

    declared = clew.agent(tools=[probed, blind], name="orders")(agent)
    store.die_at(3)
    dies(home.run_sync, declared, run_id=RUN)
    store.revive()
    result = home.resume_sync(RUN, declared)

    assert ("paused", "unknown_effect", ["group-1.wire-1"]) == (
        result.operation.state,
        result.reason,
        [row["stepId"] for row in result.waiting],
    )
    assert 1 == len(events_of(home, "effect_review"))


# Deaths without an answer.


def test_three_deaths_without_a_new_answer_pause_and_then_it_may_go_on() -> None:
    """A machine that restarts for ever is stopped once; a person who says `resume` is believed."""
    home, store = mortal_home()
    agent = payer(Bank().tool(), "1")
    for begin in (home.run_sync, home.resume_sync, home.resume_sync):
        store.die_at(1)
        dies(
            begin,
            *([agent] if begin == home.run_sync else [RUN, agent]),
            **({"run_id": RUN} if begin == home.run_sync else {}),
        )
        store.revive()
    looped = home.resume_sync(RUN, agent)
    further = home.resume_sync(RUN, agent)

    assert ("paused", "crash_loop", 22) == (looped.operation.state, looped.reason, looped.exit_code)
    assert "completed" == further.operation.state


def test_deaths_with_new_answers_are_progress() -> None:
    """Forty payments and a death after each is slow, not stuck."""
    home, store = mortal_home()
    agent = payer(Bank().tool(), *"12345")
    store.die_at(3)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    for _ in range(3):
        store.die_at(3)
        dies(home.resume_sync, RUN, agent)
        store.revive()

    assert "completed" == home.resume_sync(RUN, agent).operation.state


def test_a_missing_tool_is_an_open_effect_to_who_asks() -> None:
    """The plan says why; the run's reason is what a person can act on."""
    plan = ResumePlan("r", 1, "", (Step("pay-1", "review", "tool_missing"),))

    assert "unknown_effect" == blocked_reason(Scribe().born().state, plan)


def test_what_a_person_gave_up_ends_the_run_with_the_next_leg() -> None:
    """They have said that it will never be known; the agent is not called once more."""
    plan = ResumePlan("r", 1, "", (Step("pay-1", "fail", "effect_given_up"),))

    assert fail_sayings("effect_given_up") == reopening(Scribe().born().state, plan)


def test_a_parent_whose_child_is_not_joined_is_in_no_loop() -> None:
    """The child may go on from leg to leg, which its own journal tells; the parent only waits for it."""
    plan = ResumePlan("r", 1, "", ())
    alone, parent = (scribe.opened().opened().state for scribe in (Scribe().born(), child_at("created", "running")))

    assert ("crash_loop", "") == (blocked_reason(alone, plan), blocked_reason(parent, plan))
