"""Asking a model through the gate: the request is a record, then the answer, so that no turn is paid twice."""

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from clew.core.answers import Answer, beside, inline, is_long, json_text
from clew.core.canon import fingerprint
from clew.core.events import Event, agent_start, turn_end
from clew.core.jsonable import record_result, to_json
from clew.core.needs import Closing
from clew.core.records import Payload
from clew.core.usage import Usage
from clew.errors import Refused, ToolError
from clew.runtime.gate import Gate
from clew.runtime.pool import in_own_thread


class Turn(msgspec.Struct, frozen=True):
    """What a model answered, and what its provider said it used; leave `usage` out when it said nothing.

    `message_id` is the provider's own id of the answer: however often it comes, its usage is counted once.
    """

    output: Any
    usage: Usage | None = None
    message_id: str | None = None


class TurnTicket(msgspec.Struct, frozen=True):
    """One admitted turn: its id, its request's fingerprint, the answer when it is replayed, and the step around it."""

    turn_id: str
    fingerprint: str
    replay: Answer | None = None
    path: str = ""

    def start(self) -> Event:
        """The record of the request."""
        return agent_start(self.turn_id, self.fingerprint, self.path)


def admit_turn(gate: Gate, request: Any, path: str = "") -> TurnTicket:
    """Let a turn in: a recorded one with its answer, or a new one.

    Raises:
        Stop: the gate has closed, a limit is reached, or the agent diverged.
        UsageError: `value_not_json` when the request is not JSON.
        ToolError: `turn_failed`: it failed before, and the agent went on without its answer.
    """
    gate.check_going()
    asked = fingerprint(to_json(request, at="request"))
    try:
        recorded = gate.claims.turn(path, asked)
    except Refused as fault:
        gate.diverge(fault)
        raise
    if recorded is not None and recorded.ended and recorded.answer is None:
        if gate.talk is not None:
            gate.talk.turn = recorded.turn_id
        raise _failed_before(gate.journal.state.run_id, recorded.turn_id)
    if recorded is not None and recorded.answer is not None:
        ticket = TurnTicket(recorded.turn_id, asked, gate.read_answer(recorded.answer), path)
    else:
        gate.begin_turn(again=recorded is not None)
        ticket = TurnTicket(gate.next_turn() if recorded is None else recorded.turn_id, asked, path=path)
    if gate.talk is not None:
        gate.talk.turn = ticket.turn_id
    return ticket


def _failed_before(run_id: str, turn_id: str) -> ToolError:
    return ToolError(
        f"{turn_id!r} failed when it was asked, and the agent went on without its answer; it is told so again",
        code="turn_failed",
        next="Catch clew.ToolError beside what the model's client raises, so that the agent goes the same way again.",
        run=run_id,
        turn=turn_id,
    )


def has_begun(gate: Gate, ticket: TurnTicket) -> bool:
    """Is the request durable, in this leg, and its end not?"""
    state = gate.journal.state
    turn = state.turns.get(ticket.turn_id)
    return turn is not None and turn.leg == len(state.legs) and not turn.ended


def heard(gate: Gate, given: Any) -> Turn:
    """What was answered, as JSON and redacted; a bare value is a turn without usage."""
    turn = given if isinstance(given, Turn) else Turn(given)
    if not isinstance(turn.usage, Usage | None):
        raise TypeError(f"the usage of a turn is a {type(turn.usage).__name__}; give a clew.Usage or leave it out")
    for name, number in ({} if turn.usage is None else msgspec.structs.asdict(turn.usage)).items():
        if name == "prompt_cache_status":
            if number not in (None, "available", "unavailable"):
                raise TypeError(f"the usage of a turn says {name}={number!r}; give 'available' or 'unavailable'")
        elif number is not None and (type(number) is not int or number < 0):
            raise TypeError(f"the usage of a turn says {name}={number!r}; give a whole number or leave it out")
    if turn.message_id is not None and (type(turn.message_id) is not str or not turn.message_id):
        raise TypeError(f"the message id of a turn is {turn.message_id!r}; give the provider's own or leave it out")
    return Turn(gate.redactor.answer(record_result(turn.output)), turn.usage, turn.message_id)


def answer_events(gate: Gate, ticket: TurnTicket, turn: Turn) -> list[Event]:
    """The records of an answer, without the answer itself where it could not be kept; blocking when it is long."""
    usage: Payload | None = None if turn.usage is None else msgspec.to_builtins(turn.usage)
    ended = turn_end(ticket.turn_id, usage or None)
    if turn.message_id is not None:
        ended["messageId"] = turn.message_id
    return [*step_events(gate, ticket.turn_id, turn.output), ended]


def step_events(gate: Gate, step: str, value: Any) -> list[Event]:
    """The event of a turn's or a step's answer; none, and the gate closes, when it is long and could not be kept."""
    answer, text = Answer(value), json_text(value)
    if not is_long(text):
        return [inline(step, answer, text)]
    data = text.encode()
    digest = gate.save(data)
    if digest is not None:
        return [beside(step, answer, text, digest, len(data))]
    gate.close(Closing("result_not_kept", f"the answer of {step!r} ({len(data)} bytes) could not be kept"))
    return []


async def asked(ask: Callable[[Any], Any], request: Any) -> Any:
    """A model's answer, from a coroutine function on the loop or a plain one in a thread."""
    if inspect.iscoroutinefunction(ask):
        return await ask(request)
    answer = await in_own_thread(lambda: ask(request), "turn")
    return await answer if inspect.isawaitable(answer) else answer
