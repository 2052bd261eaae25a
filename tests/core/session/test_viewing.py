"""What a conversation is at a leaf: reference/sessions.md §4.5, sentence by sentence."""

from typing import Any

import pytest

from clew.core.session.viewing import at_ms
from clew.errors import NotFound
from tests.core.session.scribe import (
    AT_MS,
    at,
    calling,
    new,
    result,
    roles,
    said,
    seen,
    session,
    speaks,
    texts,
    user,
    v4a,
)


def compacted(first: str | None = "b", *more: dict[str, Any], **own: Any) -> bytes:
    """a, b, a compaction that keeps from `first` on, d, and what follows."""
    kept = {} if first is None else {"firstKeptEntryId": first}
    entries = [user("a", None, "a"), user("b", "a", "b"), at("compaction", "c", "b", summary="s", **kept, **own)]
    return session(*entries, user("d", "c", "d"), *more)


def test_the_path_of_the_leaf_is_the_context() -> None:
    """Another branch is another conversation."""
    data = session(user("a", None, "a"), user("b", "a", "b"), user("c", "a", "c"))

    assert ["a", "c"] == texts(seen(data))


def test_settings_come_from_the_whole_path() -> None:
    """A compaction forgets messages, not the model."""
    data = session(
        at("model_change", "m", None, provider="p", modelId="old"),
        at("thinking_level_change", "l", "m", thinkingLevel="high"),
        at("active_tools_change", "t", "l", activeToolNames=["read"]),
        user("a", "t"),
        at("compaction", "c", "a", summary="s", firstKeptEntryId="c"),
    )
    shown = seen(data)

    assert ("high", "p/old", ("read",)) == (shown.level, shown.model, shown.tools)


@pytest.mark.parametrize(
    ("model", "entries"),
    [
        ("p/m", [at("model_change", "a", None, provider="q", modelId="n"), calling("b", "a")]),
        ("q/n", [calling("b", None), at("model_change", "a", "b", provider="q", modelId="n")]),
        ("q/n", [at("model_change", "a", None, provider="q", modelId="n"),
                 at("message", "b", "a", message=said("assistant"))]),
        (None, [user("a")]),
    ],
)  # fmt: skip
def test_the_model_is_the_last_that_was_set_or_answered(model: str | None, entries: list[dict[str, Any]]) -> None:
    """§4.5, item 2: whichever comes later."""
    assert model == seen(session(*entries)).model


def test_settings_of_a_v1_header_are_the_first() -> None:
    """§8, row 4."""
    entry = {"type": "thinking_level_change", "timestamp": "2026-01-01T00:00:00.000Z", "thinkingLevel": "low"}
    first = seen(session(version=None, thinkingLevel="high", provider="p", modelId="m"))

    assert (("high", "p/m"), "low") == (
        (first.level, first.model),
        seen(session(entry, version=None, thinkingLevel="high")).level,
    )


@pytest.mark.parametrize(
    ("expected", "first"),
    [(["s", "b", "d"], "b"), (["s", "a", "b", "d"], "a"), (["s", "d"], "c"), (["s", "d"], "gone"), (["s", "d"], None)],
)
def test_a_compaction_keeps_from_its_first_entry_on(expected: list[str], first: str | None) -> None:
    """Its own id keeps nothing; one that is not there is said to be lost, and the rest is shown."""
    assert expected == texts(seen(compacted(first)))


def test_a_tail_in_the_compaction_stands_for_all_before() -> None:
    """agent-core stores the messages themselves, even none."""
    tail = [said("user", "kept"), said("user", None)]

    assert (["s", "kept", [], "d"], ["s", "d"]) == (
        texts(seen(compacted("a", retainedTail=tail))),
        texts(seen(compacted("a", retainedTail=[]))),
    )


def test_the_last_compaction_counts() -> None:
    """Its kept range may hold an older one, whose summary coding-agent does not show."""
    more = at("compaction", "e", "d", summary="t", firstKeptEntryId="b", fromHook=True)

    assert ["t", "b", "d"] == texts(seen(compacted("b", more)))


