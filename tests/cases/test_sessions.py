"""Real sessions and transcripts, and sick ones: the numbers and verdicts of `cases/INDEX.md`, and no byte changed."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from clew.core.session.judging import judge
from clew.core.session.migrating import check_migrated, migrate
from clew.core.session.projecting import OUTCOME_UNKNOWN, project
from clew.core.session.reading import read_session
from clew.core.session.salvaging import salvage
from clew.core.session.state import SessionState
from clew.core.session.transcripts import read_transcript
from clew.core.session.values import View
from clew.core.session.viewing import view
from clew.errors import ClewError
from tests.cases.ward import case
from tests.core.session.scribe import reading, roles, seen, texts

# SHA-256 as INDEX.md has it.
FILES = {
    "pi-v1-real-two-compactions.jsonl": "6f8302cd514e587d",
    "pi-v1-real-fused-line.jsonl": "0392568949cf2550",
    "pi-v2-tool-written.jsonl": "f1d74d5ca40a2d31",
    "pi-v3-real-resumed.jsonl": "1142d8ef442490ff",
    "pi-v3-tool-written-all-entry-types.jsonl": "927f03a2d10496d9",
    "pi-v3-tool-written-leaf-dialect.jsonl": "db7e7a58975c6637",
    "pi-v3-upstream-writer.jsonl": "f362952abaddb1f1",
    "pi-v4a-upstream-writer.jsonl": "19c5e1a3114a0ef4",
    "pi-v4b-tool-written-imported-from-v2.jsonl": "ef16e31254e50fa3",
    "claude-code-real-orphan-tools-repeated-usage.jsonl": "5b944843e92f6df8",
    "codex-rollout-0.14x-sampled.jsonl": "b277a9e276262b6e",
    "derived-v3-torn-tail-inside-multibyte.jsonl": "7636bfc8381039b2",
    "derived-claude-code-nul-padding.jsonl": "dcf695b28fdbfd27",
    "derived-v3-broken-sessions.json": "d5efe837b3f36666",
    "pi-upstream-parse-and-migration-cases.json": "46e2a7cea07b75dd",
}
MIGRATING = [name for name in FILES if name.startswith(("pi-v1", "pi-v2", "pi-v3")) and "fused" not in name]


@dataclass
class Opened:
    """A copy of a real file, read."""

    path: Path
    data: bytes

    @property
    def state(self) -> SessionState:
        return read_session(self.data)

    @property
    def shown(self) -> View:
        return seen(self.data)

    def migrated(self) -> bytes:
        sha256 = hashlib.sha256(self.data).hexdigest()
        return b"".join(migrate(self.state, reading(self.data), sha256=sha256, backup_file="x.v3.backup"))


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[str], Opened]:
    def copy(name: str) -> Opened:
        path = tmp_path / name
        path.write_bytes(case(name))
        return Opened(path, path.read_bytes())

    return copy


Open = Callable[[str], Opened]


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_the_ones_that_were_judged(name: str) -> None:
    """A verdict about another file says nothing; and reading must leave them as they are."""
    assert FILES[name] == hashlib.sha256(case(name)).hexdigest()[:16]


def test_v1_with_two_compactions(opened: Open) -> None:
    """Case 1: real v1; the kept range counts records from the header."""
    found = opened("pi-v1-real-two-compactions.jsonl")
    shown = found.shown

    assert (639, 89, "compactionSummary", "high", "anthropic/claude-opus-4-5", 633) == (
        shown.entries, len(shown.messages), shown.messages[0].role, shown.level, shown.model, shown.totals.messages,
    )  # fmt: skip
    # The kept range starts at record 551 counted with the header as 0.
    assert "00000227" == shown.messages[1].entry_id == f"{551:08x}"


def test_v1_with_a_fused_line_is_refused(opened: Open) -> None:
    """Case 2: real corruption; upstream loses both messages silently."""
    found = opened("pi-v1-real-fused-line.jsonl")
    with pytest.raises(ClewError) as caught:
        read_session(found.data)
    at_byte = len(b"\n".join(found.data.split(b"\n")[:439])) + 1

    assert ("session_corrupt", 440, at_byte) == (
        caught.value.code, caught.value.facts["line"], caught.value.facts["byte"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "entries", "view_of", "level"),
    [
        ("pi-v2-tool-written.jsonl", 20, "u a t a b u a", "low"),
        ("pi-v3-real-resumed.jsonl", 6, "u a u a", "medium"),
        ("pi-v3-tool-written-all-entry-types.jsonl", 28, "s u a t t a b u a", "medium"),
        ("pi-v3-tool-written-leaf-dialect.jsonl", 20, "c u u", "high"),
        ("pi-v3-upstream-writer.jsonl", 13, "u b", "off"),
    ],
)
def test_entries_and_views_of_v2_and_v3(opened: Open, name: str, entries: int, view_of: str, level: str) -> None:
    """Cases 4, 5, 7, 8 and 9."""
    shown = opened(name).shown

    assert (entries, view_of, level) == (shown.entries, roles(shown), shown.level)


def test_every_entry_type_of_coding_agent(opened: Open) -> None:
    """Case 7: labels, title, the aborted call, and what upstream's own importer refuses."""
    found = opened("pi-v3-tool-written-all-entry-types.jsonl")
    shown = found.shown

    assert ("Invoices run", {"3dafbcb5": "start"}, ["toolu_pay8"], 1) == (
        shown.title, shown.labels, [each.call_id for each in judge(found.state).orphan_calls], shown.totals.unmeasured,
    )  # fmt: skip


