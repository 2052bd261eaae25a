"""What can be saved of a session that nobody can read: a new text of its good lines, and all that it lacks. Pure.

Only who asks for it gets this: a reader never leaves anything out.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from clew.core.session.dialects import detect, no_header
from clew.core.session.lines import BOM, BadLine, dump, exact, fused_at, members, spliced
from clew.core.session.reading import read_session
from clew.core.session.values import Format
from clew.errors import Corrupt

_ROUNDS: Final = 200
_raw_decode = json.JSONDecoder().raw_decode


class LeftOut(msgspec.Struct, frozen=True, rename="camel"):
    """Bytes of the source that are not in the copy: where, how many, their SHA-256, and why."""

    line: int
    byte: int
    bytes: int
    sha256: str
    why: str


class Changed(msgspec.Struct, frozen=True, rename="camel"):
    """A line of the source that stands otherwise in the copy, and how."""

    line: int
    byte: int
    how: str


class Salvage(msgspec.Struct, frozen=True, rename="camel"):
    """What was saved: the new text, what it lacks, what is otherwise in it; `records` counts those of the copy."""

    data: bytes
    format: Format
    records: int
    left_out: tuple[LeftOut, ...]
    changed: tuple[Changed, ...]


class _Record:
    """One record of the source: its bytes, and the line that it stood on."""

    __slots__ = ("byte", "line", "raw", "value")

    def __init__(self, raw: bytes, line: int, byte: int) -> None:
        self.raw = raw
        self.line = line
        self.byte = byte
        self.value: dict[str, Any] = exact(raw.removeprefix(BOM))
        if type(self.value) is not dict:
            raise BadLine("it is not an object")

    def put(self, name: str, value: Any) -> None:
        """Say something else in one member; all other bytes stay."""
        self.value[name] = value
        self.raw = spliced(members(self.raw.removeprefix(BOM)) | {name: dump(value)})


class _Work:
    """One salvage under way."""

    def __init__(self) -> None:
        self.left_out: list[LeftOut] = []
        self.changed: list[Changed] = []
        self.records: list[_Record] = []

    def leave_out(self, raw: bytes, line: int, byte: int, why: str) -> None:
        self.left_out.append(LeftOut(line, byte, len(raw), hashlib.sha256(raw).hexdigest(), why))

    def change(self, record: _Record, how: str) -> None:
        self.changed.append(Changed(record.line, record.byte, how))


def salvage(data: bytes) -> Salvage:
    """Save what can be read of a session, in its own format.

    Two records on one line are split. A record that cannot be read is left out; who followed it follows the one before.

    Args:
        data: All bytes of the file.

    Raises:
        Corrupt: `session_corrupt` when its first line is no header that can be read.
        Refused: `session_unsupported`.

    Source:
        reference/sessions.md §8, row 1; DESIGN §8.
    """
    work = _Work()
    for line, byte, raw, terminated in _lines(data):
        _take(work, raw, line, byte, terminated=terminated)
    if not work.records or work.records[0].line != 1:
        raise no_header(data[:1])
    header = detect(work.records[0].raw)
    _mend(work, header.format)
    _settle(work)
    text = b"".join(record.raw + b"\n" for record in work.records)
    order = sorted(work.left_out, key=lambda each: each.byte)
    return Salvage(text, header.format, len(work.records) - 1, tuple(order), tuple(work.changed))


def _lines(data: bytes) -> Iterator[tuple[int, int, bytes, bool]]:
    byte, parts = 0, data.split(b"\n")
    for number, raw in enumerate(parts, 1):
        if raw or number < len(parts):
            yield number, byte, raw, number < len(parts)
        byte += len(raw) + 1


def _take(work: _Work, raw: bytes, line: int, byte: int, *, terminated: bool) -> None:
    try:
        work.records.append(_Record(raw, line, byte))
    except BadLine as error:
        if not _split(work, raw, line, byte):
            work.leave_out(raw + b"\n" * terminated, line, byte, error.why)
        return
    if not terminated:
        work.change(work.records[-1], "the line end that it lacked was added")


def _split(work: _Work, raw: bytes, line: int, byte: int) -> bool:
    """Take a line of several records apart; what stands behind the last whole one is left out."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    found: list[_Record] = []
    while fused_at(text) is not None or (found and text.strip()):
        begin = len(text) - len(text.lstrip(" \t\r"))
        try:
            end = _raw_decode(text, begin)[1]
            found.append(_Record(text[begin:end].encode(), line, byte))
        except (ValueError, RecursionError) as error:
            work.leave_out(text.encode(), line, byte, f"behind a whole record: {error}")
            break
        byte += len(text[:end].encode())
        text = text[end:]
    for record in found:
        work.records.append(record)
        work.change(record, "it shared its line with another record")
    return bool(found)


def _mend(work: _Work, format: Format) -> None:
    """Let what stood behind something that is left out stand behind what is there."""
    if format == "v1":
        _shift(work)
    elif format in ("v2", "v3"):
        _hang(work, work.records[1:], lambda record: True)
    elif format == "v4a":
        _hang(work, work.records[1:], lambda record: record.value.get("kind") == "entry")
        for number, record in enumerate(work.records[1:], 1):
            if record.value.get("seq") != number:
                record.put("seq", number)
                work.change(record, f"its seq is {number} now")


def _shift(work: _Work) -> None:
    """The kept ranges of v1 count records, those that are left out as well."""
    for record in work.records:
        index = record.value.get("firstKeptEntryIndex")
        if type(index) is not int:
            continue
        gone = sum(each.line <= index for each in work.left_out)
        if gone:
            record.put("firstKeptEntryIndex", max(0, index - gone))
            work.change(record, f"its kept range counts {gone} records less")


def _hang(work: _Work, records: list[_Record], is_entry: Any) -> None:
    known, last = set[str](), None
    for record in list(records):
        if not is_entry(record):
            continue
        name, parent = record.value.get("id"), record.value.get("parentId")
        if type(name) is not str or name in known:
            work.records.remove(record)
            work.leave_out(record.raw + b"\n", record.line, record.byte, f"the id {name!a} is missing or taken already")
            continue
        if parent is not None and parent not in known:
            record.put("parentId", last)
            work.change(record, f"it follows {last!a}, for {str(parent)[:80]!a} is not there")
        known.add(name)
        last = name


def _settle(work: _Work) -> None:
    """Leave out what cannot stand where it stands, one after the other, until a reader takes the whole."""
    for _ in range(_ROUNDS):
        try:
            read_session(b"".join(record.raw + b"\n" for record in work.records))
            return
        except Corrupt as damage:
            place = damage.facts["line"] - 1
            assert place > 0, "the header was read before"
            record = work.records.pop(place)
            work.leave_out(record.raw + b"\n", record.line, record.byte, damage.facts["why"])
            _renumber(work)
    raise no_header(b"x")


def _renumber(work: _Work) -> None:
    if work.records[0].value.get("kind") == "header":
        for number, record in enumerate(work.records[1:], 1):
            if record.value.get("seq") != number:
                record.put("seq", number)
