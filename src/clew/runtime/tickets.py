"""One call on its way through the gate: who it is, what it is told in the end. Decides nothing."""

from typing import Any

import msgspec

from clew.core.answers import Answer, Unrecorded
from clew.core.calls import CallState
from clew.core.capability import Capability
from clew.core.checkpoint import Manifest
from clew.core.effect import KEY_HELD, Walk
from clew.core.events import CallFacts
from clew.core.guarded import BUILT_IN, GuardedWalk
from clew.core.jsonable import restore
from clew.core.needs import End
from clew.errors import Denied, KeyHeld, ResultNotRecorded, ToolError, UsageError
from clew.runtime.lanes import Lane
from clew.runtime.tools import Tool


class Ticket(msgspec.Struct):
    """One admitted call: its walk, or the answer that is replayed. `ran` once the body has been started.

    `proposed`: a model wants it, not the agent's own code; `counted`: the last attempt that the limits have counted;
    `until_ms`: when the permission lapses by which it may start, if it does; `lane`: its place among those that change
    files, once it has one; `kept`: how its paths stood before this attempt.
    """

    tool: Tool
    facts: CallFacts
    arguments: dict[str, Any]
    plain: dict[str, Any]
    walk: Walk | None = None
    replay: Answer | Unrecorded | None = None
    end: End | None = None
    ran: bool = False
    proposed: bool = False
    counted: int = 0
    until_ms: int = 0
    lane: Lane | None = None
    kept: Manifest | None = None


def deliver(tool: Tool, answer: Answer | Unrecorded) -> Any:
    """The value for the agent, or the error."""
    if isinstance(answer, Unrecorded):
        raise ResultNotRecorded(
            answer.message,
            code="result_not_recorded",
            next="Go on without the result, or look it up where the effect happened.",
            tool=tool.name,
        )
    if answer.error is None:
        return restored(answer.value, tool.returns)
    if answer.error.kind == KEY_HELD and type(answer.error.value) is dict:
        raise key_held(tool.name, answer.error.message, answer.error.value)
    family = Denied if answer.error.kind == "denied" else ToolError
    raise family(
        answer.error.message or answer.error.kind,
        code="policy_denied" if answer.error.kind == "denied" else "tool_failed",
        next="Decide in the agent how to go on: this answer is recorded and will be replayed.",
        tool=tool.name,
        kind=answer.error.kind,
        value=answer.error.value,
    )


def key_held(tool: str, message: str, holder: dict[str, Any]) -> KeyHeld:
    """The error of a call whose business key another call has; the facts say which."""
    return KeyHeld(
        message,
        code="key_held",
        next=f"Look at the one that has it with `clew show {holder.get('run')} --effects`, and go on in the agent "
        "without this call: this answer is recorded and will be replayed.",
        **{**holder, "tool": tool, "kind": KEY_HELD},
    )


def restored(value: Any, returns: Any) -> Any:
    """An answer in the type that was announced; as it is where it is of another, for it is the answer."""
    try:
        return restore(value, returns)
    except UsageError:
        return value


def facts_of(run_id: str, call: CallState, today: Capability, business: dict[str, Any] | None = None) -> CallFacts:
    """A recorded call's facts; its own capability, or today's when it died before it was resolved."""
    return CallFacts(
        run_id=run_id,
        step_id=call.step_id,
        call_id=call.call_id,
        key=call.key,
        tool=call.tool,
        turn_id=call.turn_id,
        fingerprint=call.fingerprint,
        capability=call.capability or today,
        business=business,
    )


def new_walk(tool: Tool, facts: CallFacts, arguments: Any) -> Walk:
    """The walk of a call that is not recorded yet; `arguments` as they may be recorded."""
    walk = Walk if tool.paths is None else GuardedWalk
    return walk(facts, arguments, probe=tool.probe_facts(), secret=tool.secret)


def recorded_walk(tool: Tool, facts: CallFacts, call: CallState, *, rerun: bool = False, doubt_ms: int = 0) -> Walk:
    """The walk of a recorded call that goes on; with `doubt_ms` its probe is asked before anything else."""
    walk = Walk if tool.paths is None else GuardedWalk
    return walk(
        facts,
        None,
        attempt=call.attempt,
        recorded=True,
        resolved=call.capability is not None,
        rerun=rerun,
        probe=tool.probe_facts() or (BUILT_IN if doubt_ms else None),
        secret=tool.secret,
        doubt_ms=doubt_ms,
    )
