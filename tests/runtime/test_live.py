"""One leg from its first append to its last: probes before the agent, the agent, interruptions, the end."""

from typing import Any

import pytest

import clew
from tests.runtime.stage import (
    RUN,
    WHO,
    Bank,
    async_payer,
    dies,
    events_of,
    mortal_home,
    payer,
    resumes_of,
)

# The agent raises; a limit is reached.


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(("order", "end"), [("pause", ("paused", 22)), ("fail", ("failed", 3))])
def test_an_agent_that_raises_pauses_or_fails_as_ordered(order: str, end: tuple[str, int], is_async: bool) -> None:
    """Forty payments are carried on after the bug is fixed, unless somebody wants the run to end."""
    home, _ = mortal_home()

    def plain(run: Any, prompt: Any) -> None:
        raise ZeroDivisionError("a bug")

    async def on_loop(run: Any, prompt: Any) -> None:
        raise ZeroDivisionError("a bug")

    result = home.run_sync(clew.agent(name="orders")(on_loop if is_async else plain), run_id=RUN, on_error=order)

    assert (*end, "agent_error") == (result.operation.state, result.exit_code, result.reason)
    assert isinstance(result.fault, ZeroDivisionError)


@pytest.mark.parametrize(("order", "end"), [("pause", ("paused", 5)), ("fail", ("failed", 3))])
def test_a_limit_pauses_or_fails_as_ordered(order: str, end: tuple[str, int]) -> None:
    """The next start is refused; what was started has ended; the limit stands in the journal."""
    home, _ = mortal_home()
    bank = Bank()
    budget = clew.RunBudget(max_calls=1)
    result = home.run_sync(payer(bank.tool(), "1", "2"), run_id=RUN, budget=budget, on_limit=order)

    assert (*end, "budget_exceeded", 1) == (
        result.operation.state,
        result.exit_code,
        result.reason,
        bank.orders.total(),
    )
    assert [{"dimension": "toolCalls", "limit": 1, "actual": 1}] == [
        event["budget"] for event in events_of(home, "error")
    ]


# Interruptions of an event loop.


# What is left when the journal fails.


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_an_effect_that_ended_but_could_not_be_recorded_is_named(is_async: bool) -> None:
    """The only trace of it, when even the append of its answer failed."""
    home, store = mortal_home()
    pay = Bank().tool()
    store.die_at(2)

    with pytest.raises(clew.Storage) as caught:
        home.run_sync(async_payer(pay, "1") if is_async else payer(pay, "1"), run_id=RUN)

    assert [f"{RUN}:pay-1:c1"] == caught.value.facts["unrecorded"]


def test_a_broken_leg_lets_the_run_go() -> None:
    """The same process may open it again: it knows that it ended that leg itself."""
    home, store = mortal_home()
    agent = payer(Bank().tool(), "1")
    store.die_at(1)
    dies(home.run_sync, agent, run_id=RUN)
    store.dead = False

    assert "completed" == home.resume_sync(RUN, agent).operation.state


def test_a_settled_run_goes_on_where_it_was() -> None:
    """A person's leg in between neither runs the agent nor counts as a death."""
    home, store = mortal_home()
    agent = payer(Bank().tool(), "1")
    store.die_at(2)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    home.settle(RUN, clew.Happened(1), **WHO)
    result = home.resume_sync(RUN, agent)

    assert (["settle", "resume"], "completed") == (
        [payload["leg"]["purpose"] for payload in resumes_of(home)],
        result.operation.state,
    )
