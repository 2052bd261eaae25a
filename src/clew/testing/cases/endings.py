"""How a journal may end: clean, unterminated, torn, corrupt, being written; and how a writer makes it clean again."""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from clew.core.codec import MAX_APPEND
from clew.core.records import Kind
from clew.errors import Corrupt
from clew.stores.base import RunWriter, TailRepaired
from clew.testing.kit import Case, case, cases_of, expect, stopped
from clew.testing.storelab import RUN, Hand, RunStoreLab, Written, born, go_on, read_all, sample, told, written

_SECTOR: Final = 512


class Ending(NamedTuple):
    """One way to end: what is made of the sample journal, the verdict, and how many whole records stand before."""

    name: str
    asserts: str
    spoil: Callable[[Written], bytes]
    verdict: Literal["clean", "unterminated", "torn", "corrupt"]
    records: int
    contract: tuple[int, ...] = ()


def _sector_of_line_4_lost(journal: Written) -> bytes:
    at = journal.starts[3] + _SECTOR - journal.starts[3] % _SECTOR
    return journal.data[:at] + bytes(_SECTOR) + journal.data[at + _SECTOR :]


def _sector_lost_then_another_append(journal: Written) -> bytes:
    last = journal.lines[-1]
    hand = Hand(RUN, 6, last[last.index(b'"chain":"') + 9 :][:64].decode())
    return _sector_of_line_4_lost(journal) + hand.batch({"n": 7}).data


def _skipping(journal: Written) -> bytes:
    return journal.data + Hand(RUN, 7, "0" * 64).batch({"n": 8}).data[:-1]


def _too_long(journal: Written) -> bytes:
    return journal.data + b'{"version":1,"runId":"r1","sequence":7,"eventId":"' + b"x" * MAX_APPEND


ENDINGS: Final = (
    Ending("a_whole_journal_is_clean", "The usual case.", lambda j: j.data, "clean", 6),
    Ending("a_missing_lf_is_no_loss", "The record is all there; only its end is not.", lambda j: j.data[:-1],
           "unterminated", 6),
    Ending("half_a_last_line_is_torn", "What a death in the middle of a write leaves.", lambda j: j.data[:-40],
           "torn", 5),
    Ending("whole_lines_of_a_torn_append_are_records",
           "Every prefix of an append is a legal, more doubtful state.", lambda j: j.data[: j.starts[4] + 9],
           "torn", 4),
    Ending("one_byte_of_a_line_is_torn", "A write may stop behind any byte.", lambda j: j.data[: j.ends[1]] + b"{",
           "torn", 3),
    Ending("a_sector_that_never_came_is_torn",
           "A power cut keeps sectors in any order, so whole lines may stand behind the hole.", _sector_of_line_4_lost,
           "torn", 3),
    Ending("zeros_behind_the_last_record_are_torn", "The file grew, and its content never came.",
           lambda j: j.data[: j.ends[1]] + bytes(700), "torn", 3),
    Ending("a_broken_only_line_is_corrupt", "Without any whole record nobody knows whose journal it is.",
           lambda j: j.data[:40], "corrupt", 0, (19,)),
    Ending("a_terminated_broken_only_line_is_corrupt", "Nothing is dropped to make a journal readable.",
           lambda j: b"{broken\n", "corrupt", 0, (19,)),
    Ending("an_unterminated_record_with_another_number_is_corrupt",
           "Nothing of it is missing, so it is not torn but wrong.", _skipping, "corrupt", 6, (21, 24)),
    Ending("a_terminated_broken_line_is_corrupt", "No crash leaves the end of a line without its middle.",
           lambda j: j.data[:-50] + b"~" + j.data[-49:], "corrupt", 5, (22,)),
    Ending("a_broken_line_before_the_last_append_is_corrupt", "It was acknowledged, and only the end may be cut.",
           lambda j: j.data[: j.starts[2] - 30] + j.data[j.starts[2] :], "corrupt", 1, (22,)),
    Ending("half_a_line_with_another_append_behind_is_corrupt", "Who wrote the next append had seen it whole.",
           lambda j: j.data[: j.starts[3] - 60] + j.data[j.starts[3] :], "corrupt", 2, (22,)),
    Ending("a_lost_sector_before_the_last_append_is_corrupt", "A disk that loses what it acknowledged is no torn end.",
           _sector_lost_then_another_append, "corrupt", 3),
    Ending("bytes_that_are_no_record_are_corrupt", "They are nothing that a writer of this run ever wrote.",
           lambda j: j.data + b"hello", "corrupt", 6),
    Ending("an_empty_line_is_corrupt", "An editor left it, not a crash.", lambda j: j.data + b"\n", "corrupt", 6),
    Ending("a_whole_line_with_another_end_than_lf_is_corrupt", "Its LF was changed: nothing is missing.",
           lambda j: j.data[:-1] + b"x", "corrupt", 5),
    Ending("more_than_an_append_may_hold_is_corrupt", "No single write of ours was that long.", _too_long,
           "corrupt", 6),
)  # fmt: skip
"""Every verdict of the rule for the end of a file (`reference/journal.md` §2), by what leads to it."""


