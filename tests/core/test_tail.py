"""The end of a file: torn or corrupt."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.chain import link
from clew.core.codec import MAX_APPEND, encode_append
from clew.core.records import Draft, Head
from clew.core.tail import SECTOR, check_head, judge_tail
from clew.errors import Corrupt
from tests.core.journals import (
    RUN,
    TIME,
    Readback,
    Written,
    appends,
    naive_records,
    plain,
    read,
    sample,
    say,
    states_of_append,
    write,
)

SAMPLE = sample()
LAST = SAMPLE.ends[-2]
"""Where the last append of the sample begins; its records are 5 to 8."""

OPENING = b'{"version":1,"runId":"01JD4KQ7Z8","sequence":%d,'


def verdict(data: bytes, head: Head | None = None) -> str:
    """`corrupt`, or how a reader says that the file ends."""
    try:
        return read(data, head=head).verdict
    except Corrupt:
        return "corrupt"


def judge(tail: bytes, *, at_byte: int = 0, next_sequence: int = 2, last_append: int | None = 1) -> None:
    judge_tail(
        tail, run_id=RUN, at_byte=at_byte, next_sequence=next_sequence, last_append=last_append, why="it is broken"
    )


def zeroed(data: bytes, start: int, stop: int) -> bytes:
    return data[:start] + bytes(stop - start) + data[stop:]


def changed(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + bytes([byte]) + data[at + 1 :]


# ------------------------------------------------------------------------------------------------- what a crash leaves


@given(said=appends, cut=st.integers(min_value=0))
def test_a_journal_cut_at_any_byte_yields_the_records_before_the_cut(said: Any, cut: int) -> None:
    """A process that dies in a write leaves a prefix: whatever the payloads hold, nothing acknowledged is refused."""
    written = write(said)
    cut = written.starts[1] - 1 + cut % (len(written.data) - written.starts[1] + 2)
    whole = max(i for i, start in enumerate(written.starts) if start <= cut + 1)
    at = min(cut, written.starts[whole])
    end = "clean" if cut == at == written.starts[whole] else "unterminated" if cut == at else "torn"

    assert read(written.data[:cut]) == Readback(written.records[:whole], at, end)


def test_every_cut_of_one_journal_is_judged() -> None:
    """The property above, without luck."""
    for cut in range(SAMPLE.starts[1] - 1, len(SAMPLE.data) + 1):
        found = read(SAMPLE.data[:cut])
        whole = sum(start <= cut + 1 for start in SAMPLE.starts[1:])

        assert found.records == SAMPLE.records[:whole]
        assert (found.verdict == "clean") == (cut in SAMPLE.starts)
        assert (found.verdict == "unterminated") == (cut + 1 in SAMPLE.starts)


def test_a_payload_that_looks_like_the_end_of_a_line_is_no_other_append() -> None:
    """A tool may well have an argument named `append`, and a record inside its arguments."""
    inner = json.loads(SAMPLE.lines[0])
    payload = {"args": {"path": "x", "append": 7}, "records": [inner, {"append": 9}], "n": 1}
    written = write([[say()], [Draft("event", payload)]])
    found = {verdict(written.data[:cut]) for cut in range(written.starts[1] + 1, len(written.data) - 1)}

    assert found == {"torn"}


@pytest.mark.parametrize("padding", [0, 97, *range(233, 262, 2)])
def test_no_state_of_an_append_is_refused_and_nothing_acknowledged_lost(padding: int) -> None:
    """Every file a power cut may leave of an append: any of its sectors zero, cut at any sector or whole."""
    last = [say("a" * 1400), say(), say("b" * 1500), say("c" * 40)]
    written = write([[say("p" * padding, "start")], [say("x" * 300), say()], [say("y")], last])
    acknowledged = written.records[:4]
    for state in states_of_append(written.data[: written.ends[-2]], written.data[written.ends[-2] :]):
        found = read(state)

        assert found.records == written.records[: len(found.records)]
        assert found.records[:4] == acknowledged
        assert read(state[: found.at_byte]).records == found.records


@pytest.mark.parametrize("size", range(0, 900, 7))
def test_no_state_of_one_line_is_refused(size: int) -> None:
    """A single record, in all positions of its end and of the LF along the sectors."""
    written = write([[say("z" * 300, "start")], [say("x" * size)]])
    for state in states_of_append(written.data[: written.ends[1]], written.data[written.ends[1] :]):
        found = read(state)

        assert found.records in (written.records[:1], written.records)


def test_a_sector_of_the_last_append_may_be_missing() -> None:
    """Contract #22 as DESIGN §13 has it: a disk writes sectors in any order; nobody said that it was acknowledged."""
    borders = range(LAST - LAST % SECTOR + SECTOR, len(SAMPLE.data), SECTOR)
    found = {verdict(zeroed(SAMPLE.data, at, min(at + SECTOR, len(SAMPLE.data)))) for at in borders}

    assert found == {"torn"}


