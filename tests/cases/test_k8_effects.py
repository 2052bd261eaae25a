"""Kind K8 of the reports: an effect is repeated or skipped on resume. Row by row, id in front."""

import asyncio
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.resume import Facts, Offered, prepare_run_resume
from clew.stores.memory import MemoryRunStore, MemoryRunWriter
from clew.testing import crash_points
from clew.testing.crash import CrashPoint
from tests.cases.ward import Typed
from tests.cli.shell import Shell
from tests.histories import Scribe, approval, decided, facts, returned, started
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, awaited_bodies, lose_the_line, paying, start, tool_of
from tests.runtime.test_drivers import crash

ways = pytest.mark.parametrize("way", WAYS)

AGENTS = """
import os
import signal
from pathlib import Path

import clew


@clew.tool(effect="external")
def count(call: clew.Call) -> int:
    path = Path("counter")
    path.write_text(str(int(path.read_text()) + 1 if path.exists() else 1))
    return int(path.read_text())


@clew.agent(tools=[count])
def counting(run, prompt):
    return run.call(count)


@clew.agent(tools=[count])
def looping(run, prompt):
    counted = [run.call(count)]
    for _ in range(3):
        run.step("think", lambda: 1)
        if Path("pause").exists():
            Path("pause").unlink()
            raise clew.Stop("I need a break")
    return counted


def die_when_committed(record):
    event = record.payload.get("event")
    if isinstance(event, dict) and event.get("status") == "committed":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    clew.Home().run_sync(counting, "go", run_id="r1", on_record=die_when_committed)
"""


@pytest.fixture
def town(shell: Shell) -> Shell:
    """A folder with the agents above in it too."""
    (shell.folder / "agents.py").write_text(AGENTS, "utf-8")
    return shell


def counted(shell: Shell) -> str:
    return (shell.folder / "counter").read_text("utf-8")


def decisions(scene: Scene, agent: clew.Agent) -> dict[str, str]:
    """What the plan says of each call."""
    plan = scene.home().plan(RUN, agent)
    return {} if plan is None else {step.step_id: step.decision for step in plan.steps if step.call_id}


# C75: a pause in a loop, and what came before it happens again.


def test_an_effect_before_a_pause_is_not_done_again(town: Shell, typed: Typed) -> None:
    """C75: receipt and answer stand, so the counter stays at 1 although the agent begins anew."""
    (town.folder / "pause").touch()
    paused = typed("run", "agents.py:looping", "go", "--run-id", "r1")
    resumed = typed("resume", "r1")

    assert (23, 0, "[1]\n") == (paused.code, resumed.code, resumed.out)
    assert "1" == counted(town)


# C76: the order of two writes decides whether a task is done twice or never.


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("probed", [False, True], ids=["a person", "a probe"])
def test_after_a_death_at_any_write_it_is_done_once_or_a_person_is_asked(is_async: bool, probed: bool) -> None:
    """C76: every append of one call cut before, inside, between its lines and after: never twice, never forgotten."""
    paid: list[str] = []

    def body(call: clew.Call, order: str) -> str:
        paid.append(call.key)
        return "T-1"

    def find(call: clew.Call) -> clew.Verdict:
        return clew.Happened("T-1") if call.key in paid else clew.DidNotHappen()

    asked: dict[str, Any] = {"probe": find, "in_doubt_s": 30} if probed else {}
    pay = clew.tool(name="pay", effect="external", **asked)(body)

    def plain(run: clew.SyncRun, prompt: str) -> Any:
        return run.call(pay, order="a")

    async def awaiting(run: clew.Run, prompt: str) -> Any:
        return await run.call(pay, order="a")

    agent = clew.agent(tools=[pay], name="payer")(awaiting if is_async else plain)
    report = crash_points(agent, "go", fresh=paid.clear, effects=lambda: paid).check()

    ends = {"completed"} if probed else {"completed", "needs a person"}
    assert (3, ends) == (report.appends, {point.outcome for point in report})
    assert all(len(point.ran) == 1 for point in report if point.outcome == "completed")


