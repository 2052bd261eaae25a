"""A call in both drivers: probes and what they bring about, deaths at every append, cancellations, a dead disk."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import clew
from clew.core.needs import Closing
from clew.core.records import Batch
from clew.errors import Storage
from clew.testing.crash import Crash, CrashPoint, crashing
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, lose_the_line, paying, start, tool_of

ways = pytest.mark.parametrize("way", WAYS)


def failing_once() -> Any:
    """A line that is dead at first."""
    tries = itertools.count(1)
    return lambda: lose_the_line() if next(tries) == 1 else None


def once(run: Any, pay: clew.Tool) -> Any:
    """Calls `pay` once and says how it went."""
    try:
        return (yield run.call(pay))
    except clew.ToolError as fault:
        return [fault.code, fault.message]


def asked(scene: Scene, way: str, probe: Any, then: Any = lose_the_line, **declared: Any) -> clew.RunResult:
    """One payment whose line dies, and a probe that is asked."""
    pay = paying(scene, way, then, probe=probe, **{"in_doubt_s": 0, **declared})
    return scene.run(agent_of(way, lambda run: once(run, pay), pay))


# What a probe brings about.


@ways
def test_a_probe_that_finds_it_gives_the_answer(way: str) -> None:
    """One payment, its receipt from the bank itself, and the agent goes on as if the line had held."""
    scene = Scene()

    result = asked(scene, way, scene.bank.find)

    assert ("completed", "transfer", 1) == (result.operation.state, result.output[:8], len(scene.bank.paid))
    review = scene.said("effect_review")[0]
    assert ("happened", "probe", "probe:find") == (review["outcome"], review["source"], review["by"])


@ways
def test_a_probe_that_finds_it_without_a_result_says_so(way: str) -> None:
    """That it happened and what it returned are two facts; the agent is told that the second one is missing."""
    scene = Scene()

    result = asked(scene, way, lambda call: clew.Happened())

    assert ["result_not_recorded", "pay happened, as settled by probe:<lambda>; the result was not recorded"] == (
        result.output
    )


@ways
def test_a_probe_that_finds_nothing_lets_it_start_once_more(way: str) -> None:
    """Proved not to have happened: attempt 2, under the same key, by itself."""
    scene = Scene()

    result = asked(scene, way, lambda call: clew.DidNotHappen(), failing_once())

    assert ("completed", [f"{RUN}:pay-1:c1"] * 2) == (result.operation.state, scene.bank.paid)


@ways
def test_a_call_starts_at_most_once_more_by_itself(way: str) -> None:
    """After the second proof that nothing happened, the failure is the answer."""
    scene = Scene()

    result = asked(scene, way, lambda call: clew.DidNotHappen())

    assert (2, ["tool_failed", "the line is dead"]) == (len(scene.bank.paid), result.output)


@ways
def test_a_probe_that_gives_up_ends_the_run(way: str) -> None:
    """Nobody will ever know; that is an honest end, and no success."""
    scene = Scene()

    result = asked(scene, way, lambda call: clew.GiveUp("closed for good"))

    assert ("failed", "effect_given_up", 3) == (result.operation.state, result.reason, result.exit_code)


ANY: Any = None


def broken_probe(call: clew.Call) -> Any:
    """A probe with a bug."""
    raise LookupError("no such bank")


@ways
@pytest.mark.parametrize(
    ("probe", "reason"),
    [
        (broken_probe, "the probe raised LookupError: no such bank"),
        (lambda call: True, "the probe returned bool, which is no verdict"),
        (lambda call: None, "the probe returned NoneType, which is no verdict"),
        (lambda call: clew.Happened(object()), "the probe's result is not JSON"),
        (lambda call: clew.CannotTell("closed today"), "closed today"),
        (lambda call: clew.CannotTell(ANY), "None"),
    ],
    ids=["raises", "true", "none", "no json", "cannot tell", "no words"],
)
def test_a_probe_that_does_not_tell_pauses_the_run_after_a_minute(way: str, probe: Any, reason: str) -> None:
    """Whatever a probe does, silence is no answer; it is asked every five seconds and then waits for a person."""
    scene = Scene()

    result = asked(scene, way, probe)

    assert (1, "paused", 21, 5.0) == (len(scene.bank.paid), result.operation.state, result.exit_code, result.retry_in_s)
    assert [5.0] * 12 == scene.clock.slept
    assert reason in scene.lines[-1]["payload"]["outcome"]["error"]["message"]


@ways
def test_a_probe_that_wants_to_be_asked_tomorrow_pauses_the_run_at_once(way: str) -> None:
    """It says when to come back; nobody sleeps over it."""
    scene = Scene()

    result = asked(scene, way, lambda call: clew.CannotTell("the books are open", retry_in_s=86_400))

    assert (86_400.0, []) == (result.retry_in_s, scene.clock.slept)


@ways
@pytest.mark.parametrize("odd", ["soon", -1, float("nan"), float("inf"), None])
def test_an_odd_time_to_come_back_is_none(way: str, odd: Any) -> None:
    """A probe's mistake must not break the journal."""
    scene = Scene()

    result = asked(scene, way, lambda call: clew.CannotTell("later", retry_in_s=odd))

    assert ("paused", [5.0] * 12) == (result.operation.state, scene.clock.slept)


