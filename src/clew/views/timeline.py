"""A run's records as lines that a person reads from top to bottom: `clew show --log`, and progress while it runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from clew.core.records import Record
from clew.views.advice import reason_text
from clew.views.differences import restore_told
from clew.views.plain import When, arguments_text, one_line, size_text, value_text

Event = Mapping[str, Any]

_LONGEST: Final = 1000

_STATUS: Final = {
    "not_started": "not started",
    "started": "started",
    "committed": "happened",
    "unknown": "outcome unknown: it raised, timed out or was cancelled",
}
_OUTCOMES: Final = {"happened": "it happened", "did_not_happen": "it did not happen", "give_up": "it is given up"}
_MOVES: Final = {
    "ACCEPT": "accepted", "START": "running", "PAUSE": "pausing", "RESUME": "running again",
    "REQUEST_ABORT": "aborting", "COMPLETE": "completed", "FAIL": "failed",
}  # fmt: skip
# What a person who watches a run wants to see; the rest is for `--log` and `-v`.
_MAIN: Final = frozenset(
    {
        "tool_call",
        "tool_result",
        "effect_review",
        "policy_denied",
        "error",
        "control",
        "approval_required",
        "approval_resolved",
        "agent_start",
    }
)


class Line(msgspec.Struct, frozen=True):
    """One record in words. `more` are lines below it; `main` is false for what only a whole log shows."""

    sequence: int
    at: str
    step: str
    text: str
    more: tuple[str, ...] = ()
    main: bool = True


def line_of(record: Record) -> Line:
    """One record in words; one that is not known (another program's) by its name."""
    if record.kind == "event":
        return _event_line(record)
    text, more = _KINDS.get(record.kind, _unknown_kind)(record)
    main = record.kind in ("start", "resume", "loop", "delegation")
    step = _member(record.payload, "delegationId").partition(":")[2] if record.kind == "delegation" else ""
    step = _member(record.payload, "stepId") if record.kind == "checkpoint" else step
    return _line(record, step, text, more, main=main)


def _line(record: Record, step: str, text: str, more: Sequence[str] = (), *, main: bool) -> Line:
    """Whatever a record says, and whoever wrote it, no word of it is obeyed by a terminal."""
    below = tuple(one_line(each, _LONGEST) for each in more)
    return Line(record.sequence, record.timestamp, one_line(step), one_line(text, _LONGEST), below, main)


def log_lines(line: Line, when: When, *, width: int = 10) -> list[str]:
    """A line as `--log` shows it: number, time, step, words."""
    at = when.second(line.at)
    head = f"{line.sequence:>5}  {at}  {line.step:<{width}}  {line.text}".rstrip()
    return [head, *(f"{'':>5}  {'':{len(at)}}  {'':<{width}}  {text}" for text in line.more)]


def progress_line(line: Line, when: When) -> str:
    """A line as it is shown while a run goes on."""
    return f"  {when.clock(line.at)}  {line.step:<10}  {line.text}".rstrip()


def concerns(record: Record, step_id: str, call_id: str) -> bool:
    """Is this record about this call? By its step and call, or because it says why the run paused."""
    if record.kind == "pause":
        return True
    event = record.payload.get("event") if record.kind == "event" else None
    return isinstance(event, dict) and (event.get("stepId") == step_id or event.get("callId") == call_id)


# Kinds.


def _start(record: Record) -> tuple[str, list[str]]:
    said = record.payload
    asked = value_text(said.get("initialPrompt"), 300)
    name = said.get("configName")
    return f"{'an agent' if name is None else f'agent {name}'} was asked {asked}", _owner(said.get("leg"))


def _resume(record: Record) -> tuple[str, list[str]]:
    said = record.payload
    leg = said.get("leg")
    purpose = {"settle": "opened to settle", "control": "opened for a command"}.get(
        _member(leg, "purpose"), "opened again"
    )
    more = _owner(leg)
    more += proof_lines(said.get("lockProof") or [])
    torn = said.get("tailRepaired")
    if isinstance(torn, dict):
        more.append(
            f"cut {torn.get('bytes')} bytes of an append that nobody acknowledged; kept as {torn.get('keptAs')}"
        )
    waived = said.get("integrityWaived")
    if isinstance(waived, dict):
        more.append(f"accepted by {waived.get('by')}: changed {waived.get('accepted')}: {waived.get('reason')}")
    return purpose, [one_line(text, 500) for text in more]


def _owner(leg: Any) -> list[str]:
    if not isinstance(leg, dict):
        return []
    return [one_line(f"leg {leg.get('number')}: pid {leg.get('pid')} on {leg.get('host')} by {leg.get('user')}", 300)]


def _member(found: Any, name: str) -> str:
    return str(found.get(name, "")) if isinstance(found, dict) else ""


def proof_lines(proofs: Any) -> list[str]:
    """By what right a run was taken over from an owner that never closed it."""
    if not isinstance(proofs, list) or not proofs:
        return []
    said = (f"  {one_line(_proof(proof), 300)}" for proof in proofs)
    return ["taken over from an owner that never closed it; proof:", *said]


def _proof(proof: Any) -> str:
    fact = _member(proof, "fact")
    return f"{_member(proof, 'proof')}: {_member(proof, 'answer')}" + (f" ({fact})" if fact else "")


def _operation(record: Record) -> tuple[str, list[str]]:
    said = record.payload
    move = _MOVES.get(str(said.get("event")), str(said.get("event")))
    reason = one_line(str(said.get("reason") or ""), 300)
    return (f"{move}: {reason}" if reason else move), []


def _loop(record: Record) -> tuple[str, list[str]]:
    said = record.payload
    why = _member(said, "pauseReason") or _member(said, "failureCode")
    text = f"the loop: {said.get('phase')}{f' ({why})' if why else ''}, round {said.get('iteration')}"
    message = _member(said, "failureMessage")
    return text, [one_line(message, 500)] if message else []


def _pause(record: Record) -> tuple[str, list[str]]:
    outcome = record.payload.get("outcome")
    return f"paused: {reason_text(_member(outcome, 'finishReason'))}", _error_of(outcome)


def _finish(record: Record) -> tuple[str, list[str]]:
    # The finish of an old CoreMind says it without an outcome.
    outcome = record.payload.get("outcome", record.payload)
    status, reason = _member(outcome, "status"), _member(outcome, "finishReason")
    said = status if reason in ("", "completed") else f"{status}, {reason_text(reason)}"
    return f"finished: {said}", _error_of(outcome)


def _error_of(outcome: Any) -> list[str]:
    error = outcome.get("error") if isinstance(outcome, dict) else None
    message = _member(error, "message")
    return [one_line(message, 500)] if message else []


_CHILDREN: Final = {
    "delegation_recorded": "is delegated to", "child_created": "is born", "child_running": "is running",
    "child_cancel_requested": "is told to end", "child_paused": "is paused", "child_terminal": "has ended",
    "child_orphaned": "was left behind", "parent_joined": "is joined",
}  # fmt: skip


def _delegation(record: Record) -> tuple[str, list[str]]:
    said = record.payload
    kind, why = str(said.get("type")), _member(said, "reason")
    outcome = _member(said.get("result"), "outcome") if kind == "child_terminal" else ""
    told = ", ".join(part for part in (outcome, reason_text(why) if why not in ("", outcome) else "") if part)
    text = f"child {said.get('childRunId')} {_CHILDREN.get(kind, kind)}"
    return f"{text}: {told}" if told else text, []


def _checkpoint(record: Record) -> tuple[str, list[str]]:
    said = record.payload
    name, after, paths = said.get("checkpointId"), said.get("after"), said.get("paths")
    if isinstance(after, list):
        return f"checkpoint {name}: how {_paths(after)} {'were' if len(after) > 1 else 'was'} left", []
    if isinstance(paths, list):
        return f"checkpoint {name}: how {_paths(paths)} stood before", []
    whole = said.get("manifest")
    return f"checkpoint {name}: {_member(whole, 'count') or 'unknown'} paths of the workspace, as they stood before", []


def _paths(listed: Sequence[Any]) -> str:
    first = _member(listed[0], "path") if listed else "no path"
    return first if len(listed) < 2 else f"{first} and {len(listed) - 1} more"


def _unknown_kind(record: Record) -> tuple[str, list[str]]:
    return record.kind, []


_KINDS: Final[dict[str, Callable[[Record], tuple[str, list[str]]]]] = {
    "start": _start,
    "resume": _resume,
    "operation": _operation,
    "loop": _loop,
    "pause": _pause,
    "finish": _finish,
    "delegation": _delegation,
    "checkpoint": _checkpoint,
}

# Events.


def _event_line(record: Record) -> Line:
    event = record.payload.get("event")
    if not isinstance(event, dict):
        return _line(record, "", record.kind, main=False)
    kind = str(event.get("type"))
    step = str(event.get("stepId") or event.get("turnId") or "")
    said = _EVENTS.get(kind)
    text, *more = said(event) if said is not None else [kind]
    # A receipt is progress only when it says that nobody knows.
    main = kind in _MAIN or event.get("status") == "unknown"
    return _line(record, step, text, more, main=main)


def _receipt(event: Event) -> list[str]:
    said = _STATUS.get(str(event.get("status")), str(event.get("status")))
    attempt = event.get("attempt", 1)
    kept = {"failed": "; its answer could not be kept", "withheld": "; its answer is secret and was not kept"}
    counted = "" if event.get("status") == "not_started" else f" (attempt {attempt})"
    return [f"{said}{counted}{kept.get(str(event.get('persistence', '')), '')}"]


_REPLAY: Final = {"safe": "may be repeated", "idempotent": "idempotent", "unknown": "not repeatable"}


def _capability(event: Event) -> list[str]:
    found = event.get("capability")
    replay = _member(found, "replay")
    return [f"declared as effect {_member(found, 'effect')}, {_REPLAY.get(replay, f'replay {replay}')}"]


def _answer(event: Event) -> list[str]:
    error = event.get("error")
    if event.get("isError"):
        return [one_line(f"error answer: {_member(error, 'message') or _member(error, 'kind')}", 500)]
    blob = event.get("blob")
    if isinstance(blob, dict):
        return [f"answer of {blob.get('sizeBytes')} bytes, kept as blob {_member(blob, 'sha256')[:12]}"]
    return [one_line(f"answer {event.get('text')}", 300)]


def _review(event: Event) -> list[str]:
    outcome = _OUTCOMES.get(str(event.get("outcome")), str(event.get("outcome")))
    said = f"settled: {outcome} (attempt {event.get('attempt')}), says {event.get('by')}: {event.get('reason')}"
    evidence = event.get("evidence")
    return [one_line(said, 500), *map(_evidence, evidence if isinstance(evidence, list) else [])]


def _evidence(found: Any) -> str:
    if isinstance(found, dict) and found.get("kind") == "text":
        return one_line(f"evidence: {found.get('text')}", 500)
    return one_line(f"evidence: {arguments_text(found, 480)}", 500)


def _turn_end(event: Event) -> list[str]:
    if event.get("usage") == "unmeasured":
        return ["the model answered; usage not reported"]
    used = {name: value for name, value in event.items() if name not in ("type", "agent", "turnId")}
    return [f"the model answered; {arguments_text(used)}"]


def _control(event: Event) -> list[str]:
    command = event.get("command")
    what = f"command {_member(command, 'type')} by {_member(command, 'by')}: {_member(command, 'reason')}"
    told = f"{what}, {event.get('state')}" if isinstance(command, dict) else f"command {event.get('state')}"
    reason = f": {event['reason']}" if event.get("reason") else ""
    return [one_line(f"{told}{reason}", 500)]


def _artifact(event: Event) -> list[str]:
    name, size = one_line(str(event.get("artifactId")), 100), event.get("sizeBytes")
    told = f"{event.get('mediaType')}, {size_text(size) if type(size) is int else '?'}"
    blocked = event.get("status") == "blocked"
    return [one_line(f"artifact {name} {'is not kept, for there is a secret in it' if blocked else f'({told})'}", 400)]


def _extension(event: Event) -> list[str]:
    ended = {"failed": "failed", "timed_out": "took too long"}.get(str(event.get("status")), "was told")
    told = f"extension {event.get('extensionId')} {event.get('extensionVersion')} {ended} at {event.get('lifecycle')}"
    denied = " and denied" if event.get("denied") is True else ""
    error = f": {event['error']}" if event.get("error") else ""
    return [one_line(f"{told}{denied}{error}", 500)]


def _wanted(event: Event) -> list[str]:
    asked = f"an approval is wanted for {event.get('tool')} {arguments_text(event.get('args'), 300)}".rstrip()
    return [one_line(asked, 400), *([one_line(f"why: {event['reason']}", 500)] if event.get("reason") else [])]


def _decided(event: Event) -> list[str]:
    closed = {"expiry": "lapsed", "invalidation": "is not asked for any more"}
    word = "is allowed" if event.get("decision") == "allow" else closed.get(str(event.get("source")), "is denied")
    by = f", says {event['by']}: {event.get('reason')}" if event.get("by") else ""
    return [one_line(f"approval {event.get('approvalId')} {word}{by}", 500)]


_EVENTS: Final[dict[str, Callable[[Event], list[str]]]] = {
    "tool_call": lambda event: [one_line(f"call {event.get('tool')} {arguments_text(event.get('args'), 300)}", 400)],
    "capability_resolved": _capability,
    "effect_receipt": _receipt,
    "tool_attempt": _receipt,
    "step_output": _answer,
    "tool_result": lambda event: ["answered with an error" if event.get("isError") else "answered"],
    "effect_review": _review,
    "policy_denied": lambda event: [one_line(f"denied by the policy: {event.get('reason')}", 500)],
    "agent_start": lambda event: ["a model is asked"],
    "turn_end": _turn_end,
    "agent_end": lambda event: [f"the agent returned {value_text(event.get('output'), 300)}"],
    "leg_ended": lambda event: [f"leg {event.get('leg')} ended"],
    "control": _control,
    "extension_lifecycle": _extension,
    "artifact_created": _artifact,
    "error": lambda event: [one_line(f"error: {event.get('message')}", 500)],
    "approval_required": _wanted,
    "approval_resolved": _decided,
    "restored": restore_told,
}
