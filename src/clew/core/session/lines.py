"""One line of a session to a value and back, exactly, and bytes cut into lines. What a line means is not known here."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from clew.core.canon import joined
from clew.errors import Corrupt

BOM: Final = b"\xef\xbb\xbf"

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_quote: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_raw_decode: Final = json.JSONDecoder().raw_decode
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SHOWN: Final = 60


class BadLine(ValueError):
    """A line that cannot stand where it stands.

    Attributes:
        why: What is wrong with it.
        reason: The same as a stable word.
        ids: The entries, calls or keys that it is about.
    """

    def __init__(self, why: str, *, reason: str = "not_a_record", ids: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.why = why
        self.reason = reason
        self.ids = ids


def shown(text: object) -> str:
    """A name of somebody else's for a message: in quotes, cut, without anything that a terminal acts upon."""
    return ascii(text if len(str(text)) <= _SHOWN else f"{str(text)[:_SHOWN]}…")


def exact(line: bytes) -> Any:
    """The value of one line of JSON, refusing what two readers could read differently, and rounding nothing.

    Integers of any size stay exact. A number beyond the range of a float is a `Decimal`, so that it is written as it
    was. Lone surrogates that are escaped stay.

    Raises:
        BadLine: it is not strict JSON in UTF-8, or an object in it repeats a key; it is said which.

    Source:
        reference/sessions.md §8, rows 1 and 13 to 15.
    """
    try:
        value = _decode(line)
        if _encode(value) == line:
            return value
    except (ValueError, OverflowError, RecursionError):
        pass
    return _exact_slow(line)


def _exact_slow(line: bytes) -> Any:
    try:
        text = line.decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        raise BadLine(f"it is not UTF-8 at its byte {error.start}", reason="not_utf8") from None
    try:
        return _decode_slowly(text)
    except RecursionError:
        raise BadLine("it is nested too deeply", reason="not_json") from None
    except BadLine:
        raise
    except json.JSONDecodeError as error:
        raise _not_json(line, text, f"{error.msg} at its character {error.pos + 1}") from None
    except ValueError as error:
        raise _not_json(line, text, str(error)) from None


def _not_json(line: bytes, text: str, said: str) -> BadLine:
    """Say what the line is instead, as far as that helps whoever must mend it."""
    if line and not line.strip(b"\0"):
        return BadLine(f"it is {len(line)} zero bytes, as a power cut leaves them", reason="zero_bytes")
    if not text.strip(" \t\r"):
        return BadLine("it is empty", reason="empty_line")
    if (behind := fused_at(text)) is not None:
        return BadLine(
            f"another record begins behind a whole one, at its byte {len(text[:behind].encode())}", reason="fused_line"
        )
    return BadLine(f"it is not strict JSON: {said}", reason="not_json")


def fused_at(text: str, at: int = 0) -> int | None:
    """Where something else begins behind a whole object at a place of a text; None when nothing does."""
    begin = after_space(text, at)
    if not text.startswith("{", begin):
        return None
    try:
        end = after_space(text, after_object(text, begin))
    except (ValueError, RecursionError):
        return None
    return end if end < len(text) else None


def after_object(text: str, at: int) -> int:
    """Where the value ends that begins at a place of a text. `ValueError` or `RecursionError` when none does."""
    return _raw_decode(text, at)[1]


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
    raise BadLine(f"it has the key {shown(key)} twice in one object", reason="repeated_key", ids=(key,))


def _no_constant(name: str) -> Any:
    raise BadLine(f"{name} is not JSON", reason="not_json")


def _number(digits: str) -> float | Decimal:
    number = float(digits)
    if number not in (float("inf"), float("-inf")):
        return number
    try:
        return Decimal(digits)
    except InvalidOperation:
        raise BadLine(f"the number {digits[:_SHOWN]} is out of every range", reason="not_json") from None


_decode_slowly: Final = json.JSONDecoder(
    object_pairs_hook=_without_repeats, parse_constant=_no_constant, parse_float=_number
).decode


def members(line: bytes) -> dict[str, bytes]:
    """The members of a line that is an object, each value as the very bytes that stand there. `exact` has read it."""
    text = line.decode()
    found: dict[str, bytes] = {}
    at = after_space(text, after_space(text, 0) + 1)
    while text[at] != "}":
        key, at = _raw_decode(text, after_space(text, at + (text[at] == ",")))
        begin = after_space(text, after_space(text, at) + 1)
        end = _raw_decode(text, begin)[1]
        found[key] = text[begin:end].encode()
        at = after_space(text, end)
    return found


def spliced(parts: Mapping[str, bytes]) -> bytes:
    """An object of members whose values are written already."""
    return b"{" + b",".join([dump(key) + b":" + raw for key, raw in parts.items()]) + b"}"


def dump(value: Any) -> bytes:
    """A value that `exact` read, or one like it, as JSON on one line: nothing rounded, lone surrogates escaped."""
    try:
        text = _quote(value)
    except TypeError:
        text = _written(value)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", joined(text)).encode()


def _written(value: Any) -> str:
    """What the standard writer refuses because there is a number beyond the range of a float in it."""
    if type(value) is dict:
        return "{" + ",".join([f"{_quote(key)}:{_written(item)}" for key, item in value.items()]) + "}"
    if type(value) is list:
        return "[" + ",".join(map(_written, value)) + "]"
    return str(value) if type(value) is Decimal else _quote(value)


def after_space(text: str, at: int) -> int:
    """Where something else than white space of JSON stands, from a place of a text on."""
    found = _SPACE.match(text, at)
    assert found is not None, "no space is a match as well"
    return found.end()


class Lines:
    r"""Cuts a stream of bytes at its LF bytes, nowhere else. Lives for one pass.

    Attributes:
        number: Lines that have ended so far.
        byte: Where the next line begins.
    """

    __slots__ = ("_parts", "byte", "number")

    def __init__(self, number: int = 0, byte: int = 0) -> None:
        self.number = number
        self.byte = byte
        self._parts: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Each line that ends in this piece, without its LF; `number` and `byte` are still those before it."""
        *ends, rest = piece.split(b"\n")
        for end in ends:
            line = b"".join((*self._parts, end))
            self._parts.clear()
            yield line
            self.number += 1
            self.byte += len(line) + 1
        if rest:
            self._parts.append(rest)

    @property
    def rest(self) -> bytes:
        """What stands behind the last LF."""
        return b"".join(self._parts)


def damaged(error: BadLine, line: int, byte: int, *, session_id: str | None = None) -> Corrupt:
    """The refusal of a file with such a line."""
    name = "the session" if session_id is None else f"session {shown(session_id)}"
    mend = "Restore the file from a copy, or look at what `clew session salvage SESSION` would keep."
    if error.reason == "another_session":
        mend = "If it is that session under another name, call the file by it: SESSION.jsonl."
    return Corrupt(
        f"{name} is damaged at line {line}, byte {byte}: {error.why}",
        code="session_corrupt",
        next=f"Nothing was changed. {mend}",
        session=session_id,
        line=line,
        byte=byte,
        why=error.why,
        reason=error.reason,
        ids=[shown(each)[1:-1] for each in error.ids],
    )
