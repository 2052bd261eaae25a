"""How one handler of an extension is run within its time, from plain code or on an event loop. Decides nothing."""

import asyncio
import contextvars
import queue
from collections.abc import Callable
from typing import Any

import msgspec

from clew.runtime.bodies import LINGER_S, Struck
from clew.runtime.extensions import Extension, Handler
from clew.runtime.place import HERE
from clew.runtime.pool import NoThread, begin_thread, in_own_thread, let_go, through
from clew.runtime.tools import is_async, unfinished


class Heard(msgspec.Struct, frozen=True):
    """How a handler ended: `succeeded` with a value, `failed` with what it raised, or `timed_out`."""

    status: str = "succeeded"
    value: Any = None
    fault: BaseException | None = None
    error: str = ""


def hear_sync(extension: Extension, moment: str, payload: Any) -> Heard:
    """Run a handler from plain code, in a daemon thread, which is left behind when its time is up."""
    handler, ended = extension.handlers[moment], queue.SimpleQueue[Heard]()
    awaits = is_async(handler)
    context = contextvars.copy_context()
    # An async handler is cancelled in its own loop first, and may take its leave.
    patience_s = extension.timeout_s + (2 * LINGER_S if awaits else 0)

    async def on_a_loop() -> None:
        heard, _ = await hear_async(extension, moment, payload)
        ended.put(heard)

    def apart() -> None:
        if awaits:
            asyncio.run(on_a_loop())
        else:
            ended.put(_contained(handler, payload))

    try:
        begin_thread(lambda: context.run(apart), f"extension-{extension.id}")
        return ended.get(timeout=patience_s)
    except NoThread as fault:
        return Heard("failed", fault=fault)
    except queue.Empty:
        return _too_late(extension, "its thread was left behind")


async def hear_async(extension: Extension, moment: str, payload: Any) -> tuple[Heard, Struck]:
    """Run a handler from an event loop, which goes on meanwhile; a cancellation of the caller is handed back.

    An async one is cancelled when its time is up; a plain one has a thread, which is left behind.
    """
    handler = extension.handlers[moment]
    awaits = is_async(handler)
    ended: asyncio.Future[Heard]
    if awaits:
        ended = asyncio.ensure_future(_awaited(handler, payload))
    else:
        try:
            ended = in_own_thread(lambda: _contained(handler, payload), f"extension-{extension.id}")
        except NoThread as fault:
            return Heard("failed", fault=fault), None
    met = await through(asyncio.ensure_future(asyncio.wait([ended], timeout=extension.timeout_s)))
    if ended.done():
        return _heard_of(ended), met
    if not awaits:
        return _too_late(extension, "its thread was left behind"), met
    ended.cancel()
    met = await through(asyncio.ensure_future(asyncio.wait([ended], timeout=LINGER_S))) or met
    if ended.done():
        return _too_late(extension, "it was cancelled"), met
    let_go(ended)
    return _too_late(extension, "it did not let itself be cancelled and was left behind"), met


def _heard_of(ended: "asyncio.Future[Heard]") -> Heard:
    return Heard("failed", fault=asyncio.CancelledError("it cancelled itself")) if ended.cancelled() else ended.result()


def _too_late(extension: Extension, what: str) -> Heard:
    return Heard("timed_out", error=f"no answer within {extension.timeout_s:g} s; {what}")


async def _awaited(handler: Callable[[Any], Any], payload: Any) -> Heard:
    # It is no part of the agent: a call of the run from here would wait for the call that it is asked about.
    HERE.set(None)
    try:
        return _ended(await handler(payload))
    except asyncio.CancelledError:
        raise
    except BaseException as fault:  # noqa: BLE001  # whatever it raises is its receipt's, not the run's
        return Heard("failed", fault=fault)


def _contained(handler: Handler, payload: Any) -> Heard:
    HERE.set(None)
    try:
        return _ended(handler(payload))
    except BaseException as fault:  # noqa: BLE001  # whatever it raises is its receipt's, not the run's
        return Heard("failed", fault=fault)


def _ended(value: Any) -> Heard:
    if unfinished(value):
        return Heard("failed", error=f"TypeError: it returned a {type(value).__name__}, which is work that nobody did")
    return Heard(value=value)
