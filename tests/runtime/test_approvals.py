"""Who must be asked before a start, and who is: policies, permissions, approvers, for agents of every kind."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.approvals import standing_of
from clew.runtime.clock import SystemClock
from clew.testing.crash import CrashPoint
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, paying, tool_of

WHO: dict[str, Any] = {"by": "ann", "reason": "looked"}
YES = clew.Approve("ann", "looked")
ways = pytest.mark.parametrize("way", WAYS)


def calling(pay: clew.Tool, *orders: str, propose: bool = True) -> Callable[[Any], Any]:
    """Calls the tool once an order."""

    def script(run: Any) -> Any:
        for order in orders:
            yield (run.propose if propose else run.call)(pay, order)

    return script


def buyer(scene: Scene, way: str, *orders: str, propose: bool = True, **declared: Any) -> clew.Agent:
    """An agent that pays these orders, as a model proposes."""
    pay = paying(scene, way)
    return agent_of(way, calling(pay, *orders, propose=propose), pay, **declared)


def grouped(scene: Scene, way: str, *orders: str) -> clew.Agent:
    """Pays side by side."""
    pay = paying(scene, way)

    async def beside(run: clew.Run, prompt: Any) -> Any:
        async with run.group() as group:
            for order in orders:
                group.propose(pay, order)
        return group.results

    def plain(run: clew.SyncRun, prompt: Any) -> Any:
        with run.group() as group:
            for order in orders:
                group.propose(pay, order)
        return group.results

    return clew.Agent(plain if way == "plain" else beside, name="agent", tools=[pay])


# Who must be asked.


@ways
@pytest.mark.parametrize(("propose", "reason"), [(True, "approval_required"), (False, None)], ids=["model", "code"])
def test_what_a_model_proposes_is_asked_for_and_what_the_code_calls_is_not(
    way: str, propose: bool, reason: Any
) -> None:
    """DESIGN §5, stage 2: a model that was talked into something must not get it by itself."""
    scene = Scene()

    result = scene.run(buyer(scene, way, "a", propose=propose))

    assert (reason, [] if propose else ["r1:pay-1:c1"]) == (result.reason, scene.bank.paid)


@ways
def test_what_has_no_effect_is_not_asked_for(way: str) -> None:
    """A person who is asked about everything reads nothing."""

    def look(order: str) -> str:
        return order

    free = tool_of(way, look, effect="none")
    scene = Scene()

    result = scene.run(agent_of(way, calling(free, "a"), free))

    assert ("completed", []) == (result.operation.state, scene.said("approval_required"))


@ways
def test_a_run_pauses_for_its_approval_and_nothing_starts(way: str) -> None:
    """#171: zero effects, no call recorded, the question waits under its own key."""
    scene = Scene()

    result = scene.run(buyer(scene, way, "a", "b"))

    assert (20, [("a1", "pay-1", "pending")], []) == (
        result.exit_code,
        [(row["approvalId"], row["stepId"], row["standing"]) for row in result.waiting],
        scene.bank.paid,
    )
    assert ["approval_required"] == scene.words


@ways
def test_a_policy_of_the_agent_holds_for_both(way: str) -> None:
    """Whoever declares one has thought about it; it is asked about a model's proposals too."""
    scene = Scene()

    result = scene.run(buyer(scene, way, "a", policy=clew.Policy("full")))

    assert ("completed", 1) == (result.operation.state, len(scene.bank.paid))


@ways
@pytest.mark.parametrize(
    ("said", "words"),
    [
        (None, "committed"),
        ("too much", "not_started"),
        (clew.Ask("large"), "approval_required"),
        (clew.Ask("large", expires_in_s=60), "approval_required"),
    ],
    ids=["allows", "denies", "asks", "asks for a minute"],
)
def test_a_function_may_be_the_policy(way: str, said: Any, words: str) -> None:
    """It sees the call; it may also say that a person is to be asked, and why."""
    scene = Scene()
    seen = list[bool]()

    def policy(call: clew.Call) -> Any:
        seen.append(call.proposed)
        return said

    pay = paying(scene, way)

    def script(run: Any) -> Any:
        try:
            yield run.propose(pay, "a")
        except clew.Denied:
            return "denied"

    scene.run(agent_of(way, script, pay, policy=policy))

    assert (True, {True}) == (words in scene.words, set(seen))
    assert ["large"] * isinstance(said, clew.Ask) == [event["reason"] for event in scene.said("approval_required")]


