"""One leg on an event loop, which is never blocked by a sync; its agent may be async or plain. Otherwise as `live`."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from clew.core.compose import Saying
from clew.core.needs import Closing
from clew.core.resume import ResumePlan
from clew.errors import ClewError, Refused
from clew.runtime.control import POLL_S, Control, handlers, wake
from clew.runtime.deeds import request_abort
from clew.runtime.drivers import drive_async
from clew.runtime.ending import Ended, Policy, end_amid, end_family, end_sayings, late_returns, still_gate, unthreaded
from clew.runtime.gate import Gate
from clew.runtime.live import NOBODY, LegEnd, Park, ended_leg, leave, live_sync, opened, settled, take_in, too_much
from clew.runtime.lookout import LOOKOUT
from clew.runtime.orders import Orders
from clew.runtime.place import HERE, Place
from clew.runtime.pool import NoThread, apart_or_here, aside, in_own_thread, let_go, through
from clew.runtime.recovery import end_leg
from clew.runtime.reopening import after_probes, rechecks
from clew.runtime.run import Run
from clew.runtime.stilling import PATIENCE_S
from clew.runtime.tools import Agent

GRACE_S = 1.0


async def live_async(gate: Gate, agent: Agent, prompt: Any, plan: ResumePlan | None, orders: Orders) -> LegEnd:
    """Run a leg on the running event loop, which is never blocked by a sync; as `live_sync` otherwise.

    A cancellation of the caller pauses the run and is delivered when that is durable.
    """
    if not agent.is_async:
        return await _live_apart(gate, agent, prompt, plan, orders)
    control = Control(gate)
    changed = asyncio.Event()
    waker = wake(asyncio.get_running_loop(), changed)
    gate.wake_by(waker)
    met: BaseException | None = None
    with opened(gate, orders):
        try:
            met = await _probe_async(gate, plan)
            if gate.journal.state.state in ("running", "aborting"):
                with _heard(control, waker) as look_s:
                    ended, struck = await _body_async(gate, agent, prompt, control, changed, look_s)
                late = await _end_async(gate, control, ended, orders.policy)
                met = met or struck or late
        except ClewError as fault:
            gate.break_down(fault)
    end, struck = await aside(lambda: settled(leave, gate))
    return ended_leg(end, met or struck)


@contextmanager
def _heard(control: Control, ring: Callable[[], None]) -> Iterator[float | None]:
    """Within it a command is heard of; gives after how many seconds to look for one, None where `ring` is called.

    A process may have a thousand legs that wait for their models: one thread looks for all of them.
    """
    if control.gate.store.boundary == "process_memory":
        yield POLL_S
        return

    def look() -> None:
        if control.knocked():
            ring()

    with LOOKOUT.watching(look) as watched:
        yield None if watched else POLL_S


async def _live_apart(gate: Gate, agent: Agent, prompt: Any, plan: ResumePlan | None, orders: Orders) -> LegEnd:
    """A plain agent lives in a thread of its own; a cancellation pauses it at its next safe point."""
    met: BaseException | None = None
    with handlers(gate, orders.notice) if orders.signals else nullcontext():
        departed: asyncio.Future[LegEnd | ClewError] = asyncio.get_running_loop().create_future()
        hand = _handing(departed)
        try:
            left = in_own_thread(
                lambda: settled(live_sync, gate, agent, prompt, plan, orders, _parking(hand), hand), "agent"
            )
        except NoThread as fault:
            end_leg(gate.journal)
            raise unthreaded(gate, fault) from fault
        while not left.done() and not departed.done():
            try:
                await asyncio.wait([left, departed], return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as cancelled:
                met = cancelled
                gate.close(Closing("interrupted"))
    return ended_leg(departed.result() if departed.done() else left.result(), met)


def _handing(departed: "asyncio.Future[LegEnd | ClewError]") -> Park:
    """Hand the leg's end over to its loop, from any thread."""
    loop = asyncio.get_running_loop()

    def take(end: LegEnd | ClewError) -> None:
        if not departed.done():
            departed.set_result(end)

    def hand(end: LegEnd | ClewError) -> None:
        loop.call_soon_threadsafe(take, end)

    return hand


def _parking(hand: Park) -> Park:
    """Hand the leg's end over, and keep the thread for ever: nothing else stops its agent."""

    def park(end: LegEnd | ClewError) -> None:
        hand(end)
        threading.Event().wait()

    return park


async def _probe_async(gate: Gate, plan: ResumePlan | None) -> BaseException | None:
    met: BaseException | None = None
    for ticket, walk in rechecks(gate, plan):
        end, struck = await drive_async(gate, ticket, walk)
        take_in(gate, end, struck)
        met = met or struck
    if gate.aborting:
        _, struck = await drive_async(gate, NOBODY, request_abort(gate, gate.aborting))
        met = met or struck
    said = after_probes(gate, plan)
    return (await gate.journal.append_from_loop(said) if said else None) or met


