"""An old session becomes one of ours that shows the same, or nothing at all."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.core.session.converting import as_migration, source_version
from clew.core.session.judging import judge
from clew.core.session.lines import dump
from clew.core.session.migrating import check_migrated, differences, migrate
from clew.core.session.projecting import project
from clew.core.session.reading import read_session
from clew.core.session.state import MAIN, SessionState
from clew.core.session.tree import NOWHERE, Kind
from clew.core.session.viewing import view
from clew.errors import ClewError, Corrupt, Refused
from tests.core.session.scribe import (
    USAGE,
    at,
    calling,
    header,
    line,
    reading,
    result,
    roles,
    said,
    seen,
    session,
    texts,
    user,
    v4a,
)
from tests.core.session.trees import NAMES, logs, spoiled, trees

SHA = hashlib.sha256(b"").hexdigest()


def migrated(data: bytes) -> bytes:
    return b"".join(migrate(read_session(data), reading(data), sha256=SHA, backup_file="s1.jsonl.v3.backup"))


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(each) for each in data.split(b"\n")[:-1]]


def refused(data: bytes) -> ClewError:
    with pytest.raises(ClewError) as caught:
        migrated(data)
    return caught.value


@given(trees() | logs())
@settings(max_examples=120, deadline=None)
def test_what_is_seen_before_is_seen_after(data: bytes) -> None:
    """C114, W43: importers lose the kept tail of a compacted file, or what hangs below a label."""
    out = migrated(data)

    assert () == differences(read_session(data), seen(data), seen(out))


ASIDE = session(
    at("session_info", "t", None, name="x"), user("a", "t"), at("label", "l", "a", targetId="t", label="first"),
    at("usage", "u", "l", kind="cache_warm", usage=USAGE), user("b", "u"),
)  # fmt: skip
"""A label whose target leaves from above the root, on a branch that stays."""


@given(trees() | logs())
@example(ASIDE)
@settings(max_examples=120, deadline=None)
def test_every_branch_is_seen_as_before(data: bytes) -> None:
    """A branch that is left today is gone back to tomorrow: it must have kept what it had."""
    state, out = read_session(data), migrated(data)
    after = read_session(out)
    # Above its first entry a v1 file has settings in its header, which are entries now.
    for node in range(0 if state.format == "v1" else NOWHERE, state.entries):
        stands = node
        while stands != NOWHERE and state.ids.at(stands) not in after.ids:
            stands = state.tree.parents[stands]
        state.lanes[MAIN] = node
        after.lanes[MAIN] = NOWHERE if stands == NOWHERE else after.ids.find(state.ids.at(stands))
        before = replace(view(state, reading(data)), leaf=None)

        assert () == differences(state, before, view(after, reading(out))), state.name_of(node)


@given(trees() | logs())
@example(ASIDE)
@settings(max_examples=120, deadline=None)
def test_every_entry_follows_whom_it_followed(data: bytes) -> None:
    """An id that is still there at another place is another place of the conversation under an old name."""
    state, after = read_session(data), read_session(migrated(data))
    kinds, leaving = state.tree.kinds, (Kind.LABEL, Kind.TITLE, Kind.LEAF, Kind.USAGE)
    staying = {state.ids.at(node) for node in range(state.entries) if kinds[node] not in leaving}

    def path(of: SessionState, node: int) -> list[str]:
        return [name for name in map(of.ids.at, of.tree.path(node)) if name in staying]

    assert [] == [name for name in staying if name not in after.ids]
    for node in range(state.entries):
        if (name := state.ids.at(node)) in after.ids:
            assert path(state, node) == path(after, after.ids.find(name)), name


@given(trees() | logs())
@settings(max_examples=40, deadline=None)
def test_messages_keep_their_entries_and_every_id_its_meaning(data: bytes) -> None:
    """Auditors hold ids: whoever looks one up must find the message that it always was."""
    out = seen(migrated(data))

    assert [each.entry_id for each in seen(data).messages] == [each.entry_id for each in out.messages]


@pytest.mark.parametrize("kind", ["session_info", "label"])
def test_an_edit_of_what_leaves_the_tree_hides_no_message(kind: str) -> None:
    """It hid nothing before: led to what stands above its target, it would hide a message that everybody sees."""
    more = {"session_info": {"name": "n"}, "label": {"targetId": "e1", "label": "l"}}[kind]
    placed = {"timestamp": "2026-01-01T00:00:00.000Z"}
    lines = [
        {"type": "session", "version": 3, "id": "s1", "cwd": "/w", **placed},
        {"type": "message", "id": "e1", "parentId": None, "message": {"role": "user", "content": "hi"}, **placed},
        {"type": kind, "id": "e2", "parentId": "e1", **more, **placed},
        {"type": "context_edit", "id": "e3", "parentId": "e2", "targetId": "e2", "replacement": None, **placed},
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()

    assert ["e1"] == [each.entry_id for each in seen(migrated(data)).messages]


@given(trees() | logs())
@settings(max_examples=40, deadline=None)
def test_the_same_source_gives_the_same_bytes(data: bytes) -> None:
    """A migration that was killed is done again: what it wrote must be what it would have written."""
    assert migrated(data) == migrated(data)


def outcome(data: bytes) -> str:
    """Reads, judges, shows, projects and migrates: the code of a refusal, or what the migration changed."""
    try:
        state = read_session(data)
        judge(state)
        for lane in state.lanes:
            project(view(state, reading(data), lane=lane).messages)
        if state.format == "v4a":
            return ""
        return " ".join(differences(state, seen(data), seen(migrated(data))))
    except ClewError as error:
        return error.code


@given(spoiled(trees() | logs() | trees().map(migrated)))
@settings(max_examples=150, deadline=None)
def test_a_spoiled_session_is_refused_or_shown_and_migrated_whole(data: bytes) -> None:
    """C111: whatever stands in a file, the answer is one of ours: a refusal with a code, or what it shows, kept."""
    found = outcome(data)

    assert found == "" or found.startswith("session_")


def test_bytes_of_numbers_and_texts_are_copied() -> None:
    """A double that is written anew may round an order number; a half of an emoji cannot be written at all."""
    raw = b'{"id":2512292042121000001,"x":1e400,"y":1.2300,"z":-0,"s":"\\ud83e \\u0041"}'
    data = session() + b'{"type":"custom","customType":"o","id":"a","parentId":null,"timestamp":"%b","data":%b}\n' % (
        b"2026-01-01T00:00:00.000Z", raw,
    )  # fmt: skip

    assert b'"data":' + raw + b"," in migrated(data)


def test_the_header_says_where_it_came_from() -> None:
    """C110: who asks later whether this file was migrated, and from what, must be told by the file itself."""
    out = lines(migrated(session(metadata={"a": 1}, parentSession="/p.jsonl", more=[1])))[0]

    assert {
        "kind": "header",
        "version": 4,
        "id": "s1",
        "createdAt": 1767225600000,
        "cwd": "/w",
        "legacyParentSessionPath": "/p.jsonl",
        "metadata": {
            "a": 1,
            "clew.header": {"more": [1]},
            "coremindMigration": {
                "schemaVersion": 1,
                "sourceFormat": 3,
                "sourceSha256": SHA,
                "complete": True,
                "backupFile": "s1.jsonl.v3.backup",
            },
        },
    } == out


def test_the_kept_range_becomes_a_tail() -> None:
    """W43: an empty tail makes the loss of every kept message permanent."""
    data = session(
        user("a"), user("b", "a", "kept"), at("compaction", "c", "b", summary="s", firstKeptEntryId="b"), user("d", "c")
    )

    assert ["s", "kept", "hi"] == texts(seen(migrated(data)))


def test_what_hangs_below_a_label_hangs_above_it() -> None:
    """W44: a reference to an entry that left the tree leads to the one that stands for it."""
    data = session(
        user("a"),
        at("label", "l", "a", targetId="a", label="x"),
        at("branch_summary", "b", "l", fromId="l", summary="left"),
        at("label", "m", "b", targetId="l", label="y"),
        at("leaf", "f", "m", targetId="m"),
    )
    out = migrated(data)

    assert ("a", "a", {"a": "y"}, "b") == (
        lines(out)[3]["fromId"],
        lines(out)[3]["parentId"],
        seen(out).labels,
        seen(out).leaf,
    )


def test_the_system_message_of_a_compaction_still_replaces_the_kept_one() -> None:
    """Two sets of instructions would contradict each other."""
    data = session(
        at("message", "a", None, message=said("system", "old")),
        user("b", "a", "kept"),
        at("compaction", "c", "b", summary="s", firstKeptEntryId="a", systemMessage=said("system", "new")),
    )

    assert ["new", "s", "kept"] == texts(seen(migrated(data)))


def test_usage_is_copied_as_it_stands() -> None:
    """A cost is a double of somebody else's; the record of it has the same digits."""
    data = session(calling("a", None, usage={"input": 5})).replace(
        b'{"input":5}', b'{"input":5.00,"cost":{"total":3e-5}}'
    )

    assert 2 == migrated(data).count(b'{"input":5.00,"cost":{"total":3e-5}}')


