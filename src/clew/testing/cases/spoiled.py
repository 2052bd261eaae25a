"""Journals that no crash leaves: lines shuffled, gapped, doubled, conflicting, changed; and journals of others."""

from collections.abc import Callable
from functools import partial
from typing import Final

from clew.errors import Corrupt
from clew.stores.base import Reading
from clew.testing.kit import Case, case, cases_of, expect, refused
from clew.testing.storelab import RUN, Hand, RunStoreLab, Written, foreign, go_on, read_all, sample, told

_Spoil = Callable[[list[bytes]], list[bytes]]

# Name, why it matters, what is done to six lines, how many good ones then stand before the first bad one.
_ORDERS: Final[tuple[tuple[str, str, _Spoil, int], ...]] = (
    ("shuffled_lines", "Order is the order in the file, so nothing may be sorted on read.",
     lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], 1),
    ("reversed_lines", "The first line must be the first record.", lambda lines: lines[::-1], 0),
    ("a_gap", "A record that is missing was acknowledged; nothing is renumbered.",
     lambda lines: [*lines[:2], *lines[3:]], 2),
    ("a_gap_before_the_last_line", "What stands behind the gap may not be taken for the next record.",
     lambda lines: [*lines[:4], lines[5]], 4),
    ("a_missing_first_line", "A run without its start is no run.", lambda lines: lines[1:], 0),
    ("a_doubled_line", "One of them is not what a writer appended; nothing is skipped on read.",
     lambda lines: [*lines[:3], lines[2], *lines[3:]], 3),
    ("a_doubled_last_line", "Nothing of it is missing, so it is no torn end.", lambda lines: [*lines, lines[5]], 6),
    ("a_doubled_journal", "A copy behind the original, as a script may leave it.", lambda lines: [*lines, *lines], 6),
    ("conflicting_lines", "Two records under one number: which one was acknowledged, nobody can tell.",
     lambda lines: [*lines[:3], lines[2].replace(b'"n":3', b'"n":9'), *lines[3:]], 3),
    ("a_conflicting_last_line", "The second must not win because it is the last.",
     lambda lines: [*lines, lines[5].replace(b'"n":6', b'"n":9')], 6),
)  # fmt: skip

# Name, why it matters, what in line 3 is replaced by what.
_LINES: Final[tuple[tuple[str, str, bytes, bytes], ...]] = (
    ("another_run", "It would tell the agent what another run did.", b'"runId":"r1"', b'"runId":"r2"'),
    ("a_repeated_member", "Two readers would take two values.", b'"sequence":3', b'"sequence":3,"sequence":3'),
    ("a_repeated_member_inside", "At any depth.", b'{"n":3}', b'{"n":{"a":1,"a":1}}'),
    ("not_a_number", "NaN is no JSON, and it is not null either.", b'"n":3', b'"n":NaN'),
    ("an_infinite_number", "Nor is Infinity.", b'"n":3', b'"n":-Infinity'),
    ("a_number_out_of_range", "One reader has infinity, another an error.", b'"n":3', b'"n":1e400'),
    ("a_missing_kind", "A record is not given the kind that it might have.", b'"kind":"event",', b""),
    ("an_unknown_kind", "A kind that is not understood must not be skipped.", b'"kind":"event"', b'"kind":"tale"'),
    ("a_missing_payload", "Nothing is defaulted on read.", b',"payload":{"n":3}', b""),
    ("a_payload_that_is_no_object", "Every kind has one.", b'{"n":3}', b"[3]"),
    ("a_missing_version", "Another version may mean other things.", b'"version":1,', b""),
    ("another_version", "What a later version means, this one does not know.", b'"version":1', b'"version":2'),
    ("a_fractional_sequence", "3.0 is no number of a record.", b'"sequence":3', b'"sequence":3.0'),
    ("a_sequence_in_quotes", "Nothing is converted on read.", b'"sequence":3', b'"sequence":"3"'),
    ("a_sequence_of_true", "Some languages take it for 1.", b'"sequence":3', b'"sequence":true'),
    ("a_blank_event_id", "Such an id names nothing.", b'"sequence":3', b'"eventId":" ","sequence":3'),
    ("bytes_that_are_no_utf_8", "They are never replaced by a question mark.", b'"n":3', b'"n":"\xff"'),
    ("a_byte_order_mark", "It is no part of a line.", b'{"version"', b'\xef\xbb\xbf{"version"'),
    ("two_values_on_a_line", "A lost LF must not hide a record.", b'"payload":{"n":3}}', b'"payload":{"n":3}}{}'),
)  # fmt: skip


def _is_corrupt(lab: RunStoreLab, data: bytes, line: int, byte: int) -> None:
    """Every reader says so at this place, the writer too, and nothing is changed."""
    lab.implant(RUN, data)
    writer = lab.store().open(RUN)

    for read in (lambda: lab.store().read(RUN), writer.read):
        error = refused(Corrupt, "run_state_corrupt", partial(_drain, read), "it is read")
        expect((line, byte), (error.facts.get("line"), error.facts.get("byte")), "line and byte that are named")
    refused(Corrupt, "run_state_corrupt", partial(go_on, writer), "a writer goes on")
    writer.close()
    expect(True, data == lab.raw(RUN), "the bytes are as they were")


