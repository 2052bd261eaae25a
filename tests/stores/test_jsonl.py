"""Runs as files, with real processes: who may write, what a reader leaves, what a death leaves."""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clew.core.records import Head
from clew.disk import append, presence
from clew.errors import Corrupt, Held, NotFound, Refused, Storage
from clew.stores import jsonl
from clew.stores.base import BlobStore, Command, CommandAnswer, RunStore
from clew.stores.blobs import FileBlobStore
from clew.stores.jsonl import FileRunStore, FileRunWriter
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from tests.disk.living import calls_of, interrupted_at, living, output_of
from tests.dying import dying
from tests.stores.lab import FileLab, Hand, code_of, go_on, read_all

PROTOCOLS: tuple[list[RunStore], list[BlobStore]] = (
    [FileRunStore(Path()), MemoryRunStore()],
    [FileBlobStore(Path()), MemoryBlobStore()],
)


@pytest.fixture
def lab(tmp_path: Path) -> FileLab:
    return FileLab(tmp_path)


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def writer(lab: FileLab, hand: Hand) -> Iterator[FileRunWriter]:
    writer = lab.store.create("r1", hand.start(lab.store))
    yield writer
    writer.close()


def snapshot_of(root: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {path: path.stat() for path in sorted(root.rglob("*"))}
    return {
        str(path): (stat.st_mtime_ns, stat.st_ino, path.read_bytes() if path.is_file() else b"")
        for path, stat in found.items()
    }


# --------------------------------------------------------------------------------------------------------------- layout


def test_making_a_store_touches_nothing(lab: FileLab, tmp_path: Path) -> None:
    """A program that only asks leaves no folder behind."""
    found = (lab.store.ids(), lab.store.head("r1"), list(tmp_path.iterdir()))

    assert found == ([], None, [])


def test_the_layout_is_the_documented_one(lab: FileLab, writer: FileRunWriter, hand: Hand) -> None:
    """Anyone can read it without clew."""
    writer.publish_head(hand.head(9))
    lab.store.post(Command(1, "c1", "r1", "pause", "ann", "lunch"))
    lab.store.answer("r1", CommandAnswer("c1", "applied"))

    found = sorted(str(path.relative_to(lab.root)) for path in lab.root.rglob("*"))

    inbox = ["runs/r1/inbox", "runs/r1/inbox/c1.answer.json", "runs/r1/inbox/c1.json"]
    assert found == [".gitignore", "home.json", "lock", "runs", "runs/r1", "runs/r1.jsonl", "runs/r1/head.json", *inbox]


def test_folders_and_files_are_for_their_user_alone(lab: FileLab, writer: FileRunWriter, hand: Hand) -> None:
    """Arguments and answers are in them."""
    writer.publish_head(hand.head())

    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in [lab.root, *lab.root.rglob("*")]}

    assert modes == {True: 0o700, False: 0o600}


def test_other_names_in_the_folder_are_no_runs(lab: FileLab, writer: FileRunWriter) -> None:
    """Temp files, notes and copies lie there as well."""
    for name in (".r2.jsonl.1-1.tmp", "notes.txt", "a b.jsonl", ".jsonl"):
        (lab.root / "runs" / name).write_bytes(b"")

    assert (lab.store.ids(), lab.store.locate("r1")) == (["r1"], str(lab.path("r1")))


@pytest.mark.parametrize("place", ["runs", "runs/r1.jsonl", "runs/r1"])
def test_a_link_below_the_home_is_refused(lab: FileLab, writer: FileRunWriter, hand: Hand, place: str) -> None:
    """What it leads to is not this home's."""
    writer.publish_head(hand.head())
    writer.close()
    path, moved = lab.root / place, lab.root / "moved"
    path.rename(moved)
    path.symlink_to(moved)

    deeds = (lab.store.read, lab.store.open, lab.store.pending, lambda run_id: lab.store.answered(run_id, "c1"))
    codes = {code_of(partial(deed, "r1"), Refused) for deed in deeds}

    assert codes == {"home_link_refused"}


