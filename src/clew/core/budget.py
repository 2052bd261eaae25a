"""Limits of a run. They pause before the next start; they never interrupt what has started."""

from math import inf
from typing import Any, Literal

import msgspec

from clew.errors import UsageError


class RunBudget(msgspec.Struct, frozen=True):
    """Limits; leave out what is not limited. Spent amounts survive a resume, and a resume may bring new limits.

    Attributes:
        max_calls: Calls that may be proposed, over all legs; a replayed call counts once.
        run_timeout_s: Seconds the agent may have been running, over all legs; time between legs does not count.
    """

    max_calls: int | None = None
    run_timeout_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_calls", "run_timeout_s"):
            value = getattr(self, name)
            kinds = (int,) if name == "max_calls" else (int, float)
            if value is not None and (type(value) not in kinds or not 0 <= value < inf):
                raise UsageError(
                    f"budget {name} is {value!r}",
                    code="invalid_budget",
                    next=f"Give {name} as a number that is not negative, or leave it out.",
                )

    def as_json(self) -> dict[str, Any]:
        """The limits as the start record carries them: whole numbers, unlimited ones left out."""
        limits = {} if self.max_calls is None else {"maxCalls": self.max_calls}
        if self.run_timeout_s is not None:
            limits["runTimeoutMs"] = round(self.run_timeout_s * 1000)
        return limits


class Exceeded(msgspec.Struct, frozen=True):
    """A limit that the next start would pass; `actual` in the limit's own unit."""

    code: Literal["budget_exceeded", "run_timeout"]
    dimension: str
    limit: float
    actual: float

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return f"limit {self.dimension} = {self.limit:g} reached ({self.actual:g})"

    def as_json(self) -> dict[str, Any]:
        """The member `budget` of an `error` event; whole numbers (milliseconds for time)."""
        scale = 1000 if self.code == "run_timeout" else 1
        return {"dimension": self.dimension, "limit": round(self.limit * scale), "actual": round(self.actual * scale)}


def exceeded(budget: RunBudget, *, calls: int, active_s: float) -> Exceeded | None:
    """The limit that one more call would pass, with `calls` proposed and `active_s` seconds spent so far."""
    if budget.max_calls is not None and calls >= budget.max_calls:
        return Exceeded("budget_exceeded", "toolCalls", budget.max_calls, calls)
    return out_of_time(budget, active_s)


def out_of_time(budget: RunBudget, active_s: float) -> Exceeded | None:
    """The time limit, if it is used up."""
    if budget.run_timeout_s is not None and active_s >= budget.run_timeout_s:
        return Exceeded("run_timeout", "activeTime", budget.run_timeout_s, active_s)
    return None
