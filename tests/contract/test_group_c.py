"""Contract §3.C, what an acknowledgement is worth and what follows a failed one, as DESIGN §13 lets it stand."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from clew.core.compose import Close, Move
from clew.core.events import error, receipt
from clew.core.outcome import Outcome
from clew.core.records import Batch, Draft, Record
from clew.errors import Corrupt, Refused, Stop, Storage
from clew.runtime.journal import Journal
from clew.runtime.recovery import give_birth
from clew.stores.base import RunStore
from clew.stores.jsonl import FileRunStore
from clew.stores.memory import MemoryRunStore
from clew.testing.clock import SetClock
from clew.testing.crash import Crash, CrashPoint, crashing
from tests.disk.living import calls_of, output_of
from tests.histories import Scribe, completed, facts, failed, paused, read, start
from tests.stores.lab import TIME, FileLab, Hand, read_all

BORN = 3
"""Records of a birth: start, ACCEPT, START."""


def born(store: RunStore) -> Journal:
    """A run's journal, its first leg open."""
    return give_birth(store, SetClock(), "r1", {"configName": "a", "schemaVersion": 1, "configFingerprint": "0" * 64})


def said(word: str) -> Any:
    return error(word, fatal=False)


def words(store: MemoryRunStore) -> list[str]:
    return [record.payload["event"]["message"] for record, _ in store.read("r1") if record.kind == "event"]


class Waiting(CrashPoint):
    """An append that waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()
        self.entered = 0

    def take(self, batch: Batch) -> Batch | None:
        self.entered += 1
        self.begun.set()
        assert self.go.wait(30)
        return super().take(batch)


class Failing(CrashPoint):
    """The first append fails; what it was is remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Storage("the disk is full", code="disk_full", next="Free space.")

    def take(self, batch: Batch) -> Batch | None:
        self.appends.append(batch)
        raise self.root


# ----------------------------------------------------------------------------------------------- what is acknowledged


@pytest.mark.parametrize(
    ("store", "boundary"), [(MemoryRunStore(), "process_memory"), (FileRunStore(Path()), "power_loss")]
)
def test_a_store_says_how_far_an_acknowledgement_reaches(store: RunStore, boundary: str) -> None:
    """Contract #44 as DESIGN §13 has it, W3: one level, and a boundary that the store really provides."""
    assert boundary == store.boundary


def test_an_append_of_a_file_is_synced_before_it_is_acknowledged(tmp_path: Path) -> None:
    """Contract #60, #61 as DESIGN §13 has them: no record of less; a repeated one is not written again."""
    lab, hand = FileLab(tmp_path), Hand()
    writer = lab.store.create("r1", hand.start(lab.store))
    batch = hand.batch({"n": 1})

    calls = [calls_of(writer.append, batch), calls_of(writer.append, batch)]

    writer.close()
    assert [["write", "fdatasync"], []] == calls


LEAVES = """
import os, sys
from pathlib import Path
from tests.stores.lab import FileLab, Hand
lab, hand = FileLab(Path(sys.argv[1])), Hand()
writer = lab.store.create("r1", hand.start(lab.store))
writer.append(hand.batch({"n": 1}, {"n": 2}))
print(hand.sequence, flush=True)
os._exit(0)
"""


def test_what_was_acknowledged_outlives_its_process(tmp_path: Path) -> None:
    """Contract #51: nothing is closed, flushed or handed over; the next one reads it all the same."""
    acknowledged = output_of(LEAVES, tmp_path)

    records, tail = read_all(FileLab(tmp_path).store.read("r1"))

    assert (["3"], [1, 2, 3], "clean") == (acknowledged, [record.sequence for record in records], tail.verdict)


def test_who_watches_is_told_what_was_acknowledged() -> None:
    """Contract #52: run, number, id, kind and time of each record, once it is durable and not before."""
    store, told, durable = MemoryRunStore(), list[Record](), list[bool]()
    journal = born(store)

    def hear(record: Record) -> None:
        told.append(record)
        durable.append(record in [each for each, _ in store.read("r1")])

    journal.watch(hear)
    journal.append([said("one")])

    known = told[-1]

    assert ([True] * (BORN + 1), BORN + 1) == (durable, len(told))
    assert ("r1", BORN + 1, "event", 1) == (known.run_id, known.sequence, known.kind, known.version)
    assert (f"{journal.nonce}-", True) == (str(known.event_id)[: len(journal.nonce) + 1], bool(known.timestamp))
    assert known == [record for record, _ in store.read("r1")][-1]


def test_an_append_that_is_not_acknowledged_is_not_done() -> None:
    """Contract #53: nobody acts on a record that may not be there, nor sees it in the state."""
    store, point = MemoryRunStore(), Waiting()
    journal = born(crashing(store, point))

    async def main() -> tuple[Any, ...]:
        task = asyncio.ensure_future(journal.append_from_loop([said("one")]))
        while not point.begun.is_set():
            await asyncio.sleep(0)
        before = task.done(), journal.state.sequence
        point.go.set()
        await task
        return before, (task.done(), journal.state.sequence)

    found = asyncio.run(main())

    assert ((False, BORN), (True, BORN + 1)) == found


