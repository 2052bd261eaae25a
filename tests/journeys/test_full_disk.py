"""A disk that is full after the money has moved: the fact is kept, the run waits, nothing is paid again."""

import subprocess
import sys
from pathlib import Path

import pytest

import clew

AGENT = """
import random
import resource
import sys
from pathlib import Path

import clew

LIMIT = 100_000


@clew.tool(effect="external")
def pay(order: str) -> dict:
    with Path("books").open("a") as books:
        books.write(order + "\\n")
    # Of chance, so that compressing it makes no room.
    return {"statement": random.Random(order).randbytes(150_000).hex()}


@clew.agent(tools=[pay])
def settle(run: clew.SyncRun, prompt: str) -> str:
    return str(len(run.call(pay, order="1042")["statement"]))


if __name__ == "__main__":
    if sys.argv[1] == "full":
        # A file may not grow beyond this: the blob cannot be written, the journal's own small records can.
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    home = clew.Home(".clew")
    result = home.run_sync(settle, "go", run_id="r1") if sys.argv[2] == "run" else home.resume_sync("r1", settle)
    sys.exit(result.exit_code)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the agent in it."""
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    return tmp_path


def go(folder: Path, disk: str, deed: str) -> "subprocess.CompletedProcess[str]":
    """The agent in a process of its own, on a disk that is `full` or `free`."""
    command = [sys.executable, "agent.py", disk, deed]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(sys.platform == "win32", reason="the limit on a file's size is POSIX")
def test_a_full_disk_after_the_payment_keeps_the_fact(folder: Path) -> None:
    """The payment is committed, its answer could not be kept: paused, for a person, and never completed."""
    done = go(folder, "full", "run")
    account = clew.Home(folder / ".clew").result("r1").snapshot
    receipts = [entry["event"] for entry in account["trace"] if entry["event"]["type"] == "effect_receipt"]

    assert (21, "") == (done.returncode, done.stderr)
    assert [("started", None), ("committed", "failed")] == [(r["status"], r.get("persistence")) for r in receipts]
    assert account["outcome"]["finishReason"] == "result_not_kept"


@pytest.mark.skipif(sys.platform == "win32", reason="the limit on a file's size is POSIX")
def test_with_room_again_a_person_brings_the_result_and_nothing_is_paid_twice(folder: Path) -> None:
    """Room alone settles nothing: the answer is gone, so a resume waits until somebody gives it."""
    go(folder, "full", "run")
    waiting = go(folder, "free", "resume").returncode
    home = clew.Home(folder / ".clew")
    home.settle("r1", clew.Happened({"statement": "short"}), by="ann", reason="the bank's statement")
    ended = go(folder, "free", "resume").returncode

    assert (21, 0) == (waiting, ended)
    assert (folder / "books").read_text("utf-8") == "1042\n"
    assert clew.Home(folder / ".clew").result("r1").output == "5"
