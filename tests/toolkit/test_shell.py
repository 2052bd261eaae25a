"""The shell command as a tool: by hand, in runs, and through deaths, aborts and escapes of real processes."""

import asyncio
import os
import re
import select
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.disk.groups import Patience
from clew.stores.processes import LocalProcesses
from clew.stores.workspace import FileWorkspace
from clew.toolkit import shell
from clew.toolkit.shell import Unfinished
from tests.disk.living import lives, living

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are for Linux")
if sys.platform == "linux":
    from clew.disk import warden

RUN = f"shell-{os.getpid()}"
"""No other run on this machine is called so: processes are looked for by it."""


def told(root: Path, command: str, *, patience: Patience | None = None, **given: Any) -> Any:
    """What the tool tells, by hand."""
    processes = LocalProcesses(time.monotonic, patience=patience or Patience(0.1, 5.0))
    call = clew.Call.loose("shell", workspace=FileWorkspace(root), processes=processes)
    return asyncio.run(shell(call, command, **given))


def pids_in(path: Path) -> list[int]:
    """Numbers that a command writes into a pipe as soon as it has come so far; waits for it. None where it came not."""
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if warden.seen(pid) is not None]


def gone(pid: int) -> bool:
    """Wait for the end of any process."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], 30)[0])
    finally:
        os.close(fd)


def test_what_the_tool_says_of_itself() -> None:
    """A command may do anything, so it is never repeated; what it did in the workspace is kept: `bash` in #135."""
    found = shell.capability

    said = (found.effect, found.replay, found.concurrency, found.checkpoint, found.durability, found.source)

    assert ("process", "unknown", "run_serial", "required", "critical", "builtin") == said


def test_a_command_is_told_with_its_output(tmp_path: Path) -> None:
    """Both streams, as they came."""
    found = told(tmp_path, "echo out; echo err >&2")

    assert {"output": "out\nerr\n", "exitCode": 0, "sizeBytes": 8} == {
        name: value for name, value in found.items() if name != "durationMs"
    }
    assert found["durationMs"] >= 0


@pytest.mark.parametrize(
    ("command", "message", "expected"),
    [
        ("echo no; exit 3", "the command ended with exit code 3", (3, None)),
        ("kill -9 $$", "the command was killed by SIGKILL", (None, "SIGKILL")),
        ("no-such-program-here", "the command ended with exit code 127", (127, None)),
    ],
)
def test_an_exit_code_that_is_not_0_is_a_failure(tmp_path: Path, command: str, message: str, expected: Any) -> None:
    """An answer all the same, with its code and what was written, and never a success."""
    found = told(tmp_path, command)

    assert (clew.Failed, message) == (type(found), found.message)
    assert expected == (found.value["exitCode"], found.value.get("signal"))


@pytest.mark.parametrize(
    ("command", "output", "escaped"),
    [
        (r"printf 'ok\377\200.'", "ok\\xff\\x80.", 2),
        (r"printf '\303\244\303'", "ä\\xc3", 1),
        (r"printf 'a\000b'", "a\0b", 0),
        (r"printf '\355\240\200'", "\\xed\\xa0\\x80", 3),
    ],
)
def test_bytes_that_are_no_text_are_shown_as_bytes(tmp_path: Path, command: str, output: str, escaped: int) -> None:
    """A replacement character would hide which byte it was, a lone surrogate is no JSON; how many they are is said."""
    found = told(tmp_path, command)

    assert (output, escaped) == (found["output"], found.get("escapedBytes", 0))


def test_a_long_output_is_told_with_what_is_cut(tmp_path: Path) -> None:
    """A part that is taken for the whole hides the error in its middle."""
    found = told(tmp_path, "printf begin; head -c 50000000 /dev/zero; printf end", max_bytes=8)

    assert ("begi", "\0end", 50_000_000, 50_000_008) == (
        found["output"], found["outputEnd"], found["cutBytes"], found["sizeBytes"],
    )  # fmt: skip


