"""How a tool's body, a probe or a model is run, and what is known when it ends. Async and sync, side by side."""

import asyncio
import contextvars
import inspect
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any, Final

import msgspec

from clew.core.jsonable import record_result, to_json
from clew.core.needs import Cancelled, Outcome, Raised, Returned
from clew.core.redact import Redactor
from clew.core.review import CannotTell, DidNotHappen, GiveUp, Happened, Verdict
from clew.errors import NothingHappened, UsageError
from clew.runtime.living import running
from clew.runtime.place import HERE, Place
from clew.runtime.pool import NoThread, begin_thread, in_own_thread, through
from clew.runtime.tools import Call, Failed, ProbeBody, Tool, unfinished

PROBE_TIMEOUT_S: Final = 10.0
LINGER_S: Final = 1.0
FAULT_CHARS: Final = 500
MESSAGE_CHARS: Final = 4000
Late = Callable[[Outcome], None]
Struck = asyncio.CancelledError | None


def known(tool: Tool, value: Any, redactor: Redactor) -> Outcome:
    """What a body returned, as JSON, redacted before anybody sees it."""
    if unfinished(value):
        return Raised("TypeError", f"it returned a {type(value).__name__}, which is work that nobody did")
    failed = None
    if isinstance(value, Failed):
        failed, value = redactor.text(text_of(value.message))[:MESSAGE_CHARS], value.value
    answer = record_result(value)
    return Returned(answer if tool.secret else redactor.answer(answer), failed)


def unknown(tool: Tool, fault: BaseException, redactor: Redactor) -> Outcome:
    """What is known when a body raised."""
    if isinstance(fault, asyncio.CancelledError | KeyboardInterrupt):
        return Cancelled()
    proved = isinstance(fault, (NothingHappened, *tool.nothing_happened_on))
    return Raised(type(fault).__name__, redactor.text(text_of(fault))[:FAULT_CHARS], proved)


def text_of(said: object) -> str:
    """The text of an exception or a message, whatever its own code does."""
    try:
        return str(said)
    except Exception:  # noqa: BLE001  # a text that cannot be made must not hide what happened
        return f"a {type(said).__name__} without a text"


def seconds_of(given: Any) -> float | None:
    """A number of seconds as a probe gave it, or None when it is none."""
    return float(given) if isinstance(given, int | float) and 0 <= given < inf else None


def timed_out(tool: Tool) -> Raised:
    """What is known when a body did not end in time: nothing."""
    return Raised("TimeoutError", f"no answer after {tool.timeout_s:g} s")


def blocking(value: Any) -> Any:
    """The value of what plain code was given: awaited where it must be."""
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value


def _work(tool: Tool, call: Call, arguments: dict[str, Any]) -> Callable[[], Any]:
    return lambda: tool.body(*((call,) if tool.takes_call else ()), **arguments)


def recordable(verdict: Verdict, redactor: Redactor, *, in_progress: bool) -> Verdict:
    """A verdict as it may be recorded: its result is JSON, its words are redacted.

    "Did not happen" says nothing if the body was still running when it was asked: it may have done it since.
    """
    reason = redactor.text(text_of(verdict.reason))[:MESSAGE_CHARS]
    if isinstance(verdict, CannotTell):
        return CannotTell(reason, seconds_of(verdict.retry_in_s))
    if isinstance(verdict, DidNotHappen) and in_progress:
        return CannotTell("it was not there, but the body of this attempt was still running")
    if not isinstance(verdict, Happened) or verdict.result is msgspec.UNSET:
        return msgspec.structs.replace(verdict, reason=reason)
    try:
        result = redactor.answer(to_json(verdict.result, at="result"))
    except UsageError as fault:
        return CannotTell(f"the probe's result is not JSON: {fault.message}")
    return Happened(result, reason)


async def run_async(
    tool: Tool, call: Call, arguments: dict[str, Any], redactor: Redactor, late: Late
) -> tuple[Outcome, Struck]:
    """Run a body from an event loop; a cancellation that struck it is handed back beside what is known."""
    work = _work(tool, call, arguments)
    token = HERE.set(Place(call.run_id, in_tool=True, key=call.key, attempt=call.attempt))
    try:
        if tool.is_async and tool.timeout_s is None:
            return await _contained(tool, call, work, redactor), None
        ended: asyncio.Future[Outcome]
        if tool.is_async:
            ended = asyncio.ensure_future(_contained(tool, call, work, redactor))
        else:
            ended = in_own_thread(lambda: _contained_sync(tool, call, arguments, redactor), tool.name)
    except asyncio.CancelledError as cancelled:
        return Cancelled(), cancelled
    except NoThread as fault:
        return unknown(tool, fault, redactor), None
    finally:
        HERE.reset(token)
    return await _within_its_time(tool, call, ended, late)


async def _contained(tool: Tool, call: Call, work: Callable[[], Any], redactor: Redactor) -> Outcome:
    """What a coroutine's end says; only a cancellation goes on."""
    try:
        with running(call.key, call.attempt):
            value = await work()
        return known(tool, value, redactor)
    except asyncio.CancelledError:
        raise
    except BaseException as fault:  # noqa: BLE001  # whatever it raises, that is what is known
        return unknown(tool, fault, redactor)


def _contained_sync(tool: Tool, call: Call, arguments: dict[str, Any], redactor: Redactor) -> Outcome:
    try:
        with running(call.key, call.attempt):
            value = tool.body(call, **arguments) if tool.takes_call else tool.body(**arguments)
            if tool.is_async:
                value = blocking(value)
        return known(tool, value, redactor)
    except BaseException as fault:  # noqa: BLE001  # whatever it raises, that is what is known
        return unknown(tool, fault, redactor)