def test_the_leaf_dialect_of_agent_core(opened: Open) -> None:
    """Case 8: where coding-agent shows nothing."""
    shown = opened("pi-v3-tool-written-leaf-dialect.jsonl").shown

    assert ("91795e5a", ["branch two", "after tail"], ["good"], "leaf demo", ("read", "bash"), "openai/gpt-test") == (
        shown.leaf, texts(shown)[1:], list(shown.labels.values()), shown.title, shown.tools, shown.model,
    )  # fmt: skip


def test_separators_inside_strings_are_no_ends_of_lines(opened: Open) -> None:
    """Case 9: exactly 14 lines."""
    found = opened("pi-v3-upstream-writer.jsonl")

    assert ("edge", 14, 1 + 13) == (found.shown.title, found.data.count(b"\n"), 1 + found.state.entries)


def test_v4a(opened: Open) -> None:
    """Case 11: lanes, facts, records."""
    found = opened("pi-v4a-upstream-writer.jsonl")
    shown, totals = found.shown, found.shown.totals

    assert ({"main": "branch-summary", "branch": "branch-user", "idle": None}, "  fixture name  ", "c u b") == (
        shown.lanes, shown.title, roles(shown),
    )  # fmt: skip
    assert (4, 160, 0.33, ()) == (totals.messages, totals.tokens, totals.cost, judge(found.state).open_operations)


def test_v4b_is_not_read_as_v4a(opened: Open) -> None:
    """Case 13: tip and settings from rows."""
    found = opened("pi-v4b-tool-written-imported-from-v2.jsonl")
    shown = found.shown

    assert ("v4b", 13, "u a t a b u a", "low", "after import", "01a22773-bf04-7358-94b0-a6327db01cfd") == (
        found.state.format, shown.totals.messages, roles(shown), shown.level, shown.title, shown.leaf,
    )  # fmt: skip


def test_the_claude_code_transcript(opened: Open) -> None:
    """Case 14, C12: four calls without a result, and usage once a message."""
    found = read_transcript(opened("claude-code-real-orphan-tools-repeated-usage.jsonl").data)

    assert (70, ["id-0060", "id-0074", "id-0082", "id-0088"], 10, {"progress": 57, "assistant": 9, "user": 3,
            "file-history-snapshot": 1}) == (
        found.lines, [each.call_id for each in found.orphan_calls], found.usage.output_tokens, found.kinds,
    )  # fmt: skip


def test_the_codex_rollout(opened: Open) -> None:
    """Case 15: every kind is accepted, the aborted turn and the call with two outputs are found."""
    found = read_transcript(opened("codex-rollout-0.14x-sampled.jsonl").data)

    assert (118, [20], ["it has 2 results, at lines 28, 105"]) == (
        found.lines, [each.line for each in found.aborted_turns], [each.why for each in found.double_results],
    )  # fmt: skip


