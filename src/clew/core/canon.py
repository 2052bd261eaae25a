"""One text for one value, and its SHA-256. What counts as JSON is decided in `jsonable`."""

import hashlib
import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import msgspec

Json = Any
"""None, bool, int, finite float, str, list or dict with str keys, to any depth."""

_SORTED: Final = msgspec.json.Encoder(order="sorted")
# msgspec writes these exactly as RFC 8785 does; a float it writes as Python would, NaN even as null.
_EXACT: Final = frozenset({str, int, bool, type(None)})
# UTF-8 and UTF-16 order texts differently only where a character beyond U+FFFF meets one of U+E000 to U+FFFF.
_BEYOND_BMP: Final = re.compile(rb"[\xf0-\xf4]")
_END_OF_BMP: Final = re.compile(rb"[\xee\xef]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_QUOTE: Final = json.JSONEncoder(ensure_ascii=False).encode
_EXPONENT_FROM: Final = 21


def canonical(value: Json) -> bytes:
    r"""Write a value as the one text that equal values share: RFC 8785, with integers of any size kept exact.

    Keys stand in the order of their UTF-16 code units, without white space; numbers are as ECMAScript writes them;
    a lone surrogate is `\udxxx` as in JSON.stringify, every other character is UTF-8. Values are compared by
    content: whether they share parts does not show (contract W35).

    Args:
        value: What `jsonable.to_json` returned. Anything else, NaN and Infinity included, is a bug of the caller
            and ends in an AssertionError, not in a fingerprint.

    Source:
        RFC 8785; contract #106; DESIGN §5 stage 1.
    """
    if _plain(value):
        try:
            data = _SORTED.encode(value)
        except UnicodeEncodeError:
            return _slow(value).encode()
        if data.isascii() or not (_BEYOND_BMP.search(data) and _END_OF_BMP.search(data)):
            return data
    return _slow(value).encode()


def fingerprint(value: Json) -> str:
    """SHA-256 of the canonical text of a value, 64 hex digits. Source: contract #107, #109 (whole, W51)."""
    return hashlib.sha256(canonical(value)).hexdigest()


def fingerprint_text(text: str) -> str:
    """SHA-256 of a text's own bytes in UTF-8, 64 hex digits; a lone surrogate counts as its three bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def joined(text: str) -> str:
    """Return the text with each pair of surrogates as the one character it means; lone surrogates stay.

    Halves of an emoji meet when pieces of a stream are put together; JSON reads the pair back as one character.
    """
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _plain(value: Json) -> bool:
    """Whether msgspec's own form of every scalar in it is the canonical one."""
    kind = type(value)
    if kind is dict:
        items: Iterable[Json] = value.values()
    elif kind is list:
        items = value
    else:
        return kind in _EXACT
    return _EXACT.issuperset(map(type, items)) or all(map(_plain, items))


def _slow(value: Json) -> str:
    """The definition itself, without short cuts; `canonical` must always equal it."""
    kind = type(value)
    if kind is dict:
        pairs = sorted(value.items(), key=_utf16)
        return "{" + ",".join([f"{_string(key)}:{_slow(item)}" for key, item in pairs]) + "}"
    if kind is list:
        return "[" + ",".join(map(_slow, value)) + "]"
    if kind is str:
        return _string(value)
    if kind is float:
        return _number(value)
    assert kind in _EXACT, f"{kind.__name__} is not JSON; it did not come from to_json"
    return _SORTED.encode(value).decode()


def _utf16(pair: tuple[str, Json]) -> bytes:
    return pair[0].encode("utf-16-be", "surrogatepass")


def _string(text: str) -> str:
    return _SURROGATE.sub(_escaped, _QUOTE(joined(text)))


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _number(value: float) -> str:
    """Number::toString of ECMAScript; its shortest digits are those of Python, only their layout differs."""
    assert math.isfinite(value), f"{value!r} is not JSON; it did not come from to_json"
    if value == 0:
        return "0"
    text = repr(value)
    return _exponential(text) if "e" in text else text.removesuffix(".0")


def _exponential(text: str) -> str:
    """Lay out digits that Python writes with an exponent: ECMAScript does so only from 1e21 and below 1e-6."""
    sign, numbers, power = Decimal(text).as_tuple()
    assert isinstance(power, int)
    digits = "".join(map(str, numbers))
    point = len(numbers) + power
    minus = "-" * sign
    if len(digits) <= point <= _EXPONENT_FROM:
        return minus + digits.ljust(point, "0")
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{minus}{digits[0]}{fraction}e{point - 1:+d}"
