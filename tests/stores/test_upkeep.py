"""Looking after a home: what lies there, what is recorded before it goes, what is left when a death strikes amid it."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.core.pruning import Drop
from clew.disk import files
from clew.errors import Corrupt, Held, NotFound, Refused, Storage
from clew.stores.base import BlobStore, Leftover, Pruning, Upkeep
from clew.stores.blobs import FileBlobStore
from clew.stores.jsonl import FileRunStore
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.stores.upkeep import FileUpkeep, MemoryUpkeep
from clew.testing.faults import Strikes, failing_call
from clew.testing.storelab import Hand

ME = {"pid": 7}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pruning(*drops: tuple[str, str], at: str = "2026-11-29T14:00:00.000Z") -> Pruning:
    """The record of a prune: each a digest and the run that had it."""
    return Pruning(1, at, ME, {}, [Drop(sha256, "quota", (run,), 1) for sha256, run in drops])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A home with one run in it, whose leg has ended."""
    root = tmp_path / ".clew"
    store = FileRunStore(root)
    store.create("r1", Hand().start(store)).close()
    return root


@pytest.fixture
def blobs(root: Path) -> FileBlobStore:
    return FileBlobStore(root)


@pytest.fixture
def upkeep(root: Path) -> FileUpkeep:
    return FileUpkeep(root)


def packed(blobs: FileBlobStore, *contents: bytes) -> list[str]:
    """These in one pack."""
    with blobs.pack() as pack:
        return [pack.keep([content]).sha256 for content in contents]


def packs(root: Path) -> list[str]:
    return sorted(os.listdir(root / "blobs" / "packs"))


# Both homes.


def memory_home(tmp_path: Path) -> tuple[Upkeep, BlobStore, Any]:
    store, blobs = MemoryRunStore(), MemoryBlobStore()
    return MemoryUpkeep(store, blobs), blobs, store


def file_home(tmp_path: Path) -> tuple[Upkeep, BlobStore, Any]:
    root = tmp_path / ".clew"
    return FileUpkeep(root), FileBlobStore(root), FileRunStore(root)


BOTH = pytest.mark.parametrize("make", [memory_home, file_home])
Make = Callable[[Path], tuple[Upkeep, BlobStore, Any]]


@BOTH
def test_a_blob_is_in_stock_until_it_is_dropped(make: Make, tmp_path: Path) -> None:
    """Dropped twice it is gone once."""
    upkeep, blobs, store = make(tmp_path)
    store.create("r1", Hand().start(store)).close()
    a, b = blobs.put(b"aaa"), blobs.put(b"bbbbb")
    before = upkeep.stock()
    freed = upkeep.drop([a]), upkeep.drop([a])

    assert ({a: 3, b: 5}, (3, 0), {b: 5}) == (before, freed, upkeep.stock())
    with pytest.raises(NotFound):
        blobs.get(a)


@BOTH
def test_a_leg_keeps_everybody_from_being_alone(make: Make, tmp_path: Path) -> None:
    """And the other way round, in one process as between two."""
    upkeep, _, store = make(tmp_path)
    writer = store.create("r1", Hand().start(store))
    with upkeep.alone(ME) as beside_a_leg:
        pass
    writer.close()
    with upkeep.alone(ME) as is_alone, pytest.raises(Held) as caught:
        store.open("r1", wait_s=0)

    assert (False, True, "home_being_pruned") == (beside_a_leg, is_alone, caught.value.code)
    store.open("r1").close()


@BOTH
def test_a_run_is_told_when_its_content_was_pruned(make: Make, tmp_path: Path) -> None:
    """The last time counts; another run is told nothing."""
    upkeep, _, store = make(tmp_path)
    store.create("r1", Hand().start(store)).close()
    upkeep.note(pruning(("a" * 64, "r1"), ("b" * 64, "r2")))
    upkeep.note(pruning(("a" * 64, "r1"), at="2026-12-01T00:00:00.000Z"))

    assert {"a" * 64: "2026-12-01T00:00:00.000Z"} == dict(upkeep.pruned("r1"))
    assert ({"b" * 64}, {}) == (set(upkeep.pruned("r2")), dict(upkeep.pruned("r3")))


def test_a_cut_end_in_memory_goes_as_well() -> None:
    """The reference store has what the files have."""
    store = MemoryRunStore()
    hand = Hand()
    store.create("r1", hand.start(store)).close()
    store.implant("r1", store.raw("r1") + b'{"version":1,"runId":"r1","sequence":2,"ti')
    writer = store.open("r1")
    reading = writer.read()
    list(reading)
    writer.repair(reading.tail, 2)
    writer.close()
    upkeep = MemoryUpkeep(store, MemoryBlobStore())
    found = list(upkeep.leftovers())

    assert [("torn", "r1", 42)] == [(each.why, each.run, each.stored_bytes) for each in found]
    assert (42, []) == (upkeep.clear(found), list(upkeep.leftovers()))


