"""Contract §3.E, what may be repeated: whole runs. The rows of the table are in `core/test_resume`."""

from typing import Any

import pytest

import clew
from clew.testing.crash import CrashPoint
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, paying, tool_of
from tests.runtime.test_drivers import crash
from tests.runtime.test_turns import Model

ways = pytest.mark.parametrize("way", WAYS)
KEY = f"{RUN}:pay-1:c1"


@ways
def test_what_stops_a_resume_is_named_by_tool_key_and_receipt(way: str) -> None:
    """#85, W21: whoever must look outside needs to know what to look for, and settles it there and then."""
    scene = Scene()
    pay = paying(scene, way)
    agent = agent_of(way, lambda run: (yield run.call(pay)), pay)
    crash(scene, agent, CrashPoint(2, 0))
    result = scene.resume(agent)
    told = [(row["tool"], row["idempotencyKey"], row["status"]) for row in result.snapshot["review"]]
    scene.settle(clew.Happened("transfer-1"))

    assert [("pay", KEY, "started")] == told
    assert ("completed", "transfer-1") == (scene.resume(agent).operation.state, scene.state.agent_end["output"])  # type: ignore[index]  # it is completed


@ways
def test_an_open_idempotent_attempt_is_run_again_as_the_next_one(way: str) -> None:
    """#90, #91: it blocks nothing; the old receipt stays as it was, and one key means one payment to the other side."""
    scene = Scene()
    pay = paying(scene, way, replay="idempotent", window_s=60)
    agent = agent_of(way, lambda run: (yield run.call(pay)), pay)
    crash(scene, agent, CrashPoint(2, 0))
    result = scene.resume(agent)
    attempts = [(event["attempt"], event["previousReceiptId"], event["status"]) for event in scene.said("tool_attempt")]

    assert ("completed", {KEY}) == (result.operation.state, set(scene.bank.paid))
    assert ["started"] == [event["status"] for event in scene.said("effect_receipt")]
    assert [(2, KEY, "started"), (2, KEY, "committed")] == attempts


@ways
def test_what_was_read_from_the_network_is_not_read_again(way: str) -> None:
    """#92: neither the model nor the service is asked a second time for what is recorded."""
    scene, model, asked, broken = Scene(), Model(way, "search"), list[str](), [True]

    def search(words: str) -> str:
        asked.append(words)
        return f"3 hits for {words}"

    tool = tool_of(way, search, effect="network")

    def script(run: Any) -> Any:
        yield run.turn(model.ask, "what to do?")
        hits = yield run.call(tool, words="clew")
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        return hits

    agent = agent_of(way, script, tool)
    scene.run(agent)
    result = scene.resume(agent)

    assert (["clew"], ["what to do?"], "3 hits for clew") == (asked, model.requests, result.output)


@ways
def test_a_paid_search_that_was_lost_is_not_sent_again(way: str) -> None:
    """#83, #94: reading is no proof of being harmless; what to do about it a person says."""
    scene = Scene()
    search = paying(scene, way, effect="network")
    agent = agent_of(way, lambda run: (yield run.call(search)), search)
    crash(scene, agent, CrashPoint(2, 0))
    result = scene.resume(agent)

    assert ("unknown_effect", [KEY]) == (result.reason, scene.bank.paid)