def test_an_edit_in_the_kept_range_still_counts() -> None:
    """What was cut down to save room, or hidden for good reason, must not come back with a new format."""
    data = session(
        user("a", None, "secret"),
        user("b", "a", "long"),
        at("context_edit", "e", "b", targetId="a", replacement=None),
        at("context_edit", "f", "e", targetId="b", replacement={"content": "short"}),
        at("compaction", "c", "f", summary="s", firstKeptEntryId="a"),
    )

    assert ["s", "short"] == texts(seen(migrated(data)))


def test_an_edit_made_after_a_compaction_reaches_what_was_kept() -> None:
    """The tail of a compaction has no entries any more; what is hidden must stay hidden."""
    data = session(
        user("a", None, "secret"),
        at("context_edit", "e", "a", targetId="a", replacement={"content": "once"}),
        at("compaction", "c", "e", summary="s", firstKeptEntryId="a"),
        at("context_edit", "f", "c", targetId="a", replacement=None),
    )

    assert ["s"] == texts(seen(migrated(data)))


def test_a_v1_header_becomes_settings() -> None:
    """§8, row 4: upstream forgets level and model of a file that never changed them."""
    first = {"type": "message", "timestamp": "2026-01-01T00:00:00.000Z", "message": said("user")}
    out = migrated(session(first, version=None, thinkingLevel="high", provider="p", modelId="m", branchedFrom="/o"))

    assert ("high", "p/m", "/o", "u") == (
        seen(out).level, seen(out).model, lines(out)[0]["legacyParentSessionPath"], roles(seen(out)),
    )  # fmt: skip


