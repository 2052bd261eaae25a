"""Times as they stand in records: ISO-8601 UTC with milliseconds. Reading the clock belongs to `runtime/clock`."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache


def valid_time(text: object) -> bool:
    """Is this a time in UTC that parses?"""
    return parse_ms(text) is not None


def parse_ms(text: object) -> int | None:
    """Milliseconds since 1970 of an ISO-8601 time ending in `Z`, or None when it is none."""
    return _parsed(text) if type(text) is str else None


# The records of an append carry one time, and are judged one after another; those of a minute differ at their ends.
@lru_cache(maxsize=32)
def _parsed(text: str) -> int | None:
    behind = text[17:19] + text[20:23]
    if len(text) == _LENGTH and text[16] + text[19] + text[23] == ":.Z" and behind.isascii() and behind.isdecimal():
        minute = _read(text[:17] + "00Z")
        return minute + int(behind) if minute is not None and behind < "60" else None
    return _read(text)


@lru_cache(maxsize=32)
def _read(text: str) -> int | None:
    if not text.endswith("Z"):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at - _EPOCH) // _MILLISECOND


def format_ms(at_ms: int) -> str:
    """The time of so many milliseconds since 1970, as it stands in records."""
    seconds, ms = divmod(at_ms, 1000)
    return f"{_second(seconds)}.{ms:03d}Z"


@lru_cache(maxsize=32)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat(timespec="seconds")


_LENGTH = len("2026-11-29T14:00:00.000Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = datetime.resolution * 1000
