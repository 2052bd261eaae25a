"""Threads for blocking work: results find their loop, whatever they are, and a fork begins anew."""

import asyncio
import functools
import os
import sys
import threading
from typing import Any

import pytest

from clew.runtime.place import HERE, Place
from clew.runtime.pool import Pool, apart_or_here, aside, in_own_thread, let_go, through
from tests.threadless import no_threads


def raising(fault: BaseException) -> Any:
    raise fault


def test_results_come_back_to_those_who_wait() -> None:
    """More than one batch of them, from all threads."""

    async def main() -> Any:
        pool = Pool(3)
        return await asyncio.gather(*(pool.submit(functools.partial(pow, n, 2)) for n in range(200)))

    found = asyncio.run(main())

    assert [n * n for n in range(200)] == found


def test_of_brief_work_a_thread_does_its_share_before_it_wakes_the_loop() -> None:
    """Each waking costs the thread the interpreter's lock, and a thousand runs wait for that."""

    async def main() -> Any:
        loop, pool, queued = asyncio.get_running_loop(), Pool(1), threading.Event()
        futures = [pool.submit(lambda: queued.wait(60))]

        def before_is_told(number: int) -> bool:
            turned = threading.Event()
            loop.call_soon_threadsafe(turned.set)
            return turned.wait(60) and futures[number - 1].done()

        futures += [pool.submit(functools.partial(before_is_told, number), brief=True) for number in range(1, 6)]
        queued.set()
        return await asyncio.gather(*futures[1:])

    assert [True, False, False, False, False] == asyncio.run(main())


def test_no_result_waits_for_work_that_may_wait() -> None:
    """The other may wait for what comes of this one."""

    async def main() -> list[bool]:
        pool, queued, told, over = Pool(1), threading.Event(), threading.Event(), threading.Event()
        before = pool.submit(lambda: queued.wait(60))
        first, second = pool.submit(lambda: told.wait(60), brief=True), pool.submit(lambda: over.wait(60))
        queued.set()
        found = [await before]
        # The loop was woken for that one, and nothing else wakes it any more.
        told.set()
        found.append(await first)
        over.set()
        return [*found, await second]

    assert [True, True, True] == asyncio.run(main())


class ShortOfMemory(asyncio.SelectorEventLoop):
    """A loop that cannot be woken once."""

    refused = 0

    def call_soon_threadsafe(self, callback: Any, *args: Any, **context: Any) -> asyncio.Handle:  # type: ignore[override]  # generic there
        if threading.current_thread() is not threading.main_thread() and not self.refused:
            self.refused += 1
            raise MemoryError
        return super().call_soon_threadsafe(callback, *args, **context)


def test_a_loop_that_could_not_be_woken_is_woken_again() -> None:
    """Who waits for the only result would wait for ever."""
    loop, pool = ShortOfMemory(), Pool(1)

    async def main() -> int:
        return int(await asyncio.wait_for(asyncio.shield(pool.submit(lambda: 3)), 60))

    try:
        found = loop.run_until_complete(main())
    finally:
        loop.close()

    assert (3, 1) == (found, loop.refused)


def test_of_two_loops_each_is_woken_for_its_own() -> None:
    """They share the threads, and so the share of one holds results of both."""
    pool, queued, found = Pool(1), threading.Event(), dict[int, list[int]]()

    async def main(name: int, together: threading.Barrier) -> None:
        futures = [pool.submit(lambda: name, brief=True) for _ in range(20)]
        together.wait(60)
        found[name] = await asyncio.gather(*futures)

    async def first() -> None:
        await pool.submit(lambda: queued.wait(60))

    together = threading.Barrier(3, action=queued.set)
    threads = [threading.Thread(target=asyncio.run, args=(first(),), daemon=True)]
    threads += [threading.Thread(target=asyncio.run, args=(main(n, together),), daemon=True) for n in (1, 2)]
    for thread in threads:
        thread.start()
    together.wait(60)
    for thread in threads:
        thread.join(60)

    assert {1: [1] * 20, 2: [2] * 20} == found


def test_where_no_thread_starts_the_loop_does_the_work() -> None:
    """What was asked for is done, once, and the next who asks gets a thread if there is one again."""

    async def main() -> list[int]:
        pool, places = Pool(2), list[int]()
        with no_threads():
            await pool.submit(lambda: places.append(threading.get_ident()))
        await pool.submit(lambda: places.append(threading.get_ident()))
        return places

    first, second = asyncio.run(main())

    assert (True, False) == (first == threading.get_ident(), second == threading.get_ident())


