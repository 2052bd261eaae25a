"""Who looks into the inboxes of all legs of a process, and what an abort does to a plain agent's busy thread."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from clew.runtime.clock import Clock
from clew.runtime.gate import Gate
from clew.runtime.pool import NoThread, begin_thread
from clew.runtime.stilling import PATIENCE_S

LOOK_S: Final = 0.2
STRIKE_S: Final = 1.0


class Lookout:
    """One daemon thread for all legs of a process. Lives as long as the process, asleep while there is none."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._looks: dict[int, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._process = os.getpid()
        self._started = False

    @contextmanager
    def watching(self, look: Callable[[], None]) -> Iterator[bool]:
        """`look` is called now and then, in the lookout's thread, and never again behind this.

        False where the machine gives no thread: then who runs the leg has to look for himself.
        """
        if self._process != os.getpid():
            # A fork copies the list, but no thread.
            self._begin()
        try:
            with self._lock:
                self._looks[id(look)] = look
                self._wanted.set()
                self._start()
            yield self._started
        finally:
            with self._lock:
                self._looks.pop(id(look), None)
                if not self._looks:
                    self._wanted.clear()

    def _start(self) -> None:
        if not self._started:
            with suppress(NoThread):
                begin_thread(self._work, "lookout")
                self._started = True

    def _work(self) -> None:
        pause = threading.Event()
        while True:
            self._wanted.wait()
            pause.wait(LOOK_S)
            for look in list(self._looks.values()):
                # What fails in one leg is that leg's; the others are looked after all the same.
                with suppress(Exception):
                    look()


LOOKOUT: Final = Lookout()


class Busy:
    """One plain leg as the lookout sees it: commands are looked for; an abort strikes it, and leaves it behind at last.

    Args:
        gate: The leg's.
        poll: Looks into the inbox, if nobody else has lately.
        leave: Ends the leg under its agent.
        signals: This program's Ctrl-C is the leg's; a thread that it may strike is the main one.
    """

    def __init__(self, gate: Gate, poll: Callable[[], None], leave: Callable[[], None], *, signals: bool) -> None:
        self._gate = gate
        self._poll = poll
        self._leave = leave
        self._signals = signals
        self._clock: Clock = gate.journal.clock
        self._since_s: float | None = None
        self._next_strike_s = 0.0
        self._over = threading.Lock()
        self.over = False

    def look(self) -> None:
        """Now and then, in the lookout's thread."""
        with self._over:
            if self.over:
                return
            self._poll()
            if self._gate.aborting:
                self._strike()

    def end(self) -> None:
        """The leg goes its own way to its end: nothing strikes it any more."""
        with self._over:
            self.over = True

    def _strike(self) -> None:
        """As Ctrl-C twice does, where that is the leg's; who does not come back in time is left behind."""
        now = self._clock.monotonic_s()
        self._since_s = now if self._since_s is None else self._since_s
        if now - self._since_s > PATIENCE_S:
            self.over = True
            self._leave()
        elif self._signals and self._gate.interruptible and now >= self._next_strike_s:
            self._next_strike_s = now + STRIKE_S
            self._gate.interrupts = max(self._gate.interrupts, 1)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
