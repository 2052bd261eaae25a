"""One leg from its first append to its last, in plain code: probes, the agent, the end. On event loops: `looping`."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import msgspec

from clew.core.compose import Saying
from clew.core.needs import Closing, GaveUp
from clew.core.resume import ResumePlan
from clew.core.state import RunState
from clew.errors import ClewError, Refused
from clew.runtime.control import POLL_S, Control, handlers, reject_rest
from clew.runtime.deeds import request_abort
from clew.runtime.drivers import drive_sync
from clew.runtime.ending import Ended, Policy, broken, end_family, end_sayings, late_returns, publish, still_gate
from clew.runtime.gate import Gate
from clew.runtime.lookout import LOOKOUT, Busy
from clew.runtime.orders import Orders
from clew.runtime.place import HERE, Place
from clew.runtime.recovery import end_leg
from clew.runtime.reopening import after_probes, rechecks
from clew.runtime.run import SyncRun
from clew.runtime.tools import Agent


class LegEnd(msgspec.Struct, frozen=True):
    """What a leg leaves: the state on disk, when a probe wants to be asked again (seconds), what the agent raised."""

    state: RunState
    retry_in_s: float | None = None
    fault: BaseException | None = None


Park = Callable[[LegEnd | ClewError], None]

NOBODY: Any = None
"""Whose walk it is when no call is on its way: a command's, or an end's."""


def live_sync(
    gate: Gate, agent: Agent, prompt: Any, plan: ResumePlan | None, orders: Orders, park: Park = lambda end: None,
    hand: Park = lambda end: None,
) -> LegEnd:  # fmt: skip
    """Run a leg in the calling thread. `park` keeps a thread whose agent never gives in, once the leg has ended.

    `hand` is told of such an end by another thread, when this one is still inside of a tool.

    Raises:
        Storage: the journal failed; what ended and could not be recorded stands in the facts.
    """
    control = Control(gate)
    gate.poll = lambda: _poll(gate, control)
    departed: list[LegEnd | ClewError] = []

    def leave_behind() -> None:
        departed.append(_depart(gate, control, orders.policy))
        hand(departed[0])

    def depart() -> None:
        busy.end()
        if not departed:
            departed.append(_depart(gate, control, orders.policy))
        park(departed[0])

    taken = orders.signals and threading.current_thread() is threading.main_thread()
    busy = Busy(gate, gate.poll, leave_behind, signals=taken)
    gate.depart = depart
    with opened(gate, orders), _looked_after(gate, busy):
        try:
            _probe_sync(gate, plan)
            if gate.journal.state.state in ("running", "aborting"):
                ended = _body_sync(gate, agent, prompt) if gate.closing is None else Ended(left_behind=True)
                busy.end()
                if not departed:
                    _end_sync(gate, control, ended, orders.policy)
        except ClewError as fault:
            gate.break_down(fault)
        finally:
            busy.end()
    return ended_leg(departed[0], None) if departed else leave(gate)


def _looked_after(gate: Gate, busy: Busy) -> AbstractContextManager[object]:
    """Somebody looks into the inbox while the agent's thread is busy, where another process can reach it at all."""
    return nullcontext() if gate.store.boundary == "process_memory" else LOOKOUT.watching(busy.look)


def _depart(gate: Gate, control: Control, policy: Policy) -> LegEnd | ClewError:
    """End the leg under a plain agent that does not take its leave: what it does from now on is nobody's."""
    gate.left = True
    try:
        _end_sync(gate, control, Ended(left_behind=True), policy)
    except ClewError as fault:
        gate.break_down(fault)
    return settled(leave, gate)


@contextmanager
def opened(gate: Gate, orders: Orders) -> Iterator[None]:
    """What holds while a leg runs: it is watched, signals are taken, and no exception leaves its lock behind."""
    gate.journal.watch(orders.watch)
    gate.approvals.approver = orders.approver
    try:
        with handlers(gate, orders.notice) if orders.signals else nullcontext():
            yield
    except BaseException:
        end_leg(gate.journal)
        raise


def _probe_sync(gate: Gate, plan: ResumePlan | None) -> None:
    for ticket, walk in rechecks(gate, plan):
        end, met = drive_sync(gate, ticket, walk)
        take_in(gate, end, met)
    if gate.aborting:
        drive_sync(gate, NOBODY, request_abort(gate, gate.aborting))
    said = after_probes(gate, plan)
    if said:
        gate.journal.append(said)


def take_in(gate: Gate, end: Any, met: BaseException | None) -> None:
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
    gate.flights.forget_here()
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
    if gate.aborting:
        drive_sync(gate, NOBODY, request_abort(gate, gate.aborting))
        end_family(gate)
        still_gate(gate)
        drive_sync(gate, NOBODY, late_returns(gate))
    try:
        _last_sync(gate, end_sayings(gate, ended, policy))
    except Refused as fault:
        _last_sync(gate, end_sayings(gate, too_much(gate, fault), policy))


def _last_sync(gate: Gate, sayings: list[Saying]) -> None:
    gate.journal.append(sayings if gate.extensions is None else gate.extensions.last_sayings(sayings))


def too_much(gate: Gate, fault: Refused) -> Ended:
    """The agent's output does not fit into an append; nothing of it was written, and nothing is lost by saying so."""
    gate.agent_fault = fault
    return Ended(fault=fault)


def leave(gate: Gate) -> LegEnd:
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


def settled(work: Callable[..., LegEnd], *given: Any) -> LegEnd | ClewError:
    """How it ended, an error as a value: a cancellation that was met beside it must not hide it, nor it the other."""
    try:
        return work(*given)
    except ClewError as fault:
        return fault


def ended_leg(end: LegEnd | ClewError, met: BaseException | None) -> LegEnd:
    """The leg's end; its error raised, else what struck the caller meanwhile."""
    if isinstance(end, ClewError):
        raise end
    if met is not None:
        raise met
    return end
