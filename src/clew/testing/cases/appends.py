"""What a writer takes and what it gives back: order, places, repeated and conflicting appends. No damage here."""

from functools import partial
from typing import Any, Final

from clew.errors import Corrupt, Storage
from clew.stores.base import RunWriter
from clew.testing.kit import case, cases_of, expect, refused
from clew.testing.storelab import RUN, Hand, RunStoreLab, born, go_on, read_all, told

_ODD: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"text": 'äöü 𝄞 \u2028 \x7f \\ " \n \r \t \0', "": {"": [[], {}, None, True, False]}},
    {"n": [0, -1, 2**63, -(10**40), 1e-9, 1.5], "lone": "\ud800"},
    {"chain": "0" * 64, "append": 7, "end": '},"append":1}'},
    {"pad": "x" * 1_500_000},
)


@case(17)
def records_are_read_in_the_order_of_the_appends(lab: RunStoreLab) -> None:
    """Order is the order in the file: a start, an event and an end are records 1, 2 and 3."""
    writer, hand = born(lab)
    batches = [hand.batch({"n": 1}), hand.batch({"n": 2}, kind="finish")]
    for batch in batches:
        writer.append(batch)

    records, tail = read_all(lab.store().read(RUN))

    expect(["start", "event", "finish"], [record.kind for record in records], "kinds")
    expect([1, 2, 3], [record.sequence for record in records], "sequences")
    expect([*batches[0].records, *batches[1].records], records[1:], "records")
    expect(("clean", lab.store().size_bytes(RUN)), (tail.verdict, tail.at_byte), "end of the journal")
    writer.close()


@case()
def a_record_is_found_again_by_its_position(lab: RunStoreLab) -> None:
    """The fold keeps positions instead of records, so each must lead back to the very record, also for a new reader."""
    writer, hand = born(lab)
    first, second = hand.batch({"n": 1}, {"n": 2}), hand.batch({"n": 3})
    places = [writer.append(first), writer.append(second, starts_effect=True)]
    writer.close()

    found = {record.sequence: (record, at) for record, at in lab.store().read(RUN)}

    expect(places, [found[2][1], found[4][1]], "positions that the appends gave, in the reading")
    for record, at in found.values():
        expect(record, lab.store().record_at(RUN, at), f"record at the position of {record.sequence}")


@case()
def a_position_where_no_record_begins_is_corrupt(lab: RunStoreLab) -> None:
    """A position of another journal, or of one that was replaced, must not give half a record."""
    born(lab)[0].close()

    for at in (1, 10**6):
        refused(Corrupt, "run_state_corrupt", partial(lab.store().record_at, RUN, at), f"the position is {at}")


@case()
def any_json_comes_back_as_it_was(lab: RunStoreLab) -> None:
    """Arguments and answers are the user's, with every character, number and length that JSON has."""
    writer, hand = born(lab)
    batches = [hand.batch(payload) for payload in _ODD]
    for batch in batches:
        writer.append(batch)
    writer.close()

    records, _ = read_all(lab.store().read(RUN))

    expect([batch.records[0] for batch in batches], records[1:], "records")


@case()
def what_was_acknowledged_is_there_for_everyone(lab: RunStoreLab) -> None:
    """The next thing starts because of it, so whoever reads from now on must see it."""
    writer, hand = born(lab)
    for number in range(1, 21):
        writer.append(hand.batch({"n": number}))

        expect(number + 1, len(read_all(lab.store().read(RUN))[0]), f"records after append {number}")
        expect(lab.store().size_bytes(RUN), writer.size_bytes, f"length that the writer knows after append {number}")
    writer.close()


@case()
def a_writer_reads_what_stands_before_its_first_append(lab: RunStoreLab) -> None:
    """A leg decides by this reading, so it must be the same as every other reader's."""
    writer, hand = born(lab)
    writer.append(hand.batch({"n": 1}, {"n": 2}))
    writer.close()
    heir = lab.store().open(RUN)

    expect(told(lambda: lab.store().read(RUN)), told(heir.read), "what the writer read")
    expect(lab.store().size_bytes(RUN), heir.size_bytes, "length that the writer knows")
    heir.close()


