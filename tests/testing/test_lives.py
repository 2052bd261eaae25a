"""One life: deaths, comebacks, persons and bounds, and that every life begins anew."""

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.testing import Report, crash_points
from clew.toolkit import list_files, write_file
from tests.testing.town import Bank, asking, pay, plain, rate, wire


@clew.agent(tools=[pay])
def one(run: clew.SyncRun, prompt: str) -> Any:
    return run.call(pay, order="a")


def paying(bank: Bank, probe: Any, agent: clew.Agent = one, **how: Any) -> Report:
    return bank.try_out(agent, tools={pay: (bank.pay, probe)}, **how)


def test_who_is_told_to_come_back_comes_back() -> None:
    """A probe that knows later is no question to a person; waiting takes no time here."""
    bank, asked = Bank(), itertools.count()

    def find(call: clew.Call) -> clew.Verdict:
        return bank.find(call) if next(asked) % 2 else clew.CannotTell("not yet", retry_in_s=7200)

    report = paying(bank, find)

    assert ({"completed"}, {}) == ({point.outcome for point in report}, report.findings)


def test_whoever_comes_back_comes_later() -> None:
    """ "Did not happen" counts only when a request can no longer land, and that is hours from now."""
    bank = Bank()

    @clew.tool(effect="external", probe=bank.find, in_doubt_s=7200)
    def pay(call: clew.Call, order: str) -> Any:
        return bank.pay(call, order)

    @clew.agent(tools=[pay])
    def paying(run: clew.SyncRun, prompt: str) -> Any:
        return run.call(pay, order="a")

    report = bank.try_out(paying)

    assert ({"completed"}, {}) == ({point.outcome for point in report}, report.findings)


def test_a_probe_that_never_knows_needs_a_person() -> None:
    """Coming back has its bounds."""
    bank = Bank()

    report = paying(bank, lambda call: clew.CannotTell("closed", retry_in_s=7200))

    assert ({"completed", "needs a person"}, {}) == ({point.outcome for point in report}, report.findings)
    assert max(point.legs for point in report) < 10


def test_a_life_has_its_bounds() -> None:
    """An endless life is a finding, not a hanging test."""
    bank = Bank()

    report = paying(bank, lambda call: clew.CannotTell("closed", retry_in_s=7200), max_legs=2)

    assert {"it came to no end in 2 legs; without a crash: completed"} == set(report.findings)


def test_a_tool_that_raises_is_asked_after_without_a_crash_too() -> None:
    """The life without a crash needs its person as well, and is the measure."""
    bank = Bank()

    def lost(call: clew.Call, order: str) -> None:
        bank.pay(call, order)
        raise ConnectionError("the line is dead")

    report = bank.try_out(asking, tools={wire: lost})
    settled = bank.try_out(asking, tools={wire: lost}, settle=bank.find)

    assert ({"needs a person"}, {"completed"}) == tuple({point.outcome for point in each} for each in (report, settled))
    assert ({}, {}) == (report.findings, settled.findings)


def test_a_death_in_the_settlement_is_survived_too() -> None:
    """A person's word is an append like any other; its crash points are among them."""
    bank = Bank()

    def lost(call: clew.Call, order: str) -> None:
        bank.pay(call, order)
        raise ConnectionError("the line is dead")

    report = bank.try_out(asking, tools={wire: lost}, settle=bank.find).check()

    assert any("resume" in point.told for point in report)
    assert all(point.struck for point in report if point.name != "no crash")


def test_every_life_has_an_empty_workspace_of_its_own() -> None:
    """What one life wrote must not be found by the next."""

    @clew.agent(tools=[list_files, write_file])
    def writer(run: clew.SyncRun, prompt: str) -> Any:
        before = run.call(list_files, pattern="*")
        run.call(write_file, path="a.txt", content="x")
        return before

    report = crash_points(writer, "go", only="after:1")

    assert ({"completed"}, {}) == ({point.outcome for point in report}, report.findings)
    assert [[], []] == [point.output for point in report]


def test_a_workspace_may_be_given(tmp_path: Path) -> None:
    """For agents that read files which lie there."""
    (tmp_path / "orders.txt").write_text("1042", "utf-8")

    @clew.agent(tools=[list_files])
    def reader(run: clew.SyncRun, prompt: str) -> Any:
        return run.call(list_files, pattern="*.txt")

    report = crash_points(reader, "go", workspace=tmp_path)

    assert {"['orders.txt']"} == {str(point.output) for point in report}
    assert ["orders.txt"] == [path.name for path in tmp_path.iterdir()]


def test_limits_are_those_of_the_run() -> None:
    """A budget that pauses the run pauses every life of it."""
    bank = Bank()

    report = paying(bank, bank.find, plain, budget=clew.RunBudget(max_calls=2))

    assert ({"paused: budget_exceeded"}, {}) == ({point.outcome for point in report}, report.findings)


def test_a_settle_function_that_raises_is_the_tests_own_bug() -> None:
    """It must not end as an outcome of the agent."""

    def settle(call: clew.Call) -> Any:
        raise LookupError(call.arguments["order"])

    with pytest.raises(LookupError, match="a"):
        Bank().try_out(asking, tools={wire: Bank().pay}, settle=settle)


def test_what_clew_refuses_is_an_end_of_its_own() -> None:
    """A word of the person that cannot be recorded leaves the life where it is."""
    bank = Bank()

    def settle(call: clew.Call) -> clew.Verdict:
        return clew.Happened(object()) if call.key in bank.keys else clew.DidNotHappen()

    report = bank.try_out(asking, tools={wire: bank.pay}, settle=settle)

    assert all(found.startswith("ended as refused: value_not_json (") for found in report.findings)
    assert {"completed", "refused: value_not_json"} == {point.outcome for point in report}


def test_who_is_left_behind_is_not_waited_for() -> None:
    """A tool whose time is up may hang for ever; the lives go on."""
    bank, never = Bank(), threading.Event()

    @clew.tool(effect="external", timeout_s=0.01)
    def hang(order: str) -> None:
        never.wait()

    @clew.agent(tools=[hang])
    def hanging(run: clew.SyncRun, prompt: str) -> Any:
        return run.call(hang, order="a")

    report = bank.try_out(hanging, only="after:1")
    never.set()

    assert ({"needs a person"}, {}) == ({point.outcome for point in report}, report.findings)


def raising(run: clew.SyncRun, prompt: str) -> None:
    raise ValueError("a bug")


def test_deaths_that_are_meant_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Hundreds of warnings would hide the one message that counts; afterwards all is as it was."""
    bank = Bank()

    paying(bank, bank.find)
    during = list(caplog.records)
    clew.Home.memory().run_sync(raising, "go", signals=False)

    assert ([], True) == (during, bool(caplog.records))


def test_an_interrupted_test_stops() -> None:
    """Ctrl-C pauses the run under test; the kit must not go on with the next life."""

    def struck(order: str) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crash_points(plain, "go", tools={rate: struck, pay: (Bank().pay, Bank().find)})


def test_a_tool_with_a_business_key_survives_every_death() -> None:
    """Its claims outlive the process that dies, as they would on a disk."""
    bank = Bank()

    @clew.tool(effect="external", probe=bank.find, in_doubt_s=0, key=lambda order: order)
    def pay(call: clew.Call, order: str) -> Any:
        return bank.pay(call, order)

    @clew.agent(tools=[pay])
    def paying(run: clew.SyncRun, prompt: str) -> Any:
        return run.call(pay, order="a")

    report = bank.try_out(paying)

    assert ({"completed"}, {}) == ({point.outcome for point in report}, report.findings)
