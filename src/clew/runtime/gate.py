"""The one door every call passes: it admits, judges by the plan, drives the walk, and closes when an effect is open."""

from collections.abc import Callable, Sequence
from typing import Any

from clew.core import needs
from clew.core.budget import Exceeded, RunBudget, exceeded, out_of_time
from clew.core.needs import Allow, Answered, Closing, Deny, End, GaveUp, Halt
from clew.errors import Stop
from clew.runtime.admission import Admission
from clew.runtime.bodies import MESSAGE_CHARS, text_of
from clew.runtime.extensions import Extension
from clew.runtime.journal import Journal
from clew.runtime.lifecycle import Lifecycle
from clew.runtime.nursery import Nursery
from clew.runtime.tickets import Ticket, deliver
from clew.runtime.tools import Agent, Call
from clew.stores.base import BlobStore, Processes, RunStore, Workspace


class Gate(Admission):
    """One leg's door. Lives from the leg's first append to its last; `closing` says why nothing starts any more.

    `lent`: what of each limit the run's children have used or keep.

    Source:
        DESIGN §5; promises 2, 3, 5 and 8.
    """

    def __init__(
        self, journal: Journal, agent: Agent, *, store: RunStore, blobs: BlobStore, budget: RunBudget,
        workspace: Workspace, processes: Processes, extensions: Sequence[Extension] = (),
    ) -> None:  # fmt: skip
        super().__init__(journal, agent, store=store, blobs=blobs, processes=processes)
        self.budget = budget
        self.workspace = workspace
        self.nursery: Nursery | None = None
        self.lent: dict[str, float] = {}
        self.late: list[tuple[Ticket, int, needs.Outcome]] = []
        self._proposed = journal.state.metrics.tool_calls
        self.extensions = Lifecycle(extensions, journal, self.redactor, agent.name) if extensions else None
        self._since_s = journal.clock.monotonic_s()

    # What drivers ask.

    def decide(self, ticket: Ticket, attempt: int, *, again: bool = False) -> Allow | Deny | Halt:
        """May this attempt start? The gate is open, the limits hold, the policy agrees."""
        if self.closing is not None:
            return Halt(self.closing.reason)
        limit = self._spend(new=ticket.walk is not None and not ticket.walk.recorded)
        if limit is not None:
            self.limit = limit
            return Halt(limit.code)
        denial = None if again else self._ask_policy(ticket, attempt)
        return Allow() if denial is None else Deny(self.redactor.text(denial)[:MESSAGE_CHARS])

    def _spend(self, *, new: bool) -> Exceeded | None:
        """Count a new call, unless a limit is reached; one at a time, for threads ask as well."""
        with self._admitting:
            limit = exceeded(self.budget, calls=self.calls_spent() if new else -1, active_s=self.active_s())
            if new and limit is None:
                self._proposed += 1
            return limit

    def calls_spent(self) -> int:
        """Calls proposed so far, and those that children have made or may make."""
        return self._proposed + int(self.lent.get("max_calls", 0))

    def _ask_policy(self, ticket: Ticket, attempt: int) -> str | None:
        """What the policy says; one that fails denies."""
        if self.agent.policy is None:
            return None
        try:
            denial = self.agent.policy(self.call_of(ticket, attempt))
        except Exception as fault:  # noqa: BLE001  # whatever it raises, it did not allow
            return f"the policy failed: {type(fault).__name__}"
        return None if denial is None else text_of(denial)

    def check_time(self) -> None:
        """Refuse a turn or step when the time is used up, by closing the gate."""
        self.check_open()
        if self.flights.ended:
            raise Stop("the agent has ended")
        limit = out_of_time(self.budget, self.active_s())
        if limit is not None:
            self.limit = limit
            self.close(Closing(limit.code))
            self.check_open()

    def active_s(self) -> float:
        """Seconds the agent has been running, over all legs."""
        here = self.journal.clock.monotonic_s() - self._since_s
        return self.journal.state.active_ms / 1000 + here

    def call_of(self, ticket: Ticket, attempt: int) -> Call:
        """The call as the tool and its probe see it."""
        facts = ticket.facts
        return Call(
            facts.key, tool=facts.tool, attempt=attempt, arguments=ticket.plain, workspace=self.workspace,
            processes=self.processes, called_off=self.called_off,
        )  # fmt: skip

    def called_off(self) -> bool:
        """Is the run to end at once? Looks into the inbox first where the agent's own thread does it, which waits."""
        self.poll()
        return bool(self.aborting)

    def save(self, data: bytes) -> str | None:
        """Keep bytes; None when the machine refuses, for the fact itself is still to be written."""
        try:
            return self.blobs.put(data)
        except Exception:  # noqa: BLE001  # whatever the blob store raises, it did not keep them
            return None

    def returned_late(self, ticket: Ticket, attempt: int) -> Callable[[needs.Outcome], None]:
        """Where a body that was left behind says how it ended after all."""
        return lambda outcome: self.late.append((ticket, attempt, outcome))

    def conclude(self, ticket: Ticket, end: End) -> Any:
        """Hand the agent what it is told, the same way live and replayed.

        Raises:
            Stop: the effect is open; the gate has closed.
            ToolError: the answer is an error.
        """
        if isinstance(end, Answered):
            return deliver(ticket.tool, end.answer)
        self.note(end)
        self.check_open()
        raise AssertionError("an interrupted call is ended by its driver")

    def note(self, end: End) -> None:
        """Take in how a call ended: an open effect closes the gate, a given-up one ends the run."""
        if isinstance(end, GaveUp):
            self.given_up = True
            self.close(Closing("effect_given_up"))
        elif isinstance(end, Closing):
            self.close(end)
