"""What a run asks of whoever opened its leg: to bear a child and see it to its end. How that is done: `children`."""

from typing import Any, Protocol

import msgspec

from clew.core.budget import RunBudget


class Wish(msgspec.Struct, frozen=True):
    """A child as its parent's agent asked for it: an agent, JSON, limits, an id of the user's own, how long to wait."""

    agent: Any
    input: Any = None
    budget: RunBudget | None = None
    run_id: str | None = None
    timeout_s: float | None = None


class Nursery(Protocol):
    """The children of one run, for one leg."""

    async def raise_async(self, step_id: str, wish: Wish) -> Any:
        """The child's output, from an event loop."""
        ...

    def raise_sync(self, step_id: str, wish: Wish) -> Any:
        """The child's output, blocking."""
        ...

    def end_all(self) -> dict[str, str]:
        """End the children that stand still, for this run is aborted; those that could not be, in words. Blocking."""
        ...
