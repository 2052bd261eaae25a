"""What can be saved of a damaged session is saved in a copy, and every byte that is not in it is named."""

import hashlib
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.core.session.reading import read_session
from clew.core.session.salvaging import Salvage, salvage
from clew.core.session.viewing import view
from clew.errors import Corrupt, Refused
from tests.core.session.trees import logs, spoiled, trees

STAMP = "2026-01-01T00:00:00.000Z"


def line(**value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def header(version: int | None = 3) -> bytes:
    given_version = {} if version is None else {"version": version}
    return line(type="session", **given_version, id="s1", timestamp=STAMP, cwd="/x")


def said(name: str, parent: str | None, text: str = "hello") -> bytes:
    message = {"role": "user", "content": text, "timestamp": 1}
    return line(type="message", id=name, parentId=parent, timestamp=STAMP, message=message)


def old(text: str) -> bytes:
    return line(type="message", timestamp=STAMP, message={"role": "user", "content": text, "timestamp": 1})


def ours(*lines: bytes) -> bytes:
    return line(kind="header", version=4, id="s1", createdAt=1, cwd="/x") + b"".join(lines)


def entry(seq: int, name: str, parent: str | None, text: str = "hello") -> bytes:
    message = {"role": "user", "content": text}
    return line(
        kind="entry", lane="main", type="message", id=name, message=message, parentId=parent, seq=seq, timestamp=1
    )


def shown(data: bytes) -> list[object]:
    return [each.content for each in view(read_session(data), lambda at, n: data[at : at + n]).messages]


def accounted(source: bytes, saved: Salvage) -> bool:
    """Does each left out piece say truly what it was?"""
    return all(
        hashlib.sha256(source[each.byte : each.byte + each.bytes]).hexdigest() == each.sha256 for each in saved.left_out
    )


TALK = header() + said("a", None, "one") + said("b", "a", "two") + said("c", "b", "three")


def test_a_sound_session_is_saved_as_it_is() -> None:
    """Salvage adds nothing and takes nothing."""
    saved = salvage(TALK)

    assert (TALK, "v3", 3, (), ()) == (saved.data, saved.format, saved.records, saved.left_out, saved.changed)


def test_two_records_on_one_line_are_taken_apart_and_that_is_said() -> None:
    """C114 Both were said; a reader that skips the line loses them without a word."""
    fused = header() + said("a", None, "one")[:-1] + said("b", "a", "two") + said("c", "b", "three")

    saved = salvage(fused)

    assert (TALK, ()) == (saved.data, saved.left_out)
    assert [(2, len(header())), (2, len(header() + said("a", None, "one")) - 1)] == [
        (each.line, each.byte) for each in saved.changed
    ]


def test_a_record_with_a_torn_one_behind_it_keeps_the_whole_one() -> None:
    """What can be read is kept, what cannot is named."""
    source = header() + said("a", None, "one")[:-1] + b'{"type":"mess\n' + said("b", "a", "two")

    saved = salvage(source)

    assert (["one", "two"], 13) == (shown(saved.data), saved.left_out[0].bytes)
    assert accounted(source, saved)


@pytest.mark.parametrize(
    "bad",
    [b'{"type":\n', b"\xff\xfe\n", bytes(100) + b"\n", b"[1]\n", b'{"a":1,"a":2}\n', b"NaN\n", b"\n", said("a", None)],
    ids=["torn", "no text", "zeros", "list", "twice", "nan", "empty", "duplicate"],
)
def test_a_line_that_is_no_record_is_left_out_and_named(bad: bytes) -> None:
    """With its place, its length, its digest and the reason, so that a person can look at it."""
    source = header() + said("a", None, "one") + bad + said("b", "a", "two")

    saved = salvage(source)

    [lost] = saved.left_out
    assert (["one", "two"], 3, len(header() + said("a", None, "one")), len(bad)) == (
        shown(saved.data), lost.line, lost.byte, lost.bytes,
    )  # fmt: skip
    assert accounted(source, saved)
    assert lost.why


def test_who_followed_a_lost_record_follows_the_one_before() -> None:
    """Or all that was said behind one bad line would be lost with it."""
    source = TALK.replace(b'"id":"b"', b'"id":"b', 1)

    saved = salvage(source)

    assert (["one", "three"], ["it follows 'a', for 'b' is not there"]) == (
        shown(saved.data), [each.how for each in saved.changed],
    )  # fmt: skip


def test_a_torn_end_is_left_out_and_a_missing_line_end_is_added() -> None:
    """The one is no record, the other is one."""
    torn, whole = salvage(TALK[:-9]), salvage(TALK[:-1])

    assert (["one", "two"], ["one", "two", "three"]) == (shown(torn.data), shown(whole.data))
    assert (1, 0, 1) == (len(torn.left_out), len(whole.left_out), len(whole.changed))


def test_a_session_of_ours_is_numbered_anew() -> None:
    """Its numbers have no gaps, so a line that is missing would make all behind it unreadable."""
    source = ours(entry(1, "a", None, "one"), b"bad\n", entry(3, "c", "b", "three"), entry(4, "d", "c", "four"))

    saved = salvage(source)

    assert ["one", "three", "four"] == shown(saved.data)
    assert [1, 2, 3] == [json.loads(each)["seq"] for each in saved.data.splitlines()[1:]]


def test_what_refers_to_a_lost_entry_is_left_out() -> None:
    """A label at nothing makes the whole unreadable."""
    fact = line(kind="fact", seq=2, fact="label", targetId="b", label="x")
    source = ours(entry(1, "a", None, "one"), fact, entry(3, "c", "a", "two"))

    saved = salvage(source)

    assert (["one", "two"], 3) == (shown(saved.data), saved.left_out[0].line)


def test_a_kept_range_of_version_1_counts_what_is_there() -> None:
    """Its index counts the records of the file, and one of them is gone."""
    compaction = line(type="compaction", timestamp=STAMP, summary="s", firstKeptEntryIndex=3, tokensBefore=9)
    source = header(None) + old("one") + b"bad\n" + old("three") + compaction

    saved = salvage(source)

    assert ["s", "three"] == shown(saved.data)
    assert 2 == json.loads(saved.data.splitlines()[-1])["firstKeptEntryIndex"]


def test_an_index_in_front_of_what_is_lost_stays() -> None:
    """Nothing is changed without need."""
    compaction = line(type="compaction", timestamp=STAMP, summary="s", firstKeptEntryIndex=1, tokensBefore=9)
    source = header(None) + old("one") + compaction + b"bad\n"

    saved = salvage(source)

    assert (["s", "one"], ()) == (shown(saved.data), saved.changed)


@pytest.mark.parametrize(
    "source",
    [b"", b"bad\n", header()[:20], b"bad\n" + TALK, b"[]\n" + TALK],
    ids=["empty", "bad", "torn", "late", "a list"],
)
def test_without_a_header_there_is_nothing_to_save(source: bytes) -> None:
    """Nobody can say what it was."""
    with pytest.raises(Corrupt, match="damaged at line 1"):
        salvage(source)


def test_what_is_of_another_version_is_refused() -> None:
    """What it would leave out nobody can know."""
    with pytest.raises(Refused, match="version 9"):
        salvage(header(9))


def test_of_a_session_with_very_much_damage_all_that_is_sound_is_saved() -> None:
    """It ends, whatever the file is, and gives up on nothing for it."""
    facts = [line(kind="fact", seq=number, fact="label", targetId="none", label="x") for number in range(1, 260)]

    saved = salvage(ours(*facts, entry(260, "a", None, "one")))

    assert (["one"], 259) == (shown(saved.data), len(saved.left_out))


def test_a_header_that_a_reader_refuses_is_not_left_out() -> None:
    """It is damage that no line behind it can mend."""
    with pytest.raises(Corrupt, match="line 1"):
        salvage(line(kind="header", version=4, id="s1", cwd="/x") + entry(1, "a", None))


@given(st.integers(0, len(TALK) - 1), st.integers(0, 255))
def test_whatever_one_byte_became_the_copy_can_be_read_and_the_rest_is_named(at: int, byte: int) -> None:
    """Property: a salvage ends with a session, or says that there is no header."""
    source = TALK[:at] + bytes([byte]) + TALK[at + 1 :]
    try:
        saved = salvage(source)
    except (Corrupt, Refused):
        assert at < len(header())
        return

    read_session(saved.data)
    assert accounted(source, saved)


@given(trees() | logs())
@example(header() + line(type="label", id="l", parentId=None, timestamp=STAMP, targetId="l", label="x"))
@example(header() + line(type="context_edit", id="e", parentId=None, timestamp=STAMP, targetId="e", replacement=None))
@settings(max_examples=60, deadline=None)
def test_of_a_sound_session_nothing_is_left_out(source: bytes) -> None:
    """What every reader takes was left out without need: a word of an entry about itself."""
    saved = salvage(source)

    assert (source, (), ()) == (saved.data, saved.left_out, saved.changed)


@given(spoiled(trees() | logs()))
@settings(max_examples=60, deadline=None)
def test_what_was_saved_is_sound(source: bytes) -> None:
    """Whoever saves a copy once more must not lose a word more of it."""
    try:
        saved = salvage(source)
    except (Corrupt, Refused):
        return

    assert (saved.data, (), ()) == ((again := salvage(saved.data)).data, again.left_out, again.changed)


def test_a_session_of_the_other_fourth_version_loses_its_bad_lines_alone() -> None:
    """It is not ours to number anew: its numbers may have gaps."""
    head = line(v=4, kind="header", id="s1", createdAt=1, storageVersion=1, cwd="/x")
    message = {"role": "user", "content": "one"}
    first = line(kind="entry", type="message", id="a", parentId=None, seq=4, timestamp=1, message=message)

    saved = salvage(head + b"bad\n" + first)

    assert (head + first, "v4b", 1) == (saved.data, saved.format, len(saved.left_out))
