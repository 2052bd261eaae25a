"""Limits of a living run: each is asked before the start that would pass it, over all legs, whoever asks."""

import asyncio
import contextvars
import threading
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.core.budget import NEW_CALL, NEW_TURN
from clew.testing.crash import CrashPoint
from tests.runtime.scene import WAYS, Scene, agent_of, lose_the_line, paying, tool_of
from tests.runtime.test_drivers import crash

ways = pytest.mark.parametrize("way", WAYS)
HOUR_MS = 3_600_000


def model(usage: clew.Usage | None = None, log: list[Any] | None = None) -> Any:
    """A model that answers and reports this."""

    def ask(request: Any) -> clew.Turn:
        if log is not None:
            log.append(request)
        return clew.Turn("yes", usage)

    return ask


def talking(way: str, usage: clew.Usage | None, turns: int = 3, log: list[Any] | None = None) -> clew.Agent:
    """An agent that asks so often."""

    def script(run: Any) -> Any:
        for number in range(turns):
            yield run.turn(model(usage, log), number)
        return "done"

    return agent_of(way, script)


def told(result: clew.RunResult) -> tuple[str | None, int]:
    return result.reason, result.exit_code


def exceeded(scene: Scene) -> list[dict[str, Any]]:
    """What the journal says of limits that were reached."""
    return [event["budget"] for event in scene.said("error") if "budget" in event]


@ways
def test_turns_are_limited(way: str) -> None:
    """Contract #173: the turn that would be one too many is not asked."""
    scene, log = Scene(), list[Any]()
    agent = talking(way, None, log=log)
    first = scene.run(agent, budget=clew.RunBudget(max_turns=2))
    last = scene.resume(agent, budget=clew.RunBudget(max_turns=3))

    assert (("budget_exceeded", 5), (None, 0), [0, 1, 2]) == (told(first), told(last), log)
    assert [{"dimension": "turns", "limit": 2, "actual": 2}] == exceeded(scene)


@ways
def test_tokens_are_limited(way: str) -> None:
    """Contract #174: 11 of 10 were used; nothing starts any more, and what was asked is not interrupted."""
    scene, log = Scene(), list[Any]()

    result = scene.run(talking(way, clew.Usage(tokens=11), log=log), budget=clew.RunBudget(max_tokens=10))

    assert (("budget_exceeded", 5), [0]) == (told(result), log)
    assert [{"dimension": "tokens", "limit": 10, "actual": 11}] == exceeded(scene)


@ways
def test_cost_is_limited_in_millionths(way: str) -> None:
    """Three tenths are three tenths: 0.1 + 0.1 + 0.1 is more than 0.3 in floats."""
    scene, log = Scene(), list[Any]()
    agent = talking(way, clew.Usage(cost_micro_usd=100_000), 4, log)

    result = scene.run(agent, budget=clew.RunBudget(max_cost_usd=0.3))

    assert (("budget_exceeded", 5), [0, 1, 2]) == (told(result), log)
    assert [{"dimension": "costUsd", "limit": 300_000, "actual": 300_000}] == exceeded(scene)


@ways
def test_steps_of_all_kinds_are_limited_together(way: str) -> None:
    """A call, a turn, a named step, a check: each is a step."""
    scene = Scene()
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        yield run.call(pay)
        yield run.turn(model(), "x")
        yield run.step("plan", lambda: 1)
        yield run.check("looks well", lambda: True)
        yield run.call(pay, "b")

    result = scene.run(agent_of(way, script, pay), budget=clew.RunBudget(max_steps=4))

    assert (("budget_exceeded", 5), ["a"]) == (told(result), list(scene.bank.orders))
    assert [{"dimension": "steps", "limit": 4, "actual": 4}] == exceeded(scene)


@ways
def test_error_answers_are_limited(way: str) -> None:
    """One that fails again and again is stopped; those that are put up with are answers."""
    scene, tries = Scene(), []

    def fails() -> Any:
        tries.append(1)
        return clew.Failed("no")

    tool = tool_of(way, fails, effect="external")

    def script(run: Any) -> Any:
        while True:
            with suppress(clew.ToolError):
                yield run.call(tool)

    result = scene.run(agent_of(way, script, tool), budget=clew.RunBudget(max_tool_failures=2))

    assert (("budget_exceeded", 5), 3) == (told(result), len(tries))
    assert [{"dimension": "toolFailures", "limit": 2, "actual": 3}] == exceeded(scene)


