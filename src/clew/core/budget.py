"""Limits of a run. They pause before the next start; they never interrupt what has started."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from math import inf
from typing import Any, Final, Literal

import msgspec

from clew.errors import UsageError

Unmeasured = Literal["pause", "continue"]
LimitCode = Literal["budget_exceeded", "run_timeout", "budget_not_enforceable"]

_SCALES: Final = {"max_cost_usd": 1_000_000, "run_timeout_s": 1000}
"""Limits that may be fractions, and how many whole units of the journal one of theirs is."""
_NAMES: Final = {
    "max_calls": "maxCalls",
    "max_tool_failures": "maxToolFailures",
    "max_turns": "maxTurns",
    "max_steps": "maxSteps",
    "max_retries": "maxRetries",
    "max_tokens": "maxTokens",
    "max_cost_usd": "maxCostMicroUsd",
    "run_timeout_s": "runTimeoutMs",
}
LIMIT_OF: Final = {
    "toolCalls": "max_calls",
    "toolFailures": "max_tool_failures",
    "turns": "max_turns",
    "steps": "max_steps",
    "retries": "max_retries",
    "tokens": "max_tokens",
    "costUsd": "max_cost_usd",
    "activeTime": "run_timeout_s",
}
"""What is counted, in the contract's words, and the limit that bounds it."""

# What each kind of start adds. A turn costs something, if only one token: at the limit it is refused already.
NEW_CALL: Final = frozenset({"toolCalls", "steps"})
NEW_ATTEMPT: Final = frozenset({"retries"})
NEW_STEP: Final = frozenset({"steps"})
TURN_AGAIN: Final = frozenset({"tokens", "costUsd"})
NEW_TURN: Final = frozenset({"turns", "steps"}) | TURN_AGAIN
NOTHING_NEW: Final[frozenset[str]] = frozenset()


class RunBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits; leave out what is not limited. Spent amounts survive a resume, and a resume may bring new limits.

    Attributes:
        max_calls: Calls that may be proposed, over all legs; a replayed call counts once.
        max_tool_failures: Error answers that are put up with; above it nothing starts any more.
        max_turns: Turns that may be asked.
        max_steps: Steps of all kinds: calls, turns, named steps, checks and delegations.
        max_retries: Attempts above the first, of all calls together.
        max_tokens: Tokens that providers may report; a turn is refused when they are used up.
        max_cost_usd: Dollars that providers may report, counted in millionths.
        run_timeout_s: Seconds the agent may have been running, over all legs; time between legs does not count.
        on_unmeasured: When a turn reports no usage, a limit of tokens or cost cannot be kept: `pause` before the next
            start (default), or `continue` and count what is reported.
    """

    max_calls: int | None = None
    max_tool_failures: int | None = None
    max_turns: int | None = None
    max_steps: int | None = None
    max_retries: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    run_timeout_s: float | None = None
    on_unmeasured: Unmeasured = "pause"

    def __post_init__(self) -> None:
        for name in _NAMES:
            value = getattr(self, name)
            kinds = (int, float) if name in _SCALES else (int,)
            if value is not None and (type(value) not in kinds or not 0 <= value < inf):
                raise _no_limit(name, value, "a number that is not negative, or leave it out")
        if self.on_unmeasured not in ("pause", "continue"):
            raise _no_limit("on_unmeasured", self.on_unmeasured, "'pause' or 'continue'")

    def limit(self, dimension: str) -> int | None:
        """The limit of what is counted, in the journal's whole units: millionths of a dollar, milliseconds."""
        name = LIMIT_OF[dimension]
        value = getattr(self, name)
        return None if value is None else round(value * _SCALES.get(name, 1))

    def as_json(self) -> dict[str, Any]:
        """The limits as `start` and `resume` carry them: whole numbers, what is not limited left out."""
        limits: dict[str, Any] = {}
        for dimension, name in LIMIT_OF.items():
            limit = self.limit(dimension)
            if limit is not None:
                limits[_NAMES[name]] = limit
        if self.on_unmeasured != "pause":
            limits["onUnmeasured"] = self.on_unmeasured
        return limits

    @classmethod
    def from_json(cls, limits: Mapping[str, Any]) -> "RunBudget":
        """The limits that a record carries; members that this clew does not know are passed over.

        Raises:
            UsageError: `invalid_budget` when a member is no limit.
        """
        found: dict[str, Any] = {}
        for name, member in _NAMES.items():
            value = limits.get(member)
            if value is not None:
                found[name] = _unscaled(name, value)
        return cls(**found, on_unmeasured=limits.get("onUnmeasured", "pause"))