@ways
@pytest.mark.parametrize("broken", ["resolve", "raise"])
def test_a_policy_that_fails_denies(way: str, broken: str) -> None:
    """It did not allow it."""
    scene = Scene()

    class Broken(clew.Policy):
        def judge(self, *given: Any) -> Any:
            raise ZeroDivisionError

    def raising(call: clew.Call) -> Any:
        raise ZeroDivisionError

    agent = buyer(scene, way, "a", policy=Broken() if broken == "resolve" else raising, propose=False)
    result = scene.run(agent)

    assert ("agent_error", []) == (result.reason, scene.bank.paid)
    assert ["the policy failed: ZeroDivisionError"] == [event["reason"] for event in scene.said("policy_denied")]


def test_paths_are_judged_where_their_links_lead(tmp_path: Path) -> None:
    """A rule for a folder is not got around by a link in it, nor by `..`."""
    (tmp_path / "reports").mkdir()
    (tmp_path / "secrets").mkdir()
    (tmp_path / "reports" / "link").symlink_to(tmp_path / "secrets")
    policy = clew.Policy(
        "ask", [clew.Rule("allow", "edit", paths=("reports/**",)), clew.Rule("deny", paths=("secrets/**",))]
    )
    written = list[str]()

    def edit_file(path: str) -> None:
        written.append(path)

    edit = clew.Tool(edit_file, name="edit", effect="workspace")

    def agent(run: clew.SyncRun, prompt: Any) -> list[str]:
        said = []
        for path in ("reports/a", "reports/link/key", "reports/../secrets/key", "../out"):
            try:
                run.call(edit, path=path)
            except clew.Denied as denied:
                said.append(f"{path}: {denied.message}")
        return said

    home = clew.Home(tmp_path / ".clew")
    result = home.run_sync(clew.Agent(agent, tools=[edit], policy=policy), run_id=RUN, signals=False)

    denied = [f"{path}: a rule denies it" for path in ("reports/link/key", "reports/../secrets/key", "../out")]
    assert (["reports/a"], denied) == (written, result.output)


def test_a_question_shows_what_a_start_would_touch() -> None:
    """Paths resolved, addresses as they are, secrets hidden."""
    scene = Scene()
    edit = clew.Tool(lambda path, url, token: None, name="edit", effect="workspace")
    agent = clew.Agent(
        lambda run, prompt: run.propose(edit, path="a/../b", url="https://x.example", token="my-own-token"),
        name="agent",
        tools=[edit],
        secrets=["my-own-token"],
    )
    scene.run(agent)

    (asked,) = scene.said("approval_required")
    assert (["b"], ["https://x.example"], "low") == (asked["effect"]["paths"], asked["effect"]["urls"], asked["risk"])
    assert "my-own-token" not in str(scene.lines)


# A policy is part of what was declared.


def test_a_policy_by_rules_is_part_of_the_configuration() -> None:
    """A run that was started under one set of rules must not go on under another unnoticed."""

    def digest(policy: Any) -> str:
        return clew.Agent(lambda run, prompt: None, name="a", policy=policy).fingerprint().policy

    rules = [clew.Rule("ask", "pay")]
    found = [digest(each) for each in (None, clew.Policy("full"), clew.Policy("ask"), clew.Policy("ask", rules))]

    assert 4 == len(set(found))
    assert digest(clew.Policy("ask", rules)) == found[3]


# Siblings.


@ways
def test_all_siblings_ask_before_the_run_pauses(way: str) -> None:
    """Three questions in one pause, not one after each resume."""
    scene = Scene()

    result = scene.run(grouped(scene, way, "a", "b", "c"))

    assert (["a1", "a2", "a3"], []) == ([row["approvalId"] for row in result.waiting], scene.bank.paid)


@ways
def test_siblings_keep_their_own_approvals(way: str) -> None:
    """A yes for one is none for the other; the key tells them apart."""
    scene = Scene()
    agent = grouped(scene, way, "a", "b")
    waiting = scene.run(agent).waiting
    scene.home().approve(RUN, call=waiting[1]["stepId"], **WHO)
    stays = scene.resume(agent)
    scene.home().approve(RUN, call=waiting[0]["stepId"], **WHO)

    result = scene.resume(agent)

    assert ("approval_required", "completed") == (stays.reason, result.operation.state)
    assert {"a": 1, "b": 1} == dict(scene.bank.orders)