def test_an_older_summary_in_the_kept_range_is_shown_by_agent_core() -> None:
    """§4.5: we follow the dialect's own reader."""
    more = at("compaction", "e", "d", summary="t", firstKeptEntryId="b")
    data = compacted("b", more).replace(b'"cwd":"/w"', b'"cwd":"/w","metadata":{}')

    assert ["t", "b", "s", "d"] == texts(seen(data))


def test_a_system_message_of_the_compaction_leads() -> None:
    """Two of them would contradict each other."""
    system = said("system", "new")
    data = session(
        at("message", "a", None, message=said("system", "old")),
        user("b", "a", "b"),
        at("compaction", "c", "b", summary="s", firstKeptEntryId="a", systemMessage=system),
        at("message", "d", "c", message=said("system", "later")),
    )

    assert ["new", "s", "b", "later"] == texts(seen(data))


def test_a_kept_system_message_stays_where_nothing_replaces_it() -> None:
    """Dropping it would leave the model without its instructions."""
    data = session(
        at("message", "a", None, message=said("system", "old")),
        at("compaction", "c", "a", summary="s", firstKeptEntryId="a"),
    )

    assert ["s", "old"] == texts(seen(data))


def edit(id: str, parent: str, target: str, new: Any) -> dict[str, Any]:
    return at("context_edit", id, parent, targetId=target, replacement=new)


@pytest.mark.parametrize(
    ("content", "new"),
    [
        (None, None),
        ("x", {"content": "x"}),
        ([{"type": "text", "text": "y"}], {"content": [{"type": "text", "text": "y"}]}),
    ],
)
def test_an_edit_hides_or_replaces_content(content: Any, new: Any) -> None:
    """§4.5, item 5."""
    found = texts(seen(session(user("a"), edit("e", "a", "a", new))))

    assert ([] if content is None else [content]) == found


def test_the_latest_edit_wins_and_a_text_becomes_a_block() -> None:
    """Results and answers are lists of blocks."""
    data = session(calling("a", None, "c1"), edit("e", "a", "a", None), edit("f", "e", "a", {"content": "short"}))

    assert [[{"type": "text", "text": "short"}]] == texts(seen(data))


def test_a_summary_is_hidden_but_not_rewritten() -> None:
    """It has no content to replace."""
    left = at("branch_summary", "b", None, fromId="root", summary="left")

    assert (["left"], []) == (
        texts(seen(session(left, edit("e", "b", "b", {"content": "x"})))),
        texts(seen(session(left, edit("e", "b", "b", None)))),
    )


def test_an_edit_before_the_kept_range_is_over() -> None:
    """Edits count in the selection alone, as upstream reads it."""
    data = session(
        user("a", None, "a"), edit("e", "a", "a", None), user("b", "e", "b"),
        at("compaction", "c", "b", summary="s", firstKeptEntryId="b"), user("d", "c", "d"),
    )  # fmt: skip

    assert ["s", "b", "d"] == texts(seen(data))


@pytest.mark.parametrize("odd", [None, 5, [], {}, {"targetId": "a", "replacement": {"content": "other"}}])
def test_an_edit_of_an_old_file_says_itself_what_it_says(odd: Any) -> None:
    """What stands in our own edits under `data` is a stranger's member there: it ended the view with a TypeError."""
    data = session(user("a"), at("context_edit", "e", "a", targetId="a", replacement={"content": "cut"}, data=odd))

    assert ["cut"] == texts(seen(data))


@pytest.mark.parametrize("odd", [None, 5, "hi", {"provider": "q", "model": "n"}])
def test_a_change_of_the_model_says_itself_which(odd: Any) -> None:
    """A member that only messages have is a stranger's there: it hid the model, or ended the view with an error."""
    old = session(at("model_change", "a", None, provider="p", modelId="m", message=odd))
    ours = v4a(new("model_change", "a", None, provider="p", modelId="m", message=odd))

    assert ("p/m", "p/m") == (seen(old).model, seen(ours).model)


