"""Kind K12: Windows, paths, full disks, clocks and secrets. Real files, real refusals of the system, real deaths."""

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.disk import files
from clew.stores.base import Command
from clew.stores.jsonl import FileRunStore
from clew.testing.faults import failing_call
from clew.toolkit import shell
from tests.cli.shell import Shell
from tests.runtime.scene import WAYS, Scene, agent_of, paying, tool_of

posix = pytest.mark.skipif(sys.platform == "win32", reason="asks for what only POSIX has")
ways = pytest.mark.parametrize("way", WAYS)
FULL = OSError(errno.ENOSPC, "No space left on device")


# Publishing.


def publish_on_windows(path: Path, data: bytes, refusals: list[int]) -> None:
    """Publish as on Windows, where naming a file is refused with these codes before it is done."""

    def rename(temp: Path, path: Path) -> None:
        if refusals:
            error = PermissionError(13, "somebody has it open")
            error.winerror = refusals.pop(0)  # type: ignore[attr-defined]  # only Windows declares it
            raise error
        os.replace(temp, path)

    files._publish(path, data, lambda temp, path: files._patiently(rename, temp, path))


@pytest.mark.parametrize("refusals", [[5, 32, 5], pytest.param([5] * 7, marks=pytest.mark.journeys)], ids=len)
def test_a_file_that_somebody_has_open_is_replaced_when_he_lets_go(tmp_path: Path, refusals: list[int]) -> None:
    """C115, #36 for what is published: a watcher has it for a moment; whoever reads it goes on with what he opened."""
    path = tmp_path / "head.json"
    files.publish(path, b"old")
    with path.open("rb") as reader:
        publish_on_windows(path, b"new", refusals)
        read = reader.read()

    assert (b"old", b"new", ["head.json"]) == (read, path.read_bytes(), os.listdir(tmp_path))


@pytest.mark.journeys
def test_a_file_that_is_never_let_go_stays_as_it_was(tmp_path: Path) -> None:
    """C115, #37 for what is published: after 2.5 s it is an error that says what to do; no temp file is left."""
    path = tmp_path / "head.json"
    files.publish(path, b"old")
    with pytest.raises(clew.Storage) as caught:
        publish_on_windows(path, b"new", [5] * 100)

    assert ("publish_failed", "Close the program" in caught.value.next) == (caught.value.code, True)
    assert (b"old", ["head.json"]) == (path.read_bytes(), os.listdir(tmp_path))


def test_another_refusal_is_told_at_once_and_changes_nothing(tmp_path: Path) -> None:
    """C115: only what passes by itself is waited for."""
    path = tmp_path / "head.json"
    files.publish(path, b"old")
    with pytest.raises(clew.Storage) as caught:
        publish_on_windows(path, b"new", [19])

    assert ("storage_denied", b"old", ["head.json"]) == (caught.value.code, path.read_bytes(), os.listdir(tmp_path))


DEATHS = """
import json, os, signal, sys
from pathlib import Path
from clew.disk import files

path, old, new = Path(sys.argv[1]), b"o" * 5000, b"n" * 7000


def at_call(nth, deed):
    left = nth

    def strike(frame, event, called):
        nonlocal left
        if event == "c_call" and called.__name__ != "getpid" and called.__module__ == "posix":
            left -= 1
            if left == 0:
                deed()

    sys.setprofile(strike)
    try:
        files.publish(path, new)
    finally:
        sys.setprofile(None)


def refuse():
    raise OSError(5, "the device refuses")


def tried(nth, deed):
    "One process that publishes; how it ended, what the name then holds, and what else is there."
    files.publish(path, old)
    child = os.fork()
    if child == 0:
        try:
            at_call(nth, deed)
            os._exit(0)
        except BaseException as error:
            os._exit(3 if hasattr(error, "code") else 4)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = path.read_bytes()
    left = [name for name in os.listdir(path.parent) if name != path.name]
    for name in left:
        os.unlink(path.parent / name)
    return status, {old: "old", new: "new"}.get(found, "broken"), left


def all_of(deed):
    found, nth = [], 0
    while not found or found[-1][0] != 0:
        nth += 1
        found.append(tried(nth, deed))
    return found


deaths = all_of(lambda: os.kill(os.getpid(), signal.SIGKILL))
errors = all_of(refuse)
print(json.dumps([deaths, errors]))
"""


