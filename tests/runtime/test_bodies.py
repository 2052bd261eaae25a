"""How bodies and probes are run, and what is known when they end, late or never."""

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import clew
from clew.core.needs import Cancelled, Outcome, Raised, Returned
from clew.core.redact import Redactor
from clew.runtime import bodies
from clew.runtime.place import HERE
from clew.runtime.tools import Call, Tool
from tests.runtime.scene import Scene, agent_of, paying

CALL = Call("r1:t-1:c1", tool="t")
WORDS = Redactor(["hunter22"])
waits = pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "plain"])


def never(outcome: Outcome) -> None:
    raise AssertionError(outcome)


def run(tool: Tool, *, asynchronous: bool, late: Callable[[Outcome], None] = never, **arguments: Any) -> Outcome:
    """What is known of one body, run from a loop or from plain code."""
    if not asynchronous:
        return bodies.run_sync(tool, CALL, arguments, WORDS, late)
    return asyncio.run(bodies.run_async(tool, CALL, arguments, WORDS, late))[0]


def raising(fault: BaseException) -> Any:
    raise fault


async def raising_later(fault: BaseException) -> Any:
    raise fault


@waits
@pytest.mark.parametrize("timeout_s", [None, 60])
@pytest.mark.parametrize("body", [raising, raising_later])
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (ValueError("no hunter22"), Raised("ValueError", "no [redacted:configured]")),
        (clew.NothingHappened("declined"), Raised("NothingHappened", "declined", nothing_happened=True)),
        (TimeoutError("named"), Raised("TimeoutError", "named", nothing_happened=True)),
        (SystemExit(3), Raised("SystemExit", "3")),
        (KeyboardInterrupt(), Cancelled()),
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_a_body_raises_is_what_is_known(
    asynchronous: bool, timeout_s: float | None, body: Any, fault: BaseException, expected: Outcome
) -> None:
    """In whatever way it is run, no exception of a tool may pass by the record."""
    tool = Tool(body, name="t", effect="external", timeout_s=timeout_s, nothing_happened_on=[TimeoutError])

    outcome = run(tool, asynchronous=asynchronous, fault=fault)

    assert expected == outcome


@waits
@pytest.mark.parametrize("timeout_s", [None, 60])
def test_a_stop_iteration_does_not_hang_the_loop(asynchronous: bool, timeout_s: float | None) -> None:
    """`next()` on something empty is an ordinary bug; a future cannot carry its exception."""
    tool = Tool(lambda: next(iter([])), name="t", effect="external", timeout_s=timeout_s)

    outcome = run(tool, asynchronous=asynchronous)

    assert Raised("StopIteration", "") == outcome


@waits
def test_an_exception_whose_text_fails_is_still_known(asynchronous: bool) -> None:
    """Its own code runs when it is told; that must not cost the receipt."""

    class Wild(Exception):
        def __str__(self) -> str:
            raise LookupError

    outcome = run(Tool(raising, name="t"), asynchronous=asynchronous, fault=Wild())

    assert Raised("Wild", "a Wild without a text") == outcome


@waits
@pytest.mark.parametrize("message", ["", "no", 404, None])
def test_a_tool_that_failed_never_passes_for_success(asynchronous: bool, message: Any) -> None:
    """Whatever it gives for a message, `Failed` is an error answer."""
    outcome = run(Tool(lambda: clew.Failed(message, [1]), name="t"), asynchronous=asynchronous)

    assert Returned([1], str(message)) == outcome


async def work() -> int:
    return 1


def generating() -> Iterator[int]:
    yield 1


def hidden(body: Callable[..., Any]) -> Callable[..., Any]:
    """What a decorator makes that forgets what it wraps."""

    def decorated(*given: Any) -> Any:
        return body(*given)

    decorated.__signature__ = inspect.signature(body)  # type: ignore[attr-defined]  # a function may say so
    return decorated


