"""Entries of the old dialects: what each must hold, and what it changes."""

from typing import Any

import pytest

from clew.core.session.old import entry_id_of
from clew.core.session.tree import NOWHERE
from clew.errors import ClewError
from tests.core.session.scribe import TIME, USAGE, at, calling, header, result, said, session, state_of, user


def refused(data: bytes) -> ClewError:
    with pytest.raises(ClewError) as caught:
        state_of(data)
    return caught.value


def remarks(data: bytes) -> list[str]:
    return [each.code for each in state_of(data).remarks]


@pytest.mark.parametrize(
    ("reason", "ids", "entries"),
    [
        ("parent_cycle", ["a"], [user("a", "a")]),
        ("parent_cycle", ["a", "b"], [user("a", "b"), user("b", "a")]),
        ("parent_cycle", ["a", "c", "b"], [user("a", "c"), user("b", "a"), user("c", "b")]),
        ("parent_cycle", ["a", "b", "c"], [user("a", "b"), user("b", "c"), user("c", "a")]),
        ("parent_forward", ["b", "a"], [user("b", "a"), user("a")]),
        ("parent_forward", ["b", "a"], [user("b", "a"), user("a", "c"), user("c", "a")]),
        ("parent_missing", ["b", "gone"], [user("b", "gone")]),
        ("duplicate_id", ["a"], [user("a"), user("b", "a"), user("a", "b")]),
        ("second_header", [], [user("a"), header(), user("b", "a")]),
    ],
)
def test_a_tree_that_is_none_is_refused(reason: str, ids: list[str], entries: list[dict[str, Any]]) -> None:
    """#194, W44: upstream runs out of memory here, or shows one of two entries."""
    error = refused(session(*entries))

    assert ("session_corrupt", reason, ids) == (error.code, error.facts["reason"], error.facts["ids"])


def test_a_long_circle_is_told_short() -> None:
    """A message with a thousand ids helps nobody, and a walk without an end even less."""
    ring = [user(f"e{n}", f"e{n + 1}") for n in range(2000)]
    error = refused(session(*ring, user("e2000", "e0")))

    assert ("parent_cycle", 9) == (error.facts["reason"], len(error.facts["ids"]))


WRONG: list[dict[str, Any]] = [
    {"type": "message", "id": "a", "timestamp": TIME, "message": said("user")},
    {**user("a"), "parentId": 5},
    {**user("a"), "id": ""},
    {**user("a"), "id": 7},
    {**user("a"), "type": None},
    {**user("a"), "message": "text"},
    {**user("a"), "message": {"content": "x"}},
    {**user("a"), "message": said("toolResult")},
    {**user("a"), "message": said("assistant", [{"type": "toolCall", "name": "pay"}])},
    calling("a", None, usage=5),
    calling("a", None, usage={"input": "many"}),
    at("model_change", "a", provider="p"),
    at("thinking_level_change", "a", thinkingLevel=5),
    at("active_tools_change", "a", activeToolNames=[5]),
    at("active_tools_change", "a", activeToolNames="read"),
    at("compaction", "a", summary=None, firstKeptEntryId="a"),
    at("compaction", "a", summary="s", firstKeptEntryId="a", usage=5),
    at("compaction", "a", summary="s", retainedTail="x"),
    at("compaction", "a", summary="s", retainedTail=["x"]),
    at("compaction", "a", summary="s", firstKeptEntryId="a", systemMessage="x"),
    at("branch_summary", "a", summary="s"),
    at("custom", "a"),
    at("custom_message", "a", customType="x", content=5),
    at("label", "a", label="x"),
    at("label", "a", targetId="a", label=5),
    at("session_info", "a", name=5),
    at("usage", "a"),
    at("context_edit", "a", targetId="a"),
    at("context_edit", "a", targetId="a", replacement="x"),
    at("context_edit", "a", targetId="a", replacement={"content": 5}),
    at("leaf", "a"),
    at("leaf", "a", targetId=5),
    at("leaf", "a", targetId="gone"),
]


@pytest.mark.parametrize("entry", WRONG, ids=lambda entry: str(entry["type"]))
def test_an_entry_that_lacks_what_its_type_needs_is_refused(entry: dict[str, Any]) -> None:
    """C111: what cannot be read is an error with its place, never a default."""
    assert ("session_corrupt", 2) == (refused(session(entry)).code, refused(session(entry)).facts["line"])


def test_a_line_that_is_no_object_is_refused() -> None:
    """It is JSON, but no entry."""
    assert 2 == refused(session() + b"[]\n").facts["line"]


def test_an_unknown_type_stays_in_the_tree() -> None:
    """§9, item 5: its children stay reachable, and a warning says what is not understood."""
    state = state_of(session(user("a"), at("from_the_future", "f", "a"), user("b", "f")))

    assert (["unknown_type"], [0, 1, 2]) == ([each.code for each in state.remarks], state.tree.path(2))


def test_v1_knows_its_own_types_alone() -> None:
    """A label in a v1 file was written by nobody who writes v1."""
    entry = {"type": "label", "timestamp": TIME, "targetId": "x"}

    assert ["unknown_type"] == remarks(session(entry, version=None))


def test_v1_entries_are_linear_and_numbered() -> None:
    """§5.1: the index of a compaction counts records, so each record has its number."""
    first = {"type": "message", "timestamp": TIME, "message": said("user")}
    state = state_of(session(first, first, version=None))

    assert ([entry_id_of(1), entry_id_of(2)], [NOWHERE, 0]) == (list(state.ids), list(state.tree.parents))


