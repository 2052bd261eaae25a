"""What is closed and why: the state of one leg's door, shared by all who start, end or refuse. It admits nobody."""

import itertools
from collections.abc import Callable, Sequence
from typing import Final

from clew.core.budget import Exceeded
from clew.core.events import Event
from clew.core.needs import Closing
from clew.errors import Refused, Stop
from clew.runtime import logs
from clew.runtime.flights import Flights
from clew.runtime.journal import Journal
from clew.runtime.tickets import Ticket

PATIENCE: Final = 1000
"""So often a plain agent is told to stop; then the leg ends under it, for it may never give in."""


class Door:
    """Whether anything may still start in a leg. Lives as long as the leg; once closed it stays closed.

    Attributes:
        closing: Why nothing starts any more.
        given_up: An effect was given up: the run ends.
        aborting: Why the run is aborted; empty while nobody asked for it.
        cut_off: Attempts whose processes an abort is ending: what their bodies return now proves nothing.
        left_over: What an abort could not end, by attempt and in words.
        limit: The limit that closed it.
        fault: What the journal failed of.
        agent_fault: What the agent raised.
        unrecorded: Keys of calls that ended but could not be recorded.
        interrupts: So often Ctrl-C was pressed; `interruptible` while it may strike the agent itself.
        abandoned: What runs is not waited for any more; `left`: nor is the agent.
        followers: Told whenever it closes, however often: children close with it.
        outliving: Children that an abort did not end, in words.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.closing: Closing | None = None
        self.given_up = False
        self.aborting = ""
        self.cut_off: set[str] = set()
        self.left_over: dict[str, str] = {}
        self.limit: Exceeded | None = None
        self.fault: BaseException | None = None
        self.agent_fault: BaseException | None = None
        self.unrecorded: list[str] = []
        self.flights = Flights(self.break_down)
        self.flight = self.flights.flight
        self.interrupts = 0
        self.interruptible = False
        self.abandoned = False
        self.left = False
        self.depart: Callable[[], None] | None = None
        self.on_close: Callable[[], None] | None = None
        self.poll: Callable[[], None] = lambda: None
        self.followers: list[Callable[[], None]] = []
        self.outliving: dict[str, str] = {}
        self._refusals = itertools.count(1)
        journal.check_start = self.check_open

    def close(self, closing: Closing) -> None:
        """Nothing starts any more; an open effect outweighs every other reason."""
        if self.closing is None or (closing.reason == "unknown_effect" != self.closing.reason):
            self.closing = closing
        self.flights.awaited = True
        for follow in tuple(self.followers):
            follow()
        if self.on_close is not None:
            self.on_close()

    def wake_by(self, waker: Callable[[], None]) -> None:
        """Call this when the gate closes, and then, or behind the agent's end, whenever a call or a turn is over."""
        self.on_close = self.flights.landed = waker

    def check_open(self) -> None:
        """Tell the agent that the gate has closed.

        Raises:
            Stop: always once it has.
            Storage: when the journal took a failed append.
        """
        if self.fault is not None:
            raise Stop(f"the journal can no longer be written: {self.fault}") from self.fault
        if self.closing is not None:
            if (
                self.depart is not None
                and next(self._refusals) % PATIENCE == 0
                and not (self.flights.count or self.left)
            ):
                self.depart()
            raise Stop(f"the run is pausing: {self.closing.reason}")
        if self.aborting:
            raise Stop("the run is aborting")

    def check_kept(self, events: Sequence[Event]) -> None:
        """After an append: an answer that could not be kept must not be gone on from.

        Raises:
            Stop: the gate has closed for it.
        """
        if self.closing is not None and all(event["type"] == "turn_end" for event in events):
            self.check_open()

    def break_down(self, fault: BaseException, ticket: Ticket | None = None) -> None:
        """The journal failed: remember what ended but could not be recorded."""
        first, self.fault = self.fault is None, self.fault or fault
        if ticket is not None and ticket.ran:
            self.unrecorded.append(ticket.facts.key)
        self.close(Closing("storage"))
        if first:
            logs.poisoned(self.journal.state.run_id, fault)

    def diverge(self, fault: Refused) -> None:
        """The agent does not do again what is recorded: close, and tell it so.

        Raises:
            Stop: always.
        """
        self.close(Closing("resume_divergence", fault.message))
        self.check_open()
