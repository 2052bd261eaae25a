"""How a path of a workspace stands, read through descriptors while others write."""

import errno
import itertools
import os
from pathlib import Path

import pytest

from clew.core.checkpoint import ABSENT, PathState
from clew.core.cover import NotCovered
from clew.disk import anchor
from clew.errors import Refused, Storage
from clew.stores import ground as ground_room
from clew.stores.blobs import FileBlobStore
from clew.stores.ground import Ground, counted
from clew.stores.workspace import FileWorkspace
from clew.testing import failing_call
from tests.stores.dying import Counter
from tests.stores.plots import Dir, File, Link, Tree, build, state_of, states


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


def test_everything_that_a_manifest_knows_is_read_as_it_is(work: Path) -> None:
    """Bytes, modes, links and names, whatever the platform allows; a path through a link is none."""
    tree: Tree = {
        "a": File(b"\xff\x00\r\n", 0o600), "\udcff": File(b"x"), "dir": Dir(0o750), "dir/in": File(b"", 0o444),
        "link": Link("dir"), "out": Link("/etc"), "u\udcfe": Link("\udcff"),
    }  # fmt: skip
    build(work, tree)

    found = FileWorkspace(work).stand([*tree, "none", "a/none", "link/in", "no/where"])

    assert found == states(tree) | dict.fromkeys(["none", "a/none", "link/in", "no/where"], ABSENT)


@pytest.mark.parametrize("paths", [["a"], ["a", "b", "link"]])
def test_what_is_kept_is_durable_and_the_same(work: Path, tmp_path: Path, paths: list[str]) -> None:
    """The pre-image stands before the tool begins."""
    build(work, {"a": File(b"a" * 9000), "b": File(b"b"), "link": Link("a")})

    found = FileWorkspace(work).stand(paths, keep=FileBlobStore(tmp_path))

    kept = {path: FileBlobStore(tmp_path).get(state.sha256) for path, state in found.items() if state.sha256}
    assert kept == {path: (work / path).read_bytes() for path in paths if path != "link"}


@pytest.mark.parametrize("path", ["../x", "/x", ".git/x", "a//b", "a/.", "", "home/x"])
def test_what_is_no_path_of_the_workspace_is_refused(work: Path, path: str) -> None:
    """Also the home by any other name."""
    build(work, {"home": Dir(0o755), "home/x": File(b"x")})

    with pytest.raises(Refused) as caught:
        FileWorkspace(work, home=work / "home").stand([path])

    assert caught.value.code == "outside_workspace"


def test_a_pipe_is_refused_and_makes_nobody_wait(work: Path) -> None:
    """Opening it would wait for a writer."""
    work.mkdir()
    os.mkfifo(work / "a")

    with pytest.raises(Refused) as caught:
        FileWorkspace(work).stand(["a"])

    assert caught.value.code == "not_a_file"


def test_a_file_that_changes_while_it_is_read_is_read_again(work: Path) -> None:
    """Half of one content and half of another was never there."""
    build(work, {"a": File(b"old" * 1000)})
    taken: list[int] = []

    def take(pieces):
        taken.append(1)
        if len(taken) == 1:
            (work / "a").write_bytes(b"new" * 2000)
        return counted(pieces)

    found = Ground(work, None).state("a", take)

    assert (found, len(taken)) == (state_of(File(b"new" * 2000)), 2)


def test_a_file_that_never_stands_still_is_refused(work: Path) -> None:
    """A checkpoint of it would be a lie, and looking for ever would be none."""
    build(work, {"a": File(b"x")})
    numbers = itertools.count(1)

    def take(pieces):
        (work / "a").write_bytes(b"y" * next(numbers))
        return counted(pieces)

    with pytest.raises(Storage) as caught:
        Ground(work, None).state("a", take)

    assert (caught.value.code, next(numbers)) == ("file_changing", ground_room._LOOKS + 1)


def test_a_file_that_grows_as_fast_as_it_is_read_is_left(work: Path) -> None:
    """Its end would never come."""
    build(work, {"a": File(b"x" * (1 << 20))})

    def take(pieces):
        for count, _ in enumerate(pieces):
            assert count < 40
            with (work / "a").open("ab") as file:
                file.write(b"x" * (1 << 20))
        raise AssertionError("it had an end")

    with pytest.raises(Storage, match="stand still"):
        Ground(work, None).state("a", take)


