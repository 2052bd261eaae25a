"""The one folder whose files tools may touch: real files, real links, a real kill."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.disk import files
from clew.errors import NotFound, Refused, Storage
from clew.stores.workspace import FileWorkspace


@pytest.fixture
def town(tmp_path: Path) -> Path:
    """A workspace among things that are nobody's business; returns the folder above it."""
    return built(tmp_path)


def built(town: Path) -> Path:
    for folder in ("work/sub/deep", "work/.git", "work/.clew", "work/my-home", "outside"):
        (town / folder).mkdir(parents=True)
    for name in ("work/file.txt", "work/sub/in.txt", "work/.git/config", "work/my-home/runs", "outside/secret.txt"):
        (town / name).write_text(name)
    links = {
        "out": "../outside", "out.txt": "../outside/secret.txt", "gone": "../outside/nothing", "up": "..", "root": "/",
        "in": "sub", "in.txt": "sub/in.txt", "new.txt": "sub/new.txt", "loop": "loop", "git": ".git",
    }  # fmt: skip
    for name, target in links.items():
        (town / "work" / name).symlink_to(target)
    return town


def workspace_in(town: Path) -> FileWorkspace:
    return FileWorkspace(town / "work", home=town / "work" / "my-home")


def content_outside(town: Path) -> dict[str, str]:
    """Everything that is not the workspace's, links not followed."""
    kept = ("outside", "work/.git", "work/.clew", "work/my-home")
    found = [path for name in kept for path in (town / name).rglob("*")]
    return {str(path.relative_to(town)): path.read_text() for path in found} | {"": " ".join(sorted(os.listdir(town)))}


REFUSED = (
    "", ".", "..", "../outside/x", "sub/../../outside/x", "/etc/hostname", "out/x", "out", "out.txt", "gone", "up/x",
    "root/tmp/x", "loop", "loop/x", ".git/config", "git/config", ".GIT/config", "sub/.git/hooks/x", ".clew/runs/x",
    "my-home/runs", "sub", "a\0b", "a\ud800", "a\udc80", "x" * 300, "file.txt/x", "sub/in.txt/a/b",
)  # fmt: skip


@pytest.mark.parametrize("path", REFUSED, ids=ascii)
def test_a_path_that_is_not_of_the_workspace_is_refused_before_anything_is_touched(town: Path, path: str) -> None:
    """The agent's text must not reach a file that nobody meant it to reach, by whatever road."""
    before = content_outside(town), sorted(os.listdir(town / "work"))

    with pytest.raises(Refused):
        workspace_in(town).write(path, b"new")

    assert (content_outside(town), sorted(os.listdir(town / "work"))) == before


@pytest.mark.parametrize("path", ["../outside/secret.txt", "out/secret.txt", "out.txt", ".git/config", "my-home/runs"])
def test_what_may_not_be_written_may_not_be_read_either(town: Path, path: str) -> None:
    """A secret that is read ends in a prompt and in the journal."""
    with pytest.raises(Refused) as told:
        workspace_in(town).read(path, 100)

    assert told.value.code == "outside_workspace"


INSIDE = [
    ("file.txt", "file.txt"), ("./file.txt", "file.txt"), ("sub/../file.txt", "file.txt"), ("in/x", "sub/x"),
    ("in.txt", "sub/in.txt"), ("new.txt", "sub/new.txt"), ("a/b/c", "a/b/c"), (".gitignore", ".gitignore"),
    ("a\nb", "a\nb"), ("…", "…"), ("x" * 255, "x" * 255),
]  # fmt: skip


@pytest.mark.parametrize(("path", "real"), INSIDE)
def test_what_stays_inside_is_written_where_it_really_leads(town: Path, path: str, real: str) -> None:
    """A link within the workspace is the user's own arrangement, and stays one."""
    links = sorted(found.name for found in (town / "work").iterdir() if found.is_symlink())

    written = workspace_in(town).write(path, b"new")

    assert (written, (town / "work" / real).read_bytes()) == (real, b"new")
    assert sorted(found.name for found in (town / "work").iterdir() if found.is_symlink()) == links


