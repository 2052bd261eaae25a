"""What passes the gate and what closes it: agents that do not give in, budgets, policies, answers, full disks."""

import asyncio
import threading
from typing import Any

import pytest

import clew
from clew.errors import Storage
from clew.stores.memory import MemoryBlobStore
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, awaited_bodies, lose_the_line, paying, tool_of

ways = pytest.mark.parametrize("way", WAYS)


def paused_once(scene: Scene, result: clew.RunResult) -> tuple[int, str, int, list[str]]:
    """What promise 2 asks of every agent: payments, state, exit code, what waits."""
    return len(scene.bank.paid), result.operation.state, result.exit_code, [row["status"] for row in result.waiting]


ONCE = (1, "paused", 21, ["unknown"])

# Agents that do not give in.


@ways
def test_an_agent_that_catches_exceptions_and_retries_pays_once(way: str) -> None:
    """The commonest loop there is; it must not be able to repeat what it does not know."""
    scene = Scene()
    pay = paying(scene, way, lose_the_line)

    def script(run: Any) -> Any:
        for _ in range(5):
            try:
                return (yield run.call(pay))
            except Exception:
                continue
        return "gave in"

    result = scene.run(agent_of(way, script, pay))

    assert ONCE == paused_once(scene, result)


def test_gather_that_returns_exceptions_pays_once_and_the_run_does_not_complete() -> None:
    """`gather(return_exceptions=True)` hides Stop among the results."""
    scene = Scene()
    pay = paying(scene, "async", lose_the_line)

    @clew.agent(tools=[pay])
    async def agent(run: clew.Run, prompt: str) -> str:
        await asyncio.gather(run.call(pay), return_exceptions=True)
        await asyncio.gather(run.call(pay), run.call(pay), return_exceptions=True)
        return "all done"

    result = scene.run(agent)

    assert ONCE == paused_once(scene, result)


@ways
def test_a_tool_that_pays_and_is_too_slow_pays_once(way: str) -> None:
    """The commonest way to pay twice: a timeout, then a retry."""
    scene, over = Scene(), threading.Event()
    if way == "async":

        @clew.tool(effect="external", timeout_s=0)
        async def pay(call: clew.Call) -> str:
            scene.bank.pay(call)
            await asyncio.Event().wait()
            return "never"

    else:

        @clew.tool(effect="external", timeout_s=0)
        def pay(call: clew.Call) -> None:
            over.wait(60)
            scene.bank.paid.append(call.key)

    def script(run: Any) -> Any:
        for _ in range(3):
            try:
                return (yield run.call(pay))
            except Exception:
                continue

    with awaited_bodies():
        result = scene.run(agent_of(way, script, pay))
        over.set()

    assert ONCE == paused_once(scene, result)


def test_a_sibling_that_fails_in_a_task_group_cancels_a_payment_whose_end_is_then_unknown() -> None:
    """Cancelled is not undone: the money may have moved, so a person must look."""
    scene, moved = Scene(), asyncio.Event()

    @clew.tool(effect="external")
    async def pay(call: clew.Call) -> str:
        scene.bank.pay(call)
        moved.set()
        await asyncio.Event().wait()
        return "never"

    async def fail() -> None:
        await moved.wait()
        raise ValueError("a bug beside it")

    @clew.agent(tools=[pay])
    async def agent(run: clew.Run, prompt: str) -> str:
        for _ in range(2):
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(run.call(pay))
                    tasks.create_task(fail())
            except* Exception:
                pass
        return "all done"

    result = scene.run(agent)

    assert ONCE == paused_once(scene, result)


def test_a_sibling_that_fails_in_a_gather_leaves_the_payment_to_its_end() -> None:
    """gather raises at once and lets the others run: what they learn is still recorded before the run ends."""
    scene, failed = Scene(), asyncio.Event()

    @clew.tool(effect="external")
    async def pay(call: clew.Call) -> str:
        await failed.wait()
        return scene.bank.pay(call)

    async def fail() -> None:
        failed.set()
        raise ValueError("a bug beside it")

    @clew.agent(tools=[pay])
    async def agent(run: clew.Run, prompt: str) -> str:
        await asyncio.gather(run.call(pay), fail())
        return "never"

    result = scene.run(agent)

    assert (1, "paused", 22, []) == paused_once(scene, result)
    assert "committed" in scene.words


