"""Kind K11: compaction, migration or re-ordering that loses state, as far as it is a matter of values."""

import hashlib
import json

import pytest

from clew.core.session import writing
from clew.core.session.migrating import check_migrated, migrate
from clew.core.session.reading import SessionReader, read_session
from clew.core.session.transcripts import read_transcript
from clew.core.session.values import Said
from clew.errors import ClewError
from tests.cases.ward import case
from tests.core.session.scribe import AT_MS, at, reading, said, seen, session, speaks, texts, user, v4a

EVERY_FORMAT = (
    "pi-v1-real-two-compactions.jsonl", "pi-v2-tool-written.jsonl", "pi-v3-real-resumed.jsonl",
    "pi-v3-tool-written-all-entry-types.jsonl", "pi-v3-tool-written-leaf-dialect.jsonl",
    "pi-v3-upstream-writer.jsonl", "pi-v4a-upstream-writer.jsonl", "pi-v4b-tool-written-imported-from-v2.jsonl",
)  # fmt: skip


def migrated(data: bytes) -> bytes:
    sha256 = hashlib.sha256(data).hexdigest()
    return b"".join(migrate(read_session(data), reading(data), sha256=sha256, backup_file="b"))


@pytest.mark.parametrize("summary", ["", "  \n"])
def test_an_empty_summary_is_not_published(summary: str) -> None:
    """C106: nearly half of the summaries of one tool were empty."""
    with pytest.raises(ClewError) as caught:
        writing.compaction("c", summary, [Said(said("user"))], tokens_before=1)

    assert "empty_summary" == caught.value.code


@pytest.mark.parametrize("name", EVERY_FORMAT)
def test_every_released_format_opens(name: str) -> None:
    """C109: a new version that expects a field which old files do not have loses every old conversation."""
    assert seen(case(name)).messages


@pytest.mark.parametrize(
    "name", ["claude-code-real-orphan-tools-repeated-usage.jsonl", "codex-rollout-0.14x-sampled.jsonl"]
)
def test_every_transcript_opens(name: str) -> None:
    """C109: also those of others."""
    assert read_transcript(case(name)).lines


def test_fields_that_came_later_may_be_missing() -> None:
    """C109: tokensBefore, details, usage, timestamps: a file of before is whole without them."""
    entry = {"type": "compaction", "id": "c", "parentId": None, "summary": "s", "firstKeptEntryId": "c"}

    assert ["s"] == texts(seen(session(entry)))


def test_a_migration_is_bound_to_the_bytes_of_its_source() -> None:
    """C110: a marker that is not bound makes what was said later invisible."""
    first, more = session(user("a")), session(user("a"), user("b", "a"))
    marks = [
        json.loads(migrated(data).splitlines()[0])["metadata"]["coremindMigration"]["sourceSha256"]
        for data in (first, more)
    ]

    assert [hashlib.sha256(data).hexdigest() for data in (first, more)] == marks


def test_a_value_that_cannot_be_read_is_an_error_with_its_place() -> None:
    """C111: a default in its place, and the run goes on with something that nobody said."""
    with pytest.raises(ClewError) as caught:
        read_session(session(user("a"), {**user("b", "a"), "message": None}))

    assert ("session_corrupt", 3) == (caught.value.code, caught.value.facts["line"])


def test_the_last_is_the_last_written_whatever_the_clock_says() -> None:
    """C113: the clock steps back by an hour, and an old entry must not become the latest."""
    reader, data = SessionReader(), bytearray(writing.header_line("s1", created_ms=AT_MS, cwd="/w"))
    reader.feed(bytes(data))
    for name, at_ms in (("a", AT_MS), ("b", AT_MS - 3_600_000)):
        assert reader.state is not None
        batch = writing.compose(reader.state, [writing.message(name, said("user", name))], at_ms=at_ms)
        data += batch.data
        reader.feed(batch.data)

    assert ("b", ["a", "b"]) == (seen(bytes(data)).leaf, texts(seen(bytes(data))))


def test_what_was_kept_is_kept() -> None:
    """C114: the kept tail of a compacted file, and the types that the tool's own importer refuses."""
    data = session(
        user("a", None, "old"), user("b", "a", "kept"),
        at("compaction", "c", "b", summary="s", firstKeptEntryId="b"),
        at("usage", "u", "c", kind="cache_warm", usage={"totalTokens": 5}),
        at("custom_message", "m", "u", customType="x", content="note", display=True),
        at("context_edit", "e", "m", targetId="b", replacement={"content": "cut"}),
    )  # fmt: skip
    out = migrated(data)
    check_migrated(read_session(data), seen(data), seen(out))

    assert ["s", "cut", "note"] == texts(seen(out))


def test_a_compaction_leaves_every_entry_in_the_file() -> None:
    """What was said stands in the file, whatever a summary says of it."""
    data = v4a(
        speaks("a"),
        {
            "kind": "entry", "lane": "main", "type": "compaction", "id": "c", "summary": "nothing was done",
            "retainedTail": [], "parentId": "a", "timestamp": AT_MS,
        },
    )  # fmt: skip

    assert 2 == seen(data).entries