def test_a_lost_sector_is_counted_from_the_beginning_of_the_file() -> None:
    """512 zero bytes elsewhere are not what a disk loses."""
    at = LAST - LAST % SECTOR + SECTOR + 1

    assert verdict(zeroed(SAMPLE.data, at, at + SECTOR)) == "corrupt"


def test_the_first_lost_sector_may_have_begun_before_the_tail() -> None:
    """What stood in it before is on the disk already."""
    at = LAST - LAST % SECTOR + SECTOR

    assert verdict(zeroed(SAMPLE.data, LAST, at)) == "torn"


# ------------------------------------------------------------------------------------------------------ what is damage


def flips(start: int, stop: int) -> Iterable[bytes]:
    return (changed(SAMPLE.data, at, SAMPLE.data[at] ^ 1 << bit) for at in range(start, stop) for bit in (0, 3, 7))


def without(i: int) -> bytes:
    return b"".join(SAMPLE.lines[:i] + SAMPLE.lines[i + 1 :])


def swapped(i: int) -> bytes:
    lines = SAMPLE.lines
    return b"".join([*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]])


def repeated(i: int) -> bytes:
    return b"".join(SAMPLE.lines[: i + 1] + SAMPLE.lines[i:])


def rewritten(i: int) -> bytes:
    """Record i + 1 by another one with a right chain, the rest kept."""
    record = SAMPLE.records[i]
    batch = encode_append(
        RUN,
        after=i,
        chain=SAMPLE.records[i - 1].chain or "",
        drafts=[say("other")],
        timestamp=TIME,
        event_ids=[str(record.event_id)],
    )
    return b"".join([*SAMPLE.lines[:i], batch.data, *SAMPLE.lines[i + 1 :]])


PLANTS: dict[str, tuple[str, Iterable[bytes]]] = {
    "a bit flipped anywhere": ("corrupt", flips(0, len(SAMPLE.data) - 1)),
    "a bit of the last LF flipped": ("corrupt", (SAMPLE.data[:-1] + bytes([10 ^ 1 << bit]) for bit in range(8))),
    "a line deleted": ("corrupt", (without(i) for i in range(7))),
    "two lines swapped": ("corrupt", (swapped(i) for i in range(7))),
    "a line repeated": ("corrupt", (repeated(i) for i in range(8))),
    "a record written anew with a right chain": ("corrupt", (rewritten(i) for i in (1, 4, 6))),
    "a sector zeroed before the last append": (
        "corrupt",
        (zeroed(SAMPLE.data, at, at + SECTOR) for at in range(0, LAST - SECTOR + 1, SECTOR)),
    ),
    "the sector on the border to the last append zeroed": (
        "corrupt",
        [zeroed(SAMPLE.data, LAST - LAST % SECTOR, LAST - LAST % SECTOR + SECTOR)],
    ),
    "all from the middle on zeroed but the last line": ("corrupt", [zeroed(SAMPLE.data, 300, SAMPLE.starts[7])]),
    "the beginning cut off": ("corrupt", (SAMPLE.data[start:] for start in SAMPLE.starts[1:8])),
    "CRLF": ("corrupt", [SAMPLE.data.replace(b"\n", b"\r\n")]),
    "bytes behind": (
        "corrupt",
        (SAMPLE.data + text for text in (b"hello", b"12", b" ", b"[", b"\xff", OPENING % 8, OPENING % 10)),
    ),
    "lines behind": (
        "corrupt",
        (SAMPLE.data + text for text in (b"hello\n", b"\n", b"{}\n", b"{\n", b"\0\n", b"\r\n", OPENING % 9 + b"\n")),
    ),
    "a whole line and bytes": ("corrupt", (SAMPLE.data[:-1] + text for text in (b" x", b"}", b"\r", b"{}"))),
    "nothing but a line that is cut": ("corrupt", (SAMPLE.data[:at] for at in (1, 50, SAMPLE.starts[1] - 2))),
    "nothing but zeros": ("corrupt", [bytes(600)]),
    "the next line begun": ("torn", (SAMPLE.data + (OPENING % 9)[:size] for size in (1, 20, 46))),
    "zeros behind": ("torn", (SAMPLE.data + bytes(size) for size in (1, 600))),
    "a lost sector and a line end behind": ("torn", [SAMPLE.data + bytes(1100) + b"\n"]),
    "the last LF zeroed": ("torn", [SAMPLE.data[:-1] + b"\0"]),
    "cut between two records": ("clean", (SAMPLE.data[:start] for start in SAMPLE.starts[1:])),
}