@ways
def test_a_sibling_that_fails_in_a_group_neither_ends_nor_hides_the_others(way: str) -> None:
    """Each call is judged alone: one is known, one is open, and the open one pauses the run."""
    scene = Scene()

    def pay(call: clew.Call, order: str) -> str:
        scene.bank.pay(call, order)
        if order != "good":
            lose_the_line()
        return "paid"

    tool = tool_of(way, pay, effect="external")

    @clew.agent(tools=[tool])
    async def agent(run: clew.Run, prompt: str) -> str:
        async with run.group() as group:
            group.call(tool, "good")
            group.call(tool, "bad")
        return "all done"

    def plain(run: clew.SyncRun, prompt: str) -> str:
        with run.group() as group:
            group.call(tool, "good")
            group.call(tool, "bad")
        return "all done"

    result = scene.run(agent if way != "plain" else clew.agent(tools=[tool])(plain))

    assert (2, "paused", 21, ["unknown"]) == paused_once(scene, result)
    assert ["group-1.pay-2"] == [row["stepId"] for row in result.waiting]


# What is told instead.


@ways
def test_a_tool_that_knows_that_nothing_happened_is_an_error_answer(way: str) -> None:
    """A declined card is an answer: the agent may try another one."""
    scene = Scene()

    def pay(call: clew.Call, card: str) -> str:
        if card == "bad":
            raise clew.NothingHappened("declined")
        return scene.bank.pay(call)

    tool = tool_of(way, pay, effect="external")

    def script(run: Any) -> Any:
        try:
            yield run.call(tool, "bad")
        except clew.ToolError as fault:
            return [fault.facts["kind"], fault.message, (yield run.call(tool, "good"))[:8]]

    result = scene.run(agent_of(way, script, tool))

    assert ("completed", ["nothing_happened", "declined", "transfer"]) == (result.operation.state, result.output)
    assert ["unknown", "effect_review", "step_output", "tool_result"] == scene.words[3:7]


@ways
def test_an_exception_that_the_tool_named_proves_that_nothing_happened(way: str) -> None:
    """`nothing_happened_on` saves the author a try in each tool."""
    scene = Scene()

    def pay(call: clew.Call) -> str:
        raise ConnectionRefusedError("nobody listens")

    tool = tool_of(way, pay, effect="external", nothing_happened_on=[ConnectionRefusedError])

    def script(run: Any) -> Any:
        try:
            yield run.call(tool)
        except clew.ToolError as fault:
            return fault.facts["kind"]

    result = scene.run(agent_of(way, script, tool))

    assert ("completed", "nothing_happened") == (result.operation.state, result.output)


@ways
def test_a_tool_that_says_it_failed_is_known_and_may_be_called_again(way: str) -> None:
    """What a tool returned is known, also when it returned bad news."""
    scene = Scene()

    def look(n: int) -> Any:
        return clew.Failed("404", {"n": n})

    tool = tool_of(way, look, effect="external")

    def script(run: Any) -> Any:
        told = []
        for n in (1, 1, 2):
            try:
                yield run.call(tool, n)
            except clew.ToolError as fault:
                told.append([fault.message, fault.facts["value"]])
        return told

    result = scene.run(agent_of(way, script, tool))

    assert [["404", {"n": 1}], ["404", {"n": 1}], ["404", {"n": 2}]] == result.output
    assert 3 == scene.words.count("committed")


@ways
def test_a_free_tool_that_raises_is_an_error_answer_and_is_replayed(way: str) -> None:
    """It has no effect, so there is nothing to be in doubt about; a resume must not see another world."""
    scene, asked = Scene(), []

    def read(name: str) -> str:
        asked.append(name)
        raise FileNotFoundError(name)

    look = tool_of(way, read, effect="none")
    pay = paying(scene, way, lose_the_line)

    def script(run: Any) -> Any:
        told: Any = None
        try:
            yield run.call(look, "orders.csv")
        except clew.ToolError as fault:
            told = [fault.facts["kind"], fault.message]
        return [told, (yield run.call(pay))]

    agent = agent_of(way, script, look, pay)
    scene.run(agent)
    scene.settle(clew.Happened("t1"))
    result = scene.resume(agent)

    assert [["FileNotFoundError", "orders.csv"], "t1"] == result.output
    assert ["orders.csv"] == asked
    assert "started" not in [event.get("status") for event in scene.events if event.get("tool") == "read"]


@ways
def test_an_answer_of_another_type_than_announced_is_told_as_it_is(way: str) -> None:
    """An error there would make the agent pay again for a wrong annotation."""
    scene = Scene()

    def pay(call: clew.Call) -> int:
        return scene.bank.pay(call)  # type: ignore[return-value]  # the author's mistake under test

    tool = tool_of(way, pay, effect="external")

    def script(run: Any) -> Any:
        return (yield run.call(tool))[:8]

    result = scene.run(agent_of(way, script, tool))

    assert ("completed", "transfer", 1) == (result.operation.state, result.output, len(scene.bank.paid))


