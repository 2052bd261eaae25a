"""The pure-JSON account of a run, the same behind every door, and the result that a program gets."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from clew.core.approvals import approval_row, waiting
from clew.core.artifacts import artifact_rows
from clew.core.evaluation import check_rows, evaluation, readiness
from clew.core.extensions import receipt_rows
from clew.core.guarding import checkpoint_rows
from clew.core.legs import Leg
from clew.core.loops import last_loop
from clew.core.operation import DurableOperation
from clew.core.outcome import effect_row, exit_code, outcome_now, waited_reason
from clew.core.resume import Facts, is_resumable
from clew.core.state import RunState
from clew.core.times import parse_ms
from clew.errors import NotCompleted


def snapshot(
    state: RunState, facts: Facts, *, trace: Sequence[dict[str, Any]], integrity: dict[str, Any]
) -> dict[str, Any]:
    """The account of a run: contract §2.8's members, and ours.

    Args:
        state: The folded journal, all legs.
        facts: What the resume judgement needs; `resumable` is what the plan says.
        trace: Event envelopes in the order of the journal.
        integrity: What the reader found: verdict of the end, sequence, chain.
    """
    return outline(state, facts, integrity=integrity) | {"trace": list(trace), "effects": list(effect_rows(state))}


def effect_rows(state: RunState) -> Iterator[dict[str, Any]]:
    """What is known of every call that may change the world, a row each."""
    return (effect_row(call) for call in state.calls.values() if call.may_change_the_world)


def outline(state: RunState, facts: Facts, *, integrity: dict[str, Any]) -> dict[str, Any]:
    """As `snapshot`, with `trace` and `effects` empty: they grow with the run, and not every reader keeps them."""
    outcome = outcome_now(state)
    closed = _last_word(state)
    return {
        "schemaVersion": 1,
        "runId": state.run_id,
        "operation": state.operation.snapshot() if state.operation is not None else None,
        "outcome": outcome.as_json(),
        "metrics": state.metrics.snapshot(state.duration_ms, clock_stepped=state.clock_stepped),
        "evaluation": closed.get("evaluation") or evaluation(state),
        "releaseReadiness": closed.get("releaseReadiness") or readiness(state, outcome.status),
        "trace": [],
        "checkpoints": checkpoint_rows(state),
        "artifacts": artifact_rows(state),
        "extensions": receipt_rows(state.extensions),
        "resumable": is_resumable(state, facts),
        "review": waiting_rows(state, facts.at_ms),
        "approvals": [approval_row(asked, facts.at_ms) for asked in state.approvals.values()],
        "effects": [],
        "checks": check_rows(state),
        "limits": state.limits,
        "integrity": integrity,
        "loop": last_loop(state),
        **_kin(state),
        "legs": [_leg_row(leg) for leg in state.legs],
    }


def _leg_row(leg: Leg) -> dict[str, Any]:
    closed = {"closedBy": leg.closed_by or None, "closedAt": leg.closed_at or None}
    return {**leg.owner, "openedAt": leg.opened_at, **closed}


def _last_word(state: RunState) -> dict[str, Any]:
    """The record that closed the run last; a pause behind which something was settled has not judged that yet."""
    untouched = state.leg is None or state.leg.closed_by == "pause"
    return state.finish or (state.pause if untouched else None) or {}


def _kin(state: RunState) -> dict[str, Any]:
    """Whose child the run is, and its own children; nothing of a run that stands alone."""
    children = [
        {"stepId": child.step_id, "runId": child.child_id, "agent": child.agent, "status": child.status,
         "outcome": child.outcome or None, "reason": child.reason or None}
        for child in state.delegations.values()
    ]  # fmt: skip
    parent = state.start.get("parent") if state.own else None
    return ({"children": children} if children else {}) | ({"parent": parent} if parent is not None else {})


def waiting_rows(state: RunState, at_ms: int) -> list[dict[str, Any]]:
    """What waits for a person: open effects, then questions for an approval."""
    return [*map(effect_row, state.unsettled()), *(approval_row(asked, at_ms) for asked in waiting(state))]


class RunResult:
    """How a run stands after a leg: a state is a result, not an exception.

    Attributes:
        run_id: The run.
        output: What the agent returned; None unless completed.
        waiting: Effects that wait for a person or a probe, then questions for an approval, as rows; empty when
            nothing does. A question's row has an `approvalId`.
        reason: Why it is paused or failed; None when completed.
        retry_in_s: When a probe wants to be asked again, in seconds, if it said so.
        fault: What the agent raised in this leg, traceback and all; recorded is its text only.
    """

    def __init__(
        self, state: RunState, *, output: Any, account: Callable[[], dict[str, Any]], retry_in_s: float | None = None,
        fault: BaseException | None = None,
    ) -> None:  # fmt: skip
        assert state.operation is not None
        self.run_id = state.run_id
        self.operation: DurableOperation = state.operation
        self.output = output
        self.waiting: list[dict[str, Any]] = waiting_rows(state, parse_ms(state.last_time) or 0)
        self.reason: str | None = None if self.operation.state == "completed" else outcome_now(state).finish_reason
        self._waited = waited_reason(outcome_now(state))
        self.retry_in_s = retry_in_s
        self.fault = fault
        self._account = account

    def __repr__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"<RunResult {self.run_id} {self.operation.state}{why}>"

    @property
    def snapshot(self) -> dict[str, Any]:
        """The pure-JSON account of the run, all legs, read now."""
        return self._account()

    @property
    def exit_code(self) -> int:
        """What the command exits with."""
        return exit_code(self.operation.state, self._waited)

    def raise_for_state(self) -> "RunResult":
        """This result if the run is completed.

        Raises:
            NotCompleted: `run_paused` or `run_failed`, with the reason and what to do, caused by what the agent raised.
        """
        if self.operation.state == "completed":
            return self
        failed = self.operation.state == "failed"
        raise NotCompleted(
            f"run {self.run_id!r} is {self.operation.state}: {self.reason}",
            code="run_failed" if failed else "run_paused",
            next=f"Look at it with `clew show {self.run_id}`."
            if failed
            else f"See what it waits for with `clew show {self.run_id}`, then `clew resume {self.run_id}`.",
            run=self.run_id,
            reason=self.reason,
            exit=self.exit_code,
            waiting=self.waiting,
        ) from self.fault