@ways
@pytest.mark.parametrize(("lines", "decision"), [(0, "review"), (1, "skip"), (2, "skip")])
def test_the_answer_stands_before_the_receipt(way: str, lines: int, decision: str) -> None:
    """C76: what a cut between the two leaves is "told" or "in doubt", never "do it again"."""
    scene, whole = Scene(), CrashPoint()
    start(scene.home(whole), payer(scene, way))
    kept = b"".join(whole.appends[1].data.splitlines(keepends=True)[:lines])
    scene = Scene()
    agent = payer(scene, way)
    crash(scene, agent, CrashPoint(2, len(kept)))

    assert ({"pay-1": decision}, 1) == (decisions(scene, agent), len(scene.bank.paid))


def payer(scene: Scene, way: str, **declared: Any) -> clew.Agent:
    """Pays once."""
    pay = paying(scene, way, **declared)

    def script(run: Any) -> Any:
        return (yield run.call(pay, "a"))

    return agent_of(way, script, pay)


# C77: two of three tools ran, and a resume runs all three.


@ways
def test_receipts_are_those_of_calls_not_of_steps(way: str) -> None:
    """C77: the third call failed inside of the same step: the first two are answered, the third alone is in doubt."""
    scene = Scene()
    mail, book = (paying_as(scene, way, name) for name in ("mail", "book"))
    charge = paying_as(scene, way, "charge", lose_the_line)

    def script(run: Any) -> Any:
        for tool in (mail, book, charge):
            yield run.call(tool, tool.name)

    agent = agent_of(way, script, mail, book, charge)
    paused = scene.run(agent)
    planned = decisions(scene, agent)
    again = scene.resume(agent)
    scene.settle(clew.Happened("T-3"))
    ended = scene.resume(agent)

    assert {"mail-1": "skip", "book-1": "skip", "charge-1": "review"} == planned
    assert ["paused", "paused", "completed"] == [result.operation.state for result in (paused, again, ended)]
    assert {"mail": 1, "book": 1, "charge": 1} == scene.bank.orders


def paying_as(scene: Scene, way: str, name: str, then: Callable[[], Any] = lambda: None) -> clew.Tool:
    """A tool that pays under another name."""

    def body(call: clew.Call, order: str) -> str:
        scene.bank.pay(call, order)
        then()
        return f"T-{name}"

    body.__name__ = name
    return tool_of(way, body, effect="external")


# C78: a retry pays again, for the tool gets no key.


@ways
def test_every_attempt_has_the_same_key_and_so_has_every_record_of_it(way: str) -> None:
    """C78: the other side can only tell a retry from a new order by the key; call, receipt and review carry it too."""
    scene = Scene()
    keys: list[tuple[str, str, int]] = []

    def pay(call: clew.Call, order: str) -> str:
        keys.append((call.key, call.uuid, call.attempt))
        if call.attempt == 1:
            raise ConnectionError("no answer")
        return "T-1"

    tool = tool_of(way, pay, effect="external", probe=lambda call: clew.DidNotHappen(), in_doubt_s=0)

    def script(run: Any) -> Any:
        return (yield run.call(tool, "a"))

    scene.run(agent_of(way, script, tool))
    recorded = {event["idempotencyKey"] for event in scene.events if "idempotencyKey" in event}
    attempts = {event["attemptId"] for event in scene.said("tool_attempt")}

    [key] = recorded
    assert [(key, clew.Call(key).uuid, 1), (key, clew.Call(key).uuid, 2)] == keys
    assert {"tool_call", "effect_receipt", "effect_review", "tool_result"} == {
        event["type"] for event in scene.events if "idempotencyKey" in event
    }
    assert {f"{key}#2"} == attempts


# C79: one rejected request to the model, and an old command runs again.


@ways
@pytest.mark.parametrize("retries", [False, True], ids=["the run resumes", "the agent retries"])
def test_a_retry_of_a_model_request_enters_no_finished_tool(way: str, retries: bool) -> None:
    """C79: the request failed, not the work before it."""
    scene, fates = Scene(), ["400 Bad Request", ""]
    pay = paying(scene, way)

    def ask(request: Any) -> Any:
        fate = fates.pop(0)
        if fate:
            raise ValueError(fate)
        return clew.Turn("done", clew.Usage(tokens=1))

    def script(run: Any) -> Any:
        yield run.call(pay, "a")
        try:
            return (yield run.turn(ask, "go on"))
        except ValueError:
            if not retries:
                raise
        return (yield run.turn(ask, "go on"))

    agent = agent_of(way, script, pay)
    first = scene.run(agent)
    result = first if retries else scene.resume(agent)

    assert ("completed" if retries else "paused", "completed", "done") == (
        first.operation.state, result.operation.state, result.output,
    )  # fmt: skip
    assert {"a": 1} == scene.bank.orders


