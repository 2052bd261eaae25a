"""From an agent and a run id to an open leg: what is recorded of a start, what a resume is refused for."""

import hashlib
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import clew
from clew.core.compose import Move
from clew.core.resume import Facts, is_resumable
from clew.runtime.opening import input_fingerprint, recorded_budget
from clew.stores.base import Workspace
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.testing.clock import SetClock
from tests.disk.living import lives, orphan
from tests.histories import facts, started
from tests.runtime.stage import (
    RUN,
    WHO,
    Bank,
    Forger,
    code_of,
    dies,
    mortal_home,
    payer,
    records_of,
    resumes_of,
    state_of,
)

SAID = clew.Said("ann", "the new prompt is better")


def paused(**declared: Any) -> tuple[clew.Home, Bank, clew.Agent]:
    """A run that paused because its agent raised after one payment."""
    home, _ = mortal_home()
    bank = Bank()
    pay = bank.tool()
    agent = raising(pay, **declared)
    home.run_sync(agent, {"csv": "orders.csv"}, run_id=RUN)
    return home, bank, agent


def raising(pay: clew.Tool, **declared: Any) -> clew.Agent:
    def orders_agent(run: clew.SyncRun, prompt: Any) -> None:
        run.call(pay, order="1")
        raise LookupError("no second order")

    found = clew.agent(**{"tools": [pay], "name": "orders", **declared})(orders_agent)
    assert isinstance(found, clew.Agent)
    return found


# A start.


def test_a_start_records_what_a_later_process_needs() -> None:
    """Where the agent is found, what it was asked, under which limits, with which tools: in the order of the format."""
    home, _ = mortal_home()
    agent = payer(Bank().tool())
    home.run_sync(agent, "go", run_id=RUN, budget=clew.RunBudget(max_calls=20))

    start = records_of(home)[0].payload
    members = "configName schemaVersion configFingerprint initialPrompt operationId leg configParts input agentPath"
    assert [*members.split(), "workspace", "tools", "codeDigest", "limits"] == list(start)
    assert ("orders", "go", ["pay"], {"maxCalls": 20}) == tuple(
        start[name] for name in ("configName", "initialPrompt", "tools", "limits")
    )


def test_an_id_is_never_given_twice() -> None:
    """Whoever wants the second one must hear of the first."""
    home, _, agent = paused()

    assert "run_id_conflict" == code_of(home.run_sync, agent, run_id=RUN)


def test_an_input_is_fingerprinted_by_its_text_or_its_canonical_form() -> None:
    """Contract #109: the whole hash of the bare text; an object must not depend on the order of its members."""
    assert hashlib.sha256(b"go").hexdigest() == input_fingerprint("go")
    assert input_fingerprint({"a": 1, "b": 2}) == input_fingerprint({"b": 2, "a": 1})


def test_a_leg_that_cannot_get_its_gate_lets_the_run_go() -> None:
    """An exception between birth and agent must not leave a lock behind."""
    home, _ = mortal_home()
    agent, parts = payer(Bank().tool(), "1"), home._parts

    def missing(path: str) -> Workspace:
        raise FileNotFoundError(path)

    home._parts = msgspec.structs.replace(parts, workspaces=missing)
    with pytest.raises(FileNotFoundError):
        home.run_sync(agent, run_id=RUN)
    home._parts = parts

    result = home.resume_sync(RUN, agent)

    assert "completed" == result.operation.state


# A resume that is refused.


@pytest.mark.parametrize(
    ("declared", "changed"),
    [
        ({"config": {"model": "other"}}, ["config"]),
        ({"name": "other"}, ["agent"]),
        ({"policy": lambda call: None, "config": {"model": "other"}}, ["config", "policy"]),
    ],
)
def test_a_changed_configuration_is_refused_and_named(declared: dict[str, Any], changed: list[str]) -> None:
    """Half of a run under one prompt and half under another is neither; the person must know which part it is."""
    home, bank, _ = paused()
    before = len(records_of(home))

    with pytest.raises(clew.Refused, match=" and ".join(changed)) as caught:
        home.resume_sync(RUN, raising(bank.tool(), **declared))

    assert ("resume_config_mismatch", changed) == (caught.value.code, caught.value.facts["changed"])
    assert before == len(records_of(home))