@ways
def test_nothing_found_does_not_count_while_the_request_may_still_land(way: str) -> None:
    """A probe that looks too early sees nothing although the money is on its way."""
    scene = Scene()

    result = asked(scene, way, lambda call: clew.DidNotHappen(), failing_once(), in_doubt_s=30)

    assert ("completed", [30.0]) == (result.operation.state, scene.clock.slept)


@ways
def test_nothing_found_under_a_long_doubt_pauses_and_says_when_to_come_back(way: str) -> None:
    """More than a minute of asking is not worth holding a process for."""
    scene = Scene()

    result = asked(scene, way, lambda call: clew.DidNotHappen(), in_doubt_s=600)

    assert (1, "paused", 600.0) == (len(scene.bank.paid), result.operation.state, result.retry_in_s)


@ways
def test_a_probe_after_a_death_asks_for_the_recorded_call(way: str) -> None:
    """It gets the recorded arguments, the key and the attempt; the agent has not run yet."""
    scene, seen = Scene(), []

    def find(call: clew.Call) -> clew.Verdict:
        seen.append((dict(call.arguments), call.key, call.attempt))
        return scene.bank.find(call)

    pay = paying(scene, way, probe=find, in_doubt_s=0)
    agent = agent_of(way, lambda run: (yield run.call(pay, "o1")), pay)
    crash(scene, agent, CrashPoint(2, 0))
    result = scene.resume(agent)

    assert ("completed", [({"order": "o1"}, f"{RUN}:pay-1:c1", 1)]) == (result.operation.state, seen)
    assert 1 == len(scene.bank.paid)


@ways
def test_a_probe_waits_for_the_agent_where_arguments_were_hidden(way: str) -> None:
    """A probe with `[redacted]` for an account would look for another payment; the agent brings the true ones."""
    scene, seen = Scene(), []

    def find(call: clew.Call) -> clew.Verdict:
        seen.append(call.arguments["password"])
        return scene.bank.find(call)

    def pay(call: clew.Call, password: str) -> str:
        return scene.bank.pay(call)

    tool = tool_of(way, pay, effect="external", probe=find, in_doubt_s=0)
    agent = agent_of(way, lambda run: (yield run.call(tool, "hunter22")), tool)
    crash(scene, agent, CrashPoint(2, 0))
    result = scene.resume(agent)

    assert ("completed", 1, ["hunter22"]) == (result.operation.state, len(scene.bank.paid), seen)


@ways
def test_a_probe_never_writes_the_answer_of_a_secret_tool(way: str) -> None:
    """After a death as well as before."""
    scene = Scene()
    pay = paying(scene, way, probe=lambda call: clew.Happened("hunter22"), in_doubt_s=0, secret=True)
    agent = agent_of(way, lambda run: once(run, pay), pay)
    crash(scene, agent, CrashPoint(2, 0))
    scene.resume(agent)

    assert b"hunter22" not in scene.memory.raw(RUN)