@posix
def test_at_each_call_of_the_system_the_name_holds_the_old_or_the_new(tmp_path: Path) -> None:
    """C116: nothing is moved away first; killed before each call of publishing, or refused it, a reader sees one."""
    command = [sys.executable, "-c", DEATHS, str(tmp_path / "head.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    deaths, errors = json.loads(done.stdout)

    assert {-signal.SIGKILL, 0} == {status for status, _, _ in deaths}
    assert {3, 0} == {status for status, _, _ in errors}
    assert (["old", "new"], ["old", "new"]) == (in_order(deaths), in_order(errors))
    assert 8 <= len(deaths)
    assert [] == [name for _, _, left in deaths for name in left if not files.is_temp(name)]
    # One that is refused the removal of its temp file, too, can only leave it.
    assert [] == [left for _, content, left in errors if left and content == "new"]


def in_order(tries: list[list[Any]]) -> list[str]:
    """What the name held, each change once: from the old to the new and never back."""
    held = [content for _, content, _ in tries]
    return [content for at, content in enumerate(held) if at == 0 or held[at - 1] != content]


# Names.


def test_names_are_short_whatever_the_folder_is_called(tmp_path: Path) -> None:
    """C117: names are made of ids and digests alone; a folder of 90 characters of three bytes is found again inside."""
    place = tmp_path / ("界" * 45) / ("面" * 45)
    place.mkdir(parents=True)
    shell = Shell(place)
    shell.raise_flag("boom")
    died = shell("run", "agent.py:settle", "1", "--run-id", "r1")
    settled = shell("settle", "r1", "happened", "--by", "ann", "--reason", "looked", "--result", '{"transfer":"T-1"}')
    went_on = shell("resume", "r1")
    names = [path.name for path in (place / ".clew").rglob("*")]
    start = json.loads((place / ".clew" / "runs" / "r1.jsonl").read_text("utf-8").splitlines()[0])["payload"]

    assert (21, 0, 0) == (died.code, settled.code, went_on.code), died.err + settled.err + went_on.err
    assert max(len(os.fsencode(name)) for name in names) < 64
    assert place == (place / start["workspace"]).resolve()


@posix
def test_a_file_with_the_longest_name_is_written_by_a_tool(tmp_path: Path) -> None:
    """C117: the temp file beside it must not need a longer one; 85 characters of three bytes are all there can be."""
    name = "界" * 85
    home = clew.Home(tmp_path / ".clew")

    def write(call: clew.Call) -> int:
        call.workspace.write(name, b"x")
        return 1

    tool = tool_of("plain", write, effect="workspace", replay="idempotent")
    result = home.run_sync(agent_of("plain", lambda run: (yield run.call(tool)), tool), signals=False)

    assert ("completed", b"x") == (result.operation.state, (tmp_path / name).read_bytes())


# Full disks.

FILLING = """
import resource, sys
from pathlib import Path
import clew


@clew.tool(effect="external")
def pay(order: int) -> str:
    with Path("payments").open("a") as book:
        book.write(f"{order}\\n")
    return "x" * 3000


@clew.agent(tools=[pay])
def settle(run, prompt):
    return len([run.call(pay, order=order) for order in range(40)])


if __name__ == "__main__":
    if sys.argv[1] == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
    home = clew.Home(".clew", takeover="proven")
    try:
        if sys.argv[2] == "run":
            result = home.run_sync(settle, "go", run_id="r1")
        else:
            result = home.resume_sync("r1", settle)
    except clew.Storage as fault:
        print(fault.code, "|", fault.next)
        sys.exit(fault.exit_code)
    sys.exit(result.exit_code)
"""


@posix
def test_a_journal_that_cannot_grow_stops_the_run_and_says_so(tmp_path: Path) -> None:
    """C119: nothing is switched off silently, no tool runs behind the failed write; first room, then resume."""
    (tmp_path / "agent.py").write_text(FILLING, "utf-8")

    def go(disk: str, deed: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "agent.py", disk, deed]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)

    stopped = go("full", "run")
    home = clew.Home(tmp_path / ".clew")
    row, calls = home.reader.row("r1"), home.reader.see("r1").state.calls
    paid = (tmp_path / "payments").read_text("utf-8").split()
    still = go("full", "resume")
    in_doubt = go("free", "resume")
    if in_doubt.returncode == 21:
        home.settle("r1", clew.Happened("x"), by="ann", reason="the bank's statement")
        in_doubt = go("free", "resume")

    assert (13, "interrupted") == (stopped.returncode, row["shown"])
    assert stopped.stdout.partition(" | ")[2].startswith(("Free space", "Check that disk", "Mend the storage"))
    assert [call.step_id for call in calls.values() if call.status] == [f"pay-{int(order) + 1}" for order in paid]
    assert (13, 0) == (still.returncode, in_doubt.returncode), still.stdout + in_doubt.stderr
    assert [str(order) for order in range(40)] == (tmp_path / "payments").read_text("utf-8").split()


def test_a_prompt_that_could_not_be_written_down_was_not_accepted(tmp_path: Path) -> None:
    """C120: a disk that is full at the birth of a run: no run, no agent, no file; the id is free when there is room."""
    home, asked = clew.Home(tmp_path / ".clew"), list[str]()
    agent = clew.agent(name="orders")(lambda run, prompt: asked.append(prompt))
    home.run_sync(agent, "first", run_id="r0", signals=False)
    with pytest.raises(clew.Storage) as caught, failing_call("write", error=FULL):
        home.run_sync(agent, "second", run_id="r1", signals=False)
    left = sorted(path.name for path in (tmp_path / ".clew" / "runs").iterdir())
    home.run_sync(agent, "third", run_id="r1", signals=False)

    assert ("disk_full", ["r0", "r0.jsonl"], ["first", "third"]) == (caught.value.code, left, asked)


@pytest.mark.parametrize(("call", "code"), [("write", "disk_full"), ("fdatasync", "durability_barrier_failed")])
@posix
def test_a_call_that_could_not_be_written_down_does_not_start(tmp_path: Path, call: str, code: str) -> None:
    """C120: written and synced, then acknowledged, then done; and nothing is rewritten in its place."""
    home, paid = clew.Home(tmp_path / ".clew"), list[int]()
    journal = tmp_path / ".clew" / "runs" / "r1.jsonl"

    def pay() -> None:
        paid.append(1)

    tool = tool_of("plain", pay, effect="external")
    before = b""

    def script(run: Any) -> Any:
        nonlocal before
        before = journal.read_bytes()
        with failing_call(call, error=FULL):
            yield run.call(tool)

    with pytest.raises(clew.Storage) as caught:
        home.run_sync(agent_of("plain", script, tool), run_id="r1", signals=False)

    assert (code, [], True) == (caught.value.code, paid, journal.read_bytes().startswith(before))


def test_a_command_that_could_not_be_written_down_was_not_given(tmp_path: Path) -> None:
    """C120: whoever types `pause` is told that it was not heard, and no half of it lies in the inbox."""
    home = clew.Home(tmp_path / ".clew")
    home.run_sync(clew.agent(name="orders")(lambda run, prompt: 1), run_id="r1", signals=False)
    store = FileRunStore(tmp_path / ".clew")
    with pytest.raises(clew.Storage) as caught, failing_call("write", error=FULL):
        store.post(Command(1, "k1", "r1", "pause", "ann", "lunch"))

    assert ("disk_full", []) == (caught.value.code, list(store.pending("r1")))
    assert [] == [path.name for path in (tmp_path / ".clew").rglob("*.tmp")]


ENDING = """
import clew
from pathlib import Path
from clew.testing.faults import failing_call
from clew.toolkit import shell

refusal = failing_call("write", error=PermissionError(1, "Operation not permitted"))


@clew.tool(effect="external")
def pay(order: str) -> str:
    with Path("payments").open("a") as book:
        book.write(f"{order}\\n")
    return "T-1"


@clew.agent(tools=[pay])
def settle(run, prompt):
    paid = run.call(pay, order=prompt)
    if Path("refuse").exists():
        refusal.__enter__()
    return paid
"""


def test_a_run_whose_end_could_not_be_written_is_not_shown_as_ended(tmp_path: Path) -> None:
    """C121: the command ends with an error, and the next leg writes the end; what the agent had done is not lost."""
    shell = Shell(tmp_path)
    (tmp_path / "agent.py").write_text(ENDING, "utf-8")
    shell.raise_flag("refuse")
    ended = shell("run", "agent.py:settle", "1042", "--run-id", "r1", "--json")
    listed = shell("ls", "--json").json
    (tmp_path / "refuse").unlink()
    resumed = shell("resume", "r1")

    assert (13, "storage_denied") == (ended.code, ended.error["code"])
    assert [("r1", "interrupted", "running")] == [(row["runId"], row["shown"], row["state"]) for row in listed]
    assert (0, "T-1\n", ["1042"]) == (resumed.code, resumed.out, shell.payments)


@posix
def test_a_head_that_could_not_be_published_hides_no_end(tmp_path: Path) -> None:
    """C121: the journal has the end, so every list shows it, whatever a watcher did to the small file beside it."""
    home = clew.Home(tmp_path / ".clew")
    refusal = failing_call("fsync", error=OSError(errno.EPERM, "refused"))

    def settle(run: Any, prompt: Any) -> str:
        refusal.__enter__()
        return "done"

    try:
        result = home.run_sync(clew.agent(name="orders")(settle), run_id="r1", signals=False)
    finally:
        refusal.__exit__(None, None, None)

    assert ("completed", ["completed"]) == (result.operation.state, [row["shown"] for row in home.runs()])


# Clocks.

BACK_MS = 41 * 3600 * 1000


@ways
def test_a_clock_that_is_set_back_gives_no_negative_time(way: str) -> None:
    """C122: in one leg and over two; a duration that cannot be known is 0 and says why, and the order is the file's."""
    scene, broken = Scene(), [True]

    def set_back() -> None:
        scene.clock.advance(2)
        scene.clock.set_wall(scene.clock.now_ms() - BACK_MS)

    pay = paying(scene, way, set_back)

    def script(run: Any) -> Any:
        yield run.call(pay, order="a")
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        return "done"

    agent = agent_of(way, script, pay)
    first = scene.run(agent).snapshot
    scene.clock.set_wall(scene.clock.now_ms() - BACK_MS)
    last = scene.resume(agent).snapshot

    times = [(told["metrics"]["durationMs"], told["metrics"]["clockStepped"]) for told in (first, last)]

    assert [(0, True)] * 2 == times
    assert "completed" == last["operation"]["state"]
    assert [record["sequence"] for record in scene.lines] == list(range(1, len(scene.lines) + 1))


@ways
def test_a_clock_that_is_set_back_gives_no_more_time(way: str) -> None:
    """C122: the limit of a leg is measured by a clock that nobody sets."""
    scene = Scene()

    def slow() -> None:
        scene.clock.advance(50)
        scene.clock.set_wall(scene.clock.now_ms() - BACK_MS)

    pay = paying(scene, way, slow)

    def script(run: Any) -> Any:
        for order in "abc":
            yield run.call(pay, order=order)

    result = scene.run(agent_of(way, script, pay), budget=clew.RunBudget(run_timeout_s=60))

    assert ("run_timeout", ["a", "b"]) == (result.reason, list(scene.bank.orders))


@ways
def test_a_clock_that_was_set_back_in_one_leg_gives_no_more_time_to_the_next(way: str) -> None:
    """C122, W33: a leg says how long it ran by a clock that nobody sets; the times of its records would say nothing."""
    scene, broken = Scene(), [True]
    pay = paying(scene, way, lambda: scene.clock.advance(50))

    def script(run: Any) -> Any:
        yield run.call(pay, order="a")
        if broken.pop() if broken else False:
            scene.clock.set_wall(scene.clock.now_ms() - BACK_MS)
            raise LookupError("a bug")
        for order in "bcd":
            yield run.call(pay, order=order)

    agent = agent_of(way, script, pay)
    scene.run(agent)
    result = scene.resume(agent, budget=clew.RunBudget(run_timeout_s=60))

    assert ("run_timeout", ["a", "b"]) == (result.reason, list(scene.bank.orders))


# Secrets.

KEY = "sk-" + "ant-api03-" + "a1B2c3D4e5F6" * 4
PEM = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 4 + "-----END PRIVATE KEY-----"
OURS = "hunter2-and-more"


def leaks(folder: Path) -> list[str]:
    """Files below a folder in which a secret stands, as it is or as JSON writes it."""
    wanted = [text.encode() for text in (KEY, OURS, PEM, json.dumps(PEM)[1:-1], PEM.splitlines()[1])]
    found = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in found if any(text in path.read_bytes() for text in wanted)]


