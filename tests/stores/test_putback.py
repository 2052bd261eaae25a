"""Many paths that are put back: any tree to any other, in an order that works, and nobody's bytes lost."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, example, given, settings

from clew.core.checkpoint import ABSENT, PathState
from clew.stores.base import PutBack
from clew.stores.memory import MemoryBlobStore
from clew.stores.putback import ordered
from clew.stores.workspace import FileWorkspace
from tests.stores.plots import (
    MARK,
    Dir,
    File,
    Link,
    Tree,
    build,
    is_closed,
    keep_all,
    plan_of,
    read,
    state_of,
    states,
    trees,
)


@settings(max_examples=150, deadline=None)
@given(trees(), trees())
def test_any_tree_becomes_any_other_byte_for_byte(left: dict, before: dict) -> None:
    """Whatever a tool did to files, folders, links, modes and names, what was before stands again."""
    assume(not is_closed({**before, **left}))
    blobs = MemoryBlobStore()
    keep_all(blobs, left, before)
    with TemporaryDirectory() as folder:
        root = Path(folder) / "work"
        build(root, left)

        ends = FileWorkspace(root).put_back(plan_of(left, before), blobs, mark=MARK)

        assert (read(root), {end.outcome for end in ends} - {"restored", "unchanged"}) == (states(before), set())


# Chance meets a file that stands in all three, each time otherwise, in three runs of four.
@settings(max_examples=150, deadline=None)
@example({"a": File(b"left")}, {"a": File(b"before")}, {"a": File(b"a person's")})
@example({"a": File(b"left")}, {"a": Link("b")}, {"a": File(b"a person's")})
@example({"a": File(b"left")}, {}, {"a": File(b"a person's")})
@given(trees(), trees(), trees())
def test_what_a_person_changed_since_stays_to_the_byte_and_is_said(left: dict, before: dict, now: dict) -> None:
    """The one promise of a restore that nobody forgives to be broken (C56, C57)."""
    blobs = MemoryBlobStore()
    keep_all(blobs, left, before)
    with TemporaryDirectory() as folder:
        root = Path(folder) / "work"
        build(root, now)

        ends = FileWorkspace(root).put_back(plan_of(left, before), blobs, mark=MARK)

        found = read(root)
        theirs = {
            path for path in now if state_of(now[path]) not in (state_of(left.get(path)), state_of(before.get(path)))
        }
        lost = {path for path in theirs if found.get(path) != state_of(now[path]) and not isinstance(now[path], Dir)}
        unsaid = theirs & {end.path for end in ends if end.outcome in ("restored", "unchanged")}
        assert (lost, unsaid) == (set(), set())


def test_what_stands_as_it_shall_is_not_touched(tmp_path: Path) -> None:
    """A build would run again for every file whose time is new (C65)."""
    tree: Tree = {"a": File(b"same"), "b": File(b"left"), "link": Link("a"), "dir": Dir(0o755)}
    build(tmp_path / "work", tree)
    before = {name: (tmp_path / "work" / name).lstat() for name in tree}
    blobs = MemoryBlobStore()
    wanted: Tree = {**tree, "b": File(b"before")}
    keep_all(blobs, wanted)

    ends = FileWorkspace(tmp_path / "work").put_back(plan_of(tree, wanted), blobs, mark=MARK)

    same = [name for name in tree if (tmp_path / "work" / name).lstat() == before[name]]
    assert (same, [end.outcome for end in ends]) == (
        ["a", "link", "dir"],
        ["unchanged", "restored", "unchanged", "unchanged"],
    )


def test_a_mode_is_put_back_without_a_new_content_or_time(tmp_path: Path) -> None:
    """Only what differs is touched."""
    build(tmp_path / "work", {"a": File(b"same", 0o755)})
    before = (tmp_path / "work/a").stat()

    FileWorkspace(tmp_path / "work").put_back(
        plan_of({"a": File(b"same", 0o755)}, {"a": File(b"same", 0o600)}), MemoryBlobStore(), mark=MARK
    )

    after = (tmp_path / "work/a").stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_mode & 0o777) == (before.st_ino, before.st_mtime_ns, 0o600)


def test_a_folder_with_something_of_somebody_else_in_it_stays(tmp_path: Path) -> None:
    """Only what the tool made goes; a cleaned folder was somebody's work (C53, C54)."""
    build(tmp_path / "work", {"made": Dir(0o755), "made/tool": File(b"t"), "made/mine": File(b"m")})
    left: Tree = {"made": Dir(0o755), "made/tool": File(b"t")}

    ends = FileWorkspace(tmp_path / "work").put_back(plan_of(left, {}), MemoryBlobStore(), mark=MARK)

    told = [(end.path, end.outcome, end.why) for end in ends]
    assert (sorted(read(tmp_path / "work")), told) == (
        ["made", "made/mine"],
        [("made", "conflict", "the folder is not empty"), ("made/tool", "restored", "")],
    )


