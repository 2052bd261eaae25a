"""The living journal of one leg: validate, append, then apply, in this order and no other."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from clew.core.compose import Composed, Saying, compose
from clew.core.records import Head, Record
from clew.core.state import RunState
from clew.core.times import format_ms
from clew.core.usual import Usual, usual
from clew.errors import Refused, Stop, Storage
from clew.runtime.clock import Clock, LegTime
from clew.runtime.pool import SYNCS, Kept, through
from clew.stores.base import RunWriter

Watcher = Callable[[Record], None]
WRITE_S: Final = 10.0
"""So long a write is waited for; in a forked child it never ends."""
_BEGINS: Final = ("tool_call", "agent_start")


def _begins(sayings: Sequence[Saying]) -> bool:
    """Is a call or a turn proposed here?"""
    for said in sayings:  # a generator costs more than the two or three sayings of an append
        if type(said) is dict and said["type"] in _BEGINS:
            # A person's no records the call that it is about, and begins nothing.
            first = sayings[0]
            return not (type(first) is dict and first["type"] == "approval_resolved")
    return False


def _asks_or_records(sayings: Sequence[Saying]) -> bool:
    """Is a call recorded here, or a person asked for one? An abort lets neither in."""
    return any(type(said) is dict and said["type"] in ("tool_call", "approval_required") for said in sayings)


class Journal:
    """One run's journal while a leg is open. `state` is what is durable, never more.

    Appends are taken one after another. After one has failed nothing is acknowledged any more (`poisoned`).
    `untold` are records of this leg that were appended before; they are kept until `watch` is called.
    """

    def __init__(
        self,
        state: RunState,
        writer: RunWriter,
        clock: Clock,
        nonce: str,
        *,
        used: int = 0,
        untold: Sequence[Record] = (),
    ) -> None:
        self.state = state
        self.writer = writer
        self.clock = clock
        self.time = LegTime(clock)
        self.nonce = nonce
        self.riders: deque[Saying] = deque()
        self.fault: BaseException | None = None
        self.busy = False
        self.check_start: Callable[[], None] = lambda: None
        # What ends with the leg: its session.
        self.beside: Callable[[], None] = lambda: None
        self._untold: list[Record] | None = list(untold)
        self._watcher: Watcher | None = None
        self._fork: RunState | None = None
        self._counter = used
        self._turn = threading.Lock()
        self._writing = threading.RLock()
        self._queue: asyncio.Future[None] | None = None

    def new_id(self) -> str:
        """A new event id: the leg's nonce and a counter."""
        return self.new_ids(1)[0]

    def new_ids(self, count: int) -> list[str]:
        """So many of them."""
        first, nonce = self._counter + 1, self.nonce
        self._counter += count
        return [f"{nonce}-{number}" for number in range(first, first + count)]

    def append(self, sayings: Sequence[Saying], *, starts: bool = False) -> None:
        """Append in the caller's thread; returns when it is durable.

        Raises:
            Corrupt: a record would be illegal; nothing was written.
            Storage: the machine refused; the writer is poisoned.
            Stop: the leg has ended, or a start comes too late; nothing was written.
        """
        with self._turn:
            # So that a signal handler does not tear it.
            self.busy = True
            try:
                self._check(sayings, starts)
                composed = self._compose(sayings)
                self._write(composed, starts)
                self._apply(composed)
            finally:
                self.busy = False

    async def append_from_loop(
        self, sayings: Sequence[Saying], *, starts: bool = False
    ) -> asyncio.CancelledError | None:
        """Append without blocking the event loop, and not to be cancelled: a cancellation is handed back afterwards.

        Raises:
            as `append`.
        """
        before, mine = self._queue, Kept(loop=asyncio.get_running_loop())
        self._queue = mine
        try:
            met = await through(before) if before is not None and not before.done() else None
            self._check(sayings, starts)
            composed = self._compose(sayings)
            written = SYNCS.submit(lambda: self._write(composed, starts), brief=True)
            met = await through(written) or met
            written.result()
            self._apply(composed)
            return met
        finally:
            mine.set_result(None)

    def _check(self, sayings: Sequence[Saying], starts: bool) -> None:
        """When its turn has come: the leg goes on, and what begins asks once more whether anything may begin."""
        leg = self.state.leg
        if leg is not None and leg.nonce == self.nonce and leg.closed:
            raise Stop("the leg has ended")
        if starts or _begins(sayings):
            self.check_start()
        elif self.state.aborting and _asks_or_records(sayings):
            raise Stop("the run is aborting")

    def _compose(self, sayings: Sequence[Saying]) -> Composed | Usual:
        if self.fault is not None:
            raise Storage(
                f"journal of run {self.state.run_id!r} took a failed append; nothing more is acknowledged",
                code="fact_ledger_poisoned",
                next=f"End this process, then look with `clew show {self.state.run_id}` before `clew resume`.",
                run=self.state.run_id,
                sequence=self.state.sequence + 1,
            ) from self.fault
        # One by one, for another thread may add to them at any time.
        riders = [self.riders.popleft() for _ in range(len(self.riders))] if self.riders else []
        at, size = format_ms(self.clock.now_ms()), self.writer.size_bytes
        if not riders and (found := usual(self.state, sayings, at=at, new_ids=self.new_ids, size_bytes=size)):
            return found
        try:
            fork, self._fork = self._fork, None
            return compose(self.state, [*riders, *sayings], at=at, new_id=self.new_id, size_bytes=size, fork=fork)
        except Refused:
            self.riders.extendleft(reversed(riders))
            raise

    def _write(self, composed: Composed | Usual, starts: bool) -> None:
        if not composed.batch.data:
            return
        # Free, or the journal is being closed, or this is a forked child: then the writer refuses by itself.
        alone = self._writing.acquire(blocking=False)
        try:
            self.writer.append(composed.batch, starts_effect=starts)
        except BaseException as fault:
            self.fault = fault
            raise
        finally:
            if alone:
                self._writing.release()

    def _apply(self, composed: Composed | Usual) -> None:
        try:
            self._fork = composed.apply(self.state)
        except BaseException as fault:
            self.fault = fault
            raise
        if self._untold is not None or self._watcher is not None:
            self._tell(composed.batch.records)

    def watch(self, watcher: "Watcher | None") -> None:
        """Tell `watcher` of each record once it is durable, from the leg's first on."""
        untold, self._untold = self._untold or [], None
        self._watcher = watcher
        self._tell(untold)

    def _tell(self, records: Sequence[Record]) -> None:
        if self._untold is not None:
            self._untold.extend(records)
        watcher = self._watcher
        if watcher is None:
            return
        try:
            for record in records:
                watcher(record)
        except Exception:  # noqa: BLE001  # a watcher that fails is left alone; the run does not depend on it
            self._watcher = None

    def publish_head(self, row: dict[str, object]) -> None:
        """Publish how far the journal is, with the row that lists show."""
        state = self.state
        self.writer.publish_head(Head(state.sequence, state.chain, self.writer.size_bytes, row))

    def close(self) -> None:
        """Let the journal go, when nobody writes: a descriptor that is closed may be another file's in a moment."""
        alone = self._writing.acquire(timeout=WRITE_S)
        try:
            self.writer.close()
        finally:
            if alone:
                self._writing.release()
            self.beside()
