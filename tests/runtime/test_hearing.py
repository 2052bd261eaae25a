"""One handler within its time: what it returned, raised or did not say, from plain code and on an event loop."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import clew
from clew.errors import Stop
from clew.runtime.hearing import Heard, hear_async, hear_sync
from clew.runtime.place import HERE, Place

SHORT_S = 0.02
Hear = Callable[[clew.Extension], Heard]


def on_a_loop(extension: clew.Extension) -> Heard:
    return asyncio.run(hear_async(extension, "after-tool", {"a": 1}))[0]


def plainly(extension: clew.Extension) -> Heard:
    return hear_sync(extension, "after-tool", {"a": 1})


ways = pytest.mark.parametrize("hear", [on_a_loop, plainly])
kinds = pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])


def extension(handler: Any, *, is_async: bool = False, timeout_s: float = 30) -> clew.Extension:
    async def awaited(payload: Any) -> Any:
        return handler(payload)

    return clew.Extension("watch", "1.0", after_tool=awaited if is_async else handler, timeout_s=timeout_s)


def raising(fault: BaseException) -> Callable[[Any], Any]:
    def raises(payload: Any) -> None:
        raise fault

    return raises


@pytest.fixture
def door() -> Iterator[threading.Event]:
    """Keeps a handler until the test is over."""
    held = threading.Event()
    yield held
    held.set()


@ways
@kinds
def test_what_a_handler_returned_is_heard(hear: Hear, is_async: bool) -> None:
    """Either kind, from either side."""
    heard = hear(extension(lambda payload: payload["a"] + 1, is_async=is_async))

    assert Heard("succeeded", 2) == heard


@ways
@kinds
@pytest.mark.parametrize("fault", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), Stop("x")], ids=repr)
def test_what_a_handler_raised_is_heard_and_goes_no_further(hear: Hear, is_async: bool, fault: BaseException) -> None:
    """#243: an exception becomes a receipt, and never an exception, of whatever family."""
    heard = hear(extension(raising(fault), is_async=is_async))

    assert Heard("failed", fault=fault) == heard


@ways
def test_a_plain_handler_that_takes_too_long_is_left_behind(hear: Hear, door: threading.Event) -> None:
    """#243: nothing stops a thread, so the receipt says that it goes on."""
    heard = hear(extension(lambda payload: door.wait(60), timeout_s=SHORT_S))

    assert Heard("timed_out", error="no answer within 0.02 s; its thread was left behind") == heard


@ways
def test_an_async_handler_that_takes_too_long_is_really_cancelled(hear: Hear) -> None:
    """#243, W50: it must not go on behind the answer that it was too late for."""
    ended: list[str] = []

    async def forever(payload: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    heard = hear(clew.Extension("watch", "1.0", after_tool=forever, timeout_s=SHORT_S))

    assert (Heard("timed_out", error="no answer within 0.02 s; it was cancelled"), ["cancelled"]) == (heard, ended)


@ways
def test_an_answer_that_comes_with_the_cancellation_comes_too_late(hear: Hear) -> None:
    """#243: whoever swallows the cancellation and returns has not answered in time."""

    async def stubborn(payload: Any) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "yes"

    heard = hear(clew.Extension("watch", "1.0", after_tool=stubborn, timeout_s=SHORT_S))

    assert "timed_out" == heard.status


@ways
def test_an_async_handler_that_cannot_be_cancelled_is_left_behind(hear: Hear, monkeypatch: pytest.MonkeyPatch) -> None:
    """#243: the run does not wait for it, and says so."""
    monkeypatch.setattr("clew.runtime.hearing.LINGER_S", SHORT_S)

    async def immortal(payload: Any) -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    heard = hear(clew.Extension("watch", "1.0", after_tool=immortal, timeout_s=SHORT_S))

    assert ("timed_out", True) == (heard.status, heard.error.endswith("was left behind"))


@ways
def test_a_handler_that_cancels_itself_has_failed(hear: Hear) -> None:
    """Nobody else cancelled it, so it is its own end."""
    heard = hear(extension(raising(asyncio.CancelledError()), is_async=True))

    assert ("failed", asyncio.CancelledError) == (heard.status, type(heard.fault))


@ways
def test_work_that_nobody_did_is_no_answer(hear: Hear) -> None:
    """A plain function around an async one returns a coroutine: taken for None, a denial would be lost."""

    async def inner() -> str:
        return "no"

    heard = hear(extension(lambda payload: inner()))

    assert Heard("failed", error="TypeError: it returned a coroutine, which is work that nobody did") == heard


@ways
@kinds
def test_a_handler_is_no_part_of_the_agent(hear: Hear, is_async: bool) -> None:
    """A call of the run from inside of it would wait for the call that it is asked about."""
    token = HERE.set(Place("r1"))
    try:
        heard = hear(extension(lambda payload: HERE.get() is None, is_async=is_async))
    finally:
        HERE.reset(token)

    assert Heard("succeeded", True) == heard


def test_a_caller_that_is_cancelled_hears_the_handler_out() -> None:
    """A cancellation must not leave a receipt out; it is handed back beside it."""

    async def main() -> tuple[Heard, bool]:
        asked, may_end = asyncio.Event(), asyncio.Event()

        async def handler(payload: Any) -> str:
            asked.set()
            await may_end.wait()
            return "done"

        declared = clew.Extension("watch", "1.0", after_tool=handler, timeout_s=60)
        task = asyncio.ensure_future(hear_async(declared, "after-tool", {}))
        await asked.wait()
        task.cancel()
        await asyncio.sleep(0)
        may_end.set()
        heard, met = await task
        return heard, isinstance(met, asyncio.CancelledError)

    assert (Heard("succeeded", "done"), True) == asyncio.run(main())
