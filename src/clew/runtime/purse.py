"""What a run's children may spend in this leg, and what of its limits they have used. How much that is: `carving`."""

import threading

from clew.core.budget import RunBudget, Spent
from clew.core.carving import carve, kept, lent
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
        # While it is cut out, the run itself starts nothing.
        with self._lock, self._gate.counting:
            self._granted.pop(step, None)
            used = self._gate.own_spent().plus(self._others(step))
            earlier = 0 if before is None else before.active_ms
            self._granted[step] = carve(asked, self._gate.budget, used, earlier)
            self._account()
            return self._granted[step]

    def allocation(self, step: str) -> Payload:
        """The limits of a child's leg, as a fact carries them."""
        return self._granted[step].as_json()

    def settle(self, step: str) -> None:
        """Its leg is over: what it has used is recorded, and the rest is free again."""
        with self._lock:
            self._granted.pop(step, None)
            self._account()

    def _others(self, step: str = "") -> Spent:
        """What children have used or may use, one of them left out, of the limits that are theirs alone."""
        known = self._gate.journal.state.delegations
        found = lent(child for name, child in known.items() if name not in self._granted and name != step)
        for granted in self._granted.values():
            found = found.plus(kept(granted))
        return found

    def _account(self) -> None:
        some = self._granted or self._gate.journal.state.delegations
        self._gate.lent = self._others() if some else None
