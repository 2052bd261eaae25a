"""The two drivers of the effect walk: each need is met by blocking, or by awaiting. The walk is `core/effect`."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Final

from clew.core.needs import (
    Answered,
    Append,
    Ask,
    Call,
    Cancelled,
    Closing,
    Consult,
    End,
    Guard,
    Halt,
    Hold,
    Interrupted,
    Look,
    Need,
    Now,
    Probe,
    Save,
    Wait,
)
from clew.core.review import CannotTell, Verdict
from clew.errors import Stop
from clew.runtime.bodies import probe_async, probe_sync, recordable, run_async, run_sync
from clew.runtime.checkpoint import guard, look, probe_of
from clew.runtime.gate import Gate
from clew.runtime.living import is_running
from clew.runtime.pool import SYNCS, aside, through
from clew.runtime.queueing import go_on, must_queue, queue_on_loop, queue_sync, queues
from clew.runtime.tickets import Ticket

_SLOW: Final[frozenset[object]] = frozenset({Hold, Guard, Look})
"""What no event loop waits for."""
_NO_PROBE = CannotTell("no probe is declared")
_STOPPED = CannotTell("asking was interrupted")

CALLED_OFF: Final = frozenset({"interrupted", "terminated", "pause_requested", "aborted"})

Walking = Generator[Need, Any, Any]


def _known_end(ticket: Ticket) -> End | None:
    """The end of a call that needs no walk: replayed, or closed by the plan."""
    return ticket.end if ticket.replay is None else Answered(ticket.replay)


def _at_once(gate: Gate, ticket: Ticket, need: Need) -> Any:
    """Needs that take no time worth awaiting; and a key and the bytes of files, for which plain code waits."""
    if isinstance(need, Ask):
        decision = gate.decide(ticket, need.attempt, again=need.again)
        return decision if gate.extensions is None else gate.extensions.before_tool(ticket, need.attempt, decision)
    if isinstance(need, Hold):
        return gate.hold(ticket, need.attempt)
    if isinstance(need, Guard):
        return guard(gate, ticket)
    if isinstance(need, Look):
        return look(gate, ticket, need)
    assert isinstance(need, Now)
    return gate.journal.time.now_ms()


def _called_off(gate: Gate) -> Callable[[], bool]:
    """Does somebody at a keyboard wait for the run to pause or end?"""
    return lambda: gate.closing is not None and gate.closing.reason in CALLED_OFF


def _give_back(gate: Gate, ticket: Ticket) -> None:
    """The agent was cancelled before it heard how its call ended: should it ask again, this call is meant."""
    call = gate.journal.state.calls.get(ticket.facts.step_id)
    if call is not None:
        gate.claims.give_back(call)
    else:
        asked = gate.approvals.of(ticket)
        if asked is not None:
            gate.claims.ask_again(asked)


def pass_sync(gate: Gate, ticket: Ticket) -> Any:
    """Take one admitted call through the gate, blocking; returns what the agent is told.

    Raises:
        Stop: the effect is open, the gate has closed.
        ToolError: the answer is an error.
        KeyboardInterrupt: it struck the tool, and what is known is durable.
    """
    end = _known_end(ticket)
    met: BaseException | None = None
    struck: BaseException | None = None
    if end is None:
        assert ticket.walk is not None
        with gate.flight(ticket):
            try:
                end, met = drive_sync(gate, ticket, ticket.walk.run())
                if not isinstance(end, Answered):
                    gate.note(end)
            finally:
                go_on(gate, ticket)
            if gate.extensions is not None:
                struck = gate.extensions.after_tool(ticket, end)
    if isinstance(end, Interrupted) or struck is not None:
        _give_back(gate, ticket)
        raise met or struck or KeyboardInterrupt
    return gate.conclude(ticket, end)


def drive_sync(gate: Gate, ticket: Ticket, walk: Walking) -> tuple[Any, BaseException | None]:
    """Meet a walk's needs until it ends; an interruption met on the way is handed back beside its end."""
    reply: Any = None
    met: BaseException | None = None
    exclusive = queues(ticket)
    while True:
        try:
            need = walk.send(reply)
        except StopIteration as ended:
            return ended.value, met
        try:
            if exclusive and met is None and must_queue(ticket, need):
                queue_sync(gate, ticket)
            reply = _meet_sync(gate, ticket, need) if met is None else _stopped(gate, ticket, need)
        except Stop:
            return _not_started(gate, walk), met
        except KeyboardInterrupt as interrupt:
            if isinstance(need, Append):
                raise
            met = interrupt
            reply = _STOPPED if isinstance(need, Probe) else isinstance(need, Wait) or None
            if isinstance(need, Ask):
                # Who was interrupted has not agreed.
                reply = Halt("interrupted")
        if isinstance(reply, Cancelled):
            met = met or KeyboardInterrupt()


def _meet_sync(gate: Gate, ticket: Ticket, need: Need) -> Any:
    if isinstance(need, Append):
        if need.starts:
            _check_start(gate, ticket)
        return gate.journal.append(need.said, starts=need.starts)
    if isinstance(need, Ask):
        return _at_once(gate, ticket, need)
    if isinstance(need, Call):
        ticket.ran = True
        late = gate.returned_late(ticket, need.attempt)
        outcome = run_sync(ticket.tool, gate.call_of(ticket, need.attempt), ticket.arguments, gate.redactor, late)
        return gate.proven(ticket.facts.key, need.attempt, outcome) if gate.cut_off else outcome
    if isinstance(need, Probe):
        return _asked_sync(gate, ticket, need)
    if isinstance(need, Consult):
        return gate.approvals.consult(ticket)
    if isinstance(need, Wait):
        return gate.journal.clock.sleep(need.seconds, _called_off(gate))
    return gate.save(need.data) if isinstance(need, Save) else _at_once(gate, ticket, need)


