"""A run that delegates: its child is a run of its own, and nobody goes on past it before its end is recorded."""

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import Any

import pytest

import clew
from clew.core.carving import spent_by
from clew.runtime import children
from clew.runtime.tools import as_agent
from clew.stores.base import Command
from tests.runtime.scene import RUN, Forest, agent_of, lose_the_line, paying, start

FACES = ("async", "plain")
WHO: dict[str, Any] = {"by": "ann", "reason": "looked"}


def boss(face: str, *wishes: tuple[Any, dict[str, Any]], **declared: Any) -> clew.Agent:
    """An agent that has these children one after another and returns what they said."""

    def script(run: Any) -> Any:
        told = []
        for agent, how in wishes:
            one = yield run.child(agent, **how)
            told.append(one)
        return told

    return agent_of(face, script, **declared)


def worker(scene: Forest, face: str, *orders: str, **declared: Any) -> clew.Agent:
    """An agent that pays."""
    pay = paying(scene, "plain", **declared)

    def script(run: Any) -> Any:
        told = []
        for order in orders or ("a",):
            one = yield run.call(pay, order=order)
            told.append(one)
        return told

    found = agent_of(face, script, pay)
    found.name = "worker"
    return found


def raiser(face: str) -> clew.Agent:
    """An agent that raises."""

    def script(run: Any) -> Any:
        yield from ()
        raise ValueError("nothing to do")

    return agent_of(face, script)


def child_of(scene: Forest, run_id: str = RUN) -> str:
    """The one child of a run."""
    (known,) = scene.home().reader.see(run_id).state.delegations.values()
    return known.child_id


def row_of(scene: Forest, run_id: str = RUN) -> dict[str, Any]:
    return scene.home().reader.row(run_id)


def facts_of(scene: Forest, run_id: str = RUN) -> list[str]:
    return [
        record.payload["type"] for record in scene.home().reader.records(run_id) if record.kind == "delegation"
    ]  # fmt: skip


WHOLE = ["delegation_recorded", "child_created", "child_running", "child_terminal", "parent_joined"]


@pytest.mark.parametrize("below", FACES)
@pytest.mark.parametrize("above", FACES)
def test_a_child_does_its_part_in_a_run_of_its_own(above: str, below: str) -> None:
    """Any agent may delegate to any other, and hears its output as of a call."""
    scene = Forest()
    result = scene.run(boss(above, (worker(scene, below), {"name": "part"})))
    row = row_of(scene, child_of(scene))

    assert ("completed", 1, "completed", RUN, WHOLE) == (
        result.operation.state, len(result.output), row["state"], row["parent"], facts_of(scene),
    )  # fmt: skip


def test_parent_and_child_name_each_other() -> None:
    """Either journal leads to the other, with the step that waits and how deep it stands."""
    scene = Forest()
    scene.run(boss("plain", (worker(scene, "plain"), {"input": "pay", "run_id": "kid"})))
    start_of = scene.home().reader.see("kid").state.start
    known = scene.state.delegations["child-1"]
    mine = {"runId": RUN, "stepId": "child-1", "nonce": scene.state.legs[0].nonce, "depth": 1, "policies": []}

    assert (mine, "kid", start_of["input"]) == (
        start_of["parent"], known.child_id, known.fingerprint,
    )  # fmt: skip


@pytest.mark.parametrize("face", FACES)
def test_the_end_of_a_child_is_on_disk_before_its_parent_says_so(face: str) -> None:
    """Promise 12: the evidence that the parent records is a place in the child's journal, and it is there."""
    scene = Forest()
    scene.run(boss(face, (worker(scene, face), {})))
    said = [record.payload for record in scene.home().reader.records(RUN) if record.kind == "delegation"]
    child = scene.home().reader.see(child_of(scene)).state

    assert [{"kind": "journal", "runId": child.run_id, "sequence": child.sequence, "chain": child.chain}] == (
        said[-1]["result"]["evidence"]
    )