def test_a_header_that_is_no_metadata_is_kept_aside() -> None:
    """What a stranger wrote into a header is not ours to drop."""
    out = lines(migrated(session(metadata=None)))[0]

    assert {"metadata": None} == out["metadata"]["clew.header"]


def test_a_taken_id_is_not_given_again() -> None:
    """The record of an answer's usage needs an id; a source may have that very one."""
    data = session(calling("a", None, usage=USAGE), user("a-usage", "a"))

    assert "a-usage-" == lines(migrated(data))[2]["id"]


def test_a_finer_time_is_kept_beside() -> None:
    """v4 has whole milliseconds; what was more exact must not be lost."""
    data = session({**user("a"), "timestamp": "2026-01-01T00:00:00.000123Z"})

    assert "2026-01-01T00:00:00.000123Z" == lines(migrated(data))[1]["sourceTimestamp"]


def test_a_title_that_is_trimmed_is_kept_whole_beside() -> None:
    """The view trims it; the file must still hold what the user typed."""
    out = lines(migrated(session(at("session_info", "t", None, name=" a\nb "))))[1]

    assert ("a b", " a\nb ") == (out["name"], out["sourceName"])


def test_labels_that_meet_at_one_entry_do_not_strike_each_other_out() -> None:
    """The label of an entry that left, and that of the one that stands for it: clearing one must not clear both."""
    data = session(
        user("a"),
        at("label", "l", "a", targetId="a", label="one"),
        at("label", "m", "l", targetId="l", label="two"),
        at("label", "n", "m", targetId="l", label=""),
    )

    assert {"a": "one"} == seen(migrated(data)).labels


