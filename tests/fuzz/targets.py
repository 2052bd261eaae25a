"""What arbitrary bytes are given to, and what must hold whatever they are. A fuzzer calls these, and so do plain tests.

The bytes are read as orders to build a file from whole lines, broken lines, zeros and cuts, so that a small change of
them stays near a file that is whole. Raising anything but AssertionError is a fault of clew as well.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from clew.core.folding import fold
from clew.errors import ClewError, Corrupt, UsageError
from clew.runtime.deeds import check_command
from clew.stores.base import Command
from clew.stores.published import decode, encode
from tests.core.journals import naive_records, plain
from tests.core.journals import read as read_file
from tests.histories import RUN, Scribe, completed, facts, returned, started

Target = Callable[[bytes], None]


class Orders:
    """Bytes, taken piece by piece; from the end of them on, all is zero."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        """The next byte."""
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def number(self, below: int) -> int:
        """A number from 0."""
        return (self.byte() << 8 | self.byte()) % below

    def some(self, most: int) -> bytes:
        """At most so many of the next bytes."""
        start, self._at = self._at, self._at + self.number(most + 1) + 2
        return self._data[start + 2 : self._at]


@lru_cache(maxsize=1)
def sound() -> list[bytes]:
    """The lines of a whole journal."""
    scribe = Scribe().born()
    for number in (1, 2):
        scribe.say(*started(facts(number)))
        scribe.say(*returned(facts(number)))
    scribe.say(*completed())
    return scribe.data.splitlines(keepends=True)


def built(orders: Orders, lines: list[bytes]) -> bytes:
    """A file by orders: mostly the lines in their order."""
    data, following = b"", 0
    while orders:
        match orders.byte() % 12:
            case 0:
                data += orders.some(40)
            case 1:
                data += b"\0" * orders.number(1500)
            case 2:
                data = data[: len(data) - orders.number(60)]
            case 3 if data:
                at = orders.number(len(data))
                data = data[:at] + bytes([orders.byte()]) + data[at + 1 :]
            case 4 if data:
                at = orders.number(len(data) // 512 + 1) * 512
                data = data[:at] + b"\0" * min(512, len(data) - at) + data[at + 512 :]
            case 5:
                following = orders.number(len(lines))
            case 6:
                data += b"\n"
            case _:
                data += lines[following % len(lines)]
                following += 1
    return data


def journal(data: bytes) -> None:
    """Two readers agree; what is read is a beginning of the file; a refusal is one, and repairing ends."""
    text = built(Orders(data), sound())
    try:
        found = read_file(text)
        records, end = found.records, found.at_byte
    except Corrupt as error:
        end = error.facts["byte"]
        found = None
        records = read_file(text[:end]).records
    assert repr([plain(record) for record in records]) == repr(naive_records(text))
    assert text[:end].count(b"\n") + (found is not None and found.verdict == "unterminated") == len(records)
    with suppress(Corrupt):
        fold(((record, 0) for record in records), RUN)
    if found is not None and found.verdict == "torn":
        again = read_file(text[:end])
        assert ("clean", records) == (again.verdict, again.records)


def _json(orders: Orders, depth: int = 0) -> Iterator[bytes]:
    """Something like JSON."""
    match orders.byte() % (8 if depth < 4 else 6):
        case 0:
            yield orders.some(12)
        case 1:
            yield b'"%b"' % orders.some(12)
        case 2:
            yield (b"null", b"true", b"NaN", b"1e999", b"-0", b"123456789012345678901234567890")[orders.number(6)]
        case 3:
            yield b'"\\ud800"'
        case 4 | 5:
            yield str(orders.number(1000)).encode()
        case 6:
            yield b"[" + b",".join(piece for _ in range(orders.number(4)) for piece in _json(orders, depth + 1)) + b"]"
        case _:
            yield b"{"
            for number in range(orders.number(4)):
                yield b"," * (number > 0) + b'"%b":' % (b"text", b"by", b"answer", orders.some(5))[orders.number(4)]
                yield from _json(orders, depth + 1)
            yield b"}"


_TYPES: Final = (b"pause", b"abort", b"approve", b"deny", b"steer", b"settle")
_MEMBERS: Final = (b"version", b"controlId", b"runId", b"type", b"by", b"reason", b"arguments")


def command(data: bytes) -> None:
    """A file in an inbox is a command that is understood, or refused; what is read writes itself again."""
    orders = Orders(data)
    given: dict[bytes, bytes] = dict(
        zip(_MEMBERS, (b"1", b'"c1"', b'"r1"', b'"pause"', b'"ann"', b'"why"', b"{}"), strict=True)
    )
    given[b"type"] = b'"%b"' % _TYPES[orders.number(len(_TYPES))]
    given[b"arguments"] = b"".join(_json(orders))
    while orders:
        name = _MEMBERS[orders.number(len(_MEMBERS))]
        given[name if orders.byte() % 4 else orders.some(8)] = b"".join(_json(orders))
    text = b"{" + b",".join(b'"%b":%b' % pair for pair in given.items()) + b"}" + orders.some(3)
    try:
        found = decode(text, Command)
    except ValueError:
        return
    assert decode(encode(found), Command) == found
    with suppress(UsageError):
        check_command(found)


TARGETS: Final[dict[str, Target]] = {"journal": journal, "command": command}


def strike(name: str, data: bytes) -> Any:
    """Give bytes to a target; an error of clew that comes out unexpected is a fault too."""
    try:
        TARGETS[name](data)
    except ClewError as error:
        raise AssertionError(f"{name} let out {error!r}") from error
