"""What both faces of a run have: who it is, its names for steps, values that a replay sees again. Calls nothing."""

import inspect
from collections.abc import Callable
from typing import Any

from clew.core.events import step_output
from clew.core.ids import check_name
from clew.errors import UsageError
from clew.runtime import recording
from clew.runtime.artifacts import Shelf
from clew.runtime.clock import now_text, random_float, random_uuid
from clew.runtime.gate import Gate
from clew.runtime.nursery import Nursery
from clew.runtime.place import HERE, here
from clew.runtime.steering import Steering
from clew.runtime.tickets import Ticket, restored
from clew.runtime.tools import RESERVED


class Face:
    """What both faces have: who the run is, and values that are recorded so that a replay sees them again."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._steering = Steering(gate)
        self._shelf = Shelf(gate)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._gate.journal.state.run_id

    @property
    def workspace(self) -> str:
        """The folder that workspace tools may touch."""
        return self._gate.workspace.root

    @property
    def config_fingerprint(self) -> str:
        """SHA-256 of what the agent's author declared when the run began, 64 hex digits."""
        return str(self._gate.journal.state.start["configFingerprint"])

    @property
    def stopping(self) -> str:
        """Why nothing starts any more: a reason, `aborted`, or empty while things may start."""
        return recording.stopping(self._gate)

    def recorded(self, kind: str) -> dict[str, Any] | None:
        """The payload of the last record of a kind (`loop`), of this leg or an earlier one; None without one."""
        return recording.recorded(self._gate, kind)

    def pause(self, reason: str, message: str = "") -> None:
        """Pause the run for a reason of the agent's own, a code in snake_case; raises `Stop`, which is to pass."""
        recording.pause(self._gate, reason, message)

    def now(self) -> str:
        """The time, ISO-8601 UTC; the same again when the agent is replayed."""
        return str(self._value("now", lambda: now_text(self._gate.journal.clock)))

    def random(self) -> float:
        """A number in [0, 1); the same again when the agent is replayed."""
        return float(self._value("random", lambda: random_float(self._gate.journal.clock)))

    def uuid(self) -> str:
        """A version 4 UUID; the same again when the agent is replayed."""
        return str(self._value("uuid", lambda: random_uuid(self._gate.journal.clock)))

    def _value(self, name: str, make: Callable[[], Any]) -> Any:
        gate = self._gate
        gate.check_open()
        step = gate.next_in_leg(here(self.run_id).path, name)
        recorded = gate.journal.state.steps.get(step)
        if recorded is not None:
            return gate.read_answer(recorded).value
        value = make()
        # It rides in front of the next append: nothing durable can rest on it before.
        gate.journal.riders.append(step_output(step, f'"{value}"' if isinstance(value, str) else repr(value)))
        return value

    def _admit(self, tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, proposed: bool = False) -> Ticket:
        return self._gate.admit(tool, args, kwargs, here(self.run_id), proposed=proposed)

    def _path(self) -> str:
        """The step around the code that runs now; a turn may be asked from a thread that carries none."""
        place = HERE.get()
        return place.path if place is not None and place.run_id == self.run_id else ""

    def _step_id(self, name: str) -> str:
        check_name(name, "step")
        if name in RESERVED or name in self._gate.tools:
            raise UsageError(
                f"a step cannot be called {name!r}",
                code="invalid_step_name",
                next="Choose a name that is neither a tool's nor one of clew's own.",
                name=name,
            )
        self._gate.check_going()
        return self._gate.next_in_leg(here(self.run_id).path, name)

    @property
    def _nursery(self) -> Nursery:
        assert self._gate.nursery is not None
        return self._gate.nursery

    def _replayed_step(self, step: str, work: Callable[..., Any]) -> tuple[bool, Any]:
        recorded = self._gate.journal.state.steps.get(step)
        if recorded is None:
            self._gate.begin_step()
            return False, None
        return True, restored(self._gate.read_answer(recorded).value, returns(work))


def returns(work: Callable[..., Any]) -> Any:
    """The annotation by which a recorded answer of this work is restored."""
    annotation = inspect.get_annotations(work, eval_str=False).get("return", Any) if inspect.isroutine(work) else Any
    return Any if isinstance(annotation, str) or annotation is None else annotation
