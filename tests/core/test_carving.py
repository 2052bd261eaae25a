"""What a child may spend: never more than its parent has left, and all that it spends is its parent's."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import carving
from clew.core.budget import RunBudget
from clew.core.carving import BESIDE, SPENT, carve, lent, limits_json, limits_of, spent, spent_by
from clew.core.delegation import DelegationState
from tests.core.test_delegation import at
from tests.histories import Scribe, facts, returned, started

CHILD = DelegationState("child-1", "kid-1", "f" * 64, "worker", 1, 0, granted={"maxCalls": 7})
numbers = st.none() | st.integers(0, 50)


def test_limits_are_whole_numbers_in_a_record_and_come_back() -> None:
    """Members of ours hold no floats: time is milliseconds there."""
    budget = RunBudget(max_calls=3, run_timeout_s=1.5)

    assert ({"maxCalls": 3, "runTimeoutMs": 1500}, budget) == (limits_json(budget), limits_of(limits_json(budget)))


def test_a_limit_that_is_not_known_is_left_out() -> None:
    """A newer clew may have written it."""
    assert RunBudget(max_calls=3) == limits_of({"maxCalls": 3, "maxDreams": 4})


def test_every_limit_that_is_measured_is_one_of_the_budget() -> None:
    """A name that no budget has would carve nothing."""
    fields = set(RunBudget.__struct_fields__)

    assert [] == sorted({*SPENT, *BESIDE} - fields)


@given(asked=numbers, limit=numbers, used=st.integers(0, 80))
def test_a_child_never_gets_more_than_is_left(asked: int | None, limit: int | None, used: int) -> None:
    """The parent's limit holds for the whole tree."""
    granted = carve(RunBudget(max_calls=asked), RunBudget(max_calls=limit), {"max_calls": used}, {})

    assert granted.max_calls == (
        asked if limit is None else min(max(0, limit - used), max(0, limit - used) if asked is None else asked)
    )


def test_time_runs_on_in_parent_and_child_at_once() -> None:
    """What the child used in earlier legs is not taken off twice."""
    granted = carve(RunBudget(), RunBudget(run_timeout_s=10.0), {"run_timeout_s": 4.0}, {"run_timeout_s": 3.0})

    assert RunBudget(run_timeout_s=9.0) == granted


@pytest.mark.parametrize(
    ("status", "used", "charged"),
    [
        ("recorded", None, 7.0),
        ("running", None, 7.0),
        ("running", 9, 9.0),
        ("paused", 2, 2.0),
        ("terminal", 2, 2.0),
        ("joined", 2, 2.0),
    ],
)
def test_a_child_is_charged_what_it_used_or_may_use(status: str, used: int | None, charged: float) -> None:
    """What is kept for it nobody else may spend; what it left over is free again."""
    told = None if used is None else {"maxCalls": used}
    child = msgspec.structs.replace(CHILD, status=status, spent=told)

    assert charged == lent([child], "max_calls")


def test_a_run_has_spent_what_its_children_spent() -> None:
    """A grandchild's calls are counted against the run at the top."""
    scribe = at("created", "running", "terminal")
    call = facts()
    scribe.say(*started(call))
    scribe.say(*returned(call))

    assert (3, {"maxCalls": 3, "runTimeoutMs": 0}) == (spent(scribe.state, "max_calls"), spent_by(scribe.state))


def test_what_is_not_measured_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 9: a missing fact is never zero."""
    monkeypatch.setitem(carving.SPENT, "max_calls", lambda state: None)

    assert {"runTimeoutMs": 0} == spent_by(Scribe().born().state)
