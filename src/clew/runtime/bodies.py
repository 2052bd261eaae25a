"""How a tool's body, a probe or a model is run, and what is known when it ends. Async and sync, side by side."""

import asyncio
import contextvars
import inspect
import queue
import threading
from collections.abc import Callable
from typing import Any

from clew.core.effect import Cancelled, Outcome, Raised, Returned
from clew.core.jsonable import record_result
from clew.core.redact import Redactor
from clew.core.review import CannotTell, DidNotHappen, GiveUp, Happened, Verdict
from clew.errors import NothingHappened
from clew.runtime.place import HERE, Place
from clew.runtime.pool import in_own_thread, through
from clew.runtime.tools import Call, Failed, ProbeBody, Tool

PROBE_TIMEOUT_S = 10.0
MESSAGE_CHARS = 500
Late = Callable[[Outcome], None]


def known(tool: Tool, value: Any, redactor: Redactor) -> Returned:
    """What a body returned, as JSON, redacted before anybody sees it."""
    failed = value.message if isinstance(value, Failed) else None
    told = value.value if isinstance(value, Failed) else value
    answer = record_result(told)
    return Returned(answer if tool.secret else redactor.answer(answer), failed and redactor.text(failed))


def unknown(tool: Tool, fault: BaseException, redactor: Redactor) -> Outcome:
    """What is known when a body raised."""
    if isinstance(fault, asyncio.CancelledError | KeyboardInterrupt):
        return Cancelled()
    proved = isinstance(fault, (NothingHappened, *tool.nothing_happened_on))
    return Raised(type(fault).__name__, redactor.text(str(fault))[:MESSAGE_CHARS], proved)


def timed_out(tool: Tool) -> Raised:
    """What is known when a body did not end in time: nothing."""
    return Raised("TimeoutError", f"no answer after {tool.timeout_s:g} s")


def _work(tool: Tool, call: Call, arguments: dict[str, Any]) -> Callable[[], Any]:
    return lambda: tool.body(*((call,) if tool.takes_call else ()), **arguments)


async def run_async(
    tool: Tool, call: Call, arguments: dict[str, Any], redactor: Redactor, late: Late
) -> tuple[Outcome, asyncio.CancelledError | None]:
    """Run a body from an event loop; a cancellation that struck it is handed back beside what is known."""
    token = HERE.set(Place(call.run_id, in_tool=True))
    try:
        if tool.is_async and tool.timeout_s is None:
            return known(tool, await _work(tool, call, arguments)(), redactor), None
        return await _run_apart(tool, _work(tool, call, arguments), redactor, late)
    except asyncio.CancelledError as cancelled:
        return Cancelled(), cancelled
    except BaseException as fault:
        return unknown(tool, fault, redactor), None
    finally:
        HERE.reset(token)


async def _run_apart(
    tool: Tool, work: Callable[[], Any], redactor: Redactor, late: Late
) -> tuple[Outcome, asyncio.CancelledError | None]:
    """In a task or thread of its own, so that it can be left behind when its time is up."""
    ended: asyncio.Future[Any] = asyncio.ensure_future(work()) if tool.is_async else in_own_thread(work, tool.name)
    met: asyncio.CancelledError | None = None
    try:
        await asyncio.wait([ended], timeout=tool.timeout_s)
    except asyncio.CancelledError as cancelled:
        met = cancelled
    if tool.is_async and not ended.done():
        ended.cancel()
        await _linger(ended)
    if not ended.done():
        ended.add_done_callback(lambda future: late(_outcome(tool, future, redactor)))
        return (Cancelled() if met is not None else timed_out(tool)), met
    if met is None and ended.cancelled():
        return timed_out(tool), None
    return _outcome(tool, ended, redactor), met


async def _linger(ended: "asyncio.Future[Any]") -> None:
    """Give a cancelled task one second to take its leave."""
    grace = asyncio.ensure_future(asyncio.wait([ended], timeout=1.0))
    await through(grace)


