"""What tools do to one file: deleted, moved and written for good, and nothing outside touched."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.core.checkpoint import ABSENT, Manifest
from clew.disk import anchor
from clew.errors import ClewError, NotFound, Refused, Storage
from clew.stores.memory import MemoryBlobStore
from clew.stores.workspace import FileWorkspace
from clew.testing import failing_call
from tests.stores.dying import Counter, without_exchange
from tests.stores.plots import MARK, Dir, File, Link, Thing, Tree, build, keep_all, plan_of, read, states


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.mark.parametrize("path", ["a", "link", "out", "\udcff"])
def test_a_file_or_a_link_itself_is_deleted(work: Path, path: str) -> None:
    """Never what the link leads to."""
    tree: Tree = {
        "a": File(b"a"),
        "link": Link("b"),
        "b": File(b"b"),
        "out": Link("/etc/hostname"),
        "\udcff": File(b""),
    }
    build(work, tree)

    told = FileWorkspace(work).delete(path)

    assert (told, read(work)) == (path, states({name: thing for name, thing in tree.items() if name != path}))


@pytest.mark.parametrize(
    ("path", "code"), [("dir", "not_a_file"), ("none", "file_missing"), ("dir/no/x", "file_missing")]
)
def test_what_is_no_file_is_not_deleted(work: Path, path: str, code: str) -> None:
    """A folder is somebody's whole work."""
    build(work, {"dir": Dir(0o755), "dir/in": File(b"")})

    with pytest.raises((Refused, NotFound)) as caught:
        FileWorkspace(work).delete(path)

    assert (caught.value.code, (work / "dir/in").exists()) == (code, True)


def test_a_file_is_moved_with_its_mode_and_folders_are_made(work: Path) -> None:
    """It is the same file under another path."""
    build(work, {"a": File(b"a", 0o600)})
    before = (work / "a").stat().st_ino

    told = FileWorkspace(work).move("a", "new/dir/b")

    assert (told, (work / "new/dir/b").stat().st_ino, (work / "a").exists()) == ("new/dir/b", before, False)


@pytest.mark.parametrize("to", ["b", "dir", "link", "gone"])
def test_a_move_never_replaces(work: Path, to: str) -> None:
    """What stands there is somebody's, be it a link that leads nowhere."""
    tree: Tree = {"a": File(b"a"), "b": File(b"b"), "dir": Dir(0o755), "link": Link("b"), "gone": Link("nowhere")}
    build(work, tree)

    with pytest.raises(Refused) as caught:
        FileWorkspace(work).move("a", to)

    assert (caught.value.code, read(work)) == ("file_exists", states(tree))


@pytest.mark.parametrize(
    ("path", "to"), [("../x", "a"), ("b", "../x"), ("b", ".git/x"), ("out/x", "y"), ("b", "out/x")]
)
def test_nothing_is_moved_out_or_in(work: Path, tmp_path: Path, path: str, to: str) -> None:
    """Nor through a link."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x").touch()
    build(work, {"b": File(b"b"), "out": Link("../outside")})

    with pytest.raises(Refused) as caught:
        FileWorkspace(work).move(path, to)

    assert (caught.value.code, sorted(read(work)), os.listdir(tmp_path / "outside")) == (
        "outside_workspace",
        ["b", "out"],
        ["x"],
    )


DEEDS: list[Callable[[FileWorkspace], object]] = [
    lambda workspace: workspace.read("dir/x", 100),
    lambda workspace: workspace.write("dir/x", b"written"),
    lambda workspace: workspace.write("dir/new/x", b"written"),
    lambda workspace: workspace.delete("dir/x"),
    lambda workspace: workspace.move("dir/x", "y"),
    lambda workspace: workspace.move("a", "dir/y"),
    lambda workspace: put_back(workspace, {"dir/x": File(b"inside")}, {"dir/x": File(b"before", 0o600)}),
    lambda workspace: put_back(workspace, {"dir/x": File(b"inside")}, {}),
    lambda workspace: put_back(workspace, {"dir/x": File(b"inside")}, {"dir/x": Link("y")}),
    lambda workspace: put_back(workspace, {"dir/x": File(b"inside")}, {"dir/x": File(b"inside", 0o777)}),
    lambda workspace: put_back(workspace, {}, {"dir/new/y": File(b"y")}),
    lambda workspace: put_back(workspace, {"dir": Dir(0o755)}, {"dir": Dir(0o700)}),
    lambda workspace: put_back(workspace, {"dir/x": File(b"inside"), "dir": Dir(0o755)}, {"dir": File(b"x")}),
]


def put_back(workspace: FileWorkspace, left: Tree, before: Tree) -> None:
    blobs = MemoryBlobStore()
    keep_all(blobs, before)
    workspace.put_back(plan_of(left, before), blobs, mark=MARK)


@pytest.mark.parametrize("deed", DEEDS)
def test_a_folder_that_is_exchanged_for_a_link_between_any_two_calls_leads_nothing_out(
    work: Path, tmp_path: Path, deed: Callable[[FileWorkspace], object]
) -> None:
    """The look said that it is a folder; the deed must not believe it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"theirs")
    theirs, touched = _seen(outside), []

    for point in itertools.count(1):
        build(work, {"dir": Dir(0o755), "dir/x": File(b"inside"), "a": File(b"a")})
        struck: list[int] = []

        def strike(struck: list[int] = struck) -> None:
            struck.append(1)
            (work / "dir").rename(work / "moved")
            (work / "dir").symlink_to("../outside")

        counter = Counter(point, strike, looks=True)
        counter.install()
        try:
            deed(FileWorkspace(work))
        except ClewError:
            pass
        finally:
            counter.remove()
        if not struck:
            break
        if _seen(outside) != theirs:
            touched.append(point)

    assert (touched, point > 3) == ([], True)


