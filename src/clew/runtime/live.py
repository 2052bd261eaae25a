"""One leg from its first append to its last: probes, the agent, the end. Once for event loops, once for plain code."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec

from clew.core.needs import Closing, GaveUp
from clew.core.resume import ResumePlan
from clew.core.state import RunState
from clew.errors import ClewError, Refused
from clew.runtime.control import POLL_S, Control, handlers, reject_rest, request_abort, wake
from clew.runtime.drivers import drive_async, drive_sync
from clew.runtime.ending import Ended, Policy, broken, end_sayings, late_returns, publish
from clew.runtime.gate import Gate
from clew.runtime.orders import Orders
from clew.runtime.place import HERE, Place
from clew.runtime.pool import aside, in_own_thread, let_go, through
from clew.runtime.recovery import end_leg
from clew.runtime.reopening import after_probes, rechecks
from clew.runtime.run import Run, SyncRun
from clew.runtime.tools import Agent

GRACE_S = 1.0
ABORT_GRACE_S = 10.0


class LegEnd(msgspec.Struct, frozen=True):
    """What a leg leaves: the state on disk, when a probe wants to be asked again (seconds), what the agent raised."""

    state: RunState
    retry_in_s: float | None = None
    fault: BaseException | None = None


Park = Callable[[LegEnd | ClewError], None]

# Plain code.


def live_sync(
    gate: Gate, agent: Agent, prompt: Any, plan: ResumePlan | None, orders: Orders, park: Park = lambda end: None
) -> LegEnd:
    """Run a leg in the calling thread. `park` keeps a thread whose agent never gives in, once the leg has ended.

    Raises:
        Storage: the journal failed; what ended and could not be recorded stands in the facts.
    """
    control = Control(gate)
    gate.poll = lambda: _poll(gate, control)
    departed: list[LegEnd | ClewError] = []

    def depart() -> None:
        departed.append(_depart(gate, control, orders.policy))
        park(departed[0])

    gate.depart = depart
    with _opened(gate, orders):
        try:
            _probe_sync(gate, plan)
            if gate.journal.state.state == "running":
                ended = _body_sync(gate, agent, prompt) if gate.closing is None else Ended(left_behind=True)
                if not departed:
                    _end_sync(gate, control, ended, orders.policy)
        except ClewError as fault:
            gate.break_down(fault)
    return _ended_leg(departed[0], None) if departed else _leave(gate)


def _depart(gate: Gate, control: Control, policy: Policy) -> LegEnd | ClewError:
    """End the leg under a plain agent that does not take its leave: what it does from now on is nobody's."""
    gate.left = True
    try:
        _end_sync(gate, control, Ended(left_behind=True), policy)
    except ClewError as fault:
        gate.break_down(fault)
    return _settled(_leave, gate)


@contextmanager
def _opened(gate: Gate, orders: Orders) -> Iterator[None]:
    """What holds while a leg runs: it is watched, signals are taken, and no exception leaves its lock behind."""
    gate.journal.watch(orders.watch)
    try:
        with handlers(gate, orders.notice) if orders.signals else nullcontext():
            yield
    except BaseException:
        end_leg(gate.journal)
        raise


def _probe_sync(gate: Gate, plan: ResumePlan | None) -> None:
    for ticket, walk in rechecks(gate, plan):
        end, met = drive_sync(gate, ticket, walk)
        _take_in(gate, end, met)
    said = after_probes(gate, plan)
    if said:
        gate.journal.append(said)


def _take_in(gate: Gate, end: Any, met: BaseException | None) -> None:
    """How asking after an open effect ended; who was interrupted while it asked wants no more."""
    if isinstance(end, Closing | GaveUp):
        gate.note(end)
    if met is not None:
        gate.close(Closing("interrupted"))


def _body_sync(gate: Gate, agent: Agent, prompt: Any) -> Ended:
    token = HERE.set(Place(gate.journal.state.run_id))
    gate.interruptible = threading.current_thread() is threading.main_thread()
    try:
        return Ended(agent.called(SyncRun(gate), prompt))
    except BaseException as fault:  # noqa: BLE001  # whatever ends the agent is how it ended
        return Ended(fault=fault)
    finally:
        gate.interruptible = False
        HERE.reset(token)


def _poll(gate: Gate, control: Control) -> None:
    """Look into the inbox, if it is time; a journal that fails meanwhile ends the leg, not the agent's call."""
    if gate.fault is not None or not control.due():
        return
    try:
        _steer_sync(gate, control)
    except ClewError as fault:
        gate.break_down(fault)


def _steer_sync(gate: Gate, control: Control) -> None:
    with control.steering:
        for walk in control.applying(control.waiting()):
            drive_sync(gate, NOBODY, walk)
        control.post()


def _land(gate: Gate) -> None:
    """Wait for what threads of the agent have begun; what they would begin now comes too late."""
    gate.flights.end()
    landed = threading.Event()
    gate.wake_by(landed.set)
    while gate.flights.count and not gate.aborting:
        landed.wait(POLL_S)
        landed.clear()
        gate.poll()


def _end_sync(gate: Gate, control: Control, ended: Ended, policy: Policy) -> None:
    _land(gate)
    if gate.fault is not None:
        return
    gate.agent_fault = ended.fault
    drive_sync(gate, NOBODY, late_returns(gate))
    _steer_sync(gate, control)
    try:
        gate.journal.append(end_sayings(gate, ended, policy))
    except Refused as fault:
        gate.journal.append(end_sayings(gate, _too_much(gate, fault), policy))