@ways
def test_a_secret_never_reaches_the_disk_nor_a_report(tmp_path: Path, way: str) -> None:
    """C125: in arguments, answers short and long, errors, the input and the output; the marker keeps the kind."""
    home = clew.Home(tmp_path / ".clew")
    text = f"{KEY}\n{PEM}\n{OURS[:7]}" + OURS[7:]

    def show(given: str, often: int) -> str:
        return text * often

    def fail() -> str:
        raise ConnectionError(text)

    shows = tool_of(way, show, effect="external")
    fails = tool_of(way, fail, effect="external")

    def script(run: Any) -> Any:
        said = [(yield run.call(shows, given=text, often=1)), (yield run.call(shows, given=text, often=200))]
        yield run.step("plan", lambda: text)
        yield run.call(fails)
        return [*said, text]

    agent = agent_of(way, script, shows, fails, secrets=[OURS])
    result = run_in(home, way, agent, text)
    # Whoever settles elsewhere does not know the agent's own secrets, only what secrets look like.
    known = f"{KEY} {PEM}"
    home.settle("r1", clew.Happened({"told": known}, known), by="ann", reason=known, evidence=[known])
    ended = run_in(home, way, agent)
    report = json.dumps([result.snapshot, ended.snapshot, list(home.runs())])

    assert ("paused", "completed") == (result.operation.state, ended.operation.state)
    assert ([], []) == (leaks(tmp_path), [text for text in (KEY, OURS, PEM.splitlines()[1]) if text in report])
    assert {"[redacted:anthropic-key]", "[redacted:private-key]", "[redacted:configured]"} <= set(markers(report))


