"""The events of a run, member by member in the order in which they stand in a journal. Says nothing about when."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from clew.core.capability import Capability
from clew.core.receipts import ReceiptStatus
from clew.core.review import Outcome, Source

Event = dict[str, Any]

AGENT: Final = "main"

KNOWN: Final = frozenset(
    {
        "agent_start", "agent_end", "turn_end", "text_delta", "tool_call", "tool_result", "tool_attempt",
        "capability_resolved", "workspace_lease", "effect_receipt", "step_start", "step_output",
        "step_resumed", "step_end", "loop_state", "retry", "approval_required", "approval_resolved", "policy_denied",
        "budget_exceeded", "context_budget_resolved", "context_compacted", "context_compaction_failed",
        "context_lifecycle_failed", "context_prefix", "provider_request", "artifact_created", "extension_lifecycle",
        "checkpoint_created", "tool_execution_evidence", "engineering_evidence", "error",
        "quiescence_timeout",
        "effect_review", "leg_ended", "control", "restored",
    }
)  # fmt: skip
ONLY_THEIRS: Final = frozenset(
    {"tool_lifecycle", "input_receipt", "input_claimed", "input_completed", "input_discarded"}
)
"""Read in journals that clew did not begin, never written; in one of ours they are refused (DESIGN §13)."""


class CallFacts(msgspec.Struct, kw_only=True, eq=False):
    """Who a call is: the members that its events share. Lives as long as the call runs."""

    run_id: str
    step_id: str
    call_id: str
    key: str
    tool: str
    turn_id: str
    fingerprint: str
    capability: Capability
    business: Event | None = None


class Opening(msgspec.Struct, frozen=True):
    """Said of a call about which nobody is asked: it is proposed, resolved, and its first attempt opens."""

    call: CallFacts
    arguments: Any

    def events(self) -> tuple[Event, ...]:
        """Event by event."""
        call = self.call
        return tool_call(call, self.arguments), capability_resolved(call), effect_receipt(call, "started")


class Answering(msgspec.Struct, frozen=True):
    """Said of a first attempt that returned a value: the answer, as JSON text, what is known of it, and the result."""

    call: CallFacts
    text: str

    def events(self) -> tuple[Event, ...]:
        """Event by event."""
        call = self.call
        told = step_output(call.step_id, self.text)
        return told, effect_receipt(call, "committed"), tool_result(call, is_error=False)


def spelt(sayings: Sequence[Any]) -> tuple[Any, ...]:
    """What is said, with openings and answers event by event."""
    found: list[Any] = []
    for said in sayings:
        found += said.events() if isinstance(said, Opening | Answering) else (said,)
    return tuple(found)


def tool_call(call: CallFacts, arguments: Any) -> Event:
    """A call was proposed; `arguments` are redacted, the fingerprint is of the true ones."""
    event: Event = {
        "type": "tool_call",
        "agent": AGENT,
        "tool": call.tool,
        "args": arguments,
        "argumentsFingerprint": call.fingerprint,
        "callId": call.call_id,
        "idempotencyKey": call.key,
        "stepId": call.step_id,
        "turnId": call.turn_id,
    }
    if call.business is not None:
        event["businessKey"] = call.business
    return event


def capability_resolved(call: CallFacts) -> Event:
    """What the call's tool says of its effect, at the time of the call."""
    return {
        "type": "capability_resolved",
        "agent": AGENT,
        "tool": call.tool,
        "callId": call.call_id,
        "stepId": call.step_id,
        "capability": call.capability.as_json(),
        "recoveryDisposition": call.capability.disposition,
    }


def effect_receipt(call: CallFacts, status: ReceiptStatus, *, persistence: str = "") -> Event:
    """What is known of the first attempt. `persistence` is `failed` when the answer could not be kept."""
    event: Event = {
        "type": "effect_receipt",
        "idempotencyKey": call.key,
        "tool": call.tool,
        "status": status,
        "agent": AGENT,
        "callId": call.call_id,
        "stepId": call.step_id,
        "turnId": call.turn_id,
        "binding": binding(call),
    }
    if persistence:
        event["persistence"] = persistence
    return event


def binding(call: CallFacts) -> dict[str, Any]:
    """What ties a receipt to its call, version 1."""
    return {
        "version": 1,
        "runId": call.run_id,
        "turnId": call.turn_id,
        "agent": AGENT,
        "stepId": call.step_id,
        "callId": call.call_id,
        "tool": call.tool,
        "argumentsFingerprint": call.fingerprint,
        "capabilityFingerprint": call.capability.fingerprint(),
    }


