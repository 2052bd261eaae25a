"""What a run's children may spend in this leg, and what of its limits they have used. How much that is: `carving`."""

import threading

from clew.core.budget import RunBudget
from clew.core.carving import BESIDE, SPENT, carve, lent, limits_json
from clew.core.records import Payload
from clew.core.state import RunState
from clew.runtime.gate import Gate


class Purse:
    """The limits of one run's children, for one leg. What it gives out is kept from the run itself (`gate.lent`)."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._granted: dict[str, RunBudget] = {}
        self._lock = threading.Lock()
        self._account()

    def grant(self, step: str, asked: RunBudget, before: RunState | None) -> RunBudget:
        """The limits of a child's next leg, kept for it until `settle`. `before` is the child as it stopped last."""
        with self._lock:
            self._granted.pop(step, None)
            used, others = self._own(), self._others(step)
            for name, amount in others.items():
                used[name] += amount
            earlier = {} if before is None else {name: SPENT[name](before) or 0 for name in BESIDE}
            self._granted[step] = carve(asked, self._gate.budget, used, earlier)
            self._account()
            return self._granted[step]

    def allocation(self, step: str) -> Payload:
        """The limits of a child's leg, as a fact carries them."""
        return limits_json(self._granted[step])

    def settle(self, step: str) -> None:
        """Its leg is over: what it has used is recorded, and the rest is free again."""
        with self._lock:
            self._granted.pop(step, None)
            self._account()

    def _own(self) -> dict[str, float]:
        """What the run itself has used of each limit, as it stands in this very moment."""
        gate = self._gate
        used = {name: float(of(gate.journal.state) or 0) for name, of in SPENT.items()}
        calls = gate.calls_spent() - int(gate.lent.get("max_calls", 0))
        return used | {"max_calls": calls, "run_timeout_s": gate.active_s()}

    def _others(self, step: str = "") -> dict[str, float]:
        """What children have used or may use, one of them left out, of the limits that are theirs alone."""
        known = self._gate.journal.state.delegations
        settled = [child for name, child in known.items() if name not in self._granted and name != step]
        return {name: lent(settled, name) + self._kept(name) for name in SPENT if name not in BESIDE}

    def _kept(self, name: str) -> float:
        return sum(getattr(granted, name) or 0 for granted in self._granted.values())

    def _account(self) -> None:
        self._gate.lent = self._others()
