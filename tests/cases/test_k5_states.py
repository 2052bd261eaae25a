"""Kind K5 of the reports: wrong terminal states (false success, false failure, zombies). Row by row, id in front."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.operation import DurableOperation
from clew.core.times import format_ms
from clew.testing.clock import NOON_MS
from clew.testing.crash import CrashPoint
from clew.toolkit import shell as shell_tool
from tests.cases.ward import Typed
from tests.cli.shell import Shell
from tests.runtime.scene import RUN, Scene, agent_of, lose_the_line, paying, tool_of
from tests.runtime.stage import records_of
from tests.runtime.test_drivers import crash

YEAR_S = 365 * 24 * 3600

AGENTS = """
import resource
import subprocess
import sys
from pathlib import Path

import clew
from clew.toolkit import shell


def breaks_off(messages):
    raise ConnectionError("the stream broke off after 12 tokens")


def never_starts(messages):
    return subprocess.run(["/no/such/adapter"], check=True, capture_output=True).stdout


async def cut_off(run, prompt):
    return await run.turn(breaks_off, [prompt])


def unlaunched(run, prompt):
    return run.turn(never_starts, [prompt])


@clew.tool(effect="external")
def pay(order: str) -> str:
    with Path("payments").open("a") as book:
        book.write(f"{order}\\n")
    # From now on no file may grow: the journal's next append fails.
    size = max(path.stat().st_size for path in Path(".clew/runs").glob("*.jsonl"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return f"T-{order}"


@clew.agent(tools=[pay])
def full_disk(run, prompt):
    return run.call(pay, order=prompt)


@clew.tool(effect="external")
def commit(message: str) -> str:
    Path("work.txt").write_text(message)
    for words in (["add", "work.txt"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", message]):
        subprocess.run(["git", *words], check=True, capture_output=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


@clew.tool(effect="none", replay="safe")
def hold() -> str:
    print("holding", flush=True)
    return sys.stdin.readline().strip()


@clew.agent(tools=[shell])
async def stubborn(run, prompt):
    return await run.call(shell, command=prompt)


@clew.agent(tools=[commit, hold])
async def committer(run, prompt):
    done = await run.call(commit, message=prompt)
    await run.call(hold)
    return done
"""


@pytest.fixture
def town(shell: Shell) -> Shell:
    """A folder with the agents above in it too."""
    (shell.folder / "agents.py").write_text(AGENTS, "utf-8")
    return shell


def journal(shell: Shell, run_id: str) -> list[dict[str, Any]]:
    """A journal's records, read with nothing of ours."""
    path = shell.folder / ".clew" / "runs" / f"{run_id}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def kinds(shell: Shell, run_id: str) -> list[str]:
    return [record["kind"] for record in journal(shell, run_id)]


# C38: a run that broke off ends as if all were well; the round in flight is lost.


@pytest.mark.parametrize(
    ("agent", "code", "state"),
    [("cut_off", 22, "paused"), ("full_disk", 13, "interrupted")],
    ids=["the model's stream breaks off", "the journal cannot be written"],
)
def test_what_broke_off_ends_with_an_exit_code_of_its_own(
    town: Shell, typed: Typed, agent: str, code: int, state: str
) -> None:
    """C38: a script that looks at the exit code alone must never take a broken run for a finished one."""
    done = town("run", f"agents.py:{agent}", "7", "--run-id", "r1")
    listed = typed("ls", "--json")

    assert (code, "") == (done.code, done.out)
    assert [state] == [row["shown"] for row in listed.json]
    assert "finish" not in kinds(town, "r1")


def test_an_aborted_run_ends_with_an_exit_code_of_its_own(shell: Shell, typed: Typed) -> None:
    """C38: the third way to break off; terminal, and not completed."""
    live = shell.holding()
    typed("abort", "held")
    done = live.end()

    assert (3, "failed") == (done.code, typed("show", "held", "--json").json["operation"]["state"])


def test_a_models_answer_is_on_disk_before_its_tools_run() -> None:
    """C38: a death in the tool must not take the round with it that asked for it."""
    scene, known = Scene(), list[list[str]]()

    def look() -> str:
        known.append(list(scene.words))
        return "seen"

    def script(run: Any) -> Any:
        wanted = yield run.turn(lambda request: clew.Turn({"call": "look"}), "what now?")
        return [wanted, (yield run.call(tool))]

    tool = tool_of("plain", look, effect="none")
    scene.run(agent_of("plain", script, tool))

    assert [["agent_start", "step_output", "turn_end", "tool_call", "capability_resolved"]] == known
    assert '{"call":"look"}' == scene.said("step_output")[0]["text"]


# C39: a run whose process never started is recorded as success.


def test_an_adapter_that_cannot_be_launched_is_no_success(town: Shell, typed: Typed) -> None:
    """C39: nobody answered, so nothing was done; the run waits for its agent to be mended."""
    done = town("run", "agents.py:unlaunched", "7", "--run-id", "r1", "--json")
    account = typed("show", "r1", "--json").json

    assert (22, "paused", "agent_error") == (done.code, done.json["state"], done.json["reason"])
    assert "/no/such/adapter" in done.json["message"]
    assert (1, None) == (account["metrics"]["unmeasuredTurns"], account["metrics"]["tokens"])


def test_an_agent_that_cannot_be_loaded_leaves_no_run(town: Shell, typed: Typed) -> None:
    """C39: what never started is not listed at all, least of all as completed."""
    (town.folder / "broken.py").write_text("import no_such_library_anywhere\n", "utf-8")

    done = typed("run", "broken.py:agent", "7", "--run-id", "r1")

    assert (2, 10) == (done.code, typed("show", "r1").code)


# C40: contradicting signals become success.


@pytest.mark.parametrize("way", ["async", "plain"])
def test_a_result_that_contradicts_itself_is_an_error(way: str) -> None:
    """C40: subtype success and is_error at once: the agent is told of an error, and its run does not complete."""
    scene = Scene()

    def ask_adapter(prompt: str) -> Any:
        said = {"subtype": "success", "is_error": True, "result": "API Error: 429"}
        return clew.Failed(str(said["result"]), said) if said["is_error"] else said

    def script(run: Any) -> Any:
        return (yield run.call(adapter, "go"))

    adapter = tool_of(way, ask_adapter, effect="external")
    result = scene.run(agent_of(way, script, adapter))

    assert ("paused", "agent_error", 22) == (result.operation.state, result.reason, result.exit_code)
    assert [True] == [event["isError"] for event in scene.said("tool_result")]


# C42: a command that failed is a success.


@pytest.mark.skipif(sys.platform == "win32", reason="the tool is for the POSIX shell")
@pytest.mark.parametrize(("command", "is_error", "failures"), [("exit 3", True, 1), ("exit 0", False, 0)])
def test_an_exit_code_decides_whether_a_command_failed(
    tmp_path: Path, command: str, is_error: bool, failures: int
) -> None:
    """C42: exit code 3 is an error answer and counted as one, whatever the tool's process did."""

    @clew.agent(tools=[shell_tool])
    async def typing(run: clew.Run, prompt: str) -> str:
        try:
            await run.call(shell_tool, command=prompt)
        except clew.ToolError as fault:
            return fault.message
        return "done"

    home = clew.Home.memory(workspace=tmp_path)
    result = home.run_sync(typing, command, run_id=RUN)
    told = [record.payload["event"] for record in records_of(home, RUN) if record.kind == "event"]

    assert ("completed", failures) == (result.operation.state, result.snapshot["metrics"]["toolFailures"])
    assert [is_error] == [event["isError"] for event in told if event["type"] == "tool_result"]


# C43: one failed tool fails the whole run.


@pytest.mark.parametrize("way", ["async", "plain"])
def test_a_failed_tool_alone_does_not_fail_the_run(way: str) -> None:
    """C43: the agent recovered; both facts stand: completed, and one failure."""
    scene, fates = Scene(), ["declined", ""]

    def charge(order: str) -> Any:
        fate = fates.pop(0)
        return clew.Failed(fate) if fate else "T-1"

    def script(run: Any) -> Any:
        try:
            yield run.call(tool, "a")
        except clew.ToolError:
            return (yield run.call(tool, "a"))

    tool = tool_of(way, charge, effect="external")
    result = scene.run(agent_of(way, script, tool))

    assert ("completed", "T-1") == (result.operation.state, result.output)
    assert (2, 1) == tuple(result.snapshot["metrics"][name] for name in ("toolCalls", "toolFailures"))


# C44: the report of an abort says that nothing was written.


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
def test_an_abort_lists_the_commit_that_was_made(town: Shell, typed: Typed) -> None:
    """C44: what started before the abort is listed with what is known of it."""
    subprocess.run(["git", "init", "-q", "."], cwd=town.folder, check=True)
    live = town.start("run", "agents.py:committer", "work", "--run-id", "r1")
    live.until("holding")
    typed("abort", "r1", "--reason", "wrong branch")
    done = live.end()
    account = typed("show", "r1", "--json").json

    made = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=town.folder, capture_output=True, check=True)
    assert (3, "aborted", b"1") == (done.code, account["outcome"]["status"], made.stdout.strip())
    assert [("commit", "committed")] == [(effect["tool"], effect["status"]) for effect in account["effects"]]


@pytest.mark.parametrize("way", ["async", "plain"])
def test_an_abort_lists_what_nobody_knows_as_unknown(way: str) -> None:
    """C44: "nothing happened" may be said only where nothing started."""
    scene = Scene()
    pay = paying(scene, way, lose_the_line)

    def script(run: Any) -> Any:
        return (yield run.call(pay, "a"))

    scene.run(agent_of(way, script, pay))
    scene.home().abort(RUN, by="ann", reason="wrong file")

    account = scene.home().result(RUN).snapshot
    assert ("failed", "aborted") == (account["operation"]["state"], account["outcome"]["finishReason"])
    assert [("pay", "unknown")] == [(effect["tool"], effect["status"]) for effect in account["effects"]]


def test_an_abort_before_any_effect_lists_none(shell: Shell, typed: Typed) -> None:
    """C44: an empty list is a statement, and here it is true."""
    live = shell.holding()
    typed("abort", "held")
    live.end()

    account = typed("show", "held", "--json").json

    assert ([], []) == (account["effects"], shell.payments)


# C45: out of time, reported aborted while the tool goes on.


def test_a_tool_that_outlives_its_time_is_unknown_until_it_is_known() -> None:
    """C45: a time limit ends our waiting, not the work: never "aborted" or "failed", and nothing starts after it."""
    scene = Scene()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def work() -> int:
        return child.wait()

    def script(run: Any) -> Any:
        yield run.call(tool)
        return (yield run.call(pay, "a"))

    tool, pay = tool_of("plain", work, effect="external", timeout_s=0.05), paying(scene, "plain")
    result = scene.run(agent_of("plain", script, tool, pay))
    lived = child.poll() is None
    child.communicate(b"\n")

    assert (True, "paused", "unknown_effect", 21) == (lived, result.operation.state, result.reason, result.exit_code)
    assert ([("work", "unknown")], []) == ([(row["tool"], row["status"]) for row in result.waiting], scene.bank.paid)


STUBBORN = "trap '' TERM; echo $$ > up; while :; do sleep 1; done"


@pytest.mark.skipif(sys.platform == "win32", reason="the tool is for the POSIX shell")
def test_an_abort_waits_for_the_end_of_a_command_that_will_not_end(town: Shell, typed: Typed) -> None:
    """C45: the command ignores SIGTERM; when the run says that it is aborted the command is gone, and in doubt."""
    os.mkfifo(town.folder / "up")
    live = town.start("run", "agents.py:stubborn", STUBBORN, "--run-id", "r1")
    pid = int((town.folder / "up").read_text("utf-8"))
    typed("abort", "r1")
    done = live.end()
    account = typed("show", "r1", "--json").json

    assert (3, False) == (done.code, alive(pid))
    assert ["REQUEST_ABORT", "FAIL"] == moves(town, "r1")[-2:]
    assert [("shell", "unknown")] == [(effect["tool"], effect["status"]) for effect in account["effects"]]


def test_a_command_that_ran_out_of_time_is_gone_when_that_is_said(tmp_path: Path) -> None:
    """C45: its effect is unknown, and nothing of it goes on behind the back of whoever is asked about it."""
    up = tmp_path / "up"
    up.touch()

    @clew.agent(tools=[shell_tool])
    def typing(run: clew.SyncRun, prompt: float) -> Any:
        return run.call(shell_tool, command=STUBBORN.replace("up", str(up)), timeout_s=prompt)

    home, limit_s = clew.Home.memory(workspace=tmp_path), 0.5
    result = home.run_sync(typing, limit_s)
    # A command that had not even begun when its time was up does not count; a machine may be that slow.
    while limit_s < 100 and not up.read_text("utf-8"):
        limit_s *= 16
        result = home.run_sync(typing, limit_s)

    assert ("paused", "unknown_effect") == (result.operation.state, result.reason)
    assert not alive(int(up.read_text("utf-8")))


def alive(pid: int) -> bool:
    """Is there such a process, other than as a zombie?"""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def moves(shell: Shell, run_id: str) -> list[str]:
    """The moves of a run's operation."""
    return [record["payload"]["event"] for record in journal(shell, run_id) if record["kind"] == "operation"]


# C46: the text claims success, the tool never ran.


def test_text_is_no_evidence_of_an_effect() -> None:
    """C46: the agent says "paid"; the account has no call, no effect, and is ready for nothing."""
    scene = Scene()
    pay = paying(scene, "plain")

    def script(run: Any) -> Any:
        told = yield run.turn(lambda request: clew.Turn("paid order 1042"), "pay order 1042")
        return told

    account = scene.run(agent_of("plain", script, pay)).snapshot

    assert ("completed", "paid order 1042") == (account["operation"]["state"], claimed(account))
    assert ([], 0) == (account["effects"], account["metrics"]["toolCalls"])
    assert (False, ["no evaluation ran"]) == tuple(account["releaseReadiness"][name] for name in ("ready", "blockers"))


def claimed(account: dict[str, Any]) -> str:
    """What the agent said at its end."""
    [said] = [entry["event"]["output"] for entry in account["trace"] if entry["event"]["type"] == "agent_end"]
    return str(said)


# C47: runs stay "running" for ever after a crash.


def test_a_killed_run_is_listed_as_interrupted_and_listing_writes_nothing(shell: Shell, typed: Typed) -> None:
    """C47: no zombie is left, and nobody "repairs" one by looking at it."""
    shell.raise_flag("die")
    killed = shell("run", "agent.py:settle", "7", "--run-id", "r1")
    before = shell.bytes_and_times()

    listed, told = typed("ls"), typed("ls", "--json")

    assert -signal.SIGKILL == killed.code
    assert (True, ["interrupted"]) == (listed.out.startswith("INTERRUPTED  r1"), [row["shown"] for row in told.json])
    assert before == shell.bytes_and_times()


# C48: a run that outlives a restart is never closed, its tokens are lost.


@pytest.mark.parametrize("way", ["async", "plain"])
def test_a_run_that_is_taken_up_again_keeps_its_id_and_its_usage(way: str) -> None:
    """C48: one run, one count of tokens, one finish, however many processes worked on it."""
    scene = Scene()
    pay = paying(scene, way, probe=scene.bank.find, in_doubt_s=0)

    def script(run: Any) -> Any:
        yield run.turn(lambda request: clew.Turn("pay a", clew.Usage(tokens=30)), "what?")
        yield run.call(pay, "a")
        return (yield run.turn(lambda request: clew.Turn("done", clew.Usage(tokens=12)), "and now?"))

    agent = agent_of(way, script, pay)
    crash(scene, agent, CrashPoint(4, 0))
    result = scene.resume(agent)

    metrics = result.snapshot["metrics"]
    assert (RUN, "completed", "done") == (result.run_id, result.operation.state, result.output)
    assert (42, 2, 0) == (metrics["tokens"], metrics["turns"], metrics["unmeasuredTurns"])
    assert 1 == [line["kind"] for line in scene.lines].count("finish")


@pytest.mark.parametrize("way", ["async", "plain"])
def test_a_turn_that_died_is_paid_again_and_counted_as_unmeasured(way: str) -> None:
    """C48: nobody knows what the dead request cost; zero would be a lie."""
    scene = Scene()

    def script(run: Any) -> Any:
        yield run.turn(lambda request: clew.Turn("one", clew.Usage(tokens=30)), "first")
        return (yield run.turn(lambda request: clew.Turn("two", clew.Usage(tokens=12)), "second"))

    agent = agent_of(way, script)
    crash(scene, agent, CrashPoint(4, 0))
    metrics = scene.resume(agent).snapshot["metrics"]

    assert (42, 1) == (metrics["tokens"], metrics["unmeasuredTurns"])


# C49: RESUME comes twice, and the loop never ends.


def resumed() -> DurableOperation:
    """An operation that was paused and went on."""
    operation = DurableOperation.create(run_id=RUN, operation_id="op-1", event_id="e1", at=format_ms(NOON_MS))
    for number, event in enumerate(("START", "PAUSE", "RESUME"), 2):
        operation = operation.move(event, event_id=f"e{number}", at=format_ms(NOON_MS))  # type: ignore[arg-type]  # one of the seven
    return operation


def test_a_resume_that_comes_twice_is_one_transition() -> None:
    """C49: delivery may repeat; the same event id with the same content changes nothing."""
    operation = resumed()

    again = operation.move("RESUME", event_id="e4", at=format_ms(NOON_MS))

    assert operation is again


def test_a_second_resume_is_refused_and_changes_nothing() -> None:
    """C49: another event id is another wish, and a running run cannot resume: an error, no loop."""
    operation = resumed()

    with pytest.raises(clew.Refused) as refused:
        operation.move("RESUME", event_id="e5", at=format_ms(NOON_MS))

    assert ("invalid_operation_transition", "running") == (refused.value.code, operation.state)


def test_two_resumes_at_once_are_one(shell: Shell, typed: Typed) -> None:
    """C49: through the command: who comes second is told who is at work, and the run ends once."""
    typed("run", "agent.py:patient", "7", "--run-id", "r1", "--max-calls", "0")
    first = shell.start("resume", "r1", "--max-calls", "9")
    first.until("holding")

    second = typed("resume", "r1", "--json")
    ended = first.end()

    assert (11, "run_state_locked", 0) == (second.code, second.error["code"], ended.code)
    assert ["ACCEPT", "START", "PAUSE", "RESUME", "COMPLETE"] == moves(shell, "r1")


# C50: work that was aborted goes on by itself at the next start.


def test_an_aborted_run_never_goes_on(shell: Shell, typed: Typed) -> None:
    """C50: not by a resume, not by a resume of all, not by starting again under its id."""
    live = shell.holding()
    typed("abort", "held", "--reason", "enough")
    live.end()
    before = shell.bytes_and_times()

    resumed, every, started = (
        typed("resume", "held", "--json"), typed("resume", "--all"),
        typed("run", "agent.py:patient", "7", "--run-id", "held", "--json"),
    )  # fmt: skip

    assert (4, "run_already_finished") == (resumed.code, resumed.error["code"])
    assert (0, 4, "run_id_conflict") == (every.code, started.code, started.error["code"])
    assert (before, []) == (shell.bytes_and_times(), shell.payments)


@pytest.mark.parametrize("way", ["async", "plain"])
def test_an_aborted_run_is_handed_out_as_it_is(way: str) -> None:
    """C50: a program that ensures its run at every start gets the failed one, and nothing runs."""
    scene = Scene()
    pay = paying(scene, way, lose_the_line)

    def script(run: Any) -> Any:
        return (yield run.call(pay, "a"))

    agent = agent_of(way, script, pay)
    scene.run(agent)
    scene.home().abort(RUN, by="ann", reason="enough")

    ensured = scene.home().ensure_sync(agent, "go", run_id=RUN, signals=False)

    assert ("failed", "aborted", {"a": 1}) == (ensured.operation.state, ensured.reason, scene.bank.orders)


@pytest.mark.parametrize(
    "deed", [("ls",), ("show", "r1"), ("run", "agent.py:settle", "8", "--run-id", "r2")], ids=" ".join
)
def test_nothing_is_resumed_by_itself(shell: Shell, typed: Typed, deed: tuple[str, ...]) -> None:
    """C50: a run that lies there goes on when somebody says so, and not because clew was started."""
    shell.raise_flag("boom")
    typed("run", "agent.py:settle", "7", "--run-id", "r1")
    lay = journal(shell, "r1")

    typed(*deed)

    assert lay == journal(shell, "r1")
    assert 1 == shell.payments.count("7")


# C51: a run that lives is marked crashed because it is late.


@pytest.mark.skipif(sys.platform == "win32", reason="SIGSTOP is POSIX")
def test_a_stopped_process_is_not_a_dead_one(shell: Shell, typed: Typed) -> None:
    """C51: it is shown as what it is, and nobody takes its run from it."""
    live = shell.holding()
    live.signal(signal.SIGSTOP)
    os.waitid(os.P_PID, live.process.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        listed, told = typed("ls"), typed("ls", "--json")
        with pytest.raises(clew.Held) as held:
            clew.Home(shell.folder / ".clew", takeover="operator").reader.store.open("held", wait_s=0)
    finally:
        live.signal(signal.SIGCONT)
        ended = live.end()

    assert (True, ["stopped"]) == (listed.out.startswith("STOPPED  held"), [row["shown"] for row in told.json])
    assert "run_state_locked" == held.value.code
    assert (0, ["7"]) == (ended.code, shell.payments)


def test_a_silent_year_makes_nobody_dead() -> None:
    """C51: by the set clock a year passes inside of one call; the run is running all the while, and ends completed."""
    scene, seen = Scene(), list[str]()

    def wait_long() -> str:
        scene.clock.advance(YEAR_S)
        seen.append(scene.home().reader.row(RUN)["shown"])
        with pytest.raises(clew.Held) as held:
            scene.home().reader.store.open(RUN, wait_s=0)
        seen.append(held.value.code)
        return "done"

    def script(run: Any) -> Any:
        return (yield run.call(tool))

    tool = tool_of("plain", wait_long, effect="none")
    result = scene.run(agent_of("plain", script, tool))

    assert (["running", "run_state_locked"], "completed") == (seen, result.operation.state)


def test_a_dead_run_is_not_more_dead_after_a_year() -> None:
    """C51: what proves a death is its process, at once and for ever; the clock proves nothing either way."""
    scene = Scene()
    pay = paying(scene, "plain")

    def script(run: Any) -> Any:
        return (yield run.call(pay, "a"))

    crash(scene, agent_of("plain", script, pay), CrashPoint(2, 0))
    at_once = scene.home().reader.row(RUN)["shown"]
    scene.clock.advance(YEAR_S)

    assert ("interrupted", "interrupted") == (at_once, scene.home().reader.row(RUN)["shown"])
