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


Job = tuple["Inbox", "asyncio.Future[Any]", Callable[[], Any], bool]
"""Where the result goes, who waits for it, what is to be done, and whether that waits for nothing but the disk."""


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

    def do(self, future: "asyncio.Future[Any]", work: Callable[[], Any]) -> None:
        """From a worker thread: do it, and lay down what comes of it until somebody rings."""
        try:
            self.done.append((future, work(), None))
        except BaseException as fault:  # noqa: BLE001  # whatever it raises goes to the one who waits
            self.done.append((future, None, fault))

    def ring(self) -> None:
        """From a worker thread: wake the loop for what lies here, unless that was done since it last looked."""
        if not self.woken and not self._rung():
            # There was no memory for it, and nobody else may wake it ever.
            self._rung()

    def _rung(self) -> bool:
        self.woken = True
        try:
            self.loop.call_soon_threadsafe(self._drain)
        except RuntimeError:
            # The loop is closed: nobody waits for these results any more.
            self.done.clear()
        except MemoryError:
            self.woken = False
        return self.woken

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

    def submit(self, work: Callable[[], Any], *, brief: bool = False) -> "asyncio.Future[Any]":
        """Do `work` in a thread; the future belongs to the running loop, which waits where the machine gives none.

        `brief` work waits for nothing but the disk, so that the result of another may wait for it as well.
        """
        if self._process != os.getpid():
            # A fork copies the queue and the count, but no thread.
            self._begin()
        inbox = _inbox_here()
        future = Kept(loop=inbox.loop)
        if self._alive < self._size:
            self._start()
        if self._alive:
            self._jobs.put((inbox, future, work, brief))
        else:
            _do(inbox, future, work)
        return future

    def _start(self) -> None:
        with self._started:
            if self._alive < self._size:
                with suppress(NoThread):
                    begin_thread(self._work, "sync")
                    self._alive += 1

    def _work(self) -> None:
        while True:
            self._do_share(*self._jobs.get())

    def _do_share(self, inbox: Inbox, future: "asyncio.Future[Any]", work: Callable[[], Any], brief: bool) -> None:
        """Do one job; where many brief ones wait, this thread's share of them, and wake the loop once for them all.

        Each time that it is woken a thread loses the interpreter to it, and a thousand runs wait for that.
        """
        more = min(_BATCH, self._jobs.qsize() // self._size) if brief else 0
        inbox.do(future, work)
        while more and brief:
            more -= 1
            try:
                to, future, work, brief = self._jobs.get_nowait()
            except queue.Empty:
                break
            if to is not inbox or not brief:
                inbox.ring()
            inbox = to
            inbox.do(future, work)
        inbox.ring()


def _do(inbox: Inbox, future: "asyncio.Future[Any]", work: Callable[[], Any]) -> None:
    inbox.do(future, work)
    inbox.ring()


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


async def aside(work: Callable[[], Any], *, brief: bool = False) -> tuple[Any, asyncio.CancelledError | None]:
    """Blocking work off the event loop, not to be torn: its value, and a cancellation that was met on the way."""
    done = SYNCS.submit(work, brief=brief)
    met = await through(done)
    return done.result(), met
