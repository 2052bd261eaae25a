"""Times as they stand in records: ISO-8601 UTC with milliseconds. Reading the clock belongs to `runtime/clock`."""

from datetime import UTC, datetime


def valid_time(text: object) -> bool:
    """Is this a time in UTC that parses?"""
    return parse_ms(text) is not None


def parse_ms(text: object) -> int | None:
    """Milliseconds since 1970 of an ISO-8601 time ending in `Z`, or None when it is none."""
    if type(text) is not str or not text.endswith("Z"):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at - _EPOCH) // _MILLISECOND


def format_ms(at_ms: int) -> str:
    """The time of so many milliseconds since 1970, as it stands in records."""
    at = _EPOCH + at_ms * _MILLISECOND
    return f"{at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = datetime.resolution * 1000