def test_a_label_above_the_root_is_kept_aside() -> None:
    """Nothing stands for its target in the tree; it must not vanish from the file."""
    data = session(at("session_info", "t", None, name="x"), at("label", "l", "t", targetId="t", label="first"))
    out = lines(migrated(data))[2]

    assert () == differences(read_session(data), seen(data), seen(migrated(data)))
    assert ("custom", "clew.label", None, "first") == (
        out["type"], out["customType"], out["parentId"], out["data"]["label"],
    )  # fmt: skip


def test_a_label_that_is_kept_aside_stays_on_its_branch() -> None:
    """Its id is an entry's still: hung above all others, it would show whoever goes back to it nothing at all."""
    out = read_session(migrated(ASIDE))
    out.lanes[MAIN] = out.ids.find("l")

    assert ["a"] == [each.entry_id for each in view(out, reading(migrated(ASIDE))).messages]


def test_a_migrated_leaf_above_the_root_stays_there() -> None:
    """A move to before the first entry is a place like any other."""
    out = migrated(session(user("a"), at("leaf", "l", "a", targetId=None)))

    assert (None, ()) == (seen(out).leaf, seen(out).messages)


def test_a_compaction_in_a_kept_range_is_kept_by_the_dialect_that_shows_it() -> None:
    """agent-core shows an older summary in the kept range, coding-agent does not."""

    def data(**more: Any) -> bytes:
        return session(
            user("a"),
            at("compaction", "c", "a", summary="old", firstKeptEntryId="a", fromHook=True),
            at("branch_summary", "b", "c", fromId="root", summary="left"),
            at("branch_summary", "n", "b", fromId="root", summary=""),
            at("compaction", "d", "n", summary="new", firstKeptEntryId="c"),
            **more,
        )

    assert (["new", "left"], ["new", "old", "left"]) == (
        texts(seen(migrated(data()))),
        texts(seen(migrated(data(metadata={})))),
    )