@ways
def test_settled_as_not_happened_and_killed_again_asks_again(way: str) -> None:
    """Never a third start by itself: each "did not happen" is used up by one start."""
    scene = Scene()
    pay = paying(scene, way)
    agent = agent_of(way, lambda run: (yield run.call(pay)), pay)
    crash(scene, agent, CrashPoint(2, 0))
    scene.settle(clew.DidNotHappen())
    crash(scene, agent, CrashPoint(3, 0), resume=True)
    result = scene.resume(agent)
    again = scene.resume(agent)

    assert [f"{RUN}:pay-1:c1"] * 2 == scene.bank.paid
    assert [("paused", 21)] * 2 == [(r.operation.state, r.exit_code) for r in (result, again)]


@ways
def test_an_idempotent_tool_is_run_again_inside_its_window_only(way: str) -> None:
    """The other side remembers the key so long and no longer."""
    scene = Scene()
    pay = paying(scene, way, replay="idempotent", window_s=60)
    agent = agent_of(way, lambda run: (yield run.call(pay)), pay)
    crash(scene, agent, CrashPoint(2, 0))
    scene.clock.advance(59)
    crash(scene, agent, CrashPoint(3, 0), resume=True)
    scene.clock.advance(61)
    result = scene.resume(agent)

    assert ([f"{RUN}:pay-1:c1"] * 2, "paused") == (scene.bank.paid, result.operation.state)


# Deaths.


def crash(scene: Scene, agent: Any, point: CrashPoint, *, resume: bool = False) -> None:
    """One process that dies at a point."""
    live = scene.resume if resume else scene.run
    with pytest.raises((Crash, Storage)):
        live(agent, point=point)
    scene.die()


def cuts(batch: Batch) -> Iterator[int | None]:
    """What may reach the disk of an append: nothing, each number of whole lines, half a line behind them, all."""
    ends = [0, *(at + 1 for at, byte in enumerate(batch.data) if byte == 10)]
    for begin, end in itertools.pairwise(ends):
        yield begin
        yield (begin + end) // 2
    yield None


def rich(scene: Scene, way: str, **declared: Any) -> clew.Agent:
    """An agent that does a bit of everything, and whose payments need two attempts at times."""
    pay = paying(scene, way, **declared)

    def read(name: str) -> str:
        return name * 3

    look = tool_of(way, read, effect="none")

    def script(run: Any) -> Any:
        orders = yield run.step("plan", lambda: ["a", "b"])
        stamp, luck, name = run.now(), run.random(), run.uuid()
        told = yield run.turn(lambda request: clew.Turn({"for": request}, clew.Usage(tokens=3)), ["which?"])
        for order in orders:
            yield run.call(pay, order)
        return [told, (yield run.call(look, "x")), run.now() >= stamp, 0 <= luck < 1, len(name)]

    return agent_of(way, script, pay, look)


OUTPUT = [{"for": ["which?"]}, "xxx", True, True, 36]


def all_points(way: str) -> list[CrashPoint]:
    """Every append of a whole run, and every cut of it."""
    scene, whole = Scene(), CrashPoint()
    scene.run(rich(scene, way), point=whole)
    return [CrashPoint(n, keep) for n, batch in enumerate(whole.appends, 1) for keep in cuts(batch)]


@ways
def test_a_death_at_any_append_and_any_cut_of_it_ends_in_one_payment_each(way: str) -> None:
    """The heart of it, with an honest probe: the run finishes by itself wherever it died."""
    found = {}
    points = all_points(way)
    for point in points:
        scene = Scene()
        agent = rich(scene, way, probe=scene.bank.find, in_doubt_s=0)
        crash(scene, agent, point)
        if not scene.state.ended:
            scene.resume(agent)
        state = scene.state
        found[point.at_append, point.keep] = (
            state.state,
            dict(scene.bank.orders),
            (state.agent_end or {}).get("output"),
        )

    assert len(points) > 40
    assert {("completed", (("a", 1), ("b", 1)))} == {
        (state, tuple(orders.items())) for state, orders, _ in found.values()
    }
    assert all(output == OUTPUT for _, _, output in found.values())


@ways
def test_a_death_at_any_append_waits_for_a_person_where_nobody_else_can_know(way: str) -> None:
    """Without a probe: the truth is asked for at most once for each order, and then it is one payment each."""
    for point in all_points(way):
        scene = Scene()
        agent = rich(scene, way)
        crash(scene, agent, point)
        for _ in range(3):
            if scene.state.ended:
                break
            result = scene.resume(agent)
            for row in result.waiting:
                paid = row["idempotencyKey"] in scene.bank.paid
                scene.settle(clew.Happened("t") if paid else clew.DidNotHappen(), row["stepId"])

        assert ("completed", {"a": 1, "b": 1}) == (scene.state.state, scene.bank.orders), (point.at_append, point.keep)