@pytest.mark.parametrize("before", [None, {"mode": "FULL"}])
def test_how_a_run_is_watched_is_no_configuration(before: Any) -> None:
    """Contract #105: who turns telemetry on or off between two legs changes nothing that the run does."""
    watched = {} if before is None else {"telemetry": before}
    home, bank, _ = paused(config={"model": "x", **watched})

    result = home.resume_sync(RUN, raising(bank.tool(), config={"model": "x", "telemetry": {"mode": "DISABLED"}}))

    assert ("agent_error", 1) == (result.reason, bank.orders["1"])


def test_only_the_member_telemetry_of_a_configuration_is_left_out() -> None:
    """Contract #105: what a tool was told under the same word, one level deeper, is the author's own."""
    home, bank, _ = paused(config={"model": {"telemetry": 1}})

    code = code_of(home.resume_sync, RUN, raising(bank.tool(), config={"model": {"telemetry": 2}}))

    assert "resume_config_mismatch" == code


def test_an_accepted_configuration_is_a_recorded_waiver() -> None:
    """Who let it pass, why, and what had changed."""
    home, bank, _ = paused()
    home.resume_sync(RUN, raising(bank.tool(), config={"model": "other"}), accept_config=SAID)

    waiver = resumes_of(home)[0]["integrityWaived"]

    parts = waiver.pop("configParts")

    assert {"accepted": "config", "by": "ann", "reason": SAID.reason, "changed": ["config"]} == waiver
    assert {"agent", "config", "policy"} == set(parts)


def test_nothing_is_waived_where_nothing_changed() -> None:
    """A script that always says --accept-config must not fill the journal with waivers."""
    home, _, agent = paused()
    home.resume_sync(RUN, agent, accept_config=SAID)

    assert "integrityWaived" not in resumes_of(home)[0]


def test_limits_tools_and_code_may_change() -> None:
    """That is what a resume is for: the bug is fixed, the limit is raised."""
    home, bank, _ = paused()
    agent = payer(bank.tool(), "1", "2")

    result = home.resume_sync(RUN, agent, budget=clew.RunBudget(max_calls=2))

    assert ("completed", 1, 1) == (result.operation.state, bank.orders["1"], bank.orders["2"])


def test_another_input_is_refused() -> None:
    """The recorded effects answer the recorded question."""
    home, _, agent = paused()

    assert "resume_input_mismatch" == code_of(home.resume_sync, RUN, agent, input={"csv": "other.csv"})


def test_the_same_input_may_be_given_again() -> None:
    """Compared as JSON, not as Python."""
    home, _, agent = paused()

    assert "agent_error" == home.resume_sync(RUN, agent, input={"csv": "orders.csv"}).reason


def test_a_plan_that_was_looked_at_is_refused_when_the_journal_went_on() -> None:
    """What a person agreed to is not what would be done."""
    home, _, agent = paused()
    plan = home.plan(RUN, agent)
    home.resume_sync(RUN, agent)

    assert "plan_stale" == code_of(home.resume_sync, RUN, agent, plan=plan)


def test_a_plan_that_still_holds_is_followed_and_recorded() -> None:
    """The `resume` record says what was decided of each call."""
    home, _, agent = paused()
    plan = home.plan(RUN, agent)
    assert plan is not None
    home.resume_sync(RUN, agent, plan=plan)

    assert plan.recorded() == resumes_of(home)[0]["plan"]


def test_the_recorded_limits_hold_for_the_next_leg() -> None:
    """A resume is no way around a limit; saying a new one is."""
    home, _ = mortal_home()
    bank = Bank()
    agent = payer(bank.tool(), "1", "2")
    first = home.run_sync(agent, run_id=RUN, budget=clew.RunBudget(max_calls=1))
    second = home.resume_sync(RUN, agent)

    assert ["budget_exceeded"] * 2 == [first.reason, second.reason]
    assert clew.RunBudget(max_calls=1) == recorded_budget(state_of(home))


# Waiting for the same.


def waiting() -> tuple[clew.Home, clew.Agent]:
    home, _ = mortal_home()
    bank = Bank()
    bank.fates = ["fails after"]
    agent = payer(bank.tool(), "1")
    home.run_sync(agent, run_id=RUN)
    return home, agent


