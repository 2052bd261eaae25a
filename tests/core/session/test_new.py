"""Lines of both generations of v4, read into a state."""

from typing import Any

import pytest

from clew.core.session.judging import judge
from clew.core.session.tree import NOWHERE
from clew.errors import ClewError
from tests.core.session.scribe import (
    AT_MS,
    USAGE,
    answered,
    asked,
    finished,
    new,
    record,
    said,
    seen,
    speaks,
    started,
    state_of,
    texts,
    tool_started,
    v4a,
    v4b,
)


def refused(data: bytes) -> ClewError:
    with pytest.raises(ClewError) as caught:
        state_of(data)
    return caught.value


def test_lanes_go_on_from_where_they_stand() -> None:
    """§6.1: each lane is a place in the tree, and moves."""
    state = state_of(
        v4a(
            speaks("a"),
            {"kind": "lane", "lane": "side", "leafId": "a"},
            speaks("b", "a", lane="side"),
            speaks("c", None, lane=None),
            {"kind": "lane", "lane": "main", "leafId": None},
        )
    )

    assert ({"main": NOWHERE, "side": 1}, 5) == (state.lanes, state.sequence)


def test_title_and_labels_are_facts() -> None:
    """A title of v4a is kept as it was typed."""
    label = {"kind": "fact", "fact": "label", "targetId": "a"}
    state = state_of(
        v4a(speaks("a"), speaks("b", "a"), {"kind": "fact", "fact": "name", "name": "  x "}, {**label, "label": "one"},
            label, {**label, "targetId": "b", "label": ""})
    )  # fmt: skip

    assert ("  x ", {"b": ""}) == (state.title, state.labels)
    assert state_of(v4a({"kind": "fact", "fact": "name"})).title is None


def test_an_operation_without_an_end_is_open() -> None:
    """§6.1: the program died in it."""
    found = judge(state_of(v4a(started("op"), finished("op"), started("op2", kind="compaction"))))

    assert [("op2", "main", "compaction", 4)] == [
        (each.id, each.lane, each.kind, each.line) for each in found.open_operations
    ]


def test_a_started_tool_without_a_result_is_an_unknown_effect() -> None:
    """§6.1: it may have paid; only one that may be repeated is no question."""
    lines = (
        started("op"), speaks("a", None, asked("c1", "c2", "c3")), tool_started("t1", "c1", "r1"),
        tool_started("t2", "c2", "r2"), tool_started("t3", "c3", "r3", "safe"), speaks("r1", "a", answered("c1")),
        tool_started("t4", "c1", "r1"),
    )  # fmt: skip
    found = judge(state_of(v4a(*lines)))

    assert (["c2"], ["c2", "c3"]) == (
        [each.call_id for each in found.unknown_effects],
        [each.call_id for each in found.orphan_calls],
    )


@pytest.mark.parametrize("early", [True, False])
def test_totals_come_from_usage_records_alone(early: bool) -> None:
    """§6.1: the usage that a message carries was copied into a record; counting both is twice the money."""
    answer = speaks("a", None, asked(usage=USAGE))
    used = record("usage", "u", usage=USAGE, entryId="a", stopReason="stop")
    other = record("usage", "w", usage={"input": 0}, details={"stopReason": "aborted"})
    pair = (used, answer) if early else (answer, used)
    totals = state_of(v4a(*pair, speaks("b", "a", asked(usage=USAGE)), other)).totals()

    assert (10, 2, 2) == (totals.tokens, totals.messages, totals.unmeasured)


def test_a_line_that_may_not_come_changes_nothing() -> None:
    """The writer judges by these rules before it writes: a refusal must leave the state as it was."""
    data = v4a(speaks("a"), speaks("b", "gone"))

    assert (3, "parent_missing") == (refused(data).facts["line"], refused(data).facts["reason"])


def written(id: str, parent: str | None, seq: int, message: dict[str, Any] | None = None, **own: Any) -> dict[str, Any]:
    head = {"kind": "entry", "id": id, "parentId": parent, "seq": seq, "timestamp": AT_MS}
    return {**head, "type": "message", "message": message or said("user", id), **own}


def value(namespace: str, key: str, new: Any, seq: int, op: str = "set") -> dict[str, Any]:
    return {"kind": "value", "op": op, "namespace": namespace, "key": key, "value": new, "seq": seq}


CONFIG = {"model": {"provider": "p", "modelId": "m"}, "thinkingLevel": "low", "activeToolNames": ["x"]}