@pytest.mark.parametrize("face", FACES)
def test_a_joined_child_is_replayed(face: str) -> None:
    """#245: the same delegation with the same input is the same child; its agent is not called again."""
    scene = Forest()
    faults = [ValueError("after the child")]

    def script(run: Any) -> Any:
        told = yield run.child(worker(scene, face), "x")
        if faults:
            raise faults.pop()
        return told

    agent = agent_of(face, script)
    scene.run(agent)
    result = scene.resume(agent)

    assert ("completed", 1, 2) == (result.operation.state, len(scene.bank.paid), len(scene.memory.ids()))


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("change", ["input", "agent", "run_id"])
def test_another_child_in_the_same_place_is_a_conflict(face: str, change: str) -> None:
    """#245: with other input `delegation_conflict`; the run pauses, and the recorded child is not touched."""
    scene = Forest()
    asked: dict[str, Any] = {"input": "x", "run_id": "kid"}
    scene.run(boss(face, (raiser(face), asked)))
    other = worker(scene, face) if change == "agent" else raiser(face)
    result = scene.resume(boss(face, (other, asked | ({change: "y"} if change != "agent" else {}))))

    assert ("delegation_conflict", 22, {RUN, "kid"}) == (result.reason, result.exit_code, set(scene.memory.ids()))


@pytest.mark.parametrize("face", FACES)
def test_a_failed_child_is_an_error_answer_that_names_it(face: str) -> None:
    """The agent may decide how to go on, and decides the same on a replay."""
    scene = Forest()
    heard: list[tuple[str, str]] = []

    def script(run: Any) -> Any:
        try:
            yield run.child(worker(scene, face, then=lose_the_line), run_id="kid")
        except clew.ToolError as fault:
            heard.append((fault.code, str(fault.facts["child"])))
        if len(heard) == 1:
            raise ValueError("later")
        return "done"

    agent = agent_of(face, script)
    scene.run(agent)
    scene.home().abort("kid", **WHO)
    scene.resume(agent)
    result = scene.resume(agent)

    assert ("completed", [("child_run_failed", "kid")] * 2) == (result.operation.state, heard)


@pytest.mark.parametrize("face", FACES)
def test_a_parent_waits_for_a_child_whose_effect_is_open(face: str) -> None:
    """Promise 2 reaches upwards: nobody carries on as if they knew; who is in the way is named, with the next step."""
    scene = Forest()
    agent = boss(face, (worker(scene, face, then=lose_the_line), {"run_id": "kid"}))
    result = scene.run(agent)
    row = row_of(scene)

    assert ("child_paused", 21, {"runId": "kid", "reason": "unknown_effect"}, [*WHOLE[:3], "child_paused"]) == (
        result.reason, result.exit_code, row["child"], facts_of(scene),
    )  # fmt: skip


@pytest.mark.parametrize("face", FACES)
def test_resuming_the_parent_takes_a_settled_child_along(face: str) -> None:
    """The child goes on as its own plan says, then its parent."""
    scene = Forest()
    below = worker(scene, face, "a", "b", then=lambda: lose_the_line() if len(scene.bank.paid) == 1 else None)
    agent = boss(face, (below, {"run_id": "kid"}))
    scene.run(agent)
    scene.home().settle("kid", clew.Happened("T-1"), **WHO)
    result = scene.resume(agent)

    assert ("completed", [["T-1", result.output[0][1]]], {"a": 1, "b": 1}) == (
        result.operation.state, result.output, dict(scene.bank.orders),
    )  # fmt: skip


@pytest.mark.parametrize("face", FACES)
def test_a_child_that_still_waits_keeps_its_parent_waiting(face: str) -> None:
    """Resuming too early changes nothing and says the same again."""
    scene = Forest()
    agent = boss(face, (worker(scene, face, then=lose_the_line), {"run_id": "kid"}))
    scene.run(agent)
    result = scene.resume(agent)

    assert ("child_paused", 21, 1) == (result.reason, result.exit_code, len(scene.bank.paid))


