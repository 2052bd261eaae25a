"""What an effect changed, in lines that a person can read and a terminal cannot obey."""

import hashlib
from typing import Any

import pytest

from clew.core.checkpoint import ABSENT, Checkpoint, PathState
from clew.core.comparing import PathDiff, compared
from clew.core.merging import MERGE_BYTES
from clew.views.differences import (
    difference_json,
    difference_lines,
    path_lines,
    restore_told,
    restored_lines,
    restored_next,
    restored_summary,
    standing_text,
)
from clew.views.plain import When

WHEN = When(1_796_000_000_000)
KEPT: dict[str, bytes] = {}


def file(data: bytes, mode: int = 0o644) -> PathState:
    """A file's state; its content is kept."""
    digest = hashlib.sha256(data).hexdigest()
    KEPT[digest] = data
    return PathState("file", digest, len(data), mode)


def content(path: str, state: PathState) -> bytes | None:
    return KEPT.get(state.sha256 or "")


def taken(before: Any, after: Any = None, **members: Any) -> Checkpoint:
    return Checkpoint(
        "k1", "edit-1", "c1", "r:edit-1:c1", 1, "edit", "2026-11-29T13:54:02.000Z", True, before, after=after, **members
    )


def told(old: PathState, new: PathState, *, path: str = "a", renamed: str = "") -> list[str]:
    """The lines of one path."""
    return list(path_lines(PathDiff(path, old, new, new, "as_left", renamed), content))


def test_a_changed_text_is_told_line_by_line() -> None:
    """#145: what went and what came, with what stands around it."""
    old, new = file(b"one\ntwo\nthree\n"), file(b"one\n2\nthree\n")

    assert ["--- a/a", "+++ b/a", "@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"] == told(old, new)


def test_a_new_file_stands_against_nothing() -> None:
    """#146: the old side is the null device, and has no text."""
    assert told(ABSENT, file(b"x\n")) == [
        "--- /dev/null",
        "+++ b/a",
        "nothing → file of mode 0644",
        "@@ -0,0 +1 @@",
        "+x",
    ]


def test_a_removed_file_has_nothing_on_the_other_side() -> None:
    """#147: the new side is the null device, and has no text."""
    assert told(file(b"x\n"), ABSENT) == [
        "--- a/a",
        "+++ /dev/null",
        "file of mode 0644 → nothing",
        "@@ -1 +0,0 @@",
        "-x",
    ]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (b"x", b"x\n", ["-x", "\\ No newline at end of file", "+x"]),
        (b"x\r\n", b"x\n", ["-x\\r", "+x"]),
        (b"x\n", b"\xef\xbb\xbfx\n", ["-x", "+\\ufeffx"]),
        (b"x\n", b"x\x1b[2J\tok\n", ["-x", "+x\\x1b[2J\tok"]),
    ],
)
def test_what_cannot_be_seen_is_written_out(old: bytes, new: bytes, lines: list[str]) -> None:
    """C63: a line end, a mark at the beginning, what a terminal would obey."""
    assert lines == told(file(old), file(new))[3:]


def test_an_encoding_that_is_not_utf_8_is_named() -> None:
    """C60: the lines are compared all the same, and no byte is lost or guessed at."""
    lines = told(file("甲\n".encode("gb18030")), file(b"x\n"))

    assert [r"not UTF-8: other bytes stand as \xNN", "@@ -1 +1 @@", r"-\xbc\xd7", "+x"] == lines[2:]


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (b"\0" * 4096, b"\0" * 5120, "binary, 4096 → 5120 bytes"),
        (b"\n" * 3000, b"\n" * 3001, "too many equal lines to compare one by one, 3000 → 3001 bytes"),
    ],
)
def test_what_has_no_lines_is_a_word(old: bytes, new: bytes, word: str) -> None:
    """C59: with both sizes."""
    assert [word] == told(file(old), file(new))[2:]


def test_what_is_too_large_is_said_to_be() -> None:
    """#152, W29: each side by itself, and nothing is cut without a word."""
    large = PathState("file", "f" * 64, MERGE_BYTES + 1, 0o644)

    assert told(ABSENT, large)[3:] == [
        "too large to compare line by line, nothing → 4194305 bytes (the limit is 4.0 MiB)"
    ]


def test_why_a_content_is_gone_is_said_where_it_is_known() -> None:
    """What was pruned on purpose is no damage, and the other way round."""
    old, new = file(b"old"), file(b"x")

    def content(path: str, which: PathState) -> bytes | str:
        return "it was pruned" if which == old else b"x"

    (*_, told) = path_lines(PathDiff("a", old, new, new, "as_left"), content)

    assert "its content as it was is not to be had, 3 → 1 byte: it was pruned" == told


