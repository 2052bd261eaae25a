"""One process's stretch of a run: who opened it, whether it was closed. Says nothing of whether that process lives."""

from typing import Any, Literal

import msgspec

Purpose = Literal["run", "resume", "settle", "control", "repair"]

_TEXT = ("nonce", "purpose", "host", "machineId", "bootId", "pidNamespace", "user", "version")
_NUMBERS = ("number", "pid", "startTick")


class Leg(msgspec.Struct, frozen=True, gc=False):
    """One leg. `owner` is the member `leg` as recorded; `answers` counts the answers there were when it opened.

    `watermark` is how far its session had come then; `closed_by` and `closed_at` are empty while nothing closed it.
    """

    number: int
    nonce: str
    purpose: str
    owner: dict[str, Any]
    opened_at: str
    answers: int
    watermark: int = 0
    closed_by: str = ""
    closed_at: str = ""

    @property
    def closed(self) -> bool:
        """Did a `pause`, `finish` or `leg_ended` close it?"""
        return bool(self.closed_by)


def read(owner: object, opened_at: str, answers: int, watermark: object = 0) -> Leg | None:
    """A recorded leg, or None when a member is missing or of another type."""
    if type(owner) is not dict or any(type(owner.get(name)) is not str for name in _TEXT):
        return None
    if any(type(owner.get(name)) is not int for name in _NUMBERS):
        return None
    reached = watermark if type(watermark) is int else 0
    return Leg(owner["number"], owner["nonce"], owner["purpose"], owner, opened_at, answers, reached)
