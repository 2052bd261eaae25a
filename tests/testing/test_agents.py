"""The kit for agents: good agents pass every crash point, bad ones are reported by name, each point can be replayed."""

import asyncio
import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.loading import load_agent
from clew.testing import Report, crash_points
from tests.testing.town import (
    Bank,
    asking,
    awaiting,
    by_the_watch,
    cautious,
    greedy,
    loosely,
    pay,
    plain,
    rate,
    refused,
    side_by_side,
    stepwise,
    thorough,
    threaded,
    wire,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"


GOOD = [plain, awaiting, side_by_side, threaded, stepwise, thorough, refused, cautious, greedy]


def outcomes(report: Report) -> set[str]:
    return {point.outcome for point in report}


def findings(report: Report) -> list[str]:
    """What was found, the same numbers in all of them."""
    return sorted(report.findings)


# Good agents.


@pytest.mark.parametrize("agent", GOOD, ids=lambda a: a.name)
def test_a_good_agent_survives_every_crash_by_its_probe(agent: clew.Agent) -> None:
    """Plain or async, alone or side by side, catching or not: each life ends as if nothing had happened."""
    bank = Bank()

    report = bank.try_out(agent, tools={pay: (bank.pay, bank.find)})

    assert ({"completed"}, []) == (outcomes(report), findings(report))
    assert len(report) > 3 * report.appends
    assert {repr(report.points[0].output)} == {repr(point.output) for point in report}


@pytest.mark.parametrize("body", [Bank.pay, Bank.pay_later])
def test_a_stand_in_may_be_async_or_plain(body: Any) -> None:
    """A plain tool's stand-in may await, and the other way round."""
    bank = Bank()

    report = bank.try_out(awaiting, tools={"pay": (body.__get__(bank), bank.find)})

    assert ({"completed"}, []) == (outcomes(report), findings(report))


def test_an_async_probe_is_heard() -> None:
    """It is watched without being taken for its answer."""
    bank = Bank()

    async def find(call: clew.Call) -> clew.Verdict:
        return bank.find(call)

    report = bank.try_out(awaiting, tools={pay: (bank.pay, find)})

    assert ({"completed"}, []) == (outcomes(report), findings(report))


def test_what_nobody_settles_needs_a_person() -> None:
    """An honest end, no finding; the report names those lives."""
    bank = Bank()

    report = bank.try_out(asking, tools={wire: bank.pay}).check()

    assert {"completed", "needs a person"} == outcomes(report)
    assert {"started"} == {kept.split()[-2] for kept in map(last_words, report.needing_a_person)}


def last_words(point: Any) -> str:
    """The last record that such a death can leave."""
    return str(re.search(r"\((.*)\)", point.told).group(1).split(", ")[-1]) if "after" in point.told else "started wire"  # type: ignore[union-attr]  # told has brackets


def test_a_person_settles_what_no_probe_does() -> None:
    """The test's settle function is asked as a probe is, about each open effect."""
    bank = Bank()

    report = bank.try_out(asking, tools={wire: bank.pay}, settle=bank.find)

    assert ({"completed"}, [], []) == (outcomes(report), findings(report), report.needing_a_person)


def test_a_person_who_gives_up_fails_the_run() -> None:
    """Another end than without the crash is found, whoever brought it about."""
    bank = Bank()

    report = bank.try_out(asking, tools={wire: bank.pay}, settle=lambda call: clew.GiveUp())

    assert ["ended as failed: effect_given_up; without a crash: completed"] == findings(report)


def test_undeclared_tools_are_named() -> None:
    """Not wrong, but what dies in doubt waits for a person, and the author should know."""
    bank = Bank()

    report = bank.try_out(loosely, tools={wire: bank.pay}, settle=bank.find)

    assert ({"completed"}, []) == (outcomes(report), findings(report))
    assert report.undeclared == (
        "wire says nothing of its effect",
        "wire is not declared with the agent, so no plan knows its probe",
    )


def test_an_agent_that_fails_does_so_after_a_crash_too() -> None:
    """The end without a crash is the measure, whatever it is."""
    bank = Bank()

    @clew.agent(tools=[pay])
    def failing(run: clew.SyncRun, prompt: str) -> str:
        run.call(pay, order="a")
        raise ValueError("a bug")

    paused = bank.try_out(failing, tools={pay: (bank.pay, bank.find)})
    failed = bank.try_out(failing, tools={pay: (bank.pay, bank.find)}, on_error="fail")

    assert ({"paused: agent_error"}, {"failed: agent_error"}) == (outcomes(paused), outcomes(failed))
    assert ([], []) == (findings(paused), findings(failed))


def test_a_deed_that_was_declined_may_be_tried_again() -> None:
    """It returned and nothing happened: the list of effects knows that, and so does an honest probe."""
    bank = Bank()

    def pay_or_not(call: clew.Call, order: str, cents: int = 100) -> dict[str, str]:
        return {"transfer": "declined"} if order == "b" else bank.pay(call, order, cents)

    report = bank.try_out(plain, tools={pay: (pay_or_not, bank.find)})

    assert ({"completed"}, []) == (outcomes(report), findings(report))
    assert 5 == max(len(point.ran) for point in report)


def test_an_idempotent_tool_may_run_twice_under_one_key() -> None:
    """The other side honours the key; the list of effects shows that it does."""
    bank = Bank()

    @clew.tool(effect="external", replay="idempotent", window_s=3600)
    def pay(call: clew.Call, order: str) -> dict[str, str]:
        return bank.pay_once(call, order)

    @clew.agent(tools=[pay])
    def paying(run: clew.SyncRun, prompt: str) -> Any:
        return run.call(pay, order="a")

    report = bank.try_out(paying)

    assert ({"completed"}, []) == (outcomes(report), findings(report))
    assert 2 == max(len(point.ran) for point in report)


@clew.agent(tools=[pay])
def talking(run: clew.SyncRun, prompt: str) -> list[Any]:
    run.say({"role": "user", "content": prompt})
    run.call(pay, order="1042", cents=4200)
    run.say({"role": "assistant", "content": "paid"})
    return [message["content"] for message in run.conversation()]


def test_an_agent_with_a_conversation_survives_every_crash() -> None:
    """Its session is as little lost as its journal: each message is there once, whenever it died."""
    bank = Bank()

    report = bank.try_out(talking, tools={pay: (bank.pay, bank.find)}, session="talk")

    assert ({"completed"}, []) == (outcomes(report), findings(report))
    assert {"['go', 'paid']"} == {str(point.output) for point in report}


def test_the_orders_example_survives_every_crash(tmp_path: Path) -> None:
    """The agent that the README shows, files and all, with a bank in memory."""
    shutil.copytree(EXAMPLE, tmp_path / "orders", ignore=shutil.ignore_patterns("__pycache__", "bank.sqlite*"))
    rows = "".join(f"10{number},Customer,{cents},X\n" for number, cents in enumerate((4200, 990)))
    (tmp_path / "orders" / "orders.csv").write_text(f"order,customer,cents,iban\n{rows}", "utf-8")
    paths, modules = list(sys.path), set(sys.modules)
    settle = load_agent(f"{tmp_path / 'orders' / 'agent.py'}:settle")
    bank, receipts = Bank(), tmp_path / "orders" / "receipts"

    def send(call: clew.Call, order: str, cents: int) -> Any:
        bank.pay(call, order, cents)
        return {"payment": len(bank.payments)}

    def find(call: clew.Call) -> clew.Verdict:
        paid = call.key in bank.keys
        return clew.Happened({"payment": bank.keys.index(call.key) + 1}) if paid else clew.DidNotHappen()

    def fresh() -> None:
        bank.reset()
        shutil.rmtree(receipts, ignore_errors=True)

    try:
        report = crash_points(
            settle, "settle orders.csv", tools={"pay": (send, find)}, fresh=fresh, workspace=tmp_path,
            effects=lambda: [*bank.payments, *sorted(path.read_text("utf-8") for path in receipts.glob("*"))],
        )  # fmt: skip
    finally:
        sys.path[:] = paths
        for name in set(sys.modules) - modules:
            del sys.modules[name]

    assert ({"completed"}, []) == (outcomes(report), findings(report))
    assert {"settled 2 of 2 orders"} == {point.output for point in report}


# Bad agents.


def test_an_effect_past_the_gate_is_named() -> None:
    """Nothing protects it, so a crash does it again."""
    bank = Bank()

    @clew.agent(tools=[rate])
    def smuggler(run: clew.SyncRun, prompt: str) -> int:
        bank.payments.append(("past", 1))
        return int(run.call(rate, "a"))

    report = bank.try_out(smuggler)

    assert findings(report) == [
        "in the world twice, without a crash once: ('past', 1)",
        "the agent changed the world outside the gate: ('past', 1)",
    ]
    assert report.points[0].findings == ("the agent changed the world outside the gate: ('past', 1)",)


def test_a_tool_that_is_called_directly_is_named() -> None:
    """`pay(…)` instead of `run.call(pay, …)` is the easiest mistake of all; no list of effects is needed to see it."""
    bank = Bank()

    @clew.agent(tools=[pay, rate])
    async def hasty(run: clew.Run, prompt: str) -> Any:
        paid = pay(order="a")
        await run.call(rate, "a")
        return paid

    report = crash_points(hasty, "go", tools={pay: (lambda order: bank.pay(clew.Call("k"), order), bank.find)})

    assert ["pay ran outside the gate: it was called directly, not by run.call"] == findings(report)


def test_a_tool_that_says_none_and_pays_is_named() -> None:
    """It is run again without a question, for it says that it changes nothing."""
    bank = Bank()

    @clew.tool(effect="none", replay="safe")
    def look(call: clew.Call, order: str) -> Any:
        return bank.pay(call, order)

    @clew.agent(tools=[look])
    def trusting(run: clew.SyncRun, prompt: str) -> Any:
        return run.call(look, order="a")

    report = bank.try_out(trusting)

    assert findings(report) == [
        "in the world twice, without a crash once: ('a', 100)",
        "look changed the world, and is declared to change nothing",
    ]


def test_a_probe_that_denies_what_happened_is_named() -> None:
    """Its lie pays twice; the report says whose fault that is."""
    bank = Bank()

    report = bank.try_out(plain, tools={pay: (bank.pay, lambda call: clew.DidNotHappen())})

    assert ("probe touch_nothing said that pay did not happen (crash-points:pay-1:c2); it had") in findings(report)
    assert ("pay happened 2 times under key crash-points:pay-1:c2: order=a cents=100 (attempts 1, 2)") in findings(
        report
    )


def test_a_probe_that_claims_what_never_happened_is_named() -> None:
    """Its lie loses a payment, which no count of doubles would show."""
    bank = Bank()

    report = bank.try_out(plain, tools={pay: (bank.pay, lambda call: clew.Happened({"transfer": "T"}))})

    assert ("probe touch_nothing said that pay happened (crash-points:pay-1:c2); its body never ran") in findings(
        report
    )
    assert "in the world never, without a crash once: ('a', 100)" in findings(report)


def test_a_probe_that_pays_is_named() -> None:
    """A probe looks; one that acts is an effect without a receipt."""
    bank = Bank()

    def find(call: clew.Call) -> clew.Verdict:
        return clew.Happened(bank.pay(call, call.arguments["order"]))

    report = bank.try_out(plain, tools={pay: (bank.pay, find)})

    assert "probe touch_nothing changed the world, and is declared to change nothing" in findings(report)


def test_a_person_who_lies_is_named() -> None:
    """The test's own settle function is judged as a probe is."""
    bank = Bank()

    report = bank.try_out(asking, tools={wire: bank.pay}, settle=lambda call: clew.DidNotHappen())

    assert "settle said that wire did not happen (crash-points:wire-1:c1); it had" in findings(report)
    assert "in the world twice, without a crash once: ('a', 100)" in findings(report)


def test_an_agent_whose_calls_depend_on_time_is_found() -> None:
    """It does not do again what is recorded, so nothing can be replayed."""
    report = crash_points(by_the_watch, "go")

    [found] = findings(report)
    assert found.startswith("its calls were others after the crash: resume_divergence (the agent calls 'rate', but")
    assert {"completed", "paused: resume_divergence"} == outcomes(report)


def test_an_idempotence_that_is_not_kept_is_named() -> None:
    """The declaration is the author's word; the list of effects is the other side's."""
    bank = Bank()

    @clew.tool(effect="external", replay="idempotent", window_s=3600)
    def pay(call: clew.Call, order: str) -> Any:
        return bank.pay(call, order)

    @clew.agent(tools=[pay])
    def paying(run: clew.SyncRun, prompt: str) -> Any:
        return run.call(pay, order="a")

    report = bank.try_out(paying)

    assert ("pay happened 2 times under key crash-points:pay-1:c1: order=a (attempts 1, 2)") in findings(report)


def test_an_agent_that_fails_only_after_a_crash_is_found() -> None:
    """The bug that no test without a crash can show."""
    lives = itertools.count()

    @clew.agent(tools=[rate])
    def once(run: clew.SyncRun, prompt: str) -> int:
        if next(lives):
            raise ValueError("I was here before")
        return int(run.call(rate, "a"))

    def fresh() -> None:
        nonlocal lives
        lives = itertools.count()

    report = crash_points(once, "go", fresh=fresh)

    assert findings(report) == [
        "ended as paused: agent_error (ValueError: I was here before); without a crash: completed"
    ]


# The report.


def bad(bank: Bank, **how: Any) -> Report:
    """A report with findings."""
    return bank.try_out(plain, tools={pay: (bank.pay, lambda call: clew.DidNotHappen())}, **how)


def test_the_message_says_what_where_and_how_to_see_it_again() -> None:
    """Whoever reads it in a log must be able to go on from there."""
    with pytest.raises(AssertionError) as failed:
        bad(Bank()).check()

    message = str(failed.value)
    assert "agent 'plain', 9 appends, " in message
    assert "pay happened 2 times under key crash-points:pay-1:c2: order=a cents=100 (attempts 1, 2)" in message
    assert "killed before append 4 of 9 (step_output pay-1, committed pay, tool_result pay)" in message
    assert "again: crash_points(…, only='before:4')" in message


def test_the_message_keeps_the_agents_secrets() -> None:
    """It ends in the log of a build."""
    bank = Bank()

    @clew.agent(tools=[pay], secrets=["hunter2"])
    def telling(run: clew.SyncRun, prompt: str) -> Any:
        return run.call(pay, order="hunter2")

    report = bank.try_out(telling, tools={pay: (bank.pay, lambda call: clew.DidNotHappen())}, effects=None)

    assert any("happened 2 times" in found for found in findings(report))
    assert "hunter2" not in str(report)


def test_one_point_is_lived_again_alone() -> None:
    """A debugger wants one life, not hundreds."""
    whole = bad(Bank())
    [point] = [point for point in whole if point.name == "before:4"]

    again = bad(Bank(), only="before:4")

    assert ["no crash", "before:4"] == [each.name for each in again]
    assert (point.findings, point.journal) == (again.points[1].findings, again.points[1].journal)


def test_the_life_without_a_crash_can_be_lived_alone() -> None:
    """To see what the agent does before anything is done to it."""
    report = crash_points(by_the_watch, "go", only="no crash")

    assert [("no crash", "completed")] == [(point.name, point.outcome) for point in report]


def test_the_same_agent_dies_the_same_deaths() -> None:
    """A finding that comes and goes would be blamed on the kit."""
    bank = Bank()
    one = bank.try_out(plain, tools={pay: (bank.pay, bank.find)})

    same = bank.try_out(plain, tools={pay: (bank.pay, bank.find)})

    assert [(each.name, each.journal) for each in one] == [(each.name, each.journal) for each in same]


def test_every_append_is_cut_before_inside_and_after() -> None:
    """The death that a test leaves out is the one that happens."""
    bank = Bank()

    report = bank.try_out(plain, tools={pay: (bank.pay, bank.find)})

    names = {point.name for point in report}
    assert all(f"{kind}:{number}" in names for kind in ("before", "after") for number in range(1, report.appends + 1))
    assert set(range(1, report.appends + 1)) == {int(name.split(":")[1]) for name in names if name.startswith("torn")}
    assert all(point.struck for point in report if point.name != "no crash")


def test_a_report_without_findings_checks_to_itself() -> None:
    """So that a test may go on with it."""
    bank = Bank()
    report = bank.try_out(plain, tools={pay: (bank.pay, bank.find)})

    assert report is report.check()


# Where and how it may be called.


def test_it_works_where_a_loop_runs() -> None:
    """Tests of async agents are often async themselves."""
    bank = Bank()

    async def inside() -> Report:
        return bank.try_out(awaiting, tools={pay: (bank.pay, bank.find)})

    report = asyncio.run(inside())

    assert ({"completed"}, []) == (outcomes(report), findings(report))


def test_it_works_beside_a_loop() -> None:
    """What the docstring names for those who must not block their loop."""
    bank = Bank()

    async def beside() -> Report:
        return await asyncio.to_thread(bank.try_out, awaiting, tools={pay: (bank.pay, bank.find)})

    report = asyncio.run(beside())

    assert ({"completed"}, []) == (outcomes(report), findings(report))


def test_no_test_framework_is_needed() -> None:
    """A kit that needs one could not be run by a stranger's."""
    code = "import sys, clew.testing; print([name for name in ('pytest', 'hypothesis') if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout


def test_a_world_that_is_not_made_new_is_refused() -> None:
    """What the first life paid would be found by the probes of the second."""
    bank = Bank()

    with pytest.raises(clew.UsageError) as refused:
        bank.try_out(plain, tools={pay: (bank.pay, bank.find)}, fresh=None)

    assert ("world_not_fresh", ["('a', 100)", "('b', 100)"]) == (refused.value.code, refused.value.facts["left"])


def test_a_world_that_may_not_be_new_is_hinted_at() -> None:
    """Without a list of effects nobody can tell, so the report asks."""
    bank = Bank()

    report = crash_points(plain, "go", tools={pay: (bank.pay, bank.find)})

    assert any("its body never ran" in found for found in findings(report))
    assert str(report).endswith("no fresh= was given: does each life begin in a new world?")


def test_an_unknown_point_is_refused() -> None:
    """A name from yesterday's report must not pass as a life without findings."""
    with pytest.raises(clew.UsageError) as refused:
        crash_points(by_the_watch, "go", only="after:99")

    assert "unknown_crash_point" == refused.value.code
    assert "after:2" in refused.value.facts["points"]


def test_a_run_that_cannot_begin_raises_what_it_would_raise() -> None:
    """That is no matter of crashes."""
    with pytest.raises(clew.UsageError) as refused:
        crash_points(plain, object())

    assert "value_not_json" == refused.value.code


@clew.tool(name="transfer", effect="external")
def move_money(order: str) -> None:
    """The real thing, declared under another name than its function has."""
    raise AssertionError("real money moved")


@clew.agent(tools=[move_money])
def renamed(run: clew.SyncRun, prompt: str) -> str:
    run.call(move_money, "1042")
    return "done"


@pytest.mark.parametrize("given", [move_money, move_money.body, "transfer"], ids=["tool", "function", "name"])
def test_a_stand_in_is_given_by_the_tool_its_function_or_its_name(given: Any) -> None:
    """All three name the same tool; the real one must not run because one of them was chosen."""
    bank = Bank()

    report = bank.try_out(renamed, tools={given: bank.pay})

    assert ["1042"] == [order for order, _ in bank.payments]
    assert [] == findings(report)


def test_a_stand_in_for_a_name_that_no_tool_has_is_refused_before_anything_ran() -> None:
    """By a slip of the pen, hundreds of lives would be lived with real money."""
    with pytest.raises(clew.UsageError) as refused:
        Bank().try_out(renamed, tools={"transfr": Bank().pay})

    assert ("invalid_stand_in", "transfr") == (refused.value.code, refused.value.facts["tool"])


def test_a_stand_in_for_a_function_that_is_never_called_is_refused() -> None:
    """It may be called without being declared, so this is known after one life, and no crash is tried."""
    bank = Bank()

    with pytest.raises(clew.UsageError) as refused:
        bank.try_out(renamed, tools={move_money: bank.pay, bank.find: bank.pay})

    assert ("invalid_stand_in", 1) == (refused.value.code, len(bank.payments))
