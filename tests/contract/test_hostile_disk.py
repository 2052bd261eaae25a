"""Bad input, part 5: a home that may not be written, and a disk that is full at each append and each publish."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import clew
from tests.cli.shell import Done
from tests.contract.hostile import (
    OTHER,
    PAGE,
    RUN,
    WHO,
    Place,
    complaint,
    differences,
    fill,
    fingerprint,
    small_disk,
    stretched,
    without_rights,
)
from tests.contract.spender import RUN as SPENDS
from tests.contract.spender import agent_of, home_of
from tests.house.tree import ROOT

LOOKING = (("ls",), ("show", RUN), ("show", RUN, "--log"), ("verify",), ("resume", RUN, "--dry-run"))
ACTING = (
    ("run", "agent.py:settle", "1042", "--run-id", "new"),
    ("resume", RUN),
    ("settle", RUN, "did-not-happen", *WHO),
    ("abort", RUN, *WHO),
)


# A home that may not be written.


def bound(place: Place, *words: str) -> Done:
    """The command as a user whom the modes of files bind."""
    done = subprocess.run(
        without_rights(place.command(words)), cwd=place.folder, env=place.env, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def lock_up(folder: Path, bits: int) -> None:
    """Take these rights away from all that lies in a folder, and from itself."""
    for path in [*folder.rglob("*"), folder]:
        path.chmod(path.stat().st_mode & ~bits)


@pytest.fixture
def locked(place: Place) -> Iterator[Place]:
    """A home with a run that waits and one that died, neither of which may be written any more."""
    place.waiting()
    place.done()
    lock_up(place.home, 0o222)
    yield place
    for path in [place.folder, place.home, *place.home.rglob("*")]:
        path.chmod(0o700)


@pytest.mark.parametrize("words", ACTING, ids=lambda words: words[0])
def test_a_home_that_may_not_be_written_is_told_by_path_and_nothing_starts(
    locked: Place, words: tuple[str, ...]
) -> None:
    """Refused before the agent is called; what stands there stays as it was."""
    before = fingerprint(locked.home)

    met = complaint(bound(locked, *words))

    assert (13, "storage_denied") == (met.exit, met.code)
    assert str(locked.home) in met.message
    assert met.message.endswith("EACCES, Permission denied")
    assert "Give this user read and write access to that path." == met.next
    assert ([], ["1042", "1042"]) == (differences(before, fingerprint(locked.home)), locked.payments)


def test_a_home_that_may_not_be_written_is_read_as_ever(locked: Place) -> None:
    """Promise 11: looking needs no right to write."""
    before = fingerprint(locked.home)

    codes = [bound(locked, *words).code for words in LOOKING]

    assert ([0] * len(LOOKING), []) == (codes, differences(before, fingerprint(locked.home)))


@pytest.mark.parametrize("words", [LOOKING[0], LOOKING[1], ACTING[1]], ids=lambda words: words[0])
def test_a_home_that_may_not_be_read_is_told_by_path(locked: Place, words: tuple[str, ...]) -> None:
    """Not: there is no home. A second one beside it would be the next mistake."""
    locked.home.chmod(0)

    met = complaint(bound(locked, *words))

    assert (13, "storage_denied") == (met.exit, met.code)
    assert str(locked.home) in met.message


def test_a_folder_that_may_not_be_written_gets_no_home(place: Place) -> None:
    """The first run of a new user in a folder that is not theirs."""
    lock_up(place.folder, 0o222)
    try:
        met = complaint(bound(place, "run", "agent.py:settle", "1042"))
    finally:
        place.folder.chmod(0o700)

    assert (13, "storage_denied", False, []) == (met.exit, met.code, place.home.exists(), place.payments)
    assert str(place.home) in met.message


@pytest.mark.parametrize(
    ("home", "looked"),
    [("missing/.clew", 10), ("agent.py", 10), ("agent.py/.clew", 10), ("n" * 300, 13)],
    ids=["no folder", "a file", "below a file", "too long"],
)
def test_a_home_that_can_be_nowhere_is_told_by_path(place: Place, home: str, looked: int) -> None:
    """A slip in `--home` or `CLEW_HOME`: the path is to be looked at, not the disk, and nothing is made."""
    met = [place.refused(*words, "--home", home) for words in (("ls",), ("run", "agent.py:settle", "1042"))]

    assert [looked, 13] == [each.exit for each in met]
    assert "run_state_failed" == met[1].code
    assert [True, True] == [str(place.folder / home) in each.message for each in met]
    assert met[1].next.startswith("Check that path: ")
    assert (["agent.py"], []) == ([path.name for path in place.folder.iterdir()], place.payments)


def test_a_disk_mounted_read_only_is_told_in_the_same_way(place: Place, tmp_path: Path) -> None:
    """What a kernel does to a disk that it does not trust any more."""
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        clew.Home(disk / ".clew").run_sync(agent_of(tmp_path / "books"), "x", run_id=OTHER)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, timeout=30)
        before = fingerprint(disk)

        met = complaint(place.type("run", "agent.py:settle", "1042", "--home", str(disk / ".clew")))
        looked = place.type("verify", "--home", str(disk / ".clew"))

        assert (13, "storage_denied", 0) == (met.exit, met.code, looked.code)
        assert "EROFS" in met.message
        assert [] == differences(before, fingerprint(disk))


# A full disk.

ROOM = 64
# Shorter than the shortest append, so that between two paddings no append is jumped over.
STEP = 256


@pytest.mark.parametrize("words", ACTING, ids=lambda words: words[0])
def test_a_full_disk_is_told_by_path_with_what_to_do(place: Place, tmp_path: Path, words: tuple[str, ...]) -> None:
    """13 from each command that must write; the agent is not called, and the journal keeps every record."""
    with small_disk(tmp_path / "disk", 16 * PAGE) as disk:
        place.home.symlink_to(disk)
        place.dead()
        place.damage(stretched)
        kept = place.journal().read_bytes()
        fill(disk, 0)

        met = complaint(place(*words))
        standing = place.journal().read_bytes()
        (disk / "filler").unlink()
        again = place.type("verify", RUN).code

    assert (13, "disk_full", True) == (met.exit, met.code, f"{place.home!s}/" in met.message)
    assert met.next.startswith("Free space on that disk, then ")
    assert "`clew resume`" in met.next
    assert (True, 0, ["1042"]) == (standing.startswith(kept), again, place.payments)


class Trial(NamedTuple):
    """What is done with so many free pages, and by how many bytes the journal is shifted against them."""

    deed: str
    free: int
    pad: int


class Spender:
    """A small disk, the process that spends on it, and what was bought."""

    def __init__(self, disk: Path, folder: Path) -> None:
        self.disk = disk
        self.home = disk / ".clew"
        self.journal = self.home / "runs" / f"{SPENDS}.jsonl"
        self.books = folder / "books"
        command = [sys.executable, "-m", "tests.contract.spender", str(self.home), str(self.books)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)

    def ask(self, trial: Trial) -> dict[str, Any]:
        """Let a process of its own do it, with just so much room."""
        fill(self.disk, trial.free)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"deed": trial.deed, "pad": trial.pad}) + "\n")
        self.process.stdin.flush()
        said: dict[str, Any] = json.loads(self.process.stdout.readline())
        (self.disk / "filler").unlink(missing_ok=True)
        return said

    @property
    def paid(self) -> list[str]:
        return self.books.read_text("ascii").split() if self.books.exists() else []

    def clear(self) -> None:
        subprocess.run(["rm", "-rf", str(self.home), str(self.books)], check=True, timeout=30)

    def close(self) -> None:
        self.process.communicate(timeout=30)


@pytest.fixture(scope="module")
def spender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spender]:
    folder = tmp_path_factory.mktemp("spender")
    with small_disk(folder / "disk", ROOM * PAGE) as disk:
        found = Spender(disk, folder)
        yield found
        found.close()


def no_answer(call: clew.Call, order: str) -> str:
    """Nothing was paid, but nobody can tell."""
    raise ConnectionError("the line is dead")


def prepared(spender: Spender, trial: Trial) -> bytes:
    """What must have happened before the deed; the journal as it is then."""
    home, agent = home_of(spender.home), agent_of(spender.books)
    how: dict[str, Any] = {"run_id": SPENDS, "signals": False}
    spender.clear()
    if trial.deed == "resume":
        home.run_sync(agent, "x" * trial.pad, budget=clew.RunBudget(max_calls=1), **how)
    elif trial.deed in ("settle", "abort"):
        tool = clew.tool(effect="external", name="pay")(no_answer)

        def doubtful(run: clew.SyncRun, prompt: str) -> Any:
            return run.call(tool, order="1")

        home.run_sync(clew.Agent(doubtful, name="spend", tools=[tool]), "x" * trial.pad, **how)
    return spender.journal.read_bytes() if trial.deed != "run" else b""


def lines_of(data: bytes) -> dict[int, dict[str, Any]]:
    """The records of the whole lines, by sequence."""
    records = map(json.loads, data[: data.rfind(b"\n") + 1].splitlines())
    return {record["sequence"]: record for record in records}


class Struck(NamedTuple):
    """A trial's report: what must hold whatever was struck, and where it was."""

    ends: Any
    lost: list[int]
    unpromised: list[str]
    temp_files: list[str]
    says_what_to_do: bool
    in_the_end: tuple[str, int]
    place: tuple[str, int]


