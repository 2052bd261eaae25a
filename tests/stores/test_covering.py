"""A look over a whole workspace: all of it, or said not to be."""

import errno
import itertools
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings

from clew.core.checkpoint import PathState
from clew.core.cover import Cover, NotCovered, touched
from clew.errors import Storage
from clew.stores.base import CoverLimits, PutBack
from clew.stores.base.kept import Kept
from clew.stores.blobs import FileBlobStore
from clew.stores.ground import counted
from clew.stores.memory import MemoryBlobStore
from clew.stores.workspace import FileWorkspace
from tests.stores.dying import Counter
from tests.stores.plots import MARK, Dir, File, Link, Tree, build, is_closed, read, states, trees


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "work"


def covered(work: Path, **asked: object) -> Cover:
    return FileWorkspace(work, home=work.parent / "home").cover(**asked)  # type: ignore[arg-type]  # spelled by the test


@settings(max_examples=50, deadline=None)
@given(trees())
def test_every_path_of_a_workspace_is_seen_as_it_stands(tree: dict) -> None:
    """What a shell may change must be known before."""
    with TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        build(work, tree)

        found = covered(work)

        assert found == Cover(read(work))


def test_the_contents_are_kept_in_one_pack(work: Path, tmp_path: Path) -> None:
    """50,000 files must not cost 50,000 syncs."""
    tree = {f"f{at}": File(b"%d" % at * 50) for at in range(30)}
    build(work, tree)
    blobs = FileBlobStore(tmp_path / "home")

    found = covered(work, keep=blobs)

    packs = [path.name for path in (tmp_path / "home" / "blobs").rglob("*") if path.is_file()]
    kept = {path: FileBlobStore(tmp_path / "home").get(state.sha256 or "") for path, state in found.manifest.items()}
    assert (kept, len(packs)) == ({path: bytes(thing) for path, thing in tree.items()}, 1)


def test_what_git_ignores_is_left_out_and_said(work: Path) -> None:
    """Unless our own file of rules takes it in again."""
    tree: Tree = {
        ".gitignore": File(b"*.log\nbuild/\n.env\n"), ".clewignore": File(b"!.env\n/big\n"), ".env": File(b"x"),
        "a.log": File(b""), "big": File(b""), "build": Dir(0o755), "build/x": File(b""), "sub": Dir(0o755),
        "sub/.gitignore": File(b"!a.log"), "sub/a.log": File(b""), "sub/build": File(b""),
    }  # fmt: skip
    build(work, tree)

    found = covered(work)

    assert (sorted(set(tree) - set(found.manifest)), found.not_covered) == (
        ["a.log", "big", "build", "build/x"],
        (
            NotCovered("a.log", "ignored", ".gitignore: *.log"),
            NotCovered("big", "ignored", ".clewignore: /big"),
            NotCovered("build", "ignored", ".gitignore: build/"),
        ),
    )


def test_git_and_homes_are_kept_out_and_said(work: Path) -> None:
    """Their own programs write there, and a restore of them would break both."""
    build(work, {"a": File(b""), ".git": Dir(0o755), ".git/x": File(b""), "my": Dir(0o755), "my/x": File(b"")})

    found = FileWorkspace(work, home=work / "my").cover()

    assert (sorted(found.manifest), found.not_covered) == (
        ["a"],
        (NotCovered(".git", "kept_out"), NotCovered("my", "kept_out")),
    )


def test_what_is_beyond_the_limits_is_said(work: Path) -> None:
    """A checkpoint of a part that passes for the whole would lose the rest at the first restore."""
    build(work, {"a": File(b"x" * 60), "b": File(b"x" * 101), "c": File(b"x" * 60), "d": File(b""), "e": Link("a")})

    found = covered(work, limits=CoverLimits(file_bytes=100, all_bytes=100, paths=2))

    assert (sorted(found.manifest), found.not_covered) == (
        ["a", "d"],
        (NotCovered("b", "too_large"), NotCovered("c", "over_limit"), NotCovered("e", "over_limit")),
    )


