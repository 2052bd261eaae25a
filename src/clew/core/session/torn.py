"""The rule for the end of a session of ours: is what follows the last good line torn, or damage? Touches no file.

As for a journal, only lines of the last append may be missing or broken, for nobody was told that they are there. The
lines of an append of several say in a last member `append` which was the first of them; a line without it is alone.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from clew.core.codec import MAX_APPEND, BadLine, strict_json
from clew.core.tail import goes_on, lost_a_sector, pieces_of_tail

_ENDS: Final = re.compile(rb',"append":([1-9][0-9]{0,15})\}\Z')
_OPENING: Final = b'{"kind":"'


class End(msgspec.Struct, frozen=True):
    """How a session ends. `torn`: the bytes from `at_byte` on are of an append that nobody acknowledged.

    `unterminated`: the last line is whole but its LF is missing.
    """

    verdict: Literal["clean", "unterminated", "torn"]
    at_byte: int


def marked(lines: Sequence[bytes], first: int) -> bytes:
    """The bytes of one append: of several lines each says where the append began.

    Args:
        lines: Lines of JSON objects without their LF, in order.
        first: The `seq` of the first of them.
    """
    if len(lines) == 1:
        return lines[0] + b"\n"
    return b"".join(b'%b,"append":%d}\n' % (line[:-1], first) for line in lines)


def is_torn(tail: bytes, *, at_byte: int, next_seq: int, last: bytes) -> bool:
    """Say whether the rest of a session is what a last append that nobody acknowledged leaves; then it may be cut.

    Args:
        tail: All bytes of the file from the first bad line on. More than `MAX_APPEND` + 1 of them need not be given.
        at_byte: Where it begins in the file.
        next_seq: The `seq` of the line that should stand there.
        last: The last good line, which may be of the same append.

    Source:
        reference/sessions.md §7; reference/journal.md §2; promise 6.
    """
    if not tail or next_seq < 1 or len(tail) > MAX_APPEND or not _begins(tail):
        return False
    appends = {next_seq, _append_of(last)}
    for start, piece, terminated in pieces_of_tail(tail):
        append = _append_of(piece) if terminated or b"\0" in piece else None
        if append is not None and append not in appends:
            return False
        appends = appends if append is None else {append}
        if not _may_be_left(piece, at_byte + start, first=start == 0, terminated=terminated, append=append):
            return False
    return True


def _begins(tail: bytes) -> bool:
    """Does it begin as a line of ours does, as far as it was not lost?"""
    found = tail[: len(_OPENING)].partition(b"\0")[0]
    return _OPENING.startswith(found)


def _may_be_left(piece: bytes, at_byte: int, *, first: bool, terminated: bool, append: int | None) -> bool:
    """May a torn append have left this piece?"""
    try:
        strict_json(piece)
    except BadLine:
        return lost_a_sector(piece, at_byte, clipped=first) if terminated else not goes_on(piece)
    # A whole line may stand behind a broken one of its append; as the first it is not broken, but wrong.
    return not first and append is not None


def _append_of(line: bytes) -> int | None:
    found = _ENDS.search(line[-28:])
    return int(found[1]) if found else None
