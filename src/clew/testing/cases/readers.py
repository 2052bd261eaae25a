"""Readers beside a writer: they hold nobody up, change nothing and see whole records, also during a repair."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from clew.stores.base import RunWriter
from clew.testing.kit import case, cases_of, expect
from clew.testing.storelab import RUN, Hand, RunStoreLab, born, go_on, read_all, sample, told

_APPENDS: Final = 60


@case()
def readers_change_nothing(lab: RunStoreLab) -> None:
    """Looking at evidence must not change it, also when its end is torn."""
    writer, hand = born(lab)
    writer.publish_head(hand.head(writer.size_bytes))
    torn = lab.raw(RUN) + hand.batch({"n": 1}).data[:-9]
    writer.close()
    lab.implant(RUN, torn)
    store, head = lab.store(), lab.store().head(RUN)

    for _ in range(2):
        read_all(store.read(RUN))
        store.ids(), store.size_bytes(RUN), store.record_at(RUN, 0), store.pending(RUN), store.locate(RUN)

    expect((torn, head), (lab.raw(RUN), lab.store().head(RUN)), "bytes of the journal and its head")


@case()
def a_reading_holds_no_writer_up(lab: RunStoreLab) -> None:
    """A screen that shows a run must not keep its writer out, nor a writer the screen."""
    writer, hand = born(lab)
    writer.append(hand.batch({"n": 1}))
    writer.close()
    reading = iter(lab.store().read(RUN))
    next(reading)

    heir = lab.store().open(RUN, wait_s=0.0)
    heir.append(go_on(heir).batch({"n": 2}))
    heir.close()

    expect(True, [record.sequence for record, _ in reading] in ([2], [2, 3]), "the rest of the reading is whole")


@case()
def a_reading_begun_before_an_append_ends_with_whole_records(lab: RunStoreLab) -> None:
    """It may show the append or not, but never half of it."""
    writer, hand = born(lab)
    reading = lab.store().read(RUN)
    records = iter(reading)
    seen = [next(records)[0].sequence]

    writer.append(hand.batch({"n": 1}, {"n": 2}))

    seen += [record.sequence for record, _ in records]
    writer.close()
    expect(True, (seen, reading.tail.verdict) in (([1], "clean"), ([1, 2, 3], "clean")), "none or all of the append")


@case()
def a_reader_beside_a_busy_writer_sees_whole_records_only(lab: RunStoreLab) -> None:
    """Never corrupt, never fewer than before: what a screen shows while the run goes on."""
    writer, hand = born(lab)
    counts, verdicts = [1], set[str]()

    with ThreadPoolExecutor(1) as thread:
        writing = thread.submit(_write, writer, hand)
        while not writing.done():
            records, tail = read_all(lab.store().read(RUN))
            counts.append(len(records))
            verdicts.add(tail.verdict)
    writing.result()
    writer.close()

    expect(sorted(counts), counts, "counts of records that the reader saw")
    expect(set(), verdicts - {"clean", "being_written"}, "other verdicts that the reader gave")
    expect(1 + 2 * _APPENDS, len(read_all(lab.store().read(RUN))[0]), "records in the end")


def _write(writer: RunWriter, hand: Hand) -> None:
    for n in range(_APPENDS):
        writer.append(hand.batch({"n": n}, {"pad": "x" * 700}))


@case()
def a_reader_between_cut_and_next_append_sees_a_clean_end(lab: RunStoreLab) -> None:
    """The writer that repairs is alive; what it has cut must not look like damage."""
    journal = sample()
    lab.implant(RUN, journal.data[:-40])
    writer = lab.store().open(RUN)

    hand = go_on(writer)
    between = told(lambda: lab.store().read(RUN))
    writer.append(hand.batch({"n": 0}))
    writer.close()

    expect(([1, 2, 3, 4, 5], "clean", journal.starts[5], 0), between, "what a reader says behind the cut")
    expect(([1, 2, 3, 4, 5, 6], "clean"), told(lambda: lab.store().read(RUN))[:2], "what a reader says in the end")


@case()
def a_reading_begun_before_a_repair_ends_with_whole_records(lab: RunStoreLab) -> None:
    """It may have seen the torn bytes, the cut, and another record in their place; none of it is damage."""
    lab.implant(RUN, sample().data[:-40])
    for seen_before in (0, 1, 5):
        reading = lab.store().read(RUN)
        records = iter(reading)
        seen = [next(records)[0].sequence for _ in range(seen_before)]
        writer = lab.store().open(RUN)
        hand = go_on(writer)
        batch = hand.batch({"pad": "y" * 900}, {"n": 1})

        writer.append(batch)

        seen += [record.sequence for record, _ in records]
        expect([*range(1, len(seen) + 1)], seen, f"sequences when {seen_before} were read before the repair")
        expect(True, len(seen) in (5, batch.last), "none or all of the append behind the cut")
        expect(True, reading.tail.verdict in ("clean", "torn", "being_written"), "verdict on the end")
        writer.close()
        lab.implant(RUN, sample().data[:-40])


@case()
def a_finished_reading_keeps_what_it_said(lab: RunStoreLab) -> None:
    """A plan is made from one reading; a writer that comes later must not change it under the planner's hands."""
    journal = sample()
    lab.implant(RUN, journal.data[:-40])
    reading = lab.store().read(RUN)
    before = [record.sequence for record, _ in reading], reading.tail
    writer = lab.store().open(RUN)

    writer.append(go_on(writer).batch({"n": 0}))

    writer.close()
    expect(before[1], reading.tail, "how the reading ended")
    expect(([1, 2, 3, 4, 5], "torn"), (before[0], before[1].verdict), "what the reading said")


CASES: Final = cases_of(globals())
