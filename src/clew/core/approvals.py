"""Permission for one start: how it is asked for, given, refused and used up, as records and as state. Asks nobody."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from clew.core import capability as capabilities
from clew.core.calls import CallState, Illegal
from clew.core.capability import Capability
from clew.core.events import AGENT, CallFacts, Event
from clew.core.keys import recorded_key
from clew.core.state import ApprovalState, RunState
from clew.core.times import format_ms, parse_ms

Decision = Literal["allow", "deny"]
Source = Literal["operator", "approver", "expiry", "invalidation"]
Standing = Literal["pending", "granted", "used", "denied", "expired", "invalidated", "replaced"]

_RISKS: Final = ("low", "high")
_DECISIONS: Final = ("allow", "deny")
_SOURCES: Final = ("operator", "approver", "expiry", "invalidation")


class Approve(msgspec.Struct, frozen=True):
    """A person's yes to one start: who, why, and in how many seconds it lapses if it is not used."""

    by: str
    reason: str
    expires_in_s: float | None = None


class Reject(msgspec.Struct, frozen=True):
    """A person's no: the run stays paused; with `as_answer` the no is what the agent is told, and it may go on."""

    by: str
    reason: str
    as_answer: bool = False


Judgement = Approve | Reject

# What is written.


def approval_required(
    call: CallFacts, arguments: Any, *, paths: Sequence[str] = (), urls: Sequence[str] = (), why: str = "",
    expires_at: str = "", replaces: Event | None = None,
) -> Event:  # fmt: skip
    """A start is wanted that a person must allow. `arguments` are redacted; the id is given when it is appended.

    `why` the policy wants it, until when the question stands, the lapsed permission whose place it takes and the
    call's business key are members only where there is one.
    """
    event: Event = {
        "type": "approval_required",
        "approvalId": "",
        "runId": call.run_id,
        "agent": AGENT,
        "tool": call.tool,
        "args": arguments,
        "risk": risk_of(call.capability),
        "effect": effect_of(call.capability, paths, urls),
        "capability": call.capability.as_json(),
        "argumentsFingerprint": call.fingerprint,
        "callId": call.call_id,
        "stepId": call.step_id,
        "idempotencyKey": call.key,
    }
    # A no records the call where no agent says its key again.
    told = {"reason": why, "expiresAt": expires_at, "replaces": replaces, "businessKey": call.business}
    return event | {name: value for name, value in told.items() if value}


def risk_of(capability: Capability) -> str:
    """`low` for what touches nothing, or only files of the workspace; `high` for all else."""
    return "low" if capability.effect in ("none", "workspace") else "high"


def effect_of(capability: Capability, paths: Sequence[str], urls: Sequence[str]) -> Event:
    """What a start may do, for whoever is asked; reversible: it changes nothing, or only files that are kept before."""
    return {
        "operations": [capability.effect],
        "paths": list(paths),
        "urls": list(urls),
        "reversible": capability.effect == "none"
        or (capability.effect, capability.checkpoint) == ("workspace", "required"),
        "declared": capability.source in ("builtin", "registered"),
    }


def approval_resolved(
    asked: ApprovalState, decision: Decision, *, source: Source, by: str, reason: str, at: str, expires_at: str = ""
) -> Event:
    """It is decided: by whom, why, when, and until when a permission holds if it lapses."""
    event: Event = {
        "type": "approval_resolved",
        "approvalId": asked.approval_id,
        "runId": asked.key.partition(":")[0],
        "decision": decision,
        "source": source,
        "by": by,
        "reason": reason,
        "at": at,
    }
    return {**event, "expiresAt": expires_at} if expires_at else event


def resolution(asked: ApprovalState, said: Judgement, *, source: Source, at_ms: int) -> Event:
    """The event of what a person said at this time."""
    lapses = said.expires_in_s if isinstance(said, Approve) else None
    return approval_resolved(
        asked,
        "allow" if isinstance(said, Approve) else "deny",
        source=source,
        by=said.by,
        reason=said.reason,
        at=format_ms(at_ms),
        expires_at="" if lapses is None else format_ms(at_ms + round(lapses * 1000)),
    )


def lapsed(asked: ApprovalState, at_ms: int) -> Event:
    """Nobody answered in time: the question is closed, by the clock."""
    return approval_resolved(
        asked,
        "deny",
        source="expiry",
        by="clock",
        reason=f"nobody decided until {format_ms(asked.expires_ms)}",
        at=format_ms(at_ms),
    )