def _drain(read: Callable[[], Reading]) -> None:
    read_all(read())


def _out_of_order(spoil: _Spoil, good: int, lab: RunStoreLab) -> None:
    for journal in (_six_of_ours(), foreign(6)):
        lines = spoil(journal.lines)
        _is_corrupt(lab, b"".join(lines), good + 1, len(b"".join(lines[:good])))


def _six_of_ours() -> Written:
    hand, data = Hand(), b""
    for n in range(1, 7):
        data += hand.batch({"n": n}, kind="event" if data else "start").data
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    return Written(data, starts, starts[1:])


def _changed(old: bytes, new: bytes, lab: RunStoreLab) -> None:
    lines = foreign(6).lines
    expect(True, old in lines[2], "the case changes something")
    lines[2] = lines[2].replace(old, new, 1)
    _is_corrupt(lab, b"".join(lines), 3, len(lines[0] + lines[1]))


orders: Final = tuple(
    Case[RunStoreLab](f"{name}_are_corrupt" if name.endswith("lines") else f"{name}_is_corrupt", asserts,
                      partial(_out_of_order, spoil, good), (24,))
    for name, asserts, spoil, good in _ORDERS
)  # fmt: skip
lines: Final = tuple(
    Case[RunStoreLab](f"{name}_in_a_line_is_corrupt", asserts, partial(_changed, old, new))
    for name, asserts, old, new in _LINES
)


@case()
def any_line_that_was_edited_is_corrupt(lab: RunStoreLab) -> None:
    """A digit changed by hand keeps the line whole; only the chain shows it."""
    journal = _six_of_ours()
    for n in range(1, 7):
        edited = [*journal.lines]
        edited[n - 1] = edited[n - 1].replace(b'"n":%d' % n, b'"n":%d' % (n + 3 if n < 6 else 0))
        _is_corrupt(lab, b"".join(edited), n, journal.starts[n - 1])


# ------------------------------------------------------------------------------------------------------------- foreign


@case(38)
def a_foreign_journal_is_read_as_it_is(lab: RunStoreLab) -> None:
    """Reading is mutual: what the reference wrote is shown and planned, and no id or chain is invented for it."""
    journal = foreign(4)
    lab.implant(RUN, journal.data)

    records, tail = read_all(lab.store().read(RUN))

    expect([1, 2, 3, 4], [record.sequence for record in records], "sequences")
    found = {(type(record.event_id) is str, record.chain, record.append) for record in records}
    expect({(False, None, None)}, found, "has an event id, chain and append of the records")
    expect(("clean", journal.data), (tail.verdict, lab.raw(RUN)), "end and bytes of the journal")


@case()
def a_foreign_journal_of_windows_lines_is_read(lab: RunStoreLab) -> None:
    """CR is white space in JSON, and no chain covers it there."""
    lab.implant(RUN, foreign(3).data.replace(b"\n", b"\r\n"))

    expect(([1, 2, 3], "clean"), told(lambda: lab.store().read(RUN))[:2], "what a reader says")


@case()
def a_journal_of_ours_with_windows_lines_is_corrupt(lab: RunStoreLab) -> None:
    """A tool that turned the line ends changed every line that we chained."""
    _is_corrupt(lab, sample().data.replace(b"\n", b"\r\n"), 1, 0)


@case()
def a_torn_foreign_end_is_torn(lab: RunStoreLab) -> None:
    """The reference dies in the middle of a write as well; a reader leaves it so."""
    journal = foreign(4)
    lab.implant(RUN, journal.data[:-20])

    said = told(lambda: lab.store().read(RUN))

    at = journal.starts[3]
    expect(([1, 2, 3], "torn", at, len(journal.data) - 20 - at), said, "what a reader says")
    expect(journal.data[:-20], lab.raw(RUN), "bytes of the journal")


@case()
def a_chain_that_begins_in_the_middle_is_corrupt(lab: RunStoreLab) -> None:
    """Who began a journal continues it: ours behind a foreign beginning would vouch for what it never saw."""
    ours, theirs = _six_of_ours().lines, foreign(6).lines
    _is_corrupt(lab, b"".join([*theirs[:2], *ours[2:]]), 3, len(b"".join(theirs[:2])))


@case()
def a_chain_that_stops_is_corrupt(lab: RunStoreLab) -> None:
    """Otherwise whoever wants to hide an edit leaves the chain out from there on."""
    ours, theirs = _six_of_ours().lines, foreign(6).lines
    _is_corrupt(lab, b"".join([*ours[:2], *theirs[2:]]), 3, len(b"".join(ours[:2])))


@case()
def a_line_of_another_runs_chain_is_corrupt(lab: RunStoreLab) -> None:
    """A journal that was copied under another id has every line right but its run."""
    hand = Hand("r2")
    data = hand.batch({"n": 1}, kind="start").data + hand.batch({"n": 2}).data
    _is_corrupt(lab, data.replace(b'"runId":"r2"', b'"runId":"r1"'), 1, 0)


CASES: Final = cases_of(globals())
