"""Spans of a run for OpenTelemetry, made of its durable records. Only the API is needed; nothing global is changed.

What the spans are called stands in `opentelemetry`'s conventions for generative AI where these have a name for it, else
it begins with `clew.`. Which record means what belongs to `core/events`.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from clew.core.happenings import is_recorded_value
from clew.core.outcome import exit_code
from clew.core.records import Record
from clew.core.times import parse_ms
from clew.errors import ClewError, UsageError
from clew.runtime.home import Home
from clew.runtime.recovery import VERSION

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
except ModuleNotFoundError as missing:
    raise UsageError(
        "clew.integrations.otel needs the OpenTelemetry API, which is not installed",
        code="otel_not_installed",
        next="Install it with `pip install 'opentelemetry-api>=1.25'`.",
        module=missing.name or "opentelemetry",
    ) from missing

Event = Mapping[str, Any]
Value = str | int | bool

OPERATION: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
ERROR_TYPE: Final = "error.type"
USAGE: Final = {
    "inputTokens": "gen_ai.usage.input_tokens",
    "outputTokens": "gen_ai.usage.output_tokens",
    "cacheReadTokens": "gen_ai.usage.cache_read.input_tokens",
    "cacheWriteTokens": "gen_ai.usage.cache_creation.input_tokens",
    "tokens": "clew.usage.tokens",
    "costMicroUsd": "clew.usage.cost_micro_usd",
}
"""A member of `turn_end` to its attribute. What the provider did not report has none, and is never zero."""


class Telemetry:
    """Tells OpenTelemetry what runs do: give it as `on_record=` to as many runs as you like.

    One span for each leg of a run, and in it one for each turn and for each attempt of a call that this leg made.
    What is replayed makes no record, so it makes no span either, in this leg or in any other. A span exists once it has
    ended, so what a process was doing when it died has none; what is known of it is in the journal.

    Args:
        tracer_provider: Whose spans they are; the global one when left out.
        content: Also what was asked and answered: arguments (as recorded, secrets hidden), results, the input of the
            run, messages of errors. Left out: names, ids, numbers and codes alone.
        home: Where the runs live, to name the agent of a run that is resumed: only its first record has the name.

    Source:
        DESIGN §3 (integrations), §11; promise 8; reference/ecosystem.md §2.6.
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, content: bool = False, home: Home | None = None
    ) -> None:
        self._tracer = trace.get_tracer("clew", VERSION, tracer_provider)
        self._content = content
        self._home = home
        self._legs: dict[str, _Leg] = {}

    def __call__(self, record: Record) -> None:
        """Take in one durable record."""
        if record.kind in ("start", "resume"):
            self._begin(record)
            return
        leg = self._legs.get(record.run_id)
        if leg is not None and leg.take(record):
            del self._legs[record.run_id]

    def close(self) -> None:
        """End what is still open, as cut off: legs whose journal failed say nothing any more."""
        while self._legs:
            self._legs.popitem()[1].cut_off()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _begin(self, record: Record) -> None:
        earlier = self._legs.pop(record.run_id, None)
        if earlier is not None:
            earlier.cut_off()
        leg = _Leg(self._tracer, record, self._agent_of(record), content=self._content)
        self._legs[record.run_id] = leg

    def _agent_of(self, record: Record) -> str:
        """The agent's name: in the first record of a run, which a later leg is not told of."""
        if record.kind == "start":
            return str(record.payload.get("configName", ""))
        if self._home is not None:
            with suppress(ClewError):
                return str(next(self._home.reader.records(record.run_id)).payload.get("configName", ""))
        return ""


class _Open:
    """A span that has begun, and what its end will say."""

    def __init__(self, span: Span, since_ns: int, attempt: int = 0) -> None:
        self.span = span
        self.since_ns = since_ns
        self.attempt = attempt
        self.status = ""
        self.outcome = ""
        self.answered = False
        self.error = ""
        self.doubtful_ns = 0

    def end(self, at_ns: int, error: str = "", description: str = "") -> None:
        """End it; a clock that was set back makes it short, and says so."""
        if error:
            self.span.set_attribute(ERROR_TYPE, error)
            self.span.set_status(Status(StatusCode.ERROR, description or None))
        if at_ns < self.since_ns:
            self.span.set_attribute("clew.clock_stepped", True)
        self.span.end(max(at_ns, self.since_ns))


