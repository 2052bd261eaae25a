"""Kind K3: journals that grow large. What a reader costs in memory and bytes, what a writer adds, what stays."""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import clew
from clew.core.codec import MAX_APPEND
from tests.cases.long import ANSWER, cost_of, write_long
from tests.cli.shell import Shell
from tests.runtime.scene import Scene, agent_of, tool_of

MIB = 1 << 20
LOOKS = (("ls",), ("show", "r1"), ("show", "r1", "--json"), ("show", "r1", "--effects"), ("verify", "r1"))
OPENED = ("unlock", "r1", "--nonce", "n1", "--by", "ann", "--reason", "its machine is gone")
"""Opens the run for writing, and closes it again."""
linux = pytest.mark.skipif(sys.platform != "linux", reason="what a process cost is read from procfs")


def peaks(folder: Path, calls: int, answer: str) -> list[int]:
    """The most memory that each look took, and opening it, of a run with so many calls and this answer to each."""
    folder.mkdir()
    write_long(folder / ".clew", "r1", calls, answer)
    costs = [cost_of(folder, *words) for words in (*LOOKS, OPENED)]
    assert {0} == {cost.code for cost in costs}
    return [cost.peak for cost in costs]


def difference(folder: Path, calls: int) -> int:
    """What a look at long answers takes more memory than one at as many short ones."""
    short, long = peaks(folder / "short", calls, "ok"), peaks(folder / "long", calls, ANSWER)
    return max(after - before for before, after in zip(short, long, strict=True))


@linux
def test_looking_and_opening_take_no_more_memory_when_the_answers_are_long(tmp_path: Path) -> None:
    """C22: 35 MB, listed, shown, verified and opened for writing; what was answered is read past, never held."""
    assert difference(tmp_path, 1_800) < 8 * MIB


@linux
@pytest.mark.journeys
def test_a_run_of_500_mb_takes_no_more_memory_either(tmp_path: Path) -> None:
    """C22: the same bound, whatever the length."""
    assert difference(tmp_path, 26_000) < 8 * MIB


def test_a_long_result_is_kept_once_beside_the_journal(tmp_path: Path) -> None:
    """C23: 12 MB in a line would be read at every resume; the record has its digest, and equal bytes are one file."""
    printed, broken = "x" * 12_000_000, [True]

    def report(number: int) -> str:
        return printed

    def script(run: Any) -> Any:
        first = yield run.call(tool, number=1)
        second = yield run.call(tool, number=2)
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        return first == second == printed

    tool = tool_of("plain", report, effect="external")
    agent = agent_of("plain", script, tool)
    home = clew.Home(tmp_path / ".clew")
    home.run_sync(agent, "go", run_id="r1", signals=False)
    result = home.resume_sync("r1", agent, signals=False)
    told = [entry["event"] for entry in result.snapshot["trace"] if entry["event"]["type"] == "step_output"]
    digest = hashlib.sha256(f'"{printed}"'.encode()).hexdigest()
    blobs = [path for path in (tmp_path / ".clew" / "blobs").rglob("*") if path.is_file()]

    assert ("completed", True) == (result.operation.state, result.output)
    assert [{"sha256": digest, "sizeBytes": 12_000_002, "mediaType": "application/json"}] * 2 == [
        event["blob"] for event in told
    ]
    assert [digest] == [path.name for path in blobs]
    assert (tmp_path / ".clew" / "runs" / "r1.jsonl").stat().st_size < 64_000


@linux
def test_a_huge_run_does_not_hold_up_the_list_of_the_others(tmp_path: Path) -> None:
    """C25: of each journal a bounded part is read, however long it is and however it ended."""
    for number in range(3):
        write_long(tmp_path / ".clew", f"small-{number}", 3)
    few = cost_of(tmp_path, "ls")
    write_long(tmp_path / ".clew", "huge", 2_600)
    all_of_them = cost_of(tmp_path, "ls")

    assert (0, 0) == (few.code, all_of_them.code)
    assert all_of_them.read - few.read < 3 * MIB


def test_a_run_that_cannot_be_read_stays_where_it_is(tmp_path: Path) -> None:
    """C26: a line longer than any append; the run keeps its place and its id, every door says why, no byte changes."""
    shell = Shell(tmp_path)
    shell("run", "agent.py:settle", "1", "--run-id", "r1")
    journal = tmp_path / ".clew" / "runs" / "r1.jsonl"
    with journal.open("ab") as more:
        more.write(b'{"version":1,"runId":"r1","sequence":' + b"1" * (MAX_APPEND + 1) + b"}\n")
    before = shell.bytes_and_times()
    listed = [(row["runId"], row["unreadBytes"] > MAX_APPEND) for row in shell("ls", "--json").json]
    refused = [shell(*words, "--json") for words in (("show", "r1"), ("resume", "r1"), ("verify", "r1"))]
    again = shell("run", "agent.py:settle", "2", "--run-id", "r1", "--json")

    assert [("r1", True)] == listed
    assert [(12, "run_state_corrupt")] * 3 == [(done.code, done.error["code"]) for done in refused]
    assert (4, "run_id_conflict") == (again.code, again.error["code"])
    assert (before, ["1"]) == (shell.bytes_and_times(), shell.payments)


def steps_of(deed: Callable[[], Any]) -> int:
    """How many functions are called in it: work that does not depend on the machine."""
    called = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        deed()
    finally:
        sys.setprofile(before)
    return called


def growth(calls: int) -> tuple[list[int], list[int]]:
    """Of one run: what each call added to the journal, in bytes, and what work it was."""
    scene, work = Scene(), list[int]()

    def look() -> str:
        return "x" * 100

    tool = tool_of("plain", look, effect="external")

    def script(run: Any) -> Any:
        for _ in range(calls):
            work.append(steps_of(lambda: run.call(tool)))
            yield None

    scene.run(agent_of("plain", script, tool))
    records = [json.loads(line) for line in scene.memory.raw("r1").splitlines()]
    sizes = [len(line) for line in scene.memory.raw("r1").splitlines()]
    begun = [at for at, record in enumerate(records) if _type(record) == "tool_call"]
    return [sum(sizes[at : at + 6]) for at in begun], work


def _type(record: dict[str, Any]) -> str:
    return str(record["payload"]["event"]["type"]) if record["kind"] == "event" else ""


def check_linear(calls: int) -> None:
    """The last hundred calls are as long and as much work as the first hundred, but for the digits of numbers."""
    grown, work = growth(calls)
    first, last = sum(grown[100:200]), sum(grown[-100:])
    begun, ended = sum(work[100:200]), sum(work[-100:])

    assert abs(last - first) < first // 20
    assert abs(ended - begun) <= begun // 50


def test_a_journal_grows_by_what_is_said_and_no_more() -> None:
    """C27: no record repeats what stands before it, and the work of a call does not depend on the calls before."""
    check_linear(1_000)


@pytest.mark.journeys
def test_a_journal_of_ten_thousand_calls_does_too() -> None:
    """C27: the same, ten times as long."""
    check_linear(10_000)