def test_a_tail_that_is_torn_inside_a_character(opened: Open) -> None:
    """Case 23: header and 22 entries; exactly the torn bytes stand behind them."""
    found = opened("derived-v3-torn-tail-inside-multibyte.jsonl")
    whole = found.data.rfind(b"\n") + 1

    assert ("torn", 22, whole, len(found.data) - whole) == (
        found.state.ending, found.state.entries, found.state.size, found.state.torn_bytes,
    )  # fmt: skip


def test_zero_bytes_in_a_transcript(opened: Open) -> None:
    """Case 24: fail closed, line 7."""
    with pytest.raises(ClewError) as caught:
        read_transcript(opened("derived-claude-code-nul-padding.jsonl").data)

    assert (7, "zero_bytes") == (caught.value.facts["line"], caught.value.facts["reason"])


@pytest.mark.parametrize("name", MIGRATING)
def test_real_sessions_show_the_same_after_their_migration(opened: Open, name: str) -> None:
    """C114: cases 1, 4 to 9."""
    found = opened(name)
    out = found.migrated()
    check_migrated(found.state, found.shown, seen(out))

    assert judge(read_session(out)).orphan_calls != () or judge(found.state).orphan_calls == ()
    assert found.data == found.path.read_bytes()


def test_a_migrated_v2_has_the_new_role_and_all_else_equal(opened: Open) -> None:
    """Case 4: role `hookMessage` is `custom`."""
    found = opened("pi-v2-tool-written.jsonl")
    state = read_session(found.migrated())
    state.lanes["main"] = state.ids.find("ad3bf50d")
    last = view(state, reading(found.migrated())).messages[-1]

    assert ("custom", "lint-hook", "2 lint warnings") == (last.role, last.message["customType"], last.content)


# --- the 24 sick sessions -------------------------------------------------------------------------------------------


def text_of(name: str) -> bytes:
    cases = json.loads(case("derived-v3-broken-sessions.json"))["cases"]
    text: str = next(each["text"] for each in cases if each["name"] == name)
    return text.encode()


REFUSED = {
    "parent-cycle": ("session_corrupt", "parent_cycle"),
    "self-parent": ("session_corrupt", "parent_cycle"),
    "duplicate-entry-id": ("session_corrupt", "duplicate_id"),
    "missing-parent": ("session_corrupt", "parent_missing"),
    "forward-parent": ("session_corrupt", "parent_forward"),
    "no-header": ("session_unsupported", None),
    "two-headers": ("session_corrupt", "second_header"),
    "header-of-another-id": ("session_corrupt", "another_session"),
    "fractional-and-string-version": ("session_unsupported", None),
    "future-version": ("session_unsupported", None),
    "duplicate-json-keys": ("session_corrupt", "repeated_key"),
    "non-json-numbers": ("session_corrupt", "not_json"),
    "terminated-garbage-last-line": ("session_corrupt", "not_json"),
    "only-a-torn-header": ("session_corrupt", "no_header"),
    "empty-file": ("session_corrupt", "no_header"),
}
READ = (
    "unknown-entry-type", "big-integer", "compaction-first-kept-not-on-branch", "compaction-between-call-and-result",
    "orphan-tool-call-then-user", "duplicate-tool-result", "unterminated-but-complete-last-line",
    "lone-surrogate-escape", "line-separators-inside-string",
)  # fmt: skip


def test_every_sick_session_is_judged() -> None:
    """None of the 24 is left out."""
    cases = json.loads(case("derived-v3-broken-sessions.json"))["cases"]

    assert sorted([*REFUSED, *READ]) == sorted(each["name"] for each in cases)


@pytest.mark.parametrize("name", REFUSED)
def test_a_sick_session_is_refused(name: str) -> None:
    """As its `correct` says: with a code, and where it can be, the reason."""
    with pytest.raises(ClewError) as caught:
        read_session(text_of(name), expect="broken")

    assert REFUSED[name] == (caught.value.code, caught.value.facts.get("reason"))


HEADLESS = ("no-header", "fractional-and-string-version", "future-version", "only-a-torn-header", "empty-file")


