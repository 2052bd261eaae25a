"""Checks of a living run: looked at once, recorded with evidence, replayed; what raises has not passed."""

import asyncio
from typing import Any

import pytest

import clew
from clew.runtime.evaluating import slug_of
from clew.testing.crash import CrashPoint
from tests.runtime.scene import WAYS, Scene, agent_of, paying
from tests.runtime.test_drivers import crash
from tests.runtime.test_gate import FULL, FullDisk

ways = pytest.mark.parametrize("way", WAYS)


def looking(found: Any, log: list[Any] | None = None) -> Any:
    """A look that finds this, or raises it."""

    def look(*args: Any) -> Any:
        if log is not None:
            log.append(args)
        if isinstance(found, BaseException):
            raise found
        return found

    return look


def results(result: clew.RunResult) -> list[dict[str, Any]]:
    return list(result.snapshot["evaluation"]["scenarioResults"])


@ways
def test_a_check_is_recorded_with_what_it_found(way: str) -> None:
    """Contract #170: a run whose work was checked, and passed, is ready."""
    scene = Scene()
    found = clew.Check(True, 0.5, "equal", ["line 3", {"sum": 7}])

    def script(run: Any) -> Any:
        check = yield run.check("totals match", looking(found), 1)
        return [check.passed, check.score, check.reason, list(check.evidence)]

    result = scene.run(agent_of(way, script))

    assert ([True, 0.5, "equal", ["line 3", {"sum": 7}]], True) == (
        result.output, result.snapshot["releaseReadiness"]["ready"],
    )  # fmt: skip
    assert [{"id": "totals match", "passed": True, "score": 0.5, "reason": "equal"}] == results(result)
    assert ["line 3", '{"sum":7}'] == result.snapshot["checks"][0]["evidence"]


@ways
def test_a_check_is_made_once(way: str) -> None:
    """What was true when it was looked at is what the agent went on from; a second look might say something else."""
    scene, log, broken = Scene(), list[Any](), [True]

    def script(run: Any) -> Any:
        check = yield run.check("totals match", looking(clew.Check(False, reason="3 of 4"), log), 1)
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        return [check.passed, check.reason]

    agent = agent_of(way, script)
    scene.run(agent)
    result = scene.resume(agent)

    assert ([(1,)], [False, "3 of 4"], 1) == (log, result.output, len(results(result)))
    assert ["check 'totals match' did not pass: 3 of 4"] == result.snapshot["releaseReadiness"]["blockers"]


@ways
def test_a_check_that_died_is_made_again(way: str) -> None:
    """It only looks."""
    scene, log = Scene(), list[Any]()
    agent = agent_of(way, lambda run: (yield run.check("totals match", looking(True, log))))
    crash(scene, agent, CrashPoint(1, 0))
    result = scene.resume(agent)

    assert (2, 1, "completed") == (len(log), len(results(result)), result.operation.state)


@ways
@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (LookupError("no file hunter22"), "LookupError: no file [redacted:configured]"),
        (None, "the check returned a NoneType; it returns a bool or a clew.Check"),
        (1, "the check returned a int; it returns a bool or a clew.Check"),
        ("passed", "the check returned a str; it returns a bool or a clew.Check"),
    ],
)
def test_what_is_no_pass_has_not_passed(way: str, found: Any, reason: str) -> None:
    """W32, promise 8: a check that could not look proves nothing, and a truthy value is no verdict."""
    scene = Scene()

    result = scene.run(agent_of(way, lambda run: (yield run.check("a", looking(found))).passed, secrets=["hunter22"]))

    assert (False, [{"id": "a", "passed": False, "reason": reason}]) == (result.output, results(result))
    assert "completed" == result.operation.state


@ways
def test_checks_of_one_name_are_numbered_and_all_of_them_count(way: str) -> None:
    """One for each order: none covers another."""
    scene = Scene()

    def script(run: Any) -> Any:
        for passed in (False, True):
            yield run.check("totals match", looking(passed))

    result = scene.run(agent_of(way, script))

    assert [("totals match", False), ("totals match #2", True)] == [(r["id"], r["passed"]) for r in results(result)]
    assert not result.snapshot["releaseReadiness"]["ready"]


