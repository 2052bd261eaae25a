"""The extensions of one leg: at each moment their handlers are asked in order, and leave receipts. Grants nothing."""

from collections.abc import Generator, Sequence
from typing import Any, Final

from clew.core.compose import Close, Saying
from clew.core.events import CallFacts
from clew.core.extensions import (
    AFTER_TOOL,
    BEFORE_MODEL,
    BEFORE_TOOL,
    RUN_FINISHED,
    extension_lifecycle,
    freeze,
)
from clew.core.jsonable import to_json
from clew.core.needs import Allow, Answered, Deny, End, Halt, Seek
from clew.core.redact import Redactor
from clew.runtime.bodies import FAULT_CHARS, MESSAGE_CHARS, Struck, text_of
from clew.runtime.extensions import CREDENTIALS, Extension
from clew.runtime.hearing import Heard, hear_async, hear_sync
from clew.runtime.journal import Journal
from clew.runtime.tickets import Ticket

Json = dict[str, Any]
Decision = Allow | Deny | Halt
Asking = Generator[tuple[Extension, str, Any], Heard, str]

_NO_ANSWER: Final = "it answered neither None nor a reason"


class Lifecycle:
    """The loaded extensions in one leg. Lives as long as its gate; a gate without extensions has none.

    Every handler leaves a receipt, which rides in front of the leg's next append.

    Source:
        DESIGN §6; contract #242 to #244, W50.
    """

    def __init__(self, extensions: Sequence[Extension], journal: Journal, redactor: Redactor, agent: str) -> None:
        self._extensions = tuple(extensions)
        self._journal = journal
        self._redactor = redactor
        self._agent = agent

    # What the drivers and the run's faces call.

    def before_tool(self, ticket: Ticket, attempt: int, decision: Any) -> Any:
        """The gate's decision, or a denial instead; never the other way round, and not before a person was asked."""
        if isinstance(decision, Deny | Halt | Seek):
            return decision
        return self._decided(decision, _drive_sync(self._before_tool(ticket, attempt)))

    async def before_tool_on_loop(self, ticket: Ticket, attempt: int, decision: Any) -> tuple[Any, Struck]:
        """As `before_tool`, with a cancellation that was met on the way."""
        if isinstance(decision, Deny | Halt | Seek):
            return decision, None
        denial, met = await _drive_async(self._before_tool(ticket, attempt))
        return self._decided(decision, denial), met

    def after_tool(self, ticket: Ticket, end: End) -> KeyboardInterrupt | None:
        """Tell how a call ended whose body ran; an interruption met meanwhile is handed back, for nothing failed."""
        try:
            _drive_sync(self._after_tool(ticket, end))
        except KeyboardInterrupt as interrupt:
            return interrupt
        return None

    async def after_tool_on_loop(self, ticket: Ticket, end: End) -> Struck:
        """As `after_tool`."""
        return (await _drive_async(self._after_tool(ticket, end)))[1]

    def before_model(self, turn_id: str, asked: str, request: Any) -> None:
        """Tell that a model is about to be asked."""
        _drive_sync(self._before_model(turn_id, asked, request))

    async def before_model_on_loop(self, turn_id: str, asked: str, request: Any) -> None:
        """As `before_model`. CancelledError when the caller was cancelled meanwhile: nothing has begun."""
        _, met = await _drive_async(self._before_model(turn_id, asked, request))
        if met is not None:
            raise met

    def last_sayings(self, sayings: list[Saying]) -> list[Saying]:
        """What is left to say at the end of a leg; behind the end of a run once that is durable and was told."""
        if not self._finishes(sayings):
            return sayings
        self._journal.append(sayings[:-1])
        _drive_sync(self._run_finished(sayings[-1]))
        return sayings[-1:]

    async def last_sayings_on_loop(self, sayings: list[Saying]) -> tuple[list[Saying], Struck]:
        """As `last_sayings`."""
        if not self._finishes(sayings):
            return sayings, None
        met = await self._journal.append_from_loop(sayings[:-1])
        _, struck = await _drive_async(self._run_finished(sayings[-1]))
        return sayings[-1:], met or struck

    # What handlers are given.

    def _before_tool(self, ticket: Ticket, attempt: int) -> Asking:
        capability = ticket.facts.capability
        said = {**self._who(ticket.facts), "attempt": attempt, "effect": capability.effect, "replay": capability.replay}
        hidden = said | {"arguments": self._redactor.arguments(ticket.plain)}
        return self._asking(BEFORE_TOOL, said | {"arguments": ticket.plain}, hidden)

    def _after_tool(self, ticket: Ticket, end: End) -> Asking:
        call = self._journal.state.calls.get(ticket.facts.step_id)
        if call is None or not ticket.ran:
            return ""
        answer = end.answer if isinstance(end, Answered) else None
        error = getattr(answer, "error", None)
        said = {
            **self._who(ticket.facts),
            "attempt": max(call.attempt, 1),
            "status": call.status or None,
            "answered": answer is not None,
            "error": None if error is None else {"kind": error.kind, "message": error.message},
        }
        result = getattr(answer, "value", None)
        hidden = said | {"result": None if ticket.tool.secret else result}
        return (yield from self._asking(AFTER_TOOL, said | {"result": result}, hidden))

    def _before_model(self, turn_id: str, asked: str, request: Any) -> Asking:
        if not self._wanted(BEFORE_MODEL):
            return ""
        said = {"runId": self._run_id, "agent": self._agent, "turnId": turn_id, "requestFingerprint": asked}
        plain = to_json(request, at="request")
        hidden = said | {"request": self._redactor.arguments(plain)}
        return (yield from self._asking(BEFORE_MODEL, said | {"request": plain}, hidden))

    def _run_finished(self, close: Any) -> Asking:
        state = self._journal.state
        output = (state.agent_end or {}).get("output") if state.state == "completed" else None
        said = {
            "runId": self._run_id,
            "agent": self._agent,
            "state": state.state,
            "reason": close.outcome.finish_reason,
            "output": output,
            "metrics": state.metrics.recorded(state.duration_ms, clock_stepped=state.clock_stepped),
        }
        return self._asking(RUN_FINISHED, said, said)

    @property
    def _run_id(self) -> str:
        return self._journal.state.run_id

    def _who(self, facts: CallFacts) -> Json:
        return {
            "runId": facts.run_id,
            "agent": self._agent,
            "tool": facts.tool,
            "stepId": facts.step_id,
            "callId": facts.call_id,
            "turnId": facts.turn_id,
            "idempotencyKey": facts.key,
        }

    def _wanted(self, moment: str) -> bool:
        return any(moment in extension.handlers for extension in self._extensions)

    # How they are asked, in whichever way.

    def _asking(self, moment: str, true: Json, hidden: Json) -> Asking:
        """Ask one after another in the order of their ids, until one denies. Returns why, or nothing."""
        for extension in self._extensions:
            if moment not in extension.handlers:
                continue
            since = self._journal.clock.monotonic_s()
            heard = yield extension, moment, freeze(true if CREDENTIALS in extension.capabilities else hidden)
            took_ms = round(max(0.0, self._journal.clock.monotonic_s() - since) * 1000)
            denial = self._receipt(extension, moment, heard, took_ms)
            if denial:
                return denial
        return ""

    def _receipt(self, extension: Extension, moment: str, heard: Heard, took_ms: int) -> str:
        """Leave the receipt, and say why the call is denied, if it is: whoever fails has not agreed."""
        value, error = heard.value, self._error(extension, heard)
        deciding = moment == BEFORE_TOOL
        if deciding and not error and not isinstance(value, str | None):
            heard, error = Heard("failed"), f"{_NO_ANSWER}: {type(value).__name__}"
        denied = deciding and (heard.status != "succeeded" or value is not None)
        receipt = extension_lifecycle(
            extension.id, extension.version, moment, heard.status, took_ms, error=error, denied=denied
        )
        self._journal.riders.append(receipt)
        if not denied:
            return ""
        if heard.status == "succeeded":
            return f"extension {extension.id}: {value or 'denied'}"
        return f"extension {extension.id} {'took too long' if heard.status == 'timed_out' else 'failed'}"

    def _error(self, extension: Extension, heard: Heard) -> str:
        """What went wrong, as it may be recorded: who was given the true values may repeat them in what it raises."""
        if heard.fault is None:
            return heard.error
        kind = type(heard.fault).__name__
        if CREDENTIALS in extension.capabilities:
            return kind
        return self._redactor.text(f"{kind}: {text_of(heard.fault)}")[:FAULT_CHARS]

    def _decided(self, decision: Any, denial: str) -> Any:
        return Deny(self._redactor.text(denial)[:MESSAGE_CHARS]) if denial else decision

    def _finishes(self, sayings: Sequence[Saying]) -> bool:
        """Does the run end with this, and does anybody want to hear of it?"""
        last = sayings[-1]
        return isinstance(last, Close) and last.kind == "finish" and self._wanted(RUN_FINISHED)


def _drive_sync(asking: Asking) -> str:
    heard: Any = None
    while True:
        try:
            extension, moment, payload = asking.send(heard)
        except StopIteration as end:
            return end.value or ""
        heard = hear_sync(extension, moment, payload)


async def _drive_async(asking: Asking) -> tuple[str, Struck]:
    heard: Any = None
    met: Struck = None
    while True:
        try:
            extension, moment, payload = asking.send(heard)
        except StopIteration as end:
            return end.value or "", met
        heard, struck = await hear_async(extension, moment, payload)
        met = met or struck