# Approvers.


@ways
def test_an_approver_is_asked_at_once(way: str) -> None:
    """The question is durable first; the yes and the start follow in the same leg."""
    scene = Scene()
    seen = list[tuple[Any, list[str]]]()

    def approver(request: clew.ApprovalRequest) -> Any:
        seen.append(((request.tool, dict(request.arguments), request.risk, request.over()), scene.words))
        return YES

    result = scene.run(buyer(scene, way, "a"), approver=approver)

    assert ("completed", 1) == (result.operation.state, len(scene.bank.paid))
    assert [(("pay", {"order": "a"}, "high", False), ["approval_required"])] == seen


def test_an_approver_may_be_async() -> None:
    """A web form is awaited on the loop."""
    scene = Scene()

    async def approver(request: clew.ApprovalRequest) -> Any:
        await asyncio.sleep(0)
        return YES

    result = scene.run(buyer(scene, "async", "a"), approver=approver)

    assert "completed" == result.operation.state


def fails(request: clew.ApprovalRequest) -> Any:
    raise LookupError("nobody there")


UNCLEAR: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda request: None,
    "true": lambda request: True,
    "a text": lambda request: "yes",
    "by nobody": lambda request: clew.Approve("", "looked"),
    "for nothing": lambda request: clew.Reject("ann", " "),
    "lapses at once": lambda request: clew.Approve("ann", "looked", 0),
    "raises": fails,
}


@ways
@pytest.mark.parametrize("name", UNCLEAR)
def test_an_answer_that_is_not_clear_leaves_the_question(way: str, name: str) -> None:
    """C99: nothing but a person's clear word changes it."""
    scene = Scene()

    result = scene.run(buyer(scene, way, "a"), approver=UNCLEAR[name])

    assert ("approval_required", ["a1"], []) == (
        result.reason, [row["approvalId"] for row in result.waiting], scene.bank.paid,
    )  # fmt: skip


@ways
def test_an_approver_who_says_no_pauses_the_run(way: str) -> None:
    """#166: a person's denial pauses; the reason is kept."""
    scene = Scene()

    result = scene.run(buyer(scene, way, "a"), approver=lambda request: clew.Reject("ann", "too much"))

    assert ("tool_approval_denied", 20, []) == (result.reason, result.exit_code, scene.bank.paid)
    assert "pay-1 was denied by ann: too much" == scene.home().reader.row(RUN)["message"]


@ways
def test_a_no_as_the_answer_is_told_to_the_agent(way: str) -> None:
    """It may go on without the call, and hears the same on every replay."""
    scene = Scene()
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        try:
            yield run.propose(pay, "a")
        except clew.Denied as denied:
            return denied.message

    result = scene.run(
        agent_of(way, script, pay), approver=lambda request: clew.Reject("ann", "too much", as_answer=True)
    )

    assert ("completed", "too much", []) == (result.operation.state, result.output, scene.bank.paid)


@ways
def test_an_approver_of_the_next_leg_is_asked_what_still_waits(way: str) -> None:
    """The same question, under the same id."""
    scene = Scene()
    agent = buyer(scene, way, "a")
    scene.run(agent)
    seen = list[str]()

    def approver(request: clew.ApprovalRequest) -> Any:
        seen.append(request.approval_id)
        return YES

    result = scene.resume(agent, approver=approver)

    assert ("completed", ["a1"], 1) == (result.operation.state, seen, len(scene.said("approval_required")))


@ways
def test_one_is_asked_at_a_time(way: str) -> None:
    """Two questions at one terminal would be answered by one word."""
    scene = Scene()
    inside, most = [0], [0]

    def approver(request: clew.ApprovalRequest) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.01)
        inside[0] -= 1
        return YES

    result = scene.run(grouped(scene, way, "a", "b", "c"), approver=approver)

    assert ("completed", 1) == (result.operation.state, most[0])


