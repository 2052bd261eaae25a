"""Who did what is seen at the bodies: inside the gate, past it, by a probe, one alone or several at once."""

import asyncio
import inspect
import threading
from typing import Any

import pytest

import clew
from clew.runtime.place import HERE, Place
from clew.runtime.tools import Tool
from clew.testing.crash import Crash, CrashPoint
from clew.testing.watching import Adopting, Doing, Watch
from tests.testing.town import Bank, pay, rate, wire


def a_watch(effects: Any = None, listed: frozenset[str] = frozenset(), **stand_ins: Any) -> Watch:
    return Watch(effects, listed, stand_ins)


def by_the_gate(tool: Tool, **arguments: Any) -> Any:
    """Run a body as a gate does."""
    token = HERE.set(Place("loose", in_tool=True))
    try:
        return tool.body(clew.Call.loose(tool.name, **arguments), **arguments)
    finally:
        HERE.reset(token)


def test_a_tool_is_given_back_as_it_was() -> None:
    """The next test must meet the tool that its author declared."""
    before, watch = dict(vars(wire)), a_watch(wire=lambda order: order)
    watch.take(wire)
    changed = dict(vars(wire))

    watch.let_go()

    assert before == vars(wire) != changed


def test_a_watched_tool_takes_the_same_arguments() -> None:
    """The agent must get the same refusal for the same mistake."""
    watch = a_watch(rate=lambda order: 7)
    watch.take(rate)

    bound, made = rate.bind(("a",), {}), by_the_gate(rate, order="a")
    with pytest.raises(clew.UsageError, match="missing a required argument: 'order'"):
        rate.bind((), {})
    watch.let_go()

    assert ({"order": "a"}, 7) == (bound, made)


def test_a_run_of_a_body_is_noted() -> None:
    """Key, attempt and arguments are what effects are counted by."""
    watch = a_watch(rate=lambda order: 7)
    watch.take(rate)

    by_the_gate(rate, order="a")
    watch.let_go()

    [ran] = watch.ran
    assert ("rate", "loose:rate-1:c1", 1, "order=a") == (ran.what, ran.key, ran.attempt, ran.arguments)
    assert (True, True, False) == (ran.returned, ran.looks_only, ran.changed)


@pytest.mark.parametrize("end", [clew.Failed("declined"), ConnectionError("lost")], ids=["failed", "raised"])
def test_a_body_that_failed_has_not_returned(end: Any) -> None:
    """What it did is then for the list of effects to say."""
    watch = a_watch(rate=lambda order: give(end))
    watch.take(rate)

    try:
        by_the_gate(rate, order="a")
    except ConnectionError:
        pass
    finally:
        watch.let_go()

    assert [False] == [ran.returned for ran in watch.ran]


def give(end: Any) -> Any:
    if isinstance(end, Exception):
        raise end
    return end


def test_a_change_is_the_deed_of_the_one_at_work() -> None:
    """Named by the tool, for that is what its author can mend."""
    bank = Bank()
    watch = a_watch(lambda: bank.payments, wire=bank.pay)
    watch.take(wire)

    by_the_gate(wire, order="a")
    watch.let_go()

    assert ([True], []) == ([ran.changed for ran in watch.ran], watch.findings)


def test_a_change_while_several_are_at_work_is_nobodys_for_sure() -> None:
    """A guess would accuse the wrong one; their returns count instead."""
    world: list[str] = []
    watch = a_watch(lambda: world)
    one, other = Doing("one"), Doing("other")

    with watch.under_way(one), watch.under_way(other):
        world.append("x")

    assert [(False, True), (False, True)] == [(doing.changed, doing.unsure) for doing in (one, other)]


def test_a_change_while_nobody_is_at_work_is_the_agents() -> None:
    """Past the gate nothing protects it."""
    world: list[str] = []
    watch = a_watch(lambda: world)
    world.append("x")

    watch.look()

    assert ["the agent changed the world outside the gate: 'x'"] == watch.findings


def test_a_body_inside_of_another_is_the_others_deed() -> None:
    """A tool may be built of tools; the gate knows the outer one."""
    bank = Bank()
    watch = a_watch(wire=bank.pay, rate=lambda order: wire(clew.Call.loose(), order))
    watch.take(wire)
    watch.take(rate)

    by_the_gate(rate, order="a")
    watch.let_go()

    assert (["rate"], []) == ([ran.what for ran in watch.ran], watch.findings)


def test_what_was_sent_before_a_death_lands_before_anybody_goes_on() -> None:
    """A thread that outlives the death would otherwise make a finding that comes and goes."""
    watch, sent, land, world = a_watch(), threading.Event(), threading.Event(), list[str]()

    def body() -> None:
        with watch.under_way(Doing("slow")):
            sent.set()
            land.wait()
            world.append("x")

    watch.point.struck = True
    threading.Thread(target=body).start()
    sent.wait()
    threading.Thread(target=land.set).start()
    watch.let_land()

    assert ["x"] == world