def invalidated(asked: ApprovalState, why: str, at_ms: int) -> Event:
    """The agent does not ask for it any more: the question is closed, by the agent."""
    return approval_resolved(asked, "deny", source="invalidation", by="agent", reason=why, at=format_ms(at_ms))


# What is read.


def requested(state: RunState, event: Event, key: str, at: str, position: int) -> ApprovalState:
    """The state of a question that may stand here; `Illegal` when it may not."""
    found = capabilities.read(event.get("capability"))
    recorded_key(event)
    if event.get("risk") not in _RISKS or type(event.get("effect")) is not dict or found is None:
        raise Illegal("approval_required does not say what is wanted")
    asked = ApprovalState(
        approval_id=event["approvalId"],
        key=key,
        step_id=event["stepId"],
        call_id=event["callId"],
        tool=event["tool"],
        fingerprint=event["argumentsFingerprint"],
        position=position,
        turn_id=f"turn-{state.metrics.turns}",
        risk=event["risk"],
        why=str(event.get("reason", "")),
        capability=found,
        asked_ms=parse_ms(at) or 0,
        expires_ms=_time(event, "expiresAt"),
    )
    _check_call(state, asked)
    _check_earlier(standing_of(state, asked.step_id), asked, event)
    return asked


def _check_call(state: RunState, asked: ApprovalState) -> None:
    """A start may be wanted of a call that is not recorded yet, or of one that may start once more."""
    call = state.calls.get(asked.step_id)
    if call is None:
        if state.steps.get(asked.step_id) is not None or state.turns.get(asked.step_id) is not None:
            raise Illegal(f"step {asked.step_id!r} is taken")
    elif call.fingerprint != asked.fingerprint or call.call_id != asked.call_id:
        raise Illegal(f"approval {asked.approval_id!r} is for another call than {call.key!r}")
    elif call.answer is not None or call.unsettled:
        raise Illegal(f"an approval is asked for {call.key!r}, which may not start")


def _check_earlier(earlier: ApprovalState | None, asked: ApprovalState, event: Event) -> None:
    """One question at a time for a key, and never for other arguments; an unused permission is given up by name."""
    replaces = event.get("replaces")
    named = replaces.get("approvalId") if type(replaces) is dict else None
    if earlier is None or earlier.decision != "allow" or earlier.used:
        if replaces is not None:
            raise Illegal(f"approval {asked.approval_id!r} replaces {named!r}, which is no unused permission")
    elif named != earlier.approval_id:
        raise Illegal(f"approval {asked.approval_id!r} is asked for while {earlier.approval_id!r} is not used")
    if earlier is None:
        return
    if not earlier.decision:
        raise Illegal(f"approval {asked.approval_id!r} is asked for while {earlier.approval_id!r} waits")
    if earlier.fingerprint != asked.fingerprint:
        raise Illegal(f"approval {asked.approval_id!r} is for other arguments than {earlier.approval_id!r}")


def resolved(asked: ApprovalState | None, event: Event) -> ApprovalState:
    """The question with its decision; `Illegal` when it has one, or nobody says why."""
    if asked is None or asked.decision or event.get("decision") not in _DECISIONS:
        raise Illegal(f"approval {event['approvalId']!r} is not open or not decided")
    by, reason, source = event.get("by"), event.get("reason"), event.get("source")
    if type(by) is not str or not by.strip() or type(reason) is not str or not reason.strip():
        raise Illegal(f"approval {asked.approval_id!r} is decided by nobody or for no reason")
    decided_ms, decision = _time(event, "at"), event["decision"]
    if source not in _SOURCES or not decided_ms or (decision == "allow") > (source in ("operator", "approver")):
        raise Illegal(f"approval {asked.approval_id!r} does not say how or when it was decided")
    return msgspec.structs.replace(
        asked,
        decision=decision,
        source=source,
        by=by,
        reason=reason,
        decided_ms=decided_ms,
        until_ms=_time(event, "expiresAt"),
    )


def _time(event: Event, name: str) -> int:
    """A time that may be left out, in milliseconds since 1970."""
    if name not in event:
        return 0
    at_ms = parse_ms(event[name])
    if at_ms is None:
        raise Illegal(f"{event['type']} has no readable {name}")
    return at_ms


def check_recorded(state: RunState, step_id: str, key: str, fingerprint: str) -> None:
    """A call that was asked for is recorded as it was asked for, and not before it is decided."""
    asked = standing_of(state, step_id)
    if asked is None:
        return
    if asked.key != key or asked.fingerprint != fingerprint:
        raise Illegal(f"call {key!r} is not the one that approval {asked.approval_id!r} is for")
    if not asked.decision:
        raise Illegal(f"call {key!r} is recorded while approval {asked.approval_id!r} waits")


