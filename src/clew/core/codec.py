"""One line of a journal to a record and back, strictly. What stands at the end of a file is judged in `tail`."""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, get_args

import msgspec

from clew.core.chain import genesis, link
from clew.core.records import Batch, Draft, Head, Kind, Record
from clew.errors import Refused

MAX_APPEND = 32 * 1024 * 1024

CHAIN_BYTES = len(',"chain":""') + 64
"""Length of the member `chain` in a line, its leading comma included."""

KINDS = get_args(Kind)

_encode = msgspec.json.Encoder().encode
_decode_any = msgspec.json.Decoder().decode
_decode_record = msgspec.json.Decoder(Record).decode
_decode_records = msgspec.json.Decoder(Record).decode_lines
_encode_records = msgspec.json.Encoder().encode_lines

_REQUIRED = (("version", int), ("runId", str), ("sequence", int), ("timestamp", str), ("kind", str), ("payload", dict))
_OPTIONAL = (("eventId", str), ("chain", str), ("append", int))

# What msgspec raises on a value or text that only the standard library may judge; its own errors are ValueErrors.
NOT_FAST = (ValueError, OverflowError, RecursionError)


class BadLine(ValueError):
    """A line that is not the next record of its journal. Whether that is a torn end or damage, `tail` decides.

    `why` says what is wrong with it.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member name is repeated")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits[:40]} is out of range")
    return number


_decode_slowly = json.JSONDecoder(
    object_pairs_hook=_without_repeats, parse_constant=_refuse_constant, parse_float=_finite
).decode


def strict_json_slow(line: bytes) -> Any:
    """What `strict_json` says of a line that msgspec refuses or would write otherwise, by the standard parser.

    Raises:
        BadLine: the line is not strict JSON.
    """
    try:
        return _decode_slowly(line.decode("utf-8", "strict"))
    except RecursionError:
        raise BadLine("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadLine(f"it is not strict JSON: {error.msg} at its character {error.pos + 1}") from None
    except ValueError as error:
        raise BadLine(f"it is not strict JSON: {error}") from None


def strict_json(line: bytes) -> Any:
    """The value of one line of JSON, refusing all that two readers could read differently.

    A line that msgspec would write again with the same bytes repeats no member name at any depth. All others are read
    by the standard parser with hooks: repeated names, NaN, Infinity, numbers out of range, a byte order mark and bytes
    that are not UTF-8 are refused; escaped lone surrogates are accepted.

    Raises:
        BadLine: the line is not strict JSON.

    Source:
        reference/journal.md §3.
    """
    try:
        value = _decode_any(line)
        if _encode(value) == line:
            return value
    except NOT_FAST:
        pass
    return strict_json_slow(line)


def record_of(value: Any) -> Record:
    """A record from what a line holds, each member of its exact type: `true` is no number, `2.0` is no sequence.

    Raises:
        BadLine: it is not a RunState record.

    Source:
        contract §2.2.
    """
    if type(value) is not dict:
        raise BadLine("it is not an object")
    for name, wanted in _REQUIRED:
        if type(value.get(name)) is not wanted:
            raise BadLine(f"its {name} is missing or has the wrong type")
    for name, wanted in _OPTIONAL:
        if name in value and type(value[name]) is not wanted:
            raise BadLine(f"its {name} has the wrong type")
    if value["version"] != 1:
        raise BadLine("its version is not 1")
    if value["kind"] not in KINDS:
        raise BadLine(f"its kind {value['kind'][:40]!r} is not known")
    return Record(
        version=1,
        run_id=value["runId"],
        sequence=value["sequence"],
        event_id=value.get("eventId", msgspec.UNSET),
        timestamp=value["timestamp"],
        kind=value["kind"],
        payload=value["payload"],
        chain=value.get("chain"),
        append=value.get("append"),
    )


def read_record(line: bytes) -> Record:
    """One line as a record by itself, whatever stands before it: `record_of(strict_json(line))`, at full speed.

    Raises:
        BadLine: it is not strict JSON, or not a RunState record.

    Source:
        contract §2.2; reference/journal.md §3.
    """
    try:
        record = _decode_record(line)
        if _encode(record) == line:
            return record
    except NOT_FAST:
        pass
    return record_of(strict_json_slow(line))


def read_records(lines: bytes) -> list[Record] | None:
    """Several whole lines as records, or None when each must be looked at by itself: `read_record`, at full speed.

    What msgspec would write again with the same bytes is strict; else it is not said which line is wrong, or whether
    any is. `lines` ends in LF.
    """
    try:
        records = _decode_records(lines)
        if _encode_records(records) == lines:
            return records
    except NOT_FAST:
        pass
    return None


def value_of(line: bytes, previous: str, append: int) -> str:
    """The chain value that a line with this `append` should carry when `previous` stands before it.

    What the line carries in the place of its value is the only part that is not covered, so no other place can pass.
    """
    behind = b',"append":%d}' % append
    return link(previous, line[: -CHAIN_BYTES - len(behind)], behind)


class LineReader:
    """Reads the lines of one journal in order. Lives for one pass; knows nothing of files.

    After a `BadLine` it stands unchanged at the last good record: ask `tail` what the rest of the file is.

    Attributes:
        sequence: The last good record's, 0 before the first.
        chain: The last good record's value; the run's genesis before the first and in an unchained journal.
        last_append: The last good record's `append`; None before the first and in an unchained journal.
        size_bytes: How long the good lines are, each with its LF.
    """

    __slots__ = ("_behind", "_head_at", "_head_chain", "chain", "last_append", "run_id", "sequence", "size_bytes")

    def __init__(self, run_id: str, head: Head | None = None) -> None:
        self.run_id = run_id
        self.sequence = 0
        self.chain = genesis(run_id)
        self.last_append: int | None = None
        self.size_bytes = 0
        self._behind = b""
        self._head_at = head.sequence if head else 0
        self._head_chain = head.chain if head else ""

    def feed(self, line: bytes) -> Record:
        """The next record, from its line without LF.

        Raises:
            BadLine: the line is not the next record; with a head, also when it is not the one that the head names.

        Source:
            reference/journal.md §1 and §2; promise 4.
        """
        record = read_record(line)
        _, why = self.follow((record,), line + b"\n")
        if why:
            raise BadLine(why)
        return record

    def follow(self, records: Sequence[Record], lines: bytes) -> tuple[list[tuple[Record, int]], str]:
        """Take the records that whole lines were read to, as far as each is the next one.

        Returns:
            Those that were taken, each with where its line begins, and what is wrong with the first that was not;
            empty when all were.
        """
        taken: list[tuple[Record, int]] = []
        run_id, head_at, find, start, begun, why = self.run_id, self._head_at, lines.find, 0, self.size_bytes, ""
        sequence, chain, last, behind = self.sequence, self.chain, self.last_append, self._behind
        try:
            for record in records:
                end, following = find(b"\n", start), sequence + 1
                if record.sequence != following or record.run_id != run_id:
                    raise BadLine(f"it is not record {following} of run {run_id!r}")
                if following == head_at and record.chain != self._head_chain:
                    raise BadLine("its chain value is not the one that the head names")
                event_id, append = record.event_id, record.append
                if event_id.__class__ is str and (not event_id or event_id.isspace()):
                    raise BadLine("its eventId is blank")
                if append is None:
                    if record.chain is not None or last is not None:
                        raise BadLine("the chain stops here")
                else:
                    if append != last:
                        behind = _beginning(append, following, unchained=sequence > 0 and last is None)
                    cut = end - len(behind)
                    if not lines.startswith(behind, cut, end):
                        raise BadLine("append is not its last member")
                    value = sha256(chain.encode() + lines[start : cut - CHAIN_BYTES] + behind).hexdigest()
                    if record.chain != value:
                        raise BadLine("its chain value is not what its bytes and the line before it give")
                    chain, last = value, append
                taken.append((record, begun + start))
                sequence, start = following, end + 1
        except BadLine as bad:
            why = bad.why
        self.sequence, self.chain, self.last_append, self._behind = sequence, chain, last, behind
        self.size_bytes = begun + start
        return taken, why


def _beginning(append: int, sequence: int, *, unchained: bool) -> bytes:
    """The end of the lines of an append that begins with this record."""
    if unchained:
        raise BadLine("a chain begins in the middle")
    if append != sequence:
        raise BadLine(f"its append is {append}, neither its own sequence nor that of the record before it")
    return b',"append":%d}' % append


def _by_standard_library(record: Record) -> bytes:
    """The record as ASCII by the standard library, which refuses NaN; its payload becomes what a reader will find."""
    line = json.dumps(msgspec.to_builtins(record), allow_nan=False, separators=(",", ":")).encode()
    record.payload = strict_json_slow(line)["payload"]
    return line


def _encode_record(record: Record) -> bytes:
    """The line of a record, without LF.

    msgspec writes NaN and Infinity as `null`, so a line without `null` holds none of them, and only a line with one is
    read back and compared.
    """
    try:
        line = _encode(record)
        if b"null" not in line or _decode_record(line).payload == record.payload:
            return line
    except NOT_FAST:
        pass
    return _by_standard_library(record)


def encode_append(
    run_id: str, *, after: int, chain: str, drafts: Sequence[Draft], timestamp: str, event_ids: Sequence[str]
) -> Batch:
    """Number, chain and encode the records that are to be written together.

    Args:
        run_id: The run.
        after: Sequence of the record before, 0 at the birth of a journal.
        chain: Chain value of the record before, `genesis(run_id)` at the birth.
        drafts: What is said, at least one; payloads already hold nothing but JSON (`jsonable`). They are not copied.
        timestamp: The same for all records of an append.
        event_ids: One for each draft.

    Returns:
        The batch; its records equal what a reader will read.

    Raises:
        Refused: `append_too_large` when the lines exceed `MAX_APPEND` bytes.
        ValueError: a number in a payload is NaN or Infinity, which is never written as `null`.

    Source:
        reference/journal.md §1, §3 and §4.
    """
    assert drafts, "an append holds at least one record"
    first = after + 1
    end = b',"append":%d}' % first
    records: list[Record] = []
    pieces: list[bytes] = []
    for sequence, (draft, event_id) in enumerate(zip(drafts, event_ids, strict=True), first):
        record = Record(1, run_id, sequence, event_id, timestamp, draft.kind, draft.payload)
        body = _encode_record(record)[:-1]
        chain = link(chain, body, end)
        record.chain, record.append = chain, first
        pieces += (body, b',"chain":"', chain.encode(), b'"', end, b"\n")
        records.append(record)
    data = b"".join(pieces)
    if len(data) > MAX_APPEND:
        raise Refused(
            f"Records {first} to {first + len(records) - 1} of run {run_id!r} take {len(data)} bytes in one append, "
            f"more than {MAX_APPEND}.",
            code="append_too_large",
            next="Keep large content as a file or artifact and pass its name instead of its bytes.",
            run=run_id,
            bytes=len(data),
            limit=MAX_APPEND,
        )
    return Batch(run_id, first, sequence, data, chain, tuple(records))
