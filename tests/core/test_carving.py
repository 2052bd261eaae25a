"""What a child may spend: never more than its parent has left, and all that it spends is its parent's."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import events
from clew.core.budget import RunBudget, Spent
from clew.core.carving import BESIDE, MEMBERS, UNMEASURED, carve, kept, lent, own, spent_by, spent_fact, unanswered
from clew.core.delegation import DelegationState
from tests.core.test_delegation import at, intent
from tests.histories import Scribe, facts, returned, started

CHILD = DelegationState("child-1", "kid-1", "f" * 64, "worker", 1, 0)
LIMITS = {
    "calls": "max_calls",
    "failures": "max_tool_failures",
    "turns": "max_turns",
    "steps": "max_steps",
    "retries": "max_retries",
    "tokens": "max_tokens",
    "cost_micro_usd": "max_cost_usd",
    "active_ms": "run_timeout_s",
}
SCALES = {"cost_micro_usd": 1_000_000, "active_ms": 1000}
APART = [name for name in LIMITS if name not in BESIDE]
numbers = st.none() | st.integers(0, 50)


def limited(name: str, amount: int | None) -> RunBudget:
    """A budget with one limit, in the journal's whole units."""
    value = None if amount is None else amount / SCALES[name] if name in SCALES else amount
    return RunBudget(**{LIMITS[name]: value})  # type: ignore[arg-type]  # a name of a field each


def test_every_limit_of_a_budget_is_carved_and_counted() -> None:
    """A limit without a row would be handed to a child whole, and nobody would count what it spends."""
    whole = {
        name: 1 for name in RunBudget.__struct_fields__ if name != "on_unmeasured"
    }  # fmt: skip
    members = set(RunBudget(**whole).as_json())  # type: ignore[arg-type]  # a name of a field each

    assert (members, set(LIMITS)) == (set(MEMBERS.values()), set(MEMBERS))


def test_everything_that_is_spent_has_a_member() -> None:
    """What a fact does not carry, the parent never hears of."""
    assert set(Spent.__struct_fields__) == {*MEMBERS, *UNMEASURED}


@pytest.mark.parametrize("name", LIMITS)
@given(asked=numbers, limit=numbers, used=st.integers(0, 80))
def test_a_child_never_gets_more_than_is_left(name: str, asked: int | None, limit: int | None, used: int) -> None:
    """The parent's limit holds for the whole tree, of whatever it is."""
    granted = carve(limited(name, asked), limited(name, limit), Spent(**{name: used}), 0)
    left = None if limit is None else max(0, limit - used)
    expected = asked if left is None else left if asked is None else min(left, asked)

    assert ({} if expected is None else {MEMBERS[name]: expected}) == granted.as_json()


def test_what_nobody_measured_takes_nothing_off() -> None:
    """Whether it can be kept at all is asked at each start."""
    granted = carve(RunBudget(), RunBudget(max_tokens=10), Spent(tokens=None, no_tokens=1), 0)

    assert RunBudget(max_tokens=10) == granted


def test_time_runs_on_in_parent_and_child_at_once() -> None:
    """What the child used in earlier legs is not taken off twice."""
    granted = carve(RunBudget(), RunBudget(run_timeout_s=10.0), Spent(active_ms=4000), 3000)

    assert RunBudget(run_timeout_s=9.0) == granted


@pytest.mark.parametrize(
    ("asked", "limits", "granted"),
    [
        (RunBudget(on_unmeasured="continue"), RunBudget(max_tokens=5), "pause"),
        (RunBudget(on_unmeasured="continue"), RunBudget(max_cost_usd=5), "pause"),
        (RunBudget(on_unmeasured="continue"), RunBudget(max_calls=5), "continue"),
        (RunBudget(on_unmeasured="continue"), RunBudget(max_tokens=5, on_unmeasured="continue"), "continue"),
        (RunBudget(), RunBudget(max_tokens=5, on_unmeasured="continue"), "pause"),
    ],
)
def test_a_child_is_never_more_careless_of_what_is_not_measured(
    asked: RunBudget, limits: RunBudget, granted: str
) -> None:
    """A limit that must be kept is not kept by a child that goes on without being measured."""
    assert granted == carve(asked, limits, Spent(), 0).on_unmeasured


@pytest.mark.parametrize("name", APART)
@pytest.mark.parametrize(
    ("status", "used", "charged"),
    [
        ("recorded", None, 7),
        ("running", None, 7),
        ("running", 9, 9),
        ("paused", 2, 2),
        ("terminal", 2, 2),
        ("joined", 2, 2),
    ],
)
def test_a_child_is_charged_what_it_used_or_may_use(name: str, status: str, used: int | None, charged: int) -> None:
    """What is kept for it nobody else may spend; what it left over is free again."""
    told = None if used is None else {MEMBERS[name]: used}
    child: Any = {"status": status, "spent": told, "granted": {MEMBERS[name]: 7, "runTimeoutMs": 5}}

    assert Spent(**{name: charged}) == lent([msgspec.structs.replace(CHILD, **child)])


def test_turns_of_a_child_that_nobody_measured_are_its_parents() -> None:
    """Otherwise a limit of the parent's would seem to be kept."""
    child = msgspec.structs.replace(CHILD, status="joined", spent={"unmeasuredTokens": 2, "unmeasuredCosts": 1})

    assert Spent(no_tokens=2, no_cost=1) == lent([child])


def test_what_a_child_may_use_is_kept_whole_but_for_time() -> None:
    """Time is not taken away from who waits."""
    assert Spent(calls=3, tokens=9) == kept(RunBudget(max_calls=3, max_tokens=9, run_timeout_s=4))


def test_a_run_has_spent_what_its_children_spent() -> None:
    """A grandchild's calls are counted against the run at the top."""
    scribe = at("created", "running", "terminal")
    call = facts()
    scribe.say(*started(call))
    scribe.say(*returned(call))

    assert (1, 3) == (own(scribe.state).calls, spent_by(scribe.state).calls)


def test_a_delegation_is_a_step_before_and_after_its_answer() -> None:
    """It is counted when it begins, and once."""
    counts = []
    for statuses in ((), ("created",), ("created", "running", "terminal", "joined")):
        state = at(*statuses).state
        counts.append((unanswered(state), own(state).steps))

    assert [(1, 1), (1, 1), (0, 1)] == counts


def test_a_turn_that_has_not_ended_is_not_measured() -> None:
    """It was paid, perhaps."""
    scribe = Scribe().born()
    scribe.say(events.agent_start("turn-1", "f"))

    assert (1, 1) == (own(scribe.state).no_tokens, own(scribe.state).no_cost)


def test_what_is_not_measured_is_no_number() -> None:
    """Promise 9: a missing fact is never zero."""
    told = spent_fact(Spent(calls=2, no_cost=1))

    assert (2, 1, False, False, False) == (
        told["maxCalls"], told["unmeasuredCosts"], "maxTokens" in told, "maxCostMicroUsd" in told,
        "unmeasuredTokens" in told,
    )  # fmt: skip


def test_a_fact_says_again_what_was_spent() -> None:
    """What the parent records is what it counts later."""
    spent = Spent(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    child = msgspec.structs.replace(CHILD, status="joined", spent=spent_fact(spent))

    assert msgspec.structs.replace(spent, active_ms=0) == lent([child])


def test_the_intent_is_charged_nothing_before_its_limits_are_known() -> None:
    """What it asked for is not what it may use."""
    scribe = Scribe().born()
    scribe.say(intent())

    assert Spent() == lent(scribe.state.delegations.values())
