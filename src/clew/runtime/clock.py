"""Time and chance, injected at the lowest level. Nothing else in clew reads a clock or rolls a die."""

import asyncio
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Final, Protocol

from clew.core.times import format_ms

NAP_S: Final = 0.2


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

    def sleep(self, seconds: float, woken: Callable[[], bool]) -> bool:
        """Let so many seconds pass in this thread; True when `woken` cut it short."""
        ...

    async def sleep_on_loop(self, seconds: float, woken: Callable[[], bool]) -> bool:
        """Let so many seconds pass while the event loop goes on; True when `woken` cut it short."""
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

    def sleep(self, seconds: float, woken: Callable[[], bool]) -> bool:
        """Let the thread sleep, looking up now and then."""
        for piece in _pieces(seconds):
            if woken():
                return True
            time.sleep(piece)
        return woken()

    async def sleep_on_loop(self, seconds: float, woken: Callable[[], bool]) -> bool:
        """Let the task sleep, looking up now and then."""
        for piece in _pieces(seconds):
            if woken():
                return True
            await asyncio.sleep(piece)
        return woken()


MOMENT_MS: Final = 1000
DRIFT: Final = 0.001
"""So far, and by this part of the time, two clocks may differ before one of them was set."""


class LegTime:
    """How long a leg has been running, by a clock that nobody sets; and the wall time that follows from it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s = clock.monotonic_s()
        self._since_ms = clock.now_ms()

    def ran_ms(self) -> int:
        """Milliseconds since the leg began."""
        return round((self._clock.monotonic_s() - self._since_s) * 1000)

    def now_ms(self) -> int:
        """Wall time, milliseconds since 1970, as if nobody had set the clock since the leg began."""
        return self._since_ms + self.ran_ms()

    def was_set(self) -> bool:
        """Has the wall clock been set since the leg began?"""
        ran_ms = self.ran_ms()
        return abs(self._clock.now_ms() - self._since_ms - ran_ms) > max(MOMENT_MS, ran_ms * DRIFT)


def _pieces(seconds: float) -> Iterator[float]:
    """A long sleep as short ones."""
    whole, rest = divmod(max(0.0, seconds), NAP_S)
    yield from repeat(NAP_S, int(whole))
    yield rest


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


def roll_by(seed: str) -> None:
    """Let Python's own dice (`random`) roll by a seed from now on, in this whole process; for trials of agents."""
    random.seed(seed)
