"""Kind K6, where the disk is meant: what is put back is what was there, and nothing else is touched."""

import os
import subprocess
from pathlib import Path

import pytest

from clew.core.checkpoint import ABSENT, PathState
from clew.errors import ClewError
from clew.stores.base import PutBack, PutBackEnd
from clew.stores.blobs import FileBlobStore
from clew.stores.workspace import FileWorkspace

MARK = "abcdefgh234567ab"


class Deed:
    """A workspace in which one call may change some paths, with its checkpoint before and after."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root.parent / "home"
        self.home.mkdir()
        self.workspace, self.blobs = FileWorkspace(root, home=self.home), FileBlobStore(self.home)
        self.before: dict[str, PathState] = {}
        self.after: dict[str, PathState] = {}

    def begins(self, *paths: str) -> None:
        self.before = self.workspace.stand(self.workspace.declared(paths), keep=self.blobs)

    def ends(self) -> None:
        self.after = self.workspace.stand(self.before, keep=self.blobs)

    def is_put_back(self) -> dict[str, PutBackEnd]:
        plan = [PutBack(path, self.after[path], state) for path, state in self.before.items()]
        return {end.path: end for end in self.workspace.put_back(plan, self.blobs, mark=MARK)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def deed(root: Path) -> Deed:
    return Deed(root)


def test_putting_back_an_ignore_file_deletes_nothing_that_was_ignored(deed: Deed, root: Path) -> None:
    """C53: the old rules would call it untracked, and nothing is 'cleaned' by any rules."""
    (root / ".gitignore").write_text("*.csv\n")
    deed.begins(".gitignore")
    (root / ".gitignore").write_text("*.csv\n*.bin\n")
    (root / "mine.bin").write_bytes(b"an hour of work")
    deed.ends()

    deed.is_put_back()

    assert ((root / ".gitignore").read_text(), (root / "mine.bin").read_bytes()) == ("*.csv\n", b"an hour of work")


def test_a_file_that_was_only_read_survives(deed: Deed, root: Path) -> None:
    """C54: over a gigabyte of output was deleted because nobody had committed it."""
    (root / "out.bin").write_bytes(b"output")
    deed.begins("new.txt")
    (root / "new.txt").write_bytes((root / "out.bin").read_bytes())
    deed.ends()

    deed.is_put_back()

    assert sorted(os.listdir(root)) == ["out.bin"]


def test_git_is_neither_run_nor_changed(deed: Deed, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C55: a commit made since stays on its branch."""
    (root / ".git").mkdir()
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in (root / ".git").iterdir()]
    monkeypatch.setattr(subprocess, "Popen", None)
    deed.begins("a")
    (root / "a").write_text("x")
    deed.ends()

    deed.is_put_back()

    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in (root / ".git").iterdir()] == before


def test_what_the_user_edited_since_is_a_conflict_and_the_others_are_put_back(deed: Deed, root: Path) -> None:
    """C56: their edit is newer than the tool's, whatever the restore wants."""
    (root / "a").write_text("old a")
    (root / "b").write_text("old b")
    deed.begins("a", "b")
    (root / "a").write_text("tool a")
    (root / "b").write_text("tool b")
    deed.ends()
    (root / "a").write_text("tool a, and mine")

    ends = deed.is_put_back()

    assert ((root / "a").read_text(), (root / "b").read_text(), ends["a"].outcome, ends["b"].outcome) == (
        "tool a, and mine",
        "old b",
        "conflict",
        "restored",
    )


@pytest.mark.parametrize(("mine", "left"), [("", []), ("mine", ["made"])])
def test_what_a_tool_created_goes_unless_somebody_changed_it(deed: Deed, root: Path, mine: str, left: list) -> None:
    """C57: absence is a state too, and comes back only where nothing of anybody else is lost."""
    deed.begins("made")
    (root / "made").write_text("tool")
    deed.ends()
    if mine:
        (root / "made").write_text(mine)

    deed.is_put_back()

    assert os.listdir(root) == left