# C81: who has lost its run keeps working.


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open cannot be moved there")
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("taken", ["moved", "replaced by a copy"])
def test_who_loses_the_journal_starts_nothing_more(tmp_path: Path, taken: str, is_async: bool) -> None:
    """C81: the journal is taken away between two calls; the second never starts, and the loser says why."""
    journal, ran = tmp_path / ".clew" / "runs" / "r1.jsonl", list[str]()

    def work(name: str) -> str:
        ran.append(name)
        if name == "first":
            journal.rename(tmp_path / "elsewhere")
        if taken != "moved":
            shutil.copy(tmp_path / "elsewhere", journal)
        return name

    tool = clew.tool(name="work", effect="external")(work)

    def plain(run: clew.SyncRun, prompt: str) -> Any:
        return [run.call(tool, name) for name in ("first", "second")]

    async def awaiting(run: clew.Run, prompt: str) -> Any:
        return [await run.call(tool, name) for name in ("first", "second")]

    agent = clew.agent(tools=[tool])(awaiting if is_async else plain)
    with pytest.raises(clew.Storage) as lost:
        clew.Home(tmp_path / ".clew").run_sync(agent, "go", run_id="r1")

    assert (["first"], "journal_replaced") == (ran, lost.value.code)


# C82: an id is used again, and the older run's answers come back.


def test_an_id_that_exists_is_refused_for_a_new_run(shell: Shell, typed: Typed) -> None:
    """C82: whatever the prompt, an old run's answers are never handed out for a new one."""
    typed("run", "agent.py:settle", "1042", "--run-id", "a")
    lay = shell.bytes_and_times()

    other, same = (typed("run", "agent.py:settle", asked, "--run-id", "a", "--json") for asked in ("1043", "1042"))

    assert [(4, "run_id_conflict")] * 2 == [(done.code, done.error["code"]) for done in (other, same)]
    assert (lay, ["1042"]) == (shell.bytes_and_times(), shell.payments)


@ways
def test_another_input_under_a_known_id_is_a_conflict(way: str) -> None:
    """C82: `ensure` gives back the finished run for the same input, and refuses another one."""
    scene = Scene()
    agent = payer(scene, way)
    first = start(scene.home(), agent, "pay a")

    again = scene.home().ensure_sync(agent, "pay a", run_id=RUN, signals=False)
    with pytest.raises(clew.Refused) as refused:
        scene.home().ensure_sync(agent, "pay b", run_id=RUN, signals=False)

    assert (first.output, "resume_input_mismatch", {"a": 1}) == (again.output, refused.value.code, scene.bank.orders)


# C84: one call, executed by several siblings at once.


class Impatient(MemoryRunStore):
    """Who finds the lock taken says so at once."""

    def open(self, run_id: str, *, wait_s: float = 0.0, ignore_head: bool = False) -> MemoryRunWriter:
        return super().open(run_id, wait_s=0.0, ignore_head=ignore_head)


@ways
def test_the_same_call_submitted_twice_at_once_runs_once(way: str) -> None:
    """C84: while it is under way the second is told so; afterwards it gets the same result."""
    scene, told = Scene(), list[str]()
    scene.memory = Impatient()

    def sibling() -> None:
        try:
            scene.home().ensure_sync(agent, "go", run_id=RUN, signals=False)
        except clew.ClewError as fault:
            told.append(fault.code)

    def meanwhile() -> None:
        thread = threading.Thread(target=sibling)
        thread.start()
        thread.join()

    pay = paying(scene, way, meanwhile)

    def script(run: Any) -> Any:
        return (yield run.call(pay, "a"))

    agent = agent_of(way, script, pay)
    result = scene.run(agent)
    same = scene.home().ensure_sync(agent, "go", run_id=RUN, signals=False)

    assert (["run_state_locked"], {"a": 1}) == (told, scene.bank.orders)
    assert ("completed", result.output) == (result.operation.state, same.output)


# C85: an approved call runs a second time, for the approval is not used up.


