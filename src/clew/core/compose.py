"""From what is to be said to one append: numbered, timed, judged on a fork of the state, encoded. Writes nothing."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from clew.core.abort import admitted
from clew.core.calls import Illegal
from clew.core.codec import encode_append
from clew.core.events import Answering, Event, Opening, spelt
from clew.core.folding import take
from clew.core.guarding import numbered
from clew.core.operation import DurableOperation, OperationEvent
from clew.core.outcome import Outcome, closing_payload
from clew.core.records import Batch, Draft, Kind, Record
from clew.core.state import RunState, illegal

OPERATION_ID = "op-1"


class Move(msgspec.Struct, frozen=True):
    """The operation moves."""

    event: OperationEvent
    reason: str | None = None


class Close(msgspec.Struct, frozen=True):
    """The leg closes by a `pause` or `finish` record whose payload follows from the state before it.

    `active_ms` is how long it ran, where its clock was set meanwhile.
    """

    kind: Literal["pause", "finish"]
    outcome: Outcome
    active_ms: int | None = None


Saying = Event | Opening | Answering | Move | Close | Draft


class Composed(msgspec.Struct, frozen=True):
    """An append that may be written, and the state as it will be when it is.

    `batch` is empty when all of it came too late for an abort: then nothing is written, and only that is counted.
    """

    batch: Batch
    state: RunState

    def apply(self, state: RunState) -> RunState:
        """Let the state of which that one is a fork become it; returns the fork, ready for the next try."""
        state.merge(self.state)
        return self.state


def compose(
    state: RunState, sayings: Sequence[Saying], *, at: str, new_id: Callable[[], str], size_bytes: int,
    fork: RunState | None = None,
) -> Composed:  # fmt: skip
    """Make one append of what is to be said, judged record by record as a reader will judge it.

    Args:
        state: The run so far; it is not changed.
        sayings: Events, moves of the operation, drafts, and at most a closing record at the end.
        at: The time of all of them.
        new_id: Gives event ids, each once.
        size_bytes: Where the append will stand in the journal.
        fork: A fork of `state` that has just been merged, to judge on; of no use any more after an error.

    Raises:
        Corrupt: when a record would be illegal where it would stand; nothing was written.
        Refused: `invalid_operation_transition`, `append_too_large`.
    """
    sayings, late = spelt(sayings), 0
    if state.aborting:
        sayings, late = admitted(state, sayings)
    fork = fork or state.fork()
    fork.metrics.rejected_after_abort += late
    if not sayings:
        return Composed(Batch(state.run_id, state.sequence + 1, state.sequence, b"", state.chain, ()), fork)
    closing = type(sayings[-1]) is Close
    composer = _Composer(state.fork() if closing else state, at, new_id)
    composer.trial.metrics.rejected_after_abort += late if closing else 0
    make = composer.judged if closing else composer.draft
    drafts = [make(saying) for saying in sayings]
    batch = encode_append(
        state.run_id,
        after=state.sequence,
        chain=state.chain,
        drafts=drafts,
        timestamp=at,
        event_ids=[new_id() for _ in drafts],
    )
    start = 0
    for record in batch.records:
        if not record.event_id.strip():  # type: ignore[union-attr]  # every record of an append has one
            raise illegal(state, record, Illegal("its eventId is blank"))
        take(fork, record, size_bytes + start)
        start = batch.data.index(b"\n", start) + 1
    return Composed(batch, fork)


class _Composer:
    """Turns sayings into drafts, in order; keeps the counters that they need."""

    def __init__(self, trial: RunState, at: str, new_id: Callable[[], str]) -> None:
        self.trial = trial
        self.at = at
        self.new_id = new_id
        self.trace = trial.trace_sequence
        self.reviews = trial.numbers.get("review") or 0
        self.approvals = 0
        self.operation = trial.operation

    def judged(self, saying: Saying) -> Draft:
        """The draft, with the trial moved by it, for what closes a leg follows from the state before."""
        draft = self.draft(saying)
        record = Record(
            1, self.trial.run_id, self.trial.sequence + 1, "judged", self.at, draft.kind, draft.payload, "", 0
        )
        take(self.trial, record, 0)
        return draft

    def draft(self, saying: Saying) -> Draft:
        if type(saying) is dict:
            return self._envelope(saying)
        if isinstance(saying, Draft):
            return numbered(self.trial, saying, self.at) if saying.kind == "checkpoint" else saying
        if isinstance(saying, Move):
            return self._move(saying)
        assert isinstance(saying, Close)
        kind: Kind = saying.kind
        return Draft(kind, closing_payload(self.trial, saying.outcome, saying.active_ms))

    def _move(self, move: Move) -> Draft:
        if self.operation is None:
            start = self.trial.start or {}
            self.operation = DurableOperation.create(
                run_id=self.trial.run_id,
                operation_id=str(start.get("operationId", OPERATION_ID)),
                event_id=self.new_id(),
                at=self.at,
            )
        else:
            self.operation = self.operation.move(move.event, event_id=self.new_id(), at=self.at, reason=move.reason)
        return Draft("operation", msgspec.to_builtins(self.operation.records[-1]))

    def _envelope(self, event: Event) -> Draft:
        self.trace += 1
        if event["type"] == "effect_review" and not event["reviewId"]:
            self.reviews += 1
            event = {**event, "reviewId": f"r{self.reviews}"}
        elif event["type"] == "approval_required" and event.get("approvalId") == "":
            self.approvals += 1
            event = {**event, "approvalId": f"a{len(self.trial.approvals) + self.approvals}"}
        envelope: dict[str, Any] = {
            "eventId": self.new_id(),
            "runId": self.trial.run_id,
            "sequence": self.trace,
            "timestamp": self.at,
            "event": event,
        }
        return Draft("event", envelope)
