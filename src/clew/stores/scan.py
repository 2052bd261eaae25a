"""One pass over a journal, whatever its bytes come from: records, their places, the unclosed leg, and how it ends."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

from clew.core.codec import MAX_APPEND, BadLine, LineReader, read_record
from clew.core.records import Head, Record
from clew.core.tail import check_head, judge_tail
from clew.stores.base import Tail
from clew.stores.refusals import corrupt_place

# A writer that appends all the time could be followed for ever; after so many looks the end is judged as it is.
_LOOKS = 8

OwnerState = Literal["alive", "stopped", "gone", "elsewhere"]


class Source(Protocol):
    """The bytes of one journal, which may grow while they are read."""

    def pieces(self, start: int) -> Iterator[bytes]:
        """The bytes from `start` to the length that the journal has now."""
        ...


class JournalReading:
    """A reading (`stores.base.Reading`) of a source. Lives for one pass.

    An end that is wrong is looked at again, because a living writer may be in the middle of it: only bytes that are
    the same twice are judged.

    Attributes:
        leg: The last leg that no `pause`, `finish` or `leg_ended` closed.
        leg_since: The timestamp of the record that opened it.

    Source:
        reference/journal.md §2; DESIGN §4 "The end of a file".
    """

    def __init__(
        self,
        run_id: str,
        source: Source,
        head: Head | None,
        owner_state: Callable[[dict[str, Any]], OwnerState] | None = None,
    ) -> None:
        self.leg: dict[str, Any] | None = None
        self.leg_since = ""
        self._source = source
        self._head = head
        self._owner_state = owner_state
        self._lines = LineReader(run_id, head)
        self._at = 0
        self._why = ""
        self._unterminated = False
        self._tail: Tail | None = None

    def __iter__(self) -> Iterator[tuple[Record, int]]:
        seen, settled = (-1, b""), False
        for _ in range(_LOOKS):
            yield from self._good_lines()
            if not self._why and not self._unterminated:
                seen, settled = (self._at, b""), True
                break
            before, seen = seen, (self._at, self._rest())
            settled = seen == before
            if settled:
                break
        self._tail = self._judge(seen[1], settled)

    @property
    def tail(self) -> Tail:
        """How the journal ends. Only after the last record."""
        assert self._tail is not None, "read to the last record first"
        return self._tail

    def _good_lines(self) -> Iterator[tuple[Record, int]]:
        """Records up to the first bad line or the end; leaves the place and what is wrong there behind."""
        rest, self._why = b"", ""
        pieces = self._after_missing_lf()
        try:
            for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    at, self._at = self._at, self._feed(line, self._at) + 1
                    yield self._record, at
                if len(rest) > MAX_APPEND:
                    raise BadLine(f"it is longer than {MAX_APPEND} bytes")
            if rest:
                at, self._at = self._at, self._feed(rest, self._at)
                self._unterminated = True
                yield self._record, at
        except BadLine as bad:
            self._why = bad.why

    def _after_missing_lf(self) -> Iterator[bytes]:
        """The pieces from the next line on: behind a last line without LF, its LF may have come meanwhile."""
        pieces = self._source.pieces(self._at)
        if self._unterminated:
            first = next(pieces, b"")
            if not first:
                return
            if first[:1] != b"\n":
                raise BadLine("the line before it is whole, but its end is another byte than LF")
            self._unterminated = False
            self._at += 1
            yield first[1:]
        yield from pieces

    def _feed(self, line: bytes, at: int) -> int:
        self._record = record = self._lines.feed(line)
        if record.kind != "operation":
            self._follow_leg(record)
        return at + len(line)

    def _follow_leg(self, record: Record) -> None:
        payload = record.payload
        if record.kind in ("start", "resume"):
            leg = payload.get("leg")
            if isinstance(leg, dict):
                self.leg, self.leg_since = leg, record.timestamp
        elif record.kind in ("pause", "finish"):
            self.leg = None
        elif record.kind == "event":
            event = payload.get("event")
            if isinstance(event, dict) and event.get("type") == "leg_ended":
                self.leg = None

    def _rest(self) -> bytes:
        """The bytes from the first bad line on, as they are now; one more than may be torn is enough to know."""
        rest = bytearray()
        for piece in self._source.pieces(self._at):
            rest += piece
            if len(rest) > MAX_APPEND:
                break
        return bytes(rest)

    def _judge(self, rest: bytes, settled: bool) -> Tail:
        """Torn or corrupt, by the rule; of an end that keeps changing only that somebody writes it."""
        alive = self._owner_lives()
        if settled or not alive:
            self._refuse_damage(rest)
        if not self._why and not self._unterminated:
            return Tail("clean", self._at)
        if alive:
            return Tail("being_written", self._at, len(rest), self._why)
        return Tail("torn" if self._why else "unterminated", self._at, len(rest), self._why)

    def _refuse_damage(self, rest: bytes) -> None:
        lines, following = self._lines, self._lines.sequence + 1
        why = self._why or "the file ends"
        if self._why:
            judge_tail(
                rest,
                run_id=lines.run_id,
                at_byte=self._at,
                next_sequence=following,
                last_append=lines.last_append,
                why=why,
            )
        check_head(self._head, run_id=lines.run_id, at_byte=self._at, next_sequence=following, why=why)

    def _owner_lives(self) -> bool:
        if self._owner_state is None or self.leg is None:
            return False
        return self._owner_state(self.leg) in ("alive", "stopped")


def record_of_line(run_id: str, line: bytes | None, position: int) -> Record:
    """A line that was read by its position, as a record of this run."""
    try:
        record = read_record(line or b"")
    except BadLine as bad:
        raise corrupt_place(run_id, position, bad.why) from bad
    if record.run_id != run_id:
        raise corrupt_place(run_id, position, f"it belongs to run {record.run_id!r}")
    return record