def test_a_run_that_still_waits_for_the_same_grows_by_nothing() -> None:
    """A timer that resumes every minute must not fill the disk."""
    home, agent = waiting()
    before = len(records_of(home))

    result = home.resume_sync(RUN, agent)

    assert ("unknown_effect", ["pay-1"], before) == (
        result.reason,
        [row["stepId"] for row in result.waiting],
        len(records_of(home)),
    )


def test_a_run_that_waits_for_something_new_says_so() -> None:
    """It paused because the agent raised; since then the bytes of an answer have been lost."""
    blobs = MemoryBlobStore()
    home, _ = mortal_home(blobs=blobs)
    tool = clew.tool(name="pay", effect="external")(lambda: "x" * 20_000)

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        run.call(tool)
        raise LookupError("later")

    declared = clew.agent(tools=[tool], name="orders")(agent)
    home.run_sync(declared, run_id=RUN)
    blobs.kept.clear()

    result = home.resume_sync(RUN, declared)

    assert ("paused", "result_missing") == (result.operation.state, result.reason)


def test_a_lost_answer_is_given_anew_by_a_person() -> None:
    """The way out of `result_missing`: the effect happened, its result is looked up."""
    blobs = MemoryBlobStore()
    home, _ = mortal_home(blobs=blobs)
    tool = clew.tool(name="pay", effect="external")(lambda: "x" * 20_000)
    declared = clew.agent(tools=[tool], name="orders")(lambda run, prompt: run.call(tool)[:3] + str(1 // prompt))
    home.run_sync(declared, 0, run_id=RUN)
    blobs.kept.clear()
    home.resume_sync(RUN, declared)
    home.settle(RUN, clew.Happened("yyyyyy"), call="pay-1", **WHO)
    fixed = clew.agent(tools=[tool], name="orders")(lambda run, prompt: run.call(tool)[:3])

    assert "yyy" == home.resume_sync(RUN, fixed).output


@pytest.mark.parametrize("deaths", [0, 1, 2, 3])
def test_resumable_and_plan_are_one_judgement(deaths: int) -> None:
    """Two gates that disagree are the oldest fault of the reference."""
    home, store = mortal_home()
    agent = payer(Bank().tool(), "1")
    store.die_at(deaths)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    home.ensure_sync(agent, run_id=RUN)
    plan = home.plan(RUN) if not state_of(home).ended else None

    assert (plan is not None and not plan.blocked) is is_resumable(state_of(home), Facts(SetClock().now_ms()))


# What an abort did not stop.

ABORTED = f"aborted-{os.getpid()}"
"""No other run on this machine is called so: processes are looked for by it."""
FINISHING = {
    "resume": lambda home: home.resume_sync(ABORTED, payer(Bank().tool(), "1"), signals=False),
    "abort": lambda home: home.abort(ABORTED, **WHO),
    "settle": lambda home: home.settle(ABORTED, clew.DidNotHappen(), **WHO),
    "unlock": lambda home: home.unlock(ABORTED, nonce="forged", **WHO),
}


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in procfs")
@pytest.mark.parametrize("finish", FINISHING.values(), ids=FINISHING)
@pytest.mark.parametrize("leg", ["forged", ""], ids=["proven", "in doubt"])
def test_who_finishes_an_abort_ends_or_names_what_lives(finish: Callable[[clew.Home], Any], leg: str) -> None:
    """The abort died before its end: whoever writes that ends what is provably of this run, and names the rest."""
    agent, call = payer(Bank().tool(), "1"), facts(1, run_id=ABORTED)
    store = MemoryRunStore()
    forger = Forger(store, agent, ABORTED, pid=1 << 30, startTick=1)
    store.implant(ABORTED, forger.say(*started(call)).say(Move("REQUEST_ABORT", "enough")).data)
    home = clew.Home(".clew", takeover="operator", store=store, blobs=MemoryBlobStore())
    with orphan(CLEW_CALL=f"{call.key}#1", CLEW_LEG=leg) as pid:
        finish(home)
        goes_on = lives(pid)
    row = home.reader.row(ABORTED)

    assert ("failed", "aborted") == (row["state"], row["reason"])
    assert (not leg, not leg) == (goes_on, f"pid {pid} (" in row["message"])