def test_the_run_at_the_bottom_decides_the_exit_code() -> None:
    """A grandchild at its limit is a limit for whoever started the run at the top."""
    scene = Forest()
    middle = boss("plain", (worker(scene, "plain", "a", "b"), {"run_id": "kid", "budget": clew.RunBudget(max_calls=1)}))
    result = scene.run(boss("plain", (middle, {"run_id": "mid"})))

    waited = {"runId": "kid", "reason": "budget_exceeded", "message": "limit toolCalls = 1 reached (1)"}
    assert ("child_paused", 5, waited) == (result.reason, result.exit_code, row_of(scene)["child"])


@pytest.mark.parametrize("face", FACES)
def test_a_child_resumed_by_itself_is_joined_when_its_parent_comes_back(face: str) -> None:
    """#246: an orphan goes on by itself if somebody wants that; its recorded end is read then, its agent not called."""
    scene = Forest()
    below = worker(scene, face, then=lose_the_line)
    agent = boss(face, (below, {"run_id": "kid"}))
    scene.run(agent)
    home = scene.home()
    home.settle("kid", clew.Happened("T-1"), **WHO)
    if as_agent(below).is_async:
        asyncio.run(home.resume("kid", below))
    else:
        home.resume_sync("kid", below, signals=False)
    result = scene.resume(agent)

    assert ("completed", [["T-1"]], 1) == (result.operation.state, result.output, len(scene.bank.paid))


def test_an_agent_that_returns_without_its_child_is_not_completed() -> None:
    """Promise 8: the work of a child that nobody heard of is open."""
    scene = Forest()
    scene.run(boss("plain", (worker(scene, "plain", then=lose_the_line), {"run_id": "kid"})))
    result = scene.resume(boss("plain"))

    assert ("paused", "child_paused", 21) == (result.operation.state, result.reason, result.exit_code)


# Limits.


@pytest.mark.parametrize("face", FACES)
def test_a_tree_is_three_runs_deep(face: str) -> None:
    """#245: depth 3; the fourth is refused before anything is recorded of it."""
    scene = Forest()
    codes: list[str] = []

    def script(run: Any) -> Any:
        try:
            yield run.child(agent)
        except clew.Refused as fault:
            codes.append(fault.code)
        return "done"

    agent = agent_of(face, script)
    scene.run(agent)

    assert (["child_run_depth_limit"], 4) == (codes, len(scene.memory.ids()))


def test_four_children_are_active_at_once() -> None:
    """#245: 4 active; #246: the fifth gets `child_run_concurrency_limit`."""
    scene = Forest()

    async def agent(run: clew.Run, prompt: str) -> list[Any]:
        async def wait(child: clew.Run, prompt: str) -> str:
            await gathered.wait()
            return "done"

        gathered = asyncio.Event()
        five = [asyncio.ensure_future(run.child(wait, number)) for number in range(5)]
        await asyncio.wait(five, return_when=asyncio.FIRST_COMPLETED)
        gathered.set()
        told = await asyncio.gather(*five, return_exceptions=True)
        return [each.code if isinstance(each, clew.ClewError) else each for each in told]

    assert [*["done"] * 4, "child_run_concurrency_limit"] == scene.run(agent).output


def test_a_tree_has_thirty_two_descendants() -> None:
    """#245: 32 descendants, wherever they stand in the tree, and counted again after a resume."""
    scene = Forest()
    codes: list[str] = []

    def leaf(run: clew.SyncRun, prompt: Any) -> str:
        return "done"

    def branch(run: clew.SyncRun, prompt: Any) -> str:
        for number in range(15):
            run.child(leaf, number)
        return "done"

    def agent(run: clew.SyncRun, prompt: Any) -> str:
        run.child(branch, 1)
        run.child(branch, 2)
        if not codes:
            codes.append("resumed")
            raise ValueError("again")
        try:
            run.child(leaf, 3)
        except clew.Refused as fault:
            codes.append(fault.code)
        return "done"

    scene.run(agent)
    scene.resume(agent)

    assert (["resumed", "child_run_total_limit"], 33) == (codes, len(scene.memory.ids()))


