"""What can be saved of a session that nobody can read: a new text of its good lines, and all that it lacks. Pure.

Only who asks for it gets this: a reader never leaves anything out.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from clew.core.session.dialects import detect, no_header
from clew.core.session.lines import BadLine, after_object, after_space, fused_at
from clew.core.session.reading import read_session
from clew.core.session.rehanging import Found, Rehanging
from clew.core.session.values import Format


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


class _Work:
    """One salvage under way."""

    def __init__(self) -> None:
        self.left_out: list[LeftOut] = []
        self.changed: list[Changed] = []
        self.records: list[Found] = []
        self.slots = 0

    def leave_out(self, raw: bytes, line: int, byte: int, why: str) -> None:
        self.left_out.append(LeftOut(line, byte, len(raw), hashlib.sha256(raw).hexdigest(), why))

    def leave_out_record(self, record: Found, why: str) -> None:
        self.leave_out(record.source, record.line, record.byte, why)

    def change(self, record: Found, how: str) -> None:
        self.changed.append(Changed(record.line, record.byte, how))


def salvage(data: bytes) -> Salvage:
    """Save what can be read of a session, in its own format.

    Two records on one line are split. A record that cannot be read, or that may not stand where it stands, is left out;
    who followed it follows the one before. It costs as much as reading, whatever the damage is.

    Args:
        data: All bytes of the file.

    Raises:
        Corrupt: `session_corrupt` when its first line is no header that can be read.
        Refused: `session_unsupported`.

    Source:
        reference/sessions.md §8, row 1; DESIGN §8.
    """
    work = _Work()
    for line, byte, raw in _lines(data):
        _take(work, raw, line, byte)
    if not work.records or work.records[0].line != 1:
        raise no_header(data[:1])
    first, *rest = work.records
    header = detect(first.source.removesuffix(b"\n"))
    rehanging = Rehanging(header, work.change, work.leave_out_record)
    for record in rest:
        rehanging.add(record)
    if header.format == "v1":
        _shift(work, rehanging.kept)
    text = b"".join(record.raw + b"\n" for record in (first, *rehanging.kept))
    read_session(text)
    order = sorted(work.left_out, key=lambda each: each.byte)
    lost = {each.byte for each in order}
    changes = [each for each in work.changed if each.byte not in lost]
    return Salvage(text, header.format, len(rehanging.kept), tuple(order), tuple(changes))


def _lines(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    byte = 0
    for number, raw in enumerate(data.split(b"\n"), 1):
        line = data[byte : byte + len(raw) + 1]
        if line:
            yield number, byte, line
        byte += len(line)


def _take(work: _Work, raw: bytes, line: int, byte: int) -> None:
    try:
        record = Found(raw, line, byte, work.slots)
        if line == 1 and type(record.value) is not dict:
            raise BadLine("it is not an object")
    except BadLine as error:
        if not _split(work, raw, line, byte):
            work.leave_out(raw, line, byte, error.why)
            work.slots += 1
        return
    work.records.append(record)
    work.slots += 1
    if not raw.endswith(b"\n"):
        work.change(record, "the line end that it lacked was added")


def _split(work: _Work, raw: bytes, line: int, byte: int) -> bool:
    """Take a line of several records apart; what stands behind the last whole one is left out."""
    try:
        text = raw.removesuffix(b"\n").decode()
    except UnicodeDecodeError:
        return False
    found: list[Found] = []
    at = 0
    while fused_at(text, at) is not None or (found and after_space(text, at) < len(text)):
        begin = after_space(text, at)
        byte += begin - at
        try:
            at = after_object(text, begin)
            found.append(Found(text[begin:at].encode(), line, byte, work.slots))
        except (ValueError, RecursionError) as error:
            work.leave_out(text[begin:].encode(), line, byte, f"behind a whole record: {error}")
            break
        finally:
            work.slots += 1
        byte += len(found[-1].source)
    for record in found:
        work.records.append(record)
        work.change(record, "it shared its line with another record")
    return bool(found)


def _shift(work: _Work, kept: list[Found]) -> None:
    """The kept ranges of v1 count records, those that are left out as well."""
    slots = [0, *(record.slot for record in kept)]
    for record in kept:
        index = record.value.get("firstKeptEntryIndex")
        if type(index) is not int or not 0 < index < work.slots:
            continue
        new = bisect_left(slots, index)
        if new != index:
            record.put("firstKeptEntryIndex", new)
            work.change(record, f"its kept range counts {index - new} records less")