# The policy and the limits.


@ways
def test_what_the_policy_denies_does_not_start_and_is_denied_again_on_replay(way: str) -> None:
    """A denial is an answer: recorded, replayed, and asked for once."""
    scene, asked = Scene(), []
    pay = paying(scene, way)
    look = paying(scene, way, lose_the_line)
    other = clew.Tool(look.body, name="other", effect="external")

    def policy(call: clew.Call) -> str | None:
        asked.append(call.tool)
        return f"no {call.arguments['order']} today" if call.tool == "pay" else None

    def script(run: Any) -> Any:
        told = ""
        try:
            yield run.call(pay, order="x")
        except clew.Denied as fault:
            told = fault.message
        return [told, (yield run.call(other))]

    agent = agent_of(way, script, pay, other, policy=policy)
    scene.run(agent)
    scene.settle(clew.Happened("t1"))
    result = scene.resume(agent)

    assert (["no x today", "t1"], ["pay", "other"]) == (result.output, asked)
    expected = ["tool_call", "capability_resolved", "policy_denied", "not_started", "step_output", "tool_result"]
    assert expected == scene.words[:6]


@ways
def test_a_policy_that_fails_denies(way: str) -> None:
    """Who guards must not let pass by breaking."""
    scene = Scene()
    pay = paying(scene, way)

    def policy(call: clew.Call) -> str | None:
        raise LookupError("no rule")

    def script(run: Any) -> Any:
        try:
            yield run.call(pay)
        except clew.Denied as fault:
            return fault.message

    result = scene.run(agent_of(way, script, pay, policy=policy))

    assert ("the policy failed: LookupError", []) == (result.output, scene.bank.paid)


def test_a_policy_that_says_something_odd_denies() -> None:
    """Only None allows; its words are hidden and recorded like all others."""
    scene = Scene()
    pay = paying(scene, "plain")

    def script(run: Any) -> Any:
        try:
            yield run.call(pay)
        except clew.Denied as fault:
            return fault.message

    def odd(call: clew.Call) -> Any:
        return ["hunter22"]

    result = scene.run(agent_of("plain", script, pay, policy=odd, secrets=["hunter22"]))

    assert "['[redacted:configured]']" == result.output
    assert b"hunter22" not in scene.memory.raw(RUN)


@ways
def test_the_limit_of_calls_pauses_and_a_resume_brings_a_new_one(way: str) -> None:
    """A limit is a decision to come back to, not a loss of what was done."""
    scene = Scene()
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        for order in "abc":
            yield run.call(pay, order)
        return "all done"

    agent = agent_of(way, script, pay)
    first = scene.run(agent, budget=clew.RunBudget(max_calls=2))
    again = scene.resume(agent)
    last = scene.resume(agent, budget=clew.RunBudget(max_calls=3))

    reasons = [(r.operation.state, r.reason, r.exit_code) for r in (first, again, last)]
    assert [("paused", "budget_exceeded", 5)] * 2 + [("completed", None, 0)] == reasons
    assert {"a": 1, "b": 1, "c": 1} == scene.bank.orders


def test_threads_cannot_pass_the_limit_together() -> None:
    """Two threads that ask at the same time must not both get the last call."""
    scene = Scene()
    pay = paying(scene, "plain")

    @clew.agent(tools=[pay])
    def agent(run: clew.SyncRun, prompt: str) -> str:
        with run.group() as group:
            for order in range(8):
                group.call(pay, str(order))
        return "all done"

    result = scene.run(agent, budget=clew.RunBudget(max_calls=3))

    assert (3, "budget_exceeded") == (len(scene.bank.paid), result.reason)


@ways
def test_the_limit_of_time_pauses_and_what_was_spent_stays_spent(way: str) -> None:
    """A resume must not begin at zero, or a limit would be one for each attempt."""
    scene = Scene()
    pay = paying(scene, way, lambda: scene.clock.advance(6))

    def script(run: Any) -> Any:
        for order in "abc":
            yield run.call(pay, order)
        return "all done"

    agent = agent_of(way, script, pay)
    first = scene.run(agent, budget=clew.RunBudget(run_timeout_s=10))
    again = scene.resume(agent, budget=clew.RunBudget(run_timeout_s=12))
    last = scene.resume(agent, budget=clew.RunBudget(run_timeout_s=13))

    assert ["run_timeout", "run_timeout", None] == [r.reason for r in (first, again, last)]
    assert {"a": 1, "b": 1, "c": 1} == scene.bank.orders