def _too_much(gate: Gate, fault: Refused) -> Ended:
    """The agent's output does not fit into an append; nothing of it was written, and nothing is lost by saying so."""
    gate.agent_fault = fault
    return Ended(fault=fault)


def _leave(gate: Gate) -> LegEnd:
    """Publish the head, answer who comes too late, and let the journal go; a broken leg raises."""
    state = gate.journal.state
    try:
        if gate.fault is None:
            publish(gate.journal)
        if state.finish is not None:
            reject_rest(gate.store, state.run_id, f"the run is {state.state}")
    finally:
        end_leg(gate.journal)
    if gate.fault is not None:
        error = broken(gate)
        raise error from (error.__cause__ if error is gate.fault else gate.fault)
    closing = gate.closing
    return LegEnd(state, None if closing is None else closing.retry_in_s, gate.agent_fault)


# Event loops.


async def live_async(gate: Gate, agent: Agent, prompt: Any, plan: ResumePlan | None, orders: Orders) -> LegEnd:
    """Run a leg on the running event loop, which is never blocked by a sync; as `live_sync` otherwise.

    A cancellation of the caller pauses the run and is delivered when that is durable.
    """
    if not agent.is_async:
        return await _live_apart(gate, agent, prompt, plan, orders)
    control = Control(gate)
    changed = asyncio.Event()
    gate.wake_by(wake(asyncio.get_running_loop(), changed))
    met: BaseException | None = None
    with _opened(gate, orders):
        try:
            met = await _probe_async(gate, plan)
            if gate.journal.state.state == "running":
                ended, struck = await _body_async(gate, agent, prompt, control, changed)
                late = await _end_async(gate, control, ended, orders.policy)
                met = met or struck or late
        except ClewError as fault:
            gate.break_down(fault)
    end, struck = await aside(lambda: _settled(_leave, gate))
    return _ended_leg(end, met or struck)


async def _live_apart(gate: Gate, agent: Agent, prompt: Any, plan: ResumePlan | None, orders: Orders) -> LegEnd:
    """A plain agent lives in a thread of its own; a cancellation pauses it at its next safe point."""
    met: BaseException | None = None
    with handlers(gate, orders.notice) if orders.signals else nullcontext():
        departed: asyncio.Future[LegEnd | ClewError] = asyncio.get_running_loop().create_future()
        park = _parking(departed)
        left = in_own_thread(lambda: _settled(live_sync, gate, agent, prompt, plan, orders, park), "agent")
        while not left.done() and not departed.done():
            try:
                await asyncio.wait([left, departed], return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as cancelled:
                met = cancelled
                gate.close(Closing("interrupted"))
    return _ended_leg(departed.result() if departed.done() else left.result(), met)


def _parking(departed: "asyncio.Future[LegEnd | ClewError]") -> Park:
    """Hand the leg's end over to its loop, and keep the thread for ever: nothing else stops its agent."""
    loop = asyncio.get_running_loop()

    def park(end: LegEnd | ClewError) -> None:
        loop.call_soon_threadsafe(departed.set_result, end)
        threading.Event().wait()

    return park


def _settled(work: Callable[..., LegEnd], *given: Any) -> LegEnd | ClewError:
    """How it ended, an error as a value: a cancellation that was met beside it must not hide it, nor it the other."""
    try:
        return work(*given)
    except ClewError as fault:
        return fault


def _ended_leg(end: LegEnd | ClewError, met: BaseException | None) -> LegEnd:
    if isinstance(end, ClewError):
        raise end
    if met is not None:
        raise met
    return end


async def _probe_async(gate: Gate, plan: ResumePlan | None) -> BaseException | None:
    met: BaseException | None = None
    for ticket, walk in rechecks(gate, plan):
        end, struck = await drive_async(gate, ticket, walk)
        _take_in(gate, end, struck)
        met = met or struck
    said = after_probes(gate, plan)
    return (await gate.journal.append_from_loop(said) if said else None) or met


async def _body_async(
    gate: Gate, agent: Agent, prompt: Any, control: Control, changed: asyncio.Event
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
        struck = await _a_moment(task, changed) or await _look(gate, control)
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


async def _a_moment(task: "asyncio.Future[Any]", changed: asyncio.Event) -> BaseException | None:
    """Until the agent ends, the gate changes, or it is time to look into the inbox."""
    waiter = asyncio.ensure_future(changed.wait())
    try:
        awaited = [waiter] if task.done() else [task, waiter]
        await asyncio.wait(awaited, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
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
    commands, met = await aside(control.waiting)
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
    met = await through(asyncio.ensure_future(asyncio.wait([task], timeout=ABORT_GRACE_S))) or met
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


async def _end_async(gate: Gate, control: Control, ended: Ended, policy: Policy) -> BaseException | None:
    if gate.fault is not None:
        return None
    gate.agent_fault = ended.fault
    _, met = await drive_async(gate, NOBODY, late_returns(gate))
    struck = await _steer_async(gate, control)
    try:
        late = await gate.journal.append_from_loop(end_sayings(gate, ended, policy))
    except Refused as fault:
        late = await gate.journal.append_from_loop(end_sayings(gate, _too_much(gate, fault), policy))
    return met or struck or late


NOBODY: Any = None
