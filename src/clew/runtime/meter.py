"""What one leg may still spend: limits are asked before each start, time is taken by a clock that nobody sets."""

from collections.abc import Collection

import msgspec

from clew.core.budget import (
    NEW_ATTEMPT,
    NEW_CALL,
    NEW_STEP,
    NEW_TURN,
    NOTHING_NEW,
    TURN_AGAIN,
    Exceeded,
    RunBudget,
    Spent,
    exceeded,
)
from clew.core.carving import unanswered
from clew.core.compose import Close, Saying
from clew.core.ids import step_id
from clew.core.needs import Closing
from clew.errors import Stop
from clew.runtime.admission import Admission
from clew.runtime.journal import Journal
from clew.runtime.tickets import Ticket
from clew.runtime.tools import Agent
from clew.stores.base import BlobStore, Processes, RunStore


class Meter(Admission):
    """A door that knows the run's limits. What was started in this leg is counted here, before it is on disk.

    `lent`: what the run's children have used or may use, counted beside its own; None while it has no children.

    Source:
        DESIGN §6, Limits.
    """

    def __init__(
        self, journal: Journal, agent: Agent, *, store: RunStore, blobs: BlobStore, budget: RunBudget,
        processes: Processes,
    ) -> None:  # fmt: skip
        super().__init__(journal, agent, store=store, blobs=blobs, processes=processes)
        self.budget = budget
        self._bounded = bool(budget.as_json())
        metrics = journal.state.metrics
        self._spent = {
            "toolCalls": metrics.tool_calls,
            "turns": metrics.turns,
            "steps": metrics.steps_started + unanswered(journal.state),
            "retries": metrics.retries,
        }
        self.lent: Spent | None = None
        self.counting = self._admitting

    def spend(self, adds: Collection[str]) -> Exceeded | None:
        """Count a start, unless a limit is reached: then the first one found, for good. Threads ask as well."""
        if not self._bounded:
            return None
        with self._admitting:
            if self.limit is None:
                self.limit = exceeded(self.budget, self._so_far(), adds)
            if self.limit is None:
                for dimension in adds:
                    if dimension in self._spent:
                        self._spent[dimension] += 1
            return self.limit

    def _so_far(self) -> Spent:
        own = self.own_spent()
        return own if self.lent is None else own.plus(self.lent)

    def own_spent(self) -> Spent:
        """What the run itself has used of each limit, as it stands in this very moment."""
        state = self.journal.state
        metrics, counted = state.metrics, self._spent
        return Spent(
            calls=counted["toolCalls"],
            failures=metrics.tool_failures,
            turns=counted["turns"],
            steps=counted["steps"],
            retries=counted["retries"],
            tokens=metrics.tokens,
            cost_micro_usd=metrics.cost_micro_usd,
            no_tokens=metrics.talk.no_tokens,
            no_cost=metrics.talk.no_cost,
            active_ms=state.active_ms + self.journal.time.ran_ms(),
        )

    def spend_call(self, ticket: Ticket, attempt: int) -> Exceeded | None:
        """Count an attempt of a call, once: a new call, one above the first, or the first of a recorded call."""
        if not self._bounded:
            return None
        if ticket.counted >= attempt:
            # It waited for a person meanwhile.
            return self.spend(NOTHING_NEW)
        new = ticket.walk is not None and not ticket.walk.recorded
        return self.spend(NEW_CALL if new else NEW_ATTEMPT if attempt > 1 else NOTHING_NEW)

    def check_limits(self) -> None:
        """Right before a start: what it waited for may have lasted longer, or cost more, than the run may.

        Raises:
            Stop: a limit is reached; the gate has closed.
        """
        if self._bounded:
            self._begin(NOTHING_NEW)

    def begin_turn(self, *, again: bool) -> None:
        """Count a request to a model, or refuse it by closing the gate; `again`: its turn is recorded already.

        Raises:
            Stop: a limit is reached.
        """
        self._begin(TURN_AGAIN if again else NEW_TURN)

    def begin_step(self) -> None:
        """Count a named step, a check or a delegation, or refuse it by closing the gate.

        Raises:
            Stop: a limit is reached.
        """
        self._begin(NEW_STEP)

    def _begin(self, adds: Collection[str]) -> None:
        limit = self.spend(adds)
        if limit is not None:
            self.close(Closing(limit.code))
            self.check_open()

    def next_check(self, path: str, slug: str) -> str:
        """The id of the next check of this name here, counted from the beginning of the leg, as the agent replays."""
        with self._admitting:
            self._steps[f"{path}.{slug}"] += 1
            return step_id(path, slug, self._steps[f"{path}.{slug}"])

    def check_going(self) -> None:
        """Refuse what comes after the agent's end, or behind a closed gate.

        Raises:
            Stop: always then.
        """
        self.check_open()
        if self.flights.ended:
            raise Stop("the agent has ended")

    def timed(self, sayings: list[Saying]) -> list[Saying]:
        """The leg's last append; with how long the leg ran, where the times of its records lie."""
        last, time = sayings[-1] if sayings else None, self.journal.time
        if not isinstance(last, Close) or not time.was_set():
            return sayings
        return [*sayings[:-1], msgspec.structs.replace(last, active_ms=time.ran_ms())]
