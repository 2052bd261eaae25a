"""One leg from its first append to its last: probes, the agent, the end. Once for event loops, once for plain code."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from clew.core.calls import CallState
from clew.core.capability import Capability
from clew.core.compose import Close, Move, Saying
from clew.core.effect import Closing, GaveUp, Walk
from clew.core.outcome import Outcome
from clew.core.resume import ResumePlan
from clew.core.state import RunState
from clew.errors import ClewError, Storage
from clew.runtime.control import POLL_S, Control, handlers, request_abort, wake
from clew.runtime.drivers import Walking, drive_async, drive_sync
from clew.runtime.ending import Ended, Policy, broken, end_sayings, late_returns, row
from clew.runtime.gate import Gate, Ticket, facts_of
from clew.runtime.place import HERE, Place
from clew.runtime.pool import SYNCS, in_own_thread, through
from clew.runtime.recovery import end_leg, fail_sayings, unfinished_business
from clew.runtime.run import Run, SyncRun
from clew.runtime.tools import Agent

GRACE_S = 1.0
ABORT_GRACE_S = 10.0
CRASHES = 3


class Orders(msgspec.Struct, frozen=True):
    """How the caller wants a leg to be run: what it does on errors, and whether signals are taken."""

    policy: Policy = Policy()
    signals: bool = False
    notice: Callable[[str], None] | None = None


class LegEnd(msgspec.Struct, frozen=True):
    """What a leg leaves: the state as it is on disk, and when a probe wants to be asked again (seconds)."""

    state: RunState
    retry_in_s: float | None = None


def reopening(state: RunState, plan: ResumePlan | None) -> list[Saying]:
    """What follows a `resume` record in the same append.

    A run that is waiting is paused; one with probes to ask stays paused until they have answered.
    """
    business = unfinished_business(state)
    if business:
        return business
    if plan is None:
        return []
    if plan.given_up:
        return fail_sayings("effect_given_up")
    interrupted: list[Saying] = []
    reason = blocked_reason(state, plan)
    if state.state == "running":
        interrupted = [Move("PAUSE", reason or "process_interrupted")]
    if reason:
        return [*interrupted, Close("pause", Outcome("paused", reason))]
    return interrupted if plan.probes else [*interrupted, Move("RESUME")]


def blocked_reason(state: RunState, plan: ResumePlan) -> str:
    """Why the agent may not be called now, empty when it may (or when a probe may still tell)."""
    if _crash_loop(state):
        return "crash_loop"
    if plan.blocked and not plan.probes:
        step = plan.blocked[0]
        return "unknown_effect" if step.reason == "tool_missing" else step.reason
    return ""


def _crash_loop(state: RunState) -> bool:
    """Did the last legs all die without a new answer?"""
    last = state.legs[-CRASHES:]
    return len(last) == CRASHES and all(not leg.closed and leg.answers == state.answers for leg in last)


def rechecks(gate: Gate, plan: ResumePlan | None) -> Iterator[tuple[Ticket, Walking]]:
    """A walk for each open attempt that a probe can be asked after with the recorded arguments."""
    state = gate.journal.state
    for step in plan.probes if plan is not None else ():
        call = state.calls.get(step.step_id)
        if call is None or call.redacted:
            continue
        yield _recheck(gate, call)


def _recheck(gate: Gate, call: CallState) -> tuple[Ticket, Walking]:
    tool = gate.tools[call.tool]
    capability: Capability = call.capability or tool.capability
    facts = facts_of(gate.journal.state.run_id, call, capability)
    record = gate.store.record_at(gate.journal.state.run_id, call.position)
    ticket = Ticket(tool, facts, {}, record.payload["event"]["args"])
    walk = Walk(
        facts, None, attempt=call.attempt, recorded=True, probe=tool.probe_facts(), doubt_ms=call.started_ms
    )
    return ticket, walk.recheck()


def after_probes(gate: Gate, plan: ResumePlan | None) -> list[Saying]:
    """What follows when every probe has been asked: the agent is called, or the run stays paused."""
    if plan is None or not plan.probes or gate.journal.state.state != "paused":
        return []
    if gate.given_up:
        return fail_sayings("effect_given_up")
    if gate.closing is not None:
        error = {"code": gate.closing.reason, "message": gate.closing.detail}
        return [Close("pause", Outcome("paused", gate.closing.reason, error))]
    if plan.blocked:
        return [Close("pause", Outcome("paused", plan.blocked[0].reason))]
    return [Move("RESUME")]


# Plain code.


def live_sync(gate: Gate, agent: Agent, prompt: Any, plan: ResumePlan | None, orders: Orders) -> LegEnd:
    """Run a leg in the calling thread.

    Raises:
        Storage: the journal failed; what ended and could not be recorded stands in the facts.
    """
    control = Control(gate)
    gate.poll = lambda: _poll(gate, control)
    with handlers(gate, orders.notice) if orders.signals else _nothing():
        try:
            _probe_sync(gate, plan)
            if gate.journal.state.state == "running":
                ended = _body_sync(gate, agent, prompt) if gate.closing is None else Ended(left_behind=True)
                _end_sync(gate, control, ended, orders.policy)
        except ClewError as fault:
            gate.break_down(fault)
    return _leave(gate)


def _probe_sync(gate: Gate, plan: ResumePlan | None) -> None:
    for ticket, walk in rechecks(gate, plan):
        end, _ = drive_sync(gate, ticket, walk)
        if isinstance(end, Closing | GaveUp):
            gate.note(end)
    said = after_probes(gate, plan)
    if said:
        gate.journal.append(said)


def _body_sync(gate: Gate, agent: Agent, prompt: Any) -> Ended:
    token = HERE.set(Place(gate.journal.state.run_id))
    gate.interruptible = True
    try:
        return Ended(agent.body(SyncRun(gate), prompt))
    except BaseException as fault:
        return Ended(fault=fault)
    finally:
        gate.interruptible = False
        HERE.reset(token)


def _poll(gate: Gate, control: Control) -> None:
    if gate.fault is None and control.due():
        for walk in control.applying():
            drive_sync(gate, NOBODY, walk)


def _end_sync(gate: Gate, control: Control, ended: Ended, policy: Policy) -> None:
    if gate.fault is not None:
        return
    drive_sync(gate, NOBODY, late_returns(gate))
    for walk in control.applying():
        drive_sync(gate, NOBODY, walk)
    gate.journal.append(end_sayings(gate, ended, policy))


def _leave(gate: Gate) -> LegEnd:
    """Publish the head and let the journal go; a broken leg raises."""
    fault = gate.fault
    if fault is None:
        try:
            gate.journal.publish_head(row(gate.journal.state))
        except Storage:
            # The head is a lower bound: an older one is still true, and the journal itself is complete.
            pass
    end_leg(gate.journal)
    if fault is not None:
        raise broken(gate) from fault
    closing = gate.closing
    return LegEnd(gate.journal.state, None if closing is None else closing.retry_in_s)


class _nothing:
    """A context in which nothing is taken."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *ended: object) -> None:
        return None