def test_what_never_lands_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit has its bounds; whoever goes beyond them is named."""
    monkeypatch.setattr("clew.testing.watching.LANDING_S", 0.0)
    watch = a_watch()
    watch.point.struck = True

    with watch.under_way(Doing("left behind", timed=True)), watch.under_way(Doing("slow")):
        watch.let_land()

    assert ["slow still ran 0 s after the death"] == watch.findings


def test_nobody_is_waited_for_where_nobody_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a living process left behind may go on, as it may in the real one."""
    monkeypatch.setattr("clew.testing.watching.LANDING_S", 0.0)
    watch = a_watch()

    with watch.under_way(Doing("slow")):
        watch.let_land()

    assert [] == watch.findings


def test_a_dead_process_runs_no_body() -> None:
    """`finally` blocks of an agent still run after a simulated death; a real one stops them."""
    bank = Bank()
    watch = a_watch(wire=bank.pay)
    watch.take(wire)
    watch.point = CrashPoint()
    watch.point.struck = True

    with pytest.raises(Crash):
        wire(clew.Call.loose(), order="a")
    watch.let_go()

    assert ([], []) == (bank.payments, watch.findings)


def test_a_list_of_effects_that_cannot_be_made_is_no_tools_fault() -> None:
    """It is the test's own bug, and raised as that."""

    def effects() -> list[str]:
        raise LookupError("no such table")

    watch = a_watch(effects, wire=Bank().pay)
    watch.take(wire)
    by_the_gate(wire, order="a")
    watch.let_go()

    with pytest.raises(LookupError, match="no such table"):
        watch.let_land()


def test_an_undeclared_tool_is_watched_from_its_first_call_on() -> None:
    """Each look at a function makes a new tool; all of them are the same."""
    bank = Bank()
    watch = a_watch(order_it=bank.pay)
    tools = Adopting({}, watch)

    def order_it(call: clew.Call, order: str) -> None:
        raise AssertionError("the real thing")

    for _ in range(2):
        by_the_gate(tools.setdefault("order_it", Tool(order_it)), order="a")
    watch.let_go()

    assert (2, 2) == (len(watch.ran), len(bank.payments))


def test_another_tool_of_the_same_name_is_not_taken_for_it() -> None:
    """The gate refuses that, as it would without the kit."""
    watch = a_watch()
    tools = Adopting({}, watch)
    first = tools.setdefault("a", Tool(lambda order: 1, name="a"))

    known = tools.setdefault("a", Tool(lambda order: 2, name="a"))
    watch.let_go()

    assert known is first


def test_a_stand_in_without_a_probe_is_refused_where_the_tool_has_one() -> None:
    """The real probe would ask the real bank."""
    with pytest.raises(clew.UsageError) as refused:
        a_watch(pay=Bank().pay).take(pay)

    assert "invalid_stand_in" == refused.value.code


def test_a_stand_in_may_take_anything() -> None:
    """A mock takes `*args`; no tool may, but it stands in for one all the same."""
    given: list[Any] = []

    def anything(*args: Any, **kwargs: Any) -> int:
        given.append((args, kwargs))
        return 7

    async def later(*args: Any, **kwargs: Any) -> int:
        return anything(*args, **kwargs)

    kinds = []
    for stand_in in (anything, later):
        watch = a_watch(wire=stand_in)
        watch.take(wire)
        made = wire(clew.Call.loose(), order="a")
        value = asyncio.run(made) if inspect.iscoroutine(made) else made
        kinds.append((wire.is_async, value))
        watch.let_go()

    assert [(False, 7), (True, 7)] == kinds
    assert [((), {"order": "a"})] * 2 == given


def test_a_stand_in_gets_the_call_that_it_takes() -> None:
    """Called directly, without one, it gets a loose one: the finding is that, and not a TypeError."""
    bank = Bank()
    watch = a_watch(rate=bank.pay)
    watch.take(rate)

    rate("a")
    watch.let_go()

    assert ["loose:rate-1:c1"] == bank.keys


def test_a_probe_keeps_its_name_and_its_kind() -> None:
    """The plan names it, and the driver asks it in its own way."""
    bank, seen = Bank(), dict[str, Any]()

    async def find(call: clew.Call) -> clew.Verdict:
        return bank.find(call)

    watch = a_watch(pay=(bank.pay, find))
    watch.take(pay)
    seen.update(vars(pay))
    watch.let_go()

    assert ("touch_nothing", True) == (seen["probe"].__name__, inspect.iscoroutinefunction(seen["probe"]))


def test_a_probe_is_not_added_by_a_stand_in() -> None:
    """The declaration under test is the tool's own."""
    bank = Bank()
    watch = a_watch(wire=(bank.pay, bank.find))
    watch.take(wire)
    probe = wire.probe
    watch.let_go()

    assert probe is None