def tool_attempt(call: CallFacts, attempt: int, status: ReceiptStatus, *, persistence: str = "") -> Event:
    """What is known of an attempt above the first; the key stays."""
    event: Event = {
        "type": "tool_attempt",
        "attemptId": f"{call.key}#{attempt}",
        "previousReceiptId": call.key if attempt == 2 else f"{call.key}#{attempt - 1}",
        "attempt": attempt,
        "status": status,
        "agent": AGENT,
        "tool": call.tool,
        "callId": call.call_id,
        "stepId": call.step_id,
        "argumentsFingerprint": call.fingerprint,
    }
    if persistence:
        event["persistence"] = persistence
    return event


def receipt(call: CallFacts, attempt: int, status: ReceiptStatus, *, persistence: str = "") -> Event:
    """What is known of an attempt, whichever it is."""
    if attempt > 1:
        return tool_attempt(call, attempt, status, persistence=persistence)
    return effect_receipt(call, status, persistence=persistence)


def step_output(step_id: str, text: str, *, blob: Event | None = None, error: Event | None = None) -> Event:
    """An answer: JSON text, or its beginning beside a blob; an error answer says so in the same event."""
    event: Event = {"type": "step_output", "stepId": step_id, "agent": AGENT, "text": text}
    if blob is not None:
        event["blob"] = blob
    if error is not None:
        event["isError"] = True
        event["error"] = error
    return event


def tool_result(call: CallFacts, *, is_error: bool) -> Event:
    """The call has an answer."""
    return {
        "type": "tool_result",
        "agent": AGENT,
        "tool": call.tool,
        "isError": is_error,
        "callId": call.call_id,
        "idempotencyKey": call.key,
        "stepId": call.step_id,
        "turnId": call.turn_id,
    }


def policy_denied(call: CallFacts, reason: str) -> Event:
    """The policy said no."""
    return {"type": "policy_denied", "agent": AGENT, "tool": call.tool, "reason": reason}


def effect_review(
    *, step_id: str, call_id: str, key: str, attempt: int, review_id: str, outcome: Outcome, source: Source, by: str,
    reason: str, evidence: Sequence[Event], result_recorded: bool, result: Any = msgspec.UNSET,
) -> Event:  # fmt: skip
    """An open attempt is settled. `result` stands in the event itself only after the run has ended."""
    event: Event = {
        "type": "effect_review",
        "stepId": step_id,
        "callId": call_id,
        "idempotencyKey": key,
        "attempt": attempt,
        "reviewId": review_id,
        "outcome": outcome,
        "source": source,
        "by": by,
        "reason": reason,
        "evidence": list(evidence),
        "resultRecorded": result_recorded,
    }
    if result is not msgspec.UNSET:
        event["result"] = result
    return event


def agent_start(turn_id: str, request_fingerprint: str, step_id: str = "") -> Event:
    """A model is about to be asked, inside of a step if one is named."""
    event: Event = {"type": "agent_start", "agent": AGENT, "turnId": turn_id, "requestFingerprint": request_fingerprint}
    if step_id:
        event["stepId"] = step_id
    return event


def turn_end(turn_id: str, usage: Event | None) -> Event:
    """A model answered; usage that it did not report is `unmeasured`, never zero."""
    return {"type": "turn_end", "agent": AGENT, "turnId": turn_id, **(usage or {"usage": "unmeasured"})}


def agent_end(output: Any) -> Event:
    """The agent returned; the only ground on which a run may complete."""
    return {"type": "agent_end", "agent": AGENT, "output": output}


def leg_ended(leg: int) -> Event:
    """A leg closed without pause or finish."""
    return {"type": "leg_ended", "leg": leg}


def error(message: str, *, fatal: bool, budget: Event | None = None) -> Event:
    """Something went wrong that a reader of the journal should know; `budget` names a limit of ours."""
    event: Event = {"type": "error", "message": message, "fatal": fatal}
    if budget is not None:
        event["budget"] = budget
    return event


def quiescence_timeout(timeout_ms: int) -> Event:
    """An abort waited so long for what it could not end."""
    return {"type": "quiescence_timeout", "timeoutMs": timeout_ms}


def control(control_id: str, fingerprint: str, state: str, *, command: Event | None = None, reason: str = "") -> Event:
    """A command from another process and what became of it."""
    event: Event = {"type": "control", "controlId": control_id, "fingerprint": fingerprint, "state": state}
    if command is not None:
        event["command"] = command
    if reason:
        event["reason"] = reason
    return event
