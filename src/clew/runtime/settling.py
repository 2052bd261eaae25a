"""A person settles an effect of a run: under the lock, or by the inbox of a writer that lives."""

from contextlib import suppress
from typing import Any

from clew.core.calls import CallState
from clew.core.folding import fold
from clew.core.needs import Append, Save
from clew.core.outcome import effect_row
from clew.core.review import GiveUp, Settlement
from clew.core.state import RunState
from clew.errors import ClewError, Refused, UsageError
from clew.runtime.commanding import deliver, writer_of
from clew.runtime.control import reject_rest
from clew.runtime.ending import publish
from clew.runtime.journal import Journal
from clew.runtime.opening import HomeParts, begin_mended
from clew.runtime.posting import Posting
from clew.runtime.recovery import Reopened, close_quietly, end_leg, fail_sayings, unfinished_business
from clew.runtime.reviewing import (
    Said,
    after_the_end,
    as_arguments,
    as_json,
    check_attempt,
    check_open,
    pick_call,
    settling,
)
from clew.stores.base import RunWriter


def settle_run(
    place: HomeParts, run_id: str, name: str | None, verdict: Settlement, said: Said, control_id: str = "",
    looked_at: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Record a person's settlement; by the inbox when a writer lives.

    `looked_at`: the attempt of which they speak; the last one when 0. A command that comes again has named its own.

    Returns:
        The effect's row as it stands now.

    Raises:
        Refused: `nothing_to_settle`, `review_conflict` (settled already, or started again since it was looked at),
            `control_rejected`, `control_conflict`.
        Held: the owner is not proven gone, or a living writer does not answer.
    """
    verdict = as_json(verdict)
    try:
        call, attempt = _meant(fold(place.store.read(run_id), run_id), name, control_id)
    except (Refused, UsageError):
        # What keeps everybody from writing here is the greater news.
        writer = writer_of(place, run_id)
        if writer is not None:
            writer.close()
        raise
    spoken_of = looked_at if looked_at and not control_id else attempt
    arguments = as_arguments(call, verdict, said) | {"attempt": spoken_of}
    posting = Posting(place, run_id, "settle", said, arguments, control_id)
    told = deliver(posting, lambda writer: _settle_under_lock(posting, writer, verdict, said))
    return dict(told.get("effect") or effect_row(pick_call(fold(place.store.read(run_id), run_id), call.step_id)))


def _meant(state: RunState, name: str | None, control_id: str) -> tuple[CallState, int]:
    """The call that is settled and its attempt; of a command that comes again, those that it named before."""
    known = state.controls.get(control_id) if control_id else None
    before = known["command"].get("arguments", {}) if known is not None and "command" in known else {}
    call = pick_call(state, name or before.get("call"))
    return call, before.get("attempt", call.attempt) if before.get("call") == call.step_id else call.attempt


def _settle_under_lock(posting: Posting, writer: RunWriter, verdict: Settlement, said: Said) -> dict[str, Any]:
    place, meant = posting.place, posting.command.arguments
    try:
        opened = finished_first(place, Reopened(place.store, place.clock, writer, "settle"))
        writer = opened.writer
        call = pick_call(opened.state, meant["call"])
        check_open(opened.state, call, verdict, place.blobs.has)
        # Another process may have had the run since it was looked at, and have started the call again.
        check_attempt(call, meant["attempt"])
        opened.take_over(place.takeover)
        # Behind the end of a run its journal takes no commands, only the review itself.
        ended = opened.state.finish is not None
        journal = opened.begin(then=[] if ended else posting.accepted())
    except BaseException:
        writer.close()
        raise
    try:
        try:
            _record(place, journal, call, verdict, said)
            if posting.named and not ended:
                journal.append(posting.applied())
        except ClewError:
            # What failed is what is told: on a disk that took no settlement, closing the leg fails as well.
            with suppress(ClewError):
                _close(place, journal, given_up=False)
            raise
        _close(place, journal, given_up=isinstance(verdict, GiveUp))
    finally:
        end_leg(journal)
    return posting.told("applied", effect=effect_row(pick_call(journal.state, call.step_id)))


def finished_first(place: HomeParts, opened: Reopened) -> Reopened:
    """Write an end that a death cut off, in a leg of its own: behind it, only a new leg may say anything."""
    business = unfinished_business(opened.state)
    if not business:
        return opened
    opened.take_over(place.takeover)
    journal = begin_mended(place, opened, business)
    publish(journal)
    end_leg(journal)
    again = place.store.open(opened.state.run_id)
    try:
        return Reopened(place.store, place.clock, again, opened.purpose)
    except ClewError:
        again.close()
        raise


def _record(place: HomeParts, journal: Journal, call: CallState, verdict: Settlement, said: Said) -> None:
    """The review, with its result; after the run's end the result stands in the review itself."""
    state = journal.state
    if state.finish is not None:
        journal.append([after_the_end(state.run_id, call, verdict, said)])
        return
    walk = settling(state.run_id, call, verdict, by=said.by, reason=said.reason, evidence=said.recorded())
    reply: Any = None
    while True:
        try:
            need = walk.send(reply)
        except StopIteration:
            return
        if isinstance(need, Append):
            journal.append(need.events)
            reply = None
        else:
            assert isinstance(need, Save)
            reply = place.blobs.put(need.data)


def _close(place: HomeParts, journal: Journal, *, given_up: bool) -> None:
    if given_up and not journal.state.ended:
        journal.append(fail_sayings("effect_given_up"))
        reject_rest(place.store, journal.state.run_id, "the run has ended")
    else:
        close_quietly(journal)
    publish(journal)
