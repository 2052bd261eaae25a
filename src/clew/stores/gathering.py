"""Who is at work in a home in memory: legs beside one another, or a prune alone. Files have the lock of the kernel."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from clew.stores.refusals import being_pruned


class MemoryGuest:
    """A leg that holds the home until it leaves."""

    def __init__(self, presence: "MemoryPresence") -> None:
        self._presence: MemoryPresence | None = presence

    def leave(self) -> None:
        """Go. Safe to call twice."""
        presence, self._presence = self._presence, None
        if presence is not None:
            presence.left()


class MemoryPresence:
    """Lives as long as its store."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._guests = 0
        self._alone = b""

    def join(self) -> MemoryGuest:
        """Be there beside others. `Held` (`home_being_pruned`)."""
        with self._turn:
            if self._alone:
                raise being_pruned("memory", self._alone)
            self._guests += 1
        return MemoryGuest(self)

    def left(self) -> None:
        """One less."""
        with self._turn:
            self._guests -= 1

    @contextmanager
    def alone(self, said: bytes) -> Iterator[bool]:
        """Be there alone while the block lasts; False when somebody else is."""
        with self._turn:
            is_alone = not self._guests and not self._alone
            self._alone = said if is_alone else self._alone
        try:
            yield is_alone
        finally:
            with self._turn:
                self._alone = b"" if is_alone else self._alone