@pytest.mark.parametrize("place", ["runs", "runs/r2"])
def test_no_run_is_listed_or_born_through_a_link(lab: FileLab, writer: FileRunWriter, place: str) -> None:
    """Where it leads, nobody looks for it again. The same store was there before the link, and looks each time."""
    moved = lab.root / "moved"
    (lab.root / "runs").rename(moved)
    (lab.root / place).parent.mkdir(exist_ok=True)
    (lab.root / place).symlink_to(moved)
    birth = partial(lab.store.create, "r2", Hand("r2").start(lab.store))

    deeds = (birth, partial(lab.store.head, "r2"), lab.store.ids if place == "runs" else birth)
    codes = {code_of(deed, Refused) for deed in deeds}

    assert ({"home_link_refused"}, []) == (codes, list(moved.glob("r2*")))


def test_a_home_that_is_a_link_works(lab: FileLab, writer: FileRunWriter, tmp_path: Path) -> None:
    """People put it on another disk."""
    (tmp_path / "home").symlink_to(lab.root)

    records, _ = read_all(FileRunStore(tmp_path / "home").read("r1"))

    assert len(records) == 1


# -------------------------------------------------------------------------------------------------------------- readers


def test_readers_leave_every_byte_and_time(lab: FileLab, writer: FileRunWriter, hand: Hand) -> None:
    """Looking at evidence must not change it, also when its end is torn."""
    writer.publish_head(hand.head())
    lab.store.post(Command(1, "c1", "r1", "pause", "ann", "lunch"))
    writer.close()
    with lab.path("r1").open("ab") as journal:
        journal.write(hand.batch({"n": 1}).data[:-9])
    before = snapshot_of(lab.root)

    _, tail = read_all(lab.store.read("r1"))
    lab.store.record_at("r1", 0)
    lab.store.pending("r1"), lab.store.head("r1"), lab.store.ids(), lab.store.size_bytes("r1")

    assert (tail.verdict, snapshot_of(lab.root)) == ("being_written", before)


def test_reading_takes_no_lock(lab: FileLab, writer: FileRunWriter) -> None:
    """Contract #20 as DESIGN §13 has it, W7: a screen that shows a run must not keep its writer out."""
    writer.close()
    reading = iter(lab.store.read("r1"))
    next(reading)

    other = lab.store.open("r1", wait_s=0.0)

    assert other.poisoned is False
    other.close()


@pytest.mark.parametrize("content", [b"", b"{", b'{"sequence":"1","chain":"x","sizeBytes":1,"row":{}}', b"[]"])
def test_a_damaged_head_refuses_the_run(lab: FileLab, writer: FileRunWriter, hand: Hand, content: bytes) -> None:
    """Without it nobody knows what was acknowledged, so nothing may be cut or continued."""
    writer.publish_head(hand.head())
    writer.close()
    (lab.root / "runs" / "r1" / "head.json").write_bytes(content)

    codes = [code_of(lambda: lab.store.head("r1"), Corrupt), code_of(lambda: lab.store.read("r1"), Corrupt)]
    codes += [code_of(lambda: lab.store.open("r1"), Corrupt), code_of(lambda: lab.store.open("r1"), Corrupt)]

    assert codes == ["head_corrupt"] * 4


def test_a_journal_that_vanishes_while_it_is_read_is_a_typed_error(lab: FileLab, writer: FileRunWriter) -> None:
    """Contract #42: somebody removed the home under a running screen."""
    reading = lab.store.read("r1")
    lab.path("r1").unlink()

    assert code_of(lambda: list(reading), Storage) == "run_state_failed"


# -------------------------------------------------------------------------------------------------------------- writers


