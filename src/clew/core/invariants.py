"""The invariant checker: a second reader of a journal, I-1 to I-12, that trusts nothing that the fold says.

Numbers, places, sessions, checkpoints and the operation are judged here; what calls and turns do, in `conduct`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from clew.core.conduct import Conduct
from clew.core.findings import Finding, Slip
from clew.core.operation import DurableOperation, OperationRecord
from clew.core.records import Record
from clew.core.theirconduct import TheirConduct
from clew.errors import Corrupt

_AFTER_FINISH: Final = ("leg_ended", "effect_review", "restored")
_EVERY: Final = 1 << 62


class SessionFacts(msgspec.Struct, frozen=True):
    """What is known of the session that a run says it belongs to: its id, and the number of its last entry."""

    session_id: str
    last_sequence: int


def check(
    records: Iterable[Record], *, session: SessionFacts | None = None, checkpoints: Iterable[dict[str, Any]] = ()
) -> Iterator[Finding]:
    """Every finding of a journal, as its records pass; those that only its end shows come last.

    Args:
        records: In the order of the file, ours or those of another program. Nothing is sorted, skipped or kept.
        session: The session that they name, where there is one to compare with.
        checkpoints: What is kept of checkpoints beside the journal, by other programs.

    Returns:
        Findings; none for every legal journal and for every beginning of one. What is no record of any sense is a
        finding or nothing, never an error.

    Source:
        contract #222 to #233; DESIGN §13, W37, W38.
    """
    checker = Checker(session=session, checkpoints=checkpoints)
    told = 0
    for record in records:
        checker.see(record)
        yield from checker.found[told:]
        told = len(checker.found)
    checker.end()
    yield from checker.found[told:]


class Checker:
    """One pass over one journal: `see` each record, then `end`. Its memory grows with calls, turns and steps.

    Attributes:
        found: The findings so far, only the first `keep` of them.
    """

    __slots__ = (
        "_broken", "_checkpoints", "_conduct", "_last", "_legs", "_next", "_operation", "_operations", "_run_id",
        "_session", "_slip", "_status",
    )  # fmt: skip

    def __init__(
        self, *, session: SessionFacts | None = None, checkpoints: Iterable[dict[str, Any]] = (), keep: int = _EVERY
    ) -> None:
        self._slip = Slip(keep)
        self._session = session
        self._checkpoints: list[tuple[int, int, Any]] = [(0, 0, checkpoint) for checkpoint in checkpoints]
        self._conduct: Conduct | TheirConduct | None = None
        self._legs: list[tuple[int, int, Any, Any]] = []
        self._run_id = ""
        self._last: Record | None = None
        self._next = 1
        self._operation = DurableOperation(())
        self._operations: set[object] = set()
        self._broken = False
        self._status: object = None

    @property
    def found(self) -> list[Finding]:
        """The findings so far."""
        return self._slip.found

    @property
    def count(self) -> int:
        """How many there are, those included that were not kept."""
        return self._slip.count

    @property
    def session_id(self) -> str | None:
        """The session that the first leg names; None when it names none."""
        named = self._legs[0][2] if self._legs else None
        return named if type(named) is str else None

    def see(self, record: Record) -> None:
        """Judge one record and take it in."""
        slip, conduct = self._slip, self._conduct
        slip.line += 1
        slip.sequence = record.sequence
        if conduct is None:
            conduct = self._begin(record)
        if (record.sequence != self._next or record.run_id != self._run_id) and not self._misplaced(record):
            return
        self._next += 1
        self._last = record
        payload, kind = record.payload, record.kind
        if type(payload) is not dict:
            slip.note("I-11" if kind == "operation" else "I-6", f"a {kind} record holds no object")
            return
        if self._status is not None and self._late(kind, payload):
            return
        if kind == "event":
            event = payload.get("event")
            if type(event) is dict and type(event.get("type")) is str:
                conduct.see(event)
                if event["type"] == "checkpoint_created":
                    self._checkpoint({**event, "runId": self._run_id, "toolCallId": event.get("callId")})
        else:
            self._other(kind, payload, conduct)

    def end(self, session: SessionFacts | None = None) -> None:
        """There are no more records; what only the whole can show is judged now.

        `session`: what is known of the run's session now, for who can look at it only when the records are read: a
        session goes on while they are.
        """
        conduct = self._conduct
        if conduct is None:
            return
        conduct.end(self._status)
        self._associate(session or self._session)
        keys = list(conduct.keys()) if self._checkpoints else []
        known = {call for call, _ in keys}, {key for _, key in keys}
        for line, sequence, checkpoint in self._checkpoints:
            if not self._belongs(checkpoint, *known):
                name = str(checkpoint.get("checkpointId"))
                self._slip.note_at(line, sequence, "I-8", "a checkpoint of another run, operation or call", name)

    # Where a record stands.

    def _begin(self, record: Record) -> Conduct | TheirConduct:
        self._run_id = record.run_id
        ours = record.chain is not None
        self._conduct = Conduct(self._run_id, self._slip) if ours else TheirConduct(self._run_id, self._slip)
        return self._conduct

    def _misplaced(self, record: Record) -> bool:
        """A record that is not the next one; is it one to go on from, behind a gap?"""
        number, last = record.sequence, self._last
        if last is not None and number == last.sequence:
            if record != last:
                self._slip.note("I-2", f"another record {number} stands before it")
            return False
        if record.run_id != self._run_id:
            self._slip.note("I-1", f"a record of run {record.run_id!r}")
            return False
        self._slip.note("I-1", f"record {number!r} stands where record {self._next} belongs")
        if type(number) is not int or number < self._next:
            return False
        self._next = number
        return True

    def _late(self, kind: str, payload: dict[str, Any]) -> bool:
        """Behind the finish: is this a record that may not stand there?"""
        event = payload.get("event")
        followed = kind == "event" and type(event) is dict and event.get("type") in _AFTER_FINISH
        if type(self._conduct) is Conduct and (kind == "resume" or followed):
            return False
        self._slip.note("I-3", f"a {kind} record behind the finish")
        return True

    # What is no event.

    def _other(self, kind: str, payload: dict[str, Any], conduct: Conduct | TheirConduct) -> None:
        if kind == "operation":
            self._move(payload, conduct)
        elif kind in ("start", "resume"):
            leg = (payload.get("sessionId"), payload.get("sessionSeqStart"))
            self._legs.append((self._slip.line, self._slip.sequence, *leg))
            waived = payload.get("integrityWaived")
            if type(waived) is dict and waived.get("accepted") == "loss":
                conduct.doubt()
        elif kind == "checkpoint":
            if type(conduct) is Conduct:
                conduct.keep(payload)
            if conduct.state == "aborting" and "after" not in payload:
                self._slip.note("I-10", "a checkpoint after an abort was asked for", str(payload.get("checkpointId")))
            self._checkpoint(payload)
        elif kind == "delegation" and payload.get("type") == "delegation_recorded":
            conduct.delegate(payload.get("parentStepId"))
        elif kind in ("pause", "finish"):
            self._close(kind, payload, conduct)

    def _move(self, payload: dict[str, Any], conduct: Conduct | TheirConduct) -> None:
        """I-11: one chain, judged by the operation itself. Behind a break nothing of it can be judged."""
        if type(payload.get("operationId")) is str:
            self._operations.add(payload["operationId"])
        conduct.state = str(payload.get("to"))
        if self._broken:
            return
        try:
            self._operation = self._operation.read(msgspec.convert(payload, OperationRecord))
        except (msgspec.ValidationError, Corrupt) as fault:
            self._break(str(fault))
            return
        if self._operation.run_id != self._run_id:
            self._break(f"the operation is one of run {self._operation.run_id!r}")
        elif conduct.state == "completed" and not conduct.agent_ended:
            self._slip.note("I-11", "completed without the recorded end of the agent")

    def _break(self, why: str) -> None:
        self._broken = True
        self._slip.note("I-11", why)

    def _close(self, kind: str, payload: dict[str, Any], conduct: Conduct | TheirConduct) -> None:
        """A leg or the run is over, as the operation is; the status is the outcome's (W38), or stands alone."""
        outcome = payload.get("outcome")
        status = outcome.get("status") if type(outcome) is dict else payload.get("status")
        if kind == "finish":
            self._status = status if status is not None else "unknown"
        if type(conduct) is TheirConduct:
            return
        wanted = ("paused",) if kind == "pause" else ("completed", "failed")
        told = type(status) is str and (conduct.state == "completed") == (status == "succeeded")
        if conduct.state not in wanted or not told:
            self._slip.note("I-11", f"a {kind} that says {status!r} while the operation is {conduct.state}")
        elif not self._broken and payload.get("operation") != self._operation.snapshot():
            self._slip.note("I-11", f"a {kind} that tells another operation than its records")

    def _associate(self, session: SessionFacts | None) -> None:
        """I-5: the session that a leg names is the one it belongs to, and has come as far as it says."""
        if session is None:
            return
        for line, sequence, named, start in self._legs:
            if named is not None and named != session.session_id:
                why = f"the run belongs to another session than {session.session_id!r}"
            elif type(start) is int and start > session.last_sequence:
                why = f"it begins at entry {start}; the last is {session.last_sequence}"
            else:
                continue
            self._slip.note_at(line, sequence, "I-5", why, str(named))

    # Checkpoints.

    def _checkpoint(self, payload: dict[str, Any]) -> None:
        told = {name: payload[name] for name in _MEMBERS if name in payload}
        self._checkpoints.append((self._slip.line, self._slip.sequence, told))

    def _belongs(self, checkpoint: dict[str, Any], calls: set[str], keys: set[str]) -> bool:
        run, operation, call, key = (checkpoint.get(name) for name in _MEMBERS[1:])
        named: tuple[tuple[Any, Any], ...] = ((operation, self._operations), (call, calls), (key, keys))
        return run == self._run_id and all(
            name is None or (type(name) is str and name in known) for name, known in named
        )


_MEMBERS: Final = ("checkpointId", "runId", "operationId", "toolCallId", "idempotencyKey")
