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
from clew.core.needs import Append, Closing
from clew.errors import ClewError, Storage
from clew.runtime.bodies import text_of
from clew.runtime.deeds import DEEDS, Deed, check_command
from clew.runtime.gate import Gate
from clew.runtime.reviewing import Walking
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
        self._promised = promised(gate.journal.state.controls.items())

    def due(self) -> bool:
        """Is it time to look again?"""
        now = self.gate.journal.clock.monotonic_s()
        if now < self._next_look_s:
            return False
        self._next_look_s = now + POLL_S
        return True

    def knocked(self) -> bool:
        """Does a command wait? Asked of all legs again and again, so it must cost little where none does."""
        with suppress(ClewError):
            return bool(self._promised or self.gate.store.pending(self.gate.journal.state.run_id))
        return False

    def waiting(self) -> Sequence[Command]:
        """The commands without an answer, and what an earlier leg accepted and did not come to.

        None of the inbox while it cannot be read, for the run does not depend on it.
        """
        try:
            found = list(self.gate.store.pending(self.gate.journal.state.run_id))
        except ClewError:
            found = []
        there = {command.control_id for command in found}
        return [*found, *(command for name, command in self._promised.items() if name not in there)]

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
        state = self.gate.journal.state
        if command.run_id != state.run_id:
            why = f"it is for run {command.run_id!r}, this is {state.run_id!r}"
            self._refuse(command, "control_run_mismatch", why)
            return
        known = state.controls.get(command.control_id)
        mine = self._promised.pop(command.control_id, None) is command
        said = known["fingerprint"] if mine and known is not None else fingerprint(msgspec.to_builtins(command))
        if known is not None and (known["fingerprint"] != said or known["state"] != "accepted"):
            self.answers.append(repeated(command.control_id, known, said))
            return
        try:
            deed = check_command(command)
        except ClewError as fault:
            self._refuse(command, fault.code, fault.message)
            return
        yield from self._done(deed, self._hidden(command), said, new=known is None)

    def _done(self, deed: Deed, command: Command, said: str, *, new: bool) -> Walking:
        """Recorded, done, and recorded again; what only waits for the agent is answered as accepted."""
        if new:
            yield Append((events.control(command.control_id, said, "accepted", command=msgspec.to_builtins(command)),))
        if deed.waits:
            self._answer(command.control_id)
            return
        try:
            yield from deed.do(self.gate, command)
            status, why = "applied", ""
        except Storage:
            raise
        except Exception as fault:  # noqa: BLE001  # whatever it raises: it was not done, and that is recorded
            why = fault.message if isinstance(fault, ClewError) else f"{type(fault).__name__}: {text_of(fault)}"
            status, why = "rejected", self.gate.redactor.text(why)
        yield Append((events.control(command.control_id, said, status, reason=why),))
        self._answer(command.control_id)

    def _hidden(self, command: Command) -> Command:
        """The command as it may be recorded: another process knows nothing of the agent's secrets."""
        hide = self.gate.redactor
        hidden = ("evidence", "result", "text")
        told = {name: hide.answer(value) for name, value in command.arguments.items() if name in hidden}
        return msgspec.structs.replace(
            command,
            by=hide.text(command.by),
            reason=hide.text(command.reason),
            arguments=command.arguments | told,
        )

    def _answer(self, control_id: str) -> None:
        """As it stands on the record now."""
        known = self.gate.journal.state.controls.get(control_id)
        if known is not None:
            self.answers.append(answer_of(control_id, known))

    def _refuse(self, command: Command, code: str, why: str) -> None:
        """Nothing of it is recorded: it could not be understood, or is none of this run's."""
        self.answers.append(CommandAnswer(command.control_id, "rejected", why, code=code))


Known = dict[str, Any]
"""What a run state knows of a command: its last event, with the sequence of each."""


def promised(controls: Iterator[tuple[str, Known]]) -> dict[str, Command]:
    """Commands that were accepted and not come to, as they are recorded; what waits for the agent is not among them."""
    found = {}
    for name, known in controls:
        if known["state"] != "accepted":
            continue
        with suppress(msgspec.ValidationError):
            command = msgspec.convert(known.get("command"), Command)
            if command.type in DEEDS and not DEEDS[command.type].waits:
                found[name] = command
    return found


def answer_of(control_id: str, known: Known, status: Any = "", *, of: str = "") -> CommandAnswer:
    """What is answered to the sender of a command that the journal knows."""
    return CommandAnswer(
        control_id,
        status or known["state"],
        known.get("reason", ""),
        duplicate_of=of,
        accepted_sequence=known.get("acceptedSequence", 0),
        applied_sequence=known.get("appliedSequence", 0),
        rejected_sequence=known.get("rejectedSequence", 0),
    )


def repeated(control_id: str, known: Known, said: str) -> CommandAnswer:
    """How a command is answered that the journal knows: its sender must hear what became of it.

    Source:
        contract #203, #205.
    """
    if known["fingerprint"] != said:
        why = "its id stands for another command, which stays bound to it"
        return CommandAnswer(control_id, "conflict", why, code="control_conflict")
    return answer_of(control_id, known, "duplicate", of=known["state"])


def reject_rest(store: RunStore, run_id: str, why: str) -> None:
    """Answer what still waits in the inbox of a run that has ended; its journal takes no more commands.

    Source:
        contract #208.
    """
    with suppress(ClewError):
        for command in store.pending(run_id):
            store.answer(run_id, CommandAnswer(command.control_id, "rejected", why, code="control_unavailable"))


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