@pytest.mark.parametrize("change", ["removed", "replaced", "grown", "cut"])
def test_a_journal_that_somebody_else_touched_stops_its_writer(
    lab: FileLab, writer: FileRunWriter, hand: Hand, change: str
) -> None:
    """At the next append at the latest, and before an effect starts."""
    path, data = lab.path("r1"), lab.raw("r1")
    if change == "removed":
        path.unlink()
    if change == "replaced":
        path.rename(lab.root / "moved")
        path.write_bytes(data)
    if change in ("grown", "cut"):
        os.truncate(path, len(data) + (1 if change == "grown" else -1))

    code = code_of(lambda: writer.append(hand.batch({"n": 1}), starts_effect=True), Storage)

    assert (code, writer.poisoned) == ("journal_replaced", True)


def test_a_head_never_goes_back(lab: FileLab, writer: FileRunWriter, hand: Hand) -> None:
    """A lower bound that sank would let acknowledged records vanish."""
    first = hand.head()
    writer.append(hand.batch({"n": 1}))
    writer.publish_head(hand.head())

    with pytest.raises(AssertionError):
        writer.publish_head(first)


def test_a_head_names_nothing_that_is_not_acknowledged(lab: FileLab, writer: FileRunWriter) -> None:
    """It would make a legal journal corrupt."""
    with pytest.raises(AssertionError):
        writer.publish_head(Head(2, "0" * 64, 0, {}))


def test_an_interrupt_anywhere_never_puts_a_record_twice_or_half(lab: FileLab) -> None:
    """The caller tries the same batch again; the writer refuses, or it was not there yet. Every journal stays whole."""
    nth, broken = 1, []
    while True:
        run_id = f"r{nth}"
        hand = Hand(run_id)
        writer = lab.store.create(run_id, hand.start(lab.store))
        batch = hand.batch({"n": 1}, {"n": 2})
        reached = interrupted_at(nth, (jsonl, append), writer.append, batch, starts_effect=True)
        if reached:
            with suppress(Storage):
                writer.append(batch)
        writer.close()
        records, tail = read_all(lab.store.read(run_id))
        if (len(records), tail.verdict) not in [(1, "clean"), (3, "clean")]:
            broken.append((nth, len(records), tail))
        if not reached:
            break
        nth += 1

    assert (broken, nth > 100) == ([], True)


SHORT = """
import resource, sys
from pathlib import Path
from clew.errors import Storage
from tests.stores.lab import FileLab, Hand, go_on, read_all
lab = FileLab(Path(sys.argv[1]))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
length = len(Hand().batch({"n": 1}, {"n": 2}).data) - 20
for room in range(0, length, 3):
    hand = Hand(f"r{room}")
    writer = lab.store.create(hand.run_id, hand.start(lab.store))
    resource.setrlimit(resource.RLIMIT_FSIZE, (writer.size_bytes + room, hard))
    codes = []
    for _ in range(2):
        try:
            writer.append(hand.batch({"n": 1}, {"n": 2}))
        except Storage as error:
            codes.append(error.code)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    writer.close()
    heir = lab.store.open(hand.run_id)
    after = go_on(heir)
    heir.append(after.batch({"n": 3}))
    heir.close()
    records, tail = read_all(lab.store.read(hand.run_id))
    print(*codes, len(records) in (2, 3), tail.verdict)
"""


def test_a_write_that_is_short_at_any_length_is_repaired(lab: FileLab, tmp_path: Path) -> None:
    """Contract #42: a disk that fills up cuts wherever it likes; the writer is dead, the next one goes on."""
    said = output_of(SHORT, tmp_path)

    assert (set(said), len(said) > 50) == ({"run_state_failed fact_ledger_poisoned True clean"}, True)


def test_a_writer_reads_the_device_and_not_the_cache(lab: FileLab, writer: FileRunWriter) -> None:
    """After a failed sync the cache still shows what the disk never got."""
    assert calls_of(writer.read) == ["fsync", "posix_fadvise"]


def test_the_next_writer_reads_through_its_own_descriptor(lab: FileLab, writer: FileRunWriter) -> None:
    """What it judges is the file that it has locked, not the one that has its name now."""
    writer.close()
    again = lab.store.open("r1")
    lab.path("r1").rename(lab.root / "moved")

    records, tail = read_all(again.read())

    proofs = {proof.proof: proof.answer for proof in again.prove(records[0].payload["leg"])}
    assert (len(records), tail.verdict, proofs["same_inode"]) == (1, "clean", "no")
    again.close()