@pytest.mark.parametrize(("expected", "plants"), PLANTS.values(), ids=PLANTS)
def test_planted_damage_is_told_from_a_torn_end(expected: str, plants: Iterable[bytes]) -> None:
    """Only the incomplete end may be cut; all else that is wrong fails closed."""
    found = {verdict(data) for data in plants}

    assert found == {expected}


@pytest.mark.parametrize(
    "data",
    [
        SAMPLE.data[: SAMPLE.starts[7]],
        SAMPLE.data[: SAMPLE.starts[7] + 9],
        SAMPLE.data[:-2],
        zeroed(SAMPLE.data, len(SAMPLE.data) - 40, len(SAMPLE.data)),
        zeroed(SAMPLE.data, LAST - LAST % SECTOR + SECTOR, LAST - LAST % SECTOR + 2 * SECTOR),
        rewritten(7),
        b"",
    ],
    ids=["record missing", "record cut", "last byte missing", "zeros", "sector lost", "written anew", "empty"],
)
def test_what_is_missing_below_the_head_is_corrupt(data: bytes) -> None:
    """No local rule sees a shorter file; the head does."""
    assert (verdict(data, SAMPLE.head), verdict(data) == "corrupt") == ("corrupt", False)


def test_a_torn_end_behind_the_head_is_torn() -> None:
    """What was acknowledged is all there."""
    assert verdict(SAMPLE.data + b'{"ver', SAMPLE.head) == "torn"


def single_changes(data: bytes) -> Iterable[tuple[int, int]]:
    for at, byte in enumerate(data):
        for other in {byte ^ 1, byte ^ 0x20, byte ^ 0x80, 0, 10, 13, 32, 34, 125} - {byte}:
            yield at, other


def test_no_changed_byte_of_one_journal_yields_other_records() -> None:
    """Every byte, nine ways: seen, except that a zero for the last LF is a torn end."""
    unseen = [
        (at, byte) for at, byte in single_changes(SAMPLE.data) if verdict(changed(SAMPLE.data, at, byte)) != "corrupt"
    ]

    assert unseen == [(len(SAMPLE.data) - 1, 0)]


@given(said=appends, at=st.integers(min_value=0), byte=st.integers(0, 255))
def test_a_changed_byte_never_yields_other_records(said: Any, at: int, byte: int) -> None:
    """Whatever the payloads hold, a reader gives what was written or refuses; before the last append it refuses."""
    written = write(said)
    at %= len(written.data)
    data = changed(written.data, at, byte)
    try:
        found = read(data)
    except Corrupt:
        return

    assert found.records == written.records[: len(found.records)]
    assert data == written.data or at >= written.ends[-2]


@given(
    said=appends,
    edits=st.lists(st.tuples(st.integers(min_value=0), st.integers(0, 20), st.binary(max_size=3)), max_size=2),
)
def test_a_naive_reader_agrees(said: Any, edits: list[tuple[int, int, bytes]]) -> None:
    """A second reader, written from the specification alone, stops at the same line with the same records."""
    data = write(said).data
    for anywhere, size, other in edits:
        at = anywhere % (len(data) + 1)
        data = data[:at] + other + data[at + size :]
    try:
        found = [plain(record) for record in read(data).records]
    except Corrupt as error:
        found = [plain(record) for record in read(data[: error.facts["byte"]]).records]

    assert repr(found) == repr(naive_records(data))


# ------------------------------------------------------------------------------------------------------- what it says


def test_a_refusal_names_run_line_byte_and_reason() -> None:
    """The operator must find the place with any editor, and what to do."""
    data = changed(SAMPLE.data, SAMPLE.starts[2] + 100, 0)
    with pytest.raises(Corrupt) as caught:
        read(data)
    error, byte = caught.value, SAMPLE.starts[2]

    assert (error.code, error.facts["run"], error.facts["line"], error.facts["byte"]) == (
        "run_state_corrupt",
        RUN,
        3,
        byte,
    )
    assert error.message.startswith(
        f"the journal of run {RUN!r} is damaged at line 3, byte {byte}: it is not strict JSON"
    )
    assert error.facts["why"].endswith("; a line is broken of which no whole sector is missing")
    assert f"clew verify {RUN}" in error.next


