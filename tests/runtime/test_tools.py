"""Tools and agents as they are declared: what is refused then, what is read off, and what a call carries."""

import functools
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from typing import Any

import pytest

import clew
from clew.core.capability import Capability, fallback
from clew.core.ids import CALL_NAMESPACE
from clew.errors import UsageError
from clew.runtime.tools import RESERVED, Agent, Call, Tool, _resolved, as_agent, as_tool
from clew.toolkit import read_file


def find(call: Call) -> clew.Verdict:
    return clew.DidNotHappen()


def plain(order: str, cents: int = 1) -> None:
    """Pays."""


def generating(order: str) -> Iterator[int]:
    yield 1


async def generating_later(order: str) -> AsyncIterator[int]:
    yield 1


def of_many(*orders: str) -> None: ...


def by_place(order: str, /) -> None: ...


def looking(call: Call, /, order: str) -> None: ...


refused: list[tuple[Any, dict[str, Any], str]] = [
    (plain, {"effect": "external", "probe": find}, "in_doubt_s"),
    (plain, {"effect": "external", "replay": "idempotent"}, "window_s"),
    (plain, {"effect": "external", "replay": "safe"}, "its replay cannot stand"),
    (plain, {"effect": "harmless"}, "its effect cannot stand"),
    (plain, {"timeout_s": -1}, "timeout_s is negative"),
    (plain, {"effect": "external", "probe": find, "in_doubt_s": -1}, "in_doubt_s is negative"),
    (generating, {}, "generator"),
    (generating_later, {}, "generator"),
    (of_many, {}, "by place alone"),
    (by_place, {}, "by place alone"),
    (dict.get, {}, "by place alone"),
]


@pytest.mark.parametrize(("body", "declared", "why"), refused)
def test_a_declaration_that_contradicts_itself_is_refused(body: Any, declared: dict[str, Any], why: str) -> None:
    """At import, not after the payment."""
    with pytest.raises(UsageError) as caught:
        clew.tool(**declared)(body)

    assert caught.value.code == "invalid_tool"
    assert why in caught.value.message


@pytest.mark.parametrize("name", RESERVED)
def test_a_tool_cannot_have_a_name_of_the_runs_own_records(name: str) -> None:
    """`turn-1` would be a call and a turn, and `now-1` a time and a payment."""
    with pytest.raises(UsageError) as caught:
        Tool(plain, name=name)

    assert "invalid_tool" == caught.value.code


@pytest.mark.parametrize("body", [lambda: 1, functools.partial(plain, "x")], ids=["lambda", "partial"])
def test_a_function_without_a_usable_name_must_be_given_one(body: Any) -> None:
    """The name is part of every key."""
    given = Tool(body, name="pay").name
    if body.__class__ is functools.partial:
        assert "partial" == Tool(body).name
    else:
        with pytest.raises(UsageError):
            Tool(body)

    assert "pay" == given


def test_a_function_that_does_not_say_its_arguments_is_refused() -> None:
    """They could not be recorded by name."""
    with pytest.raises(UsageError) as caught:
        Tool(type, name="pay")

    assert "invalid_tool" == caught.value.code


def test_an_undeclared_tool_is_external_and_not_repeatable() -> None:
    """Who says nothing is trusted with nothing."""
    capability = clew.tool(plain).capability

    assert ("external", "unknown", "inferred") == (capability.effect, capability.replay, capability.source)


def test_a_tool_is_still_the_function() -> None:
    """Its tests call it as before."""
    tool = clew.tool(effect="none")(lambda_add)

    assert (3, "lambda_add", "Adds.") == (tool(1, 2), tool.__name__, tool.__doc__)
    assert "<Tool lambda_add effect=none replay=safe>" == repr(tool)


def lambda_add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def with_call(call: Call, order: str, **extra: Any) -> None: ...


def named_call(call, order): ...


def other_call(call: str) -> None: ...


@pytest.mark.parametrize(
    ("body", "takes"),
    [(with_call, True), (looking, True), (named_call, True), (other_call, False), (plain, False), (lambda: 0, False)],
)
def test_the_call_is_given_to_those_who_ask_for_it(body: Any, takes: bool) -> None:
    """By annotation, or by its name where there is none."""
    tool = Tool(body, name="t")

    assert takes == tool.takes_call