def _unscaled(name: str, value: Any) -> Any:
    scale = _SCALES.get(name)
    return value if scale is None or type(value) is not int else value / scale


def _no_limit(name: str, value: object, wanted: str) -> UsageError:
    return UsageError(f"budget {name} is {value!r}", code="invalid_budget", next=f"Give {name} as {wanted}.")


class Spent(msgspec.Struct, frozen=True):
    """What a run has used so far, over all legs: counts, whole tokens, millionths of a dollar, milliseconds.

    `no_tokens` and `no_cost` are the turns whose provider did not report the one or the other.
    """

    calls: int = 0
    failures: int = 0
    turns: int = 0
    steps: int = 0
    retries: int = 0
    tokens: int | None = None
    cost_micro_usd: int | None = None
    no_tokens: int = 0
    no_cost: int = 0
    active_ms: int = 0

    def of(self, dimension: str) -> int:
        """How much of this is known to be used."""
        return _SPENT[dimension](self) or 0

    def plus(self, other: "Spent") -> "Spent":
        """Both together; what neither of them measured is not measured."""
        found = {}
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            found[name] = mine if theirs is None else theirs + (mine or 0)
        return Spent(**found)


_SPENT: Final[dict[str, Any]] = {
    "toolCalls": lambda spent: spent.calls,
    "toolFailures": lambda spent: spent.failures,
    "turns": lambda spent: spent.turns,
    "steps": lambda spent: spent.steps,
    "retries": lambda spent: spent.retries,
    "tokens": lambda spent: spent.tokens,
    "costUsd": lambda spent: spent.cost_micro_usd,
    "activeTime": lambda spent: spent.active_ms,
}


class Exceeded(msgspec.Struct, frozen=True):
    """A limit that the next start would pass; whole numbers as in the journal (millionths of a dollar, milliseconds).

    `unmeasured` are the turns that keep the limit from being kept; then `actual` is what is known at least.
    """

    code: LimitCode
    dimension: str
    limit: int
    actual: int
    unmeasured: int = 0

    @property
    def message(self) -> str:
        """One sentence for a person, the dimension as its second word."""
        limit, actual = _amount(self.dimension, self.limit), _amount(self.dimension, self.actual)
        if self.code == "budget_not_enforceable":
            turns = "1 turn" if self.unmeasured == 1 else f"{self.unmeasured} turns"
            return f"limit {self.dimension} = {limit} cannot be kept: {turns} not measured (at least {actual} used)"
        return f"limit {self.dimension} = {limit} reached ({actual})"

    def as_json(self) -> dict[str, Any]:
        """The member `budget` of an `error` event."""
        found: dict[str, Any] = {"dimension": self.dimension, "limit": self.limit, "actual": self.actual}
        if self.unmeasured:
            found["unmeasuredTurns"] = self.unmeasured
        return found


def _amount(dimension: str, value: int) -> str:
    scale = _SCALES.get(LIMIT_OF[dimension], 1)
    return f"{value / scale:g}" if scale > 1 else str(value)


def exceeded(budget: RunBudget, spent: Spent, adds: Collection[str] = NOTHING_NEW) -> Exceeded | None:
    """The limit that a start would pass which adds one of each of `adds`, or that is passed already.

    Any start takes time, so a time limit is reached when it is used up.
    """
    for dimension, limit in _bounds(budget):
        actual = spent.of(dimension)
        if actual + (dimension in adds or dimension == "activeTime") > limit:
            code: LimitCode = "run_timeout" if dimension == "activeTime" else "budget_exceeded"
            return Exceeded(code, dimension, limit, actual)
    return _not_enforceable(budget, spent)


@lru_cache(maxsize=64)
def _bounds(budget: RunBudget) -> tuple[tuple[str, int], ...]:
    """What is limited, and by how much; asked at every start."""
    return tuple((dimension, limit) for dimension in LIMIT_OF if (limit := budget.limit(dimension)) is not None)


def _not_enforceable(budget: RunBudget, spent: Spent) -> Exceeded | None:
    if budget.on_unmeasured == "continue":
        return None
    for dimension, unmeasured in (("tokens", spent.no_tokens), ("costUsd", spent.no_cost)):
        limit = budget.limit(dimension)
        if limit is not None and unmeasured:
            return Exceeded("budget_not_enforceable", dimension, limit, spent.of(dimension), unmeasured)
    return None
