"""K10: approvals that were lost, ignored or used twice, as people reported them of other programs."""

import json
from typing import Any

import pytest

import clew
from tests.cases.ward import case
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, paying
from tests.runtime.stage import code_of

WHO: dict[str, Any] = {"by": "ann", "reason": "checked the invoice"}
ways = pytest.mark.parametrize("way", WAYS)


def asker(scene: Scene, way: str, *orders: str, **declared: Any) -> clew.Agent:
    """An agent whose model wants these orders paid."""
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        for order in orders:
            yield run.propose(pay, order)

    return agent_of(way, script, pay, **declared)


def standing(scene: Scene) -> list[tuple[str, str]]:
    """Every approval of the run: its id and how it stands."""
    return [(row["approvalId"], row["standing"]) for row in scene.home().result(RUN).snapshot["approvals"]]


# C97: pending approvals live in memory; after a restart they are shown but cannot be answered.


@ways
def test_a_pending_approval_is_rebuilt_from_the_journal_and_can_be_answered(way: str) -> None:
    """C97: paused, killed, restarted, approved: the run goes on."""
    scene = Scene()
    scene.run(asker(scene, way, "a"))
    scene.die()
    shown = scene.home().result(RUN).waiting

    scene.home().approve(RUN, **WHO)
    result = scene.resume(asker(scene, way, "a"))

    assert (["a1"], "completed", {"a": 1}) == (
        [row["approvalId"] for row in shown], result.operation.state, dict(scene.bank.orders),
    )  # fmt: skip


# C99: the agent turns a pending approval into a denial by itself.


@ways
def test_a_model_that_goes_on_without_an_answer_decides_nothing(way: str) -> None:
    """C99: an agent that swallows the pause and returns is paused; the question waits as it was."""
    scene = Scene()
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        try:
            yield run.propose(pay, "a")
        except clew.Stop:
            return "I take that for a no"

    result = scene.run(agent_of(way, script, pay))

    assert ("paused", "approval_required", [("a1", "pending")]) == (
        result.operation.state, result.reason, standing(scene),
    )  # fmt: skip
    assert [] == scene.said("approval_resolved")


@ways
@pytest.mark.parametrize("how", ["person", "expiry", "invalidation"])
def test_whatever_changes_a_pending_approval_has_an_actor(way: str, how: str) -> None:
    """C99: a person, the clock, or the agent that asks no more; each by name, with a reason."""
    scene = Scene()
    policy = clew.Policy("ask", expires_in_s=60)
    scene.run(asker(scene, way, "a", policy=policy))
    if how == "person":
        scene.home().deny(RUN, **WHO)
    else:
        scene.clock.advance(3600)
        scene.resume(asker(scene, way, *(["a"] if how == "expiry" else []), policy=policy))

    (said,) = scene.said("approval_resolved")
    by = {"person": "ann", "expiry": "clock", "invalidation": "agent"}
    assert ("deny", by[how], True) == (said["decision"], said["by"], bool(said["reason"]))


# C100: an approval in a saved state is ignored if the caller passes a context.


@ways
@pytest.mark.parametrize(
    "extra", [{}, {"input": "go"}, {"budget": clew.RunBudget(max_calls=9)}, {"approver": lambda request: None}],
    ids=["nothing", "the input", "limits", "an approver"],
)  # fmt: skip
def test_an_approval_counts_whatever_else_a_resume_is_given(way: str, extra: dict[str, Any]) -> None:
    """C100: it comes from the journal, and nothing that is passed hides it."""
    scene = Scene()
    agent = asker(scene, way, "a")
    scene.run(agent)
    scene.home().approve(RUN, **WHO)

    result = scene.resume(agent, **extra)

    assert ("completed", 1) == (result.operation.state, len(scene.said("approval_required")))


# C101: an unknown agent name in the saved approval was accepted.


@ways
def test_an_approval_for_a_tool_that_is_gone_starts_nothing(way: str) -> None:
    """C101: the run stays paused and says which tool is missing; offered again, it goes on."""
    scene = Scene()
    agent = asker(scene, way, "a")
    scene.run(agent)
    scene.home().approve(RUN, **WHO)
    other = clew.Tool(lambda: None, name="look", effect="none")

    def without(run: Any) -> Any:
        yield run.call("pay", "a")

    stuck = scene.resume(agent_of(way, without, other))
    result = scene.resume(agent)

    assert ("approval_tool_missing", 20, "completed") == (stuck.reason, stuck.exit_code, result.operation.state)