def _seen(folder: Path) -> list[tuple[object, ...]]:
    """Everything of a folder that a deed could touch."""
    places = (folder, *sorted(folder.iterdir()))
    return [
        (place.name, place.lstat().st_mode, place.lstat().st_mtime_ns, place.lstat().st_ctime_ns) for place in places
    ]


def test_a_users_file_keeps_its_mode_and_a_new_one_gets_the_umasks(work: Path) -> None:
    """A script that is rewritten must still run, and a receipt be readable by whoever reads the others."""
    build(work, {"script": File(b"old", 0o775), "secret": File(b"old", 0o600)})
    before = os.umask(0o026)
    try:
        for name in ("script", "secret", "new"):
            FileWorkspace(work).write(name, b"new")
    finally:
        os.umask(before)

    modes = {path.name: path.stat().st_mode & 0o777 for path in work.iterdir()}

    assert modes == {"script": 0o775, "secret": 0o600, "new": 0o640}


def test_a_secret_is_not_open_to_others_while_it_is_written(work: Path) -> None:
    """Whoever opens the temp file meanwhile keeps it open."""
    modes: set[int] = set()

    def look() -> None:
        modes.update(path.stat().st_mode & 0o777 for path in work.iterdir())

    for point in range(1, 20):
        build(work, {"secret": File(b"old", 0o600)})
        counter = Counter(point, look, half=True)
        counter.install()
        FileWorkspace(work).write("secret", b"new")
        counter.remove()

    assert modes == {0o600}


def test_folders_that_were_made_for_nothing_go_again(work: Path) -> None:
    """A deed that failed leaves the tree as it was; folders that stood before stay."""
    build(work, {"old": Dir(0o755)})

    with pytest.raises(ClewError):
        FileWorkspace(work).move("none", "old/new/newer/x")
    with pytest.raises(ClewError):
        FileWorkspace(work).write("old/new/newer/" + "x" * 250 + "/" + "y" * 300, b"")

    assert sorted(read(work)) == ["old"]