def test_a_refusal_by_the_head_names_the_way_out() -> None:
    """A loss that somebody accepts by name is the only way on."""
    with pytest.raises(Corrupt) as caught:
        check_head(SAMPLE.head, run_id=RUN, at_byte=77, next_sequence=8)

    assert caught.value.facts == {
        "run": RUN,
        "line": 8,
        "byte": 77,
        "why": "the file ends, but record 8 was acknowledged",
    }
    assert f"clew verify {RUN} --accept-loss" in caught.value.next


@pytest.mark.parametrize(("sequence", "next_sequence"), [(1, 2), (8, 9), (3, 9)])
def test_a_journal_that_reaches_its_head_passes(sequence: int, next_sequence: int) -> None:
    """A head is a lower bound."""
    check_head(Head(sequence, "", 0, {}), run_id=RUN, at_byte=0, next_sequence=next_sequence)


def test_without_a_head_every_end_passes() -> None:
    """A head may have been lost in the crash, too."""
    check_head(None, run_id=RUN, at_byte=0, next_sequence=1)


# ------------------------------------------------------------------------------------------------------- rule by rule


def test_without_a_whole_record_nothing_is_torn() -> None:
    """A journal is born with its first append: there is no legal file without it."""
    with pytest.raises(Corrupt, match="no whole record stands before it"):
        judge(b"{", next_sequence=1)


def test_more_bytes_than_an_append_may_have_are_not_torn() -> None:
    """They cannot come from one write."""
    judge(bytes(MAX_APPEND))
    with pytest.raises(Corrupt, match="more bytes follow"):
        judge(bytes(MAX_APPEND + 1))


def test_nothing_is_torn_as_well() -> None:
    """An empty rest says nothing against its end."""
    judge(b"")


@pytest.mark.parametrize("tail", [OPENING % 3, OPENING % 2 + b'"x"\n', b'{"version":1,"runId":"other"', b"\n", b"x\0"])
def test_a_tail_that_is_not_the_next_record_is_corrupt(tail: bytes) -> None:
    """A torn append begins with the first bytes of its first record."""
    with pytest.raises(Corrupt):
        judge(tail)


def whole(written: Written, i: int) -> bytes:
    return written.lines[i]


def lost(append: int = 2, *, at: int = 0) -> bytes:
    """Record 2 as a line of which everything but its beginning and end is missing."""
    return (OPENING % 2) + bytes(2 * SECTOR - at) + b',"append":%d}\n' % append


LINES = write([[say()], [say(), say(), say(), say()]]).lines


@pytest.mark.parametrize("append", [1, 2])
def test_a_broken_line_may_show_its_own_append_or_the_one_before(append: int) -> None:
    """The first lost line may belong to the append of the last good record."""
    judge(lost(append))


@pytest.mark.parametrize("append", [3, 10])
def test_a_broken_line_that_shows_another_append_is_corrupt(append: int) -> None:
    """A line of a later append means that this one was acknowledged."""
    with pytest.raises(Corrupt, match="another append follows"):
        judge(lost(append))


@pytest.mark.parametrize("second", [LINES[2], lost(1)], ids=["whole", "broken"])
def test_all_pieces_show_the_same_append(second: bytes) -> None:
    """One torn append is all that may stand there."""
    judge(lost(2) + LINES[2])
    with pytest.raises(Corrupt, match="another append follows"):
        judge(lost(1 if second == LINES[2] else 2) + second)


def test_a_cut_line_that_lost_a_sector_shows_its_append_too() -> None:
    """A line of which only the LF is missing ends where it ends."""
    with pytest.raises(Corrupt, match="another append follows"):
        judge(lost(3)[:-1])


def test_a_whole_line_first_is_corrupt() -> None:
    """Nothing of it is missing, so it is wrong."""
    with pytest.raises(Corrupt, match="nothing of it is missing"):
        judge(LINES[1])


def test_whole_lines_behind_a_broken_one_are_of_the_torn_append() -> None:
    """Its sectors may have reached the disk in any order."""
    judge(lost() + LINES[2] + LINES[3] + LINES[4])
    judge(lost() + LINES[3] + LINES[4][:-1])


