"""Texts that people send to a running agent: each is read once, at a place that a replay finds again."""

import threading
from typing import Any

from clew.core.events import Event, control, step_output
from clew.runtime.gate import Gate
from clew.runtime.place import here
from clew.runtime.turns import step_events

Waiting = dict[str, dict[str, Any]]


class Steering:
    """What one leg reads of the texts that were accepted. Lives as long as the leg.

    Source:
        DESIGN §6, Control: text that the agent reads by `run.steering()`, recorded when read.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._lock = threading.Lock()
        # Taken by a reader whose append is still on its way.
        self._taken: set[str] = set()
        # Recorded as read by a reader who was cancelled meanwhile; better heard twice than never.
        self._unheard: list[str] = []

    def at_this_place(self) -> tuple[str, list[str] | None]:
        """The step at which is read now, and what was read there in an earlier leg."""
        gate = self._gate
        gate.check_open()
        step = gate.next_in_leg(here(gate.journal.state.run_id).path, "steering")
        recorded = gate.journal.state.steps.get(step)
        return step, None if recorded is None else list(gate.read_answer(recorded).value)

    def take(self) -> tuple[Waiting, list[str]]:
        """The commands that nobody has read, which are this reader's now, and all that this reader is told."""
        with self._lock:
            found = unread(self._gate.journal.state.controls.items())
            waiting = {name: known for name, known in found.items() if name not in self._taken}
            self._taken.update(waiting)
            told, self._unheard = [*self._unheard, *texts(waiting)], []
        return waiting, told

    def give_back(self, told: list[str]) -> None:
        """The reader was cancelled before it heard them: the next one does."""
        with self._lock:
            self._unheard = [*told, *self._unheard]

    def nothing(self, step: str) -> None:
        """Nobody had said anything: that rides in front of the next append, for nothing durable rests on it before."""
        self._gate.journal.riders.append(step_output(step, "[]"))

    def events(self, step: str, waiting: Waiting, heard: list[str]) -> list[Event]:
        """What is recorded of a reading; blocking when the texts are long. None of it where they could not be kept."""
        told = step_events(self._gate, step, heard)
        if not told or not waiting:
            return told
        done = [control(name, known["fingerprint"], "applied") for name, known in waiting.items()]
        return [{**told[0], "controls": list(waiting)}, *done]


def unread(controls: Any) -> Waiting:
    """Commands that carry a text which no agent has read, by id."""
    return {
        name: known
        for name, known in controls
        if known["state"] == "accepted" and "readBy" not in known and known.get("command", {}).get("type") == "steer"
    }


def texts(waiting: Waiting) -> list[str]:
    """What was said, without who said it."""
    return [str(known["command"].get("arguments", {}).get("text", "")) for known in waiting.values()]
