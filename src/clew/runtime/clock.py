"""Time and chance, injected at the lowest level. Nothing else in clew reads a clock or rolls a die."""

import asyncio
import os
import random
import time
import uuid
from typing import Protocol

from clew.core.times import format_ms


class Clock(Protocol):
    """Where times, ids and chance come from; a set one makes a run repeatable."""

    def now_ms(self) -> int:
        """Wall time, milliseconds since 1970."""
        ...

    def monotonic_s(self) -> float:
        """Seconds of a clock that nobody sets; for durations within one process."""
        ...

    def chance(self, count: int) -> bytes:
        """So many random bytes."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass in this thread."""
        ...

    async def sleep_on_loop(self, seconds: float) -> None:
        """Let so many seconds pass while the event loop goes on."""
        ...


class SystemClock:
    """The machine's clock and chance."""

    def now_ms(self) -> int:
        """Wall time, milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def chance(self, count: int) -> bytes:
        """Random bytes from the operating system."""
        return os.urandom(count)

    def sleep(self, seconds: float) -> None:
        """Let the thread sleep."""
        time.sleep(seconds)

    async def sleep_on_loop(self, seconds: float) -> None:
        """Let the task sleep."""
        await asyncio.sleep(seconds)


def now_text(clock: Clock) -> str:
    """Now, as it stands in records."""
    return format_ms(clock.now_ms())


def day_text(clock: Clock) -> str:
    """Today in UTC as yymmdd, for run ids."""
    return format_ms(clock.now_ms())[2:10].replace("-", "")


def new_nonce(clock: Clock) -> str:
    """A leg's nonce: 16 hex digits."""
    return clock.chance(8).hex()


def random_float(clock: Clock) -> float:
    """A number in [0, 1) from the clock's chance."""
    return random.Random(clock.chance(16)).random()


def random_uuid(clock: Clock) -> str:
    """A version 4 UUID from the clock's chance."""
    return str(uuid.UUID(bytes=clock.chance(16), version=4))