# ------------------------------------------------------------------------------------------------------- real processes

WRITER = """
import sys
from pathlib import Path
from tests.stores.lab import FileLab, Hand
lab, hand = FileLab(Path(sys.argv[1])), Hand()
writer = lab.store.create("r1", hand.start(lab.store))
print("born", flush=True)
sys.stdin.readline()
while True:
    writer.append(hand.batch({"n": hand.sequence}, {"pad": "x" * 700}))
    print(hand.sequence, flush=True)
"""


def leg_of(lab: FileLab) -> dict[str, Any]:
    reading = lab.store.read("r1")
    for _ in reading:
        pass
    return reading.leg or {}


def test_a_stopped_process_keeps_its_run(lab: FileLab, tmp_path: Path) -> None:
    """Contract #31, #34, W4: it is not dead, and it would write when it is continued."""
    with living(WRITER, tmp_path) as process:
        process.says()
        process.stop()

        with pytest.raises(Held) as caught:
            lab.store.open("r1", wait_s=0.05)

    assert (caught.value.facts["state"], caught.value.facts["owner"]["pid"]) == ("stopped", process.pid)


def test_a_killed_process_frees_its_run_and_is_proved_gone(lab: FileLab, tmp_path: Path) -> None:
    """Contract #33 as DESIGN §13 has it: the four proofs, with the facts that the journal will quote."""
    with living(WRITER, tmp_path) as process:
        process.says()
        before = lab.store.owner_state(leg_of(lab))
        process.kill()
    leg = leg_of(lab)

    heir = lab.store.open("r1")
    proofs = heir.prove(leg)

    assert (before, lab.store.owner_state(leg)) == ("alive", "gone")
    assert [proof.answer for proof in proofs] == ["yes", "yes", "yes", "yes"]
    assert proofs[3].fact == f"no process {leg['pid']} with start tick {leg['startTick']}"
    heir.close()


def killed_while_writing(lab: FileLab, folder: Path, appends: int) -> tuple[int, int, str]:
    """What a process acknowledged before SIGKILL, how many records there are, and the end after repair."""
    with living(WRITER, folder) as process:
        process.says()
        process.go_on()
        said = ["1", *(process.says() for _ in range(appends))]
        process.kill()
        assert process.process.stdout is not None
        said += process.process.stdout.read().split()
    acknowledged = int(said[-1])
    heir = lab.store.open("r1")
    hand = go_on(heir)
    heir.append(hand.batch({"n": 0}))
    heir.close()
    records, tail = read_all(lab.store.read("r1"))
    return acknowledged, len(records), tail.verdict


@pytest.mark.parametrize("appends", [0, 1, 7])
def test_what_a_killed_writer_acknowledged_is_there(lab: FileLab, tmp_path: Path, appends: int) -> None:
    """Contract #51: all of it, and at most one append more, which nobody was told of."""
    acknowledged, records, verdict = killed_while_writing(lab, tmp_path, appends)

    assert (acknowledged < records <= acknowledged + 3, verdict) == (True, "clean")


@pytest.mark.crash
@pytest.mark.parametrize("round_", range(100))
def test_many_killed_writers_lose_nothing(lab: FileLab, tmp_path: Path, round_: int) -> None:
    """The same at a hundred moments."""
    acknowledged, records, verdict = killed_while_writing(lab, tmp_path, round_ % 13)

    assert (acknowledged < records <= acknowledged + 3, verdict) == (True, "clean")


def test_a_reader_beside_a_busy_writer_sees_whole_records_only(lab: FileLab, tmp_path: Path) -> None:
    """Never corrupt, never fewer than before: `clew show -f` while the run goes on."""
    counts, verdicts = [0], set()
    with living(WRITER, tmp_path) as process:
        process.says()
        process.go_on()
        while counts[-1] < 200:
            records, tail = read_all(lab.store.read("r1"))
            counts.append(len(records))
            verdicts.add(tail.verdict)

    assert (counts == sorted(counts), verdicts <= {"clean", "being_written"}) == (True, True)