def test_an_approval_is_used_up_by_its_start() -> None:
    """C85: approved, started, died: what may follow is for a proof or a person, not for the old approval."""
    call, scribe = facts(), Scribe().born()
    scribe.say(approval(call))
    scribe.say(decided())
    scribe.say(*started(call))

    offered = {"pay": Offered(call.capability)}
    plan = prepare_run_resume(scribe.state, None, Facts(at_ms=scribe.at_ms, tools=offered))

    assert [("pay-1", "review", "unknown_effect")] == [
        (step.step_id, step.decision, step.reason) for step in plan.steps
    ]


def test_an_answered_call_needs_no_approval_again() -> None:
    """C85: the other half: once it is answered, nobody is asked and nothing runs."""
    call, scribe = facts(), Scribe().born()
    scribe.say(approval(call))
    scribe.say(decided())
    scribe.say(*started(call))
    scribe.say(*returned(call))

    plan = prepare_run_resume(scribe.state, None, Facts(at_ms=scribe.at_ms))

    assert [("pay-1", "skip")] == [(step.step_id, step.decision) for step in plan.steps]


# C86: a control-flow exception for pausing makes a call run again.


@ways
@pytest.mark.parametrize(
    "raised", [clew.Stop("pause me"), SystemExit(0), GeneratorExit()], ids=lambda fault: type(fault).__name__
)
def test_a_tool_that_pauses_after_its_effect_is_in_doubt(way: str, raised: BaseException) -> None:
    """C86: whatever it raises to pause, its start is on disk, its end unknown, and a resume does not run it again."""
    scene = Scene()

    def interrupt() -> None:
        raise raised

    pay = paying(scene, way, interrupt)

    def script(run: Any) -> Any:
        return (yield run.call(pay, "a"))

    agent = agent_of(way, script, pay)
    paused = scene.run(agent)
    again = scene.resume(agent)

    assert [("paused", "unknown_effect")] * 2 == [(end.operation.state, end.reason) for end in (paused, again)]
    assert (["started", "unknown"], {"a": 1}) == (
        [event["status"] for event in scene.said("effect_receipt")], scene.bank.orders,
    )  # fmt: skip


# C87: finished tasks of a dead worker are retried.


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_a_kill_directly_after_the_commit_repeats_nothing(town: Shell, typed: Typed) -> None:
    """C87: the record is on disk, and nobody lived to hear so: the answer is replayed."""
    killed = subprocess.run([sys.executable, "agents.py"], cwd=town.folder, env=town.env, check=False, timeout=60)

    resumed = typed("resume", "r1")

    assert (-signal.SIGKILL, 0, "1\n") == (killed.returncode, resumed.code, resumed.out)
    assert "1" == counted(town)


# C89: three refunds after timeouts that were successes.


@pytest.mark.parametrize("way", ["thread", "plain"])
def test_a_timeout_after_the_start_is_unknown(way: str) -> None:
    """C89: never "failed, retry": an agent that tries again gets no second refund, and a person is asked."""
    scene, late, refunds = Scene(), threading.Event(), list[str]()

    def pay(order: str) -> None:
        late.wait(60)
        refunds.append(order)

    tool = tool_of(way, pay, effect="external", timeout_s=0)

    def script(run: Any) -> Any:
        for _ in range(3):
            try:
                return (yield run.call(tool, "a"))
            except Exception:
                continue

    agent = agent_of(way, script, tool)
    with awaited_bodies():
        result = scene.run(agent)
        late.set()

    assert ("paused", "unknown_effect", 21) == (result.operation.state, result.reason, result.exit_code)
    assert ([("pay", "unknown")], ["a"]) == ([(row["tool"], row["status"]) for row in result.waiting], refunds)
    assert {"pay-1": "review"} == decisions(scene, agent)


def test_a_timeout_of_a_coroutine_is_unknown_too() -> None:
    """C89: its cancellation proves nothing: the request may have been sent before."""
    scene = Scene()

    async def pay(call: clew.Call, order: str) -> str:
        scene.bank.pay(call, order)
        await asyncio.Event().wait()
        return "never"

    tool = clew.tool(effect="external", timeout_s=0.05)(pay)

    async def refund(run: clew.Run, prompt: str) -> Any:
        return await run.call(tool, "a")

    agent = clew.agent(tools=[tool], name="agent")(refund)
    result = scene.run(agent)

    assert ("paused", "unknown_effect") == (result.operation.state, result.reason)
    assert ({"pay-1": "review"}, {"a": 1}) == (decisions(scene, agent), scene.bank.orders)