def test_what_speaks_has_its_role() -> None:
    """§4.2: what puts a message into the context, and as whom."""
    data = session(
        user("a"),
        at("custom_message", "b", "a", customType="x", content=None, display=True),
        at("custom", "c", "b", customType="x"),
        at("branch_summary", "d", "c", fromId="root", summary=""),
        at("branch_summary", "e", "d", fromId="root", summary="left", fromHook=False),
        result("f", "e", "c1"),
    )
    shown = seen(data)

    assert "u x b t" == roles(shown)
    assert {"role": "custom", "customType": "x", "content": [], "display": True, "timestamp": AT_MS} == (
        shown.messages[1].message
    )
    assert {"role": "branchSummary", "summary": "left", "fromId": "root", "fromHook": False, "timestamp": AT_MS} == (
        shown.messages[2].message
    )


@pytest.mark.parametrize(("content", "role"), [([], "user"), ([], "assistant"), ("", "system"), (None, "custom")])
def test_missing_content_is_empty(content: Any, role: str) -> None:
    """§4.3: old files have null there."""
    data = session(at("message", "a", None, message={"role": role, "content": None}))

    assert [content] == texts(seen(data))


@pytest.mark.parametrize(("role", "version"), [("custom", 2), ("hookMessage", 3)])
def test_the_old_role_has_its_new_name(role: str, version: int) -> None:
    """§5.2: in v2, not in v3, where nobody writes it."""
    data = session(at("message", "a", None, message=said("hookMessage")), version=version)

    assert [role] == [each.role for each in seen(data).messages]


def test_a_role_without_content_says_what_it_has() -> None:
    """A command's output is what it says."""
    data = session(
        at("message", "a", None, message={"role": "bashExecution", "output": "ok"}),
        at("message", "b", "a", message={"role": "strange"}),
    )

    assert ["ok", None] == texts(seen(data))


def test_a_lane_is_seen_by_its_name() -> None:
    """A v4a session has several places."""
    data = v4a(speaks("a"), {"kind": "lane", "lane": "side", "leafId": None}, speaks("b", None, lane="side"))

    assert (["b"], {"main": "a", "side": "b"}) == (
        [each.entry_id for each in seen(data, "side").messages],
        seen(data).lanes,
    )


def test_a_lane_that_is_not_there_is_refused() -> None:
    """An empty context would be an answer."""
    with pytest.raises(NotFound) as caught:
        seen(v4a(), "side")

    assert ("unknown_lane", ["main"]) == (caught.value.code, caught.value.facts["lanes"])


def test_a_companion_of_another_entry_says_nothing() -> None:
    """It stands above by chance."""
    beside = {"compactionId": "other", "kept": ["a"], "edits": [], "fromHook": True}
    data = v4a(
        new("custom", "x", customType="clew.compaction", data=beside),
        new("compaction", "c", "x", summary="s", retainedTail=[said("user")]),
    )

    assert ([None], False) == (
        [each.entry_id for each in seen(data).messages[1:]],
        "fromHook" in seen(data).messages[0].message,
    )


@pytest.mark.parametrize(("kept", "names"), [(["a"], ["a"]), (["a", "b"], [None])])
def test_a_tail_knows_its_entries_where_each_is_named(kept: list[str], names: list[str | None]) -> None:
    """Names that do not fit would edit the wrong message. Edits that are not there edit nothing."""
    beside = {"compactionId": "c", "kept": kept, "edits": ["gone", "x"]}
    data = v4a(
        new("custom", "x", customType="clew.compaction", data=beside),
        new("compaction", "c", "x", summary="s", retainedTail=[said("user")]),
    )

    assert names == [each.entry_id for each in seen(data).messages[1:]]


def test_an_empty_session_shows_nothing() -> None:
    """#178: no messages, and the defaults."""
    shown = seen(session())

    assert ((), "off", None, None, None) == (shown.messages, shown.level, shown.model, shown.tools, shown.leaf)


@pytest.mark.parametrize(("ms", "time"), [(5, 5), (AT_MS, "2026-01-01T00:00:00.000Z"), (None, "t"), (None, None)])
def test_a_time_is_milliseconds_or_unknown(ms: int | None, time: Any) -> None:
    """v3 writes texts, v4 numbers."""
    assert ms == at_ms({"timestamp": time})