@pytest.mark.parametrize("face", FACES)
def test_what_a_child_spends_is_its_parents(face: str) -> None:
    """A limit holds for the whole tree, and what a child left over is free again."""
    scene = Forest()
    pay = paying(scene, "plain")

    def script(run: Any) -> Any:
        yield run.child(worker(scene, face, "a", "b"), budget=clew.RunBudget(max_calls=5))
        yield run.call(pay, order="c")
        yield run.call(pay, order="d")

    result = scene.run(agent_of(face, script, pay), budget=clew.RunBudget(max_calls=3))

    assert ("budget_exceeded", {"a": 1, "b": 1, "c": 1}) == (result.reason, dict(scene.bank.orders))


@pytest.mark.parametrize("face", FACES)
def test_a_child_gets_no_more_than_its_parent_has_left(face: str) -> None:
    """It asked for nine calls and gets two; with a new limit of the parent's it goes on."""
    scene = Forest()
    agent = boss(face, (worker(scene, face, "a", "b", "c"), {"budget": clew.RunBudget(max_calls=9)}))
    paused = scene.run(agent, budget=clew.RunBudget(max_calls=2))
    result = scene.resume(agent, budget=clew.RunBudget(max_calls=20))

    assert (5, "completed", {"a": 1, "b": 1, "c": 1}) == (
        paused.exit_code, result.operation.state, dict(scene.bank.orders),
    )  # fmt: skip


def test_what_one_child_may_spend_another_may_not() -> None:
    """Two at once share what is left; the second finds what the first did not ask for."""
    scene = Forest()
    granted: list[Any] = []

    async def agent(run: clew.Run, prompt: str) -> None:
        async def look(child: clew.Run, prompt: str) -> None:
            granted.append(scene.home().reader.see(child.run_id).state.start["limits"])
            await asyncio.sleep(0)

        await asyncio.gather(*(run.child(look, number, budget=clew.RunBudget(max_calls=7)) for number in range(2)))

    scene.run(agent, budget=clew.RunBudget(max_calls=10))

    assert [{"maxCalls": 3}, {"maxCalls": 7}] == sorted(granted, key=lambda limits: limits["maxCalls"])


def using(face: str, what: str, *children: str) -> clew.Agent:
    """An agent that has children which use one of what is named here, and then uses one itself."""
    fates = [lose_the_line]

    def wrong(call: clew.Call) -> None:
        raise ValueError("no such order")

    def falter(call: clew.Call) -> None:
        if fates:
            fates.pop()()

    usage = {"tokens": clew.Usage(tokens=10), "cost": clew.Usage(cost_micro_usd=500_000)}.get(what)
    fail = clew.Tool(wrong, name="fail", effect="none", replay="safe")
    stumble = clew.Tool(falter, name="stumble", effect="external", probe=lambda call: clew.DidNotHappen(), in_doubt_s=0)

    def script(run: Any) -> Any:
        for name in children:
            yield run.child(using(face, what), name=name)
        if what in ("turns", "tokens", "cost"):
            yield run.turn(lambda request: clew.Turn("said", usage), "x")
        elif what == "steps":
            yield run.step("plan", lambda: 1)
        elif what == "retries":
            yield run.call(stumble)
        else:
            with suppress(clew.ToolError):
                yield run.call(fail)

    return agent_of(face, script, fail, stumble)


USED: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "calls": ({"max_calls": 2}, {"maxCalls": 1}),
    "failures": ({"max_tool_failures": 1}, {"maxToolFailures": 1}),
    "turns": ({"max_turns": 2}, {"maxTurns": 1}),
    "steps": ({"max_steps": 4}, {"maxSteps": 1}),
    "retries": ({"max_retries": 2}, {"maxRetries": 1}),
    "tokens": ({"max_tokens": 20}, {"maxTokens": 10}),
    "cost": ({"max_cost_usd": 1.0}, {"maxCostMicroUsd": 500_000}),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("what", USED)
def test_every_limit_holds_for_a_run_and_its_children_together(face: str, what: str) -> None:
    """Each of two children uses one; then the limit is used up for their parent as well."""
    limits, spent = USED[what]
    scene = Forest()
    agent = using(face, what, "first", "second")
    result = scene.run(agent, budget=clew.RunBudget(**limits))
    first = scene.state.delegations["first-1"].spent or {}
    again = scene.resume(agent, budget=clew.RunBudget(**{name: value * 9 for name, value in limits.items()}))

    assert ("budget_exceeded", spent, "completed") == (
        result.reason, {name: first[name] for name in spent}, again.operation.state,
    )  # fmt: skip