def test_a_used_up_time_refuses_turns_and_steps_too() -> None:
    """A turn costs more than a call."""
    scene = Scene()

    def script(run: Any) -> Any:
        yield run.step("wait", lambda: scene.clock.advance(11))
        yield run.turn(lambda request: "never", "hello")

    result = scene.run(agent_of("plain", script), budget=clew.RunBudget(run_timeout_s=10))

    assert ("run_timeout", 0) == (result.reason, scene.words.count("agent_start"))


# What is not let in.


# Answers: what is kept, hidden, too long, lost.


@ways
def test_secrets_are_hidden_before_the_agent_sees_them_live_and_replayed(way: str) -> None:
    """Other bytes on replay would send a replayed agent another way."""
    scene, seen = Scene(), []

    def login(user: str, password: str) -> dict[str, str]:
        return {"user": user, "note": f"used {password}", "token": "hunter22"}

    tool = tool_of(way, login, effect="external")
    pay = paying(scene, way, lose_the_line)

    def script(run: Any) -> Any:
        seen.append((yield run.call(tool, "ann", "hunter22")))
        return (yield run.call(pay))

    agent = agent_of(way, script, tool, pay, secrets=["hunter22"])
    scene.run(agent)
    scene.settle(clew.Happened("t1"))
    scene.resume(agent)

    hidden = "[redacted:configured]"
    assert [{"user": "ann", "note": f"used {hidden}", "token": hidden}] * 2 == seen
    assert b"hunter22" not in scene.memory.raw(RUN)
    assert {"user": "ann", "password": "[redacted:password]"} == scene.said("tool_call")[0]["args"]


@ways
def test_a_secret_answer_is_handed_on_and_never_stored(way: str) -> None:
    """Not as a record, not as a blob, not in the run's account."""
    scene, seen = Scene(), []

    def mint(call: clew.Call) -> str:
        scene.bank.pay(call)
        return "s3cr3t" * 5000

    tool = tool_of(way, mint, effect="external", secret=True)

    def script(run: Any) -> Any:
        seen.append((yield run.call(tool)))
        return "all done"

    result = scene.run(agent_of(way, script, tool))

    assert (["s3cr3t" * 5000], "completed") == (seen, result.operation.state)
    assert b"s3cr3t" not in scene.memory.raw(RUN) + b"".join(scene.blobs.kept.values())
    assert "withheld" == scene.said("effect_receipt")[-1]["persistence"]


@ways
def test_a_secret_answer_that_died_waits_for_a_person(way: str) -> None:
    """It happened and is gone: neither replayed nor run again."""
    scene = Scene()

    def mint(call: clew.Call) -> str:
        return scene.bank.pay(call)

    tool = tool_of(way, mint, effect="external", secret=True)

    def script(run: Any) -> Any:
        yield run.call(tool)
        raise LookupError("a bug")

    agent = agent_of(way, script, tool)
    scene.run(agent)
    result = scene.resume(agent)

    assert (1, "paused", "secret_answer_lost") == (len(scene.bank.paid), result.operation.state, result.reason)


@ways
def test_a_long_answer_lies_beside_the_journal_and_is_replayed(way: str) -> None:
    """16 KiB is the border; the record keeps the beginning and the digest."""
    scene, seen = Scene(), []

    def look(n: int) -> str:
        return "é" * n

    tool = tool_of(way, look, effect="none")
    pay = paying(scene, way, lose_the_line)

    def script(run: Any) -> Any:
        seen.append((yield run.call(tool, 20_000)))
        return (yield run.call(pay))

    agent = agent_of(way, script, tool, pay)
    scene.run(agent)
    scene.settle(clew.Happened("t1"))
    scene.resume(agent)

    assert ["é" * 20_000] * 2 == seen
    assert 1 == len(scene.blobs.kept)


class Forgetful(MemoryBlobStore):
    """Says that it has what it cannot give: what was there at the plan is gone at the replay."""

    def has(self, sha256: str) -> bool:
        return True


@pytest.mark.parametrize("blobs", [MemoryBlobStore, Forgetful])
def test_a_lost_blob_pauses_the_run_and_is_no_error_of_the_tool(blobs: type[MemoryBlobStore]) -> None:
    """The agent must not go on as if the call had failed."""
    scene = Scene(blobs=blobs())

    def big() -> str:
        return "x" * 20_000

    tool = tool_of("plain", big, effect="external")
    pay = paying(scene, "plain", lose_the_line)

    def script(run: Any) -> Any:
        try:
            yield run.call(tool)
        except Exception:
            return "went on"
        return (yield run.call(pay))

    agent = agent_of("plain", script, tool, pay)
    scene.run(agent)
    scene.settle(clew.Happened("t1"))
    scene.blobs.kept.clear()
    result = scene.resume(agent)

    assert ("paused", "result_missing") == (result.operation.state, result.reason)