def test_an_append_waits_while_another_is_synced() -> None:
    """Contract #50 as DESIGN §13 has it: two in one journal at once would be one behind the other, or through it."""
    store, point = MemoryRunStore(), Waiting()
    journal = born(crashing(store, point))

    async def main() -> tuple[int, list[bool]]:
        tasks = [asyncio.ensure_future(journal.append_from_loop([said(word)])) for word in ("one", "two")]
        while not point.begun.is_set():
            await asyncio.sleep(0)
        before = point.entered, [task.done() for task in tasks]
        point.go.set()
        await asyncio.gather(*tasks)
        return before

    found = asyncio.run(main())

    assert ((1, [False, False]), ["one", "two"]) == (found, words(store))


def test_appends_at_once_are_numbered_in_the_order_of_their_calls() -> None:
    """Contract #56: twenty tasks that write together; the file has them one behind the other."""
    store = MemoryRunStore()
    journal = born(store)
    order = [str(number) for number in range(20)]

    async def main() -> None:
        await asyncio.gather(*(journal.append_from_loop([said(word)]) for word in order))

    asyncio.run(main())

    sequences = [record.sequence for record, _ in store.read("r1")]
    assert (order, list(range(1, BORN + 21))) == (words(store), sequences)


# ----------------------------------------------------------------------------------------------- after a failed append


def test_after_a_failed_append_the_store_is_not_asked_again() -> None:
    """Contract #54, #58: what stands at the end is not known, so nothing may be put behind it; the number is named."""
    store, point = MemoryRunStore(), Failing()
    journal = born(crashing(store, point))
    with pytest.raises(Storage):
        journal.append([said("one")])

    with pytest.raises(Storage) as caught:
        journal.append([said("two")])

    assert ("fact_ledger_poisoned", BORN + 1) == (caught.value.code, caught.value.facts["sequence"])
    assert (1, BORN) == (len(point.appends), journal.state.sequence)


def test_who_waits_behind_a_failed_append_is_told_of_the_first_fault() -> None:
    """Contract #55, W9, W15: the first gets the cause itself, the others a refusal that carries it; none is left."""
    point = Failing()
    journal = born(crashing(MemoryRunStore(), point))

    async def main() -> list[Any]:
        appends = [journal.append_from_loop([said(word)]) for word in ("one", "two", "three")]
        return await asyncio.wait_for(asyncio.gather(*appends, return_exceptions=True), 30)

    first, *others = asyncio.run(main())

    assert point.root is first
    assert [("fact_ledger_poisoned", first)] * 2 == [(other.code, other.__cause__) for other in others]
    assert 1 == len(point.appends)


@pytest.mark.parametrize("kept", [0, 100, None])
def test_a_failed_append_may_have_left_its_record_and_nobody_was_told(kept: int | None) -> None:
    """Contract #58, #59 as DESIGN §13 has them: whatever reached the disk, the writer acknowledged nothing."""
    store = MemoryRunStore()
    journal = born(crashing(store, CrashPoint(1, kept)))
    told = list[Record]()
    journal.watch(told.append)
    told.clear()

    with pytest.raises(Crash):
        journal.append([said("one")])

    store.forget_writers()
    left = [record.sequence for record, _ in store.read("r1")]
    assert ([], BORN, len(left) in (BORN, BORN + 1)) == (told, journal.state.sequence, True)


# ------------------------------------------------------------------------------------------------------ after the end


@pytest.mark.parametrize("end", ["pause", "finish"])
def test_behind_the_end_of_a_leg_its_writer_says_nothing_more(end: str) -> None:
    """Contract #57: the record that closes a leg is its last, whoever was still at work."""
    store = MemoryRunStore()
    journal = born(store)
    closing = paused() if end == "pause" else failed()
    journal.append(closing)
    before = store.raw("r1")

    with pytest.raises(Stop):
        journal.append([said("late")])

    assert (before, None) == (store.raw("r1"), journal.fault)


@pytest.mark.parametrize(
    "late",
    [
        said("late"),
        receipt(facts(), 1, "committed"),
        Move("FAIL", "x"),
        Draft("pause", {}),
        Draft("finish", {}),
        start(),
    ],
    ids=lambda late: str(getattr(late, "kind", None) or getattr(late, "event", None) or late["type"]),
)
@pytest.mark.parametrize("end", ["pause", "finish", "a leg behind the finish"])
def test_behind_an_end_no_record_is_legal_but_those_that_may_follow(end: str, late: Any) -> None:
    """Contract #57, I-3: what a reader would refuse is not composed; a leg that settles does not open the run again."""
    scribe = Scribe().born()
    scribe.say(*(paused() if end == "pause" else completed()))
    if end == "a leg behind the finish":
        scribe.opened("settle")
    before = scribe.data

    with pytest.raises((Corrupt, Refused)):
        scribe.say(late)

    assert before == scribe.data


def test_a_paused_run_goes_on_by_a_new_leg() -> None:
    """Contract #57 has no exception for it; here a leg ends with its pause, and the run need not."""
    scribe = Scribe().born()
    scribe.say(Move("PAUSE", "x"), Close("pause", Outcome("paused", "x")))

    scribe.opened("resume", Move("RESUME"), said("so"))

    kinds = [record.kind for record, _ in read(scribe.data)]
    assert ["pause", "resume", "operation", "event"] == kinds[-4:]
    assert TIME < scribe.state.last_time