async def _body_async(
    gate: Gate, agent: Agent, prompt: Any, control: Control, changed: asyncio.Event, look_s: float | None
) -> tuple[Ended, BaseException | None]:
    """Call the agent and watch the gate and the inbox until it ends, or has to be left behind."""
    if gate.closing is not None:
        return Ended(left_behind=True), None
    token = HERE.set(Place(gate.journal.state.run_id))
    try:
        task = asyncio.ensure_future(agent.awaited(Run(gate), prompt))
    finally:
        HERE.reset(token)
    task.add_done_callback(lambda done: gate.flights.end())
    met: BaseException | None = None
    while (not task.done() or gate.flights.count) and not _must_leave(gate):
        struck = await _a_moment(task, changed, look_s) or await _look(gate, control)
        if struck is not None:
            met = struck
            gate.close(Closing("interrupted"))
            task.cancel()
        if gate.aborting:
            met = await _abort(gate, task) or met
    gate.flights.end()
    ended, struck = await _take_leave(gate, task)
    return ended, met or struck


def _must_leave(gate: Gate) -> bool:
    """The gate has closed and nothing that was started is still under way."""
    return gate.abandoned or (gate.closing is not None and gate.flights.count == 0)


async def _a_moment(task: "asyncio.Future[Any]", changed: asyncio.Event, look_s: float | None) -> BaseException | None:
    """Until the agent ends, the gate changes, or it is time to look into the inbox."""
    waiter = asyncio.ensure_future(changed.wait())
    try:
        awaited = [waiter] if task.done() else [task, waiter]
        await asyncio.wait(awaited, timeout=look_s, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError as cancelled:
        return cancelled
    finally:
        waiter.cancel()
        changed.clear()
    return None


async def _look(gate: Gate, control: Control) -> BaseException | None:
    """Look into the inbox, if it is time; a journal that fails meanwhile ends the leg."""
    if gate.fault is not None or not control.due():
        return None
    try:
        return await _steer_async(gate, control)
    except ClewError as fault:
        gate.break_down(fault)
        return None


async def _steer_async(gate: Gate, control: Control) -> BaseException | None:
    met: BaseException | None
    commands, met = await aside(control.waiting, brief=True)
    for walk in control.applying(commands):
        _, struck = await drive_async(gate, NOBODY, walk)
        met = met or struck
    if control.answers:
        _, late = await aside(control.post)
        met = met or late
    return met


async def _abort(gate: Gate, task: "asyncio.Future[Any]") -> BaseException | None:
    """`aborting` on disk, then what runs is cancelled; what cannot be stopped in time stays open."""
    met: BaseException | None = None
    if gate.journal.state.state == "running":
        _, met = await drive_async(gate, NOBODY, request_abort(gate, gate.aborting))
    task.cancel()
    met = await through(asyncio.ensure_future(asyncio.wait([task], timeout=GRACE_S))) or met
    if not task.done():
        # It may be waiting for a process of its own.
        ending = apart_or_here(lambda: end_amid(gate), "abort")
        met = await through(asyncio.ensure_future(asyncio.wait([task], timeout=PATIENCE_S))) or met
        met = await through(ending) or met
    gate.abandoned = True
    return met


async def _take_leave(gate: Gate, task: "asyncio.Future[Any]") -> tuple[Ended, BaseException | None]:
    """The agent's end; after the gate has closed it gets a moment to take its leave, then it is left behind."""
    met: BaseException | None = None
    for farewell in (False, True):
        if task.done():
            break
        if farewell:
            task.cancel()
        met = await through(asyncio.ensure_future(asyncio.wait([task], timeout=GRACE_S))) or met
    if not task.done():
        gate.left = True
        let_go(task)
        return Ended(left_behind=True), met
    if task.cancelled():
        return Ended(fault=asyncio.CancelledError()), met
    fault = task.exception()
    return (Ended(fault=fault) if fault is not None else Ended(task.result())), met


async def _still_async(gate: Gate) -> BaseException | None:
    """`aborting` on disk, then all that the run still does is ended or named."""
    _, met = await drive_async(gate, NOBODY, request_abort(gate, gate.aborting))

    def end() -> None:
        end_family(gate)
        still_gate(gate)

    ending = apart_or_here(end, "abort")
    met = await through(ending) or met
    ending.result()
    _, struck = await drive_async(gate, NOBODY, late_returns(gate))
    return met or struck


async def _end_async(gate: Gate, control: Control, ended: Ended, policy: Policy) -> BaseException | None:
    if gate.fault is not None:
        return None
    gate.agent_fault = ended.fault
    _, met = await drive_async(gate, NOBODY, late_returns(gate))
    struck = await _steer_async(gate, control)
    if gate.aborting:
        met = await _still_async(gate) or met
    try:
        late = await _last_async(gate, end_sayings(gate, ended, policy))
    except Refused as fault:
        late = await _last_async(gate, end_sayings(gate, too_much(gate, fault), policy))
    return met or struck or late


async def _last_async(gate: Gate, sayings: list[Saying]) -> BaseException | None:
    if gate.extensions is None:
        return await gate.journal.append_from_loop(sayings)
    rest, met = await gate.extensions.last_sayings_on_loop(sayings)
    return await gate.journal.append_from_loop(rest) or met
