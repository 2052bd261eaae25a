"""Threads for blocking work of asyncio programs: one shared pool for syncs, one thread each for tool bodies."""

import asyncio
import collections
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from clew.errors import NothingHappened

_THREADS: Final = 8
_BATCH: Final = 64


class Kept(asyncio.Future[Any]):
    """A future that nobody can cancel: who waits for it and is cancelled hears of that once it is done.

    Waiting for one costs a fraction of `asyncio.wait`, which shields any future in the same way.
    """

    def cancel(self, msg: Any = None) -> bool:
        """Refuse; the task that waits keeps the cancellation for later."""
        del msg
        return False


Job = tuple["Inbox", "asyncio.Future[Any]", Callable[[], Any]]


class NoThread(NothingHappened):
    """The machine gives no thread: too many processes for this user or container, or no memory for one."""


def begin_thread(work: Callable[[], Any], name: str) -> None:
    """Start a daemon thread.

    Raises:
        NoThread: there is none; nothing of the work was begun.
    """
    try:
        threading.Thread(target=work, name=f"clew-{name}", daemon=True).start()
    except RuntimeError as fault:
        raise NoThread(f"{fault}: too many processes or threads, or too little memory") from fault


class Inbox:
    """Results on their way back to one event loop: one wake-up for many."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.done: collections.deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = collections.deque()
        self.woken = False

    def deliver(self, future: "asyncio.Future[Any]", value: Any, fault: BaseException | None) -> None:
        """From a worker thread: hand a result over."""
        self.done.append((future, value, fault))
        if not self.woken:
            self.woken = True
            try:
                self.loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The loop is closed: nobody waits for this result any more.
                self.done.clear()

    def _drain(self) -> None:
        self.woken = False
        for _ in range(min(_BATCH, len(self.done))):
            future, value, fault = self.done.popleft()
            if future.done():
                continue
            if fault is None:
                future.set_result(value)
            else:
                future.set_exception(_bearable(fault))
        if self.done and not self.woken:
            self.woken = True
            self.loop.call_soon(self._drain)


def _bearable(fault: BaseException) -> BaseException:
    """The fault as a future may carry it; a StopIteration would end the generator that waits, as in any coroutine."""
    if not isinstance(fault, StopIteration):
        return fault
    borne = RuntimeError("a function raised StopIteration")
    borne.__cause__ = fault
    return borne


class Pool:
    """Daemon threads with one queue, started at the first job and shared by all runs of the process."""

    def __init__(self, threads: int = _THREADS) -> None:
        self._size = threads
        self._begin()

    def _begin(self) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._started = threading.Lock()
        self._alive = 0
        self._process = os.getpid()

    def submit(self, job: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Run `job` in a thread; the future belongs to the running loop, which waits where the machine gives none."""
        if self._process != os.getpid():
            # A fork copies the queue and the count, but no thread.
            self._begin()
        inbox = _inbox_here()
        future = Kept(loop=inbox.loop)
        if self._alive < self._size:
            self._start()
        if self._alive:
            self._jobs.put((inbox, future, job))
        else:
            _do(inbox, future, job)
        return future

    def _start(self) -> None:
        with self._started:
            if self._alive < self._size:
                with suppress(NoThread):
                    begin_thread(self._work, "sync")
                    self._alive += 1

    def _work(self) -> None:
        while True:
            _do(*self._jobs.get())


def _do(inbox: Inbox, future: "asyncio.Future[Any]", job: Callable[[], Any]) -> None:
    try:
        inbox.deliver(future, job(), None)
    except BaseException as fault:  # noqa: BLE001  # whatever it raises goes to the one who waits
        inbox.deliver(future, None, fault)


_inboxes: dict[int, Inbox] = {}


def _inbox_here() -> Inbox:
    loop = asyncio.get_running_loop()
    found = _inboxes.get(id(loop))
    if found is None or found.loop is not loop:
        for key in [key for key, inbox in _inboxes.items() if inbox.loop.is_closed()]:
            del _inboxes[key]
        found = _inboxes[id(loop)] = Inbox(loop)
    return found


SYNCS: Final = Pool()
# Kept, for a task that is thrown away is told to close, and this one would not.
_LET_GO: Final[list[asyncio.Task[Any]]] = []


def in_own_thread(work: Callable[[], Any], name: str) -> "asyncio.Future[Any]":
    """Run a tool's body in a daemon thread of its own, with the caller's context; the future belongs to the loop.

    Raises:
        NoThread: nothing of it was begun.
    """
    inbox = _inbox_here()
    future: asyncio.Future[Any] = inbox.loop.create_future()
    context = contextvars.copy_context()
    begin_thread(lambda: _do(inbox, future, lambda: context.run(work)), f"tool-{name}")
    return future


def apart_or_here(work: Callable[[], Any], name: str) -> "asyncio.Future[Any]":
    """As `in_own_thread`; where the machine gives none the loop waits, for this must be done."""
    try:
        return in_own_thread(work, name)
    except NoThread:
        inbox = _inbox_here()
        future: asyncio.Future[Any] = inbox.loop.create_future()
        _do(inbox, future, work)
        return future


async def through(future: "asyncio.Future[Any]") -> asyncio.CancelledError | None:
    """Wait until a future is done, whatever happens; a cancellation met on the way is returned, not raised.

    What the future itself holds, an error too, is for who asks it afterwards.
    """
    met: asyncio.CancelledError | None = None
    kept = isinstance(future, Kept)
    while not future.done():
        try:
            await (future if kept else asyncio.wait([future]))
        except asyncio.CancelledError as cancelled:
            met = cancelled
        except BaseException:  # noqa: BLE001  # the future's own
            assert future.done()
    return met


def let_go(task: "asyncio.Future[Any]") -> None:
    """Never wait for a task again, not even when its loop closes: it takes no leave, whatever it is told."""
    assert isinstance(task, asyncio.Task)
    _LET_GO.append(task)
    asyncio.tasks._unregister_task(task)


async def aside(work: Callable[[], Any]) -> tuple[Any, asyncio.CancelledError | None]:
    """Blocking work off the event loop, not to be torn: its value, and a cancellation that was met on the way."""
    done = SYNCS.submit(work)
    met = await through(done)
    return done.result(), met