def strike(spender: Spender, trial: Trial) -> Struck:
    """Do it on a disk that may be full at any moment, look at what stands, then make room and see it through."""
    before = prepared(spender, trial)
    said = spender.ask(trial)
    data = spender.journal.read_bytes() if spender.journal.exists() else b""
    standing = lines_of(data)
    started = {key for record in standing.values() if (key := _started(record))}
    if said["end"] == "ok" and said["reason"] is None:
        assert "finish" in {record["kind"] for record in standing.values()} or trial.deed == "settle"
    return Struck(
        ends=said["end"] if said["end"] in ("ok", "disk_full") else said,
        lost=[sequence for sequence, chain in said["told"] if standing.get(sequence, {}).get("chain") != chain]
        + ([0] if not data.startswith(before) else []),
        unpromised=[key for key in spender.paid if key not in started],
        temp_files=[str(path) for path in spender.home.rglob(".*.tmp")],
        says_what_to_do=said["end"] == "ok" or "`clew " in said["next"],
        in_the_end=see_it_through(spender, trial, said["end"]),
        place=(str(said["reason"]) if said["end"] == "ok" else said["end"], len(said["told"])),
    )


def _started(record: dict[str, Any]) -> str:
    event = record["payload"].get("event")
    return str(event["idempotencyKey"]) if type(event) is dict and event.get("status") == "started" else ""