def _outcome(tool: Tool, ended: "asyncio.Future[Any]", redactor: Redactor) -> Outcome:
    if ended.cancelled():
        return Cancelled()
    fault = ended.exception()
    return known(tool, ended.result(), redactor) if fault is None else unknown(tool, fault, redactor)


def run_sync(tool: Tool, call: Call, arguments: dict[str, Any], redactor: Redactor, late: Late) -> Outcome:
    """Run a body from plain code: in the caller's thread, or apart when its time is limited."""
    token = HERE.set(Place(call.run_id, in_tool=True))
    work = _work(tool, call, arguments)
    body: Callable[[], Any] = (lambda: asyncio.run(_awaited(work))) if tool.is_async else work
    try:
        if tool.timeout_s is None:
            return known(tool, body(), redactor)
        return _wait_for(tool, body, redactor, late)
    except BaseException as fault:
        return unknown(tool, fault, redactor)
    finally:
        HERE.reset(token)


async def _awaited(work: Callable[[], Any]) -> Any:
    return await work()


def _wait_for(tool: Tool, body: Callable[[], Any], redactor: Redactor, late: Late) -> Outcome:
    """In a daemon thread; after its time the thread is left behind and its end, if it comes, is handed to `late`."""
    ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    given_up = threading.Event()
    context = contextvars.copy_context()

    def in_thread() -> None:
        try:
            outcome: Outcome = known(tool, context.run(body), redactor)
        except BaseException as fault:
            outcome = unknown(tool, fault, redactor)
        ended.put(outcome)
        if given_up.is_set():
            late(outcome)

    threading.Thread(target=in_thread, name=f"clew-tool-{tool.name}", daemon=True).start()
    try:
        return ended.get(timeout=tool.timeout_s)
    except queue.Empty:
        given_up.set()
        return timed_out(tool)


def verdict_of(given: Any) -> Verdict:
    """What a probe returned, if it is a verdict at all."""
    if isinstance(given, Happened | DidNotHappen | GiveUp | CannotTell):
        return given
    return CannotTell(f"the probe returned {type(given).__name__}, which is no verdict")


async def probe_async(probe: ProbeBody, call: Call) -> tuple[Verdict, asyncio.CancelledError | None]:
    """Ask a probe from an event loop; raising or taking longer than ten seconds is "cannot tell"."""
    ended: asyncio.Future[Any]
    if inspect.iscoroutinefunction(probe):
        ended = asyncio.ensure_future(probe(call))
    else:
        ended = in_own_thread(lambda: probe(call), "probe")
    patience = asyncio.ensure_future(asyncio.wait([ended], timeout=PROBE_TIMEOUT_S))
    met = await through(patience)
    if not ended.done():
        ended.cancel()
        return _silent(), met
    return _heard(ended), met


def _heard(ended: "asyncio.Future[Any]") -> Verdict:
    if ended.cancelled():
        return CannotTell("the probe was cancelled")
    fault = ended.exception()
    return verdict_of(ended.result()) if fault is None else _raised(fault)


def _raised(fault: BaseException) -> CannotTell:
    return CannotTell(f"the probe raised {type(fault).__name__}: {str(fault)[:MESSAGE_CHARS]}")


def _silent() -> CannotTell:
    return CannotTell(f"the probe did not answer within {PROBE_TIMEOUT_S:g} s")


def probe_sync(probe: ProbeBody, call: Call) -> Verdict:
    """Ask a probe from plain code, with the same patience."""
    heard: queue.SimpleQueue[Verdict] = queue.SimpleQueue()

    def in_thread() -> None:
        try:
            given = probe(call)
            heard.put(verdict_of(asyncio.run(_awaited(lambda: given)) if asyncio.iscoroutine(given) else given))
        except BaseException as fault:
            heard.put(_raised(fault))

    threading.Thread(target=in_thread, name="clew-probe", daemon=True).start()
    try:
        return heard.get(timeout=PROBE_TIMEOUT_S)
    except queue.Empty:
        return _silent()
