"""The rule for the end of a journal's file: is what follows the last good record torn, or corrupt? Touches no file."""

import json
import re
from collections.abc import Iterator

import msgspec

from clew.core.codec import MAX_APPEND, BadLine, record_of, strict_json, value_of
from clew.core.records import Head
from clew.errors import Corrupt

SECTOR = 512
"""The piece of a file that a disk writes whole or not at all, counted from the beginning of the file."""

_ENDS = re.compile(rb',"append":([1-9][0-9]{0,15})\}\Z')
_LAST_MEMBERS = re.compile(rb',"chain":"([0-9a-f]{64})"' + _ENDS.pattern)
_raw_decode = json.JSONDecoder().raw_decode

# Sequence and chain value of a whole line.
_Place = tuple[int, str]


def check_head(head: Head | None, *, run_id: str, at_byte: int, next_sequence: int, why: str = "") -> None:
    """Refuse a journal that ends before its published head. Ask it before `judge_tail`, and of a clean end, too.

    A `LineReader` that was given the head stops at a record with another chain value, so this refuses that as well.

    Args:
        head: What was published, None when there is none.
        run_id: The run.
        at_byte: Where the last good record ends, its LF included.
        next_sequence: Sequence of the record that should stand there.
        why: What is wrong with the line there, nothing when the file ends.

    Raises:
        Corrupt: `run_state_corrupt` when the head names a record that was not read.

    Source:
        reference/journal.md §2 step 1.
    """
    if head is not None and head.sequence >= next_sequence:
        lost = f"{why or 'the file ends'}, but record {head.sequence} was acknowledged"
        raise _corrupt(
            run_id,
            next_sequence,
            at_byte,
            lost,
            next=f"Restore the file from a copy, or run `clew verify {run_id} --accept-loss --by NAME --reason TEXT`.",
        )


def judge_tail(
    tail: bytes, *, run_id: str, at_byte: int, next_sequence: int, last_append: int | None, why: str
) -> None:
    """Return when the rest of a file is a torn last append that nobody acknowledged; only then may a writer cut it.

    Args:
        tail: All bytes of the file from the first bad line on. More than `MAX_APPEND` + 1 of them need not be given.
        run_id: The run.
        at_byte: Where the tail begins in the file.
        next_sequence: Sequence of the record that should stand there.
        last_append: The `append` of the last good record, None in an unchained journal.
        why: What is wrong with the first line of the tail (`BadLine.why`).

    Raises:
        Corrupt: `run_state_corrupt` with facts `run`, `line`, `byte` and `why`, when it is anything else.

    Source:
        reference/journal.md §2 steps 3 to 5; promise 6.
    """
    damage = _beginning(tail, run_id, next_sequence) or _damage(tail, run_id, at_byte, next_sequence, last_append)
    if damage:
        raise _corrupt(
            run_id,
            next_sequence,
            at_byte,
            f"{why}; {damage}",
            next=f"Nothing was changed. Restore the file from a copy, then `clew verify {run_id}`.",
        )


def _corrupt(run_id: str, line: int, byte: int, why: str, *, next: str) -> Corrupt:
    return Corrupt(
        f"the journal of run {run_id!r} is damaged at line {line}, byte {byte}: {why}",
        code="run_state_corrupt",
        next=next,
        run=run_id,
        line=line,
        byte=byte,
        why=why,
    )


def _beginning(tail: bytes, run_id: str, next_sequence: int) -> str | None:
    """What speaks against a torn append at first sight."""
    opening = b'{"version":1,"runId":%b,"sequence":%d,' % (msgspec.json.encode(run_id), next_sequence)
    if next_sequence == 1:
        return "no whole record stands before it"
    if len(tail) > MAX_APPEND:
        return "more bytes follow than one append may have"
    if not opening.startswith(tail[: len(opening)].partition(b"\0")[0]):
        return f"it does not begin like record {next_sequence}"
    return None


def _damage(tail: bytes, run_id: str, at_byte: int, next_sequence: int, last_append: int | None) -> str | None:
    """What in the pieces of a tail a torn append cannot have left."""
    appends = {next_sequence, last_append}
    before: _Place | None = None
    for start, piece, terminated in pieces_of_tail(tail):
        append = _append_shown(piece, terminated)
        if append is not None and append not in appends:
            return "a line of another append follows"
        appends = appends if append is None else {append}
        try:
            value = strict_json(piece)
        except BadLine:
            before = None
            if terminated and not lost_a_sector(piece, at_byte + start, clipped=start == 0):
                return "a line is broken of which no whole sector is missing"
            if not terminated and goes_on(piece):
                return "a whole line is followed by other bytes than its LF"
        else:
            if start == 0:
                return "nothing of it is missing"
            try:
                before = _intact(piece, value, run_id, next_sequence, before)
            except BadLine as error:
                return f"a whole line follows, but {error.why}"
    return None


def pieces_of_tail(tail: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """The tail split at its LFs: where each piece begins in it, its bytes, and whether an LF ends it."""
    start = 0
    while start < len(tail):
        stop = tail.find(b"\n", start)
        yield start, tail[start : stop if stop >= 0 else None], stop >= 0
        start = stop + 1 if stop >= 0 else len(tail)


def _append_shown(piece: bytes, terminated: bool) -> int | None:
    """The `append` at the end of a line, which a broken line shows as well.

    A piece that is only cut short ends anywhere, so in the middle of a payload that holds a member of this name, too.
    """
    shown = _ENDS.search(piece[-28:]) if terminated or b"\0" in piece else None
    return int(shown[1]) if shown else None


def lost_a_sector(piece: bytes, at_byte: int, *, clipped: bool) -> bool:
    """Is a whole sector inside the piece zero? `clipped`: the first one began before the piece and counts as well."""
    start = 0 if clipped else -at_byte % SECTOR
    while (stop := start + SECTOR - (at_byte + start) % SECTOR) <= len(piece):
        if not piece[start:stop].strip(b"\0"):
            return True
        start = stop
    return False


def goes_on(piece: bytes) -> bool:
    """Does the piece begin with a whole value behind which more bytes stand that are not zero?"""
    text = piece.partition(b"\0")[0].decode(errors="replace")
    try:
        return _raw_decode(text)[1] < len(text)
    except (ValueError, RecursionError):
        return False


def _intact(piece: bytes, value: object, run_id: str, next_sequence: int, before: _Place | None) -> _Place:
    """A whole line behind a broken one: the place of its record, which must be of the same append."""
    record = record_of(value)
    ends = _LAST_MEMBERS.search(piece[-110:])
    if not ends or record.run_id != run_id or record.sequence <= next_sequence:
        raise BadLine("it is not a later record of this run")
    chain = ends[1].decode()
    if before and (record.sequence, chain) != (before[0] + 1, value_of(piece, before[1], int(ends[2]))):
        raise BadLine("it does not continue the whole line before it")
    return record.sequence, chain