def over(home: clew.Home) -> bool:
    """Has the run ended, and is its end whole?"""
    ended = home.result(SPENDS).operation.state in ("completed", "failed")
    return ended and home.verify(SPENDS)["tail"]["verdict"] == "clean"


def see_it_through(spender: Spender, trial: Trial, end: str) -> tuple[str, int]:
    """With room again: settle as the books say, resume, and count what was paid more than once."""
    home, agent = home_of(spender.home), agent_of(spender.books)
    if not spender.journal.exists():
        home.run_sync(agent, "x", run_id=SPENDS, signals=False)
    for _ in range(6):
        for effect in home.result(SPENDS).waiting if not over(home) else ():
            paid = effect["idempotencyKey"] in spender.paid
            verdict = clew.Happened({"transfer": "T"}) if paid else clew.DidNotHappen()
            home.settle(effect["idempotencyKey"], verdict, by="ann", reason="looked into the books")
        # Of an end that was struck, its first records may stand; then whoever comes next finishes it.
        if not over(home):
            home.resume_sync(SPENDS, agent, budget=clew.RunBudget(), signals=False)
    result = home.result(SPENDS)
    assert "clean" == home.verify(SPENDS)["tail"]["verdict"]
    may_end = {"failed"} if trial.deed == "abort" and end == "ok" else {"completed", "failed"}
    assert result.operation.state in (may_end if trial.deed == "abort" else {"completed"})
    return result.operation.state, len(spender.paid) - len(set(spender.paid))


def as_it_must_be(found: Struck) -> Struck:
    """What is kept, promised and said does not depend on where it was struck."""
    ends = found.ends if found.ends in ("ok", "disk_full") else "ok or disk_full"
    return Struck(ends, [], [], [], True, (found.in_the_end[0], 0), found.place)


DEEDS = ("run", "resume", "settle", "abort")
DAILY = [Trial(deed, free, 300 * free) for deed in DEEDS for free in range(0, 11, 2)]


def test_a_full_disk_loses_nothing_and_promises_nothing(spender: Spender) -> None:
    """Promise 12: struck here and there; each report is as it must be."""
    found = [strike(spender, trial) for trial in DAILY]

    assert [as_it_must_be(each) for each in found] == found
    assert {"disk_full"} < {each.place[0] for each in found}


def test_a_command_that_finds_no_room_in_the_inbox_is_told_and_its_run_goes_on(place: Place, tmp_path: Path) -> None:
    """A published file has no room either: nothing half-written is left, and who runs does not notice."""
    with small_disk(tmp_path / "disk", 16 * PAGE) as disk:
        place.home.symlink_to(disk)
        live = place.holding(run_id=RUN)
        fill(disk, 0)
        met = complaint(place.type("pause", RUN))
        inbox = list((place.home / "runs" / RUN / "inbox").iterdir())
        (disk / "filler").unlink()
        ended = live.end()

    assert (13, "disk_full", [], 0) == (met.exit, met.code, inbox, ended.code)
    assert f"{place.home / 'runs' / RUN}/" in met.message


def boundaries(spender: Spender, deed: str) -> set[int]:
    """After how many records of the leg each of its appends begins, of a leg that nothing strikes."""
    before = len(lines_of(prepared(spender, Trial(deed, ROOM, 0))))
    spender.ask(Trial(deed, ROOM // 2, 0))
    records = [record for record in lines_of(spender.journal.read_bytes()).values() if record["sequence"] > before]
    return {record["append"] - 1 - before for record in records}


@pytest.mark.crash
@pytest.mark.parametrize("deed", DEEDS)
def test_a_full_disk_at_each_append_and_each_publish_does_neither(spender: Spender, deed: str) -> None:
    """Every append of a leg is the one that finds the disk full, and so is every file that is published beside it."""
    trials = [Trial(deed, free, pad) for free in range(14) for pad in range(0, PAGE, STEP)]

    found = [strike(spender, trial) for trial in trials]

    assert [as_it_must_be(each) for each in found] == found
    assert {"disk_full", "None"} <= {each.place[0] for each in found}
    if deed in ("run", "resume"):
        assert boundaries(spender, deed) <= {told for end, told in (each.place for each in found) if end == "disk_full"}
        assert "result_not_kept" in {each.place[0] for each in found}