@pytest.mark.parametrize("face", FACES)
def test_turns_that_a_child_did_not_measure_are_not_measured_for_its_parent(face: str) -> None:
    """A limit that nobody can keep is not kept in silence because the work was handed on."""
    scene = Forest()

    def script(run: Any) -> Any:
        yield run.child(using(face, "turns"))
        yield run.step("more", lambda: 1)

    agent = agent_of(face, script)
    result = scene.run(agent, budget=clew.RunBudget(max_tokens=100))
    again = scene.resume(agent, budget=clew.RunBudget(max_tokens=100, on_unmeasured="continue"))

    assert ("budget_not_enforceable", "completed") == (result.reason, again.operation.state)


@pytest.mark.parametrize("face", FACES)
def test_a_delegation_is_a_step_that_a_limit_may_refuse(face: str) -> None:
    """It is asked before anything is recorded; a replay of it counts no second time."""
    scene = Forest()

    def script(run: Any) -> Any:
        yield run.step("plan", lambda: 1)
        yield run.child(leaf, name="first")
        yield run.child(leaf, name="second")
        return "done"

    def rest(run: Any) -> Any:
        yield from ()

    leaf, agent = agent_of(face, rest), agent_of(face, script)
    result = scene.run(agent, budget=clew.RunBudget(max_steps=2))
    known = list(scene.state.delegations)
    again = scene.resume(agent, budget=clew.RunBudget(max_steps=3))

    assert ("budget_exceeded", ["first-1"], "completed") == (result.reason, known, again.operation.state)


@pytest.mark.parametrize("face", FACES)
def test_a_child_that_waits_is_a_step_already(face: str) -> None:
    """What began in an earlier leg is neither refused nor forgotten: it, its call, then the limit is reached."""
    scene = Forest()

    def script(run: Any) -> Any:
        yield run.child(worker(scene, face, then=lose_the_line), run_id="kid")
        yield run.step("more", lambda: 1)

    agent = agent_of(face, script)
    scene.run(agent, budget=clew.RunBudget(max_steps=2))
    scene.home().settle("kid", clew.Happened("T"), **WHO)
    result = scene.resume(agent)

    assert ("budget_exceeded", "joined", 2) == (
        result.reason, scene.state.delegations["child-1"].status, spent_by(scene.state).steps,
    )  # fmt: skip


# Policy and approvals.


def modelled(scene: Forest, face: str, **declared: Any) -> clew.Agent:
    """An agent that pays as a model proposes."""
    pay = paying(scene, "plain")

    def script(run: Any) -> Any:
        return (yield run.propose(pay, order="a"))

    return agent_of(face, script, pay, **declared)


YES, NO = clew.Policy("full"), clew.Policy(rules=[clew.Rule("deny", "pay", reason="no payments")])


def asking(call: clew.Call) -> clew.Ask:
    return clew.Ask("look first")


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [
        (YES, YES, "paid"),
        (None, YES, "paid"),
        (YES, None, "asked"),
        (None, None, "asked"),
        (asking, YES, "asked"),
        (YES, asking, "asked"),
        (asking, NO, "denied"),
        (NO, asking, "denied"),
        (clew.Policy("ask"), NO, "denied"),
        (NO, YES, "denied"),
    ],
)
def test_the_strictest_policy_of_a_line_holds_for_a_child(face: str, above: Any, below: Any, expected: str) -> None:
    """#246: a no of either outweighs a question, a question a yes; a parent's yes loosens nothing."""
    scene = Forest()
    kid = modelled(scene, face, **({} if below is None else {"policy": below}))
    scene.run(boss(face, (kid, {"run_id": "kid"}), **({} if above is None else {"policy": above})))
    became = {"completed": "paid", "approval_required": "asked", "agent_error": "denied"}[
        row_of(scene, "kid")["reason"]
    ]

    assert (expected, int(expected == "paid")) == (became, len(scene.bank.paid))


