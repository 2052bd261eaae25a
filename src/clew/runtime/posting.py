"""From a person's words to a command in a run's inbox, and what became of it; the same id is done once."""

from collections.abc import Mapping
from typing import Any

import msgspec

from clew.core.canon import fingerprint
from clew.core.events import Event, control
from clew.core.folding import fold
from clew.errors import Held, Refused
from clew.runtime.control import repeated
from clew.runtime.deeds import check_command
from clew.runtime.opening import HomeParts
from clew.runtime.reviewing import Said
from clew.stores.base import Command, CommandAnswer

LOOK_S = 0.05
LOOKS = 100
# A lock that is held is told with its holder, for which the whole journal is read: not at every look.
LOOKS_AT_LOCK = 20

Told = dict[str, Any]


class Posting:
    """One command on its way: by the inbox while a writer lives, under the lock else. Lives while its sender waits.

    `named`: its id was given by the sender, so it may come again, and is recorded wherever it is done.

    Raises:
        UsageError: `control_invalid`, `invalid_control_id`; nothing was posted.

    Source:
        DESIGN §6, Control; contract #203 to #210.
    """

    def __init__(
        self, place: HomeParts, run_id: str, kind: str, said: Said, arguments: Mapping[str, Any], control_id: str = ""
    ) -> None:
        self.place = place
        self.named = bool(control_id)
        stamp = {"runId": run_id, "type": kind, "by": said.by, "at": place.clock.now_ms()}
        name = control_id or f"{kind}-{fingerprint({**stamp, 'nonce': place.clock.chance(8).hex()})[:16]}"
        self.command = Command(1, name, run_id, kind, said.by, said.reason, dict(arguments))
        check_command(self.command)

    @property
    def said(self) -> str:
        """The fingerprint of its content."""
        return fingerprint(msgspec.to_builtins(self.command))

    def told(self, status: str, **more: Any) -> Told:
        """What the sender gets."""
        command = self.command
        named = {"controlId": command.control_id} if self.named else {}
        return {"runId": command.run_id, "command": command.type, **named, "status": status, **more}

    def known(self) -> Told | None:
        """What became of it, if it was sent before and is over; None when it is new, or still on its way.

        Raises:
            Refused: `control_conflict` when its id stands for another command; `control_rejected` when it was rejected.
            NotFound, Corrupt.
        """
        if not self.named:
            return None
        state = fold(self.place.store.read(self.command.run_id), self.command.run_id)
        known = state.controls.get(self.command.control_id)
        if known is not None:
            answer = repeated(self.command.control_id, known, self.said)
            waits = check_command(self.command).waits
            return None if answer.duplicate_of == "accepted" and not waits else self.heard(answer)
        answered = self.place.store.answered(self.command.run_id, self.command.control_id)
        if answered is None:
            return None
        # One whose content is another, the inbox refuses.
        self.place.store.post(self.command)
        return self.heard(_again(answered))

    def sent(self) -> Told | None:
        """Leave it to a living writer, and wait a little for the answer.

        Returns:
            What became of it. None: the writer has let the run go without an answer; the command is withdrawn, and
            what it asked for can be done under the lock.

        Raises:
            Refused: `control_rejected`, or the code of the refusal, with the writer's reason.
            Held: `run_state_locked` when the writer did not answer in time; the command stays and is answered later.
        """
        place, command = self.place, self.command
        place.store.post(command)
        for look in range(LOOKS):
            answer = place.store.answered(command.run_id, command.control_id)
            if answer is not None:
                return self.heard(answer)
            if look % LOOKS_AT_LOCK == 1 and self._withdrawn():
                return None
            place.clock.sleep(LOOK_S, lambda: False)
        raise Held(
            f"the writer of run {command.run_id!r} has not answered yet; "
            f"command {command.control_id!r} waits in its inbox",
            code="run_state_locked",
            next=f"Look again with `clew show {command.run_id}`; the command is taken at the run's next safe point.",
            run=command.run_id,
            controlId=command.control_id,
        )

    def _withdrawn(self) -> bool:
        """Take it back if its writer is gone and did not answer; under the lock, so that nobody else takes it."""
        place, command = self.place, self.command
        try:
            writer = place.store.open(command.run_id, wait_s=0.0)
        except Held:
            return False
        try:
            if place.store.answered(command.run_id, command.control_id) is not None:
                return False
            if not self.named:
                why = "withdrawn: nobody was running the run any more"
                place.store.answer(command.run_id, CommandAnswer(command.control_id, "rejected", why))
            return True
        finally:
            writer.close()

    def heard(self, answer: CommandAnswer) -> Told:
        """An answer for the sender; a refusal, also one of before, is an error."""
        command, how = self.command, answer.duplicate_of or answer.status
        if how in ("rejected", "conflict"):
            raise _refused(command, answer)
        told = msgspec.to_builtins(answer)
        more = {name: told[name] for name in ("duplicateOf", "acceptedSequence", "appliedSequence") if name in told}
        return self.told(answer.status, **(more if self.named else {}))

    # Under the lock.

    def accepted(self) -> list[Event]:
        """What is recorded before it is done."""
        content = msgspec.to_builtins(self.command)
        return [control(self.command.control_id, self.said, "accepted", command=content)] if self.named else []

    def applied(self) -> list[Event]:
        """What is recorded when it is done."""
        return [control(self.command.control_id, self.said, "applied")] if self.named else []

    def answer(self, status: Any, why: str = "", code: str = "") -> None:
        """Answer where a sender of the same would look."""
        if self.named:
            self.place.store.post(self.command)
            answer = CommandAnswer(self.command.control_id, status, why, code=code)
            self.place.store.answer(self.command.run_id, answer)


def _refused(command: Command, answer: CommandAnswer) -> Refused:
    run_id, named = command.run_id, {"run": command.run_id, "controlId": command.control_id}
    look = f"Look at the run with `clew show {run_id}` and decide anew."
    if answer.code == "control_conflict":
        why = f"run {run_id!r} has another command under the id {command.control_id!r}"
        return Refused(why, code="control_conflict", next="Give the command an id of its own.", **named)
    if answer.code == "run_already_finished":
        return Refused(answer.reason, code="run_already_finished", next=look, **named)
    if answer.code == "control_unavailable":
        why = f"{command.type} came too late for run {run_id!r}: {answer.reason}"
        return Refused(why, code="control_unavailable", next=look, **named)
    before = " before" if answer.duplicate_of else ""
    why = f"the writer of run {run_id!r} rejected {command.type}{before}: {answer.reason}"
    return Refused(why, code="control_rejected", next=look, **named, refusal=answer.code)


def _again(answer: CommandAnswer) -> CommandAnswer:
    return msgspec.structs.replace(answer, status="duplicate", duplicate_of=answer.duplicate_of or answer.status)
