"""Recorded text as it may stand on a terminal: one line, bounded, nothing that a terminal would obey; and times."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from clew.core.answers import json_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def one_line(text: str, limit: int = 120) -> str:
    """The text on one line; control and other unprintable characters are written out, so that nothing is hidden."""
    clipped = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in clipped)


def value_text(value: Any, limit: int = 120) -> str:
    """A JSON value in few characters: simple text as it is, all else as JSON."""
    plain = isinstance(value, str) and value and not any(letter in value for letter in " \"'=") and value.isprintable()
    return one_line(value if plain else json_text(value), limit)


def arguments_text(arguments: Any, limit: int = 120) -> str:
    """The arguments of a call: `order=1042 cents=4200`."""
    if not isinstance(arguments, Mapping):
        return value_text(arguments, limit)
    return one_line(" ".join(f"{one_line(str(name))}={value_text(each)}" for name, each in arguments.items()), limit)


def count_text(count: int, noun: str) -> str:
    """`1 effect`, `2 effects`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size_text(size_bytes: int) -> str:
    """A length in the largest unit of which there is one."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return count_text(size_bytes, "byte")


def duration_text(milliseconds: int) -> str:
    """A duration in its two largest units."""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


class When(msgspec.Struct, frozen=True):
    """How recorded times (UTC) are shown: on the reader's own clock, with the day where it is not today.

    Attributes:
        now_ms: Now, milliseconds since 1970.
        local: From an instant to the reader's zone; UTC when left out.
    """

    now_ms: int
    local: Callable[[datetime], datetime] = lambda at: at

    def minute(self, text: str) -> str:
        """`13:54`, with the day before it when that is not today."""
        return self._shown(text, "%H:%M")

    def second(self, text: str) -> str:
        """`13:54:02`, with the day before it when that is not today."""
        return self._shown(text, "%H:%M:%S")

    def day(self, text: str) -> str:
        """`2026-11-29` in the reader's zone; empty for what is no time."""
        at = self._at(text)
        return "" if at is None else at.strftime("%Y-%m-%d")

    def clock(self, text: str) -> str:
        """`13:54:02`, whatever the day."""
        at = self._at(text)
        return one_line(text) if at is None else at.strftime("%H:%M:%S")

    def _shown(self, text: str, form: str) -> str:
        at = self._at(text)
        if at is None:
            return one_line(text)
        today = self.local(_EPOCH + timedelta(milliseconds=self.now_ms)).date()
        return at.strftime(form if at.date() == today else f"%Y-%m-%d {form}")

    def _at(self, text: str) -> datetime | None:
        try:
            return self.local(datetime.fromisoformat(text))
        except ValueError:
            return None