def test_pipes_are_said_and_make_nobody_wait(work: Path) -> None:
    """They have no content that could be kept."""
    build(work, {})
    os.mkfifo(work / "pipe")

    found = covered(work)

    assert found == Cover({}, (NotCovered("pipe", "no_file"),))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_is_said(work: Path) -> None:
    """Another user's files in a shared folder are no reason to run no tool."""
    build(work, {"a": File(b"x", 0o000), "dir": Dir(0o000), "b": File(b"")})

    found = covered(work)
    (work / "dir").chmod(0o755)

    assert (sorted(found.manifest), found.not_covered) == (
        ["b"],
        (NotCovered("a", "unreadable"), NotCovered("dir", "unreadable")),
    )


def test_a_store_that_cannot_keep_them_is_no_reason_to_go_on(work: Path) -> None:
    """No checkpoint, no tool."""
    build(work, {"a": File(b"x")})

    class Full(MemoryBlobStore):
        def put(self, data: bytes) -> str:
            raise Storage("full", code="disk_full", next="Free space.")

    with pytest.raises(Storage) as caught:
        covered(work, keep=Full())

    assert caught.value.code == "disk_full"


def test_a_workspace_that_is_not_there_is_a_typed_refusal(work: Path) -> None:
    """Not an empty one: everything would seem to have gone."""
    with pytest.raises(Storage):
        covered(work)


def test_a_deep_tree_is_walked(work: Path) -> None:
    """Without one call of ours for each level."""
    depth = 300
    (work / "/".join("d" * depth)).mkdir(parents=True)

    found = covered(work)

    assert len(found.manifest) == depth


def test_a_look_does_not_change_what_it_looks_at(work: Path) -> None:
    """Times of access aside, nothing is touched."""
    build(work, {"a": File(b"x"), "dir": Dir(0o755), "dir/b": Link("x")})
    before = {path: (path.lstat().st_mtime_ns, path.lstat().st_ctime_ns) for path in (work, *work.rglob("*"))}

    covered(work, keep=MemoryBlobStore())

    assert {path: (path.lstat().st_mtime_ns, path.lstat().st_ctime_ns) for path in (work, *work.rglob("*"))} == before
    assert states({"a": File(b"x")})["a"] == PathState("file", read(work)["a"].sha256, 1, 0o644)


def test_a_folder_that_is_exchanged_for_a_link_between_any_two_calls_is_not_looked_through(
    work: Path, tmp_path: Path
) -> None:
    """What lies outside must neither be kept nor be said to be the workspace's."""
    (tmp_path / "outside" / "sub").mkdir(parents=True)
    (tmp_path / "outside" / "secret").write_bytes(b"outside")
    (tmp_path / "outside" / "sub" / "secret").write_bytes(b"outside")
    secret, wrong = states({"x": File(b"outside")})["x"], []

    for point in itertools.count(1):
        inside: Tree = {
            "dir/sub": Dir(0o755),
            "dir/sub/secret": File(b"i"),
            "dir/secret": File(b"i"),
            "dir/a": File(b"a"),
        }
        build(work, {"dir": Dir(0o755), **inside})
        struck: list[int] = []

        def strike(struck: list[int] = struck) -> None:
            struck.append(1)
            (work / "dir").rename(work / "moved")
            (work / "dir").symlink_to("../outside")

        counter = Counter(point, strike, looks=True)
        counter.install()
        try:
            found = FileWorkspace(work).cover(keep=MemoryBlobStore())
        finally:
            counter.remove()
        if not struck:
            break
        if secret in found.manifest.values():
            wrong.append(point)

    assert (wrong, point > 3) == ([], True)