def test_a_pool_goes_on_with_the_threads_that_it_has() -> None:
    """What failed to start is not counted as if it worked, and nothing that was refused is done later."""

    async def main() -> list[int]:
        pool = Pool(3)
        first = await pool.submit(threading.get_ident)
        with no_threads():
            others = [await pool.submit(threading.get_ident) for _ in range(8)]
        return [first, *others]

    first, *others = asyncio.run(main())

    assert {first} == set(others)


@pytest.mark.parametrize("fault", [None, ValueError("x")], ids=repr)
def test_what_must_be_done_is_done_on_the_loop_where_no_thread_starts(fault: ValueError | None) -> None:
    """An abort ends what runs, whatever the machine gives."""

    def work() -> int:
        if fault is not None:
            raise fault
        return threading.get_ident()

    async def main() -> object:
        with no_threads():
            future = apart_or_here(work, "abort")
        await through(future)
        return future.exception() or future.result()

    found = asyncio.run(main())

    assert (fault or threading.get_ident()) == found


def test_each_loop_gets_its_own_results() -> None:
    """The pool outlives loops, and the next one may have the address of the last."""
    pool = Pool(2)

    async def main(n: int) -> int:
        return int(await pool.submit(lambda: n))

    found = [asyncio.run(main(n)) for n in range(20)]

    assert list(range(20)) == found


def test_a_result_that_nobody_waits_for_any_more_is_dropped() -> None:
    """Its loop is closed; the thread goes on to serve others."""
    pool, over = Pool(1), threading.Event()

    async def leaves() -> None:
        pool.submit(lambda: over.wait(60))

    async def stays() -> int:
        return int(await pool.submit(lambda: 2))

    asyncio.run(leaves())
    over.set()
    found = asyncio.run(stays())

    assert 2 == found


@pytest.mark.parametrize("fault", [ValueError("x"), StopIteration("x"), KeyboardInterrupt()], ids=repr)
def test_an_exception_comes_back_and_hangs_nobody(fault: BaseException) -> None:
    """A future refuses StopIteration; whoever waited for it would wait for ever, and all behind it."""

    async def main() -> list[str]:
        pool = Pool(1)
        futures = [pool.submit(lambda: raising(fault)), pool.submit(lambda: 1)]
        await asyncio.wait(futures)
        return [type(futures[0].exception()).__name__, str(futures[1].result())]

    found = asyncio.run(main())

    expected = "RuntimeError" if isinstance(fault, StopIteration) else type(fault).__name__
    assert [expected, "1"] == found


def test_a_cancelled_wait_is_none_of_the_threads_business() -> None:
    """What was begun ends; its result finds nobody and disturbs nobody."""

    async def main() -> int:
        over = threading.Event()
        left = in_own_thread(lambda: over.wait(60), "left")
        left.cancel()
        over.set()
        return int(await in_own_thread(lambda: 3, "next"))

    found = asyncio.run(main())

    assert 3 == found


def test_a_thread_of_its_own_carries_the_place() -> None:
    """A tool's body in a thread is still inside of its tool."""

    async def main() -> Any:
        HERE.set(Place("r1", in_tool=True))
        return await in_own_thread(HERE.get, "place")

    found = asyncio.run(main())

    assert Place("r1", in_tool=True) == found


def test_waiting_through_hands_a_cancellation_back() -> None:
    """Not lost, not raised: the caller finishes what must be finished, then delivers it."""

    async def main() -> tuple[bool, bool]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(through(future))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        still = not waiting.done()
        future.set_result(None)
        return still, isinstance(await waiting, asyncio.CancelledError)

    found = asyncio.run(main())

    assert (True, True) == found


def test_work_aside_hands_back_its_value_and_the_cancellation() -> None:
    """Setting up a run is not torn by the wish to end it."""

    async def main() -> Any:
        over = threading.Event()
        working = asyncio.ensure_future(aside(lambda: over.wait(60)))
        await asyncio.sleep(0)
        working.cancel()
        await asyncio.sleep(0)
        over.set()
        return await working

    value, met = asyncio.run(main())

    assert (True, True) == (value, isinstance(met, asyncio.CancelledError))


def test_a_task_that_was_let_go_does_not_hold_its_loop() -> None:
    """`asyncio.run` waits for every task it knows; one that takes no leave would hold the process for ever."""

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def main() -> str:
        task = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0)
        let_go(task)
        return "ended"

    found = asyncio.run(main())

    assert "ended" == found


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    """A fork copies the queue but no thread: without new ones the child's first append would wait for ever."""

    async def ask() -> int:
        return int(await aside(lambda: (7, None)[0]) == (7, None))

    asyncio.run(ask())
    child = os.fork()
    if child == 0:
        os._exit(40 + asyncio.run(ask()))
    _, status = os.waitpid(child, 0)

    assert 41 == os.waitstatus_to_exitcode(status)