def test_a_content_that_is_gone_is_said_to_be() -> None:
    """Its digest is known, and nothing more."""
    lost = PathState("file", "e" * 64, 3, 0o644)

    assert [
        ["its content as it was is not to be had, 3 → 1 byte"],
        ["its content as it was left is not to be had, 1 → 3 bytes"],
    ] == [
        told(lost, file(b"x"))[2:],
        told(file(b"x"), lost)[2:],
    ]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (file(b"x"), file(b"x", 0o755), "file of mode 0644 → file of mode 0755"),
        (PathState("link", target="a"), PathState("link", target="../b\n"), "link to 'a' → link to '../b\\\\n'"),
        (file(b""), PathState("folder", mode=0o700), "file of mode 0644 → folder of mode 0700"),
        (PathState("folder", mode=0o700), PathState("folder", mode=0o755), "folder of mode 0700 → folder of mode 0755"),
    ],
)
def test_a_mode_a_link_and_a_kind_are_told(old: PathState, new: PathState, line: str) -> None:
    """C61, C62: they are changes like another."""
    assert [line] == told(old, new)[2:]


def test_a_mode_that_is_not_known_is_not_told() -> None:
    """A tool that announced a file need not know its mode."""
    assert told(file(b"x"), PathState("file", file(b"x").sha256, 1))[2:] == []


def test_a_renamed_file_is_told_under_both_names() -> None:
    """Its text is compared across the names; a name that is not UTF-8 is written out."""
    assert ["--- a/old", "+++ b/new\\udcff"] == told(file(b"x"), file(b"x"), path="new\udcff", renamed="old")


def test_a_checkpoint_is_told_with_each_of_its_paths() -> None:
    """Whose it is, how each path stands, and what was not covered."""
    missing = (
        {"path": "big.bin", "why": "too_large"},
        {"pattern": ".gitignore: *.o", "why": "ignored", "count": 2},
        {"why": "unreadable", "count": 3},
    )
    checkpoint = taken(
        {"a": file(b"x"), "d": ABSENT}, {"a": ABSENT, "d": PathState("folder", mode=0o755)}, not_covered=missing
    )
    paths = compared(checkpoint, [], {"d": PathState("folder", mode=0o755), "a": file(b"y")})

    assert [
        "k1  edit  edit-1, attempt 1  2026-11-29 13:54:02",
        "",
        "gone  a  (somebody changed it since)",
        "--- a/a",
        "+++ /dev/null",
        "file of mode 0644 → nothing",
        "@@ -1 +0,0 @@",
        "-x",
        "\\ No newline at end of file",
        "",
        "new  d  (stands as the call left it)",
        "--- /dev/null",
        "+++ b/d",
        "nothing → folder of mode 0755",
        "",
        "not covered:",
        "  big.bin: too large",
        "  .gitignore: *.o: ignored: 2 paths",
        "  3 paths: not readable",
    ] == list(difference_lines(checkpoint, paths, content, WHEN))


def test_a_checkpoint_without_changes_says_so() -> None:
    """Silence would look like a fault."""
    nothing: tuple[Any, Any] = ({}, None)

    assert ["  it changed nothing", "  nobody recorded what it changed"] == [
        list(difference_lines(taken(before), (), content, WHEN))[-1] for before in nothing
    ]


@pytest.mark.parametrize(
    ("diff", "text"),
    [
        (PathDiff("a", ABSENT, ABSENT, ABSENT, "unknown"), "nobody recorded how the call left it"),
        (PathDiff("a", ABSENT, ABSENT, ABSENT, "changed", by="k2"), "k2 changed it later"),
        (PathDiff("a", ABSENT, None, None, "unknown", unseen="a pipe"), "it cannot be looked at: a pipe"),
    ],
)
def test_how_a_path_stands_is_said_in_words(diff: PathDiff, text: str) -> None:
    """It says whether a restore would touch it."""
    assert text == standing_text(diff)


