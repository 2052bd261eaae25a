"""Calls and turns under way in one leg, and what becomes of an error inside them. Decides nothing about calls."""

import threading
from collections.abc import Callable

from clew.errors import Refused, Stop
from clew.runtime.tickets import Ticket

BreakDown = Callable[[BaseException, Ticket | None], None]


class Flights:
    """What is under way. Lives as long as its gate.

    Attributes:
        ended: The agent has ended; no call begins any more.
        awaited: Somebody waits for them to end: the agent has ended, or the gate has closed.
        landed: Told whenever one is over, however it ended, once they are awaited.
        flying: All that are under way; looked at and changed under `lock`.
    """

    def __init__(self, break_down: BreakDown) -> None:
        self.flying: set[Flight] = set()
        self.ended = False
        self.awaited = False
        self.landed: Callable[[], None] | None = None
        self.break_down = break_down
        self.lock = threading.Lock()

    @property
    def count(self) -> int:
        """How many calls and turns there are."""
        return len(self.flying)

    @property
    def keys(self) -> set[str]:
        """The keys of the effects among them."""
        with self.lock:
            return {flight.key for flight in self.flying if flight.key}

    def end(self) -> None:
        """The agent has ended: calls under way are waited for, and no call begins."""
        with self.lock:
            self.ended = self.awaited = True

    def forget_here(self) -> None:
        """This thread has left all its calls. One that Ctrl-C struck at its edge could not say so itself."""
        here = threading.get_ident()
        with self.lock:
            self.flying = {flight for flight in self.flying if flight.thread != here}

    def flight(self, ticket: Ticket | None = None) -> "Flight":
        """A call or a turn is under way; what fails inside is the journal, and that ends the leg.

        Raises:
            Stop: it failed. The agent is not told as of an error: it might go on as if it knew.
        """
        return Flight(self, ticket)


class Flight:
    """The time one of them is under way; a class, for a generator would cost more at every call.

    Attributes:
        key: The key of the effect; empty for a turn.
        thread: Where it is.
    """

    __slots__ = ("_flights", "_ticket", "key", "thread")

    def __init__(self, flights: Flights, ticket: Ticket | None) -> None:
        self._flights = flights
        self._ticket = ticket
        self.key = "" if ticket is None else ticket.facts.key
        self.thread = threading.get_ident()

    def __enter__(self) -> None:
        flights = self._flights
        with flights.lock:
            if flights.ended and self.key:
                raise Stop("the agent has ended")
            flights.flying.add(self)

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        flights = self._flights
        try:
            if fault is not None and not isinstance(fault, Stop):
                self._failed(fault)
        finally:
            with flights.lock:
                flights.flying.discard(self)
            if flights.awaited and flights.landed is not None:
                flights.landed()

    def _failed(self, fault: BaseException) -> None:
        """`Stop` instead of an error, which the agent might go on from."""
        ticket = self._ticket
        if isinstance(fault, Refused) and ticket is not None and not ticket.ran:
            # Composing refused it as too large: nothing was written or started, and the journal is sound.
            return
        self._flights.break_down(fault, ticket)
        if isinstance(fault, Exception):
            raise Stop(f"the journal can no longer be written: {fault}") from fault
