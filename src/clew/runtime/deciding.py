"""A person decides about a start: under the lock, or by the inbox of a writer that lives. Asks and starts nothing."""

from typing import Any

from clew.core import approvals
from clew.core.approvals import Approve, Judgement, approval_row
from clew.core.compose import Close, Move, Saying
from clew.core.folding import fold
from clew.core.outcome import Outcome
from clew.core.state import ApprovalState, RunState
from clew.runtime.approvals import heard
from clew.runtime.approving import as_arguments, check_said, pick_approval, rejection
from clew.runtime.commanding import send, writer_of
from clew.runtime.ending import publish
from clew.runtime.journal import Journal
from clew.runtime.opening import HomeParts
from clew.runtime.recovery import Reopened, close_quietly, end_leg
from clew.runtime.reviewing import Said
from clew.stores.base import RunWriter


def decide_run(place: HomeParts, run_id: str, name: str | None, said: Judgement) -> dict[str, Any]:
    """Record a person's yes or no; by the inbox when a writer lives.

    Returns:
        The approval's row as it stands now.

    Raises:
        Refused: `nothing_to_approve`, `approval_closed`, `approval_expired`, `foreign_run`, `control_rejected`.
        UsageError: `which_approval` when several wait. Held: the owner is not proven gone, or does not answer.
    """
    check_said(said)
    while True:
        writer = writer_of(place, run_id)
        if writer is not None:
            return _decide_under_lock(place, writer, name, said)
        asked = pick_approval(fold(place.store.read(run_id), run_id), name, place.clock.now_ms())
        name = asked.approval_id
        kind = "approve" if isinstance(said, Approve) else "deny"
        if send(place, run_id, kind, Said(said.by, said.reason), as_arguments(asked, said)) is not None:
            return _row(place, fold(place.store.read(run_id), run_id), name)


def _decide_under_lock(place: HomeParts, writer: RunWriter, name: str | None, said: Judgement) -> dict[str, Any]:
    try:
        opened = Reopened(place.store, place.clock, writer, "control")
        asked = pick_approval(opened.state, name, place.clock.now_ms())
        opened.take_over(place.takeover)
        journal = opened.begin()
    except BaseException:
        writer.close()
        raise
    try:
        whole = Said(said.by, said.reason)
        told = type(said)(whole.by, whole.reason, *_more(said))
        _record(place, journal, asked, told)
        publish(journal)
    finally:
        end_leg(journal)
    return _row(place, journal.state, asked.approval_id)


def _more(said: Judgement) -> tuple[Any, ...]:
    return (said.expires_in_s,) if isinstance(said, Approve) else (said.as_answer,)


def _record(place: HomeParts, journal: Journal, asked: ApprovalState, said: Judgement) -> None:
    """A yes, or a no that is an answer, leaves the run as it is; a plain no pauses it in the same append."""
    word = heard(asked, said, "operator", place.clock.now_ms())
    if word.allowed:
        journal.append([word.event])
        close_quietly(journal)
        return
    moved: list[Saying] = [Move("RESUME")] if journal.state.state == "paused" else []
    said_all = [*moved, *rejection(place.store, journal.state, asked, word)]
    others = [each for each in approvals.waiting(journal.state) if each.approval_id != asked.approval_id]
    reason = "tool_approval_denied" if not others and word.answer is None else "approval_required"
    error = {"code": reason, "message": word.detail} if reason == "tool_approval_denied" else None
    # While it is paused no call is recorded, so it moves for the one that is refused, and back.
    journal.append([*said_all, Move("PAUSE", reason), Close("pause", Outcome("paused", reason, error))])


def _row(place: HomeParts, state: RunState, name: str) -> dict[str, Any]:
    asked = state.approvals.get(name)
    assert asked is not None
    return {"runId": state.run_id, **approval_row(asked, place.clock.now_ms())}
