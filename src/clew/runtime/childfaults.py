"""The errors of a child that cannot be had: what was wrong, and what to do. Decides nothing."""

from clew.core.delegation import DelegationState
from clew.errors import Corrupt, Refused


def conflict(run_id: str, step: str, known: DelegationState) -> Refused:
    """Another child is recorded of this step."""
    return Refused(
        f"step {step!r} of run {run_id!r} delegated to {known.agent!r} as child {known.child_id!r}, with another input",
        code="delegation_conflict",
        next="Make the agent ask for the same child in the same place again, then resume the run.",
        run=run_id,
        child=known.child_id,
        step=step,
    )


def taken(run_id: str, child_id: str, step: str) -> Refused:
    """The id is another child's of the same run."""
    return Refused(
        f"child id {child_id!r} is taken in run {run_id!r}, by {step}",
        code="delegation_conflict",
        next="Give each child an id of its own, or leave run_id out.",
        run=run_id,
        child=child_id,
        step=step,
    )


def too_many(code: str, run_id: str, what: str, limit: int) -> Refused:
    """There are as many runs as there may be."""
    return Refused(
        f"run {run_id!r} cannot delegate now: {what}",
        code=code,
        next="Wait for a child to end, or let this agent do the work itself.",
        run=run_id,
        limit=limit,
    )


def identity(child_id: str, step: str, why: str) -> Refused:
    """The run of this id is not this child."""
    return Refused(
        f"run {child_id!r} is not the child of step {step!r}: {why}",
        code="child_run_identity_mismatch",
        next=f"Look at it with `clew show {child_id}`; give the child another id.",
        child=child_id,
        step=step,
    )


def lost(child_id: str) -> Corrupt:
    """It was born, and its journal is gone."""
    return Corrupt(
        f"child {child_id!r} was born, and its journal is not there any more",
        code="child_run_unavailable",
        next="Bring its journal back from a copy; it is never born a second time.",
        child=child_id,
    )