CREATOR = """
import sys
from pathlib import Path
from clew.errors import Refused
from tests.stores.lab import FileLab, Hand
lab, won = FileLab(Path(sys.argv[1])), []
print("ready", flush=True)
sys.stdin.readline()
for n in range(60):
    try:
        lab.store.create(f"r{n}", Hand(f"r{n}").start(lab.store, sys.argv[2])).close()
        won.append(n)
    except Refused as error:
        assert error.code == "run_id_conflict"
print(*won, flush=True)
"""


def test_of_two_processes_that_begin_a_run_one_does(lab: FileLab, tmp_path: Path) -> None:
    """Each run has one first leg, and the other process is told so."""
    with living(CREATOR, tmp_path, "a") as first, living(CREATOR, tmp_path, "b") as second:
        ready = [first.says(), second.says()]
        first.go_on()
        second.go_on()
        won = {letter: {int(n) for n in process.says().split()} for letter, process in (("a", first), ("b", second))}

    legs = {n: read_all(lab.store.read(f"r{n}"))[0][0].payload["leg"]["nonce"] for n in range(60)}
    assert (ready, won["a"] | won["b"], won["a"] & won["b"]) == (["ready", "ready"], set(range(60)), set())
    assert legs == {n: "a" if n in won["a"] else "b" for n in range(60)}


OPENER = """
import sys
from pathlib import Path
from clew.errors import Held
from tests.stores.lab import FileLab, go_on
lab = FileLab(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
done = 0
while done < 40:
    try:
        writer = lab.store.open("r1", wait_s=5.0)
    except Held:
        continue
    hand = go_on(writer)
    writer.append(hand.batch({"n": done}))
    writer.close()
    done += 1
print("done", flush=True)
"""


def test_writers_that_take_turns_never_overwrite_each_other(
    lab: FileLab, writer: FileRunWriter, tmp_path: Path
) -> None:
    """Every acknowledged record of both is there, in one order."""
    writer.close()
    with living(OPENER, tmp_path) as first, living(OPENER, tmp_path) as second:
        for process in (first, second):
            process.says()
        for process in (first, second):
            process.go_on()
        ends = [first.says(), second.says()]

    records, tail = read_all(lab.store.read("r1"))

    assert (ends, len(records), tail.verdict) == (["done", "done"], 81, "clean")


AS_USER = """
import os, sys
from pathlib import Path
from clew.errors import ClewError
from clew.stores.jsonl import FileRunStore
os.chdir(sys.argv[1])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
store = FileRunStore(Path("."))
print(len(list(store.read("r1"))))
try:
    store.open("r1")
except ClewError as error:
    print(error.code)
"""