@pytest.mark.parametrize(
    ("code", "data"),
    [
        ("session_migration_unsupported", session(at("from_the_future", "f", None))),
        ("session_migration_unsupported", v4a()),
        ("session_migration_unsupported", session(at("custom", "x", None, customType="clew.label"))),
        ("session_migration_unsupported", session({**user("a"), "lane": "main"})),
        ("session_migration_unsupported", session(at("label", "l", None, targetId="l", label="x", seq=1))),
        ("session_migration_unsupported", session(at("label", "l", None, targetId="l", label="x", fact="name"))),
        ("session_migration_unsupported", session(at("session_info", "t", None, name="x", lane="main"))),
        ("session_migration_unsupported", session(at("session_info", "t", None, name="x", fact="label"))),
        ("session_migration_unsupported", session(at("session_info", "t", None, name=" x", sourceName="y"))),
        ("session_migration_unsupported", session(at("leaf", "f", None, targetId=None, kind="entry"))),
        ("session_migration_unsupported", session(at("leaf", "f", None, targetId=None, leafId=None))),
        ("session_migration_unsupported", session({**user("a"), "sourceTimestamp": "earlier"})),
        (
            "session_migration_unsupported",
            session(at("custom_message", "c", None, customType="x", content="", message={})),
        ),
        ("session_migration_unsupported", session(metadata={"coremindMigration": {}})),
        ("session_migration_invalid", session(at("compaction", "c", None, summary="s", firstKeptEntryId="gone"))),
        ("session_migration_invalid", session(at("label", "l", None, targetId="gone", label="x"))),
        ("session_migration_invalid", session(at("branch_summary", "b", None, fromId="gone", summary="s"))),
        ("session_migration_invalid", session(at("context_edit", "e", None, targetId="gone", replacement=None))),
        ("session_migration_invalid", session({**user("a"), "timestamp": "yesterday"})),
        ("session_migration_invalid", session({**user("a"), "timestamp": "1969-01-01T00:00:00.000Z"})),
        ("session_migration_invalid", session(timestamp=5)),
        ("session_migration_invalid", session(cwd=None)),
        ("session_migration_invalid", session(user("a")) + b'{"type":"mess'),
        ("session_migration_invalid", session() + b'{"type":"mess'),
    ],
)
def test_what_cannot_be_expressed_is_refused(code: str, data: bytes) -> None:
    """#192 as DESIGN §8 has it, #194: a migration that drops what it does not know is a loss that nobody asked for."""
    error = refused(data)

    assert code == error.code


VOCABULARY = st.sampled_from([
    *NAMES, "fact", "leafId", "label", "name", "entryId", "details", "data", "summary", "content", "stopReason",
    "cause", "append", "terminate", "record", "fromHook", "firstKeptEntryId", "sourceName", "sourceTimestamp", "x",
])  # fmt: skip


@given(trees() | logs(), VOCABULARY, st.data())
@settings(max_examples=150, deadline=None)
def test_a_member_more_is_kept_or_the_session_is_refused(data: bytes, name: str, choice: st.DataObject) -> None:
    """Later releases added members without a new version: what v4 has another use for must not go without a word."""
    head, *entries = lines(data)
    entry = choice.draw(st.sampled_from(entries or [head]))
    marked = entry.setdefault(name, "m-77177") == "m-77177"
    try:
        out = migrated(b"".join(map(line, (head, *entries))))
    except (Corrupt, Refused):
        return

    assert not marked or b':"m-77177"' in out


def test_a_usage_row_may_have_any_member() -> None:
    """Its own `kind` is one that every line of v4 has, and stands in the details."""
    row = at("usage", "u", None, kind="cache_warm", usage=USAGE, lane="x", seq=5, fact="y")

    assert {"kind": "cache_warm", "lane": "x", "seq": 5, "fact": "y"} == lines(migrated(session(row)))[1]["details"]


@pytest.mark.parametrize("kind", ["usage", "compaction", "branch_summary"])
def test_zeros_of_what_was_broken_off_are_no_figure_before_and_after(kind: str) -> None:
    """Counted as unknown by one reader and as free by the other, they kept the session from being migrated."""
    own: dict[str, Any] = {"summary": "s", "fromId": "root", "retainedTail": []}
    data = session(at(kind, "u", None, usage={"input": 0, "output": 0}, stopReason="aborted", **own))

    assert 1 == seen(data).totals.unmeasured
    assert () == differences(read_session(data), seen(data), seen(migrated(data)))


def test_the_type_and_line_that_have_no_place_are_named() -> None:
    """Whoever must decide what to do needs to find it."""
    error = refused(session(user("a"), at("from_the_future", "f", "a")))

    assert (3, "from_the_future") == (error.facts["line"], error.facts["type"])


def test_a_torn_end_is_named_with_its_place() -> None:
    """The bytes behind the last whole record are a person's to give up, not a migration's."""
    data = session(user("a"))
    error = refused(data + b'{"ty')

    assert (3, len(data), "torn") == (error.facts["line"], error.facts["byte"], error.facts["reason"])


