"""What each command asks for and does to a living run: a table. How commands come in and are recorded is `control`."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from clew.core.compose import Move
from clew.core.needs import Append, Closing
from clew.core.review import GiveUp
from clew.errors import UsageError
from clew.runtime.approving import check_decision, deciding
from clew.runtime.gate import Gate
from clew.runtime.reviewing import (
    Walking,
    check_attempt,
    check_open,
    evidence_of,
    pick_call,
    settlement_of,
    settling,
)
from clew.stores.base import Command

STEER_CHARS: Final = 100_000


class Deed(NamedTuple):
    """One kind of command.

    Attributes:
        check: Refuses arguments that no such command can have (`control_invalid`); nothing is recorded of one.
        do: The walk that does it.
        waits: It is taken with its acceptance, and done when the agent comes for it.
    """

    check: Callable[[Mapping[str, Any]], None]
    do: Callable[[Gate, Command], Walking]
    waits: bool = False


def check_command(command: Command) -> Deed:
    """The deed that a command asks for.

    Raises:
        UsageError: `control_invalid`: it is of no known kind, names nobody or no reason, or its arguments do not fit.

    Source:
        contract #207.
    """
    deed = DEEDS.get(command.type)
    if deed is None:
        raise invalid(f"command {command.type!r} is not known", f"Commands are {', '.join(DEEDS)}.")
    if not command.by.strip() or not command.reason.strip():
        raise invalid("the command names nobody or no reason", "Say who decides and why.")
    deed.check(command.arguments)
    return deed


def invalid(why: str, next_step: str) -> UsageError:
    """The error of a command that cannot be understood."""
    return UsageError(why, code="control_invalid", next=next_step)


def _bare(arguments: Mapping[str, Any]) -> None:
    """Nothing but who and why; what a newer sender may add is not looked at."""


def _pause(gate: Gate, command: Command) -> Walking:
    gate.close(Closing("pause_requested", f"by {command.by}: {command.reason}"))
    yield from ()


def _abort(gate: Gate, command: Command) -> Walking:
    yield from request_abort(gate, f"by {command.by}: {command.reason}")


def request_abort(gate: Gate, reason: str) -> Walking:
    """`aborting` on disk first; then nothing starts any more."""
    gate.aborting = gate.aborting or reason or "aborted"
    if gate.journal.state.state in ("accepted", "running", "paused"):
        yield Append((Move("REQUEST_ABORT", gate.aborting),))
    gate.close(Closing("aborted"))


def _check_settlement(arguments: Mapping[str, Any]) -> None:
    settlement_of(dict(arguments))
    evidence_of(dict(arguments))
    if type(arguments.get("call", "")) is not str or type(arguments.get("attempt", 1)) is not int:
        raise invalid("the settlement names no call or no attempt", "Name the call by its step id, call id or key.")


def _settle(gate: Gate, command: Command) -> Walking:
    arguments = command.arguments
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


def _check_text(arguments: Mapping[str, Any]) -> None:
    text = arguments.get("text")
    if type(text) is not str or not text.strip() or len(text) > STEER_CHARS:
        raise invalid("there is no text that could be read", f"Give a text of 1 to {STEER_CHARS} characters.")


def _steer(gate: Gate, command: Command) -> Walking:
    """Nothing yet: it stands in the journal until the agent reads it."""
    yield from ()


DEEDS: Final[dict[str, Deed]] = {
    "pause": Deed(_bare, _pause),
    "abort": Deed(_bare, _abort),
    "settle": Deed(_check_settlement, _settle),
    "approve": Deed(check_decision, deciding),
    "deny": Deed(check_decision, deciding),
    "steer": Deed(_check_text, _steer, waits=True),
}
"""Every kind of command; who adds one adds a line here."""
