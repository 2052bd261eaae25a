"""Commands that reach a living run from outside: the inbox of other processes, Ctrl-C and SIGTERM."""

import asyncio
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec

from clew.core import events
from clew.core.calls import CallState
from clew.core.canon import fingerprint
from clew.core.compose import Move
from clew.core.effect import Append, Closing, Need, review_event, settle_happened
from clew.core.review import DidNotHappen, GiveUp, Happened, Settlement
from clew.errors import ClewError, Usage
from clew.runtime.gate import Gate, facts_of
from clew.stores.base import Command, CommandAnswer

POLL_S = 0.2
Walking = Generator[Need, Any, Any]


def settlement_of(arguments: dict[str, Any]) -> Settlement:
    """A settlement as a command carries it.

    Raises:
        Usage: `control_invalid` for another outcome.
    """
    outcome = arguments.get("outcome")
    if outcome == "happened":
        return Happened(arguments["result"]) if "result" in arguments else Happened()
    if outcome in ("did_not_happen", "give_up"):
        return DidNotHappen() if outcome == "did_not_happen" else GiveUp()
    raise Usage(
        f"{outcome!r} is no settlement",
        code="control_invalid",
        next="Say happened, did-not-happen or give-up.",
    )


def settling(
    run_id: str, call: CallState, verdict: Settlement, *, by: str, reason: str, evidence: list[dict[str, Any]]
) -> Walking:
    """Record a person's settlement of a call's last attempt."""
    assert call.capability is not None
    facts = facts_of(run_id, call, call.capability)
    said = msgspec.structs.replace(verdict, reason=reason)
    if isinstance(said, Happened):
        return settle_happened(facts, call.attempt, said, by=by, evidence=evidence, source="operator")
    return _settle_otherwise(review_event(facts, call.attempt, said, source="operator", by=by, evidence=evidence))


def _settle_otherwise(review: dict[str, Any]) -> Walking:
    yield Append((review,))


class Control:
    """The inbox of one living run. Commands are recorded before they act; each is applied once.

    Source:
        DESIGN §6; contract #203 to #209.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._next_look_s = 0.0

    def due(self) -> bool:
        """Is it time to look again?"""
        now = self.gate.journal.clock.monotonic_s()
        if now < self._next_look_s:
            return False
        self._next_look_s = now + POLL_S
        return True

    def applying(self) -> Iterator[Walking]:
        """One walk for each waiting command; drive each to its end before the next."""
        run_id = self.gate.journal.state.run_id
        for command in self.gate.store.pending(run_id):
            yield self._apply(command)

    def _apply(self, command: Command) -> Walking:
        state = self.gate.journal.state
        said = fingerprint(msgspec.to_builtins(command))
        known = state.controls.get(command.control_id)
        if known is not None and known["state"] != "accepted":
            status: Any = "duplicate" if known["fingerprint"] == said else "conflict"
            self._answer(command, status, known.get("reason", ""))
            return
        if known is None:
            yield Append((events.control(command.control_id, said, "accepted", command=msgspec.to_builtins(command)),))
        try:
            yield from self._act(command)
            status, why = "applied", ""
        except ClewError as fault:
            status, why = "rejected", fault.message
        yield Append((events.control(command.control_id, said, status, reason=why),))
        self._answer(command, status, why)

    def _answer(self, command: Command, status: Any, reason: str) -> None:
        self.gate.store.answer(command.run_id, CommandAnswer(command.control_id, status, reason))

    def _act(self, command: Command) -> Walking:
        gate = self.gate
        if command.type == "pause":
            gate.close(Closing("pause_requested", f"by {command.by}: {command.reason}"))
        elif command.type == "abort":
            yield from request_abort(gate, command.reason)
        elif command.type == "settle":
            yield from self._settle(command)
        else:
            raise Usage(
                f"command {command.type!r} is not known",
                code="control_invalid",
                next="Commands are pause, abort and settle.",
            )

    def _settle(self, command: Command) -> Walking:
        gate, arguments = self.gate, command.arguments
        call = gate.journal.state.find_call(str(arguments.get("call", "")))
        if call is None or not call.unsettled or gate.in_flight:
            raise Usage(
                f"there is nothing open under {arguments.get('call')!r}, or it is being asked after right now",
                code="nothing_to_settle",
                next="Wait until the run has paused, then settle it.",
            )
        verdict = settlement_of(arguments)
        evidence = list(arguments.get("evidence", []))
        run_id = gate.journal.state.run_id
        yield from settling(run_id, call, verdict, by=command.by, reason=command.reason, evidence=evidence)
        if isinstance(verdict, GiveUp):
            gate.given_up = True
            gate.close(Closing("effect_given_up"))


def request_abort(gate: Gate, reason: str) -> Walking:
    """`aborting` on disk first; then nothing starts any more."""
    if gate.journal.state.state in ("accepted", "running", "paused"):
        yield Append((Move("REQUEST_ABORT", reason or "aborted"),))
    gate.aborting = reason or "aborted"
    gate.close(Closing("aborted"))


@contextmanager
def handlers(gate: Gate, notice: Callable[[str], None] | None) -> Iterator[None]:
    """Take Ctrl-C and SIGTERM while a leg runs, if this is the main thread: once to pause, twice to abort."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if gate.interrupts and not gate.journal.busy:
            gate.aborting = gate.aborting or "Ctrl-C twice"
            gate.close(Closing("aborted"))
            if gate.interruptible:
                raise KeyboardInterrupt
            return
        gate.interrupts += 1
        gate.close(Closing("interrupted"))
        if notice is not None:
            notice("pausing at the next safe point; press Ctrl-C again to abort")

    def on_terminate(number: int, frame: FrameType | None) -> None:
        gate.close(Closing("terminated"))

    before = signal.signal(signal.SIGINT, on_interrupt), signal.signal(signal.SIGTERM, on_terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


def wake(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> Callable[[], None]:
    """Tell a loop from anywhere, a signal handler included, that the gate has changed."""

    def tell() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(changed.set)

    return tell