@pytest.mark.parametrize("second", range(1, 8))
def test_a_second_death_on_the_way_back_changes_nothing(second: int) -> None:
    """The process that resumes may die as well."""
    for point in all_points("plain")[::3]:
        scene = Scene()
        agent = rich(scene, "plain", probe=scene.bank.find, in_doubt_s=0)
        crash(scene, agent, point)
        if not scene.state.ended:
            try:
                scene.resume(agent, point=CrashPoint(second, 0))
            except (Crash, Storage):
                scene.die()
        if not scene.state.ended:
            scene.resume(agent)

        assert ("completed", {"a": 1, "b": 1}) == (scene.state.state, scene.bank.orders), (point.at_append, point.keep)


# A disk that dies.


class DyingDisk(CrashPoint):
    """From one append on, the machine refuses."""

    def take(self, batch: Batch) -> Batch | None:
        self.appends.append(batch)
        if len(self.appends) >= self.at_append:
            raise Storage("no room", code="disk_full", next="Make room.")
        return None


@ways
def test_what_ended_and_could_not_be_recorded_is_named(way: str) -> None:
    """The last place where the payment is known is this error; later calls stop, and nothing else starts."""
    scene, told = Scene(), []
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        for order in "abc":
            try:
                yield run.call(pay, order)
            except BaseException as fault:
                told.append(type(fault))

    agent = agent_of(way, script, pay)
    with pytest.raises(Storage) as caught:
        start(scene.home(DyingDisk(2)), agent)
    scene.die()
    result = scene.resume(agent)

    assert ("disk_full", [f"{RUN}:pay-1:c1"]) == (caught.value.code, caught.value.facts["unrecorded"])
    assert ([clew.Stop] * 3, {"a": 1}) == (told[:3], scene.bank.orders)
    assert ("paused", 21) == (result.operation.state, result.exit_code)


@ways
def test_nothing_starts_on_a_dead_disk(way: str) -> None:
    """`started` could not be written, so the body does not run."""
    scene = Scene()
    pay = paying(scene, way)
    agent = agent_of(way, lambda run: (yield run.call(pay)), pay)

    with pytest.raises(Storage):
        start(scene.home(DyingDisk(1)), agent)

    assert [] == scene.bank.paid


# Cancellations.


def cancelling(scene: Scene, agent: Any, when: Any) -> None:
    """One process whose run is cancelled by `when(task)`."""

    async def main() -> None:
        task = asyncio.ensure_future(scene.home().run(agent, "go", run_id=RUN))
        await when(task)
        await asyncio.wait([task])

    asyncio.run(main())
    scene.check()


@pytest.mark.parametrize("way", ["async", "thread"])
@pytest.mark.parametrize("steps", range(1, 61, 4))
def test_a_cancellation_at_any_time_tears_nothing_and_loses_nothing(way: str, steps: int) -> None:
    """Whenever it strikes, the journal is whole, and with a probe there is one payment each in the end."""
    scene = Scene()
    agent = rich(scene, way, probe=scene.bank.find, in_doubt_s=0)

    async def soon(task: Any) -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()

    cancelling(scene, agent, soon)
    if not scene.state.ended:
        scene.resume(agent)

    assert ("completed", {"a": 1, "b": 1}) == (scene.state.state, scene.bank.orders)


class Strike(CrashPoint):
    """While one append is on its way to the disk, a task is cancelled."""

    task: "asyncio.Task[Any] | None" = None
    cancelled = False

    def take(self, batch: Batch) -> Batch | None:
        self.appends.append(batch)
        if len(self.appends) == self.at_append and self.task is not None:
            struck = threading.Event()
            self.task.get_loop().call_soon_threadsafe(self._strike, self.task, struck)
            assert struck.wait(30)
            self.cancelled = True
        return None

    def _strike(self, task: "asyncio.Task[Any]", struck: threading.Event) -> None:
        task.cancel()
        struck.set()


