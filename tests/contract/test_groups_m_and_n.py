"""Groups M and N of the contract on living runs: outcomes, metrics, evaluation, limits."""

from typing import Any

import pytest

import clew
from tests.runtime.scene import WAYS, Scene, agent_of, paying

ways = pytest.mark.parametrize("way", WAYS)


def outcome(result: clew.RunResult) -> tuple[str, str]:
    said = result.snapshot["outcome"]
    return said["status"], said["finishReason"]


def bug(run: Any) -> Any:
    yield run.step("plan", lambda: 1)
    raise LookupError("a bug")


@ways
def test_an_outcome_is_what_the_run_came_to(way: str) -> None:
    """Contract #166: without error succeeded and completed; with one the reason is its code, and here it pauses."""
    scene, other = Scene(), Scene()

    good = scene.run(agent_of(way, lambda run: (yield run.step("plan", lambda: 1))))
    bad = other.run(agent_of(way, bug))

    assert [("succeeded", "completed"), ("paused", "agent_error")] == [outcome(good), outcome(bad)]


@ways
def test_a_denied_call_has_no_effect_and_its_agent_hears_of_it(way: str) -> None:
    """Contract #171: zero effects happen; a policy's denial is an answer here, with which the agent goes on."""
    scene = Scene()
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        heard = []
        for order in "ab":
            try:
                yield run.call(pay, order)
            except clew.Denied as fault:
                heard.append(fault.message)
        return heard

    result = scene.run(agent_of(way, script, pay, policy=lambda call: "not today"))

    assert (["not today"] * 2, [], "completed") == (result.output, scene.bank.paid, result.operation.state)


@ways
def test_no_usage_anywhere_is_no_number_anywhere(way: str) -> None:
    """Contract #169: absent in the record, null in our account, never zero."""
    scene = Scene()

    result = scene.run(agent_of(way, lambda run: (yield run.turn(lambda request: "yes", 1))))

    recorded = scene.lines[-1]["payload"]["metrics"]
    assert {"tokens", "costUsd", "costMicroUsd", "context"}.isdisjoint(recorded)
    assert (None, None) == (result.snapshot["metrics"]["tokens"], result.snapshot["metrics"]["costUsd"])


@ways
def test_a_limit_of_no_calls_allows_none(way: str) -> None:
    """Contract #172: the call is not made, the journal names the dimension, and the run says budget_exceeded."""
    scene = Scene()
    pay = paying(scene, way)

    result = scene.run(agent_of(way, lambda run: (yield run.call(pay)), pay), budget=clew.RunBudget(max_calls=0))

    assert (("paused", "budget_exceeded"), [], 0) == (
        outcome(result), scene.bank.paid, scene.words.count("tool_call"),
    )  # fmt: skip
    assert {"dimension": "toolCalls", "limit": 0, "actual": 0} == scene.said("error")[0]["budget"]


@ways
def test_a_turn_that_wants_more_than_the_limit_is_the_last(way: str) -> None:
    """Contract #173, #174: after one turn of one, or 11 tokens of 10, no other is asked; the dimension says which."""
    found = []
    for budget in (clew.RunBudget(max_turns=1), clew.RunBudget(max_tokens=10)):
        scene, asked = Scene(), list[Any]()

        def ask(request: Any, asked: list[Any] = asked) -> clew.Turn:
            asked.append(request)
            return clew.Turn("more", clew.Usage(tokens=11))

        def script(run: Any, ask: Any = ask) -> Any:
            for number in range(9):
                yield run.turn(ask, number)

        scene.run(agent_of(way, script), budget=budget)
        found.append((scene.said("error")[0]["budget"]["dimension"], asked))

    assert [("turns", [0]), ("tokens", [0])] == found


@ways
def test_a_replayed_call_counts_once_and_counts(way: str) -> None:
    """Contract #175: with one call of one made before, the next is refused."""
    scene, broken = Scene(), [True]
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        yield run.call(pay, "a")
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        yield run.call(pay, "b")

    agent = agent_of(way, script, pay)
    scene.run(agent, budget=clew.RunBudget(max_calls=1))
    result = scene.resume(agent)

    assert ("budget_exceeded", {"a": 1}) == (result.reason, scene.bank.orders)


@ways
def test_without_limits_nothing_is_refused(way: str) -> None:
    """Contract #176: none unless given; more calls, turns and failures than the reference allows."""
    scene = Scene()

    def fails() -> Any:
        return clew.Failed("no")

    tool = clew.Tool(fails, name="fails", effect="external")

    def script(run: Any) -> Any:
        for number in range(60):
            try:
                yield run.call(tool)
            except clew.ToolError:
                yield run.turn(lambda request: "go on", number)

    result = scene.run(agent_of(way, script, tool))

    metrics = result.snapshot["metrics"]
    assert ("completed", 60, 60, 60) == (
        result.operation.state, metrics["toolCalls"], metrics["turns"], metrics["toolFailures"],
    )  # fmt: skip


@ways
def test_a_run_is_ready_only_when_its_work_was_checked(way: str) -> None:
    """Contract #170, W32: without a check there is a blocker; with one that passed, and a payment, a warning."""
    bare, checked = Scene(), Scene()

    def script(scene: Scene, *, check: bool) -> clew.Agent:
        pay = paying(scene, way)

        def body(run: Any) -> Any:
            yield run.call(pay)
            if check:
                yield run.check("paid once", lambda: len(scene.bank.paid) == 1)

        return agent_of(way, body, pay)

    first, second = bare.run(script(bare, check=False)), checked.run(script(checked, check=True))

    assert [
        {"ready": False, "blockers": ["no evaluation ran"], "warnings": []},
        {"ready": True, "blockers": [], "warnings": ["1 effect outside cannot be undone: pay"]},
    ] == [first.snapshot["releaseReadiness"], second.snapshot["releaseReadiness"]]
    assert [{}, {}] == [result.snapshot["evaluation"]["qualityScores"] for result in (first, second)]
