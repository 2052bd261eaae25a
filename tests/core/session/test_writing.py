"""Lines that are to be written: numbered, in their place, and readable by the rules that they were judged by."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from clew.core.session import writing
from clew.core.session.lines import BadLine
from clew.core.session.reading import SessionReader
from clew.core.session.values import Said
from clew.core.session.writing import Draft, compose, header_line, message_id, plain, stands, tail_start
from clew.errors import ClewError, Refused, UsageError
from tests.core.session.scribe import AT_MS, USAGE, answered, asked, reading, said, seen
from tests.strategies import json_values

Conversation = tuple[SessionReader, bytearray]


def begun() -> Conversation:
    reader, data = SessionReader(), bytearray(header_line("s1", created_ms=AT_MS, cwd="/w"))
    reader.feed(bytes(data))
    return reader, data


def write(found: Conversation, *drafts: Draft) -> list[dict[str, Any]]:
    reader, data = found
    assert reader.state is not None
    batch = compose(reader.state, drafts, at_ms=AT_MS)
    data += batch.data
    reader.feed(batch.data)
    assert batch.sequence == reader.state.sequence
    return [json.loads(line) for line in batch.data.splitlines()]


def test_what_is_written_is_seen() -> None:
    """#177: ids come back in order, without duplicates."""
    found = begun()
    write(found, writing.entry("model_change", "m", provider="p", modelId="n"), writing.message("a", said("user", "x")))
    write(
        found,
        writing.message("b", asked("c1")),
        writing.record("usage", "u", cause="adjustment", entryId="b", usage=USAGE),
        writing.message("r", answered("c1")),
        writing.title("title"),
        writing.label("a", "start"),
    )
    shown = seen(bytes(found[1]))

    assert (["a", "b", "r"], "title", {"a": "start"}, 10, 0) == (
        [each.entry_id for each in shown.messages], shown.title, shown.labels, shown.totals.tokens,
        shown.totals.unmeasured,
    )  # fmt: skip


def test_entries_hang_on_the_leaf_of_their_lane() -> None:
    """§6.1; also within one append, on a lane that it makes."""
    found = begun()
    write(found, writing.message("a", said("user")))
    lines = write(
        found,
        writing.move("a", lane="side"),
        writing.message("b", said("user"), lane="side"),
        writing.message("c", said("user")),
        writing.move(None),
        writing.message("d", said("user")),
    )

    assert [None, "a", "a", None, None] == [line.get("parentId") for line in lines]
    assert ("b", "d") == (seen(bytes(found[1])).lanes["side"], seen(bytes(found[1])).leaf)


def test_a_title_and_a_label_are_taken_away() -> None:
    """None is no empty text."""
    found = begun()
    write(found, writing.message("a", said("user")), writing.title("x"), writing.label("a", "y"))
    write(found, writing.title(None), writing.label("a", None))
    shown = seen(bytes(found[1]))

    assert (None, {}) == (shown.title, shown.labels)


def test_an_operation_begins_and_ends() -> None:
    """One at a time on each lane, also within one append."""
    found = begun()
    begin: dict[str, Any] = {"sourceLeafId": None, "intent": {"kind": "run"}}
    lines = write(
        found,
        writing.record("operation_started", "op", **begin),
        writing.record("operation_finished", "end", runId="op", outcome="completed"),
        writing.record("operation_started", "op2", **begin),
    )
    state = found[0].state
    assert state is not None
    with pytest.raises(BadLine):
        compose(state, [writing.record("operation_started", "op3", **begin)], at_ms=AT_MS)

    assert (3, ["op2"]) == (len(lines), [each.id for each in state.open_operations.values()])


@pytest.mark.parametrize(
    ("reason", "drafts"),
    [
        ("duplicate_id", [writing.message("a", said("user")), writing.message("a", said("user"))]),
        ("duplicate_id", [writing.record("usage", "a", usage=USAGE), writing.message("a", said("user"))]),
        ("target_missing", [writing.label("gone", "x")]),
        ("target_missing", [writing.message("a", said("user"), lane="side")]),
        ("target_missing", [writing.move("gone")]),
        ("bad_member", [writing.message("a", {"content": "x"})]),
    ],
)
def test_a_draft_that_may_not_come_is_refused_before_anything_changes(reason: str, drafts: list[Draft]) -> None:
    """Validate, append, then apply: what is refused was never written, nor any line beside it."""
    reader, _ = begun()
    state = reader.state
    assert state is not None
    with pytest.raises(BadLine) as caught:
        compose(state, drafts, at_ms=AT_MS)

    assert (reason, 0, 0) == (caught.value.reason, state.sequence, state.entries)