@ways
def test_attempts_above_the_first_are_limited(way: str) -> None:
    """The probe said that nothing happened; the second attempt waits for a new limit, and then is made."""
    scene, fates = Scene(), [lose_the_line]

    def pay(call: clew.Call) -> str:
        if fates:
            fates.pop()()
        return scene.bank.pay(call)

    tool = tool_of(way, pay, effect="external", probe=scene.bank.find, in_doubt_s=0)
    agent = agent_of(way, lambda run: (yield run.call(tool)), tool)
    first = scene.run(agent, budget=clew.RunBudget(max_retries=0))
    paid = len(scene.bank.paid)
    last = scene.resume(agent, budget=clew.RunBudget(max_retries=1))

    assert (("budget_exceeded", 5), 0, (None, 0), 1) == (told(first), paid, told(last), len(scene.bank.paid))
    assert 1 == last.snapshot["metrics"]["retries"]


@ways
def test_usage_that_is_not_reported_pauses_a_run_with_a_limit_of_it(way: str) -> None:
    """C17, promise 9: no limit is kept by counting zero; another leg may go on without it, or on purpose."""
    scene, log = Scene(), list[Any]()
    agent = talking(way, None, log=log)
    first = scene.run(agent, budget=clew.RunBudget(max_tokens=100))
    again = scene.resume(agent)
    asked = list(log)
    last = scene.resume(agent, budget=clew.RunBudget(max_tokens=100, on_unmeasured="continue"))

    assert [("budget_not_enforceable", 5)] * 2 + [(None, 0)] == [told(first), told(again), told(last)]
    assert ([0], [0, 1, 2]) == (asked, log)
    assert {"dimension": "tokens", "limit": 100, "actual": 0, "unmeasuredTurns": 1} == exceeded(scene)[0]


@ways
def test_cost_that_is_not_reported_is_not_covered_by_tokens_that_are(way: str) -> None:
    """W31: the reference set the one to zero as soon as the other was seen, so that no limit of cost could be met."""
    scene = Scene()

    result = scene.run(talking(way, clew.Usage(tokens=5)), budget=clew.RunBudget(max_cost_usd=1))

    assert ("budget_not_enforceable", 5) == told(result)


@ways
def test_a_resume_that_begins_above_its_limit_replays_and_starts_nothing(way: str) -> None:
    """W34: the reference counted again and did not look; what was answered is told, the next start is refused."""
    scene, broken, seen = Scene(), [True], []
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        for order in "ab":
            answer = yield run.call(pay, order)
            seen.append(answer)
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        yield run.step("plan", lambda: seen.append("planned"))

    agent = agent_of(way, script, pay)
    scene.run(agent)
    result = scene.resume(agent, budget=clew.RunBudget(max_calls=1))

    assert (("budget_exceeded", 5), 4, {"a": 1, "b": 1}) == (told(result), len(seen), scene.bank.orders)
    assert [{"dimension": "toolCalls", "limit": 1, "actual": 2}] == exceeded(scene)


@ways
def test_a_run_may_fail_at_its_limit(way: str) -> None:
    """Who does not want to come back says so."""
    scene = Scene()

    result = scene.run(talking(way, None), budget=clew.RunBudget(max_turns=1), on_limit="fail")

    assert ("failed", "budget_exceeded", 3) == (result.operation.state, *told(result))


def test_only_the_first_limit_is_told() -> None:
    """Contract #176: which one it was is a fact, not the last of many."""
    scene = Scene()
    pay = paying(scene, "plain", lambda: scene.clock.advance(20))

    def script(run: Any) -> Any:
        yield run.call(pay)
        for deed, *words in ((run.call, pay, "b"), (run.turn, model(), "x"), (run.step, "s", lambda: 1)):
            with suppress(clew.Stop):
                deed(*words)
        return "went on"

    result = scene.run(agent_of("plain", script, pay), budget=clew.RunBudget(max_calls=1, max_turns=0, run_timeout_s=9))

    assert ("budget_exceeded", 5) == told(result)
    assert [{"dimension": "toolCalls", "limit": 1, "actual": 1}] == exceeded(scene)


