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
    """A recorded call must mean one function."""
    scene = Scene()
    pay, other = paying(scene, "plain"), paying(scene, "plain")

    def script(run: Any) -> Any:
        try:
            yield run.call(other)
        except Refused as fault:
            return fault.code

    result = scene.run(agent_of("plain", script, pay))

    assert ("tool_capability_conflict", []) == (result.output, scene.bank.paid)


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