def test_arguments_by_name_stand_in_the_order_of_the_signature() -> None:
    """A record tells the same call the same way, however it was written."""
    first, second = (
        Tool(plain).bind((), kwargs) for kwargs in ({"order": "1", "cents": 2}, {"cents": 2, "order": "1"})
    )

    assert ["order", "cents"] == list(first) == list(second)


def test_bound_arguments_are_a_dict_of_their_own() -> None:
    """What a caller does with its own dict changes nothing of the call."""
    kwargs = {"order": "1", "cents": 2}

    assert Tool(plain).bind((), kwargs) is not kwargs


@pytest.mark.parametrize(
    ("body", "args", "kwargs", "expected"),
    [
        (plain, ("x",), {}, {"order": "x"}),
        (plain, (), {"cents": 2, "order": "x"}, {"order": "x", "cents": 2}),
        (with_call, ("x",), {"note": 1}, {"order": "x", "note": 1}),
    ],
)
def test_arguments_are_recorded_by_name(body: Any, args: Any, kwargs: Any, expected: dict[str, Any]) -> None:
    """Defaults are left out: changing one must not make a recorded call another one."""
    arguments = Tool(body).bind(args, kwargs)

    assert expected == arguments


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), (("x", 1, 2), {}), (("x",), {"note": 1}), (("x",), {"order": 1})]
)
def test_arguments_that_do_not_fit_are_refused(args: Any, kwargs: Any) -> None:
    """Before anything started."""
    with pytest.raises(UsageError) as caught:
        Tool(plain).bind(args, kwargs)

    assert ("invalid_arguments", "plain") == (caught.value.code, caught.value.facts["tool"])


def test_a_call_carries_one_key_in_three_forms() -> None:
    """Other systems want a UUID or something short."""
    call = Call("r1:pay-1:c1", tool="pay", attempt=2)

    assert (str(uuid.uuid5(CALL_NAMESPACE, "r1:pay-1:c1")), 16, "r1") == (call.uuid, len(call.short), call.run_id)


def test_a_tool_can_be_tried_by_hand() -> None:
    """`Call.loose()`; its workspace must be given where one is used."""
    call = Call.loose("pay", order="x")

    with pytest.raises(UsageError) as caught:
        _ = call.workspace
    assert ("loose:pay-1:c1", {"order": "x"}, "no_workspace") == (call.key, call.arguments, caught.value.code)


def test_whatever_can_be_called_is_a_tool_and_nothing_else() -> None:
    """A name is resolved by the gate, not here."""
    tool = clew.tool(plain)

    with pytest.raises(UsageError):
        as_tool("pay")
    assert (tool, "plain") == (as_tool(tool), as_tool(plain).name)


# Agents.


def agent_body(run: Any, prompt: Any) -> None: ...


async def async_policy(call: Call) -> str | None:
    return "no"


@pytest.mark.parametrize(
    ("body", "declared", "why"),
    [
        (generating, {}, "generator"),
        (generating_later, {}, "generator"),
        (agent_body, {"tools": [Tool(plain), Tool(lambda_add, name="plain")]}, "'plain'"),
        (agent_body, {"policy": async_policy}, "async"),
        (lambda: "done", {"name": "a"}, "agent(run, input)"),
        (lambda run: "done", {"name": "a"}, "agent(run, input)"),
        (lambda self, run, prompt: "done", {"name": "a"}, "agent(run, input)"),
    ],
)
def test_an_agent_that_cannot_work_is_refused_when_declared(body: Any, declared: dict[str, Any], why: str) -> None:
    """A policy that nobody awaits would allow everything."""
    with pytest.raises(UsageError) as caught:
        clew.agent(**declared)(body)

    assert caught.value.code == "invalid_agent"
    assert why in caught.value.message


@pytest.mark.parametrize("body", [lambda *_: "done", lambda run, prompt, extra=1: "done", dict])
def test_what_can_be_called_with_a_run_and_an_input_is_an_agent(body: Any) -> None:
    """What says little of what it takes, or nothing, is believed."""
    agent = Agent(body, name="a")

    assert body is agent.body


def test_one_tool_may_be_named_twice() -> None:
    """The same one is no conflict."""
    tool = clew.tool(plain)

    agent = Agent(agent_body, tools=[tool, tool])

    assert {"plain": tool} == agent.tools