def use(state: RunState, step_id: str) -> None:
    """A start uses its permission up; one that still waits for it is `Illegal`."""
    asked = standing_of(state, step_id)
    if asked is None:
        return
    if not asked.decision:
        raise Illegal(f"{asked.key!r} starts while approval {asked.approval_id!r} waits")
    if asked.decision == "allow" and not asked.used:
        state.approvals.put(asked.approval_id, msgspec.structs.replace(asked, used=True))


# What is asked of it.


def standing_of(state: RunState, step_id: str) -> ApprovalState | None:
    """The last approval that was asked for a step's call."""
    name = state.asked.get(step_id)
    return None if name is None else state.approvals.get(name)


def standing(asked: ApprovalState, at_ms: int) -> Standing:
    """How an approval stands at this time."""
    if not asked.decision:
        return "expired" if 0 < asked.expires_ms <= at_ms else "pending"
    if asked.decision == "deny":
        closed: Mapping[str, Standing] = {"expiry": "expired", "invalidation": "invalidated"}
        return closed.get(asked.source, "denied")
    if asked.used or asked.replaced:
        return "used" if asked.used else "replaced"
    return "expired" if 0 < asked.until_ms <= at_ms else "granted"


def waiting(state: RunState) -> list[ApprovalState]:
    """The questions that nobody has decided yet, in the order of the journal; none once the run ends."""
    if _ends(state):
        return []
    return [asked for asked in state.approvals.values() if not asked.decision]


def unused(state: RunState, at_ms: int) -> list[ApprovalState]:
    """The permissions whose call never started and has no answer, in the order of the journal; none behind the end."""
    if _ends(state):
        return []
    granted = [asked for asked in state.approvals.values() if standing(asked, at_ms) == "granted"]
    calls = [(asked, state.calls.get(asked.step_id)) for asked in granted]
    return [asked for asked, call in calls if call is None or call.answer is None]


def _ends(state: RunState) -> bool:
    """Nothing of it starts any more."""
    return state.ended or state.state == "aborting"


def unrecorded(state: RunState) -> Iterator[ApprovalState]:
    """The last approval of each call that is not recorded yet."""
    for step_id, name in state.asked.items():
        asked = state.approvals.get(name)
        if asked is not None and state.calls.get(step_id) is None:
            yield asked


def pause_reason(state: RunState, reason: str) -> str:
    """Why a run pauses for an approval: somebody is waited for, or somebody said no."""
    if reason not in ("approval_required", "tool_approval_denied"):
        return reason
    if waiting(state):
        return "approval_required"
    last = [standing_of(state, step_id) for step_id, _ in state.asked.items()]
    said_no = any(asked is not None and _stands_denied(state, asked) for asked in last)
    return "tool_approval_denied" if said_no else reason


def _stands_denied(state: RunState, asked: ApprovalState) -> bool:
    call: CallState | None = state.calls.get(asked.step_id)
    return asked.decision == "deny" and (call is None or call.answer is None)


def facts_of_asked(run_id: str, asked: ApprovalState, business: Event | None = None) -> CallFacts:
    """Who the call is that was asked for, with its business key where the question carries one."""
    assert asked.capability is not None
    return CallFacts(
        run_id=run_id,
        step_id=asked.step_id,
        call_id=asked.call_id,
        key=asked.key,
        tool=asked.tool,
        turn_id=asked.turn_id,
        fingerprint=asked.fingerprint,
        capability=asked.capability,
        business=business,
    )


def approval_row(asked: ApprovalState, at_ms: int) -> dict[str, Any]:
    """One approval for lists that people and programs read."""
    row: dict[str, Any] = {
        "approvalId": asked.approval_id,
        "stepId": asked.step_id,
        "callId": asked.call_id,
        "tool": asked.tool,
        "idempotencyKey": asked.key,
        "argumentsFingerprint": asked.fingerprint,
        "standing": standing(asked, at_ms),
        "risk": asked.risk,
        "askedAt": format_ms(asked.asked_ms),
    }
    told = {
        "why": asked.why,
        "expiresAt": format_ms(asked.expires_ms) if asked.expires_ms else "",
        "source": asked.source,
        "by": asked.by,
        "reason": asked.reason,
        "decidedAt": format_ms(asked.decided_ms) if asked.decided_ms else "",
        "until": format_ms(asked.until_ms) if asked.until_ms else "",
    }
    return row | {name: value for name, value in told.items() if value}
