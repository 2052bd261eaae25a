"""A home on a disk that is really full: facts outlive their content, artifacts are refused, a prune frees room."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.stores.blobs import FileBlobStore

AGENT = """
import os
import sys
from pathlib import Path

import clew


def fill(left):
    disk = os.statvfs(".clew")
    room = disk.f_bavail * disk.f_frsize - left
    if room > 0:
        with Path(".clew/ballast").open("wb") as ballast:
            ballast.write(bytes(room))


@clew.tool(effect="external")
def pay(order: str) -> dict:
    with Path("books").open("a") as books:
        books.write(order + "\\n")
    fill(128 * 1024)
    return {"statement": os.urandom(300_000).hex()}


@clew.agent(tools=[pay])
def settle(run: clew.SyncRun, prompt: str) -> str:
    return str(len(run.call(pay, order="1042")["statement"]))


@clew.agent
def keep(run: clew.SyncRun, prompt: str) -> list:
    run.artifact("small", "fits")
    fill(128 * 1024)
    told = []
    for content in (os.urandom(400_000), Path("large").absolute()):
        try:
            run.artifact("large", content)
        except clew.Storage as fault:
            told.append(fault.code)
    Path(".clew/ballast").unlink()
    told.append(run.artifact("large", Path("large").absolute()).size_bytes)
    return told


if __name__ == "__main__":
    home = clew.Home(".clew", workspace=".")
    agent = {"settle": settle, "keep": keep}[sys.argv[1]]
    result = home.run_sync(agent, "go", run_id="r1") if sys.argv[2] == "run" else home.resume_sync("r1", agent)
    print(result.output)
    sys.exit(result.exit_code)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the agent in it, its home on a tmpfs of 2 MiB."""
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    home = tmp_path / ".clew"
    home.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(home)], check=False, capture_output=True
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip("only root may mount a small file system, and not everywhere")
    yield tmp_path
    subprocess.run(["umount", str(home)], check=True)


def go(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """The agent in a process of its own."""
    command = [sys.executable, "agent.py", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there is no tmpfs"),
    pytest.mark.skipif(sys.platform != "win32" and os.geteuid() != 0, reason="only root may mount"),
]


def test_a_disk_that_fills_up_with_the_payment_keeps_the_fact(folder: Path) -> None:
    """`persistence: failed`, and the run waits; with room again a person brings the answer, nothing is paid twice."""
    done = go(folder, "settle", "run")
    account = clew.Home(folder / ".clew").result("r1").snapshot
    receipts = [entry["event"] for entry in account["trace"] if entry["event"]["type"] == "effect_receipt"]
    (folder / ".clew" / "ballast").unlink()
    waiting = go(folder, "settle", "resume").returncode
    clew.Home(folder / ".clew").settle("r1", clew.Happened({"statement": "short"}), by="ann", reason="the statement")
    ended = go(folder, "settle", "resume")

    assert (21, "") == (done.returncode, done.stderr)
    assert [("started", None), ("committed", "failed")] == [(r["status"], r.get("persistence")) for r in receipts]
    assert "result_not_kept" == account["outcome"]["finishReason"]
    assert (21, 0, "5\n", "1042\n") == (waiting, ended.returncode, ended.stdout, (folder / "books").read_text("utf-8"))


def test_an_artifact_for_which_there_is_no_room_is_refused_and_not_recorded(folder: Path) -> None:
    """Bytes and a file alike; the run goes on, and with room again the same name is free."""
    (folder / "large").write_bytes(os.urandom(900_000))
    done = go(folder, "keep", "run")
    rows = clew.Home(folder / ".clew").artifacts("r1")
    left = [path.name for path in (folder / ".clew").rglob("*.tmp")]

    assert (0, "['disk_full', 'disk_full', 900000]\n", "") == (done.returncode, done.stdout, done.stderr)
    assert ([("small", 4), ("large", 900_000)], []) == ([(row["name"], row["sizeBytes"]) for row in rows], left)


def test_a_prune_frees_room_on_a_disk_that_is_full(folder: Path) -> None:
    """The halves of the dead need no record, and make room for the one that all else needs."""
    (folder / "large").write_bytes(os.urandom(500_000))
    go(folder, "keep", "run")
    home = folder / ".clew"
    orphan = FileBlobStore(home).put(os.urandom(200_000))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait(60)
    (home / "blobs" / f".draft.{dead.pid}-1.tmp").write_bytes(bytes(100_000))
    with (home / "ballast").open("wb", buffering=0) as ballast:
        disk = os.statvfs(home)
        ballast.write(bytes(disk.f_bavail * disk.f_frsize))
    before = os.statvfs(home).f_bavail
    report = clew.Home(home).prune()

    assert (0, {"unreferenced", "temp"}) == (before, set(report["went"]))
    assert (300_000, False) == (report["freedBytes"], FileBlobStore(home).has(orphan))
