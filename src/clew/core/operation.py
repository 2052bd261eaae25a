"""A run's lifecycle as a state machine. Pure values: every move gives a new operation and the record of the move.

What the run did belongs to `state`; this module knows only the seven events and the six states.
"""

from typing import Any, Final, Literal

import msgspec

from clew.core.times import valid_time
from clew.errors import Corrupt, Refused, UsageError

OperationEvent = Literal["ACCEPT", "START", "PAUSE", "RESUME", "REQUEST_ABORT", "COMPLETE", "FAIL"]
OperationStatus = Literal["accepted", "running", "paused", "aborting", "completed", "failed"]

TERMINAL: Final = frozenset({"completed", "failed"})

_MOVES: Final[dict[OperationEvent, tuple[OperationStatus, frozenset[str]]]] = {
    "START": ("running", frozenset({"accepted"})),
    "PAUSE": ("paused", frozenset({"running"})),
    "RESUME": ("running", frozenset({"paused"})),
    "REQUEST_ABORT": ("aborting", frozenset({"accepted", "running", "paused"})),
    "COMPLETE": ("completed", frozenset({"running"})),
    "FAIL": ("failed", frozenset({"accepted", "running", "paused", "aborting"})),
}


def _member(attribute: str) -> str:
    """The name on disk of an attribute: camelCase, and `from`, which Python keeps for itself."""
    first, *others = attribute.rstrip("_").split("_")
    return first + "".join(word.title() for word in others)


class OperationRecord(msgspec.Struct, frozen=True, omit_defaults=True, rename=_member):
    """One move, as the payload of an `operation` record; members named as on disk.

    Source:
        contract §2.3.
    """

    schema_version: int
    operation_id: str
    run_id: str
    correlation_id: str
    sequence: int
    event_id: str
    event: str
    from_: str | None
    to: str
    timestamp: str
    reason: str | None = None


