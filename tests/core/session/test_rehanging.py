"""What is left out of a damaged session takes nothing else with it."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.session.migrating import migrate
from clew.core.session.reading import read_session
from clew.core.session.rehanging import Found
from clew.core.session.salvaging import Salvage, salvage
from tests.core.session.scribe import AT_MS, at, reading, said, seen, session, speaks, texts, user, v4a, v4b

Entry = dict[str, Any]


def spoilt(entry: Entry) -> Entry:
    """The same with something in it that no reader takes."""
    return {**entry, "message": {"role": 7}} if "message" in entry else {**entry, "type": 7, "kind": "none"}


def ids(data: bytes) -> list[str]:
    found = [json.loads(each) for each in data.splitlines()[1:]]
    writes = [each for line in found for each in (line if isinstance(line, list) else [line])]
    return [each["id"] for each in writes if each.get("kind", "entry") == "entry" and "id" in each]


def sources_of(data: bytes, saved: Salvage) -> bool:
    """Is each piece that was left out what stands at its place in the source?"""
    return all(
        hashlib.sha256(data[each.byte : each.byte + each.bytes]).hexdigest() == each.sha256 for each in saved.left_out
    )


# Two branches, a summary that keeps a part, a move of the place in the dialect that has moves.
BRANCHED = [
    user("a"), user("b", "a"), user("c", "b"), user("d", "b"), user("e", "d"),
    at("compaction", "k", "e", summary="s", firstKeptEntryId="d"), user("f", "k"),
    at("branch_summary", "g", "f", fromId="c", summary="left"), user("h", "g"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BRANCHED)))
def test_the_loss_of_one_record_is_the_loss_of_no_other(number: int) -> None:
    """What could be read and was left out all the same would be lost without a reason."""
    entries = [spoilt(each) if place == number else each for place, each in enumerate(BRANCHED)]
    source = session(*entries)

    saved = salvage(source)

    assert [each["id"] for place, each in enumerate(BRANCHED) if place != number] == ids(saved.data)
    assert (1, True) == (len(saved.left_out), sources_of(source, saved))
    assert read_session(saved.data).entries == len(BRANCHED) - 1


@pytest.mark.parametrize("number", range(len(BRANCHED)))
def test_what_was_saved_can_be_migrated(number: int) -> None:
    """Nothing in it points at what is gone, so the conversation can go on."""
    entries = [spoilt(each) if place == number else each for place, each in enumerate(BRANCHED)]
    saved = salvage(session(*entries)).data

    lines = list(migrate(read_session(saved), reading(saved), sha256="0" * 64, backup_file="b"))

    assert len(lines) > len(BRANCHED) - 1


def test_who_followed_a_lost_one_follows_what_that_followed() -> None:
    """On its own branch, and not on the one that happens to stand before it."""
    saved = salvage(session(user("a"), spoilt(user("b", "a")), user("c", "a"), user("d", "b")))

    assert ["hi", "hi"] == texts(seen(saved.data))
    assert ["it follows 'a', for 'b' is not there"] == [each.how for each in saved.changed]


def test_of_a_row_of_lost_ones_the_last_that_is_there_is_followed() -> None:
    """However many they are."""
    saved = salvage(
        session(user("a"), *(spoilt(user(f"x{n}", f"x{n - 1}" if n else "a")) for n in range(9)), user("z", "x8"))
    )

    assert ["a", "z"] == ids(saved.data)
    assert "it follows 'a', for 'x8' is not there" == saved.changed[0].how


def test_what_a_summary_keeps_begins_with_what_is_there_of_it() -> None:
    """Else the summary alone would be shown, and all that it kept be gone."""
    saved = salvage(session(*(spoilt(each) if each["id"] == "d" else each for each in BRANCHED[:7])))

    assert ["s", "hi", "hi"] == texts(seen(saved.data))


@pytest.mark.parametrize("about", [at("label", "l", "b", targetId="b", label="x"),
                                   at("context_edit", "l", "b", targetId="b", replacement=None)])  # fmt: skip
def test_what_is_about_a_lost_entry_is_left_out_with_it(about: Entry) -> None:
    """A word at nothing says nothing, and keeps the file from being migrated."""
    saved = salvage(session(user("a"), spoilt(user("b", "a")), about, user("c", "l")))

    assert (["a", "c"], 2) == (ids(saved.data), len(saved.left_out))


def test_a_move_to_a_lost_entry_leads_to_what_that_followed() -> None:
    """The place of a conversation is where it was, as near as can be."""
    saved = salvage(session(user("a"), spoilt(user("b", "a")), user("c", "a"), at("leaf", "m", "c", targetId="b")))

    assert ("a", ["it leads to 'a', for 'b' is not there"]) == (
        seen(saved.data).leaf, [each.how for each in saved.changed],
    )  # fmt: skip


def test_a_usage_row_of_another_kind_is_an_entry_as_any_other() -> None:
    """Its member `kind` is its own, and no word of version 4."""
    rows = [user("a"), at("usage", "u", "a", kind="cache_warm", usage={"totalTokens": 5}), user("c", "u")]

    saved = salvage(session(rows[0], {**rows[1], "usage": 7}, rows[2]))

    assert (1, ["it follows 'a', for 'u' is not there"]) == (len(saved.left_out), [each.how for each in saved.changed])


def laid(name: str, parent: str | None, lane: str = "main") -> Entry:
    return {**speaks(name, parent), "lane": lane, "parentId": parent}


LANES: list[Entry] = [
    laid("a", None), laid("b", "a"), {"kind": "lane", "lane": "aside", "leafId": "a"}, laid("x", "a", "aside"),
    laid("c", "b"), {"kind": "lane", "lane": "main", "leafId": "b"}, laid("d", "b"), laid("y", "x", "aside"),
    {"kind": "fact", "fact": "name", "name": "T"}, laid("e", "d"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LANES)))
def test_of_a_session_of_ours_one_line_is_lost_and_no_other(number: int) -> None:
    """Also one that moved a lane: whom each entry follows says where its lane was."""
    lines = [spoilt(each) if place == number else each for place, each in enumerate(LANES)]
    source = v4a(*lines)

    saved = salvage(source)

    assert [each["id"] for place, each in enumerate(LANES) if place != number and "id" in each] == ids(saved.data)
    assert (1, True) == (len(saved.left_out), sources_of(source, saved))


def test_a_lane_that_nobody_moves_any_more_is_moved_and_that_is_said() -> None:
    """Or the entry behind it would hang where it was never said."""
    saved = salvage(v4a(*(each for each in LANES if each.get("leafId") != "b")))

    assert any("its lane is moved to 'b'" in each.how for each in saved.changed)
    assert ["a", "b", "d", "e"] == [each.entry_id for each in seen(saved.data).messages]


def test_an_entry_of_no_lane_and_one_that_stands_already_move_nothing() -> None:
    """The one is beside every lane; the other is left out, and leaves no trace."""
    loose = {name: value for name, value in laid("b", "a").items() if name != "lane"}

    saved = salvage(v4a(laid("a", None), loose, {**laid("c", "a"), "parentId": "b", "lane": 7}, laid("a", None)))

    assert (["a", "b"], 2, ()) == (ids(saved.data), len(saved.left_out), saved.changed)


def test_a_line_with_a_new_number_says_no_more_with_which_it_was_written() -> None:
    """The first line of its append has another number as well."""
    lines = [{**laid("a", None), "append": 1}, spoilt(laid("b", "a")), {**laid("c", "b"), "append": 1}]

    saved = salvage(v4a(*lines))

    assert [True, False] == ["append" in json.loads(each) for each in saved.data.splitlines()[1:]]


def write(seq: int, name: str, parent: str | None, **own: Any) -> Entry:
    return {
        "kind": "entry", "type": "message", "id": name, "parentId": parent, "seq": seq, "timestamp": AT_MS,
        "message": said("user", name), **own,
    }  # fmt: skip


def test_of_a_transaction_all_or_nothing_is_kept() -> None:
    """It stands or falls together; who followed it follows what it followed."""
    tip = {"kind": "value", "op": "set", "namespace": "pi.branch.tip", "key": "main", "value": "nowhere", "seq": 4}
    source = v4b(
        write(1, "a", None), [write(2, "b", "a"), write(3, "c", "b"), tip], [write(5, "d", "c"), write(6, "e", "d")]
    )

    saved = salvage(source)

    assert (["a", "d", "e"], ["a", "d", "e"]) == (ids(saved.data), texts(seen(saved.data)))
    assert (1, True) == (len(saved.left_out), sources_of(source, saved))


def test_a_kept_range_counts_the_records_of_a_fused_line() -> None:
    """The program that counted them wrote them on two lines."""

    def old(text: str) -> bytes:
        message = {"role": "user", "content": text}
        return json.dumps({"type": "message", "timestamp": "2026-01-01T00:00:00.000Z", "message": message}).encode()

    summary = b'{"type":"compaction","timestamp":"2026-01-01T00:00:00.000Z","summary":"s","firstKeptEntryIndex":4}'
    source = session(version=None) + old("one") + old("two") + b"\nbad\n" + b"\n".join([old("four"), summary, b""])

    saved = salvage(source)

    assert ["s", "four"] == texts(seen(saved.data))


PARENTS = st.lists(st.integers(0, 30), min_size=1, max_size=25)


@given(PARENTS, st.sets(st.integers(0, 25)), st.sampled_from(["v3", "v4a"]))
def test_whatever_is_spoilt_all_else_is_kept_in_its_order(parents: list[int], bad: set[int], dialect: str) -> None:
    """Property: a tree of any shape, any of its entries spoilt."""
    make: Callable[[str, str | None], Entry] = user if dialect == "v3" else laid
    entries = []
    for number, wish in enumerate(parents):
        parent = None if number == 0 else f"e{wish % number}"
        each = make(f"e{number}", parent)
        if dialect == "v4a" and number and wish % number != number - 1:
            each = {name: value for name, value in each.items() if name != "lane"}
        entries.append(spoilt(each) if number in bad else each)
    source = session(*entries) if dialect == "v3" else v4a(*entries)

    saved = salvage(source)

    assert [f"e{number}" for number in range(len(parents)) if number not in bad] == ids(saved.data)
    assert sources_of(source, saved)


def test_a_member_is_replaced_and_all_other_bytes_stay() -> None:
    """Numbers and escapes of what was saved are those that stood there."""
    record = Found(b'{"id": "a","n":1.0,"text":"\\u00e9","append":3}\n', 2, 9, 1)

    record.put("id", "b")
    record.take("append")
    record.take("append")

    assert b'{"id":"b","n":1.0,"text":"\\u00e9"}' == record.raw