def test_the_first_limit_stays_the_one_that_is_told() -> None:
    """Contract #176: threads that ask at once meet several; one of them is the reason, and it is one."""
    scene, met = Scene(), list[Any]()

    def script(run: Any) -> Any:
        yield run.step("plan", lambda: 1)
        met.extend(run._gate.spend(adds) for adds in (NEW_CALL, NEW_TURN, frozenset()))

    scene.run(agent_of("plain", script), budget=clew.RunBudget(max_calls=0, max_turns=0))

    assert ["toolCalls"] * 3 == [limit.dimension for limit in met]


@ways
def test_a_turn_that_died_is_asked_again_under_the_limit_that_it_counts_to(way: str) -> None:
    """It is the same turn; one too many would be another."""
    scene, log = Scene(), list[Any]()
    agent = talking(way, None, 2, log)
    crash(scene, agent, CrashPoint(2, 0))
    result = scene.resume(agent, budget=clew.RunBudget(max_turns=1))

    assert (("budget_exceeded", 5), [0, 0], 1) == (told(result), log, result.snapshot["metrics"]["turns"])


def test_threads_are_admitted_up_to_the_limit_and_no_further() -> None:
    """Many that ask at the same moment must not all be the last one."""
    scene, asked = Scene(), list[Any]()
    gate = threading.Barrier(8)

    def one(run: clew.SyncRun) -> None:
        gate.wait(20)
        for number in range(4):
            run.turn(asked.append, [threading.get_ident(), number])

    @clew.agent
    def agent(run: clew.SyncRun, prompt: str) -> None:
        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(quiet, one, run), daemon=True)
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    def quiet(work: Any, run: clew.SyncRun) -> None:
        with suppress(clew.Stop):
            work(run)

    result = scene.run(agent, budget=clew.RunBudget(max_turns=5))

    assert (5, 5, "budget_exceeded") == (len(asked), result.snapshot["metrics"]["turns"], result.reason)


@settings(max_examples=40)
@given(
    st.integers(0, 6), st.lists(st.integers(1, 9), min_size=1, max_size=5), st.lists(st.integers(1, 4), max_size=3)
)  # fmt: skip
def test_what_was_spent_does_not_depend_on_where_legs_are_cut(limit: int, costs: list[int], deaths: list[int]) -> None:
    """Contract #175, C18: paused and resumed, a run spends what it does in one leg, and not a turn more."""
    whole, cut = Scene(), Scene()
    budget = clew.RunBudget(max_turns=limit)

    def agent(fails_after: list[int]) -> clew.Agent:
        def script(run: Any) -> Any:
            last = fails_after.pop(0) if fails_after else None
            for number, tokens in enumerate(costs, 1):
                yield run.turn(lambda request, tokens=tokens: clew.Turn("x", clew.Usage(tokens=tokens)), number)
                if number == last:
                    raise LookupError("cut here")

        return agent_of("plain", script)

    one = whole.run(agent([]), budget=budget)
    left = list(deaths)
    cut.run(agent(left), budget=budget)
    while left and cut.state.finish is None:
        cut.resume(agent(left))
    two = cut.resume(agent([])) if cut.state.finish is None else cut.home().result("r1")

    known = ("turns", "tokens", "steps", "requests", "unmeasuredTokens")
    first, second = (result.snapshot["metrics"] for result in (one, two))
    assert (one.reason, [first[name] for name in known]) == (two.reason, [second[name] for name in known])


# Limits are recorded.


def limits_of_resumes(scene: Scene) -> list[Any]:
    return [line["payload"].get("limits", "none said") for line in scene.lines if line["kind"] == "resume"]


@ways
def test_a_resume_records_the_limits_that_it_brings(way: str) -> None:
    """Who looks at the run must see which ones hold; those that were said last hold on."""
    scene = Scene()
    agent = talking(way, None, 4)
    scene.run(agent, budget=clew.RunBudget(max_turns=1))
    scene.resume(agent, budget=clew.RunBudget(max_turns=2))
    scene.resume(agent)
    result = scene.resume(agent, budget=clew.RunBudget(max_turns=2))

    assert [{"maxTurns": 2}, "none said", "none said"] == limits_of_resumes(scene)
    assert ({"maxTurns": 2}, 2) == (result.snapshot["limits"], result.snapshot["metrics"]["turns"])