@pytest.mark.parametrize("path", ["dir/secret", "dir"])
def test_a_folder_that_is_exchanged_for_a_link_between_any_two_calls_shows_nothing_of_outside(
    work: Path, tmp_path: Path, path: str
) -> None:
    """What lies outside must not be kept as if it were the workspace's."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"outside")
    legal = {ABSENT, state_of(File(b"inside")), PathState("folder", mode=0o755), state_of(Link("../outside"))}
    wrong = []

    for point in itertools.count(1):
        build(work, {"dir": Dir(0o755), "dir/secret": File(b"inside")})
        struck: list[int] = []

        def strike(struck: list[int] = struck) -> None:
            struck.append(1)
            (work / "dir").rename(work / "moved")
            (work / "dir").symlink_to("../outside")

        counter = Counter(point, strike, looks=True)
        counter.install()
        try:
            found = FileWorkspace(work).stand([path])[path]
        finally:
            counter.remove()
        if not struck:
            break
        if found not in legal:
            wrong.append((point, found))

    assert (wrong, point > 1) == ([], True)


def test_what_a_call_declares_is_listed_with_what_it_may_make_and_where_links_lead(work: Path) -> None:
    """A restore can only put back what was recorded, so all that may change is."""
    build(work, {"a": File(b""), "dir": Dir(0o755), "in": Link("dir"), "link": Link("a"), "\udcff": File(b"")})

    found = FileWorkspace(work).declared(["in/new/deep.txt", "link", "\udcff", "./dir/../a", str(work / "dir")])

    assert found == ["a", "dir", "dir/new", "dir/new/deep.txt", "link", "\udcff"]


@pytest.mark.parametrize("path", ["out/x", "out", "../x", "", ".", ".git/config", "a\0b", "dir/..", "\ud800"])
def test_a_declared_path_that_leads_out_is_refused(work: Path, path: str) -> None:
    """What lies there is not ours to keep or to put back (#154)."""
    build(work, {"out": Link("../outside"), "dir": Dir(0o755)})

    with pytest.raises(Refused) as caught:
        FileWorkspace(work).declared(["fine", path])

    assert caught.value.code == "outside_workspace"


# What lies in a folder.


def test_all_that_lies_in_a_folder_is_found_and_nothing_through_a_link(work: Path) -> None:
    """Who names a folder means what is in it, wherever its links lead."""
    tree: Tree = {
        "d": Dir(0o755), "d/a": File(b"a"), "d/e": Dir(0o700), "d/e/\udcff": File(b"b"), "d/out": Link("../f"),
        "f": Dir(0o755), "f/in": File(b"c"), "d/.GIT": Dir(0o755), "d/.GIT/x": File(b"d"),
    }  # fmt: skip
    build(work, tree)
    os.mkfifo(work / "d" / "pipe")

    found, missing = FileWorkspace(work).inside(["d", "d/a", "d/out", "none"])

    assert (["d/a", "d/e", "d/e/\udcff", "d/out"], [("d/.GIT", "kept_out"), ("d/pipe", "no_file")]) == (
        found,
        [(each.path, each.why) for each in missing],
    )


def test_a_home_in_a_folder_is_kept_out(work: Path) -> None:
    """By whatever name it lies there."""
    build(work, {"d": Dir(0o755), "d/home": Dir(0o755), "d/home/runs": File(b"")})

    found, missing = FileWorkspace(work, home=work / "d" / "home").inside(["d"])

    assert ([], [("d/home", "kept_out")]) == (found, [(each.path, each.why) for each in missing])


# What the machine says between two looks.


@pytest.mark.parametrize(("call", "path"), [("readlink", "link"), ("open", "dir/a")])
def test_what_became_something_else_between_two_calls_is_looked_at_again(work: Path, call: str, path: str) -> None:
    """A link that is a file by now, a file that is gone: neither is an error of the machine."""
    tree: Tree = {"link": Link("a"), "dir": Dir(0o755), "dir/a": File(b"a")}
    build(work, tree)
    real, struck = getattr(os, call), list[str]()

    def meets(name: str, *how: object, **where: object) -> object:
        if name == path.rpartition("/")[2] and not struck:
            struck.append(name)
            raise OSError(errno.EINVAL, "no link") if call == "readlink" else FileNotFoundError(name)
        return real(name, *how, **where)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, call, meets)
        found = Ground(work, None).state(path, counted)

    assert (state_of(tree[path]), 1) == (found, len(struck))


def test_a_file_that_became_a_folder_between_two_calls_is_looked_at_again(work: Path) -> None:
    """What is open is then no file, and has no bytes to be kept."""
    build(work, {"a": File(b"a")})
    real = os.open

    def meets(name: str, *how: object, **where: object) -> int:
        if name == "a":
            (work / "a").unlink()
            (work / "a").mkdir(0o755)
        return real(name, *how, **where)  # type: ignore[arg-type]  # as it came

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "open", meets)
        found = Ground(work, None).state("a", counted)

    assert state_of(Dir(0o755)) == found


def test_a_file_that_gives_less_than_it_says_is_refused(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some files of a system say 4096 bytes and hold three; a checkpoint of them would be of another size."""
    build(work, {"a": File(b"abc")})
    monkeypatch.setattr(anchor, "pread", lambda fd, size, start: b"")

    with pytest.raises(Storage) as refused:
        Ground(work, None).state("a", counted)

    assert "file_changing" == refused.value.code


@pytest.mark.parametrize("call", ["stat", "listdir"])
def test_what_cannot_be_looked_at_is_told_by_its_path(work: Path, call: str) -> None:
    """Not being able to look is not having found nothing."""
    build(work, {"dir": Dir(0o755), "dir/a": File(b"")})
    ground = Ground(work, None)

    with failing_call(call), pytest.raises(Storage) as refused:
        ground.state("dir/a", counted) if call == "stat" else list(ground.inside("dir", {}))

    assert str(work / ("dir/a" if call == "stat" else "dir")) == refused.value.facts["path"]


def test_a_name_that_went_while_a_folder_was_listed_is_not_in_it(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs make and remove temp files all the time."""
    build(work, {"dir": Dir(0o755), "dir/a": File(b"")})
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda place: [*real(place), "gone"])
    missing: dict[str, NotCovered] = {}

    found = list(Ground(work, None).inside("dir", missing))

    assert (["dir/a"], {}) == (found, missing)
