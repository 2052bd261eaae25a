"""Timing things against one another: in turns, in one process, so that what disturbs one disturbs all."""

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Work = Callable[[int], None]
"""Does its thing so many times."""


@dataclass
class Rounds:
    """The seconds each contestant took for one doing, round by round. All lists are of one length."""

    taken_s: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, seconds: float, times: int) -> None:
        """Note one round of a contestant."""
        self.taken_s.setdefault(name, []).append(seconds / times)

    def ratio(self, name: str, to: str, *, of: int = 1) -> float:
        """How many times as long `name` took as `of` doings of `to`: the median over the rounds."""
        pairs = zip(self.taken_s[name], self.taken_s[to], strict=True)
        return statistics.median(mine / (of * theirs) for mine, theirs in pairs)

    def median_ms(self, name: str) -> float:
        """The median of one doing, in milliseconds."""
        return statistics.median(self.taken_s[name]) * 1000


def take_turns(contestants: dict[str, tuple[Work, int]], rounds: int, *, seed: int = 1) -> Rounds:
    """Let each contestant do its thing in every round, in an order that changes; the first round only warms up.

    Args:
        contestants: By name, what to do and how often a round.
        rounds: How many rounds count.
        seed: Of the order.
    """
    order = random.Random(seed)
    found = Rounds()
    for number in range(rounds + 1):
        names = list(contestants)
        order.shuffle(names)
        for name in names:
            work, times = contestants[name]
            since = time.perf_counter()
            work(times)
            if number:
                found.add(name, time.perf_counter() - since, times)
    return found