# Event loops.


async def live_async(gate: Gate, agent: Agent, prompt: Any, plan: ResumePlan | None, orders: Orders) -> LegEnd:
    """Run a leg on the running event loop, which is never blocked by a sync; as `live_sync` otherwise.

    A cancellation of the caller pauses the run and is delivered when that is durable.
    """
    if not agent.is_async:
        left = in_own_thread(lambda: live_sync(gate, agent, prompt, plan, orders), "agent")
        met = await _patiently(gate, left)
        return _ended_leg(left.result(), met)
    control = Control(gate)
    changed = asyncio.Event()
    gate.on_close = wake(asyncio.get_running_loop(), changed)
    met = None
    with handlers(gate, orders.notice) if orders.signals else _nothing():
        try:
            await _probe_async(gate, plan)
            if gate.journal.state.state == "running":
                ended, met = await _body_async(gate, agent, prompt, control, changed)
                await _end_async(gate, control, ended, orders.policy)
        except ClewError as fault:
            gate.break_down(fault)
    left = SYNCS.submit(lambda: _leave(gate))
    met = await through(left) or met
    return _ended_leg(left.result(), met)


def _ended_leg(end: LegEnd, met: asyncio.CancelledError | None) -> LegEnd:
    if met is not None:
        raise met
    return end