class _Leg:
    """The spans of one leg. Lives from its first record to its last."""

    def __init__(self, tracer: Tracer, record: Record, agent: str, *, content: bool) -> None:
        self._tracer = tracer
        self._content = content
        self._run = record.run_id
        self._at_ns = _ns(record)
        leg = record.payload.get("leg") or {}
        said: dict[str, Value] = {
            OPERATION: "invoke_agent",
            "clew.run.id": record.run_id,
            "clew.leg.number": leg.get("number", 0),
            "clew.leg.purpose": leg.get("purpose", ""),
        }
        if agent:
            said[AGENT_NAME] = agent
        if content and record.kind == "start":
            said["clew.input"] = _json(record.payload.get("initialPrompt"))
        self._leg = self._open(f"invoke_agent {agent}".rstrip(), said, SpanKind.INTERNAL, None)
        self._inside = trace.set_span_in_context(self._leg.span)
        self._calls: dict[str, _Open] = {}
        self._turns: dict[str, _Open] = {}
        self._stray = ("", "")

    def _open(
        self, name: str, said: Mapping[str, Value], kind: SpanKind, context: Context | None, attempt: int = 0
    ) -> _Open:
        span = self._tracer.start_span(name, context, kind, said, start_time=self._at_ns)
        return _Open(span, self._at_ns, attempt)

    def take(self, record: Record) -> bool:
        """Take in one record; True when it closed the leg."""
        self._at_ns = _ns(record)
        if record.kind in ("pause", "finish"):
            self._close(record.payload["outcome"])
            return True
        if record.kind != "event":
            return False
        event = record.payload["event"]
        if event["type"] == "leg_ended":
            self._close({"status": "ended", "finishReason": ""})
            return True
        take = _EVENTS.get(event["type"])
        if take is not None:
            take(self, event)
        return False

    def cut_off(self) -> None:
        """Nothing more is heard of this leg: how it closed, nobody here knows."""
        self._end_all()
        self._leg.end(self._at_ns, "leg_not_closed", "nothing more was heard of this leg")

    def _close(self, outcome: Event) -> None:
        self._end_all()
        status, reason = str(outcome.get("status")), str(outcome.get("finishReason"))
        self._leg.span.set_attribute("clew.outcome.status", status)
        self._leg.span.set_attribute("clew.outcome.reason", reason)
        wrong = status not in ("succeeded", "paused", "ended") or (
            status == "paused" and exit_code("paused", reason) in (21, 22)
        )
        message = str((outcome.get("error") or {}).get("message", "")) if self._content else ""
        self._leg.end(self._at_ns, reason if wrong else "", message or reason)

    def _end_all(self) -> None:
        """What is open when the leg closes is not known to have ended well, and is never said to have."""
        for call in self._calls.values():
            self._end_open(call)
        for turn in self._turns.values():
            turn.end(self._at_ns, "no_answer", "the model's answer is not recorded")
        self._calls.clear()
        self._turns.clear()

    def _end_open(self, call: _Open) -> None:
        at_ns = call.doubtful_ns or self._at_ns
        if call.outcome:
            call.end(at_ns, call.outcome, f"settled: {call.outcome}")
        elif call.status:
            call.end(at_ns, "unknown_outcome", "nobody knows whether it happened")
        else:
            call.end(at_ns, "no_answer", "it has no answer in this leg")

    # Calls.

    def _called(self, event: Event, attempt: int = 1) -> _Open:
        """A span for one attempt; one before it that is still open is settled by now, and ends here."""
        step, key = str(event["stepId"]), event.get("idempotencyKey") or str(event["attemptId"]).partition("#")[0]
        earlier = self._calls.pop(step, None)
        if earlier is not None:
            self._end_open(earlier)
        said: dict[str, Value] = {
            OPERATION: "execute_tool",
            TOOL_NAME: event["tool"],
            TOOL_TYPE: "function",
            TOOL_CALL_ID: event["callId"],
            "clew.run.id": self._run,
            "clew.step.id": step,
            "clew.call.key": str(key),
            "clew.attempt": attempt,
        }
        if self._content and "args" in event:
            said[TOOL_ARGUMENTS] = _json(event["args"])
        call = self._open(f"execute_tool {event['tool']}", said, SpanKind.INTERNAL, self._inside, attempt)
        self._calls[step] = call
        return call

    def _resolved(self, event: Event) -> None:
        call = self._calls.get(event["stepId"])
        if call is not None:
            call.span.set_attribute("clew.effect", event["capability"]["effect"])
            call.span.set_attribute("clew.replay", event["capability"]["replay"])

    def _received(self, event: Event) -> None:
        status, attempt = str(event["status"]), int(event.get("attempt", 1))
        call = self._calls.get(event["stepId"])
        if status == "started" and (call is None or call.attempt != attempt):
            call = self._called(event, attempt)
        if call is None:
            return
        call.status = status
        call.span.set_attribute("clew.receipt.status", status)
        if status == "unknown":
            call.doubtful_ns = self._at_ns
        if event.get("persistence"):
            # Its answer could not be kept, or must not be: no other record of this call follows.
            call.span.set_attribute("clew.persistence", event["persistence"])
            del self._calls[event["stepId"]]
            call.end(self._at_ns, "result_not_kept" if event["persistence"] == "failed" else "")

    def _reviewed(self, event: Event) -> None:
        said = {
            "clew.call.key": event["idempotencyKey"],
            "clew.attempt": event["attempt"],
            "clew.review.outcome": event["outcome"],
            "clew.review.source": event["source"],
        }
        self._leg.span.add_event("clew.effect_review", said, self._at_ns)
        call = self._calls.get(event["stepId"])
        if call is None:
            return
        call.outcome = str(event["outcome"])
        call.span.set_attributes({name: said[name] for name in ("clew.review.outcome", "clew.review.source")})
        if call.outcome == "happened":
            # It is known now: neither an error nor more than the review says.
            del self._calls[event["stepId"]]
            call.end(self._at_ns)

    def _answered(self, event: Event) -> None:
        step = str(event["stepId"])
        found = self._calls.get(step) or self._turns.get(step)
        error = str((event.get("error") or {}).get("kind") or "failed") if event.get("isError") is True else ""
        if found is None:
            self._stray = step, error
            if not is_recorded_value(step):
                self._leg.span.add_event("clew.answer", {"clew.step.id": step}, self._at_ns)
            return
        found.answered, found.error = True, error
        if self._content:
            found.span.set_attribute(TOOL_RESULT if step in self._calls else "clew.turn.answer", str(event["text"]))

    def _resulted(self, event: Event) -> None:
        call = self._calls.get(event["stepId"])
        if call is None:
            # A call of an earlier leg that was done again without a start of its own: when it began is not recorded.
            call = self._called(event)
            call.span.set_attribute("clew.start_recorded", False)
            call.error = self._stray[1] if self._stray[0] == event["stepId"] else ""
        del self._calls[event["stepId"]]
        call.end(self._at_ns, call.error, call.error)

    # Turns, and what is told of the leg.

    def _asked(self, event: Event) -> None:
        said: dict[str, Value] = {OPERATION: "chat", "clew.run.id": self._run, "clew.turn.id": event["turnId"]}
        earlier = self._turns.pop(event["turnId"], None)
        if earlier is not None:
            earlier.end(self._at_ns, "no_answer")
        self._turns[event["turnId"]] = self._open("chat", said, SpanKind.CLIENT, self._inside)

    def _turn_ended(self, event: Event) -> None:
        turn = self._turns.pop(event["turnId"], None)
        if turn is None:
            return
        used = {attribute: event[name] for name, attribute in USAGE.items() if name in event}
        turn.span.set_attributes(used or {"clew.usage.unmeasured": True})
        turn.end(self._at_ns, "" if turn.answered else "no_answer", "the model gave no answer that is kept")

    def _told(self, event: Event) -> None:
        """An extension: only what somebody should look at."""
        if event["status"] == "succeeded" and not event.get("denied"):
            return
        said = {
            "clew.extension.id": event["extensionId"],
            "clew.extension.event": event["lifecycle"],
            "clew.extension.status": event["status"],
            "clew.extension.denied": event.get("denied", False),
        }
        self._leg.span.add_event("clew.extension", said, self._at_ns)

    def _went_wrong(self, event: Event) -> None:
        said: dict[str, Value] = {"clew.error.fatal": event.get("fatal") is True}
        budget = event.get("budget")
        if isinstance(budget, Mapping):
            said["clew.error.limit"] = str(budget.get("dimension", ""))
        if self._content:
            said["clew.error.message"] = str(event.get("message", ""))
        self._leg.span.add_event("clew.error", said, self._at_ns)


def _ns(record: Record) -> int:
    return (parse_ms(record.timestamp) or 0) * 1_000_000


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


_EVENTS: Final[dict[str, Callable[[_Leg, Event], object]]] = {
    "tool_call": _Leg._called,
    "capability_resolved": _Leg._resolved,
    "effect_receipt": _Leg._received,
    "tool_attempt": _Leg._received,
    "effect_review": _Leg._reviewed,
    "step_output": _Leg._answered,
    "tool_result": _Leg._resulted,
    "agent_start": _Leg._asked,
    "turn_end": _Leg._turn_ended,
    "extension_lifecycle": _Leg._told,
    "error": _Leg._went_wrong,
}
