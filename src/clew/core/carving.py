"""What a child may spend, cut out of what its parent has left, for each limit of a budget. Enforces nothing."""

from collections.abc import Iterable
from typing import Any, Final

from clew.core.budget import RunBudget, Spent
from clew.core.delegation import DelegationState
from clew.core.state import RunState

MEMBERS: Final = {
    "calls": "maxCalls",
    "failures": "maxToolFailures",
    "turns": "maxTurns",
    "steps": "maxSteps",
    "retries": "maxRetries",
    "tokens": "maxTokens",
    "cost_micro_usd": "maxCostMicroUsd",
    "active_ms": "runTimeoutMs",
}
"""What is spent, and the member of a budget that bounds it; a budget's member that is not here would not be kept."""

BESIDE: Final = frozenset({"active_ms"})
"""What runs on in a parent while its child runs: what a child uses of it, its parent uses as well."""

UNMEASURED: Final = {"no_tokens": "unmeasuredTokens", "no_cost": "unmeasuredCosts"}
"""Turns of which nobody reported the one or the other; a parent's limit cannot be kept then either."""

_STOPPED: Final = ("paused", "terminal", "joined")


def own(state: RunState) -> Spent:
    """What a run's own work has used of each limit, as far as its journal says."""
    metrics, talk = state.metrics, state.metrics.talk
    return Spent(
        calls=metrics.tool_calls,
        failures=metrics.tool_failures,
        turns=metrics.turns,
        steps=metrics.steps_started + unanswered(state),
        retries=metrics.retries,
        tokens=metrics.tokens,
        cost_micro_usd=metrics.cost_micro_usd,
        no_tokens=talk.no_tokens + talk.open,
        no_cost=talk.no_cost + talk.open,
        active_ms=state.active_ms,
    )


def unanswered(state: RunState) -> int:
    """Delegations that have begun and whose step has no answer yet: each is a step all the same."""
    return sum(state.steps.get(step) is None for step in state.delegations)


def spent_by(state: RunState) -> Spent:
    """What a run has used of each limit, its children included."""
    return own(state).plus(lent(state.delegations.values()))


def spent_fact(spent: Spent) -> dict[str, int]:
    """What was used, by the members of a budget, as facts carry it; what is not measured is left out."""
    named = {member: getattr(spent, name) for name, member in MEMBERS.items()}
    lacking = {member: getattr(spent, name) or None for name, member in UNMEASURED.items()}
    return {member: amount for member, amount in (named | lacking).items() if amount is not None}


def lent(children: Iterable[DelegationState]) -> Spent:
    """What these children have used or may use yet, of what is theirs alone."""
    total = Spent()
    for child in children:
        total = total.plus(_charged(child))
    return total


def kept(granted: RunBudget) -> Spent:
    """What a child may use that has these limits."""
    return _read(granted.as_json())


def _charged(child: DelegationState) -> Spent:
    """What it has used, once it has stopped; else all that it may use."""
    used = child.spent or {}
    if child.status in _STOPPED:
        return _read(used)
    may = {member: child.granted[member] for member in MEMBERS.values() if member in child.granted}
    return _read({**used, **{member: max(used.get(member, 0), amount) for member, amount in may.items()}})


def _read(fact: dict[str, Any]) -> Spent:
    names = {**MEMBERS, **UNMEASURED}
    known = {name: fact.get(member) for name, member in names.items() if name not in BESIDE}
    return Spent(**{name: amount for name, amount in known.items() if amount is not None})


def carve(asked: RunBudget, limits: RunBudget, used: Spent, before_ms: int) -> RunBudget:
    """The limits of a child: what was asked for it, never more than its parent has left.

    Args:
        asked: What was asked for it.
        limits: The parent's limits.
        used: What the parent and its other children have used or keep of each.
        before_ms: How long the child itself had been running in earlier legs.
    """
    wish, given = asked.as_json(), limits.as_json()
    for name, member in MEMBERS.items():
        limit = given.get(member)
        if limit is not None:
            left = max(0, limit - (getattr(used, name) or 0) + (before_ms if name in BESIDE else 0))
            wish[member] = min(wish.get(member, left), left)
    if limits.on_unmeasured == "pause" and ("maxTokens" in given or "maxCostMicroUsd" in given):
        wish.pop("onUnmeasured", None)
    return RunBudget.from_json(wish)
