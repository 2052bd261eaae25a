"""How a run stands, in the words and numbers that every door shows: outcome, exit code, what closes a leg."""

from typing import Any, Final

import msgspec

from clew.core.artifacts import rows_at_close
from clew.core.calls import CallState
from clew.core.evaluation import evaluation, readiness
from clew.core.extensions import receipt_rows
from clew.core.state import RunState
from clew.core.times import format_ms

EXIT_BY_REASON: Final = {
    "budget_exceeded": 5,
    "run_timeout": 5,
    "budget_not_enforceable": 5,
    "approval_required": 20,
    "tool_approval_denied": 20,
    "approval_tool_missing": 20,
    "unknown_effect": 21,
    "committed_effect_pending": 21,
    "result_not_kept": 21,
    "result_missing": 21,
    "secret_answer_lost": 21,
    "process_alive": 21,
    "checkpoint_failed": 22,
    "session_failed": 22,
    "agent_error": 22,
    "crash_loop": 22,
    "loop_exhausted": 22,
    "loop_no_progress": 22,
    "resume_divergence": 22,
    "delegation_conflict": 22,
    "child_held": 21,
    "child_run_unavailable": 21,
    "pause_requested": 23,
    "interrupted": 130,
    "terminated": 143,
}
PERSON_REASONS: Final = frozenset(reason for reason, code in EXIT_BY_REASON.items() if code == 21)


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """How a leg closed: `status` is one of contract §2.8, `finish_reason` the code behind it."""

    status: str
    finish_reason: str
    error: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """The member `outcome` of pause, finish and snapshot."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]  # a Struct becomes a dict


def exit_code(state: str, reason: str | None) -> int:
    """The exit code of a run in this state for this reason.

    Source:
        DESIGN §9.
    """
    if state == "completed":
        return 0
    if state == "failed":
        return 3
    return EXIT_BY_REASON.get(reason or "", 21)


def waited_reason(outcome: Outcome) -> str:
    """The reason that decides the exit code: of a run that waits for a child, that of the run at the bottom."""
    return str((outcome.error or {}).get("code") if outcome.finish_reason == "child_paused" else outcome.finish_reason)


def outcome_now(state: RunState) -> Outcome:
    """The outcome as the finish, or the pause from which nothing led on, said it; else what the operation says."""
    closed = state.finish or state.pause
    if closed is not None and type(closed.get("outcome")) is dict:
        said = closed["outcome"]
        return Outcome(str(said.get("status")), str(said.get("finishReason")), said.get("error"))
    return Outcome(state.state, (state.operation.reason if state.operation else None) or state.state)


def closing_payload(state: RunState, outcome: Outcome, active_ms: int | None = None) -> dict[str, Any]:
    """The payload of a `pause` or `finish`, from the state in which the operation has moved already.

    `active_ms` is how long the leg ran, where its clock was set meanwhile and the times of its records lie.
    """
    assert state.operation is not None
    stepped = active_ms is not None
    metrics = state.metrics.recorded(state.duration_ms, clock_stepped=state.clock_stepped or stepped)
    return {
        "operation": state.operation.snapshot(),
        "outcome": outcome.as_json(),
        "metrics": {**metrics, "activeMs": active_ms} if stepped else metrics,
        "evaluation": evaluation(state),
        "releaseReadiness": readiness(state, outcome.status),
        "artifacts": rows_at_close(state),
        "extensions": receipt_rows(state.extensions),
        **({"loopSnapshot": state.loop} if state.loop is not None and outcome.status == "paused" else {}),
    }


def effect_row(call: CallState) -> dict[str, Any]:
    """What is known of one effect, for lists that people and programs read."""
    row: dict[str, Any] = {
        "stepId": call.step_id,
        "callId": call.call_id,
        "tool": call.tool,
        "idempotencyKey": call.key,
        "attempt": call.attempt,
        "status": call.status or "not_started",
        "answered": call.answer is not None,
        "repeatable": call.capability is not None and call.capability.replay == "idempotent",
    }
    if call.started_ms:
        row["startedAt"] = format_ms(call.started_ms)
    review = call.settled_by
    if review is not None:
        row["review"] = {"outcome": review.outcome, "source": review.source, "by": review.by, "reason": review.reason}
    return row