def test_an_object_that_is_called_as_a_coroutine_is_an_async_agent() -> None:
    """Otherwise its coroutine would be its output, and the run completed."""

    class Settling:
        async def __call__(self, run: Any, prompt: Any) -> str:
            return f"did {prompt}"

    result = clew.Home.memory().run_sync(Agent(Settling(), name="settling"), "it", signals=False)

    assert ("completed", "did it") == (result.operation.state, result.output)


async def working(run: Any, prompt: Any) -> str:
    return "done"


def hidden(body: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that forgets that what it wraps is async."""

    def decorated(*given: Any) -> Any:
        return body(*given)

    return decorated


async def forgetful(run: clew.Run, prompt: Any) -> Any:
    """Returns its last call instead of awaiting it."""
    return run.call(plain, "1042")


@pytest.mark.parametrize("body", [hidden(working), forgetful], ids=["a hidden coroutine", "a forgotten await"])
def test_an_agent_whose_work_nobody_did_has_not_completed(body: Any) -> None:
    """Promise 8: a coroutine is no output; a payment that was never begun looked like a run that is done."""
    result = clew.Home.memory().run_sync(Agent(body, name="hidden"), signals=False)

    assert ("paused", "agent_error") == (result.operation.state, result.reason)


def of_one(run: Any) -> None: ...


def handing_on(*given: Any) -> None:
    of_one(*given)


async def handing_on_later(*given: Any) -> None:
    of_one(*given)


@pytest.mark.parametrize("body", [handing_on, handing_on_later], ids=["plain", "async"])
def test_an_agent_that_hands_on_too_much_pauses_as_any_bug_does(body: Any) -> None:
    """It does not say what it takes; that is the agent's error, and the run is closed in order."""
    home = clew.Home.memory()

    result = home.run_sync(Agent(body, name="agent"), run_id="r1", signals=False)

    assert ("paused", "agent_error") == (result.operation.state, result.reason)
    assert "TypeError" in home.result("r1").snapshot["outcome"]["error"]["message"]


def test_what_the_author_declared_is_the_fingerprint() -> None:
    """Name, config and policy count; code and limits do not."""
    base = Agent(agent_body, name="a", config={"model": "x"}).fingerprint()
    same = Agent(working, name="a", config={"model": "x"}).fingerprint()
    others = [
        Agent(agent_body, name="b", config={"model": "x"}),
        Agent(agent_body, name="a", config={"model": "y"}),
        Agent(agent_body, name="a", config={"model": "x"}, policy=lambda call: None),
    ]
    changed = [
        [part for part in ("agent", "config", "policy") if getattr(base, part) != getattr(other.fingerprint(), part)]
        for other in others
    ]

    assert base == same
    assert [["agent"], ["config"], ["policy"]] == changed


def test_a_configuration_is_what_a_record_can_hold() -> None:
    """A tuple or a date in it is common, and must count the same in the next process, which may read it from JSON."""
    said = Agent(agent_body, name="a", config={"models": ("x", "y"), "since": date(2026, 11, 29)})
    read = Agent(agent_body, name="a", config={"models": ["x", "y"], "since": "2026-11-29"})

    assert said.fingerprint() == read.fingerprint()


@pytest.mark.parametrize(("config", "path"), [({"x": [object()]}, "config.x[0]"), ({"n": float("nan")}, "config.n")])
def test_a_configuration_that_no_record_can_hold_is_refused_where_it_is_declared(config: Any, path: str) -> None:
    """Not when the first run begins, and with the place of what is wrong."""
    with pytest.raises(UsageError) as caught:
        Agent(agent_body, name="a", config=config)

    assert ("value_not_json", path) == (caught.value.code, caught.value.facts["path"])


def test_a_stranger_is_not_built_in() -> None:
    """#137: who claims to be one of clew's own tools and is not is refused, where the reference gives the strictest."""
    with pytest.raises(UsageError) as caught:
        Tool(working, effect="none", builtin=True)

    assert ("invalid_tool", "builtin") == (caught.value.code, read_file.capability.source)
    assert fallback("working", ["capability_invalid:builtin_source"]) == resolved(working)


def resolved(body: Any) -> Capability:
    """What a body that claims to be built in comes to, before it is refused."""
    return _resolved("working", body, "none", "safe", builtin=True)


def test_any_function_is_an_agent() -> None:
    """Without a decorator, without tools."""
    agent = clew.agent(agent_body)

    assert (agent, "agent_body", {}) == (as_agent(agent), as_agent(agent_body).name, as_agent(agent_body).tools)