@waits
@pytest.mark.parametrize("body", [hidden(work), hidden(generating)], ids=["coroutine", "generator"])
def test_work_that_nobody_did_is_no_result(asynchronous: bool, body: Any) -> None:
    """A decorator that hides an async function would record a payment that nobody made as committed."""
    outcome = run(Tool(body, name="t"), asynchronous=asynchronous)

    assert isinstance(outcome, Raised)
    assert "TypeError" == outcome.kind


@waits
def test_an_object_that_is_called_as_a_coroutine_is_awaited(asynchronous: bool) -> None:
    """Tools may be objects and partials."""

    class Adder:
        async def __call__(self, n: int) -> int:
            return n + 1

    outcomes = [
        run(Tool(body, name="t"), asynchronous=asynchronous) for body in (functools.partial(work), Adder().__call__)
    ]
    outcomes.append(run(Tool(Adder(), name="t"), asynchronous=asynchronous, n=1))

    assert Returned(1) == outcomes[0]
    assert Returned(2) == outcomes[2]


def test_an_async_tool_of_a_plain_run_works_inside_of_a_running_loop() -> None:
    """A notebook has a loop in the same thread."""
    tool = Tool(work, name="t")

    async def notebook() -> Outcome:
        return bodies.run_sync(tool, CALL, {}, WORDS, never)

    outcome = asyncio.run(notebook())

    assert Returned(1) == outcome


@waits
def test_a_body_and_its_probe_stand_inside_of_a_tool(asynchronous: bool) -> None:
    """From there no call is let in: a second effect inside of an open one could not be judged alone."""
    places = []

    def look(call: Call) -> clew.Verdict:
        place = HERE.get()
        places.append((place.run_id, place.in_tool) if place is not None else None)
        return clew.DidNotHappen()

    run(Tool(look, name="t", timeout_s=60), asynchronous=asynchronous)
    run(Tool(look, name="t"), asynchronous=asynchronous)
    ask(look, asynchronous=asynchronous)

    assert [("r1", True)] * 3 == places
    assert HERE.get() is None


# Out of time.


@waits
def test_a_thread_whose_time_is_up_tells_later_how_it_ended(asynchronous: bool) -> None:
    """It cannot be stopped, only left behind; its end is still a fact."""
    over, told, heard = threading.Event(), [], threading.Event()

    def slow() -> int:
        over.wait(60)
        return 7

    def late(outcome: Outcome) -> None:
        told.append(outcome)
        heard.set()

    tool = Tool(slow, name="t", timeout_s=0)

    async def patient() -> Outcome:
        outcome, _ = await bodies.run_async(tool, CALL, {}, WORDS, late)
        over.set()
        while not told:
            await asyncio.sleep(0)
        return outcome

    first = asyncio.run(patient()) if asynchronous else bodies.run_sync(tool, CALL, {}, WORDS, late)
    over.set()
    heard.wait(60)

    assert (Raised("TimeoutError", "no answer after 0 s"), [Returned(7)]) == (first, told)


def test_a_task_whose_time_is_up_is_cancelled() -> None:
    """A coroutine can be told to stop, and then nothing of it runs on."""
    ended = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    outcome = run(Tool(slow, name="t", timeout_s=0), asynchronous=True)

    assert (Raised("TimeoutError", "no answer after 0 s"), ["cancelled"]) == (outcome, ended)


def test_a_task_that_answers_its_cancellation_with_a_result_is_known() -> None:
    """It returned: that is known, however late."""

    async def stubborn() -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return 7
        return 0

    outcome = run(Tool(stubborn, name="t", timeout_s=0), asynchronous=True)

    assert Returned(7) == outcome


def test_a_cancellation_while_a_slow_task_takes_its_leave_is_not_lost() -> None:
    """Who waits for the cancellation would wait for ever."""
    leaving = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            leaving.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def main() -> Any:
        tool = Tool(slow, name="t", timeout_s=0)
        task = asyncio.ensure_future(bodies.run_async(tool, CALL, {}, WORDS, never))
        await leaving.wait()
        task.cancel()
        return await task

    outcome, met = asyncio.run(main())

    assert (Returned(None), True) == (outcome, isinstance(met, asyncio.CancelledError))