def test_what_a_tool_deleted_comes_back_and_what_was_gone_before_stays_gone(deed: Deed, root: Path) -> None:
    """C57: a file that was deleted before the checkpoint is not invented."""
    (root / "deleted").write_text("x")
    deed.begins("deleted", "gone")
    (root / "deleted").unlink()
    deed.ends()

    ends = deed.is_put_back()

    assert (os.listdir(root), ends["gone"].outcome) == (["deleted"], "unchanged")


BYTES = {
    "binary": os.urandom(4096), "gb18030": "你好，世界\r\n".encode("gb18030"), "utf-16": "text\n".encode("utf-16"),
    "bom": "\ufefftext".encode(), "crlf": b"one\r\ntwo\r\nthree", "cr": b"a\rb\r", "nul": b"\0" * 5000, "empty": b"",
}  # fmt: skip


@pytest.mark.parametrize("kind", BYTES)
def test_bytes_come_back_as_they_were(deed: Deed, root: Path, kind: str) -> None:
    """C59, C60, C63: nothing is decoded on the way, so nothing is replaced and no line end becomes another."""
    (root / "a").write_bytes(BYTES[kind])
    deed.begins("a")
    (root / "a").write_bytes(b"overwritten")
    deed.ends()

    deed.is_put_back()

    assert (root / "a").read_bytes() == BYTES[kind]


def test_links_come_back_as_links_and_names_of_any_bytes_work(deed: Deed, root: Path) -> None:
    """C61: a link that became a file is a link again, and b'\\xff' is a name."""
    (root / "real").write_text("real")
    (root / "link").symlink_to("real")
    (root / "\udcff").write_text("bytes")
    deed.begins("link", "\udcff")
    (root / "link").unlink()
    (root / "link").write_text("a file now")
    (root / "\udcff").unlink()
    deed.ends()

    deed.is_put_back()

    found = (os.readlink(root / "link"), (root / "real").read_text(), (root / "\udcff").read_text())
    assert found == ("real", "real", "bytes")


def test_a_target_outside_is_refused_before_the_tool(deed: Deed, root: Path, tmp_path: Path) -> None:
    """C61: what lies there is nobody's to put back."""
    (tmp_path / "outside").write_text("theirs")
    (root / "link").symlink_to("../outside")

    with pytest.raises(ClewError) as caught:
        deed.begins("link")

    assert caught.value.code == "outside_workspace"


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o444])
def test_a_mode_comes_back(deed: Deed, root: Path, mode: int) -> None:
    """C62: a secret stays a secret, a program can be run."""
    (root / "a").write_text("x")
    (root / "a").chmod(mode)
    deed.begins("a")
    (root / "a").unlink()
    (root / "a").write_text("y")
    deed.ends()

    deed.is_put_back()

    assert ((root / "a").stat().st_mode & 0o7777, (root / "a").read_text()) == (mode, "x")


def test_a_checkpoint_that_cannot_be_kept_is_an_error_and_not_an_empty_one(deed: Deed, root: Path) -> None:
    """C64: no checkpoint, no tool. It needs no git and no identity."""
    (root / "a").write_text("x")
    (deed.home / "blobs").write_text("something else")

    with pytest.raises(ClewError) as caught:
        deed.begins("a")

    assert caught.value.code == "run_state_failed"


def test_files_that_are_equal_keep_their_times(deed: Deed, root: Path) -> None:
    """C65: of three files one was changed; the builds of the other two do not run again."""
    for name in "abc":
        (root / name).write_text(name)
    deed.begins(*"abc")
    (root / "b").write_text("changed")
    deed.ends()
    before = [(root / name).stat().st_mtime_ns for name in "ac"]

    deed.is_put_back()

    found = [(root / name).stat().st_mtime_ns for name in "ac"]
    assert (found, (root / "b").read_text()) == (before, "b")


def test_nothing_absent_is_kept(deed: Deed) -> None:
    """C57: a path that is not there is recorded as absent, not left out."""
    deed.begins("none")

    assert deed.before == {"none": ABSENT}