async def _patiently(gate: Gate, left: "asyncio.Future[Any]") -> asyncio.CancelledError | None:
    """Wait for a leg in a thread; a cancellation pauses it at its next safe point."""
    met: asyncio.CancelledError | None = None
    while not left.done():
        try:
            await asyncio.wait([left])
        except asyncio.CancelledError as cancelled:
            met = cancelled
            gate.close(Closing("interrupted"))
    return met


async def _probe_async(gate: Gate, plan: ResumePlan | None) -> None:
    for ticket, walk in rechecks(gate, plan):
        end, _ = await drive_async(gate, ticket, walk)
        if isinstance(end, Closing | GaveUp):
            gate.note(end)
    said = after_probes(gate, plan)
    if said:
        await gate.journal.append_from_loop(said)


async def _body_async(
    gate: Gate, agent: Agent, prompt: Any, control: Control, changed: asyncio.Event
) -> tuple[Ended, asyncio.CancelledError | None]:
    """Call the agent and watch the gate and the inbox until it ends, or has to be left behind."""
    if gate.closing is not None:
        return Ended(left_behind=True), None
    token = HERE.set(Place(gate.journal.state.run_id))
    try:
        task = asyncio.ensure_future(agent.body(Run(gate), prompt))
    finally:
        HERE.reset(token)
    met: asyncio.CancelledError | None = None
    while (not task.done() or gate.in_flight) and not _must_leave(gate):
        try:
            await _a_moment(task, changed)
            await _look(gate, control)
        except asyncio.CancelledError as cancelled:
            met = cancelled
            gate.close(Closing("interrupted"))
            task.cancel()
        if gate.aborting:
            await _abort(gate, task)
    return await _take_leave(gate, task), met


def _must_leave(gate: Gate) -> bool:
    """The gate has closed and nothing that was started is still under way."""
    return gate.abandoned or (gate.closing is not None and gate.in_flight == 0)


async def _a_moment(task: "asyncio.Future[Any]", changed: asyncio.Event) -> None:
    """Until the agent ends, the gate changes, or it is time to look into the inbox."""
    waiter = asyncio.ensure_future(changed.wait())
    try:
        awaited = [waiter] if task.done() else [task, waiter]
        await asyncio.wait(awaited, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
        changed.clear()


async def _look(gate: Gate, control: Control) -> None:
    if gate.fault is None and control.due():
        for walk in control.applying():
            await drive_async(gate, NOBODY, walk)


async def _abort(gate: Gate, task: "asyncio.Future[Any]") -> None:
    """`aborting` on disk, then what runs is cancelled; what cannot be stopped in time stays open."""
    if gate.journal.state.state == "running":
        await drive_async(gate, NOBODY, request_abort(gate, gate.aborting))
    task.cancel()
    await through(asyncio.ensure_future(asyncio.wait([task], timeout=ABORT_GRACE_S)))
    gate.abandoned = True


async def _take_leave(gate: Gate, task: "asyncio.Future[Any]") -> Ended:
    """The agent's end; after the gate has closed it gets a moment to take its leave, then it is left behind."""
    for farewell in (False, True):
        if task.done():
            break
        if farewell:
            task.cancel()
        await through(asyncio.ensure_future(asyncio.wait([task], timeout=GRACE_S)))
    if not task.done():
        return Ended(left_behind=True)
    if task.cancelled():
        return Ended(fault=asyncio.CancelledError())
    fault = task.exception()
    return Ended(fault=fault) if fault is not None else Ended(task.result())


async def _end_async(gate: Gate, control: Control, ended: Ended, policy: Policy) -> None:
    if gate.fault is not None:
        return
    await drive_async(gate, NOBODY, late_returns(gate))
    for walk in control.applying():
        await drive_async(gate, NOBODY, walk)
    await gate.journal.append_from_loop(end_sayings(gate, ended, policy))


NOBODY: Any = None
