"""Who gets in: arguments, names and numbers of calls and steps. What the gate decides of them is in test_gate."""

from typing import Any

import pytest

import clew
from clew.errors import Refused
from tests.runtime.scene import WAYS, Scene, agent_of, paying, tool_of

ways = pytest.mark.parametrize("way", WAYS)


@ways
def test_arguments_that_are_not_json_are_refused_with_their_path_before_anything_ran(way: str) -> None:
    """A record that cannot be written must not be found out after the payment."""
    scene = Scene()

    def pay(call: clew.Call, order: Any) -> str:
        return scene.bank.pay(call)

    tool = tool_of(way, pay, effect="external")

    def script(run: Any) -> Any:
        try:
            yield run.call(tool, {"lines": [1, object()]})
        except clew.ClewError as fault:
            return [fault.code, fault.facts["path"]]

    result = scene.run(agent_of(way, script, tool))

    calls = scene.said("tool_call")
    assert (["value_not_json", "args.order.lines[1]"], [], []) == (result.output, scene.bank.paid, calls)


def test_arguments_too_large_for_a_record_are_refused_and_the_run_goes_on() -> None:
    """One oversized argument must not break the journal of forty payments."""
    scene = Scene()
    pay = paying(scene, "plain")

    def script(run: Any) -> Any:
        try:
            yield run.call(pay, "x" * (33 << 20))
        except Refused as fault:
            return [fault.code, (yield run.call(pay, "small"))[:8]]

    result = scene.run(agent_of("plain", script, pay))

    assert ["append_too_large", "transfer"] == result.output


def test_two_tools_of_one_name_are_refused_and_nothing_starts() -> None:
    """#143: a recorded call must mean one function."""
    scene = Scene()
    pay, other = paying(scene, "plain"), paying(scene, "plain")

    def script(run: Any) -> Any:
        try:
            yield run.call(other)
        except Refused as fault:
            return fault.code

    result = scene.run(agent_of("plain", script, pay))

    assert ("tool_capability_conflict", []) == (result.output, scene.bank.paid)


def test_every_call_has_an_id_of_its_own_whatever_its_tool() -> None:
    """#143: ids are counted over the run, so that none can stand for two calls, over legs as well."""
    scene, bugs = Scene(), [True]

    def look(n: int) -> int:
        return n

    pay, look_at = paying(scene, "plain"), tool_of("plain", look, effect="none")

    def script(run: Any) -> Any:
        yield run.call(pay, "a")
        yield run.call(look_at, 1)
        if bugs and bugs.pop():
            raise ValueError("a bug")
        yield run.call(pay, "b")

    agent = agent_of("plain", script, pay, look_at)
    scene.run(agent)
    scene.resume(agent)

    assert [("pay", "c1"), ("look", "c2"), ("pay", "c3")] == [
        (call["tool"], call["callId"]) for call in scene.said("tool_call")
    ]


def test_bodies_of_equal_length_are_told_apart_though_hidden_alike() -> None:
    """#239: the fingerprint is of the true arguments; else another secret would pass for the recorded one."""
    scene = Scene()

    def login(password: str) -> str:
        return "in"

    tool = tool_of("plain", login, effect="external")

    def script(run: Any) -> Any:
        return [(yield run.call(tool, password="hunter22")), (yield run.call(tool, password="hunter33"))]

    scene.run(agent_of("plain", script, tool))
    first, second = scene.said("tool_call")

    assert {"password": "[redacted:password]"} == first["args"] == second["args"]
    assert first["argumentsFingerprint"] != second["argumentsFingerprint"]


def test_a_method_is_the_same_tool_each_time() -> None:
    """Every look at a bound method makes a new object; it is no other tool for that."""
    scene = Scene()

    class Client:
        def look(self, n: int) -> int:
            return n

    client = Client()

    def script(run: Any) -> Any:
        return [(yield run.call(client.look, 1)), (yield run.call(client.look, 2))]

    result = scene.run(agent_of("plain", script))

    assert [1, 2] == result.output


def test_a_tool_cannot_have_the_name_of_a_step() -> None:
    """Both would be `fetch-1`, and one record would stand for two things."""
    scene = Scene()

    def fetch() -> int:
        return 1

    def script(run: Any) -> Any:
        yield run.step("fetch", lambda: 2)
        try:
            yield run.call(fetch)
        except Refused as fault:
            return fault.code

    result = scene.run(agent_of("plain", script))

    assert "tool_capability_conflict" == result.output


def test_an_unknown_tool_name_is_refused() -> None:
    """A model may name a tool that does not exist; that is an error, not an end."""
    scene = Scene()

    def script(run: Any) -> Any:
        try:
            yield run.call("buy")
        except Refused as fault:
            return fault.code

    result = scene.run(agent_of("plain", script))

    assert "unknown_tool" == result.output