def test_a_missing_blob_changes_nothing_and_leaves_nothing_beside(tmp_path: Path) -> None:
    """What cannot be brought back must not cost what is there."""
    build(tmp_path / "work", {"a": File(b"left"), "b": File(b"left")})
    blobs = MemoryBlobStore()
    blobs.put(b"other")
    wanted = {"a": File(b"before"), "b": File(b"other")}

    ends = FileWorkspace(tmp_path / "work").put_back(
        plan_of({"a": File(b"left"), "b": File(b"left")}, wanted), blobs, mark=MARK
    )

    assert (read(tmp_path / "work"), [(end.outcome, end.code) for end in ends]) == (
        states({"a": File(b"left"), "b": File(b"other")}),
        [("failed", "blob_missing"), ("restored", "")],
    )


def test_a_corrupt_blob_never_reaches_a_file(tmp_path: Path) -> None:
    """Half of it was written beside the file before that was seen, and is gone again."""
    build(tmp_path / "work", {"a": File(b"left")})
    blobs = MemoryBlobStore()
    digest = blobs.put(b"before")
    blobs.kept[digest] = b"BEFORE"

    ends = FileWorkspace(tmp_path / "work").put_back(
        plan_of({"a": File(b"left")}, {"a": File(b"before")}), blobs, mark=MARK
    )

    assert (read(tmp_path / "work"), ends[0].code) == (states({"a": File(b"left")}), "blob_corrupt")


@pytest.mark.parametrize("path", ["../out", ".git/config", "a/../../out", "/etc/passwd", ".CLEW/x", ""])
def test_a_plan_cannot_name_what_is_not_of_the_workspace(tmp_path: Path, path: str) -> None:
    """A record that somebody wrote by hand is no permission."""
    build(tmp_path / "work", {})
    blobs = MemoryBlobStore()
    keep_all(blobs, {"x": File(b"x")})

    ends = FileWorkspace(tmp_path / "work").put_back([PutBack(path, ABSENT, state_of(File(b"x")))], blobs, mark=MARK)

    assert (sorted(str(p) for p in tmp_path.rglob("*")), ends[0].code) == (
        [str(tmp_path / "work")],
        "outside_workspace",
    )


@pytest.mark.parametrize("wanted", [File(b"x"), Dir(0o755), Link("y")])
def test_nothing_is_put_back_through_a_link(tmp_path: Path, wanted: File | Dir | Link) -> None:
    """The folder was exchanged for a link since: what lies behind it is not the workspace (C61)."""
    build(tmp_path / "work", {"dir": Link("../outside")})
    (tmp_path / "outside").mkdir()
    blobs = MemoryBlobStore()
    keep_all(blobs, {"x": File(b"x")})

    ends = FileWorkspace(tmp_path / "work").put_back([PutBack("dir/x", ABSENT, state_of(wanted))], blobs, mark=MARK)

    assert (list((tmp_path / "outside").iterdir()), ends[0].outcome) == ([], "conflict")


def test_folders_on_the_way_are_made_and_go_again_when_the_file_does_not_come(tmp_path: Path) -> None:
    """A file whose folder was removed with it comes back; a failure leaves no empty folders behind."""
    build(tmp_path / "work", {})
    blobs = MemoryBlobStore()
    blobs.put(b"x")
    plan = plan_of({}, {"a/b/x": File(b"x"), "c/d/y": File(b"y")})

    ends = FileWorkspace(tmp_path / "work").put_back(plan, blobs, mark=MARK)

    assert (sorted(read(tmp_path / "work")), [end.outcome for end in ends]) == (
        ["a", "a/b", "a/b/x"],
        ["restored", "failed"],
    )


def test_what_goes_is_first_and_what_comes_last() -> None:
    """A folder can only go when it is empty, and only be filled when it is there and may be written."""
    file, folder = state_of(File(b"")), PathState("folder", mode=0o755)
    closed = PathState("folder", mode=0o555)
    plan = [
        PutBack("old", folder, ABSENT),
        PutBack("old/in", file, ABSENT),
        PutBack("new", ABSENT, closed),
        PutBack("new/in", ABSENT, file),
        PutBack("shut", closed, folder),
        PutBack("open", folder, closed),
    ]

    order = [step.path for step in ordered(plan)]

    assert order == ["shut", "old/in", "old", "new", "new/in", "open", "new"]


def test_a_path_that_the_machine_cannot_follow_has_failed_and_the_others_stand(tmp_path: Path) -> None:
    """One path that nothing can be done about must not keep the other files from coming back."""
    build(tmp_path / "work", {"a": File(b"left")})
    blobs = MemoryBlobStore()
    keep_all(blobs, {"a": File(b"before")})
    long = "x" * 300 + "/in"
    plan = [
        PutBack(long, state_of(File(b"")), ABSENT),
        PutBack("a", state_of(File(b"left")), state_of(File(b"before"))),
    ]

    ends = FileWorkspace(tmp_path / "work").put_back(plan, blobs, mark=MARK)

    assert ["failed", "restored"] == [end.outcome for end in ends]
    assert states({"a": File(b"before")}) == read(tmp_path / "work")