class FullDisk(MemoryBlobStore):
    """Keeps nothing, in one way or another."""

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.fault: Exception | None = fault

    def put(self, data: bytes) -> str:
        if self.fault is not None:
            raise self.fault
        return super().put(data)


FULL = Storage("no room", code="disk_full", next="Make room.")


@ways
@pytest.mark.parametrize("fault", [FULL, OSError(28, "No space left on device")], ids=["ours", "raw"])
def test_a_full_disk_after_a_payment_never_loses_the_fact(way: str, fault: Exception) -> None:
    """The payment is committed with persistence failed; the run pauses; a person gives the answer; one payment."""
    scene = Scene(blobs=FullDisk(fault))

    def pay(call: clew.Call) -> str:
        scene.bank.pay(call)
        return "x" * 20_000

    tool = tool_of(way, pay, effect="external")

    def script(run: Any) -> Any:
        for _ in range(3):
            try:
                return (yield run.call(tool))
            except Exception:
                continue

    agent = agent_of(way, script, tool)
    first = scene.run(agent)
    scene.settle(clew.Happened("t1"))
    last = scene.resume(agent)

    assert ("paused", 21, "committed") == (first.operation.state, first.exit_code, first.waiting[0]["status"])
    assert "failed" == scene.said("effect_receipt")[-1]["persistence"]
    assert ("completed", "t1", 1) == (last.operation.state, last.output, len(scene.bank.paid))


@ways
def test_a_step_whose_answer_cannot_be_kept_pauses_the_run(way: str) -> None:
    """It may simply be done again when there is room."""
    scene, seen = Scene(blobs=FullDisk(FULL)), list[int]()

    def script(run: Any) -> Any:
        seen.append(len((yield run.step("plan", lambda: "x" * 20_000))))
        return seen[-1]

    agent = agent_of(way, script)
    first = scene.run(agent)
    assert [] == seen
    scene.blobs.fault = None
    last = scene.resume(agent)

    assert ("paused", "result_not_kept") == (first.operation.state, first.reason)
    assert 20_000 == last.output


@ways
def test_a_result_that_is_no_json_is_kept_as_what_it_looks_like(way: str) -> None:
    """The effect has happened; its answer must be kept whatever it is."""
    scene = Scene()

    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    def pay(call: clew.Call) -> Any:
        scene.bank.pay(call)
        return [1, Odd()]

    tool = tool_of(way, pay, effect="external")

    def script(run: Any) -> Any:
        return (yield run.call(tool))

    result = scene.run(agent_of(way, script, tool))

    assert ("completed", [1, {"$clew": "repr", "text": "<odd>"}]) == (result.operation.state, result.output)


# The order on disk.


@ways
def test_the_start_is_on_disk_before_the_body_runs(way: str) -> None:
    """Promise 5, contract #134; the bank looks into the bytes at each payment."""
    scene = Scene()
    pay = paying(scene, way)

    def script(run: Any) -> Any:
        for order in "abc":
            yield run.call(pay, order)

    scene.run(agent_of(way, script, pay))

    assert [True] * 3 == scene.bank.promised


def test_the_bank_would_see_a_body_that_ran_too_early() -> None:
    """The look into the bytes can fail."""
    scene = Scene()
    pay = paying(scene, "plain")

    def script(run: Any) -> Any:
        yield run.call(pay)
        scene.bank.pay(clew.Call(f"{RUN}:pay-1:c1"))

    with pytest.raises(AssertionError, match="before its start"):
        scene.run(agent_of("plain", script, pay))


@ways
def test_one_key_is_everywhere(way: str) -> None:
    """Promise 3: call, receipts, review and the tool itself carry the same one, on every attempt."""
    scene = Scene()
    pay = paying(scene, way, lose_the_line)

    def script(run: Any) -> Any:
        return (yield run.call(pay))

    agent = agent_of(way, script, pay)
    scene.run(agent)
    scene.settle(clew.DidNotHappen())
    scene.resume(agent)
    scene.settle(clew.Happened("t1"))
    scene.resume(agent)

    key = f"{RUN}:pay-1:c1"
    assert [key, key] == scene.bank.paid
    assert {key} == {event["idempotencyKey"] for event in scene.events if "idempotencyKey" in event}
    assert [f"{key}#2"] * 2 == [event["attemptId"] for event in scene.said("tool_attempt")]


# What only the gate itself shows.