@pytest.mark.parametrize(
    ("kept", "code", "index"),
    [
        (0, "kept_index_of_header", 0),
        (0, None, 1),
        (1, None, 2),
        (NOWHERE, None, 3),
        (NOWHERE, "kept_index_out_of_range", 4),
        (NOWHERE, "kept_index_out_of_range", -1),
    ],
)
def test_a_v1_index_counts_records_from_the_header(kept: int, code: str | None, index: int) -> None:
    """§8, rows 2 and 3: one record off, and the wrong half of a conversation is kept."""
    first = {"type": "message", "timestamp": TIME, "message": said("user")}
    last = {"type": "compaction", "timestamp": TIME, "summary": "s", "firstKeptEntryIndex": index}
    state = state_of(session(first, first, last, version=None))

    assert (kept, [code] if code else []) == (state.kept[2], [each.code for each in state.remarks])


def test_a_v1_compaction_that_is_first_keeps_nothing() -> None:
    """Nothing stands before it."""
    last = {"type": "compaction", "timestamp": TIME, "summary": "s", "firstKeptEntryIndex": 0}

    assert NOWHERE == state_of(session(last, version=None)).kept[0]


def test_a_v1_index_that_is_no_number_is_refused() -> None:
    """No rule says what it keeps."""
    last = {"type": "compaction", "timestamp": TIME, "summary": "s", "firstKeptEntryIndex": "2"}

    assert "bad_member" == refused(session(last, version=None)).facts["reason"]


@pytest.mark.parametrize(
    "own", [{}, {"firstKeptEntryId": None}, {"firstKeptEntryId": "gone"}, {"firstKeptEntryId": "z"}]
)
def test_a_kept_range_that_is_not_there_is_remarked(own: dict[str, Any]) -> None:
    """§4.5: upstream keeps nothing and says nothing."""
    entries = [user("a"), user("z"), at("compaction", "c", "a", summary="s", **own)]

    assert ["kept_range_lost"] == remarks(session(*entries))


@pytest.mark.parametrize(
    "entry",
    [
        at("label", "x", "a", targetId="gone", label="l"),
        at("context_edit", "x", "a", targetId="gone", replacement=None),
        at("branch_summary", "x", "a", fromId="gone", summary="s"),
    ],
)
def test_a_reference_to_nothing_is_remarked(entry: dict[str, Any]) -> None:
    """The view can do without it; a migration cannot."""
    assert ["target_missing"] == remarks(session(user("a"), entry))


def test_the_position_is_the_last_entry_or_where_a_leaf_points() -> None:
    """§4.4: one rule for both dialects."""
    plain = state_of(session(user("a"), user("b", "a"), at("label", "l", "b", targetId="a", label="x")))
    moved = state_of(session(user("a"), user("b", "a"), at("leaf", "l", "b", targetId="a")))
    root = state_of(session(user("a"), at("leaf", "l", "a", targetId=None)))

    assert (2, 0, NOWHERE) == tuple(state.lanes["main"] for state in (plain, moved, root))


@pytest.mark.parametrize(
    ("core", "entry"),
    [
        (True, at("leaf", "x", None, targetId=None)),
        (True, at("active_tools_change", "x", None, activeToolNames=[])),
        (True, at("compaction", "x", None, summary="s", retainedTail=[])),
        (False, at("compaction", "x", None, summary="s", firstKeptEntryId="x")),
    ],
)
def test_the_dialect_is_known_by_what_only_one_writes(core: bool, entry: dict[str, Any]) -> None:
    """They show an older summary in a kept range otherwise."""
    assert core == state_of(session(entry)).agent_core


def test_labels_and_title_are_those_said_last() -> None:
    """§4.5: over all branches, in the order of the file; empty takes away."""
    state = state_of(
        session(
            user("a"),
            at("label", "l", "a", targetId="a", label="x"),
            at("label", "m", "a", targetId="a", label="y"),
            at("label", "n", "a", targetId="l", label="z"),
            at("label", "o", "a", targetId="l"),
            at("session_info", "p", "a", name="one"),
            at("session_info", "q", "a", name="\x85two\r\nlines "),
        )
    )

    assert ({"a": "y"}, "two lines") == (state.labels, state.title)
    assert state_of(session(at("session_info", "p", name="  "))).title is None


def test_usage_is_counted_once_a_stored_entry() -> None:
    """§4.5, item 7: over all branches, each stored call was paid."""
    state = state_of(
        session(
            calling("a", None, "c1", usage=USAGE),
            at("message", "r", "a", message={**result("r", "a", "c1")["message"], "usage": USAGE}),
            at("compaction", "c", "r", summary="s", firstKeptEntryId="c", usage=USAGE),
            at("branch_summary", "b", "a", fromId="root", summary="s", usage=USAGE),
            at("usage", "u", "b", kind="cache_warm", usage=USAGE),
            calling("d", "u", usage=None),
        )
    )

    assert (50, 3, 1) == (state.totals().tokens, state.totals().messages, state.totals().unmeasured)


def test_a_user_s_message_has_no_usage() -> None:
    """What stands there is a stranger's member, not a cost."""
    state = state_of(session(at("message", "a", message=said("user", usage="free"))))

    assert 0 == state.totals().tokens


def test_a_v1_header_says_level_and_model() -> None:
    """§8, row 4: a half of a model is none."""
    whole = state_of(session(version=None, thinkingLevel="high", provider="p", modelId="m"))
    half = state_of(session(version=None, provider="p"))

    assert ({"level": "high", "model": "p/m"}, {}) == (whole.settings, half.settings)