# Files: what lies there.


def test_a_blob_is_counted_as_it_lies_there(blobs: FileBlobStore, upkeep: FileUpkeep) -> None:
    """What is compressed frees what it takes, not what it was; and of a pack its share with its row."""
    text = blobs.put(b"x" * 100_000)
    small = packed(blobs, b"1" * 50, b"2" * 60)
    stock = upkeep.stock()

    assert (50 + 57, 60 + 57) == (stock[small[0]], stock[small[1]])
    assert 0 < stock[text] < 2000


def test_a_home_without_blobs_has_no_stock(upkeep: FileUpkeep) -> None:
    """And nothing was ever pruned there."""
    assert ({}, [], {}) == (upkeep.stock(), list(upkeep.leftovers()), dict(upkeep.pruned("r1")))


def test_what_does_not_belong_there_is_no_stock(root: Path, blobs: FileBlobStore, upkeep: FileUpkeep) -> None:
    """A stranger's file is nobody's blob, and no prune touches it."""
    sha256 = blobs.put(b"1")
    (root / "blobs" / sha256[:2] / "notes.txt").write_text("mine")
    (root / "blobs" / "zz").mkdir()

    assert [sha256] == list(upkeep.stock())


def dead_pid() -> int:
    """A number whose process is gone."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(60)
    return done.pid


def test_halves_of_the_dead_are_left_over_and_those_of_the_living_are_not(root: Path, upkeep: FileUpkeep) -> None:
    """Wherever in the home they lie; and what only looks like one stays."""
    gone = dead_pid()
    for name in (f"blobs/.x.{gone}-1.tmp", f"runs/.r9.jsonl.{gone}-2.tmp", f"runs/r1/.head.json.{os.getpid()}-1.tmp"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"half")
    (root / "runs" / "mine.tmp").write_bytes(b"mine")
    found = list(upkeep.leftovers())

    assert {f"blobs/.x.{gone}-1.tmp", f"runs/.r9.jsonl.{gone}-2.tmp"} == {each.name for each in found}
    assert (8, []) == (upkeep.clear(found), list(upkeep.leftovers()))


def test_cut_ends_are_told_with_their_runs(root: Path, upkeep: FileUpkeep) -> None:
    """Whether they may go, others know."""
    (root / "runs" / "r1" / "torn-9-abc").write_bytes(b"12345")

    assert [Leftover("runs/r1/torn-9-abc", "torn", "r1", 5)] == list(upkeep.leftovers())


# Files: what goes.


def test_a_blob_goes_out_of_its_pack_and_the_others_stay(root: Path, blobs: FileBlobStore, upkeep: FileUpkeep) -> None:
    """The pack is written anew before the old one is removed."""
    contents = [bytes([number]) * 200_000 + os.urandom(1000) for number in range(4)]
    a, b, c, d = packed(blobs, *contents)
    old = packs(root)
    freed = upkeep.drop([b, d])
    fresh = FileBlobStore(root)

    assert (contents[0], contents[2]) == (fresh.get(a), fresh.get(c)) == (blobs.get(a), blobs.get(c))
    assert ({a, c}, True, False) == (set(upkeep.stock()), freed > 1000, set(old) <= set(packs(root)))


def test_a_pack_of_which_all_goes_is_removed(root: Path, blobs: FileBlobStore, upkeep: FileUpkeep) -> None:
    """Nothing is written for it: the disk may be full."""
    gone = packed(blobs, b"1", b"2")
    upkeep.drop(gone)

    assert ([], {}) == (packs(root), upkeep.stock())


def test_a_blob_that_lies_there_twice_goes_twice(root: Path, blobs: FileBlobStore, upkeep: FileUpkeep) -> None:
    """A death between the new pack and the old one leaves both."""
    a, b = packed(blobs, b"1" * 100, b"2" * 100)
    kept = (root / "blobs" / "packs" / packs(root)[0]).read_bytes()
    name = packs(root)[0]
    upkeep.drop([a])
    (root / "blobs" / "packs" / name).write_bytes(kept)
    upkeep.drop([a])

    assert ({b}, 1) == (set(upkeep.stock()), len(packs(root)))


def test_a_pack_with_damage_in_what_stays_is_left_as_it_is(
    root: Path, blobs: FileBlobStore, upkeep: FileUpkeep
) -> None:
    """Written anew it would lose what a person may still get out of it."""
    a, b = packed(blobs, b"1" * 100, b"2" * 100)
    path = root / "blobs" / "packs" / packs(root)[0]
    spoiled = path.read_bytes().replace(b"2" * 100, b"2" * 99 + b"3")
    path.write_bytes(spoiled)
    freed = upkeep.drop([a])

    assert (0, {a, b}, spoiled) == (freed, set(upkeep.stock()), path.read_bytes())
    assert [path.name] == packs(root)


def test_nothing_behind_a_link_is_removed(root: Path, upkeep: FileUpkeep, tmp_path: Path) -> None:
    """A folder of the home that became a link leads somewhere else."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    victim = elsewhere / ("ab" + "0" * 62)
    victim.write_bytes(b"mine")
    (root / "blobs").mkdir()
    (root / "blobs" / "ab").symlink_to(elsewhere)

    with pytest.raises(Refused, match="is a link"):
        upkeep.drop([victim.name])
    assert victim.exists()


