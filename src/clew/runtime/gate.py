"""The one door every call passes: it admits, judges by the plan, drives the walk, and closes when an effect is open."""

from collections.abc import Callable, Sequence
from typing import Any

from clew.core import needs
from clew.core.budget import RunBudget
from clew.core.needs import Allow, Answered, Closing, Deny, End, GaveUp, Halt, Seek
from clew.runtime.approvals import ALLOW, Approvals
from clew.runtime.extensions import Extension
from clew.runtime.journal import Journal
from clew.runtime.lanes import Lanes
from clew.runtime.lifecycle import Lifecycle
from clew.runtime.meter import Meter
from clew.runtime.nursery import Nursery
from clew.runtime.tickets import Ticket, deliver
from clew.runtime.tools import Agent, Call
from clew.stores.base import UNMARKED, BlobStore, Processes, RunStore, Workspace


class Gate(Meter):
    """One leg's door. Lives from the leg's first append to its last; `closing` says why nothing starts any more.

    `nursery`: who bears its children and sees them to their end.

    Source:
        DESIGN §5; promises 2, 3, 5 and 8.
    """

    def __init__(
        self, journal: Journal, agent: Agent, *, store: RunStore, blobs: BlobStore, budget: RunBudget,
        workspace: Workspace, processes: Processes, extensions: Sequence[Extension] = (),
    ) -> None:  # fmt: skip
        super().__init__(journal, agent, store=store, blobs=blobs, budget=budget, processes=processes)
        self.workspace = workspace
        self.nursery: Nursery | None = None
        # A child's calls wait for its parent's as for each other (`children`).
        self.lanes = Lanes()
        self.followers.append(lambda: self.lanes.wake())  # noqa: PLW0108  # not those of now, which a child gives up
        # The run's session, if it has one (`talking.Talk`, which knows the gate).
        self.talk: Any = None
        self.approvals = Approvals(self)
        self.late: list[tuple[Ticket, int, needs.Outcome]] = []
        self.extensions = Lifecycle(extensions, journal, self.redactor, agent.name) if extensions else None

    # What drivers ask.

    def decide(self, ticket: Ticket, attempt: int, *, again: bool = False) -> Allow | Deny | Halt | Seek:
        """May this attempt start? The gate is open, the limits hold, the policy agrees."""
        if self.closing is not None:
            return self.approvals.beside(ticket, attempt)
        limit = self.spend_call(ticket, attempt)
        if limit is not None:
            return Halt(limit.code)
        ticket.counted = attempt
        return ALLOW if again else self.approvals.judge(ticket, attempt)

    def call_of(self, ticket: Ticket, attempt: int) -> Call:
        """The call as the tool and its probe see it."""
        facts = ticket.facts
        return Call(
            facts.key, tool=facts.tool, attempt=attempt, arguments=ticket.plain, workspace=self.workspace,
            processes=self.processes, called_off=self.called_off, leg=self.journal.nonce, proposed=ticket.proposed,
            kept=ticket.kept,
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

    def proven(self, key: str, attempt: int, outcome: needs.Outcome) -> needs.Outcome:
        """How a body ended, as far as that can be believed: one whose processes an abort ended cannot know."""
        if self.cut_off and isinstance(outcome, needs.Returned) and self.is_cut_off(key, attempt):
            return needs.Cancelled()
        return outcome

    def is_cut_off(self, key: str, attempt: int) -> bool:
        """Is an abort ending processes of this attempt, or some of nobody knows whom?"""
        return not self.cut_off.isdisjoint((f"{key}#{attempt}", UNMARKED))

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