def test_folders_on_the_way_are_synced_into_their_parents(work: Path) -> None:
    """Otherwise the file that is written below them vanishes with them."""
    build(work, {})
    syncs: list[str] = []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: syncs.append(os.readlink(f"/proc/self/fd/{fd}")))
        FileWorkspace(work).write("a/b/x", b"new")

    assert [sync for sync in syncs if not sync.endswith(".tmp")] == [str(work), str(work / "a"), str(work / "a/b")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write what is another's, and keep it his")
def test_what_root_writes_stays_whose_it_was(work: Path) -> None:
    """An agent in a container must not take a person's files away from them."""
    build(work, {"a": File(b"theirs", 0o640)})
    os.chown(work / "a", 65534, 65534)
    FileWorkspace(work).write("a", b"new")
    found = (work / "a").stat()

    assert (65534, 65534, 0o640) == (found.st_uid, found.st_gid, found.st_mode & 0o7777)


# What somebody changed behind the look that kept it.

TOOLS: dict[str, Callable[[FileWorkspace, str, Manifest], object]] = {
    "write": lambda workspace, path, kept: workspace.write(path, b"tool", kept=kept),
    "delete": lambda workspace, path, kept: workspace.delete(path, kept=kept),
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("mine", [File(b"mine"), File(b"old", 0o600), Link("elsewhere")])
def test_what_a_person_saved_a_moment_ago_is_never_replaced(work: Path, tool: str, mine: Thing) -> None:
    """It is kept nowhere: what was kept is what stood there before."""
    build(work, {"a": File(b"old", 0o644)})
    kept = FileWorkspace(work).stand(["a"])
    build(work, {"a": mine})
    with pytest.raises(Refused) as refusal:
        TOOLS[tool](FileWorkspace(work), "a", kept)

    assert {"file_changed", "not_a_file"} >= {refusal.value.code}
    assert states({"a": mine}) == read(work)


@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_person_saves_between_any_two_operations_is_never_lost(work: Path, tool: str) -> None:
    """At each moment of the deed, up to the last: theirs stands, or the tool's on top of it was refused."""
    lost, met = list[int](), 0
    for at in itertools.count(1):
        build(work, {"a": File(b"old", 0o644)})
        kept = FileWorkspace(work).stand(["a"])

        def saved() -> None:
            (work / ".draft").write_bytes(b"mine")
            (work / ".draft").rename(work / "a")

        counter = Counter(at, saved, looks=True)
        counter.install()
        try:
            TOOLS[tool](FileWorkspace(work), "a", kept)
        except ClewError:
            met += 1
        finally:
            counter.remove()
        if counter.count < at:
            break
        contents = [place.read_bytes() for place in work.iterdir()]
        if b"mine" not in contents:
            lost.append(at)

    assert ([], True) == (lost, met > 3)


def test_a_new_file_never_replaces_one_that_came_meanwhile(work: Path) -> None:
    """The call began when nothing stood there."""
    build(work, {"a": File(b"mine")})
    with pytest.raises(Refused) as refusal:
        FileWorkspace(work).write("a", b"tool", kept={"a": ABSENT})

    assert ("file_changed", states({"a": File(b"mine")})) == (refusal.value.code, read(work))


@pytest.mark.parametrize("exchange", [True, False])
def test_what_stands_as_it_was_kept_is_replaced(work: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is left beside it, where names can be exchanged and where they cannot."""
    if not exchange:
        monkeypatch.setattr(anchor, "_rename", without_exchange)
    build(work, {"a": File(b"old", 0o600)})
    workspace = FileWorkspace(work)
    workspace.write("a", b"new", kept=workspace.stand(["a"]))

    assert states({"a": File(b"new", 0o600)}) == read(work)


@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_person_removes_between_any_two_operations_is_not_brought_back(work: Path, tool: str) -> None:
    """A refusal leaves nothing there, and none of our own names beside it."""
    wrong, met = list[object](), 0
    for at in itertools.count(1):
        build(work, {"a": File(b"old", 0o644)})
        kept = FileWorkspace(work).stand(["a"])
        counter = Counter(at, lambda: (work / "a").unlink(missing_ok=True), looks=True)
        refused, done = False, False
        counter.install()
        try:
            TOOLS[tool](FileWorkspace(work), "a", kept)
            done = True
        except ClewError:
            refused = True
        finally:
            counter.remove()
        if counter.count < at:
            break
        met += refused
        contents = {place.name: place.read_bytes() for place in work.iterdir()}
        # What the tool had written by then went with the name.
        if contents or refused == done:
            wrong.append((at, contents))

    assert ([], True) == (wrong, met > 1)


@pytest.mark.parametrize(
    ("call", "tool"), [("fsync", "write"), ("fsync", "delete"), ("stat", "write"), ("stat", "delete")]
)
def test_what_the_machine_refuses_is_told_and_leaves_nothing_beside(work: Path, call: str, tool: str) -> None:
    """A write that may not be on the disk is no write; the tool's answer must not say that it was done."""
    build(work, {"a": File(b"old", 0o644)})

    with failing_call(call), pytest.raises(Storage) as refused:
        TOOLS[tool](FileWorkspace(work), "a", None)  # type: ignore[arg-type]  # nothing was kept

    assert {"durability_barrier_failed": "fsync", "run_state_failed": "stat"}[refused.value.code] == call
    assert {"a"} >= set(os.listdir(work))


def test_a_change_of_owner_that_clears_the_mode_does_not_keep_it_cleared(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel takes rights away when a file changes hands; the user's file had them."""
    build(work, {"a": File(b"old", 0o750)})

    def given(fd: int, owner: int, group: int) -> bool:
        os.fchmod(fd, 0o600)
        return True

    monkeypatch.setattr(anchor, "give_to", given)

    FileWorkspace(work).write("a", b"new")

    assert states({"a": File(b"new", 0o750)}) == read(work)