# The record.


def test_a_record_is_published_under_a_number_of_its_own(root: Path, upkeep: FileUpkeep) -> None:
    """None is replaced: each says what went when."""
    upkeep.note(pruning(("a" * 64, "r1")))
    (root / "blobs" / "pruned" / "000003.json").write_bytes((root / "blobs" / "pruned" / "000001.json").read_bytes())
    upkeep.note(pruning(("b" * 64, "r1")))
    upkeep.note(pruning(("c" * 64, "r1")))
    text = json.loads((root / "blobs" / "pruned" / "000001.json").read_text())

    assert ["000001.json", "000003.json", "000004.json", "000005.json"] == sorted(os.listdir(root / "blobs" / "pruned"))
    assert (1, ME, "a" * 64) == (text["schemaVersion"], text["by"], text["drops"][0]["sha256"])


@pytest.mark.parametrize("data", [b"", b"{}", b"not json", b'{"schemaVersion":2}'])
def test_a_record_that_cannot_be_read_is_corrupt(root: Path, upkeep: FileUpkeep, data: bytes) -> None:
    """It is named, and nobody takes missing content for pruned by it."""
    upkeep.note(pruning(("a" * 64, "r1")))
    (root / "blobs" / "pruned" / "000001.json").write_bytes(data)

    with pytest.raises(Corrupt, match=r"000001\.json") as caught:
        upkeep.pruned("r1")
    assert "pruned_corrupt" == caught.value.code


def test_a_disk_that_refuses_the_record_lets_nothing_go(root: Path, blobs: FileBlobStore, upkeep: FileUpkeep) -> None:
    """What goes without a record is taken for damage later."""
    sha256 = blobs.put(b"1")
    upkeep.note(pruning(("a" * 64, "r1")))
    with failing_call("fsync"), pytest.raises(Storage):
        upkeep.note(pruning((sha256, "r1")))

    assert (b"1", {"a" * 64}) == (blobs.get(sha256), set(upkeep.pruned("r1")))


# Alone.


def test_a_copied_home_is_not_pruned(root: Path, tmp_path: Path) -> None:
    """Its blobs may be all that is left of what its original lost."""
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(root), str(copy)], check=True)

    with pytest.raises(Refused) as caught, FileUpkeep(copy).alone(ME):
        pass
    assert "home_copied" == caught.value.code


def test_who_is_alone_is_named_to_a_leg_that_would_begin(root: Path, upkeep: FileUpkeep) -> None:
    """So that a person knows what to wait for."""
    with upkeep.alone({"purpose": "prune", "pid": 4711}), pytest.raises(Held, match="4711"):
        FileRunStore(root).open("r1", wait_s=0)


def test_a_birth_waits_for_a_prune_no_longer_than_it_must(root: Path, upkeep: FileUpkeep) -> None:
    """Refused, with no journal of that name."""
    store = FileRunStore(root)
    with upkeep.alone(ME), pytest.raises(Held):
        store.create("r2", Hand("r2").start(store))

    assert ["r1"] == store.ids()


@pytest.mark.crash
@pytest.mark.parametrize("make", [KeyboardInterrupt, OSError])
def test_a_drop_that_is_struck_anywhere_is_done_by_the_next(root: Path, make: Any) -> None:
    """Nothing that stays is ever missing, and the second time all of it goes."""
    strikes = Strikes(make)
    number = 0
    while True:
        number += 1
        blobs, upkeep = FileBlobStore(root), FileUpkeep(root)
        salt = str(number).encode()
        alone, kept = blobs.put(b"alone" + salt), blobs.put(b"kept" + salt)
        a, b, c = packed(blobs, b"a" * 100 + salt, b"b" * 100 + salt, b"c" * 100 + salt)
        struck = strikes.strike(lambda upkeep=upkeep, gone=(alone, b): upkeep.drop(gone))  # type: ignore[misc]  # bound at once
        fresh = FileBlobStore(root)
        assert all(fresh.has(sha256) for sha256 in (kept, a, c))
        upkeep.drop([alone, b])
        assert {kept, a, c} == set(upkeep.stock())
        upkeep.drop([kept, a, c])
        if struck == "spared":
            break
    assert [] == [name for name in packs(root) if files.is_temp(name) and str(os.getpid()) not in name]
