"""After a write, a sync or an interrupt went wrong the writer is dead: nothing is acknowledged or retried by it."""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Final

from clew.core.records import Batch
from clew.errors import Storage
from clew.stores.base import RunWriter
from clew.testing.faults import Strikes
from clew.testing.kit import Case, case, cases_of, expect, refused
from clew.testing.lab import Step
from clew.testing.storelab import RUN, Hand, RunStoreLab, born, go_on, read_all, told

_CODES: Final[dict[Step, str]] = {"write": "run_state_failed", "sync": "durability_barrier_failed"}


def _ends_the_writer(step: Step, lab: RunStoreLab) -> None:
    writer, hand = born(lab)
    writer.append(hand.batch({"n": 1}))
    tail = read_all(lab.store().read(RUN))[1]
    before, following = lab.raw(RUN), Hand(RUN, hand.sequence, hand.chain)
    batch = hand.batch({"n": 2}, {"n": 3})

    with lab.fail(step):
        refused(Storage, _CODES[step], partial(writer.append, batch), f"the {step} fails")

    left = lab.raw(RUN)
    expect(True, (before + batch.data).startswith(left) and left.startswith(before), "at most that append is there")
    expect(True, writer.poisoned, "whether the writer is poisoned")
    deeds: tuple[Callable[[], object], ...] = (
        partial(writer.append, batch),
        partial(writer.append, following.batch({"n": 4})),
        partial(writer.append, hand.batch({"n": 5})),
        writer.read,
        partial(writer.repair, tail, 3),
        partial(writer.prove, {}),
        partial(writer.publish_head, following.head()),
    )
    for deed in deeds:
        refused(Storage, "fact_ledger_poisoned", deed, f"a {step} failed before")
    expect(left, lab.raw(RUN), "bytes of the journal after more was tried")
    writer.close()
    _next_one_goes_on(lab, RUN, 2, batch)


def _next_one_goes_on(lab: RunStoreLab, run_id: str, acknowledged: int, batch: Batch) -> None:
    """Whoever opens next finds what was acknowledged, perhaps some of the failed append, and appends behind it."""
    heir = lab.store().open(run_id)
    hand = go_on(heir)
    heir.append(hand.batch({"n": 0}))
    heir.close()
    records, tail = read_all(lab.store().read(run_id))
    expect(True, acknowledged < len(records) <= acknowledged + len(batch.records) + 1, "number of records")
    expect("clean", tail.verdict, "end of the journal")
    expect(list(batch.records[: len(records) - acknowledged - 1]), records[acknowledged:-1], "records of that append")


a_failed_write_ends_the_writer: Case[RunStoreLab] = Case(
    "a_failed_write_ends_the_writer",
    "What it left is not known, and a second try could put a whole record behind half of one.",
    partial(_ends_the_writer, "write"),
    (42,),
)
a_failed_sync_ends_the_writer: Case[RunStoreLab] = Case(
    "a_failed_sync_ends_the_writer",
    "A second sync would succeed and only hide that the device has lost the record.",
    partial(_ends_the_writer, "sync"),
)


def _struck_anywhere(make: Callable[[], BaseException], lab: RunStoreLab) -> None:
    """Strike an append at every line of it; try it again as a caller might; the journal holds it once, or not."""
    strikes, struck, number = Strikes(make), "", 0
    while struck != "spared":
        number += 1
        run_id = f"r{number}"
        writer, hand = born(lab, run_id)
        before, batch = lab.raw(run_id), hand.batch({"n": 1}, {"n": 2})

        struck = strikes.strike(partial(writer.append, batch, starts_effect=True))

        _is_there_once_or_dead(lab, writer, before, batch, acknowledged=struck != "raised")
        writer.close()
        _next_one_goes_on(lab, run_id, 1, batch)
    expect(True, number > 1, "the append has lines of Python")