def test_a_saved_approval_of_another_program_is_not_a_run_of_ours(tmp_path: Any) -> None:
    """C101: the real file of the report: nobody can be made to approve what is in it."""
    home = clew.Home(tmp_path / ".clew")
    home.run_sync(lambda_agent(), run_id="r1", signals=False)
    saved = case("openai-agents-runstate-1.13-pending-approval.json")
    path = tmp_path / ".clew" / "runs" / "theirs.jsonl"
    path.write_bytes(saved)

    code = code_of(home.approve, "theirs", call="historical-approval-1", **WHO)

    assert ("run_state_corrupt", saved) == (code, path.read_bytes())
    assert json.loads(saved)["current_step"]["data"]["interruptions"]


def lambda_agent() -> clew.Agent:
    """An agent that has nothing to do."""
    return clew.Agent(lambda run, prompt: "done", name="agent")


# C102: the reviewer's reason for a rejection is lost on resume.


@ways
def test_the_reason_of_a_denial_is_kept_and_shown(way: str) -> None:
    """C102: in the record, in the account, and after further legs."""
    scene = Scene()
    agent = asker(scene, way, "a")
    scene.run(agent)
    scene.home().deny(RUN, by="ann", reason="the account is closed")
    scene.resume(agent)

    (first, _) = scene.home().result(RUN).snapshot["approvals"]

    assert ("denied", "ann", "the account is closed") == (first["standing"], first["by"], first["reason"])


@ways
def test_the_reason_of_a_denial_may_be_what_the_agent_is_told(way: str) -> None:
    """C102: word for word, live and replayed."""
    scene = Scene()
    pay = paying(scene, way)
    heard = list[str]()

    def script(run: Any) -> Any:
        try:
            yield run.propose(pay, "a")
        except clew.Denied as denied:
            heard.append(denied.message)
        raise LookupError("a bug, so that it is replayed")

    agent = agent_of(way, script, pay)
    scene.run(agent)
    scene.home().deny(RUN, by="ann", reason="the account is closed", as_answer=True)
    scene.resume(agent)
    scene.resume(agent)

    assert ["the account is closed"] * 2 == heard


# C103: a nested pending approval is asked again for ever after save and load; two loads disturb each other.


@ways
def test_two_looks_at_one_run_are_independent_and_one_yes_is_enough(way: str) -> None:
    """C103: a call inside steps and a group; loaded twice in one process, approved through one of them, once."""
    scene = Scene()
    pay = paying(scene, way)

    def plain(run: clew.SyncRun, prompt: Any) -> Any:
        return run.step("outer", lambda: run.step("inner", lambda: run.propose(pay, "a")))

    async def awaiting(run: clew.Run, prompt: Any) -> Any:
        async def inner() -> Any:
            async with run.group() as group:
                group.propose(pay, "a")
            return group.results

        return await run.step("outer", inner)

    agent = clew.Agent(plain if way == "plain" else awaiting, name="agent", tools=[pay])
    scene.run(agent)
    first, second = scene.home(), scene.home()
    states = [home.reader.see(RUN).state for home in (first, second)]
    first.approve(RUN, **WHO)

    result = scene.resume(agent)

    assert [["pending"], ["pending"]] == [
        ["pending" if not asked.decision else asked.decision for asked in state.approvals.values()] for state in states
    ]
    assert ("nothing_to_approve", "completed") == (code_of(second.approve, RUN, **WHO), result.operation.state)
    assert (1, 1) == (len(scene.said("approval_required")), len(scene.bank.paid))


# C104: an approval that arrives while the run is busy is swallowed.


@ways
def test_an_approval_between_two_steps_is_found_where_its_call_is_decided(way: str) -> None:
    """C104: said while the run is at work in an earlier call; the leg after finds it, and asks nobody."""
    scene = Scene()
    agent = asker(scene, way, "a", "b")
    scene.run(agent)
    scene.home().approve(RUN, **WHO)
    scene.resume(agent)
    waiting = standing(scene)
    scene.home().approve(RUN, **WHO)

    result = scene.resume(agent)

    assert [("a1", "used"), ("a2", "pending")] == waiting
    assert ("completed", {"a": 1, "b": 1}, 2) == (
        result.operation.state, dict(scene.bank.orders), len(scene.said("approval_required")),
    )  # fmt: skip


# C105: an approved call is gated again on resume.


@ways
@pytest.mark.parametrize("orders", [("a", "a"), ("a", "b")], ids=["same", "changed"])
def test_granted_and_unchanged_is_not_asked_again_and_changed_is(way: str, orders: tuple[str, str]) -> None:
    """C105: approved, died before the start, resumed with the same arguments, or with others."""
    scene = Scene()
    scene.run(asker(scene, way, orders[0]))
    scene.home().approve(RUN, **WHO)
    scene.die()

    result = scene.resume(asker(scene, way, orders[1]))

    same = orders[0] == orders[1]
    assert ("completed" if same else "paused", {"a": 1} if same else {}) == (
        result.operation.state, dict(scene.bank.orders),
    )  # fmt: skip
    assert (1 if same else 2) == len(scene.said("approval_required"))