def _ends_so(ending: Ending, lab: RunStoreLab) -> None:
    """Readers and writer agree, nothing is changed by reading, and what may be repaired goes on."""
    journal = sample()
    data = ending.spoil(journal)
    lab.implant(RUN, data)
    writer = lab.store().open(RUN)

    expected = _expected(ending, journal, len(data))
    expect(expected, told(lambda: lab.store().read(RUN)), "what a reader says")
    expect(expected, told(writer.read), "what a writer says")
    expect(True, data == lab.raw(RUN), "the bytes are as they were")
    if ending.verdict == "corrupt":
        hand = Hand(RUN, ending.records, "0" * 64)
        stopped(partial(_adopt_and_append, writer, hand), "a corrupt journal is continued")
        expect(True, data == lab.raw(RUN), "the bytes are as they were after a writer tried")
    else:
        writer.append(go_on(writer).batch({"n": 0}))
        told_now = told(lambda: lab.store().read(RUN))
        expect(([*range(1, ending.records + 2)], "clean"), told_now[:2], "the journal after repair and one append")
    writer.close()


def _expected(ending: Ending, journal: Written, size: int) -> tuple[object, ...]:
    at, records = journal.starts[ending.records], [*range(1, ending.records + 1)]
    match ending.verdict:
        case "corrupt":
            return "run_state_corrupt", ending.records + 1, at
        case "torn":
            return records, "torn", at, size - at
        case verdict:
            return records, verdict, size, 0


endings: Final = tuple(
    Case[RunStoreLab](ending.name, ending.asserts, partial(_ends_so, ending), ending.contract) for ending in ENDINGS
)


def _short() -> Written:
    return written([[{}], [{}], [{}, {}]])


@case()
def a_journal_cut_at_any_byte_gives_the_records_before_the_cut(lab: RunStoreLab) -> None:
    """The promise on which everything after a crash stands: exactly those, and an end that says what it is."""
    journal = _short()
    for cut in range(1, len(journal.data)):
        lab.implant(RUN, journal.data[:cut])

        expect(
            _of_cut(journal, cut), told(lambda: lab.store().read(RUN)), f"what a reader says of the first {cut} bytes"
        )


def _of_cut(journal: Written, cut: int) -> tuple[object, ...]:
    """By counting lines alone: whole lines are records, and so is one that lacks its LF only."""
    whole = sum(start <= cut for start in journal.starts[1:])
    begin, missing = journal.starts[whole], journal.starts[whole + 1] - cut
    if begin == cut:
        return [*range(1, whole + 1)], "clean", cut, 0
    if missing == 1:
        return [*range(1, whole + 2)], "unterminated", cut, 0
    if whole == 0:
        return "run_state_corrupt", 1, 0
    return [*range(1, whole + 1)], "torn", begin, cut - begin