class DurableOperation(msgspec.Struct, frozen=True):
    """The lifecycle of one run: where it stands and every move that led there. Immutable.

    Source:
        contract §2.3, #1 to #16; promise 1.
    """

    records: tuple[OperationRecord, ...]

    @staticmethod
    def create(
        *, run_id: str, operation_id: str, event_id: str, at: str, correlation_id: str = ""
    ) -> "DurableOperation":
        """A new operation in state accepted, holding its ACCEPT record.

        Raises:
            UsageError: `invalid_operation_state` for a blank id or a time that does not parse.
        """
        first = OperationRecord(
            schema_version=1,
            operation_id=operation_id,
            run_id=run_id,
            correlation_id=correlation_id or f"{run_id}:{operation_id}",
            sequence=1,
            event_id=event_id,
            event="ACCEPT",
            from_=None,
            to="accepted",
            timestamp=at,
        )
        _check_given(first)
        return DurableOperation((first,))

    @staticmethod
    def restore(records: "tuple[OperationRecord, ...] | list[OperationRecord]") -> "DurableOperation":
        """Rebuild an operation from its records, in the order given; nothing is sorted.

        Raises:
            Corrupt: `operation_state_corrupt` when a record is missing, out of order, illegal or of another operation.
        """
        if not records:
            raise _corrupt("there is no operation record", 0)
        operation = DurableOperation(()).read(records[0])
        for record in records[1:]:
            operation = operation.read(record)
        return operation

    def read(self, record: OperationRecord) -> "DurableOperation":
        """Take one more record from a journal.

        Raises:
            Corrupt: `operation_state_corrupt`; the record's place and what is wrong are named.
        """
        why = self._objection(record)
        if why:
            raise _corrupt(why, record.sequence)
        return DurableOperation((*self.records, record))

    def move(self, event: OperationEvent, *, event_id: str, at: str, reason: str | None = None) -> "DurableOperation":
        """Make one move; the same event id with the same content again changes nothing and returns this very operation.

        Raises:
            Refused: `invalid_operation_transition` when the table does not allow it; `operation_event_conflict` when
                the id was used for another event or reason.
            UsageError: `invalid_operation_state` for a blank id or a time that does not parse.
        """
        for record in self.records:
            if record.event_id == event_id:
                return self._repeated(record, event, reason)
        to = legal_target(self.state, event)
        if to is None:
            raise Refused(
                f"operation {self.operation_id!r} is {self.state}; {event} is not possible",
                code="invalid_operation_transition",
                next="Look at the run with `clew show`; a completed or failed run never goes on.",
                state=self.state,
                event=event,
            )
        last = self.records[-1]
        record = OperationRecord(
            schema_version=1,
            operation_id=last.operation_id,
            run_id=last.run_id,
            correlation_id=last.correlation_id,
            sequence=last.sequence + 1,
            event_id=event_id,
            event=event,
            from_=last.to,
            to=to,
            timestamp=at,
            reason=reason,
        )
        _check_given(record)
        return DurableOperation((*self.records, record))

    def _repeated(self, record: OperationRecord, event: str, reason: str | None) -> "DurableOperation":
        if record.event == event and record.reason == reason:
            return self
        stands, given = f"{record.event} (reason {record.reason!r})", f"{event} (reason {reason!r})"
        raise Refused(
            f"event id {record.event_id!r} already stands for {stands}, not for {given}",
            code="operation_event_conflict",
            next="Give every move an event id of its own.",
            eventId=record.event_id,
        )

    def _objection(self, record: OperationRecord) -> str:
        """Why a record cannot follow; empty when it can."""
        if record.schema_version != 1 or not valid_time(record.timestamp):
            return "has another version or no readable time"
        if any(
            not text.strip() for text in (record.operation_id, record.run_id, record.correlation_id, record.event_id)
        ):
            return "has a blank id"
        if record.sequence != len(self.records) + 1:
            return f"has number {record.sequence}, expected {len(self.records) + 1}"
        if not self.records:
            accepted = record.event == "ACCEPT" and record.from_ is None and record.to == "accepted"
            return "" if accepted else "does not begin with ACCEPT"
        first, last = self.records[0], self.records[-1]
        same = (first.operation_id, first.run_id, first.correlation_id)
        if (record.operation_id, record.run_id, record.correlation_id) != same:
            return "belongs to another operation"
        if any(record.event_id == earlier.event_id for earlier in self.records):
            return f"repeats event id {record.event_id!r}"
        if record.from_ != last.to or legal_target(last.to, record.event) != record.to:
            return f"moves from {record.from_!r} to {record.to!r} by {record.event!r} while {last.to!r}"
        return ""

    @property
    def state(self) -> OperationStatus:
        """Where the run stands."""
        return self.records[-1].to  # type: ignore[return-value]  # `read` and `move` admit no other word

    @property
    def operation_id(self) -> str:
        """The operation's id within its run."""
        return self.records[0].operation_id

    @property
    def run_id(self) -> str:
        """The run it belongs to."""
        return self.records[0].run_id

    @property
    def reason(self) -> str | None:
        """Why it is in this state, as the last move said."""
        return self.records[-1].reason

    @property
    def terminal(self) -> bool:
        """True when nothing can follow."""
        return self.state in TERMINAL

    def snapshot(self) -> dict[str, Any]:
        """The operation as pure JSON; a copy."""
        first, last = self.records[0], self.records[-1]
        view: dict[str, Any] = {
            "schemaVersion": 1,
            "operationId": first.operation_id,
            "runId": first.run_id,
            "correlationId": first.correlation_id,
            "state": last.to,
            "transitionSequence": last.sequence,
            "createdAt": first.timestamp,
            "updatedAt": last.timestamp,
        }
        if last.reason is not None and last.to in ("paused", "failed"):
            view["pauseReason" if last.to == "paused" else "failureReason"] = last.reason
        return view


def legal_target(state: str, event: str) -> OperationStatus | None:
    """The state that an event leads to from here, or None when the move is not legal."""
    to, sources = _MOVES.get(event, (None, frozenset()))  # type: ignore[call-overload]  # a stranger's word is a None
    return to if state in sources else None


def _check_given(record: OperationRecord) -> None:
    """Refuse what a caller gave wrongly, before it becomes a record."""
    if any(not text.strip() for text in (record.operation_id, record.run_id, record.correlation_id, record.event_id)):
        raise _given("an id is blank")
    if not valid_time(record.timestamp):
        raise _given(f"time {record.timestamp!r} is not ISO-8601 UTC")


def _given(why: str) -> UsageError:
    return UsageError(
        f"operation cannot move: {why}",
        code="invalid_operation_state",
        next="Give non-blank ids and times such as 2026-11-29T14:00:00.000Z.",
    )


def _corrupt(why: str, sequence: int) -> Corrupt:
    return Corrupt(
        f"operation record {sequence} {why}" if sequence else why,
        code="operation_state_corrupt",
        next="Do not edit the journal; run `clew verify` to see the line, and restore it from a copy.",
        operationSequence=sequence,
    )