def test_a_program_gets_the_same() -> None:
    """The text in lines, or the word in its place."""
    checkpoint = taken(
        {"a": file(b"x\n"), "b": file(b"\0")},
        {
            "a": file(b"y\n"),
            "b": file(b"\0\0"),
        },
    )
    paths = compared(checkpoint, [], {"a": file(b"y\n"), "b": file(b"\0\0")})
    found = difference_json(checkpoint, paths, content)

    assert (
        "k1",
        True,
        [("changed", "", ["@@ -1 +1 @@", "-x", "+y"]), ("changed", "binary, 1 → 2 bytes", None)],
    ) == (
        found["checkpointId"],
        found["recorded"],
        [(each["change"], each["word"], each["text"]) for each in found["paths"]],
    )


@pytest.mark.parametrize(
    ("old", "new", "renamed", "word"),
    [
        (ABSENT, file(b"x"), "", "new"),
        (file(b"x"), ABSENT, "", "gone"),
        (file(b"x"), file(b"x"), "b", "renamed"),
        (file(b"x"), file(b"x", 0o600), "", "mode"),
        (file(b"x"), file(b"y"), "", "changed"),
        (file(b"x"), PathState("link", target="b"), "", "file became link"),
        (PathState("link", target="a"), PathState("link", target="b"), "", "changed"),
    ],
)
def test_each_change_has_a_word(old: PathState, new: PathState, renamed: str, word: str) -> None:
    """So that a list can be read by its first column."""
    (path,) = difference_json(taken({}), [PathDiff("a", old, new, new, "as_left", renamed)], content)["paths"]

    assert word == path["change"]


REPORT: dict[str, Any] = {
    "runId": "r",
    "checkpointId": "k1",
    "dryRun": False,
    "paths": [
        {"path": "a", "outcome": "restored"},
        {"path": "b\n", "outcome": "conflict", "why": "somebody changed it since"},
    ],
}


def test_a_restore_says_of_each_path_what_became_of_it() -> None:
    """One that was left alone says why."""
    assert ["restored  a", "conflict  b\\n  (somebody changed it since)"] == restored_lines(REPORT)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({}, "k1: 1 restored, 1 conflict"),
        ({"dryRun": True}, "k1: it would be: 1 restored, 1 conflict"),
        ({"paths": REPORT["paths"][1:] * 2}, "k1: 2 conflicts"),
        ({"paths": []}, "k1: nothing to do"),
    ],
)
def test_a_restore_is_summed_up(members: dict[str, Any], text: str) -> None:
    """A long list ends with what matters."""
    assert text == restored_summary(REPORT | members)


@pytest.mark.parametrize(("left", "shown"), [(2, 1), (1, 0)])
def test_what_was_left_alone_is_not_a_dead_end(left: int, shown: int) -> None:
    """Whoever reads `conflict` by night needs the next command, and only then."""
    told = restored_next(REPORT | {"paths": REPORT["paths"][:left]})

    assert ["next: clew diff r k1"] * shown == [line.partition("  ")[0] for line in told[:1]]


@pytest.mark.parametrize(
    ("members", "left", "steps"),
    [
        ({}, {"why": "somebody changed it since"}, ["clew restore r k1 --merge"]),
        ({"through": "k3"}, {"why": "somebody changed it since"}, ["clew restore r k1 --later --merge"]),
        ({}, {"why": "k2 changed it later", "by": "k2"}, ["clew restore r k1 --later"]),
        ({}, {"why": "somebody changed it since; no clean merge"}, []),
        ({}, {"why": "somebody removed it since"}, []),
    ],
)
def test_what_may_help_is_advised_and_nothing_else(
    members: dict[str, Any], left: dict[str, Any], steps: list[str]
) -> None:
    """Whoever types an advice and is given the same one again stops reading them."""
    told = restored_next(REPORT | members | {"paths": [{"path": "b", "outcome": "conflict", **left}]})

    assert [f"or:   {step}" for step in steps] == [line.rpartition("  ")[0] for line in told[1:]]


def test_the_log_tells_of_a_restore() -> None:
    """Who, why, and what became of each path; of many the first ones."""
    said = {"restoreId": "restore-1", "checkpointId": "k1", "by": "ann", "reason": "wrong\x1b"}
    begins = restore_told({**said, "state": "started", "paths": [{"path": "a"}]})
    ended = restore_told({**said, "state": "ended", "paths": [{"path": "a", "outcome": "restored"}] * 21})

    assert ["restore-1 of k1 begins: 1 path, by ann: wrong\\x1b", "is to be put back  a"] == begins
    assert ["restored  a", "… and 1 more"] == ended[-2:]


def test_the_log_tells_of_a_restore_that_says_nothing() -> None:
    """Whoever wrote it, a reader does not stumble."""
    assert restore_told({"paths": [3]}) == ["None of None begins: 0 paths, by None: None"]
