"""What children may spend: kept from their parent while they run, and counted once they have."""

from typing import Any

import clew
from clew.core.budget import RunBudget, Spent
from clew.runtime.gate import Gate
from clew.runtime.purse import Purse


def purse(limit: int | None, seen: dict[str, Any]) -> None:
    """Look at the purse of a living run with one call behind it."""

    def look(run: clew.SyncRun, prompt: Any) -> None:
        run.call(tool)
        gate: Gate = run._gate
        found = Purse(gate)
        seen["first"] = found.grant("child-1", RunBudget(max_calls=3), None).max_calls
        seen["second"] = found.grant("child-2", RunBudget(), None).max_calls
        seen["kept"] = gate.lent
        seen["fact"] = found.allocation("child-1")
        found.settle("child-1")
        found.settle("child-2")
        seen["free"] = gate.lent
        seen["again"] = found.grant("child-1", RunBudget(max_calls=99), None).max_calls

    tool = clew.Tool(lambda: 1, name="look", effect="none", replay="safe")
    result = clew.Home.memory().run_sync(look, signals=False, budget=RunBudget(max_calls=limit))
    assert result.operation.state == "completed", result.fault


def test_what_is_given_out_is_kept_and_what_is_left_over_is_free_again() -> None:
    """One call is made, three are kept for the first child, the second gets the rest."""
    seen: dict[str, Any] = {}
    purse(10, seen)

    assert {
        "first": 3, "second": 6, "kept": Spent(calls=9), "fact": {"maxCalls": 3}, "free": None, "again": 9
    } == seen  # fmt: skip


def test_without_a_limit_everybody_gets_what_they_asked_for() -> None:
    """Nothing is divided that has no end."""
    seen: dict[str, Any] = {}
    purse(None, seen)

    assert {
        "first": 3, "second": None, "kept": Spent(calls=3), "fact": {"maxCalls": 3}, "free": None, "again": 99
    } == seen  # fmt: skip
