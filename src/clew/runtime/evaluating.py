"""Checks of a run's work: looked at once, recorded as a step, replayed. What they mean belongs to `core/evaluation`."""

import re
from typing import Any, Final

import msgspec

from clew.core.evaluation import Check, check_member
from clew.core.events import Event
from clew.core.jsonable import record_result
from clew.errors import Refused, UsageError
from clew.runtime.bodies import MESSAGE_CHARS
from clew.runtime.gate import Gate
from clew.runtime.turns import step_events

NAME_CHARS: Final = 100
SLUG_CHARS: Final = 40
FOLDER: Final = "check"
"""The path of checks among the steps around them; no step of a user has such a path."""
_TAKEN: Final = ("now", "random", "uuid")


class CheckTicket(msgspec.Struct, frozen=True):
    """One admitted check: its step, its name as it is recorded, and what it found when it is replayed."""

    step: str
    name: str
    replay: Check | None = None


def admit_check(gate: Gate, path: str, name: str) -> CheckTicket:
    """Let a check in: a recorded one with what it found, or a new one.

    Raises:
        UsageError: `invalid_check_name`.
        Stop: the gate has closed, a limit is reached, or the agent diverged.
    """
    if type(name) is not str or not name.strip() or not name.isprintable() or len(name) > NAME_CHARS:
        raise UsageError(
            f"a check cannot be called {ascii(name)[:200]}",
            code="invalid_check_name",
            next=f"Say in up to {NAME_CHARS} printable characters what is looked at.",
        )
    gate.check_going()
    hidden = gate.redactor.text(name)
    step = gate.next_check(f"{path}.{FOLDER}" if path else FOLDER, slug_of(hidden))
    recorded = gate.journal.state.steps.get(step)
    if recorded is None:
        gate.begin_step()
        return CheckTicket(step, hidden)
    told = next((check.id for check in gate.journal.state.checks if check.step_id == step), None)
    if told != hidden:
        gate.diverge(_diverged(step, told, hidden))
    return CheckTicket(step, hidden, msgspec.convert(gate.read_answer(recorded).value, Check))


def slug_of(name: str) -> str:
    """A name as part of a step id."""
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:SLUG_CHARS] or "check"
    return f"{slug}_" if slug in _TAKEN else slug


def found_by(gate: Gate, given: Any) -> Check:
    """What a check returned, as JSON and redacted: a `Check`, True or False. Anything else did not pass."""
    if type(given) is bool:
        given = Check(given)
    if not isinstance(given, Check):
        given = Check(False, reason=f"the check returned a {type(given).__name__}; it returns a bool or a clew.Check")
    return msgspec.convert(gate.redactor.answer(record_result(given)), Check)


def raised_in(fault: Exception) -> Check:
    """A check that raised has not passed."""
    return Check(False, reason=f"{type(fault).__name__}: {fault}"[:MESSAGE_CHARS])


def check_events(gate: Gate, ticket: CheckTicket, check: Check) -> list[Event]:
    """The record of a check; none, and the gate closes, when its evidence is long and could not be kept."""
    said = step_events(gate, ticket.step, msgspec.to_builtins(check))
    for event in said:
        event["check"] = check_member(ticket.name, check)
    return said


def _diverged(step: str, recorded: str | None, asked: str) -> Refused:
    return Refused(
        f"the agent checks {asked!r} where {step!r} is recorded as {recorded!r}",
        code="resume_divergence",
        next="Make the agent do again what is recorded, in the same places; the recorded effects stand.",
        recorded=step,
    )