@pytest.mark.parametrize("way", ["thread", "plain"])
def test_a_late_return_before_the_end_is_a_review_of_the_tool(way: str) -> None:
    """The run pauses all the same, and its resume finds the answer."""
    scene, over, left = Scene(), threading.Event(), threading.Event()

    def slow() -> None:
        over.wait(60)

    pay = paying(scene, way, slow, timeout_s=0)

    def script(run: Any) -> Any:
        try:
            return (yield run.call(pay))[:8]
        except clew.Stop:
            over.set()
            while not gate_of(run).late:
                left.wait(0.001)
                if way == "thread":
                    yield asyncio.sleep(0)

    agent = agent_of(way, script, pay)
    first = scene.run(agent)
    last = scene.resume(agent)

    assert ("paused", 21, []) == (first.operation.state, first.exit_code, first.waiting)
    review = scene.said("effect_review")[0]
    assert ("happened", "tool", "pay", "late_return") == (
        review["outcome"], review["source"], review["by"], review["evidence"][0]["kind"],
    )  # fmt: skip
    assert ("completed", "transfer", 1) == (last.operation.state, last.output, len(scene.bank.paid))


def gate_of(run: Any) -> Any:
    """The gate behind a run: where late returns arrive."""
    return run._gate


# Probes.


def ask(probe: Any, *, asynchronous: bool, timeout_s: float = 60) -> clew.Verdict:
    if asynchronous:
        return asyncio.run(bodies.probe_async(probe, CALL, timeout_s=timeout_s))[0]
    return bodies.probe_sync(probe, CALL, timeout_s=timeout_s)


async def find(call: Call) -> clew.Verdict:
    return clew.Happened(call.key)


@waits
@pytest.mark.parametrize("probe", [find, hidden(find), lambda call: clew.Happened(call.key)])
def test_a_probe_may_be_async_or_plain(asynchronous: bool, probe: Any) -> None:
    """And so may what it hides behind."""
    verdict = ask(probe, asynchronous=asynchronous)

    assert clew.Happened("r1:t-1:c1") == verdict


@waits
@pytest.mark.parametrize("fault", [LookupError("x"), SystemExit(1), StopIteration()], ids=repr)
def test_a_probe_that_raises_cannot_tell(asynchronous: bool, fault: BaseException) -> None:
    """Not even one that wants to end the process."""
    verdict = ask(lambda call: raising(fault), asynchronous=asynchronous)

    assert "the probe raised " in verdict.reason
    assert type(fault).__name__ in verdict.reason


@waits
def test_a_probe_that_is_too_slow_cannot_tell(asynchronous: bool) -> None:
    """A probe must not hold the run longer than the payment."""
    over = threading.Event()

    verdict = ask(lambda call: over.wait(60), asynchronous=asynchronous, timeout_s=0)
    over.set()

    assert clew.CannotTell("the probe did not answer within 0 s") == verdict


def test_a_body_that_asks_is_given_a_moment_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says then is known; one that never asks is not waited for any longer."""
    monkeypatch.setattr(bodies, "LINGER_S", 60.0)
    call = Call("r1:t-1:c1", tool="t")
    asked = call.called_off

    def body(call: Call) -> str:
        while not call.called_off:
            pass
        return "tidied"

    tool = Tool(body, name="t", effect="external", timeout_s=0)

    outcome = bodies.run_sync(tool, call, {}, WORDS, lambda outcome: None)

    assert (False, Returned("tidied")) == (asked, outcome)


def test_a_plain_body_that_is_left_by_a_loop_can_hear_of_it() -> None:
    """Its thread cannot be stopped, but it may stop by itself."""
    ended = threading.Event()

    def body(call: Call) -> None:
        while not call.called_off:
            pass
        ended.set()

    tool = Tool(body, name="t", effect="external", timeout_s=0.05)

    outcome, _ = asyncio.run(bodies.run_async(tool, Call("r1:t-1:c1", tool="t"), {}, WORDS, lambda outcome: None))

    assert (bodies.timed_out(tool), True) == (outcome, ended.wait(20))