@pytest.mark.parametrize("face", FACES)
def test_a_childs_approval_is_its_own_and_its_parent_waits_with_its_code(face: str) -> None:
    """The question is asked where the call is; a yes there and a resume of the parent are enough."""
    scene = Forest()
    agent = boss(face, (modelled(scene, face), {"run_id": "kid"}))
    paused = scene.run(agent)
    child = row_of(scene)["child"]
    still = scene.resume(agent)
    scene.home().approve("kid", by="ann", reason="looked")
    result = scene.resume(agent)

    assert ("child_paused", 20, {"runId": "kid", "reason": "approval_required"}, 20) == (
        paused.reason, paused.exit_code, child, still.exit_code,
    )  # fmt: skip
    assert ("completed", 1) == (result.operation.state, len(scene.bank.paid))


@pytest.mark.parametrize("face", FACES)
def test_a_childs_calls_pass_its_parents_policy(face: str) -> None:
    """#246: policy may only narrow; a child that allows everything is still denied what its parent is denied."""
    scene = Forest()

    def careful(call: clew.Call) -> str | None:
        return "no payments" if call.tool == "pay" else None

    heard: list[str] = []

    def script(run: Any) -> Any:
        try:
            yield run.call(pay, order="a")
        except clew.Denied as fault:
            heard.append(fault.message)

    pay = paying(scene, "plain")
    below = agent_of(face, script, pay, policy=lambda call: None)
    result = scene.run(boss(face, (below, {}), policy=careful))

    assert ("completed", ["no payments"], []) == (result.operation.state, heard, scene.bank.paid)


def test_a_child_does_not_go_on_without_its_parents_policy() -> None:
    """#246: `child_run_policy_escalation`; resumed by itself it would be asked less than it was born under."""
    scene = Forest()

    def careful(call: clew.Call) -> str | None:
        return None

    below = worker(scene, "plain", then=lose_the_line)
    scene.run(boss("plain", (below, {"run_id": "kid"}), policy=careful))
    scene.home().settle("kid", clew.Happened("T"), **WHO)
    with pytest.raises(clew.Refused) as caught:
        scene.home().resume_sync("kid", below, signals=False)

    assert ("child_run_policy_escalation", True) == (caught.value.code, f"clew resume {RUN}" in caught.value.next)


# Ids.


def test_a_childs_own_id_must_be_free() -> None:
    """Another run's journal is nobody's child."""
    scene = Forest()
    scene.home().run_sync(raiser("plain"), run_id="kid", signals=False)
    result = scene.run(boss("plain", (raiser("plain"), {"run_id": "KID"})))

    assert ("agent_error", "child_run_identity_mismatch", {}) == (
        result.reason, getattr(result.fault, "code", ""), scene.state.delegations,
    )  # fmt: skip


def test_a_second_start_on_the_same_target_is_refused() -> None:
    """C88: an open child is kept in the state, whatever the agent's own text forgot, and is not started twice."""
    scene = Forest()
    pay = worker(scene, "plain", then=lose_the_line)
    scene.run(boss("plain", (pay, {"run_id": "kid", "name": "first"})))
    forgetful = boss("plain", (pay, {"run_id": "kid", "name": "second"}))
    result = scene.resume(forgetful)

    assert ("delegation_conflict", 1, ["first-1"]) == (
        getattr(result.fault, "code", ""), len(scene.bank.paid), list(scene.state.delegations),
    )  # fmt: skip


def test_two_at_once_cannot_have_one_id() -> None:
    """Neither is recorded when the other asks: the promise counts."""
    scene = Forest()

    async def agent(run: clew.Run, prompt: str) -> list[Any]:
        told = await asyncio.gather(*(run.child(leaf, 1, run_id="kid") for _ in range(2)), return_exceptions=True)
        return [each.code if isinstance(each, clew.ClewError) else each for each in told]

    async def leaf(run: clew.Run, prompt: int) -> str:
        return "done"

    assert ["done", "delegation_conflict"] == scene.run(agent).output


# What cannot go on.