@ways
def test_a_word_by_the_inbox_ends_the_asking(way: str) -> None:
    """C104: somebody else said yes while the terminal waits; nobody needs to say it again."""
    scene = Scene()
    scene.clock = SystemClock()  # type: ignore[assignment]  # an inbox is looked into by the time

    def approver(request: clew.ApprovalRequest) -> Any:
        thread = threading.Thread(target=lambda: scene.home().approve(RUN, **WHO))
        thread.start()
        while not request.over():
            threading.Event().wait(0.01)
        return None

    result = scene.run(buyer(scene, way, "a"), approver=approver)

    assert ("completed", ["ann"]) == (
        result.operation.state, [event["by"] for event in scene.said("approval_resolved")],
    )  # fmt: skip


@ways
@pytest.mark.parametrize("as_answer", [False, True])
def test_a_no_by_the_inbox_ends_the_asking(way: str, as_answer: bool) -> None:
    """The same with a no: the call is on the books, and the run pauses or the agent is told."""
    scene = Scene()
    scene.clock = SystemClock()  # type: ignore[assignment]  # an inbox is looked into by the time
    pay = paying(scene, way)

    def approver(request: clew.ApprovalRequest) -> Any:
        threading.Thread(target=lambda: scene.home().deny(RUN, as_answer=as_answer, **WHO)).start()
        while not request.over():
            threading.Event().wait(0.01)
        return YES

    def script(run: Any) -> Any:
        try:
            yield run.propose(pay, "a")
        except clew.Denied:
            return "denied"

    result = scene.run(agent_of(way, script, pay), approver=approver)

    assert ("completed" if as_answer else "paused", []) == (result.operation.state, scene.bank.paid)
    assert (None if as_answer else "tool_approval_denied") == result.reason


def test_a_pause_that_is_asked_for_ends_the_asking() -> None:
    """Nobody at the terminal keeps a run from pausing."""
    scene = Scene()
    scene.clock = SystemClock()  # type: ignore[assignment]  # an inbox is looked into by the time

    def approver(request: clew.ApprovalRequest) -> Any:
        threading.Thread(target=lambda: scene.home().pause(RUN, **WHO)).start()
        while not request.over():
            threading.Event().wait(0.01)
        return None

    result = scene.run(buyer(scene, "plain", "a"), approver=approver)

    assert ("paused", ["a1"]) == (result.operation.state, [row["approvalId"] for row in result.waiting])


def test_a_cancelled_question_is_the_same_when_the_agent_asks_again() -> None:
    """A timeout of the agent's own closes nothing; a retry must not be a second question."""
    scene = Scene()
    pay = paying(scene, "async")
    let_go = threading.Event()

    def approver(request: clew.ApprovalRequest) -> Any:
        let_go.wait(60)
        return None

    async def agent(run: clew.Run, prompt: Any) -> Any:
        for _ in range(2):
            task = asyncio.ensure_future(run.propose(pay, "a"))
            while "approval_required" not in scene.words:
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.wait([task])
        return "done"

    scene.run(clew.Agent(agent, tools=[pay]), approver=approver)
    let_go.set()

    assert 1 == len(scene.said("approval_required"))


# What is used up, and what lapses.


@ways
def test_a_permission_is_used_by_one_start(way: str) -> None:
    """The next call with the same arguments is another start."""
    scene = Scene()
    agent = buyer(scene, way, "a", "a")
    scene.run(agent)
    scene.home().approve(RUN, **WHO)

    result = scene.resume(agent)

    assert ("approval_required", 1, ["a2"]) == (
        result.reason, len(scene.bank.paid), [row["approvalId"] for row in result.waiting],
    )  # fmt: skip


@ways
def test_an_attempt_after_one_that_did_not_happen_is_asked_for_anew(way: str) -> None:
    """The permission was for one start, and it has been used up."""
    scene = Scene()
    failed = [ConnectionError("the line is dead")]

    def body() -> None:
        if failed:
            raise failed.pop()

    pay = paying(scene, way, body)
    agent = agent_of(way, calling(pay, "a"), pay)
    scene.run(agent)
    scene.home().approve(RUN, **WHO)
    scene.resume(agent)
    scene.settle(clew.DidNotHappen())
    asked = scene.resume(agent)
    scene.home().approve(RUN, **WHO)

    result = scene.resume(agent)

    assert ("approval_required", "a2") == (asked.reason, asked.waiting[0]["approvalId"])
    assert ("completed", ["used", "used"]) == (
        result.operation.state, [row["standing"] for row in result.snapshot["approvals"]],
    )  # fmt: skip