def test_a_v4b_session_says_where_it_stands_by_values() -> None:
    """§6.2: tip and settings are rows, and a transaction of several writes is one line."""
    data = v4b(
        [written("a", None, 1), written("b", "a", 2)],
        written("c", "a", 5, {**said("user", "c"), "role": "assistant", "provider": "q", "model": "n"}),
        value("pi.branch.tip", "main", "b", 6),
        value("pi.lane.config", "main", CONFIG, 7),
        value("pi.session.name", "", "title", 8),
        value("pi.entry.label", "a", "x", 9),
        {"kind": "usage", "id": "u", "usage": USAGE, "adjustment": True, "seq": 12},
        {"kind": "list", "op": "append", "seq": 13},
        written("d", "c", 14),
    )
    shown = seen(data)

    assert (["a", "b"], "low", "p/m", ("x",), "title", {"a": "x"}, 10, "b") == (
        texts(shown), shown.level, shown.model, shown.tools, shown.title, shown.labels, shown.totals.tokens, shown.leaf,
    )  # fmt: skip


def test_a_v4b_session_without_a_tip_stands_at_its_last_entry() -> None:
    """Nothing else says where."""
    assert "a" == seen(v4b(written("a", None, 1))).leaf


def test_a_v4b_compaction_carries_its_tail() -> None:
    """It is shown in place of all before it."""
    data = v4b(
        written("a", None, 1),
        written("c", "a", 2, type="compaction", summary="s", retainedTail=[said("user", "kept")]),
    )

    assert ["s", "kept"] == texts(seen(data))


def test_values_are_taken_back() -> None:
    """A deleted title is no title."""
    data = v4b(
        written("a", None, 1),
        value("pi.session.name", "", "t", 2),
        value("pi.session.name", "", None, 3, "delete"),
        value("pi.entry.label", "a", "x", 4),
        value("pi.entry.label", "a", None, 5, "delete"),
        value("pi.branch.tip", "main", None, 6),
        value("pi.lane.config", "main", None, 7),
        value("pi.lane.config", "side", CONFIG, 8),
        value("other.space", "x", 1, 9),
    )
    shown = seen(data)

    assert (None, {}, None, "off") == (shown.title, shown.labels, shown.leaf, shown.level)


def test_a_config_that_says_nothing_sets_nothing() -> None:
    """A missing level is no level."""
    shown = seen(v4b(value("pi.lane.config", "main", {}, 1)))

    assert ("off", None, None) == (shown.level, shown.model, shown.tools)


def test_a_running_v4b_operation_is_open() -> None:
    """Its lane says which one it was in."""
    running = value("pi.lane.state", "main", {"currentOperationId": "op"}, 1)
    ended = value("pi.lane.state", "main", {"currentOperationId": None}, 2)

    assert (["op"], []) == (
        [each.id for each in judge(state_of(v4b(running))).open_operations],
        [each.id for each in judge(state_of(v4b(running, ended))).open_operations],
    )


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("unknown_kind", {"kind": "register", "seq": 1}),
        ("unknown_kind", [5]),
        ("bad_sequence", {"kind": "list", "seq": 0}),
        ("bad_member", {"kind": "list", "seq": "1"}),
        ("parent_missing", written("a", "gone", 1)),
        ("bad_member", written("", None, 1)),
        ("unknown_type", written("a", None, 1, type="model_change")),
        ("bad_member", {"kind": "usage", "usage": 5, "seq": 1}),
        ("target_missing", value("pi.branch.tip", "main", "gone", 1)),
        ("bad_member", value("pi.branch.tip", 5, "a", 1)),  # type: ignore[arg-type]  # that is the point
    ],
)
def test_a_write_that_cannot_be_is_refused(reason: str, line: Any) -> None:
    """A bad transaction stands or falls as a whole, and with it the file."""
    assert reason == refused(v4b(line)).facts["reason"]


def test_entries_that_say_nothing_are_read() -> None:
    """A custom entry is a place in the tree, no message."""
    data = v4a(new("custom", "a", customType="x"), speaks("b", "a"))

    assert ["b"] == [each.entry_id for each in seen(data).messages]
    assert 1 == state_of(v4b({**new("custom", "a", customType="x"), "seq": 1})).entries


def test_a_record_that_changes_nothing_is_read() -> None:
    """A request to abort is told to whoever looks; the operation ends by its own record."""
    state = state_of(v4a(started("op"), record("abort_requested", "x", runId="op")))

    assert (2, True) == (state.sequence, "x" in state.other_ids)