@settings(max_examples=80, deadline=None)
@given(trees(), trees(), trees())
def test_all_that_a_command_did_is_undone_and_what_was_done_since_stays(before: dict, left: dict, since: dict) -> None:
    """Two looks and their difference are all that is known of a shell command, and they are enough."""
    assume(not is_closed({**before, **left}))
    with TemporaryDirectory() as folder:
        work, home = Path(folder) / "work", Path(folder) / "home"
        home.mkdir()
        workspace, blobs = FileWorkspace(work, home=home), FileBlobStore(home)
        build(work, before)
        first = workspace.cover(keep=blobs)
        build(work, left)
        done = touched(first, workspace.cover(keep=blobs))
        mine = {f"since-{name}": thing for name, thing in since.items() if "/" not in name}
        for name, thing in mine.items():
            if isinstance(thing, File):
                (work / name).write_bytes(thing)
                (work / name).chmod(thing.mode)
        kept = {name: thing for name, thing in mine.items() if isinstance(thing, File)}
        plan = [PutBack(path, done.after[path], done.paths[path]) for path in done.paths]

        ends = workspace.put_back(plan, blobs, mark=MARK)

        assert (read(work), {end.outcome for end in ends} - {"restored"}) == (states({**before, **kept}), set())


# What happens while it is looked at.


def test_what_is_removed_between_any_two_operations_is_not_there(work: Path) -> None:
    """A build that runs beside removes files all the time; a look at the others must not fail of it."""
    tree: Tree = {"a": File(b"a"), "dir": Dir(0o755), "dir/in": File(b"in"), "link": Link("a")}
    wrong = list[object]()
    for at in itertools.count(1):
        build(work, tree)

        def removed() -> None:
            for place in work.iterdir():
                shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()

        counter = Counter(at, removed, looks=True)
        counter.install()
        try:
            found = covered(work)
        finally:
            counter.remove()
        if counter.count < at:
            break
        if not found.manifest.items() <= states(tree).items() or found.not_covered:
            wrong.append((at, found))

    assert ([], True) == (wrong, at > 10)


def test_a_file_that_never_stands_still_is_said(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is written all the time is no reason to run no command."""
    build(work, {"log": File(b"x"), "other": File(b"x")})

    def growing(pieces: Iterable[bytes]) -> Kept:
        with (work / "log").open("ab") as file:
            file.write(b"x")
        return counted(pieces)

    monkeypatch.setattr("clew.stores.covering.counted", growing)

    found = covered(work)

    assert (states({"other": File(b"x")}), (NotCovered("log", "changing"),)) == (found.manifest, found.not_covered)


def test_an_error_of_the_store_ends_the_look(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no fault of the file, and must not be told as one: nothing would be kept, and the command would run."""
    build(work, {"a": File(b"x")})

    def full(pieces: Iterable[bytes]) -> Kept:
        raise Storage("full", code="disk_full", next="Free space.")

    monkeypatch.setattr("clew.stores.covering.counted", full)

    with pytest.raises(Storage) as caught:
        covered(work)

    assert "disk_full" == caught.value.code


@pytest.mark.parametrize("denied", [1, 2], ids=["the workspace", "a folder in it"])
def test_names_that_cannot_be_read_are_told(work: Path, denied: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one folder it is said; of the whole workspace nothing can be said, so no command runs."""
    build(work, {"dir": Dir(0o755), "dir/in": File(b"in"), "other": File(b"x")})
    real, calls = os.listdir, itertools.count(1)

    def listed(place: int) -> list[str]:
        if next(calls) == denied:
            raise PermissionError(errno.EACCES, "denied")
        return real(place)

    monkeypatch.setattr(os, "listdir", listed)

    if denied == 1:
        with pytest.raises(Storage):
            covered(work)
    else:
        found = covered(work)

        assert (["other"], (NotCovered("dir", "unreadable"),)) == (list(found.manifest), found.not_covered)


@pytest.mark.parametrize("name", ["link", "a"])
def test_what_became_a_folder_between_two_calls_is_said(work: Path, name: str) -> None:
    """Nobody has looked into it: what lies there would seem to be made by the command, and would go with it."""
    build(work, {"a": File(b"a"), "link": Link("a")})
    look, met = os.stat, list[bool]()

    def meets(place: Any, **how: Any) -> os.stat_result:
        found = look(place, **how)
        if place == name and not met:
            met.append(True)
            (work / name).unlink()
            build(work / name, {"in": File(b"in")})
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "stat", meets)
        found = covered(work)

    assert (NotCovered(name, "changing"),) == found.not_covered
    assert {"a", "link"} - {name} == set(found.manifest)
