"""Commands to a run from another process: by the inbox when a writer lives, under the lock else."""

from collections.abc import Callable
from typing import Any

from clew.core.compose import Move
from clew.core.folding import fold, take
from clew.core.outcome import effect_row
from clew.core.resume import check_ours
from clew.core.state import RunState
from clew.errors import Held, Refused
from clew.runtime.control import reject_rest
from clew.runtime.ending import publish
from clew.runtime.opening import HomeParts
from clew.runtime.orphans import end_children
from clew.runtime.posting import Posting, Told
from clew.runtime.recovery import Reopened, close_quietly, end_leg, fail_sayings, unfinished_business, unspoken
from clew.runtime.reviewing import Said
from clew.runtime.stilling import still
from clew.stores.base import RunWriter

UnderLock = Callable[[RunWriter], Told]


def writer_of(place: HomeParts, run_id: str) -> RunWriter | None:
    """The lock of a run, or None when a writer lives. `NotFound` (`unknown_run`).

    Nobody waits for it: one that is let go in a moment is found free when the command is taken back.
    """
    try:
        return place.store.open(run_id, wait_s=0.0)
    except Held:
        return None


def send(place: HomeParts, run_id: str, kind: str, said: Said, arguments: dict[str, Any]) -> str | None:
    """Leave a command to a living writer and wait for its answer; as `Posting.sent`."""
    told = Posting(place, run_id, kind, said, arguments).sent()
    return None if told is None else str(told["status"])


def deliver(posting: Posting, under_lock: UnderLock) -> Told:
    """Get a command done, once, by whoever holds the run; `under_lock` does it and closes the writer.

    Raises:
        Refused: `foreign_run`, `control_conflict`, `control_rejected`. Held: the writer does not answer.
    """
    place, run_id = posting.place, posting.command.run_id
    _require_ours(place, run_id)
    while True:
        told = posting.known()
        if told is not None:
            return told
        writer = writer_of(place, run_id)
        if writer is not None:
            return _answered(posting, under_lock, writer)
        told = posting.sent()
        if told is not None:
            return told


def _answered(posting: Posting, under_lock: UnderLock, writer: RunWriter) -> Told:
    """Do it under the lock, and leave its answer for a sender of the same; not of a refusal that may pass."""
    try:
        told = under_lock(writer)
    except Refused as fault:
        posting.answer("rejected", fault.message, fault.code)
        raise
    posting.answer(told["status"])
    return told


def abort_run(place: HomeParts, run_id: str, said: Said, control_id: str = "") -> Told:
    """End a run for good: by the inbox when a writer lives, under the lock else. Started effects stay listed.

    Raises:
        Refused: `run_already_finished`, `foreign_run`. Held: the owner is not proven gone.
    """
    posting = Posting(place, run_id, "abort", said, {}, control_id)
    return deliver(posting, lambda writer: _abort_under_lock(posting, writer))


def _abort_under_lock(posting: Posting, writer: RunWriter) -> Told:
    place, command = posting.place, posting.command
    for_parent = Said(command.by, f"its parent {writer.run_id} is aborted: {command.reason}")
    try:
        opened = Reopened(place.store, place.clock, writer, "control")
        state = opened.state
        if state.finish is not None:
            raise _ended(state)
        opened.take_over(place.takeover)
        asked = [Move("REQUEST_ABORT", f"by {command.by}: {command.reason}")]
        begun = state.state == "aborting"
        business = [] if begun else unfinished_business(state)
        journal = opened.begin(then=business or [*posting.accepted(), *([] if begun else asked)])
    except BaseException:
        writer.close()
        raise
    alive: dict[str, str] = {}
    try:
        if not journal.state.ended:
            # `aborting` is durable: now its children are ended and what still runs of it, and then its end is told.
            alive = end_children(journal.state, lambda child: abort_run(place, child, for_parent))
            alive |= still(place.processes, journal.state)
            journal.append([*posting.applied(), *unspoken_but(journal.state, posting), *fail_sayings("aborted", alive)])
        publish(journal)
        reject_rest_but(place, writer.run_id, posting)
    finally:
        end_leg(journal)
    if business or journal.state.operation is None or journal.state.operation.reason != "aborted":
        # Its end was cut off before anybody asked to abort it: that end stands.
        raise _ended(journal.state)
    effects = [effect_row(call) for call in journal.state.calls.values() if call.started_ms]
    return posting.told("applied", effects=effects, alive=alive)


def unspoken_but(state: RunState, posting: Posting) -> list[Any]:
    """What is recorded of other commands that were accepted and not come to."""
    return [event for event in unspoken(state) if event["controlId"] != posting.command.control_id]


def reject_rest_but(place: HomeParts, run_id: str, posting: Posting) -> None:
    """Answer who still waits in the inbox; the one who is served now is answered by what is done."""
    posting.answer("applied")
    reject_rest(place.store, run_id, "the run has ended")


def pause_run(place: HomeParts, run_id: str, said: Said, control_id: str = "") -> Told:
    """Ask a living run to pause at its next safe point.

    Raises:
        Refused: `run_not_living` when nobody runs it; `foreign_run`. Corrupt.
    """
    posting = Posting(place, run_id, "pause", said, {}, control_id)

    def under_lock(writer: RunWriter) -> Told:
        try:
            fold(writer.read(), run_id)
        finally:
            writer.close()
        raise Refused(
            f"run {run_id!r} is not running; there is nothing to pause",
            code="run_not_living",
            next=f"Look at it with `clew show {run_id}`.",
            run=run_id,
        )

    return deliver(posting, under_lock)


def steer_run(place: HomeParts, run_id: str, text: str, said: Said, control_id: str = "") -> Told:
    """Tell a run's agent something; it waits in the journal until the agent reads it, in whichever leg.

    Raises:
        UsageError: `control_invalid` when the text is empty or too long.
        Refused: `run_already_finished`, `foreign_run`. Held: the owner is not proven gone.
    """
    posting = Posting(place, run_id, "steer", said, {"text": text}, control_id)
    posting.named = True
    return deliver(posting, lambda writer: _steer_under_lock(posting, writer))


def _steer_under_lock(posting: Posting, writer: RunWriter) -> Told:
    place = posting.place
    try:
        opened = Reopened(place.store, place.clock, writer, "control")
        if opened.state.finish is not None or opened.state.state == "aborting" or unfinished_business(opened.state):
            raise _ended(opened.state, "told anything")
        opened.take_over(place.takeover)
        journal = opened.begin(then=posting.accepted())
    except BaseException:
        writer.close()
        raise
    try:
        close_quietly(journal)
        publish(journal)
    finally:
        end_leg(journal)
    return posting.told("accepted", acceptedSequence=journal.state.sequence - 1)


def _require_ours(place: HomeParts, run_id: str) -> None:
    """Whose a journal is, its first record says; another program's gets no command from here."""
    state = RunState(run_id)
    for record, position in place.store.read(run_id):
        take(state, record, position)
        if state.own:
            break
    check_ours(state)


def _ended(state: RunState, what: str = "aborted") -> Refused:
    return Refused(
        f"run {state.run_id!r} is {state.state}; it cannot be {what}",
        code="run_already_finished",
        next=f"Look at it with `clew show {state.run_id}`.",
        run=state.run_id,
    )
