"""One pass over a journal, whatever its bytes come from: records, their places, the unclosed leg, and how it ends."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Literal, Protocol

from clew.core.codec import MAX_APPEND, BadLine, LineReader, read_record, read_records
from clew.core.records import Batch, Head, Record
from clew.core.tail import check_head, judge_tail
from clew.stores.base import Tail
from clew.stores.refusals import conflicting, corrupt_place

# A writer that appends all the time could be followed for ever; after so many looks the end is judged as it is.
_LOOKS = 8
_PORTION = 1 << 16

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
        self._why = ""
        self._unterminated = False
        self._tail: Tail | None = None

    def __iter__(self) -> Iterator[tuple[Record, int]]:
        # Not a generator: going through one a record is a twentieth of the whole reading.
        return chain.from_iterable(self._portions())

    def _portions(self) -> Iterator[list[tuple[Record, int]]]:
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

    @property
    def _at(self) -> int:
        """Where what was not read yet begins: behind the last good line, and its LF if it has one."""
        return self._lines.size_bytes - self._unterminated

    def _good_lines(self) -> Iterator[list[tuple[Record, int]]]:
        """Records in portions, up to the first bad line or the end; leaves the place and what is wrong there behind."""
        rest, self._why = b"", ""
        pieces = self._after_missing_lf()
        try:
            for piece in pieces:
                begun = piece.find(b"\n") + 1 if rest else 0
                if begun:
                    yield from self._fed(rest + piece[:begun])
                end = piece.rfind(b"\n", begun) + 1 or begun
                for lines in _few(piece, begun, end):
                    yield from self._fed(lines)
                rest = piece[end:] if end else rest + piece
                if len(rest) > MAX_APPEND:
                    raise BadLine(f"it is longer than {MAX_APPEND} bytes")
            if rest:
                last = self._fed_singly(rest)
                self._unterminated = True
                yield [last]
        except BadLine as bad:
            self._why = bad.why

    def _fed(self, whole: bytes) -> Iterator[list[tuple[Record, int]]]:
        """The records of whole lines with their places, read together where that is possible."""
        records = read_records(whole)
        if records is None:
            # One of them is not as msgspec would write it; the lines before the first bad one still count.
            yield from ([self._fed_singly(line)] for line in whole.split(b"\n")[:-1])
            return
        taken, why = self._lines.follow(records, whole)
        for record, _ in taken:
            if record.kind != "event":
                self._follow_leg(record)
        if taken:
            # Behind what ends a leg only the next leg may begin, so of events the last one is enough.
            self._follow_leg(taken[-1][0])
        yield taken
        if why:
            raise BadLine(why)

    def _fed_singly(self, line: bytes) -> tuple[Record, int]:
        at, record = self._at, self._lines.feed(line)
        self._follow_leg(record)
        return record, at

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
            yield first[1:]
        yield from pieces

    def _follow_leg(self, record: Record) -> None:
        if record.kind in ("start", "resume"):
            leg = record.payload.get("leg")
            if isinstance(leg, dict):
                self.leg, self.leg_since = leg, record.timestamp
        elif record.kind in ("pause", "finish") or _ends_leg(record):
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


def _ends_leg(record: Record) -> bool:
    event = record.payload.get("event")
    return type(event) is dict and event.get("type") == "leg_ended"


def _few(piece: bytes, at: int, end: int) -> Iterator[bytes]:
    """Whole lines between two places, in portions that the processor's cache holds while they are read and folded."""
    while at < end:
        behind = piece.rfind(b"\n", at, min(at + _PORTION, end)) + 1 or piece.index(b"\n", at) + 1
        yield piece[at:behind]
        at = behind


def place_of_repeated(batch: Batch, source: Source, following: int) -> int:
    """Where a batch stands already, byte for byte: an append that is tried again adds nothing.

    Args:
        batch: What is to be appended, though it does not begin with the next record.
        source: The journal as the writer acknowledged it.
        following: The number of the next record.

    Raises:
        Storage: `run_state_conflict` when other records stand in its place, or when it would leave a gap.

    Source:
        contract #26 to #28.
    """
    # Beyond that nothing is acknowledged, even if the cache shows it.
    known = JournalReading(batch.run_id, source, None) if batch.last < following else ()
    for record, at in known:
        if record.sequence == batch.first and _begin_with(source.pieces(at), batch.data):
            return at
    raise conflicting(batch.run_id, batch.first, following)


def _begin_with(pieces: Iterator[bytes], wanted: bytes) -> bool:
    for piece in pieces:
        if not wanted.startswith(piece[: len(wanted)]):
            return False
        wanted = wanted[len(piece) :]
        if not wanted:
            return True
    return False


def record_of_line(run_id: str, line: bytes | None, position: int) -> Record:
    """A line that was read by its position, as a record of this run."""
    try:
        record = read_record(line or b"")
    except BadLine as bad:
        raise corrupt_place(run_id, position, bad.why) from bad
    if record.run_id != run_id:
        raise corrupt_place(run_id, position, f"it belongs to run {record.run_id!r}")
    return record