def test_an_equal_append_is_known() -> None:
    """DESIGN §6: a resumed run says its messages again; the time may differ, nothing else."""
    found = begun()
    write(found, writing.message("a", {"role": "user", "content": "x", "timestamp": 1}))
    state, read = found[0].state, reading(bytes(found[1]))
    assert state is not None
    again = writing.message("a", {"timestamp": 2, "content": "x", "role": "user"})
    note = writing.entry("custom", "n", customType="x", data=[1])
    write(found, note)

    assert (True, True, False, False) == (
        stands(state, read, again),
        stands(state, reading(bytes(found[1])), note),
        stands(state, read, writing.message("b", said("user"))),
        stands(state, read, writing.title("a")),
    )


def test_another_content_under_the_same_id_is_a_conflict() -> None:
    """What was told to a model is never replaced silently."""
    found = begun()
    write(found, writing.message("a", said("user", [1, 2])))
    state, read = found[0].state, reading(bytes(found[1]))
    assert state is not None
    with pytest.raises(Refused) as caught:
        stands(state, read, writing.message("a", said("user", [2, 1])))

    assert ("session_entry_conflict", 2, "a") == (
        caught.value.code, caught.value.facts["line"], caught.value.facts["entry"],
    )  # fmt: skip


def test_ids_of_messages_come_from_where_they_are_said() -> None:
    """Two runs, two turns, two places: never one id."""
    assert 4 == len({message_id("r1", 1, 0), message_id("r2", 1, 0), message_id("r1", 2, 0), message_id("r1", 1, 1)})


def test_a_header_carries_what_it_is_given() -> None:
    """The first line is what a session is known by."""
    line = json.loads(header_line("s1", created_ms=5, cwd="/w", parent="s0", metadata={"a": msgspec.UNSET, "b": 1}))

    assert {
        "kind": "header", "version": 4, "id": "s1", "createdAt": 5, "cwd": "/w", "parentSessionId": "s0",
        "metadata": {"b": 1},
    } == line  # fmt: skip


def test_members_that_are_unset_are_left_out() -> None:
    """#181: undefined is not null."""
    assert {"a": None, "b": [{"d": 1}]} == plain({"a": None, "b": ({"c": msgspec.UNSET, "d": 1},), "e": msgspec.UNSET})


def test_what_is_no_json_is_refused() -> None:
    """A text that stands for a value would be read back as one."""
    with pytest.raises(UsageError) as caught:
        writing.message("a", said("user", object()))

    assert "value_not_json" == caught.value.code


@given(json_values())
def test_whatever_json_holds_is_written_and_read(value: Any) -> None:
    """A tool's details are not ours to understand."""
    found = begun()
    write(found, writing.entry("custom", "a", customType="x", data=value))

    assert 1 == found[0].finish().entries


def summarised(tail: list[dict[str, Any]], summary: str = "s") -> Draft:
    return writing.compaction("c", summary, [Said(each) for each in tail], tokens_before=5, details={"x": 1})


def test_a_compaction_replaces_what_was_said() -> None:
    """#183, #184: the view is summary and tail; every entry is still there."""
    found = begun()
    write(found, writing.message("a", said("user", "old")), writing.message("b", said("user", "kept")))
    write(found, summarised([said("user", "kept")]))
    shown = seen(bytes(found[1]))

    assert (["s", "kept"], 3) == ([each.content for each in shown.messages], shown.entries)


@pytest.mark.parametrize("summary", ["", " \n"])
def test_an_empty_summary_is_not_published(summary: str) -> None:
    """C106: half of the summaries of a busy tool were empty, and the history was gone."""
    with pytest.raises(ClewError) as caught:
        summarised([], summary)

    assert "empty_summary" == caught.value.code


@pytest.mark.parametrize("tail", [[answered("c1")], [asked("c1")], [asked("c1", "c2"), answered("c1")]])
def test_a_compaction_never_separates_a_call_from_its_result(tail: list[dict[str, Any]]) -> None:
    """C09: the context would begin with a result that nobody asked for."""
    with pytest.raises(ClewError) as caught:
        summarised(tail)

    assert "compaction_splits_call" == caught.value.code


TALK = [said("user"), asked("c1"), answered("c1"), said("user"), asked("c2"), answered("c2")]


@pytest.mark.parametrize(("start", "wanted"), [(0, 0), (1, 1), (1, 2), (3, 3), (4, 4), (4, 5), (6, 6)])
def test_a_tail_begins_where_no_call_is_left_behind(start: int, wanted: int) -> None:
    """The nearest place before the wished one, so that nothing wished for is lost."""
    assert start == tail_start([Said(each) for each in TALK], wanted)


def test_a_tail_that_could_begin_nowhere_is_empty() -> None:
    """A conversation that begins with a stray result has no safe place before it."""
    assert (1, 0) == (tail_start([Said(answered("c1"))], 0), tail_start([], 0))
