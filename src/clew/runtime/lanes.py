"""Who may change which paths now: calls that may change the same ones go one after the other. No file is looked at."""

import threading
from collections.abc import Callable, Iterable
from typing import Final

EVERYWHERE: Final = None
"""The paths of a call that may change any."""


class Lane:
    """One call's place among those that change files, from when it asks for it until its walk is over."""

    def __init__(self, paths: Iterable[str] | None, wake: Callable[[], None]) -> None:
        self.wake = wake
        self.everywhere = paths is EVERYWHERE
        # Names that differ only in case may be one file.
        self._paths = frozenset(path.casefold() for path in paths or ())
        self._within = self._paths | {above for path in self._paths for above in _above(path)}

    def meets(self, other: "Lane") -> bool:
        """May both change one path, or what is below a path of the other?"""
        if self.everywhere or other.everywhere:
            return True
        return not (self._paths.isdisjoint(other._within) and other._paths.isdisjoint(self._within))

    def holds(self, paths: Iterable[str] | None) -> bool:
        """Does it stand for all of these?"""
        return self.everywhere or (paths is not EVERYWHERE and {path.casefold() for path in paths} <= self._paths)


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


class Lanes:
    """The places of a run and of its children, in the order in which they were asked for.

    Each call asks once, for all of its paths, and waits for those that asked before it: none waits in a circle, and
    none is passed over for ever.

    Source:
        contract §2.9: `workspace_exclusive`. DESIGN §7: "the post-state is a second record after the tool", which is
        only true of a tool that nothing else wrote beside.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes: list[Lane] = []

    def enter(self, lane: Lane) -> None:
        """Take the last place."""
        with self._lock:
            self._lanes.append(lane)

    def is_free(self, lane: Lane) -> bool:
        """May it go, for nobody before it may change what it may?"""
        with self._lock:
            before = self._lanes[: self._lanes.index(lane)]
        return not any(lane.meets(other) for other in before)

    def leave(self, lane: Lane) -> None:
        """Give the place up; who waits looks again. Once is enough, twice is no fault."""
        with self._lock:
            if lane in self._lanes:
                self._lanes.remove(lane)
        self.wake()

    def wake(self) -> None:
        """Everybody who waits looks again: a place is free, or nothing may start any more."""
        with self._lock:
            lanes = tuple(self._lanes)
        for lane in lanes:
            lane.wake()
