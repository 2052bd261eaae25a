"""What a person says of a start: which question is meant, may it be decided, how that is recorded. No lock here."""

from collections.abc import Mapping
from typing import Any

from clew.core import approvals
from clew.core.approvals import Approve, Judgement, Reject, Standing, approval_row
from clew.core.effect import Walk
from clew.core.needs import Append, Heard
from clew.core.resume import check_ours
from clew.core.state import ApprovalState, RunState
from clew.errors import Refused, UsageError
from clew.runtime.approvals import heard, hidden
from clew.runtime.gate import Gate
from clew.runtime.reviewing import Said, Walking
from clew.stores.base import Command, RunStore


def check_said(said: Judgement) -> None:
    """Who and why are named, and a permission does not lapse at once. `UsageError` (`review_incomplete`, …)."""
    Said(said.by, said.reason)
    if isinstance(said, Approve) and said.expires_in_s is not None and said.expires_in_s <= 0:
        raise UsageError(
            f"a permission would lapse after {said.expires_in_s} s",
            code="invalid_expiry",
            next="Give more than no seconds, or leave it out: then it holds until it is used.",
        )


def pick_approval(state: RunState, name: str | None, at_ms: int) -> ApprovalState:
    """The question that is meant, if it may be decided: by approval id, call id, step id or key.

    Raises:
        Refused: `nothing_to_approve`, `approval_closed`, `approval_expired`, `foreign_run`.
        UsageError: `which_approval` when none is named and several wait.
    """
    check_ours(state)
    if state.state not in ("running", "paused"):
        raise _nothing(state, f"it is {state.state}, and nothing of it starts any more")
    waiting = approvals.waiting(state)
    if not name:
        if len(waiting) > 1:
            raise _which(state, waiting, at_ms)
        asked = waiting[0] if waiting else _last(state)
    else:
        asked = _named(state, name)
    stands = approvals.standing(asked, at_ms)
    if stands != "pending":
        raise _closed(state, asked, stands)
    return asked


def _last(state: RunState) -> ApprovalState:
    """The last question, though it is decided: whoever comes second wants to know by whom."""
    found = list(state.approvals.values())
    if not found:
        raise _nothing(state, "no approval is wanted")
    return found[-1]


def _named(state: RunState, name: str) -> ApprovalState:
    """By any of its names; of several questions about one call, the last."""
    direct = state.approvals.get(name)
    if direct is not None:
        return direct
    found = [asked for asked in state.approvals.values() if name in (asked.step_id, asked.call_id, asked.key)]
    if not found:
        raise _nothing(state, f"no approval was wanted for {name!r}")
    return found[-1]


def _which(state: RunState, waiting: list[ApprovalState], at_ms: int) -> UsageError:
    names = ", ".join(f"{asked.step_id} ({asked.tool})" for asked in waiting)
    return UsageError(
        f"run {state.run_id!r} waits for {len(waiting)} approvals: {names}",
        code="which_approval",
        next="Name one of them behind the run.",
        approvals=[approval_row(asked, at_ms) for asked in waiting],
    )


def _nothing(state: RunState, why: str) -> Refused:
    return Refused(
        f"run {state.run_id!r}: {why}",
        code="nothing_to_approve",
        next=f"See what it waits for with `clew show {state.run_id}`.",
        run=state.run_id,
    )


def _closed(state: RunState, asked: ApprovalState, stands: Standing) -> Refused:
    if not asked.decision:
        return Refused(
            f"approval {asked.approval_id!r} of {asked.step_id!r} was asked for too long ago: nobody decided in time",
            code="approval_expired",
            next=f"Let it be asked for anew: `clew resume {state.run_id}`.",
            run=state.run_id,
            approval=asked.approval_id,
        )
    return Refused(
        f"approval {asked.approval_id!r} of {asked.step_id!r} is {stands}: decided by {asked.by!r} ({asked.reason})",
        code="approval_closed",
        next=f"A decision stands; see it with `clew show {state.run_id}`.",
        run=state.run_id,
        approval=asked.approval_id,
        standing=stands,
    )


def rejection(store: RunStore, state: RunState, asked: ApprovalState, word: Heard) -> tuple[Any, ...]:
    """The events of a no: the decision, and the call with its receipt as the question told of it."""
    call = state.calls.get(asked.step_id)
    event = store.record_at(state.run_id, asked.position).payload["event"]
    walk = Walk(
        approvals.facts_of_asked(state.run_id, asked, event.get("businessKey")),
        event["args"],
        attempt=0 if call is None else call.attempt,
        recorded=call is not None,
        resolved=call is not None and call.capability is not None,
    )
    return walk.rejection(word)


# By the inbox.


def as_arguments(asked: ApprovalState, said: Judgement) -> dict[str, Any]:
    """A decision as a command carries it: of this question and no later one."""
    told: dict[str, Any] = {"approval": asked.approval_id, "argumentsFingerprint": asked.fingerprint}
    if isinstance(said, Reject):
        return {**told, "asAnswer": said.as_answer}
    return told if said.expires_in_s is None else {**told, "expiresInMs": round(said.expires_in_s * 1000)}


def deciding(gate: Gate, command: Command) -> Walking:
    """Take a decision in while the run is under way; it is found where its call comes to be decided next."""
    said, state = _said_by(command), gate.journal.state
    check_said(said)
    name = command.arguments.get("approval")
    asked = pick_approval(state, name if isinstance(name, str) else None, gate.journal.clock.now_ms())
    meant = command.arguments.get("argumentsFingerprint", asked.fingerprint)
    if meant != asked.fingerprint or not gate.approvals.take(asked.approval_id):
        raise Refused(
            f"approval {asked.approval_id!r} is for other arguments, or is being decided right now",
            code="approval_closed",
            next="Look at the run again before you decide.",
            approval=asked.approval_id,
        )
    word = heard(asked, hidden(said, gate.redactor), "operator", gate.journal.clock.now_ms())
    events = (word.event,) if word.allowed else rejection(gate.store, state, asked, word)
    yield Append(events)


def check_decision(arguments: Mapping[str, Any]) -> None:
    """Are these the arguments of a decision? `UsageError` (`control_invalid`)."""
    lapses, as_answer = arguments.get("expiresInMs"), arguments.get("asAnswer", False)
    if type(as_answer) is not bool or (lapses is not None and type(lapses) is not int):
        raise UsageError(
            "asAnswer is no boolean or expiresInMs no whole number",
            code="control_invalid",
            next="Send the command with `clew approve` or `clew deny`.",
        )


def _said_by(command: Command) -> Judgement:
    """A decision as a command carries it."""
    arguments = command.arguments
    check_decision(arguments)
    lapses, as_answer = arguments.get("expiresInMs"), arguments.get("asAnswer", False)
    if command.type == "deny":
        return Reject(command.by, command.reason, as_answer)
    return Approve(command.by, command.reason, None if lapses is None else lapses / 1000)