@pytest.mark.parametrize("name", [name for name in (*REFUSED, *READ) if name not in HEADLESS])
def test_of_every_sick_session_all_that_can_be_read_is_saved(name: str) -> None:
    """Every record that is no JSON, or has a name twice, is left out; all others are in a copy that can be read."""
    data = text_of(name)
    saved = salvage(data)

    lost = {
        "duplicate-entry-id",
        "two-headers",
        "duplicate-json-keys",
        "non-json-numbers",
        "terminated-garbage-last-line",
    }
    assert int(name in lost) == len(saved.left_out)
    assert read_session(saved.data).entries == saved.records
    assert saved.records + len(saved.left_out) == len([each for each in data.split(b"\n")[1:] if each])


@pytest.mark.parametrize("name", HEADLESS)
def test_without_a_header_that_is_known_nothing_is_saved(name: str) -> None:
    """Nobody can say what it was."""
    with pytest.raises(ClewError):
        salvage(text_of(name))


def migration_of(name: str) -> bytes:
    data = text_of(name)
    state = read_session(data, expect="broken")
    out = b"".join(migrate(state, reading(data), sha256="0" * 64, backup_file="b"))
    check_migrated(state, seen(data), seen(out))
    return out


def test_an_unknown_type_keeps_its_children_and_is_not_migrated() -> None:
    """`unknown-entry-type`: the type named; children must not be dropped."""
    with pytest.raises(ClewError) as caught:
        migration_of("unknown-entry-type")

    assert ("session_migration_unsupported", "from_the_future", 3) == (
        caught.value.code, caught.value.facts["type"], caught.value.facts["line"],
    )  # fmt: skip
    assert ["a", "b"] == texts(seen(text_of("unknown-entry-type")))


def test_a_big_integer_and_a_number_beyond_all_ranges_are_kept() -> None:
    """`big-integer`: the 19 digits exactly; 1e400 must not become Infinity."""
    out = migration_of("big-integer")

    assert b'"data":{"id":2512292042121000001,"x":1e400}' in out
    assert b"Infinity" not in out


def test_a_kept_range_that_is_not_there_is_not_migrated() -> None:
    """`compaction-first-kept-not-on-branch`: an empty tail would lose messages."""
    with pytest.raises(ClewError) as caught:
        migration_of("compaction-first-kept-not-on-branch")

    assert ("session_migration_invalid", ["c", "z"]) == (caught.value.code, caught.value.facts["ids"])


def test_a_result_stands_behind_its_call_and_no_summary_between() -> None:
    """`compaction-between-call-and-result`."""
    shown = seen(text_of("compaction-between-call-and-result"))

    assert ("c u a t", "second") == (roles(shown), texts(shown)[0])
    assert roles(shown) == roles(seen(migration_of("compaction-between-call-and-result")))
    assert () == project(shown.messages).repairs


def test_an_orphan_call_is_sent_with_an_unknown_outcome() -> None:
    """`orphan-tool-call-then-user`: one result, marked unknown; the stored file stays as it was."""
    shown = seen(text_of("orphan-tool-call-then-user"))
    sent = project(shown.messages).messages

    assert ["user", "assistant", "toolResult", "user"] == [each["role"] for each in sent]
    assert OUTCOME_UNKNOWN == sent[2]["content"][0]["text"]
    assert "u a u" == roles(shown)


def test_two_results_that_disagree_are_reported_and_one_is_sent() -> None:
    """`duplicate-tool-result`: and it is the one that was told."""
    data = text_of("duplicate-tool-result")
    sent = project(seen(data).messages).messages

    assert ["call_1"] == [each.call_id for each in judge(read_session(data)).double_results]
    assert ["paid"] == [each["content"][0]["text"] for each in sent if each["role"] == "toolResult"]


def test_a_whole_last_line_is_kept() -> None:
    """`unterminated-but-complete-last-line`: decided: it is kept, and said."""
    shown = seen(text_of("unterminated-but-complete-last-line"))

    assert ("u u", ["unterminated"]) == (roles(shown), [each.code for each in shown.warnings])


def test_half_an_emoji_stays_escaped() -> None:
    """`lone-surrogate-escape`: no crash, and the copy keeps it."""
    assert rb"half \ud83e emoji" in migration_of("lone-surrogate-escape")


def test_one_record_is_one_record() -> None:
    """`line-separators-inside-string`: split on LF bytes only."""
    assert (1, 1) == (
        seen(text_of("line-separators-inside-string")).entries,
        seen(migration_of("line-separators-inside-string")).entries,
    )