def test_who_may_only_read_can_read_and_is_told_why_not_more(
    lab: FileLab, writer: FileRunWriter, tmp_path: Path
) -> None:
    """An auditor's account: looking works, writing is a typed refusal."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    writer.close()
    for path in [lab.root, *lab.root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)

    said = output_of(AS_USER, lab.root)

    assert said == ["1", "storage_denied"]


def test_a_run_folder_without_a_journal_is_no_run(lab: FileLab, writer: FileRunWriter, hand: Hand) -> None:
    """Its head stays behind when somebody removes the journal; that is not a run to continue."""
    writer.publish_head(hand.head())
    writer.close()
    lab.path("r1").unlink()

    assert (code_of(lambda: lab.store.open("r1"), NotFound), lab.store.ids()) == ("unknown_run", [])


# ------------------------------------------------------------------------------------------------------- a dying device


def test_after_a_real_failed_sync_the_device_is_believed_and_not_the_cache(tmp_path: Path) -> None:
    """The kernel reports a lost page once, and shows it as if it were there: only what was acknowledged may count."""
    with dying(tmp_path) as device:
        lab, hand = FileLab(device.mounted), Hand()
        writer = lab.store.create("r1", hand.start(lab.store))
        codes, acknowledged = list[str](), 1
        while not codes:
            try:
                writer.append(hand.batch({"pad": "x" * 300_000}))
                acknowledged = hand.sequence
            except Storage as error:
                codes.append(error.code)
        codes.append(code_of(lambda: writer.append(hand.batch({"n": 1})), Storage))
        writer.close()
        heir = lab.store.open("r1")

        try:
            found = len(read_all(heir.read())[0])
        except Storage:
            found = acknowledged

        heir.close()
        assert (codes, found) == (["durability_barrier_failed", "fact_ledger_poisoned"], acknowledged)


def test_a_journal_that_became_empty_below_its_head_is_damage_not_absence(
    lab: FileLab, writer: FileRunWriter, hand: Hand
) -> None:
    """To call it "no such run" would hide that all of it is lost."""
    writer.publish_head(hand.head())
    writer.close()
    (lab.root / "runs" / "r1.jsonl").write_bytes(b"")

    with pytest.raises(Corrupt) as caught:
        list(lab.store.read("r1"))

    assert "run_state_corrupt" == caught.value.code


def test_a_journal_without_its_folder_keeps_its_name_from_others(tmp_path: Path) -> None:
    """One that was copied here alone has no folder; where case is ignored another spelling would be the same file."""
    root = tmp_path / ".clew"
    store = FileRunStore(root)
    store.create("A1", Hand("A1").start(store)).close()
    for folder in (root / "runs").iterdir():
        if folder.is_dir():
            folder.rmdir()

    again = FileRunStore(root)
    with pytest.raises(Refused) as refused:
        again.create("a1", Hand("a1").start(again))

    assert "run_id_conflict" == refused.value.code


def test_a_refused_spelling_leaves_nothing_behind(tmp_path: Path) -> None:
    """What is refused was never there, for whoever lists the folder too."""
    store = FileRunStore(tmp_path / ".clew")
    store.create("a1", Hand("a1").start(store)).close()

    with pytest.raises(Refused):
        store.create("A1", Hand("A1").start(store))

    assert ["a1", "a1.jsonl"] == sorted(path.name for path in (tmp_path / ".clew" / "runs").iterdir())


# --------------------------------------------------------------------------- between a look and what rests on it


def test_a_journal_that_came_behind_the_look_is_not_replaced(
    lab: FileLab, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process began the same run between our look and our birth."""
    batch, born = hand.start(lab.store), append.birth

    def late(path: Path, data: bytes, naming: Any) -> Any:
        path.write_bytes(b"theirs")
        return born(path, data, naming)

    monkeypatch.setattr(jsonl, "birth", late)

    code = code_of(lambda: lab.store.create("r1", batch), Refused)

    assert ("run_id_conflict", b"theirs") == (code, Path(lab.store.locate("r1")).read_bytes())


def test_a_journal_that_went_behind_the_look_is_unknown(
    lab: FileLab, writer: FileRunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever removed it meant the run; nothing is made in its place."""
    writer.close()
    path, join = Path(lab.store.locate("r1")), presence.join

    def late(lock: Path, wait_s: float) -> Any:
        path.unlink()
        return join(lock, wait_s)

    monkeypatch.setattr(presence, "join", late)

    code = code_of(lambda: lab.store.open("r1"), NotFound)

    assert ("unknown_run", False) == (code, path.exists())


def test_files_in_an_inbox_that_hold_no_command_are_named(lab: FileLab, writer: FileRunWriter) -> None:
    """A person must look at them; a command that was spoiled would otherwise be waited for without end."""
    spoiled = lab.root / "runs" / "r1" / "inbox" / "c1.json"
    spoiled.parent.mkdir(parents=True)
    spoiled.write_bytes(b"{")

    assert [str(spoiled)] == list(lab.store.unreadable_commands("r1"))