def _check_start(gate: Gate, ticket: Ticket) -> None:
    """A queue, a key, an extension or the bytes of files may have been waited for since it was allowed. `Stop`."""
    if ticket.until_ms:
        gate.approvals.check_until(ticket)
    gate.check_limits()


def _not_started(gate: Gate, walk: Walking) -> End:
    """The gate closed between the permission and the start: nothing was recorded of it, and nothing starts."""
    walk.close()
    if gate.closing is None:
        raise Stop("the run is ending")
    return Closing(gate.closing.reason)


def _stopped(gate: Gate, ticket: Ticket, need: Need) -> Any:
    """After an interruption: nothing starts and nobody is asked; what is known is still written down."""
    if isinstance(need, Call):
        return Cancelled(before_start=True)
    if isinstance(need, Probe):
        return _STOPPED
    if isinstance(need, Consult | Guard):
        return None
    return True if isinstance(need, Wait) else _meet_sync(gate, ticket, need)


def _asked_sync(gate: Gate, ticket: Ticket, need: Probe) -> Verdict:
    probe = probe_of(gate, ticket)
    if probe is None:
        return _NO_PROBE
    call = gate.call_of(ticket, need.attempt)
    in_progress = is_running(call.key, call.attempt)
    return recordable(probe_sync(probe, call), gate.redactor, in_progress=in_progress)


async def pass_async(gate: Gate, ticket: Ticket) -> Any:
    """Take one admitted call through the gate without blocking the loop.

    A cancellation never tears an append or leaves a receipt out: it is delivered when all that is known is durable.

    Raises:
        as `pass_sync`, with asyncio.CancelledError for KeyboardInterrupt.
    """
    end = _known_end(ticket)
    met: BaseException | None = None
    if end is None:
        assert ticket.walk is not None
        with gate.flight(ticket):
            try:
                end, met = await drive_async(gate, ticket, ticket.walk.run())
                gate.note(end)
            finally:
                go_on(gate, ticket)
            if gate.extensions is not None:
                met = await gate.extensions.after_tool_on_loop(ticket, end) or met
    if isinstance(end, Interrupted) or met is not None:
        _give_back(gate, ticket)
        raise met or asyncio.CancelledError
    return gate.conclude(ticket, end)


async def drive_async(gate: Gate, ticket: Ticket, walk: Walking) -> tuple[Any, BaseException | None]:
    """Meet a walk's needs until it ends; a cancellation met on the way is handed back beside its end."""
    reply: Any = None
    met: BaseException | None = None
    exclusive = queues(ticket)
    while True:
        try:
            need = walk.send(reply)
        except StopIteration as ended:
            return ended.value, met
        # Cancelled, the effect is still asked after, once: it may have happened, and only waiting is of no use now.
        if met is not None and isinstance(need, Call | Wait | Consult | Guard):
            reply = _stopped(gate, ticket, need)
            continue
        try:
            if exclusive and met is None and must_queue(ticket, need):
                met = await queue_on_loop(gate, ticket)
                if met is not None and isinstance(need, Guard):
                    reply = None
                    continue
            reply, struck = await _meet_async(gate, ticket, need)
        except Stop:
            return _not_started(gate, walk), met
        met = met or struck


async def _meet_async(gate: Gate, ticket: Ticket, need: Need) -> tuple[Any, BaseException | None]:
    if isinstance(need, Append):
        if need.starts:
            _check_start(gate, ticket)
        return None, await gate.journal.append_from_loop(need.said, starts=need.starts)
    if isinstance(need, Call):
        ticket.ran = True
        late = gate.returned_late(ticket, need.attempt)
        call = gate.call_of(ticket, need.attempt)
        outcome, struck = await run_async(ticket.tool, call, ticket.arguments, gate.redactor, late)
        return (gate.proven(call.key, need.attempt, outcome) if gate.cut_off else outcome), struck
    if isinstance(need, Probe):
        probe = probe_of(gate, ticket)
        if probe is None:
            return _NO_PROBE, None
        call = gate.call_of(ticket, need.attempt)
        in_progress = is_running(call.key, call.attempt)
        verdict, met = await probe_async(probe, call)
        return recordable(verdict, gate.redactor, in_progress=in_progress), met
    if isinstance(need, Consult):
        return await gate.approvals.consult_on_loop(ticket)
    if isinstance(need, Wait):
        return await _waited(gate, need.seconds)
    if isinstance(need, Save):
        saved = SYNCS.submit(lambda: gate.save(need.data))
        met = await through(saved)
        return saved.result(), met
    if gate.extensions is not None and isinstance(need, Ask):
        decision = gate.decide(ticket, need.attempt, again=need.again)
        return await gate.extensions.before_tool_on_loop(ticket, need.attempt, decision)
    if need.__class__ in _SLOW:
        return await aside(lambda: _at_once(gate, ticket, need))
    return _at_once(gate, ticket, need), None


async def _waited(gate: Gate, seconds: float) -> tuple[bool, BaseException | None]:
    """Let time pass; who calls the run off cuts it short, and so does a cancellation, which is handed back."""
    try:
        return await gate.journal.clock.sleep_on_loop(seconds, _called_off(gate)), None
    except asyncio.CancelledError as cancelled:
        return True, cancelled
