"""Every error clew raises on purpose. Nothing else belongs here, and nothing is imported.

Families say whose move it is; the code says what happened; `next` says what to do.
"""

from typing import Any


class ClewError(Exception):
    """An error with a code, facts and a next step.

    Args:
        message: What was found and where, with names in quotes.
        code: Stable identifier in snake_case; documented, never reused.
        next: One sentence with a command or a decision in it.
        facts: JSON values that a program may act on.

    Source:
        DESIGN §9.
    """

    exit_code = 1

    def __init__(self, message: str, *, code: str, next: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.next = next
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.code, self.next, self.facts)

    def as_json(self) -> dict[str, Any]:
        """The one line that `--json` puts on stderr."""
        return {"error": {"code": self.code, "message": self.message, "next": self.next, "facts": self.facts}}


def _rebuild(cls: type[ClewError], message: str, code: str, next_step: str, facts: dict[str, Any]) -> ClewError:
    return cls(message, code=code, next=next_step, **facts)


class UsageError(ClewError):
    """The call or the command line is wrong; nothing was touched. Exit 2."""

    exit_code = 2


class Refused(ClewError):
    """What was asked is not legal in this state, or would break a promise. Exit 4."""

    exit_code = 4


class NotFound(ClewError):
    """There is no such home or run. Exit 10."""

    exit_code = 10


class Held(ClewError):
    """Another writer holds the run, or its end is not proven. Exit 11."""

    exit_code = 11


class Corrupt(ClewError):
    """Stored bytes are not what clew wrote; nothing was changed. Exit 12."""

    exit_code = 12


class Storage(ClewError):
    """The machine refused: disk full, denied, sync failed. Exit 13."""

    exit_code = 13


class ToolError(ClewError):
    """An error answer, told to the agent the same way live and replayed."""

    exit_code = 22


class Denied(ToolError):
    """The policy said no; nothing was started."""


class KeyHeld(ToolError):
    """Another call has the business key, so this one did not start. `facts["run"]` is the run that has it."""


class ResultNotRecorded(ToolError):
    """The effect is settled as happened, but nobody recorded what it returned."""


class NotCompleted(ClewError):
    """Raised by `raise_for_state()` when a run is paused or failed; the exit code is the run's."""

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # the state's code, not the family's
        """The exit code of the state the run is in."""
        return int(self.facts.get("exit", 1))


class NotVerified(ClewError):
    """A loop ended without a check that passed; uncaught, it pauses the run as what the agent raised."""

    exit_code = 22


class NothingHappened(Exception):
    """Raised by a tool that knows its effect did not happen, so it may be told to the agent as an error."""


class Stop(BaseException):
    """Told to the agent when the gate has closed: nothing may start any more. Do not catch it."""