def test_a_run_that_is_cancelled_during_an_append_keeps_it() -> None:
    """Appends are not cancellable: the cancellation is delivered when they are acknowledged."""
    scene, whole = Scene(), CrashPoint()
    scene.run(rich(scene, "async"), point=whole)
    for at_append in range(1, len(whole.appends) + 1):
        scene, point = Scene(), Strike(at_append)
        agent = rich(scene, "async", probe=scene.bank.find, in_doubt_s=0)

        async def main(scene: Scene = scene, point: Strike = point, agent: Any = agent) -> None:
            point.task = asyncio.ensure_future(scene.home(point).run(agent, "go", run_id=RUN))
            await asyncio.wait([point.task])

        asyncio.run(main())
        scene.check()
        if not scene.state.ended:
            scene.resume(agent)

        assert (True, "completed", {"a": 1, "b": 1}) == (point.cancelled, scene.state.state, scene.bank.orders), (
            at_append
        )


def test_a_call_that_is_cancelled_during_an_append_is_as_it_was_recorded() -> None:
    """An agent that cancels its own calls and goes on sees neither a second payment nor a broken run."""
    for at_append in range(1, 5):
        scene, point = Scene(), Strike(at_append)
        pay = paying(scene, "async", probe=scene.bank.find, in_doubt_s=0)

        @clew.agent(tools=[pay])
        async def agent(run: clew.Run, prompt: str, pay: Any = pay, point: Strike = point) -> str:
            for order in "ab":
                point.task = asyncio.ensure_future(run.call(pay, order))
                await asyncio.wait([point.task])
            return "all done"

        result = scene.run(agent, point=point)

        # While `started` is written the body has not begun, and does not begin; while the answer is, it stands.
        unpaid = {1: {"b": 1}, 2: {"a": 1, "b": 1}, 3: {"a": 1}, 4: {"a": 1, "b": 1}}[at_append]
        assert ("completed", unpaid) == (result.operation.state, scene.bank.orders), at_append


def test_a_cancelled_payment_is_unknown_and_the_cancellation_goes_on() -> None:
    """The caller's cancel is neither swallowed nor does it leave a receipt out."""
    scene, moved = Scene(), asyncio.Event()

    @clew.tool(effect="external")
    async def pay(call: clew.Call) -> None:
        scene.bank.pay(call)
        moved.set()
        await asyncio.Event().wait()

    @clew.agent(tools=[pay])
    async def agent(run: clew.Run, prompt: str) -> None:
        await run.call(pay)

    async def when_it_moved(task: Any) -> None:
        await moved.wait()
        task.cancel()

    cancelling(scene, agent, when_it_moved)

    assert ["tool_call", "capability_resolved", "started", "unknown", "error"] == scene.words
    assert ("paused", 1) == (scene.state.state, len(scene.state.unsettled()))


def test_a_cancelled_call_does_not_ask_its_probe_for_a_minute() -> None:
    """Who is cancelled has no time; the probe is asked by the next process."""
    scene, moved, looks = Scene(), asyncio.Event(), []

    def find(call: clew.Call) -> clew.Verdict:
        looks.append(call.attempt)
        return scene.bank.find(call)

    @clew.tool(effect="external", probe=find, in_doubt_s=0)
    async def pay(call: clew.Call) -> None:
        scene.bank.pay(call)
        moved.set()
        await asyncio.Event().wait()

    @clew.agent(tools=[pay])
    async def agent(run: clew.Run, prompt: str) -> str:
        return str(await run.call(pay))[:8]

    async def when_it_moved(task: Any) -> None:
        await moved.wait()
        task.cancel()

    cancelling(scene, agent, when_it_moved)
    result = scene.resume(agent)

    assert (["transfer"], [1], []) == ([result.output], looks, scene.clock.slept)


def test_a_timeout_of_the_agents_own_is_the_agents_own() -> None:
    """`asyncio.timeout` around a call must still become TimeoutError, or the agent hangs in its own logic."""
    scene = Scene()

    @clew.tool(effect="none")
    async def slow() -> None:
        await asyncio.Event().wait()

    @clew.agent(tools=[slow])
    async def agent(run: clew.Run, prompt: str) -> str:
        try:
            async with asyncio.timeout(0):
                await run.call(slow)
        except TimeoutError:
            return "timed out"
        return "never"

    result = scene.run(agent)

    assert ("completed", "timed out") == (result.operation.state, result.output)