def test_more_oddities_than_can_be_listed_are_refused() -> None:
    """What was not listed was not judged."""
    bad = [at("compaction", f"c{n}", None, summary="s", firstKeptEntryId=f"c{n}", usage=None) for n in range(1)]
    strange = [at("label", f"l{n}", None, targetId=f"l{n}", label="x") for n in range(3)]
    state = read_session(session(*bad, *strange))
    state.remarks.clear()
    state.remarks_left_out = 1
    from clew.core.session.values import Remark

    state.remarks.append(Remark("kept_index_of_header", "…", 1, 0))
    with pytest.raises(Refused) as caught:
        migrate(state, reading(b""), sha256=SHA, backup_file="b")

    assert "session_migration_unsupported" == caught.value.code


def test_a_view_that_differs_is_not_published() -> None:
    """§9, item 3: the last door before publication compares, whatever went wrong before it."""
    data = session(user("a"), at("label", "l", "a", targetId="a", label="x"))
    state, before = read_session(data), seen(data)
    with pytest.raises(Refused) as caught:
        check_migrated(state, before, seen(session(user("a"))))

    assert ("session_migration_failed", ["labels"]) == (caught.value.code, caught.value.facts["differs"])


def test_the_same_view_passes() -> None:
    """The check must not cost a good migration."""
    data = session(user("a"))

    check_migrated(read_session(data), seen(data), seen(migrated(data)))

    assert "u" == roles(seen(migrated(data)))


def test_the_time_of_a_message_counts_as_content() -> None:
    """Only what a summary was made from may lead elsewhere after a migration."""
    data = session(at("branch_summary", "b", None, fromId="root", summary="s"))
    other = session(at("branch_summary", "b", None, fromId="b", summary="s"))
    later = session(
        {**at("branch_summary", "b", None, fromId="root", summary="s"), "timestamp": "2026-01-02T00:00:00Z"}
    )
    state = read_session(data)

    assert ((), ("messages",)) == (
        differences(state, seen(data), seen(other)),
        differences(state, seen(data), seen(later)),
    )


def test_each_old_version_is_named() -> None:
    """The copy that is kept is named by the version of what it holds."""
    found = [source_version(read_session(session(version=version))) for version in (None, 2, 3)]

    assert [1, 2, 3] == found


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("session_migration_invalid", Corrupt("m", code="session_corrupt", next="n", line=3)),
        ("session_migration_unsupported", Refused("m", code="session_unsupported", next="n", version=9)),
        ("unknown_lane", Refused("m", code="unknown_lane", next="n")),
    ],
)
def test_a_refusal_of_reading_becomes_one_of_migrating(code: str, error: ClewError) -> None:
    """#193: the code says what the caller was doing, the facts stay."""
    found = as_migration(error)

    assert (code, error.facts) == (found.code, found.facts)


def test_a_compaction_that_needs_no_companion_has_none() -> None:
    """Only what v4a cannot say stands beside it."""
    data = session(at("compaction", "c", None, summary="s", retainedTail=[said("user")], tokensBefore=1))

    assert ["c"] == [each["id"] for each in lines(migrated(data))[1:]]


def test_a_call_and_its_result_migrate_with_their_usage() -> None:
    """Totals come from usage records alone in v4: each stored call must have one, and only one."""
    data = session(calling("a", None, "c1", usage=USAGE, stopReason="aborted"), result("r", "a", "c1"))

    assert seen(data).totals == seen(migrated(data)).totals


def test_lines_end_and_begin_where_they_should() -> None:
    """The writer puts them into a file one behind the other."""
    out = migrated(session(user("a")))

    assert [header()["id"], "a"] == [json.loads(each)["id"] for each in out.splitlines()]
    assert out == b"".join(line(json.loads(each)) for each in out.splitlines())
    assert dump(json.loads(out.splitlines()[1])) == out.splitlines()[1]