def test_a_child_that_lives_elsewhere_is_held_and_named() -> None:
    """Two writers never overwrite each other, whoever of the family they are."""
    scene = Forest()
    agent = boss("plain", (worker(scene, "plain", then=lose_the_line), {"run_id": "kid"}))
    scene.run(agent)
    elsewhere = scene.memory.open("kid", wait_s=0.0)
    result = scene.resume(agent)
    elsewhere.close()

    assert ("child_held", 21, True) == (result.reason, result.exit_code, "kid" in row_of(scene)["message"])


def test_a_child_whose_journal_is_lost_is_not_born_again() -> None:
    """What it had done nobody knows any more."""
    scene = Forest()
    agent = boss("plain", (worker(scene, "plain", then=lose_the_line), {"run_id": "kid"}))
    scene.run(agent)
    del scene.memory._journals["kid"]
    result = scene.resume(agent)

    assert ("child_run_unavailable", 1) == (result.reason, len(scene.bank.paid))


def test_a_child_whose_configuration_changed_keeps_its_parent_waiting() -> None:
    """The child's own refusal is the reason, word for word."""
    scene = Forest()
    pay = worker(scene, "plain", then=lose_the_line)
    scene.run(boss("plain", (pay, {"run_id": "kid"})))
    pay.config["model"] = "other"
    result = scene.resume(boss("plain", (pay, {"run_id": "kid"})))

    assert ("child_run_unavailable", True) == (result.reason, "resume_config_mismatch" in row_of(scene)["message"])


# Ending together.


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("deed", "state", "reason"), [("pause", "paused", "pause_requested"), ("abort", "failed", "aborted")]
)
def test_a_command_to_the_parent_reaches_its_living_child(face: str, deed: str, state: str, reason: str) -> None:
    """Whoever pauses or aborts a run means all of it; the child ends first."""
    scene = Forest()

    def command() -> None:
        scene.memory.post(Command(1, f"{deed}-1", RUN, deed, "ann", "looked", {}))
        # The parent looks into its inbox when it is time.
        scene.clock.advance(1)

    below = endless(scene, face, command)
    result = scene.run(boss(face, (below, {"run_id": "kid"})))
    row = row_of(scene, "kid")

    assert (state, reason, state, reason) == (result.operation.state, result.reason, row["state"], row["reason"])


@pytest.mark.parametrize("face", FACES)
def test_what_a_child_came_to_is_joined_after_the_abort_of_its_parent(face: str) -> None:
    """C45: its end stands in the parent's journal behind `aborting`, its answer included; nothing of it is refused."""
    scene = Forest()

    def command() -> None:
        scene.memory.post(Command(1, "abort-1", RUN, "abort", "ann", "looked", {}))
        scene.clock.advance(1)

    scene.run(boss(face, (endless(scene, face, command), {"run_id": "kid"})))
    known = scene.state.delegations["child-1"]

    assert ("joined", "aborted", True, 0) == (
        known.status, known.outcome, scene.state.steps.get("child-1") is not None,
        scene.state.metrics.rejected_after_abort,
    )  # fmt: skip


def endless(scene: Forest, face: str, first: Any) -> clew.Agent:
    """An agent that works until it is stopped; at its first call something happens."""
    todo = [first]

    def look(call: clew.Call) -> int:
        if todo:
            todo.pop()()
        return len(todo)

    tool = clew.Tool(look, name="look", effect="none", replay="safe")

    def script(run: Any) -> Any:
        while True:
            yield run.call(tool)

    return agent_of(face, script, tool)


def test_aborting_a_waiting_parent_aborts_its_waiting_child() -> None:
    """Nobody lives either: both are ended under their locks, the child first."""
    scene = Forest()
    scene.run(boss("plain", (worker(scene, "plain", then=lose_the_line), {"run_id": "kid"})))
    done = scene.home().abort(RUN, **WHO)

    assert ("applied", {}, "failed", "failed") == (
        done["status"], done["alive"], row_of(scene)["state"], row_of(scene, "kid")["state"],
    )  # fmt: skip


