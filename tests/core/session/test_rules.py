"""What may come next in a v4a session: judged alike when it is written and when it is read."""

from typing import Any

import pytest

from clew.core.session.lines import BadLine
from clew.core.session.new import Standing
from clew.core.session.rules import RECORDS, check_line
from tests.core.session.scribe import (
    USAGE,
    finished,
    new,
    record,
    said,
    speaks,
    started,
    state_of,
    tool_started,
    v4a,
)

STANDING = Standing(state_of(v4a(speaks("a"), started("op"))))


def reason_of(line: Any) -> str:
    with pytest.raises(BadLine) as caught:
        check_line(line, STANDING)
    return caught.value.reason


def third(line: dict[str, Any]) -> dict[str, Any]:
    return {**line, "seq": 3}


GOOD: list[dict[str, Any]] = [
    speaks("b", "a"),
    speaks("b", None, lane=None),
    new("model_change", "b", "a", provider="p", modelId="m"),
    new("thinking_level_change", "b", "a", thinkingLevel="x"),
    new("active_tools_change", "b", "a", activeToolNames=["x"]),
    new("compaction", "b", "a", summary="s", retainedTail=[said("user")], tokensBefore=42.5),
    new("branch_summary", "b", "a", summary="s", fromId=None),
    new("custom", "b", "a", customType="x"),
    new("custom", "b", "a", customType="clew.context_edit", data={"targetId": "a", "replacement": None}),
    new("custom", "b", "a", customType="clew.compaction", data={"compactionId": "c", "kept": [], "edits": []}),
    new("custom", "b", "a", customType="clew.branch_summary", data={"branchSummaryId": "c"}),
    {"kind": "lane", "lane": "other", "leafId": "a"},
    {"kind": "lane", "lane": "main", "leafId": None},
    {"kind": "fact", "fact": "name", "name": "x"},
    {"kind": "fact", "fact": "name"},
    {"kind": "fact", "fact": "label", "targetId": "a", "label": "x"},
    {"kind": "fact", "fact": "label", "targetId": "a"},
    finished("op"),
    tool_started("t", "c1", "r"),
    record("usage", "u", usage=USAGE),
    *(
        record(name, "r")
        for name in RECORDS
        if name not in ("operation_started", "operation_finished", "tool_started", "usage")
    ),
]


@pytest.mark.parametrize("line", GOOD, ids=lambda line: str(line.get("type", line["kind"])))
def test_every_line_of_the_format_may_come(line: dict[str, Any]) -> None:
    """A rule too many makes a good session unreadable."""
    check_line(third(line), STANDING)

    assert line["kind"] in ("entry", "lane", "fact", "record")


BAD: list[tuple[str, Any]] = [
    ("not_a_record", []),
    ("bad_member", speaks("b", "a")),
    ("bad_sequence", {**speaks("b", "a"), "seq": 4}),
    ("bad_sequence", {**speaks("b", "a"), "seq": 2}),
    ("bad_member", {**speaks("b", "a"), "seq": 3.0}),
    ("unknown_kind", third({"kind": "list"})),
    ("duplicate_id", third(speaks("a", "a"))),
    ("duplicate_id", third(speaks("op", "a"))),
    ("duplicate_id", third(record("usage", "a", usage=USAGE))),
    ("bad_member", third({**speaks("b", "a"), "id": 5})),
    ("bad_member", third({name: item for name, item in speaks("b", "a").items() if name != "parentId"})),
    ("parent_cycle", third(speaks("b", "b"))),
    ("parent_missing", third(speaks("b", "gone"))),
    ("not_at_leaf", third(speaks("b", None))),
    ("target_missing", third(speaks("b", "a", lane="other"))),
    ("bad_member", third({**speaks("b", "a"), "timestamp": -1})),
    ("bad_member", third({**speaks("b", "a"), "timestamp": 2**53})),
    ("bad_member", third({**speaks("b", "a"), "timestamp": True})),
    ("unknown_type", third(new("from_the_future", "b", "a"))),
    ("bad_member", third(new("compaction", "b", "a", summary="s"))),
    ("bad_member", third(new("compaction", "b", "a", summary="s", retainedTail=[], systemMessage=1))),
    ("bad_member", third(new("custom", "b", "a", customType="clew.context_edit"))),
    ("bad_member", third(new("custom", "b", "a", customType="clew.compaction", data={"compactionId": "c"}))),
    (
        "bad_member",
        third(new("custom", "b", "a", customType="clew.compaction", data={
            "compactionId": "c", "kept": [], "edits": [], "systemMessage": {"x": 1},
        })),
    ),
    ("unknown_type", third(record("from_the_future", "r"))),
    ("target_missing", third(record("usage", "r", lane="other", usage=USAGE))),
    ("bad_member", third(record("usage", "r", usage=None))),
    ("operation_open", third(started("op2"))),
    ("bad_member", third(started("op2", kind="party"))),
    ("operation_open", third(finished("op2"))),
    ("bad_member", third(finished("op", outcome="great"))),
    ("bad_member", third(tool_started("t", "c1", "r", replay="maybe"))),
    ("bad_member", third({**tool_started("t", "c1", "r"), "toolCallId": None})),
    ("target_missing", third({"kind": "lane", "lane": "main", "leafId": "gone"})),
    ("bad_member", third({"kind": "lane", "lane": "main"})),
    ("unknown_kind", third({"kind": "fact", "fact": "weather"})),
    ("target_missing", third({"kind": "fact", "fact": "label", "targetId": "gone", "label": "x"})),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "line"), BAD)
def test_a_line_that_may_not_come_is_refused(reason: str, line: Any) -> None:
    """#194: what is written against the rules is read by nobody."""
    assert reason == reason_of(line)