def markers(report: str) -> list[str]:
    return [f"[redacted:{piece.partition(']')[0]}]" for piece in report.split("[redacted:")[1:]]


def run_in(home: clew.Home, way: str, agent: Any, prompt: str = "") -> clew.RunResult:
    """Run with this prompt, or resume without one, in the way that fits the agent."""
    if way != "plain":
        return asyncio.run(home.run(agent, prompt, run_id="r1") if prompt else home.resume("r1", agent))
    if prompt:
        return home.run_sync(agent, prompt, run_id="r1", signals=False)
    return home.resume_sync("r1", agent, signals=False)


def test_the_agent_is_asked_the_same_in_every_leg(tmp_path: Path) -> None:
    """C125: what is hidden in its input is hidden from it, too; else its second leg would be asked something else."""
    home, asked = clew.Home(tmp_path / ".clew"), list[str]()

    def settle(run: Any, prompt: str) -> str:
        asked.append(prompt)
        if len(asked) == 1:
            raise LookupError("a bug")
        return "done"

    agent = clew.agent(name="orders", secrets=[OURS])(settle)
    home.run_sync(agent, f"use {KEY} and {OURS}", run_id="r1", signals=False)
    result = home.ensure_sync(agent, f"use {KEY} and {OURS}", run_id="r1", signals=False)

    assert ["use [redacted:anthropic-key] and [redacted:configured]"] * 2 == asked
    assert "completed" == result.operation.state


@pytest.mark.skipif(sys.platform != "linux", reason="commands are for Linux")
def test_a_secret_that_a_command_writes_in_two_pieces_is_one_secret(tmp_path: Path) -> None:
    """C125: what is hidden is the whole text, not each piece as it came."""
    home = clew.Home(tmp_path / ".clew")
    command = f"printf {OURS[:7]}; printf '%s\\n' {OURS[7:]} {KEY[:6]}''{KEY[6:]}"

    async def look(run: Any, prompt: Any) -> Any:
        return await run.call(shell, command=command)

    result = asyncio.run(home.run(clew.Agent(look, name="look", tools=[shell], secrets=[OURS]), run_id="r1"))

    assert "[redacted:configured]\n[redacted:anthropic-key]\n" == result.output["output"]
    assert [] == leaks(tmp_path)