FOREIGN = write([[say()], [say(), say(), say()]], "other").lines


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([b"{}\n"], "its version is missing"),
        ([LINES[1]], "not a later record of this run"),
        ([FOREIGN[2]], "not a later record of this run"),
        ([LINES[2].replace(b',"append":2', b"")], "not a later record of this run"),
        ([LINES[2].replace(b'"chain"', b'"chaim"')], "not a later record of this run"),
        ([LINES[2].replace(b"}\n", b',"more":1}\n')], "not a later record of this run"),
        ([LINES[2].replace(b'"chain":"', b'"chain":"!')], "not a later record of this run"),
        ([LINES[2], LINES[4]], "does not continue"),
        ([LINES[2], LINES[3].replace(b'"text":""', b'"text":"!"')], "does not continue"),
        ([LINES[3], LINES[2]], "does not continue"),
    ],
    ids=["other", "same", "foreign", "no append", "no chain", "not last", "no value", "gap", "edited", "order"],
)
def test_a_whole_line_that_cannot_be_of_the_torn_append_is_corrupt(lines: list[bytes], why: str) -> None:
    """Only damage puts it there."""
    with pytest.raises(Corrupt, match=why):
        judge(lost() + b"".join(lines))


def test_a_gap_behind_a_whole_line_is_corrupt_even_with_a_right_chain() -> None:
    """Sequences are consecutive as persisted, whoever wrote them."""
    before, end = LINES[3].replace(b'"sequence":4', b'"sequence":7').split(b',"chain"')[0], b',"append":2}'
    value = link(json.loads(LINES[2])["chain"], before, end).encode()
    with pytest.raises(Corrupt, match="does not continue"):
        judge(lost() + LINES[2] + before + b',"chain":"' + value + b'"' + end)


def test_behind_another_broken_line_a_whole_line_need_not_follow() -> None:
    """What stood between them is missing."""
    judge(lost() + LINES[2] + bytes(1100) + b"\n" + LINES[4])


@pytest.mark.parametrize(
    ("at_byte", "zeros", "torn"), [(0, 511, False), (0, 512, True), (1, 511, True), (511, 1, True), (511, 513, True)]
)
def test_a_tail_that_begins_with_zeros_lost_its_part_of_the_sector(at_byte: int, zeros: int, torn: bool) -> None:
    """The sector is clipped to where the tail begins."""
    data = bytes(zeros) + b'"x":1}\n'
    if torn:
        judge(data, at_byte=at_byte)
    else:
        with pytest.raises(Corrupt, match="no whole sector is missing"):
            judge(data, at_byte=at_byte)


@pytest.mark.parametrize(
    ("short_of_border", "torn"), [(0, True), (SECTOR, True), (1, False), (100, False), (511, False)]
)
def test_a_line_must_have_lost_a_sector_of_the_file(short_of_border: int, torn: bool) -> None:
    """Sectors are counted from the beginning of the file, wherever the line stands."""
    data = OPENING % 2 + bytes(SECTOR) + b'"}\n'
    at_byte = 2 * SECTOR - len(OPENING % 2) - short_of_border
    if torn:
        judge(data, at_byte=at_byte)
    else:
        with pytest.raises(Corrupt, match="no whole sector is missing"):
            judge(data, at_byte=at_byte)


@pytest.mark.parametrize(("zeros", "torn"), [(100, False), (100 + SECTOR, True)])
def test_only_the_tail_itself_may_begin_inside_a_lost_sector(zeros: int, torn: bool) -> None:
    """What stands before a later line in its sector is on the disk, so the sector was not lost."""
    first = lost()
    data = first + bytes(zeros) + b'"x":1}\n'
    at_byte = 4 * SECTOR - len(first) - 100
    if torn:
        judge(data, at_byte=at_byte)
    else:
        with pytest.raises(Corrupt, match="no whole sector is missing"):
            judge(data, at_byte=at_byte)


def test_each_broken_line_must_have_lost_a_sector() -> None:
    """The first one excuses only itself."""
    with pytest.raises(Corrupt, match="no whole sector is missing"):
        judge(lost() + LINES[2][:90] + b"\n" + LINES[4])


@pytest.mark.parametrize("behind", [b"x", b"\r", b" ", b"\xff", b"{"])
def test_a_whole_line_whose_lf_became_another_byte_is_corrupt(behind: bytes) -> None:
    """An LF is written with its line; nothing tears it into another byte."""
    with pytest.raises(Corrupt):
        judge(LINES[1][:-1] + behind)


@pytest.mark.parametrize("behind", [b"\0", bytes(600), b"\0x"])
def test_a_whole_line_with_zeros_behind_is_torn(behind: bytes) -> None:
    """The file has grown, its bytes have not come."""
    judge(LINES[1][:-1] + behind)


def test_a_cut_line_nested_too_deeply_is_torn() -> None:
    """It is a line that is cut, whatever it would have been."""
    judge(OPENING % 2 + b'"payload":' + b"[" * 100_000)


def test_a_cut_line_of_a_foreign_journal_is_torn() -> None:
    """Its lines have no append to show."""
    judge(OPENING % 2 + b'"payload":{"append":7}', last_append=None)
