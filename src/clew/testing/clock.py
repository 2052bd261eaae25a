"""A clock that stands until it is told to go on, with chance that is the same in every test. Nothing else."""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Final

NOON_MS: Final = 1_795_953_600_000
"""2026-11-29T12:00:00Z, when a set clock begins."""


class SetClock:
    """A clock (`runtime.clock.Clock`) for tests: waiting moves it, nothing else does. Lives as long as its test.

    Args:
        at_ms: Where the wall clock stands, milliseconds since 1970.
        seed: Another seed gives other chance, and so other run ids and nonces.
    """

    def __init__(self, at_ms: int = NOON_MS, *, seed: str = "") -> None:
        self._at_ms = at_ms
        self._passed_s = 0.0
        self._seed = seed
        self._drawn = 0
        self.slept: list[float] = []

    def now_ms(self) -> int:
        """Where the wall clock stands."""
        return self._at_ms

    def monotonic_s(self) -> float:
        """Seconds that have passed by `advance` and by sleeping."""
        return self._passed_s

    def chance(self, count: int) -> bytes:
        """Bytes that follow from the seed and from how often they were drawn."""
        self._drawn += 1
        drawn, block = b"", 0
        while len(drawn) < count:
            drawn += hashlib.sha256(f"{self._seed}:{self._drawn}:{block}".encode()).digest()
            block += 1
        return drawn[:count]

    def sleep(self, seconds: float, woken: Callable[[], bool] = lambda: False) -> bool:
        """Move on at once, and remember that somebody slept."""
        if woken():
            return True
        self.slept.append(seconds)
        self.advance(seconds)
        return woken()

    async def sleep_on_loop(self, seconds: float, woken: Callable[[], bool] = lambda: False) -> bool:
        """Move on at once; other tasks get their turn."""
        cut_short = self.sleep(seconds, woken)
        await asyncio.sleep(0)
        return cut_short or woken()

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self._at_ms += round(seconds * 1000)
        self._passed_s += seconds

    def set_wall(self, at_ms: int) -> None:
        """Set the wall clock as an operator does, backwards too; no time passes."""
        self._at_ms = at_ms