@ways
def test_a_resume_may_lift_all_limits(way: str) -> None:
    """That there are none any more is said too."""
    scene = Scene()
    agent = talking(way, None)
    scene.run(agent, budget=clew.RunBudget(max_turns=1))
    result = scene.resume(agent, budget=clew.RunBudget())

    assert ("completed", [{}]) == (result.operation.state, limits_of_resumes(scene))


# Time.


@ways
@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS])
def test_time_is_taken_by_a_clock_that_nobody_sets(way: str, step_ms: int) -> None:
    """W33, C122: a wall clock that is set neither shortens nor lengthens what a leg has spent."""
    scene, broken = Scene(), [True]

    def script(run: Any) -> Any:
        yield run.step("wait", lambda: scene.clock.advance(20))
        if broken.pop() if broken else False:
            scene.clock.set_wall(scene.clock.now_ms() + step_ms)
            raise LookupError("a bug")
        yield run.step("again", lambda: scene.clock.advance(20))
        yield run.step("more", lambda: scene.clock.advance(20))

    agent = agent_of(way, script)
    first = scene.run(agent, budget=clew.RunBudget(run_timeout_s=40))
    last = scene.resume(agent)

    assert (20_000, True) == (
        scene.lines[[line["kind"] for line in scene.lines].index("pause")]["payload"]["metrics"]["activeMs"],
        first.snapshot["metrics"]["clockStepped"],
    )
    assert (("run_timeout", 5), 40_000) == (told(last), scene.state.active_ms)


@ways
def test_a_leg_whose_clock_was_left_alone_says_nothing_of_its_time(way: str) -> None:
    """The times of its records say it."""
    scene = Scene()
    scene.run(agent_of(way, lambda run: (yield run.step("wait", lambda: scene.clock.advance(20)))))

    assert ("activeMs" in scene.lines[-1]["payload"]["metrics"], 20_000) == (False, scene.state.active_ms)


def test_a_leg_that_died_counts_until_its_last_record() -> None:
    """W33: what it spent after that nobody can know."""
    scene = Scene()

    def script(run: Any) -> Any:
        yield run.step("wait", lambda: scene.clock.advance(20))
        yield run.step("again", lambda: scene.clock.advance(20))

    agent = agent_of("plain", script)
    crash(scene, agent, CrashPoint(2, 0))
    result = scene.resume(agent, budget=clew.RunBudget(run_timeout_s=30))

    assert (None, 40_000) == (result.reason, scene.state.active_ms)


def in_doubt(scene: Scene, way: str, step_ms: int) -> clew.Agent:
    """An agent whose payment is lost on its way, with a bank that does not find it; the clock is set while it looks."""
    moved = [step_ms]

    def find(call: clew.Call) -> clew.Verdict:
        scene.clock.set_wall(scene.clock.now_ms() + (moved.pop() if moved else 0))
        return clew.DidNotHappen()

    pay = paying(scene, way, lose_the_line, probe=find, in_doubt_s=50)
    return agent_of(way, lambda run: (yield run.call(pay)), pay)


@ways
@pytest.mark.parametrize("step_ms", [0, HOUR_MS, -HOUR_MS])
def test_a_clock_that_is_set_changes_nothing_of_the_doubt(way: str, step_ms: int) -> None:
    """Promise 2: believed an hour later, a request that may still land would be sent again."""
    scene = Scene()

    scene.run(in_doubt(scene, way, step_ms))

    assert [50.0] == scene.clock.slept[:1]


def test_a_cancelled_turn_is_not_measured() -> None:
    """C16: aborted in the middle of its stream, it was paid, perhaps; a limit of tokens cannot be kept then."""
    scene = Scene()

    asked = asyncio.Event()

    async def slow(request: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    @clew.agent
    async def agent(run: clew.Run, prompt: str) -> str:
        task = asyncio.ensure_future(run.turn(slow, "pay?"))
        await asked.wait()
        task.cancel()
        await asyncio.wait([task])
        await run.turn(model(clew.Usage(tokens=5)), "again")
        return "went on"

    result = scene.run(agent, budget=clew.RunBudget(max_tokens=100))

    assert ("budget_not_enforceable", 5) == told(result)
