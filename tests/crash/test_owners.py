"""Many that want one journal, and a journal that is taken away under its writer: one wins, nobody is overwritten."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.errors import Storage
from clew.stores.jsonl import FileRunStore
from tests.crash.counts import some
from tests.crash.judge import records_of
from tests.crash.sweep import in_memory
from tests.house.tree import ROOT
from tests.stores.lab import Hand

RACER = """
import sys
from pathlib import Path
from clew.errors import Held
from clew.stores.jsonl import FileRunStore
from tests.stores.lab import go_on

root, wanted = Path(sys.argv[1]), int(sys.argv[2])
store, won = FileRunStore(root), 0
print("ready", flush=True)
sys.stdin.readline()
while won < wanted:
    try:
        writer = store.open("r1", wait_s=0.0)
    except Held as held:
        assert held.code == "run_state_locked", held
        continue
    hand = go_on(writer)
    writer.append(hand.batch({"n": won}))
    writer.close()
    won += 1
"""


def raced(root: Path, racers: int, each: int) -> list[int]:
    """So many processes append so often, each opening the journal anew; the sequences that stand there in the end."""
    hand = Hand()
    FileRunStore(root).create("r1", hand.start(FileRunStore(root))).close()
    command = [sys.executable, "-c", RACER, str(root), str(each)]
    pipe = subprocess.PIPE
    live = [subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) for _ in range(racers)]
    for process in live:
        assert process.stdout is not None
        process.stdout.readline()
    for process in live:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [0] * racers == [process.wait(timeout=300) for process in live]
    for process in live:
        process.communicate(timeout=30)
    return [sequence for sequence, _ in records_of(FileRunStore(root), "r1")[0]]


@pytest.mark.parametrize("racers", [3])
def test_of_many_that_race_for_a_journal_each_appends_alone(racers: int) -> None:
    """Promise 4, in small: consecutive, nothing lost, nothing overwritten."""
    with in_memory() as folder:
        found = raced(folder / "home", racers, 8)

    assert list(range(1, len(found) + 1)) == found
    assert racers * 8 <= len(found)


@pytest.mark.crash
@pytest.mark.parametrize("racers", [2, 3, 4, 6, 8])
def test_of_many_that_race_for_long_each_appends_alone(racers: int) -> None:
    """Row 17: 2 to 8 processes, 2,000 rounds (10,000 by `make crash-full`)."""
    each = some(400, 2_000) // racers

    with in_memory() as folder:
        found = raced(folder / "home", racers, each)

    assert list(range(1, len(found) + 1)) == found
    assert racers * each <= len(found)


def _removed(path: Path) -> None:
    path.unlink()


def _replaced(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".copy"))
    os.replace(path.with_suffix(".copy"), path)


def _restored(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1].rpartition(b"\n")[0] + b"\n")


def _grown(path: Path) -> None:
    with path.open("ab") as journal:
        journal.write(b"\n")


def _linked(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


@pytest.mark.parametrize("change", [_removed, _replaced, _restored, _grown, _linked])
def test_a_journal_that_is_taken_away_stops_its_writer_at_the_next_start(change: Callable[[Path], None]) -> None:
    """Row 20: each change behind each of twenty appends; no effect starts on what is not the run's journal any more."""
    codes = []
    for appends in range(20):
        with in_memory() as folder:
            store, hand = FileRunStore(folder / "home"), Hand()
            writer = store.create("r1", hand.start(store))
            for number in range(appends):
                writer.append(hand.batch({"n": number}))
            change(Path(store.locate("r1")))

            with pytest.raises(Storage) as caught:
                writer.append(hand.batch({"n": "late"}), starts_effect=True)

            codes.append((caught.value.code, writer.poisoned))
            writer.close()

    assert [("journal_replaced", True)] * 20 == codes
