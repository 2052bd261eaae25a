"""Two changes of one text, tried on one another, as bytes: lines are cut at LF and never decoded. Nothing else."""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

MERGE_BYTES: Final = 4 << 20
"""The longest text that is compared line by line."""

_MOST_PAIRS: Final = 4_000_000
_NOT_TEXT: Final = (b"\xff\xfe", b"\xfe\xff")

Hunk = tuple[int, int, tuple[bytes, ...]]
"""Lines of the base from one number up to another, and what stands in their place."""


def is_text(data: bytes) -> bool:
    """May lines be told apart in it? No NUL byte, and no mark of UTF-16; any other encoding will do."""
    return b"\0" not in data and not data.startswith(_NOT_TEXT)


def lines_of(data: bytes) -> list[bytes]:
    """Its lines, each with its LF; only the last may have none. Whatever else ends a line elsewhere stays inside."""
    found = [line + b"\n" for line in data.split(b"\n")]
    last = found.pop()[:-1]
    return [*found, last] if last else found


def comparable(one: Sequence[bytes], other: Sequence[bytes]) -> bool:
    """Can these lines be compared in a moment? Many that are equal to many others would take hours."""
    counted = Counter(other)
    return sum(times * counted[line] for line, times in Counter(one).items()) <= _MOST_PAIRS


def merged(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """The text with both changes, where they are apart; None where they meet, or where nobody can say.

    A change that both made counts once. Changes of neighbouring lines meet.

    Args:
        base: What both were made from.
        ours: As the one left it.
        theirs: As the other did.

    Returns:
        Bytes of which every line stands in one of the three; never a mark of a conflict.

    Source:
        DESIGN §7; issue "Files can be put back", item 2. Git is never run, so its merge-file is not either.
    """
    if max(map(len, (base, ours, theirs))) > MERGE_BYTES or not all(map(is_text, (base, ours, theirs))):
        return None
    lines = lines_of(base)
    sides = lines_of(ours), lines_of(theirs)
    if not all(comparable(lines, side) for side in sides):
        return None
    woven = _woven(*(_hunks(lines, side) for side in sides))
    return None if woven is None else b"".join(_applied(lines, woven))


def _hunks(base: Sequence[bytes], side: Sequence[bytes]) -> list[Hunk]:
    start = _equal_start(base, side)
    end = _equal_start(base[start:][::-1], side[start:][::-1])
    matcher = SequenceMatcher(None, base[start : len(base) - end], side[start : len(side) - end], autojunk=False)
    return [
        (start + low, start + high, tuple(side[start + new : start + upto]))
        for tag, low, high, new, upto in matcher.get_opcodes()
        if tag != "equal"
    ]


def _equal_start(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    pairs = zip(one, other, strict=False)
    return next((number for number, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _woven(ours: list[Hunk], theirs: list[Hunk]) -> list[Hunk] | None:
    """All hunks in the order of the base; None when two meet that are not the same.

    Those of one side never meet: a line that did not change stands between them.
    """
    hunks: list[Hunk] = []
    for hunk in sorted({*ours, *theirs}, key=lambda each: (each[0], each[1])):
        if hunks and hunk[0] <= hunks[-1][1]:
            return None
        hunks.append(hunk)
    return hunks


def _applied(base: Sequence[bytes], hunks: Sequence[Hunk]) -> Iterator[bytes]:
    done = 0
    for low, high, lines in hunks:
        yield from base[done:low]
        yield from lines
        done = high
    yield from base[done:]