@case()
def any_changed_byte_never_gives_another_record(lab: RunStoreLab) -> None:
    """A flip on the disk may cost the journal, but never tell the agent something that nobody recorded."""
    data = _short().data
    lab.implant(RUN, data)
    records = read_all(lab.store().read(RUN))[0]
    for at in range(0, len(data), 2):
        lab.implant(RUN, data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        try:
            found = read_all(lab.store().read(RUN))[0]
        except Corrupt:
            continue
        expect(records[: len(found)], found, f"records with byte {at} changed")


@case()
def whatever_sectors_of_the_last_append_were_lost_it_is_torn(lab: RunStoreLab) -> None:
    """A power cut keeps any of them: nothing acknowledged is lost, and nothing of it is called damage."""
    journal = sample()
    before = journal.ends[-2]
    borders = [before, *range(before - before % _SECTOR + _SECTOR, len(journal.data), _SECTOR), len(journal.data)]
    for lost in range(1 << len(borders) - 1):
        data = bytearray(journal.data)
        for number, (at, end) in enumerate(pairwise(borders)):
            if lost >> number & 1:
                data[at:end] = bytes(end - at)
        lab.implant(RUN, bytes(data))

        records, verdict, *_ = told(lambda: lab.store().read(RUN))

        kept = records[:3] if verdict in ("clean", "torn") else verdict
        expect([1, 2, 3], kept, f"acknowledged records with sectors {lost:b} lost")


# ------------------------------------------------------------------------------------------------------- being written


@case()
def a_half_written_end_of_a_living_leg_is_being_written(lab: RunStoreLab) -> None:
    """Calling it torn would alarm a person, and a repair would cut what is about to be acknowledged."""
    writer, hand = born(lab)
    whole = lab.raw(RUN)
    lab.implant(RUN, whole + hand.batch({"n": 1}).data[:-9])

    said = told(lambda: lab.store().read(RUN))

    writer.close()
    expect(([1], "being_written", len(whole)), said[:3], "what a reader says")


def _closed_leg_is_torn(kind: Kind, payload: dict[str, object], lab: RunStoreLab) -> None:
    writer, hand = born(lab)
    writer.append(hand.batch(payload, kind=kind))
    whole = lab.raw(RUN)
    lab.implant(RUN, whole + hand.batch({"n": 1}).data[:-9])

    said = told(lambda: lab.store().read(RUN))

    writer.close()
    expect(([1, 2], "torn", len(whole)), said[:3], "what a reader says")


_CLOSINGS: Final[dict[Kind, dict[str, object]]] = {
    "pause": {},
    "finish": {},
    "event": {"event": {"type": "leg_ended", "leg": 1}},
}
closings: Final = tuple(
    Case[RunStoreLab](
        f"an_end_behind_a_leg_closed_by_{'leg_ended' if kind == 'event' else kind}_is_torn",
        "The process may live on for other runs, but it has let this one go.",
        partial(_closed_leg_is_torn, kind, payload),
    )
    for kind, payload in _CLOSINGS.items()
)


# -------------------------------------------------------------------------------------------------------------- repair


@case()
def a_torn_end_is_kept_cut_and_written_over(lab: RunStoreLab) -> None:
    """Nothing is lost without a trace, and the next record stands where the torn one began."""
    journal = sample()
    data, at = journal.data[:-40], journal.starts[5]
    lab.implant(RUN, data)
    writer = lab.store().open(RUN)
    records, tail = read_all(writer.read())

    repaired = writer.repair(tail, 6)

    digest = sha256(data[at:]).hexdigest()
    named = TailRepaired(6, at, len(data) - at, digest, f"torn-{at}-{digest[:12]}")
    expect(([named], data[:at]), ([*repaired], lab.raw(RUN)), "what was cut, and what is left")
    writer.adopt(5, records[-1].chain or "")
    expect(at, writer.append(Hand(RUN, 5, records[-1].chain or "").batch({"n": 0})), "place of the next append")
    writer.close()


@case()
def a_piece_that_no_record_names_is_named_by_the_next_leg(lab: RunStoreLab) -> None:
    """A crash between the cut and the record of it must not make the bytes an orphan."""
    whole, piece = sample().data, Hand(RUN, 6, "0" * 64).batch({"n": 1}).data
    lab.implant(RUN, whole + piece[:-9])
    first = lab.store().open(RUN)
    go_on(first)
    first.close()
    lab.implant(RUN, whole + piece[:-20])
    second = lab.store().open(RUN)

    newest = second.repair(read_all(second.read())[1], 7)

    expect([len(piece) - 20, len(piece) - 9], [cut.bytes for cut in newest], "pieces, the newest first")
    again = second.repair(read_all(second.read())[1], 7)
    second.close()
    expect(sorted(cut.kept_as for cut in newest), sorted(cut.kept_as for cut in again), "pieces named once more")


@case()
def a_missing_lf_is_written_before_anything_else(lab: RunStoreLab) -> None:
    """Added by the next append it would be lost together with it, and the whole record with both."""
    whole = sample().data
    lab.implant(RUN, whole[:-1])
    writer = lab.store().open(RUN)

    go_on(writer)

    writer.close()
    expect(whole, lab.raw(RUN), "bytes of the journal")


@case()
def nothing_is_appended_behind_an_end_that_was_not_repaired(lab: RunStoreLab) -> None:
    """A record behind a torn line makes the whole journal corrupt."""
    torn = sample().data[:-40]
    lab.implant(RUN, torn)
    writer = lab.store().open(RUN)
    records, _ = read_all(writer.read())
    hand = Hand(RUN, 5, records[-1].chain or "")

    stopped(partial(_adopt_and_append, writer, hand), "the end is torn")

    writer.close()
    expect(torn, lab.raw(RUN), "bytes of the journal")


def _adopt_and_append(writer: RunWriter, hand: Hand) -> None:
    writer.adopt(hand.sequence, hand.chain)
    writer.append(hand.batch({"n": 0}))


CASES: Final = cases_of(globals())
