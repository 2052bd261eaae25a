"""Contract §3.H, receipts and bindings, as whole runs write them. Their rules are in `core/test_receipts`."""

from typing import Any

import pytest

import clew
from clew.core.times import parse_ms
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, lose_the_line, paying, tool_of

ways = pytest.mark.parametrize("way", WAYS)
KEY = f"{RUN}:pay-1:c1"


def receipts(scene: Scene) -> list[tuple[str, str]]:
    return [(event["idempotencyKey"], event["status"]) for event in scene.said("effect_receipt")]


@ways
def test_what_was_refused_before_it_ran_was_not_started(way: str) -> None:
    """#110, promise 5: under the step's own key, so that the next start of this call is judged by it."""
    scene = Scene()
    pay = paying(scene, way)
    agent = agent_of(way, lambda run: (yield run.call(pay)), pay, policy=lambda call: "not today")
    scene.run(agent)

    assert ([(KEY, "not_started")], []) == (receipts(scene), scene.bank.paid)


@ways
def test_a_good_result_is_started_and_committed_and_the_time_between_is_the_clocks(way: str) -> None:
    """#111, #113: both under the step's key; how long it took is what the clock said, not what somebody guessed."""
    scene = Scene()
    pay = paying(scene, way, lambda: scene.clock.advance(1.5))
    scene.run(agent_of(way, lambda run: (yield run.call(pay)), pay))
    began, ended = (
        parse_ms(line["timestamp"]) or 0
        for line in scene.lines
        if line["kind"] == "event" and line["payload"]["event"]["type"] == "effect_receipt"
    )

    assert ([(KEY, "started"), (KEY, "committed")], 1500) == (receipts(scene), ended - began)


@ways
def test_an_error_that_was_returned_is_known_and_one_that_was_raised_is_not(way: str) -> None:
    """#112 as DESIGN §13 has it: what a tool returned is known, only what was lost on its way is unknown."""
    told, lost = Scene(), Scene()

    def pay() -> clew.Failed:
        return clew.Failed("the card was declined")

    def script(run: Any) -> Any:
        try:
            yield run.call("pay")
        except clew.ToolError as error:
            return str(error)

    returning = tool_of(way, pay, effect="external")
    told.run(agent_of(way, script, returning))
    raising = paying(lost, way, lose_the_line)
    lost.run(agent_of(way, script, raising))

    assert [(KEY, "started"), (KEY, "committed")] == receipts(told)
    assert [(KEY, "started"), (KEY, "unknown")] == receipts(lost)


@ways
def test_an_interrupted_call_has_no_result_and_says_of_none_that_it_is_kept(way: str) -> None:
    """W23: the reference marked the missing result of an interrupted call as durable."""
    scene = Scene()
    pay = paying(scene, way, lose_the_line)
    scene.run(agent_of(way, lambda run: (yield run.call(pay)), pay))
    last = scene.said("effect_receipt")[-1]

    assert ("unknown", False, []) == (last["status"], "persistence" in last, scene.said("step_output"))


@ways
def test_the_last_account_tells_of_all_legs(way: str) -> None:
    """W25: the reference forgot receipts and artifacts of the time before a pause."""
    scene, broken = Scene(), [True]
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        yield run.artifact("before.txt", b"kept")
        yield run.call(pay, order="a")
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        return (yield run.call(pay, order="b"))

    agent = agent_of(way, script, pay)
    scene.run(agent)
    account = scene.resume(agent).snapshot
    told = [entry["event"]["idempotencyKey"] for entry in account["trace"] if entry["event"]["type"] == "tool_call"]

    assert [KEY, f"{RUN}:pay-2:c2"] == told == [row["idempotencyKey"] for row in account["effects"]]
    assert [1, 2] == [leg["number"] for leg in account["legs"]]
    assert ["before.txt"] == [row["name"] for row in account["artifacts"]]