async def _within_its_time(
    tool: Tool, call: Call, ended: "asyncio.Future[Outcome]", late: Late
) -> tuple[Outcome, Struck]:
    """Wait for a body in a task or thread of its own; when its time is up it is left behind."""
    met: Struck = None
    try:
        await asyncio.wait([ended], timeout=tool.timeout_s)
    except asyncio.CancelledError as cancelled:
        met = cancelled
    if tool.is_async and not ended.done():
        ended.cancel()
        met = await _linger(ended) or met
    if not ended.done():
        call.leave()
        if call.listened and met is not None:
            # Now that it hears of it, it may give up, and what it had done by then is known.
            met = await _linger(ended) or met
    if not ended.done():
        ended.add_done_callback(lambda future: late(_outcome(future)))
        return (Cancelled() if met is not None else timed_out(tool)), met
    if met is None and ended.cancelled():
        return timed_out(tool), None
    return _outcome(ended), met


async def _linger(ended: "asyncio.Future[Outcome]") -> Struck:
    """Give a cancelled task a moment to take its leave."""
    return await through(asyncio.ensure_future(asyncio.wait([ended], timeout=LINGER_S)))


def _outcome(ended: "asyncio.Future[Outcome]") -> Outcome:
    return Cancelled() if ended.cancelled() else ended.result()


def run_sync(tool: Tool, call: Call, arguments: dict[str, Any], redactor: Redactor, late: Late) -> Outcome:
    """Run a body from plain code: in the caller's thread, or apart when its time is limited or a loop runs here."""
    token = HERE.set(Place(call.run_id, in_tool=True, key=call.key, attempt=call.attempt))
    try:
        if tool.timeout_s is None and not (tool.is_async and a_loop_runs_here()):
            return _contained_sync(tool, call, arguments, redactor)
        return _wait_for(tool, call, arguments, redactor, late)
    except KeyboardInterrupt:
        return Cancelled()
    except NoThread as fault:
        return unknown(tool, fault, redactor)
    finally:
        HERE.reset(token)


def a_loop_runs_here() -> bool:
    """Does an event loop run in this thread?"""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _wait_for(tool: Tool, call: Call, arguments: dict[str, Any], redactor: Redactor, late: Late) -> Outcome:
    """In a daemon thread; after its time the thread is left behind and its end, if it comes, is handed to `late`."""
    ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    given_up = threading.Event()
    context = contextvars.copy_context()

    def in_thread() -> None:
        outcome = context.run(_contained_sync, tool, call, arguments, redactor)
        ended.put(outcome)
        if given_up.is_set():
            late(outcome)

    begin_thread(in_thread, f"tool-{tool.name}")
    try:
        return ended.get(timeout=tool.timeout_s)
    except queue.Empty:
        given_up.set()
        call.leave()
        # It may have ended between the two, or does so now that it hears of it.
        with suppress(queue.Empty):
            return ended.get(timeout=LINGER_S if call.listened else 0)
        return timed_out(tool)
    except KeyboardInterrupt:
        given_up.set()
        call.leave()
        raise


def verdict_of(given: Any) -> Verdict:
    """What a probe returned, if it is a verdict at all."""
    if isinstance(given, Happened | DidNotHappen | GiveUp | CannotTell):
        return given
    return CannotTell(f"the probe returned {type(given).__name__}, which is no verdict")


async def probe_async(probe: ProbeBody, call: Call, *, timeout_s: float = PROBE_TIMEOUT_S) -> tuple[Verdict, Struck]:
    """Ask a probe from an event loop; raising or taking longer than its time is "cannot tell"."""
    token = HERE.set(Place(call.run_id, in_tool=True, key=call.key, attempt=call.attempt))
    try:
        ended = asyncio.ensure_future(_asked(probe, call))
    finally:
        HERE.reset(token)
    met = await through(asyncio.ensure_future(asyncio.wait([ended], timeout=timeout_s)))
    if not ended.done():
        ended.cancel()
        return _silent(timeout_s), met
    return CannotTell("the probe was cancelled") if ended.cancelled() else ended.result(), met


async def _asked(probe: ProbeBody, call: Call) -> Verdict:
    try:
        plain = not inspect.iscoroutinefunction(probe)
        given = await in_own_thread(lambda: probe(call), "probe") if plain else probe(call)
        return verdict_of(await given if inspect.isawaitable(given) else given)
    except asyncio.CancelledError:
        raise
    except BaseException as fault:  # noqa: BLE001  # a probe that fails has not told anything
        return _raised(fault)


def probe_sync(probe: ProbeBody, call: Call, *, timeout_s: float = PROBE_TIMEOUT_S) -> Verdict:
    """Ask a probe from plain code, with the same patience."""
    heard: queue.SimpleQueue[Verdict] = queue.SimpleQueue()
    context = contextvars.copy_context()
    context.run(HERE.set, Place(call.run_id, in_tool=True, key=call.key, attempt=call.attempt))

    def in_thread() -> None:
        try:
            heard.put(verdict_of(context.run(lambda: blocking(probe(call)))))
        except BaseException as fault:  # noqa: BLE001  # a probe that fails has not told anything
            heard.put(_raised(fault))

    try:
        begin_thread(in_thread, "probe")
        return heard.get(timeout=timeout_s)
    except NoThread as fault:
        return _raised(fault)
    except queue.Empty:
        return _silent(timeout_s)


def _raised(fault: BaseException) -> CannotTell:
    return CannotTell(f"the probe raised {type(fault).__name__}: {text_of(fault)}")


def _silent(timeout_s: float) -> CannotTell:
    return CannotTell(f"the probe did not answer within {timeout_s:g} s")
