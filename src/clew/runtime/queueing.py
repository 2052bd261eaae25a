"""How a call waits, before it starts, until no other changes the paths that it may change. Who goes first: `lanes`."""

import asyncio
import contextlib
import threading
from typing import Any, Final

from clew.core.needs import Append, Closing, Guard, Need
from clew.errors import Stop
from clew.runtime.checkpoint import claimed
from clew.runtime.control import POLL_S
from clew.runtime.gate import Gate
from clew.runtime.lanes import EVERYWHERE, Lane
from clew.runtime.pool import aside
from clew.runtime.tickets import Ticket

EXCLUSIVE: Final = "workspace_exclusive"


def queues(ticket: Ticket | None) -> bool:
    """May this call change files that another one may change as well?"""
    return ticket is not None and (ticket.tool.paths is not None or ticket.facts.capability.concurrency == EXCLUSIVE)


def must_queue(ticket: Ticket, need: Need) -> bool:
    """Is this the moment to wait: right before the paths are kept, or before the start where none are declared?"""
    return ticket.lane is None and (isinstance(need, Guard) or (isinstance(need, Append) and need.starts))


def queue_sync(gate: Gate, ticket: Ticket) -> None:
    """Wait, blocking; who is interrupted pauses the run.

    Raises:
        Stop: the gate has closed meanwhile; nothing starts.
    """
    try:
        _queue(gate, ticket)
    except KeyboardInterrupt:
        gate.close(Closing("interrupted"))
        raise Stop("the run is pausing: interrupted") from None


def _queue(gate: Gate, ticket: Ticket) -> None:
    woken = threading.Event()
    paths = claimed(gate, ticket)
    while True:
        ticket.lane = lane = Lane(paths, woken.set)
        gate.lanes.enter(lane)
        while not gate.lanes.is_free(lane):
            woken.wait(POLL_S)
            woken.clear()
            gate.poll()
            gate.check_open()
        if lane.holds(claimed(gate, ticket)):
            return
        paths = _again(gate, lane)


async def queue_on_loop(gate: Gate, ticket: Ticket) -> BaseException | None:
    """Wait without blocking the loop; a cancellation that struck it is handed back, and then nothing may start.

    Raises:
        Stop: the gate has closed meanwhile.
    """
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        # A loop that is closed waits for nothing.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(woken.set)

    paths, met = await aside(lambda: claimed(gate, ticket))
    while met is None:
        ticket.lane = lane = Lane(paths, wake)
        gate.lanes.enter(lane)
        while not gate.lanes.is_free(lane):
            try:
                await woken.wait()
            except asyncio.CancelledError as cancelled:
                return cancelled
            woken.clear()
            gate.check_open()
        found, met = await aside(lambda: claimed(gate, ticket))
        if lane.holds(found):
            return met
        paths = _again(gate, lane)
    return met


def _again(gate: Gate, lane: Lane) -> Any:
    """Who came first has changed where the paths lead: all of the workspace is waited for, at the end of the queue."""
    gate.lanes.leave(lane)
    return EVERYWHERE


def go_on(gate: Gate, ticket: Ticket) -> None:
    """The walk is over: who waits may go."""
    if ticket.lane is not None:
        gate.lanes.leave(ticket.lane)