@case(26)
def a_doubled_append_adds_nothing(lab: RunStoreLab) -> None:
    """Who did not hear the acknowledgement tries again, and gets it, and the journal holds the record once."""
    writer, hand = born(lab)
    batches = [hand.batch({"n": 1}), hand.batch({"n": 2}, {"n": 3})]
    places = [writer.append(batch) for batch in batches]
    before = lab.raw(RUN)

    again = [writer.append(batch) for batch in batches]

    expect(places, again, "places of the doubled appends")
    expect((before, False), (lab.raw(RUN), writer.poisoned), "bytes of the journal, and whether the writer is poisoned")
    writer.append(hand.batch({"n": 4}))
    writer.close()
    expect([1, 2, 3, 4, 5], told(lambda: lab.store().read(RUN))[0], "records")


@case(27)
def a_conflicting_append_is_refused(lab: RunStoreLab) -> None:
    """Another record under a number that is given would rewrite what was acknowledged."""
    writer, hand = born(lab)
    twin = Hand(RUN, hand.sequence, hand.chain)
    writer.append(hand.batch({"n": 1}))

    _is_never_written(lab, writer, twin.batch({"n": 2}), hand.batch({"n": 3}))


@case(28)
def a_gapped_append_is_refused(lab: RunStoreLab) -> None:
    """Whoever leaves a number out does not know where the journal ends."""
    writer, hand = born(lab)
    left_out = hand.batch({"n": 1})

    _is_never_written(lab, writer, hand.batch({"n": 2}), left_out)


@case(28)
def shuffled_appends_are_refused(lab: RunStoreLab) -> None:
    """The store must not put them in order either: what was said later was not known earlier."""
    writer, hand = born(lab)
    batches = [hand.batch({"n": number}) for number in range(4)]
    writer.append(batches[0])

    _is_never_written(lab, writer, batches[3], batches[1], batches[2])


@case()
def a_closed_writer_does_nothing_more(lab: RunStoreLab) -> None:
    """Another process may have the run by now."""
    writer, hand = born(lab)
    tail = read_all(lab.store().read(RUN))[1]
    before = lab.raw(RUN)

    writer.close()
    writer.close()

    deeds = (
        partial(writer.append, hand.batch({"n": 1})),
        writer.read,
        partial(writer.repair, tail, 2),
        partial(writer.prove, {}),
        partial(writer.publish_head, hand.head()),
    )
    for deed in deeds:
        refused(Storage, "fact_ledger_poisoned", deed, "the writer is closed")
    expect((before, True), (lab.raw(RUN), writer.poisoned), "bytes of the journal, and whether the writer is poisoned")


@case()
def a_closed_writer_lets_the_next_one_in(lab: RunStoreLab) -> None:
    """Records of both stand one behind the other, whatever the first one left open."""
    writer, hand = born(lab)
    writer.append(hand.batch({"n": 1}))
    writer.close()

    heir = lab.store().open(RUN, wait_s=0.0)

    heir.append(go_on(heir).batch({"n": 2}))
    heir.close()
    expect([1, 2, 3], told(lambda: lab.store().read(RUN))[0], "records")


@case()
def records_after_a_finish_are_kept(lab: RunStoreLab) -> None:
    """Which of them are legal the runtime knows; a late review must not be lost in the store."""
    writer, hand = born(lab)
    said = [
        hand.batch({"outcome": "failed"}, kind="finish"),
        hand.batch({"leg": {"nonce": "n2"}, "completedStepIds": []}, kind="resume"),
        hand.batch({"event": {"type": "effect_review"}}, {"event": {"type": "leg_ended", "leg": 2}}),
    ]
    for batch in said:
        writer.append(batch)
    writer.close()

    records, tail = read_all(lab.store().read(RUN))

    expect([record for batch in said for record in batch.records], records[1:], "records behind the start")
    expect("clean", tail.verdict, "end of the journal")


def _is_never_written(lab: RunStoreLab, writer: RunWriter, *batches: Any) -> None:
    """The first is refused as a conflict, and everything behind it because the writer is poisoned."""
    before = lab.raw(RUN)
    codes = ("run_state_conflict", *["fact_ledger_poisoned"] * (len(batches) - 1))
    for code, batch in zip(codes, batches, strict=True):
        refused(Storage, code, partial(writer.append, batch), f"records from {batch.first} on are appended")
    expect((before, True), (lab.raw(RUN), writer.poisoned), "bytes of the journal, and whether the writer is poisoned")
    writer.close()
    expect("clean", told(lambda: lab.store().read(RUN))[1], "end of the journal")


CASES: Final = cases_of(globals())