@ways
def test_a_check_inside_of_a_step_has_its_own_place(way: str) -> None:
    """Two orders are checked side by side under one name."""
    scene = Scene()

    def script(run: Any) -> Any:
        yield run.check("now", looking(True))
        if way == "plain":
            run.step("order", lambda: run.check("now", looking(True)).passed)
        else:

            async def inner() -> Any:
                return (await run.check("now", looking(True))).passed

            yield run.step("order", inner)

    result = scene.run(agent_of(way, script))

    assert ["check.now_-1", "order-1.check.now_-1"] == [row["stepId"] for row in result.snapshot["checks"]]


def test_an_async_look_is_awaited() -> None:
    """A coroutine is not a verdict."""
    scene = Scene()

    async def look() -> bool:
        await asyncio.sleep(0)
        return True

    result = scene.run(agent_of("async", lambda run: (yield run.check("a", look)).passed))

    assert True is result.output


@ways
def test_another_check_in_the_place_of_a_recorded_one_is_a_divergence(way: str) -> None:
    """The result of one must not be told as that of the other."""
    scene, names = Scene(), ["a b", "a.b"]

    def script(run: Any) -> Any:
        yield run.check(names.pop(0), looking(True))
        if names:
            raise LookupError("a bug")

    agent = agent_of(way, script)
    scene.run(agent)
    result = scene.resume(agent)

    assert "resume_divergence" == result.reason


@ways
@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101, 7])
def test_a_check_has_a_name_that_can_be_read(way: str, name: Any) -> None:
    """It is what the release is judged by."""
    scene = Scene()

    def script(run: Any) -> Any:
        try:
            yield run.check(name, looking(True))
        except clew.UsageError as fault:
            return fault.code

    assert "invalid_check_name" == scene.run(agent_of(way, script)).output


@ways
def test_evidence_that_could_not_be_kept_pauses_the_run(way: str) -> None:
    """A check without its evidence is an assertion."""
    scene = Scene(blobs=FullDisk(FULL))
    check = clew.Check(True, evidence=["x" * 20_000])

    result = scene.run(agent_of(way, lambda run: (yield run.check("a", looking(check)))))

    assert ("result_not_kept", []) == (result.reason, results(result))


@ways
def test_long_evidence_is_replayed_whole(way: str) -> None:
    """Its beginning stands in the record, the whole beside the journal."""
    scene, broken = Scene(), [True]

    def script(run: Any) -> Any:
        check = yield run.check("a", looking(clew.Check(True, evidence=["x" * 20_000])))
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        return len(check.evidence[0])

    agent = agent_of(way, script)
    scene.run(agent)

    assert 20_000 == scene.resume(agent).output


@ways
def test_a_closed_gate_lets_no_check_in(way: str) -> None:
    """Nothing starts behind a limit."""
    scene, log = Scene(), list[Any]()
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        yield run.call(pay)
        yield run.check("a", looking(True, log))

    result = scene.run(agent_of(way, script, pay), budget=clew.RunBudget(max_steps=1))

    assert ("budget_exceeded", []) == (result.reason, log)


@ways
def test_a_check_that_is_stopped_is_not_recorded_as_failed(way: str) -> None:
    """Who was told to stop has not looked."""
    scene = Scene()

    result = scene.run(agent_of(way, lambda run: (yield run.check("a", looking(clew.Stop("the run is pausing"))))))

    assert ([], "paused") == (results(result), result.operation.state)


@pytest.mark.parametrize(
    ("name", "slug"),
    [("Totals match!", "totals_match"), ("now", "now_"), ("çé", "check"), ("…", "check"), ("x" * 99, "x" * 40)],
)
def test_a_name_becomes_part_of_a_step_id(name: str, slug: str) -> None:
    """A step id has letters that a path may have; two that come to the same are told apart by what is recorded."""
    assert slug == slug_of(name)