@ways
def test_an_interruption_of_a_tool_is_unknown(way: str) -> None:
    """Ctrl-C in a payment proves nothing about the payment."""
    scene = Scene()

    def interrupted() -> None:
        raise KeyboardInterrupt

    pay = paying(scene, way, interrupted)
    result = scene.run(agent_of(way, lambda run: (yield run.call(pay)), pay))

    assert (1, "paused", ["unknown"]) == (
        len(scene.bank.paid),
        result.operation.state,
        [row["status"] for row in result.waiting],
    )


def test_an_interruption_while_a_probe_waits_ends_the_waiting() -> None:
    """Nobody holds a terminal for a minute after Ctrl-C; what is open stays open."""
    scene = Scene()

    def sleep(seconds: float, woken: Callable[[], bool] = lambda: False) -> bool:
        raise KeyboardInterrupt

    scene.clock.sleep = sleep  # type: ignore[method-assign]  # Ctrl-C strikes in the sleep
    result = asked(scene, "plain", lambda call: clew.CannotTell("later"))

    assert (1, "paused", ["unknown"]) == (
        len(scene.bank.paid),
        result.operation.state,
        [row["status"] for row in result.waiting],
    )


def test_a_store_that_crashes_is_otherwise_the_store_it_wraps() -> None:
    """The crash point must not change what it measures."""
    scene, point = Scene(), CrashPoint()
    agent = rich(scene, "plain")

    start(scene.home(store=crashing(scene.memory, point)), agent)

    written = b"".join(batch.data for batch in point.appends)
    assert scene.memory.raw(RUN).endswith(written)


@ways
def test_doubt_begins_when_the_body_ended_not_when_it_started(way: str) -> None:
    """Its last deed may have been to send the request: a minute of work before does not make that land sooner."""
    scene = Scene()
    failing = failing_once()

    def slow_failing() -> Any:
        scene.clock.advance(59)
        return failing()

    result = asked(scene, way, lambda call: clew.DidNotHappen(), slow_failing, in_doubt_s=30)

    assert ("completed", [30.0]) == (result.operation.state, scene.clock.slept)


def retrying(scene: Scene, verdict: Any, *, pays: bool) -> clew.RunResult:
    """An agent that loses patience with a payment, cancels it, and asks for the same again."""
    tries: list[int] = []
    begun = asyncio.Event()

    async def pay(call: clew.Call, order: str) -> str:
        tries.append(call.attempt)
        if pays or len(tries) > 1:
            scene.bank.paid.append(call.key)
        if len(tries) == 1:
            begun.set()
            await asyncio.Event().wait()
        return "transfer"

    tool = clew.tool(name="pay", effect="external", probe=lambda call: verdict, in_doubt_s=0)(pay)

    async def agent(run: clew.Run, prompt: Any) -> str:
        impatient = asyncio.ensure_future(run.call(tool, order="1042"))
        await begun.wait()
        impatient.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await impatient
        return str(await run.call(tool, order="1042"))

    return scene.run(clew.Agent(agent, tools=[tool]))


@pytest.mark.parametrize(
    ("verdict", "pays"), [(clew.Happened("transfer"), True), (clew.DidNotHappen(), False)], ids=["happened", "did not"]
)
def test_a_retry_behind_a_timeout_of_the_agents_own_is_the_same_call(verdict: Any, pays: bool) -> None:
    """The agent was cancelled before it heard what the probe found: a second call beside it would pay twice."""
    scene = Scene()

    result = retrying(scene, verdict, pays=pays)

    assert ("completed", "transfer") == (result.operation.state, result.output)
    assert ["r1:pay-1:c1"] == scene.bank.paid


@ways
def test_who_calls_the_run_off_does_not_wait_for_the_next_question_to_a_probe(way: str) -> None:
    """After Ctrl-C nobody holds a terminal for a minute; what is open stays open."""
    scene = Scene()
    gates: list[Any] = []

    def busy(call: clew.Call) -> clew.Verdict:
        gates[0].close(Closing("interrupted"))
        return clew.CannotTell("later")

    pay = paying(scene, way, lose_the_line, probe=busy, in_doubt_s=0)

    def script(run: Any) -> Any:
        gates.append(run._gate)
        yield run.call(pay)

    result = scene.run(agent_of(way, script, pay))

    assert ("paused", []) == (result.operation.state, scene.clock.slept)