def test_an_absolute_path_inside_is_one_of_the_workspace(town: Path) -> None:
    """Models like to say paths whole."""
    assert workspace_in(town).write(str(town / "work" / "x"), b"") == "x"


def test_a_workspace_that_is_a_link_is_the_folder_it_leads_to(town: Path) -> None:
    """The user chose it; what lies below is judged from there."""
    (town / "link").symlink_to("work")
    workspace = FileWorkspace(town / "link")

    written = workspace.write("x", b"")

    assert (written, workspace.resolve("x")) == ("x", str(town.resolve() / "work" / "x"))


PIECES = st.sampled_from(["..", ".", "", "out", "up", "root", "in", "loop", "git", "sub", "file.txt", ".git", "x"])
PATHS = st.lists(PIECES | st.text(max_size=4), max_size=6).map("/".join) | st.text(max_size=12)


@given(path=PATHS)
def test_any_text_stays_inside_or_is_refused(path: str) -> None:
    """There is no third way, whatever a model makes up."""
    with tempfile.TemporaryDirectory() as folder:
        town = built(Path(folder))
        before, workspace = content_outside(town), workspace_in(town)
        try:
            written = workspace.write(path, b"new")
        except Refused:
            written = ""

        assert content_outside(town) == before
        assert not written or (town / "work" / written).read_bytes() == b"new"
        assert not written or not (town / "work" / written).is_symlink()


def test_a_pipe_is_not_read(town: Path) -> None:
    """It would be waited for until the end of the run."""
    os.mkfifo(town / "work" / "pipe")

    with pytest.raises(Refused) as told:
        workspace_in(town).read("pipe", 10)

    assert told.value.code == "not_a_file"


def test_a_read_only_file_is_left_alone(town: Path) -> None:
    """A rename would replace it all the same, and whoever set it so meant otherwise."""
    (town / "work" / "file.txt").chmod(0o444)

    with pytest.raises(Refused) as told:
        workspace_in(town).write("file.txt", b"new")

    assert (told.value.code, (town / "work" / "file.txt").read_text()) == ("file_read_only", "work/file.txt")


def test_a_missing_file_is_not_found(town: Path) -> None:
    """Nothing is not an empty file."""
    for path in ("nothing", "file.txt/x", "new.txt"):
        with pytest.raises(NotFound) as told:
            workspace_in(town).read(path, 10)

        assert told.value.code == "file_missing"


def test_a_read_says_how_long_the_whole_is(town: Path) -> None:
    """Whoever gets a part must be able to know it."""
    found = workspace_in(town).read("file.txt", 4)

    assert (found.data, found.size_bytes) == (b"work", 13)


KILLED = """
import os, signal, sys
from pathlib import Path
from clew.stores.workspace import FileWorkspace
os.replace = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
FileWorkspace(Path(sys.argv[1])).write("sub/in.txt", b"new" * 1000)
"""