def test_a_child_that_cannot_be_ended_is_named() -> None:
    """The parent's end says what still stands."""
    scene = Forest()
    scene.run(boss("plain", (worker(scene, "plain", then=lose_the_line), {"run_id": "kid"})))
    home = scene.home()
    scene.memory.open("kid", wait_s=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clew.runtime.posting.LOOKS", 1)
        done = home.abort(RUN, **WHO)

    assert (["kid"], "failed") == (list(done["alive"]), row_of(scene)["state"])


@pytest.mark.parametrize("face", FACES)
def test_a_child_that_is_not_done_in_time_is_aborted(face: str) -> None:
    """#247: a join timeout cancels; the agent hears that the child ended."""
    scene = Forest()
    below = endless(scene, face, lambda: scene.clock.advance(60))
    agent = boss(face, (below, {"run_id": "kid", "timeout_s": 5}))
    result = scene.run(agent)

    assert ("agent_error", "child_aborted", "aborted", True) == (
        result.reason, getattr(result.fault, "facts", {}).get("kind"), row_of(scene, "kid")["reason"],
        "child_cancel_requested" in facts_of(scene),
    )  # fmt: skip


@pytest.mark.parametrize("face", FACES)
def test_a_child_that_does_not_end_when_told_is_not_waited_for(face: str) -> None:
    """#247: 5,000 ms later `child_run_not_quiescent`; the parent pauses, for nobody knows what the child still does."""
    scene = Forest()
    done = threading.Event()

    def hang() -> None:
        scene.clock.advance(60)
        done.wait(60)

    def look(call: clew.Call) -> None:
        hang()

    tool = clew.Tool(look, name="look", effect="none", replay="safe")

    def script(run: Any) -> Any:
        yield run.call(tool)

    below = agent_of("plain", script, tool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(children, "QUIET_S", 0.0)
        result = scene.run(boss(face, (below, {"run_id": "kid", "timeout_s": 5})))
    done.set()

    assert (5.0, "child_run_not_quiescent", 21) == (children.QUIET_S, result.reason, result.exit_code)


def test_a_child_that_its_agent_no_longer_waits_for_pauses_the_run() -> None:
    """A timeout of the agent's own must not carry it past work that goes on."""
    scene = Forest()

    async def agent(run: clew.Run, prompt: str) -> str:
        begun = asyncio.Event()

        async def wait(child: clew.Run, prompt: str) -> None:
            begun.set()
            await asyncio.Event().wait()

        waiting = asyncio.ensure_future(run.child(wait, "x", run_id="kid"))
        await begun.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return "went on"

    result = scene.run(agent)

    assert ("child_paused", "paused") == (result.reason, row_of(scene, "kid")["state"])


def test_a_child_inside_of_a_step_has_its_path() -> None:
    """Steps name their children, so that a replay finds the same ones."""
    scene = Forest()

    def leaf(run: clew.SyncRun, prompt: Any) -> str:
        return "done"

    def agent(run: clew.SyncRun, prompt: Any) -> Any:
        return run.step("plan", lambda: run.child(leaf, 1))

    start(scene.home(), agent)

    assert ["plan-1.child-1"] == list(scene.state.delegations)


@pytest.mark.parametrize("above", FACES)
@pytest.mark.parametrize("below", FACES)
@pytest.mark.parametrize(("presses", "state", "reason"), [(1, "paused", "interrupted"), (2, "failed", "aborted")])
def test_ctrl_c_closes_both_gates(above: str, below: str, presses: int, state: str, reason: str) -> None:
    """Once pauses the tree at its next safe points, twice ends it; neither tears a record."""
    scene = Forest()

    heard = threading.Event()

    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        # Two that come at once are one.
        if heard.wait(60) and presses == 2:
            os.kill(os.getpid(), signal.SIGINT)
            heard.clear()

    agent = boss(above, (endless(scene, below, press), {"run_id": "kid"}))
    result = scene.home().run_sync(agent, "go", run_id=RUN, signals=True, notice=lambda words: heard.set())
    row = row_of(scene, "kid")

    assert (state, reason, state, reason) == (result.operation.state, result.reason, row["state"], row["reason"])