def _is_there_once_or_dead(
    lab: RunStoreLab, writer: RunWriter, before: bytes, batch: Batch, *, acknowledged: bool
) -> None:
    left = lab.raw(writer.run_id)
    if acknowledged:
        expect(before + batch.data, left, "bytes of an append that was acknowledged")
    expect(True, (before + batch.data).startswith(left) and left.startswith(before), "at most that append is there")
    try:
        writer.append(batch)
    except Storage as error:
        expect(True, writer.poisoned, "whether the writer is poisoned that refuses")
        expect("fact_ledger_poisoned", error.code, "code of the refusal of a second try")
        expect(left, lab.raw(writer.run_id), "bytes of the journal after a second try")
    else:
        expect(
            before + batch.data, lab.raw(writer.run_id), "bytes of an append that was acknowledged at the second try"
        )


an_append_interrupted_anywhere_is_never_acknowledged_twice_or_half: Case[RunStoreLab] = Case(
    "an_append_interrupted_anywhere_is_never_acknowledged_twice_or_half",
    "Ctrl-C comes between any two lines, and the caller may try again.",
    partial(_struck_anywhere, KeyboardInterrupt),
)
an_append_without_memory_anywhere_is_never_acknowledged_twice_or_half: Case[RunStoreLab] = Case(
    "an_append_without_memory_anywhere_is_never_acknowledged_twice_or_half",
    "So does a lack of memory, and a handler above may go on as if nothing had been.",
    partial(_struck_anywhere, MemoryError),
)


@case()
def a_writer_that_was_struck_inside_refuses_everything_after(lab: RunStoreLab) -> None:
    """Once the exception has come out of an append that had begun to write, no later append may hide it."""
    strikes, struck, seen = Strikes(KeyboardInterrupt), "", list[bool]()
    while struck != "spared":
        run_id = f"r{len(seen)}"
        writer, hand = born(lab, run_id)
        before, batch = lab.raw(run_id), hand.batch({"n": 1})
        struck = strikes.strike(partial(writer.append, batch))
        seen.append(writer.poisoned)
        if struck == "raised" and writer.poisoned:
            left = lab.raw(run_id)
            following = Hand(run_id, hand.sequence, hand.chain).batch({"n": 2})
            refused(Storage, "fact_ledger_poisoned", partial(writer.append, following), "an append was struck before")
            expect(left, lab.raw(run_id), "bytes of the journal")
        elif struck == "raised":
            expect(True, lab.raw(run_id) in (before, before + batch.data), "none or all of an append is there")
        writer.close()
    expect(True, True in seen, "a writer that is struck inside an append is poisoned")


@case()
def an_interrupted_repair_can_be_done_again(lab: RunStoreLab) -> None:
    """Between keeping, cutting and recording a process may die; the next one finds its way, and all that was cut."""
    strikes, struck, number = Strikes(KeyboardInterrupt), "", 0
    while struck != "spared":
        number += 1
        run_id = f"r{number}"
        hand = Hand(run_id)
        whole, piece = hand.start(lab.store()).data, hand.batch({"n": number}).data[:-30]
        lab.implant(run_id, whole + piece)
        writer = lab.store().open(run_id)
        tail = read_all(writer.read())[1]
        struck = strikes.strike(partial(writer.repair, tail, 2))
        writer.close()
        heir = lab.store().open(run_id)

        cuts = heir.repair(read_all(heir.read())[1], 2)

        expect(True, sha256(piece).hexdigest() in {cut.sha256 for cut in cuts}, "the bytes that were cut are named")
        heir.append(go_on(heir).batch({"n": 0}))
        heir.close()
        expect(([1, 2], "clean"), told(partial(lab.store().read, run_id))[:2], "what a reader says in the end")


@case()
def a_repair_that_cannot_be_synced_is_refused(lab: RunStoreLab) -> None:
    """The device may still have the torn bytes, and a record behind them would make the whole journal corrupt."""
    hand = Hand()
    whole, batch = hand.start(lab.store()).data, hand.batch({"n": 1})
    for data in (whole + batch.data[:-30], whole[:-1]):
        lab.implant(RUN, data)
        writer = lab.store().open(RUN)
        tail = read_all(writer.read())[1]

        with lab.fail("sync"):
            repair, what = partial(writer.repair, tail, 2), f"the sync of a repair fails, the end is {tail.verdict}"
            refused(Storage, "durability_barrier_failed", repair, what)

        writer.close()
        _next_one_goes_on(lab, RUN, 1, batch)


CASES: Final = cases_of(globals())