def test_a_kill_before_the_rename_leaves_the_old_content(town: Path) -> None:
    """Never half of either; and what lies beside it is not shown as a file of the user's."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(town / "work")], check=False)

    listed = workspace_in(town).listing("sub/*", 10).paths
    left = [name for name in os.listdir(town / "work" / "sub") if files.is_temp(name)]

    assert done.returncode == -signal.SIGKILL
    assert ((town / "work/sub/in.txt").read_text(), listed, len(left)) == ("work/sub/in.txt", ("sub/in.txt",), 1)


def test_a_listing_has_an_order_and_no_folders_nor_what_is_kept_from_tools(town: Path) -> None:
    """The same tree gives the same list on every machine, or a replayed prompt would differ."""
    (town / "work" / "sub.txt").touch()

    found = workspace_in(town).listing("**/*", 100)

    assert found.paths == ("file.txt", "in.txt", "sub/in.txt", "sub.txt")
    assert (found.more, found.unread) == (False, ())


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("*", ("a.py", "b.txt")),
        ("*.py", ("a.py",)),
        ("**/*.py", ("a.py", "x/a.py", "x/y/a.py")),
        ("**", ("a.py", "b.txt", "x/a.py", "x/y/a.py", "x/y/z.txt")),
        ("x/**", ("x/a.py", "x/y/a.py", "x/y/z.txt")),
        ("x/*", ("x/a.py",)),
        ("**/y/**/*.txt", ("x/y/z.txt",)),
        ("./x//[a-b].p?", ("x/a.py",)),
        ("b.txt/*", ()),
        ("A.PY", ()),
    ],
)
def test_a_pattern_matches_name_by_name(tmp_path: Path, pattern: str, paths: tuple[str, ...]) -> None:
    """A star that ran over folders would list what was not asked for."""
    workspace = FileWorkspace(tmp_path)
    for path in ("x/y/z.txt", "x/y/a.py", "x/a.py", "b.txt", "a.py"):
        workspace.write(path, b"")

    found = workspace.listing(pattern, 100)

    assert found.paths == paths


@pytest.mark.parametrize("pattern", ["", ".", "/etc/*", "../*", "sub/../../*"])
def test_a_pattern_does_not_leave_the_workspace(town: Path, pattern: str) -> None:
    """A listing shows what may be read, nothing else."""
    with pytest.raises(Refused) as told:
        workspace_in(town).listing(pattern, 10)

    assert told.value.code == "invalid_pattern"


def test_a_cut_listing_says_so_and_a_full_one_does_not(town: Path) -> None:
    """Exactly as many as there are is all of them."""
    workspace = workspace_in(town)

    found = [(len(listing.paths), listing.more) for listing in map(workspace.listing, ["**"] * 3, [2, 3, 4])]

    assert found == [(2, True), (3, False), (3, False)]


def test_a_name_that_json_cannot_hold_is_said_not_skipped(town: Path) -> None:
    """A file that is silently missing from a list is a false list."""
    Path(os.fsdecode(os.fsencode(town / "work") + b"/bad-\xff")).touch()

    found = workspace_in(town).listing("*", 10)

    assert found.unread == (r"'bad-\udcff'",)


def test_a_workspace_that_is_not_there_is_not_an_empty_one(tmp_path: Path) -> None:
    """A mistyped folder would else look like a finished job."""
    found = FileWorkspace(tmp_path / "nothing").listing("*", 10)

    assert found.unread == (".",)


def test_a_search_reads_the_files_that_it_is_given(town: Path) -> None:
    """By the names that were asked for, wherever their links lead inside."""
    found = workspace_in(town).search("txt", ["in.txt", "file.txt"], limit=9)

    assert (["in.txt", "file.txt"], 2, False, ()) == (
        [match["path"] for match in found.matches], found.searched, found.more, found.skipped,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "path", "code"),
    [
        ("(", "file.txt", "invalid_pattern"),
        ("x", "out.txt", "outside_workspace"),
        ("x", ".git/config", "outside_workspace"),
    ],
)
def test_a_search_that_may_not_be_is_refused(town: Path, pattern: str, path: str, code: str) -> None:
    """A link that leads out is judged before anything is read."""
    with pytest.raises(Refused) as caught:
        workspace_in(town).search(pattern, [path], limit=1)

    assert code == caught.value.code


def test_a_search_that_takes_too_long_is_refused(town: Path) -> None:
    """Nothing else ends a pattern that backtracks."""
    (town / "work/file.txt").write_text("a" * 64 + "b")

    with pytest.raises(Refused) as caught:
        workspace_in(town).search("(a|a)*$", ["file.txt"], limit=1, timeout_s=0.5)
    assert "search_too_slow" == caught.value.code


def test_a_search_that_failed_found_nothing_out(town: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an interpreter to search in, "not found" would be an invention."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)

    with pytest.raises(Storage) as caught:
        workspace_in(town).search("x", ["file.txt"], limit=1)
    assert "search_failed" == caught.value.code


def test_a_workspace_says_which_folder_it_is(town: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that changes its own folder later still means the same place."""
    monkeypatch.chdir(town)

    assert str(town / "work") == FileWorkspace(Path("work")).root
