"""What a child may spend, cut out of what its parent has left, for each limit of a budget. Enforces nothing."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from clew.core.budget import RunBudget
from clew.core.delegation import DelegationState
from clew.core.state import RunState

SPENT: Final[dict[str, Callable[[RunState], float | None]]] = {
    "max_calls": lambda state: state.metrics.tool_calls,
    "run_timeout_s": lambda state: state.active_ms / 1000,
}
"""How much of a limit a run's own work has used; a limit that is not named here is handed on whole."""

BESIDE: Final = frozenset({"run_timeout_s"})
"""Limits that run on in a parent while its child runs: what a child uses of them, its parent uses as well."""

_UNITS: Final = {"_s": ("Ms", 1000), "_usd": ("MicroUsd", 1_000_000)}


def limits_json(budget: RunBudget) -> dict[str, Any]:
    """The limits as a delegation's facts carry them: whole numbers in camelCase, unlimited ones left out."""
    given = {name: getattr(budget, name) for name in budget.__struct_fields__}
    return {_member(name): _whole(name, value) for name, value in given.items() if value is not None}


def limits_of(told: Mapping[str, Any]) -> RunBudget:
    """The limits that facts carry; what this version does not know is left out."""
    known = {_member(name): name for name in RunBudget.__struct_fields__}
    return RunBudget(**{known[name]: _given(known[name], value) for name, value in told.items() if name in known})


def _unit(name: str) -> tuple[str, str, int]:
    """The end of a limit's name, what stands for it in JSON, and by how much it is multiplied there."""
    end = next((end for end in _UNITS if name.endswith(end)), "")
    return (end, *_UNITS.get(end, ("", 1)))


def _member(name: str) -> str:
    end, written, _ = _unit(name)
    first, *rest = name.removesuffix(end).split("_")
    return first + "".join(part.capitalize() for part in rest) + written


def _whole(name: str, value: Any) -> Any:
    return round(value * _unit(name)[2]) if type(value) in (int, float) else value


def _given(name: str, value: Any) -> Any:
    scale = _unit(name)[2]
    return value / scale if scale > 1 and type(value) is int else value


def spent_by(state: RunState) -> dict[str, Any]:
    """What a run has used of each limit, its children included, as facts carry it; what is not measured is left out."""
    used = {name: spent(state, name) for name in SPENT}
    return {_member(name): _whole(name, value) for name, value in used.items() if value is not None}


def spent(state: RunState, name: str) -> float | None:
    """What a run has used of one limit, its children included; None when that is not measured."""
    own = SPENT[name](state)
    return own if own is None or name in BESIDE else own + lent(state.delegations.values(), name)


def lent(children: Iterable[DelegationState], name: str) -> float:
    """What of one limit is used up by these children or kept for them."""
    return sum(_charge(child, name) for child in children)


def _charge(child: DelegationState, name: str) -> float:
    """What it has used, once it has stopped; else all that it may use."""
    used = (child.spent or {}).get(_member(name), 0)
    stopped = child.status in ("paused", "terminal", "joined")
    kept = used if stopped else max(used, child.granted.get(_member(name), 0))
    return float(_given(name, kept))


def carve(asked: RunBudget, limits: RunBudget, used: Mapping[str, float], before: Mapping[str, float]) -> RunBudget:
    """The limits of a child: what was asked for it, never more than its parent has left.

    Args:
        asked: What was asked for it.
        limits: The parent's limits.
        used: What the parent and its other children have used or keep of each, by name.
        before: What the child itself had used in earlier legs of limits that run beside; 0 when left out.
    """
    granted = {}
    for name in limits.__struct_fields__:
        wish, limit = getattr(asked, name), getattr(limits, name)
        if type(limit) in (int, float):
            left = max(type(limit)(0), type(limit)(limit - used.get(name, 0) + before.get(name, 0)))
            wish = left if wish is None else min(wish, left)
        granted[name] = wish if wish is not None else limit
    return msgspec.structs.replace(asked, **granted)
