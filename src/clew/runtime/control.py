"""Commands that reach a living run from outside: the inbox of other processes, Ctrl-C and SIGTERM."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

import msgspec

from clew.core import events
from clew.core.canon import fingerprint
from clew.core.compose import Move
from clew.core.needs import Append, Closing
from clew.core.review import GiveUp
from clew.errors import ClewError, Storage, UsageError
from clew.runtime.approving import deciding
from clew.runtime.gate import Gate
from clew.runtime.reviewing import (
    Said,
    Walking,
    check_attempt,
    check_open,
    evidence_of,
    pick_call,
    settlement_of,
    settling,
)
from clew.stores.base import Command, CommandAnswer, RunStore

POLL_S = 0.2
ON_INTERRUPT: Final = "pausing at the next safe point; press Ctrl-C again to abort"
ON_TERMINATE: Final = "terminated: pausing at the next safe point"


class Control:
    """The inbox of one living run. Commands are recorded before they act; each is applied once.

    `waiting` and `post` block, for they look at the disk; what lies between them only appends.

    Source:
        DESIGN §6; contract #203 to #209.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.answers: list[CommandAnswer] = []
        # Threads of a plain agent look as well; each command is applied by one of them.
        self.steering = threading.Lock()
        self._next_look_s = 0.0

    def due(self) -> bool:
        """Is it time to look again?"""
        now = self.gate.journal.clock.monotonic_s()
        if now < self._next_look_s:
            return False
        self._next_look_s = now + POLL_S
        return True

    def waiting(self) -> Sequence[Command]:
        """The commands without an answer; none while the inbox cannot be read, for the run does not depend on it."""
        try:
            return self.gate.store.pending(self.gate.journal.state.run_id)
        except ClewError:
            return ()

    def applying(self, commands: Sequence[Command]) -> Iterator[Walking]:
        """One walk for each command; drive each to its end before the next, then `post` the answers."""
        return (self._apply(command) for command in commands)

    def post(self) -> None:
        """Answer where the senders look. What cannot be written now is answered at a later look."""
        answers, self.answers = self.answers, []
        for answer in answers:
            with suppress(ClewError):
                self.gate.store.answer(self.gate.journal.state.run_id, answer)

    def _apply(self, command: Command) -> Walking:
        said, command = fingerprint(msgspec.to_builtins(command)), self._hidden(command)
        known = self.gate.journal.state.controls.get(command.control_id)
        if known is not None and (known["fingerprint"] != said or known["state"] != "accepted"):
            self._answer(command, _repeated(known, said), known.get("reason", ""))
            return
        if known is None:
            yield Append((events.control(command.control_id, said, "accepted", command=msgspec.to_builtins(command)),))
        try:
            yield from self._act(command)
            status, why = "applied", ""
        except ClewError as fault:
            if isinstance(fault, Storage):
                raise
            status, why = "rejected", fault.message
        yield Append((events.control(command.control_id, said, status, reason=why),))
        self._answer(command, status, why)

    def _hidden(self, command: Command) -> Command:
        """The command as it may be recorded: another process knows nothing of the agent's secrets."""
        hide = self.gate.redactor
        told = {name: hide.answer(value) for name, value in command.arguments.items() if name in ("evidence", "result")}
        return msgspec.structs.replace(
            command,
            by=hide.text(command.by),
            reason=hide.text(command.reason),
            arguments=command.arguments | told,
        )

    def _answer(self, command: Command, status: Any, reason: str) -> None:
        self.answers.append(CommandAnswer(command.control_id, status, reason))

    def _act(self, command: Command) -> Walking:
        Said(command.by, command.reason)
        gate = self.gate
        if command.type == "pause":
            gate.close(Closing("pause_requested", f"by {command.by}: {command.reason}"))
        elif command.type == "abort":
            yield from request_abort(gate, f"by {command.by}: {command.reason}")
        elif command.type == "settle":
            yield from self._settle(command)
        elif command.type in ("approve", "deny"):
            yield from deciding(gate, command)
        else:
            raise UsageError(
                f"command {command.type!r} is not known",
                code="control_invalid",
                next="Commands are pause, abort, settle, approve and deny.",
            )

    def _settle(self, command: Command) -> Walking:
        gate, arguments = self.gate, command.arguments
        state = gate.journal.state
        call = pick_call(state, str(arguments.get("call", "")))
        verdict, evidence = settlement_of(arguments), evidence_of(arguments)
        check_open(state, call, verdict, gate.blobs.has)
        check_attempt(call, arguments.get("attempt", call.attempt))
        if call.key in gate.flights.keys:
            raise UsageError(
                f"{call.key!r} is under way right now",
                code="effect_under_way",
                next="Wait until the run has paused, then settle it.",
            )
        yield from settling(state.run_id, call, verdict, by=command.by, reason=command.reason, evidence=evidence)
        if isinstance(verdict, GiveUp):
            gate.given_up = True
            gate.close(Closing("effect_given_up"))


def _repeated(known: dict[str, Any], said: str) -> str:
    """How a command is answered that the journal knows: its sender must hear what became of it."""
    if known["fingerprint"] != said:
        return "conflict"
    return "duplicate" if known["state"] == "applied" else "rejected"


def reject_rest(store: RunStore, run_id: str, why: str) -> None:
    """Answer what still waits in the inbox of a run that has ended; its journal takes no more commands."""
    with suppress(ClewError):
        for command in store.pending(run_id):
            store.answer(run_id, CommandAnswer(command.control_id, "rejected", why))


def request_abort(gate: Gate, reason: str) -> Walking:
    """`aborting` on disk first; then nothing starts any more."""
    gate.aborting = reason or "aborted"
    if gate.journal.state.state in ("accepted", "running", "paused"):
        yield Append((Move("REQUEST_ABORT", gate.aborting),))
    gate.close(Closing("aborted"))


@contextmanager
def handlers(gate: Gate, notice: Callable[[str], None] | None) -> Iterator[None]:
    """Take Ctrl-C and SIGTERM while a leg runs, if this is the main thread: once to pause, twice to abort."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def tell(words: str) -> None:
        # Whatever it raises would strike the code that the signal met, a write to the journal among it.
        with suppress(Exception):
            if notice is not None:
                notice(words)

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        gate.interrupts += 1
        if gate.interrupts > 1:
            gate.aborting = gate.aborting or "Ctrl-C twice"
            gate.close(Closing("aborted"))
            if gate.interruptible and not gate.journal.busy:
                raise KeyboardInterrupt
            return
        gate.close(Closing("interrupted"))
        tell(ON_INTERRUPT)

    def on_terminate(number: int, frame: FrameType | None) -> None:
        gate.close(Closing("terminated"))
        tell(ON_TERMINATE)

    wanted = {signal.SIGINT: on_interrupt, signal.SIGTERM: on_terminate}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def wake(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> Callable[[], None]:
    """Tell a loop from anywhere, a signal handler included, that the gate has changed."""

    def tell() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(changed.set)

    return tell