@ways
def test_a_rerun_by_idempotence_keeps_its_permission(way: str) -> None:
    """The same attempt chain, the same key: the other side knows it, and nobody is asked twice about it."""
    scene = Scene()
    pay = paying(scene, way, replay="idempotent", window_s=3600)
    agent = agent_of(way, calling(pay, "a"), pay)
    scene.run(agent)
    scene.home().approve(RUN, **WHO)
    # The leg's first append, the start, and the answer that never reaches the disk.
    with pytest.raises((BaseException,)):
        scene.resume(agent, point=CrashPoint(3, 0))
    scene.die()

    result = scene.resume(agent)

    assert ("completed", 1) == (result.operation.state, len(scene.said("approval_required")))


@ways
@pytest.mark.parametrize("what", ["question", "permission"])
def test_what_lapsed_is_asked_for_anew(way: str, what: str) -> None:
    """C99: by the clock, named in the record; the new question has an id of its own, the key is the same."""
    scene = Scene()
    agent = buyer(scene, way, "a", policy=clew.Policy("ask", expires_in_s=60))
    scene.run(agent)
    if what == "permission":
        scene.home().approve(RUN, expires_in_s=30, **WHO)
    scene.clock.advance(3600)

    result = scene.resume(agent)

    asked = scene.said("approval_required")
    by = [event["by"] for event in scene.said("approval_resolved")] + [
        event["replaces"]["by"] for event in asked[1:] if "replaces" in event
    ]
    assert ("approval_required", ["a1", "a2"], 1) == (
        result.reason, [event["approvalId"] for event in asked], len({event["idempotencyKey"] for event in asked}),
    )  # fmt: skip
    assert "clock" == by[-1]


@ways
def test_a_tool_that_says_something_else_of_its_effect_is_asked_for_anew(way: str) -> None:
    """What was allowed was a change of files; what would start is a payment."""
    scene = Scene()
    harmless, dear = paying(scene, way, effect="workspace"), paying(scene, way)
    scene.run(agent_of(way, calling(harmless, "a"), harmless))
    scene.home().approve(RUN, **WHO)
    agent = agent_of(way, calling(dear, "a"), dear)
    asked = scene.resume(agent)
    scene.home().approve(RUN, **WHO)

    result = scene.resume(agent)

    assert ("approval_required", ["a2"]) == (asked.reason, [row["approvalId"] for row in asked.waiting])
    assert ("completed", ["replaced", "used"]) == (
        result.operation.state, [row["standing"] for row in result.snapshot["approvals"]],
    )  # fmt: skip


@ways
def test_a_question_that_the_agent_does_not_ask_any_more_is_closed(way: str) -> None:
    """C99: the run completes without it, and the record says why it was closed."""
    scene = Scene()
    scene.run(buyer(scene, way, "a", policy=clew.Policy("ask", expires_in_s=60)))
    scene.clock.advance(3600)

    result = scene.resume(buyer(scene, way, policy=clew.Policy("ask", expires_in_s=60)))

    assert ("completed", [("invalidation", "agent", "the agent ended without it")]) == (
        result.operation.state,
        [(event["source"], event["by"], event["reason"]) for event in scene.said("approval_resolved")],
    )


@ways
def test_a_question_in_whose_place_another_is_asked_is_closed(way: str) -> None:
    """C105: changed arguments are asked for again, and what they replace waits for nobody."""
    scene = Scene()
    scene.run(buyer(scene, way, "a"))

    result = scene.resume(buyer(scene, way, "b"), approver=lambda request: None)

    assert ["a2"] == [row["approvalId"] for row in result.waiting]
    assert ["the agent asks for something else in its place"] == [
        event["reason"] for event in scene.said("approval_resolved")
    ]


@ways
def test_the_calls_of_a_limit_count_once_each(way: str) -> None:
    """An approved call is proposed twice, and is one call."""
    scene = Scene()

    result = scene.run(buyer(scene, way, "a", "b"), approver=lambda request: YES, budget=clew.RunBudget(max_calls=2))

    assert "completed" == result.operation.state


def test_nothing_is_kept_of_a_call_but_its_question() -> None:
    """A plain call has no approval, and pays nothing for those of others."""
    scene = Scene()
    scene.run(buyer(scene, "plain", "a", propose=False))

    assert (None, 0) == (standing_of(scene.state, "pay-1"), len(scene.state.approvals))