def test_a_cut_does_not_go_through_a_character(tmp_path: Path) -> None:
    """Half of one is no text; the bytes of it are counted with what is cut."""
    found = told(tmp_path, "printf 'ää€€'", max_bytes=6)

    assert ("ä", "€", 5, None) == (
        found["output"], found["outputEnd"], found["cutBytes"], found.get("escapedBytes"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": " "}, "empty"),
        ({"command": "true", "timeout_s": 0}, "timeout_s is 0"),
        ({"command": "true", "timeout_s": float("nan")}, "timeout_s is nan"),
        ({"command": "true", "max_bytes": 0}, "max_bytes is 0"),
        ({"command": "true", "folder": ".."}, "leads out of the workspace"),
        ({"command": "true", "folder": ".git"}, "kept from tools"),
        ({"command": "true", "folder": "missing"}, "not started"),
        ({"command": "a\0b"}, "not started"),
        ({"command": "\ud800"}, "not started"),
        ({"command": "x" * (3 << 20)}, "not started"),
    ],
)
def test_what_cannot_run_did_not_happen(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    """The agent is told and goes on; no person has to look."""
    with pytest.raises(clew.NothingHappened, match=said):
        told(tmp_path, **given)


def test_a_command_begins_in_its_folder(tmp_path: Path) -> None:
    """Relative paths in it mean files of the workspace."""
    (tmp_path / "sub").mkdir()

    found = told(tmp_path, "touch here", folder="sub")

    assert (0, True) == (found["exitCode"], (tmp_path / "sub/here").exists())


def test_a_loose_call_must_be_given_processes(tmp_path: Path) -> None:
    """No tool reaches the machine by a way that its call did not give it."""
    call = clew.Call.loose(workspace=FileWorkspace(tmp_path))

    with pytest.raises(clew.UsageError) as caught:
        asyncio.run(shell(call, "true"))
    assert "no_processes" == caught.value.code


@pytest.mark.parametrize("command", ["setsid sleep 60 & echo $! >pid", "nohup sleep 60 >/dev/null 2>&1 & echo $! >pid"])
def test_what_is_left_behind_is_ended_and_told(tmp_path: Path, command: str) -> None:
    """A server that was started in the background is no part of the answer, and does not live on unseen (C123)."""
    found = told(tmp_path, command)
    (pid,) = pids_in(tmp_path / "pid")

    assert (0, [f"pid {pid}"]) == (found["exitCode"], [words[: len(f"pid {pid}")] for words in found["ended"]])
    assert [] == alive([pid])


def test_a_command_that_takes_too_long_is_ended_as_a_whole(tmp_path: Path) -> None:
    """What it had done by then nobody knows, so it is no answer; `sh -c 'sleep 60 & wait'` leaves no orphan (C124)."""
    with pytest.raises(Unfinished, match=r"it took longer than 1.5 s"):
        told(tmp_path, "sh -c 'sleep 60 & echo $! $$ >pids; wait'", timeout_s=1.5)
    assert [] == alive(pids_in(tmp_path / "pids"))


def test_one_that_could_not_be_ended_is_named(tmp_path: Path) -> None:
    """Its effect goes on: that is neither a success nor a failure."""
    with pytest.raises(Unfinished, match=r"alive: pid \d+ \(.*sleep 60.*\) since 20") as caught:
        told(tmp_path, "(trap '' TERM; exec sleep 60) & echo $! >pid", patience=Patience(0.0, 0.0))
    (pid,) = pids_in(tmp_path / "pid")
    with suppress(ProcessLookupError):  # SIGTERM may have come before its trap
        os.kill(pid, signal.SIGKILL)

    assert f"alive: pid {pid} (" in str(caught.value)


def test_a_watcher_that_was_killed_saw_nothing(tmp_path: Path) -> None:
    """That no exit code is known must not become exit code 0."""
    with pytest.raises(Unfinished, match="nobody saw"):
        told(tmp_path, "kill -9 $PPID; sleep 60")


def test_a_watcher_that_was_told_to_end_ended_the_command_amid(tmp_path: Path) -> None:
    """Its exit code 0 is no success: what it had started was killed under it."""
    with pytest.raises(Unfinished, match="told to end"):
        told(tmp_path, "sleep 60 & trap 'echo done; exit 0' TERM; kill $PPID; wait", patience=Patience(30.0, 5.0))


# In runs.


def plain_agent(command: str, **given: Any) -> clew.Agent:
    def work(run: clew.SyncRun, prompt: Any) -> Any:
        return run.call(shell, command, **given)

    return clew.Agent(work, name="worker", tools=[shell])


def async_agent(command: str, **given: Any) -> clew.Agent:
    async def work(run: clew.Run, prompt: Any) -> Any:
        return await run.call(shell, command, **given)

    return clew.Agent(work, name="worker", tools=[shell])


AGENTS = pytest.mark.parametrize("agent_of", [plain_agent, async_agent])


@AGENTS
def test_a_failed_command_counts_as_a_failure_of_its_tool(tmp_path: Path, agent_of: Any) -> None:
    """C42: exit code not 0 gives `isError` and counts in `metrics.toolFailures`; the agent is told."""
    home = clew.Home(tmp_path / ".clew")

    result = home.run_sync(agent_of("exit 3"), run_id=RUN, signals=False)
    ended = [event["isError"] for event in events_of(home, "tool_result")]

    assert ("agent_error", [True], 1) == (result.reason, ended, result.snapshot["metrics"]["toolFailures"])


@AGENTS
def test_a_command_that_was_ended_leaves_an_open_effect(tmp_path: Path, agent_of: Any) -> None:
    """The agent must not go on as if it knew; a person is asked (#112)."""
    home = clew.Home(tmp_path / ".clew")

    result = home.run_sync(agent_of("sleep 60", timeout_s=0.2), run_id=RUN, signals=False)

    assert ("unknown_effect", 21, ["unknown"]) == (
        result.reason, result.exit_code, [effect["status"] for effect in result.waiting],
    )  # fmt: skip


def test_a_cancelled_command_is_ended_before_the_run_pauses(tmp_path: Path) -> None:
    """A run that says it is paused while its command goes on would be lying."""
    os.mkfifo(tmp_path / "up")
    home, pids = clew.Home(tmp_path / ".clew"), list[int]()

    async def cancelled() -> None:
        agent = async_agent("setsid sleep 600 & echo $! $$ $PPID >up; wait")
        running = asyncio.ensure_future(home.run(agent, run_id=RUN))
        pids.extend(await asyncio.to_thread(pids_in, tmp_path / "up"))
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(cancelled())
    result = home.result(RUN)

    assert (3, []) == (len(pids), alive(pids))
    assert ("paused", ["unknown"]) == (result.operation.state, [effect["status"] for effect in result.waiting])


def test_a_command_that_had_ended_before_it_was_cancelled_is_told(tmp_path: Path) -> None:
    """Its exit code is known, and only what it left behind is being ended still: nobody has to look at the world."""
    for name in ("main", "deaf", "go"):
        os.mkfifo(tmp_path / name)
    processes = LocalProcesses(time.monotonic, patience=Patience(30.0, 5.0))
    call = clew.Call.loose("shell", workspace=FileWorkspace(tmp_path), processes=processes)

    async def cancel() -> Any:
        # It is left behind only once it is deaf, or it would be ended before anybody reads what it waits for.
        left = "(trap '' TERM; echo >deaf; read x <go)"
        task = asyncio.ensure_future(shell(call, f"{left} & read x <deaf; echo $$ >main; exit 3"))
        (pid,) = await asyncio.to_thread(pids_in, tmp_path / "main")
        await asyncio.to_thread(gone, pid)
        task.cancel()
        await asyncio.to_thread((tmp_path / "go").write_text, "on\n")
        return await task

    found = asyncio.run(cancel())

    assert (clew.Failed, 3) == (type(found), found.value["exitCode"])


@AGENTS
def test_an_aborted_run_ends_its_command(tmp_path: Path, agent_of: Any) -> None:
    """Nothing of an aborted run goes on working; what it had started stays listed (C123, C124)."""
    os.mkfifo(tmp_path / "up")
    home = clew.Home(tmp_path / ".clew")
    agent = agent_of("setsid sleep 60 & echo $! $$ $PPID >up; wait")
    running = threading.Thread(target=home.run_sync, args=(agent,), kwargs={"run_id": RUN, "signals": False})
    running.start()
    pids = pids_in(tmp_path / "up")

    home.abort(RUN, by="ann", reason="wrong workspace")
    running.join(30)
    result = home.result(RUN)

    assert (3, []) == (len(pids), alive(pids))
    assert ("failed", "aborted", ["unknown"]) == (
        result.operation.state, result.reason, [effect["status"] for effect in result.waiting],
    )  # fmt: skip


@AGENTS
def test_the_gates_own_time_limit_ends_the_command_too(tmp_path: Path, agent_of: Any) -> None:
    """Whoever ends the waiting, the command does not go on behind its back."""
    limited = clew.Tool(shell.body, name="shell", effect="process", timeout_s=1.5)

    def plain(run: clew.SyncRun, prompt: Any) -> Any:
        return run.call(limited, "setsid sleep 60 & echo $! $$ >pids; wait")

    async def awaiting(run: clew.Run, prompt: Any) -> Any:
        return await run.call(limited, "setsid sleep 60 & echo $! $$ >pids; wait")

    agent = clew.Agent(plain if agent_of is plain_agent else awaiting, name="worker", tools=[limited])
    result = clew.Home(tmp_path / ".clew").run_sync(agent, run_id=RUN, signals=False)

    assert ("unknown_effect", []) == (result.reason, alive(pids_in(tmp_path / "pids")))


def test_ctrl_c_twice_ends_the_command(tmp_path: Path) -> None:
    """Who presses it wants nothing of the run to go on; the terminal's signal does not reach the group."""
    os.mkfifo(tmp_path / "up")
    with living(RUNS, tmp_path / ".clew", "setsid sleep 60 & echo $! $$ $PPID >up; wait", RUN) as process:
        pids = pids_in(tmp_path / "up")
        process.process.send_signal(signal.SIGINT)
        assert "pausing" in process.says()
        process.process.send_signal(signal.SIGINT)
        process.ends()
    result = clew.Home(tmp_path / ".clew").result(RUN)

    assert (3, []) == (len(pids), alive(pids))
    assert ("failed", "aborted") == (result.operation.state, result.reason)


RUNS = """
import sys
import clew
from clew.toolkit import shell

def work(run, prompt):
    return run.call(shell, sys.argv[2])["output"]

said = lambda words: print(words, flush=True)
clew.Home(sys.argv[1]).run_sync(clew.Agent(work, name="worker", tools=[shell]), run_id=sys.argv[3], notice=said)
"""


def died(folder: Path, command: str) -> list[int]:
    """A run in a process of its own is killed in the middle of its command: the numbers that this had told."""
    os.mkfifo(folder / "up")
    with living(RUNS, folder / ".clew", command, RUN) as process:
        pids = pids_in(folder / "up")
        process.kill()
    return pids


def test_a_killed_run_takes_its_command_along(tmp_path: Path) -> None:
    """An orphan would go on changing the world beside the resumed run (C124)."""
    pids = died(tmp_path, "setsid sleep 60 & echo $! $$ $PPID >up; wait")

    assert all(gone(pid) for pid in pids)


def orphan(folder: Path) -> int:
    """The run and its warden are killed before they could end what had escaped; the number of that process."""
    os.mkfifo(folder / "up")
    with living(RUNS, folder / ".clew", "setsid sleep 60 & echo $! $$ $PPID >up; wait", RUN) as process:
        escaped, first, watcher = pids_in(folder / "up")
        os.kill(watcher, signal.SIGSTOP)
        process.kill()
        os.kill(watcher, signal.SIGKILL)
        assert gone(watcher)
        assert gone(first)
    return escaped


def test_a_resume_waits_for_what_escaped_and_names_it(tmp_path: Path) -> None:
    """The command's effect may come yet; once nothing lives, the plan goes on: a person is asked, then it may run."""
    pid = orphan(tmp_path)
    home = clew.Home(tmp_path / ".clew", takeover="operator")
    agent = plain_agent("setsid sleep 60 & echo $! $$ $PPID >up; wait")

    plan = home.plan(RUN, agent)
    assert plan is not None
    waiting = home.resume_sync(RUN, agent, signals=False)
    message = home.reader.row(RUN)["message"]
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    then = home.resume_sync(RUN, agent, signals=False)

    assert [("wait", "process_alive")] == [(step.decision, step.reason) for step in plan.steps]
    assert re.fullmatch(rf"pid {pid} \(.*sleep 60.*\) since 20[-0-9T:.]+Z", plan.steps[0].detail)
    assert ("process_alive", 21, True) == (waiting.reason, waiting.exit_code, f"pid {pid} (" in message)
    assert ("unknown_effect", 21) == (then.reason, then.exit_code)


def test_an_abort_of_a_dead_run_ends_what_still_lives(tmp_path: Path) -> None:
    """C123: leftover children are searched for and ended; what they had done by then stays unknown."""
    pid = orphan(tmp_path)
    home = clew.Home(tmp_path / ".clew", takeover="operator")

    done = home.abort(RUN, by="ann", reason="enough")
    row = home.reader.row(RUN)

    assert (False, {}, "") == (lives(pid), done["alive"], row["message"])
    assert ("failed", ["started"]) == (row["state"], [effect["status"] for effect in row["waiting"]])


def events_of(home: clew.Home, kind: str) -> list[dict[str, Any]]:
    events = [record.payload["event"] for record in home.reader.records(RUN) if record.kind == "event"]
    return [event for event in events if event["type"] == kind]
