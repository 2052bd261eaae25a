"""Kind K6 of the reports: a restore destroys or misses something. One row a group, its id in front."""

import os
import random
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.stores.blobs import FileBlobStore
from clew.toolkit import delete_file, edit_file, move_file, read_file, write_file
from tests.cli.shell import Done, Shell
from tests.runtime.keeper import standing

RUN = "files-1"
TOOLS = (write_file, edit_file, delete_file, move_file, read_file)


@clew.tool(effect="workspace", paths=("path",))
def scribble(call: clew.Call, path: str, data: str) -> None:
    """Bytes of any kind, as hex digits."""
    Path(call.workspace.root, path).write_bytes(bytes.fromhex(data))


class Folder:
    """A folder in which an agent has changed files, and a person who types."""

    def __init__(self, shell: Shell, typed: Callable[..., Done]) -> None:
        self.path = shell.folder
        self.shell = shell
        self.type = typed
        self.home = clew.Home(self.path / ".clew", takeover="proven")

    def file(self, name: str, data: bytes, mode: int = 0o644) -> Path:
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(mode)
        return place

    def agent(self, *calls: tuple[Any, dict[str, Any]]) -> clew.RunResult:
        """A run that does these, one after the other."""

        def work(run: clew.SyncRun, prompt: Any) -> None:
            for tool, arguments in calls:
                run.call(tool, **arguments)

        agent = clew.Agent(work, name="editor", tools=[*TOOLS, scribble])
        return self.home.run_sync(agent, "go", run_id=RUN, signals=False)

    def restore(self, *words: str) -> Done:
        return self.type("restore", RUN, *(words or ("k1",)), "--by", "ann")


@pytest.fixture
def folder(shell: Shell, typed: Callable[..., Done]) -> Folder:
    return Folder(shell, typed)


def written(path: str, content: str) -> tuple[Any, dict[str, Any]]:
    return write_file, {"path": path, "content": content}


def scribbled(path: str, data: bytes) -> tuple[Any, dict[str, Any]]:
    return scribble, {"path": path, "data": data.hex()}


# C53: an old ignore file comes back, and what it does not name is deleted.


def test_nothing_is_cleaned_when_an_ignore_file_comes_back(folder: Folder) -> None:
    """C53: files that only the new ignore file named are the user's as well."""
    folder.file(".gitignore", b"*.o\n")
    folder.file("keep.log", b"mine")
    folder.agent(written(".gitignore", "*.o\n*.log\n"))
    folder.file("later.log", b"mine too")
    done = folder.restore()

    assert (0, b"*.o\n") == (done.code, (folder.path / ".gitignore").read_bytes())
    assert [b"mine", b"mine too"] == [(folder.path / name).read_bytes() for name in ("keep.log", "later.log")]


# C54: files that the agent only read are deleted.


def test_a_file_that_was_only_read_stays(folder: Folder) -> None:
    """C54: nobody's output is untracked rubbish."""
    out = folder.file("out.bin", b"a day of work")
    folder.agent((read_file, {"path": "out.bin"}), written("notes", "new"))
    before = os.stat(out)
    folder.restore()

    assert (b"a day of work", before.st_mtime_ns, False) == (
        out.read_bytes(),
        os.stat(out).st_mtime_ns,
        (folder.path / "notes").exists(),
    )


# C55: a restore moves the branch.


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
def test_a_restore_touches_no_repository(folder: Folder) -> None:
    """C55: a commit that was made later is where it was, to the byte."""
    git(folder, "init", "-q")
    folder.file("a", b"old\n")
    folder.agent(written("a", "new\n"))
    git(folder, "add", "a")
    git(folder, "-c", "user.name=ann", "-c", "user.email=a@b", "commit", "-qm", "later")
    before = {path: path.read_bytes() for path in sorted((folder.path / ".git").rglob("*")) if path.is_file()}
    done = folder.restore()
    after = {path: path.read_bytes() for path in sorted((folder.path / ".git").rglob("*")) if path.is_file()}

    assert (0, b"old\n", before) == (done.code, (folder.path / "a").read_bytes(), after)


def git(folder: Folder, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder.path, check=True, capture_output=True, timeout=60)


@pytest.mark.skipif(os.name == "nt", reason="a script that the shell runs")
def test_git_is_never_run(folder: Folder) -> None:
    """C55: not for a look, not for a merge, not for anything; one that lies in the way would have left its mark."""
    folder.file("a", b"one\ntwo\nthree\nfour\n")
    folder.agent(written("a", "one\n2\nthree\nfour\n"))
    folder.file("a", b"one\n2\nthree\n4\n")
    fake = folder.file("bin/git", f"#!/bin/sh\ntouch {folder.path}/ran\n".encode(), 0o755)
    path = f"{fake.parent}{os.pathsep}{folder.shell.env['PATH']}"
    shown = folder.shell("diff", RUN, PATH=path)
    done = folder.shell("restore", RUN, "k1", "--merge", "--by", "ann", PATH=path)

    assert (0, 0, b"one\ntwo\nthree\n4\n", False) == (
        shown.code,
        done.code,
        (folder.path / "a").read_bytes(),
        (folder.path / "ran").exists(),
    )


# C56: the user's own edits are undone as well.


def test_what_the_user_edited_since_stays_and_is_named(folder: Folder) -> None:
    """C56: one file is left alone, the other goes back."""
    folder.file("a", b"old")
    folder.file("b", b"old")
    folder.agent((move_file, {"path": "a", "to": "c"}), written("b", "new"))
    folder.file("b", b"mine")
    moved, kept = folder.restore("k1"), folder.restore("k2")

    assert (0, 4, "conflict  b  (somebody changed it since)\n") == (moved.code, kept.code, kept.out)
    assert (b"old", False, b"mine") == (
        (folder.path / "a").read_bytes(),
        (folder.path / "c").exists(),
        (folder.path / "b").read_bytes(),
    )


# C57: a file that was deleted comes back, or one that was made stays.


def test_absence_is_put_back_like_anything_else(folder: Folder) -> None:
    """C57: what the call made goes, what the user deleted before stays deleted, what the user changed stays."""
    folder.file("gone", b"deleted by the user").unlink()
    folder.agent(written("made", "new"), written("mine", "new"), written("gone", "again"))
    folder.file("mine", b"changed")
    outs = [folder.restore(name).out for name in ("k1", "k2", "k3")]

    assert ["restored  made\n", "conflict  mine  (somebody changed it since)\n", "restored  gone\n"] == outs
    assert (False, b"changed", False) == (
        (folder.path / "made").exists(),
        (folder.path / "mine").read_bytes(),
        (folder.path / "gone").exists(),
    )


# C59, C60, C63: bytes in, bytes out.


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(random.Random(59).randbytes(4096), id="C59-random"),
        pytest.param("甲乙丙\n".encode("gb18030"), id="C60-gb18030"),
        pytest.param("wide\r\n".encode("utf-16"), id="C60-utf-16"),
        pytest.param(b"\xef\xbb\xbfmarked\n", id="C60-bom"),
        pytest.param(b"one\r\ntwo\nthree\r\n", id="C63-mixed-line-ends"),
        pytest.param(b"", id="empty"),
    ],
)
def test_bytes_come_back_as_they_were(folder: Folder, data: bytes) -> None:
    """C59, C60, C63: nothing is decoded on the way, in either direction."""
    folder.file("a", data)
    folder.agent(scribbled("a", b"\xff" + data[::-1] + b"\0"))
    done = folder.restore()

    assert (0, data) == (done.code, (folder.path / "a").read_bytes())


def test_line_ends_survive_an_edit_and_its_undoing(folder: Folder) -> None:
    """C63: the edit changed one word, the restore changes it back."""
    folder.file("a", b"one\r\ntwo\r\n")
    folder.agent((edit_file, {"path": "a", "old": "two", "new": "2"}))
    edited = (folder.path / "a").read_bytes()
    folder.restore()

    assert (b"one\r\n2\r\n", b"one\r\ntwo\r\n") == (edited, (folder.path / "a").read_bytes())


# C61: links and names.


def test_a_link_comes_back_as_a_link(folder: Folder) -> None:
    """C61: not as a copy of what it leads to, and what it leads to is not written through it."""
    folder.file("real", b"real")
    (folder.path / "link").symlink_to("real")
    folder.agent((delete_file, {"path": "link"}))
    gone = not os.path.lexists(folder.path / "link")
    folder.restore()

    assert (True, "real", b"real") == (
        gone,
        os.readlink(folder.path / "link"),
        (folder.path / "real").read_bytes(),
    )


def test_a_link_out_of_the_workspace_is_refused(folder: Folder, tmp_path_factory: pytest.TempPathFactory) -> None:
    """C61: the call does not start, and nothing outside is read or written."""
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_bytes(b"secret")
    (folder.path / "link").symlink_to(outside)
    result = folder.agent(written("link", "new"))

    assert (b"secret", []) == (outside.read_bytes(), result.snapshot["checkpoints"])


def test_a_folder_that_became_a_link_out_is_not_followed(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """C61: between the call and the restore somebody put a link there; what lies behind it stays."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a").write_bytes(b"new")
    folder.file("d/a", b"old")
    folder.agent(written("d/a", "new"))
    shutil.rmtree(folder.path / "d")
    (folder.path / "d").symlink_to(outside)
    done = folder.restore()

    assert (4, b"new") == (done.code, (outside / "a").read_bytes())


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_name_that_is_not_utf_8_comes_back(folder: Folder) -> None:
    """C61: a name is bytes."""
    name = os.fsdecode(b"\xff\xfe name")
    folder.file(name, b"old")
    folder.agent(scribbled(name, b"new"))
    done = folder.restore()

    assert (0, b"old") == (done.code, (folder.path / name).read_bytes())


# C62: modes.


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o400])
def test_the_mode_comes_back(folder: Folder, mode: int) -> None:
    """C62: as it was, whatever the call made of it."""
    place = folder.file("a", b"old", mode)

    @clew.tool(effect="workspace", paths=("path",))
    def loosen(call: clew.Call, path: str) -> None:
        Path(call.workspace.root, path).chmod(0o666)

    agent = clew.Agent(lambda run, prompt: run.call(loosen, path="a"), name="editor", tools=[loosen])
    folder.home.run_sync(agent, "go", run_id=RUN, signals=False)
    done = folder.restore()

    assert (0, b"old", mode) == (done.code, place.read_bytes(), stat.S_IMODE(place.stat().st_mode))


class Watched(FileBlobStore):
    """Blobs that look, while a content is read, at what lies in a folder: kept as the widest mode of each name."""

    def __init__(self, root: Path, folder: Path) -> None:
        super().__init__(root)
        self.folder = folder
        self.modes: dict[str, int] = {}

    def pieces(self, sha256: str) -> Iterator[bytes]:
        for piece in super().pieces(sha256):
            self._look()
            yield piece
            self._look()

    def _look(self) -> None:
        for place in self.folder.iterdir():
            seen = stat.S_IMODE(place.stat().st_mode)
            self.modes[place.name] = self.modes.get(place.name, 0) | seen


@pytest.mark.skipif(os.name == "nt", reason="modes are another thing there")
def test_a_secret_file_is_at_no_moment_readable(folder: Folder) -> None:
    """C62: the file that the content is written into has the mode before its first byte, whatever the umask."""
    place = folder.file("keys/secret", os.urandom(3 << 20), 0o600)
    folder.agent(scribbled("keys/secret", b"x"))
    blobs = Watched(folder.path / ".clew", place.parent)
    before = os.umask(0)
    try:
        clew.Home(folder.path / ".clew", blobs=blobs).restore(RUN, "k1", by="ann")
    finally:
        os.umask(before)

    assert len(blobs.modes) > 1
    assert {0o600} == set(blobs.modes.values())


# C64: no checkpoint, no tool.


def test_a_checkpoint_needs_no_git(folder: Folder) -> None:
    """C64: no identity, no repository, no git at all."""
    folder.file("a", b"old")
    folder.agent(written("a", "new"))
    done = folder.shell("restore", RUN, "k1", "--by", "ann", PATH="/nowhere", HOME="/nowhere")

    assert (0, b"old") == (done.code, (folder.path / "a").read_bytes())


def test_where_nothing_can_be_kept_nothing_is_changed(folder: Folder) -> None:
    """C64: the run waits, and the file is as it was."""
    folder.file("a", b"old")
    folder.file(".clew/blobs", b"in the way")
    result = folder.agent(written("a", "new"))

    assert ("paused", "checkpoint_failed", b"old") == (
        result.operation.state,
        result.reason,
        (folder.path / "a").read_bytes(),
    )


def test_an_empty_checkpoint_is_an_error(folder: Folder) -> None:
    """C64: a call that names no path does not start; nothing is silently kept of nothing."""
    started: list[str] = []

    @clew.tool(effect="workspace", paths=("path",))
    def touch(path: str | None = None) -> None:
        started.append("it ran")

    agent = clew.Agent(lambda run, prompt: run.call(touch), name="editor", tools=[touch])
    result = folder.home.run_sync(agent, "go", run_id=RUN, signals=False)

    assert ([], [], True) == (started, result.snapshot["checkpoints"], "names no path" in str(result.fault))


# C65: times.


def test_what_did_not_change_is_not_written(folder: Folder) -> None:
    """C65: three files, one was changed; the two others keep their times and their very files."""
    names = ("a", "b", "c")
    places = [folder.file(name, b"old") for name in names]

    @clew.tool(effect="workspace", paths=("paths",))
    def rewrite(call: clew.Call, paths: list[str]) -> None:
        Path(call.workspace.root, paths[0]).write_bytes(b"new")

    agent = clew.Agent(lambda run, prompt: run.call(rewrite, paths=[*names]), name="editor", tools=[rewrite])
    folder.home.run_sync(agent, "go", run_id=RUN, signals=False)
    before = [(told.st_mtime_ns, told.st_ino, told.st_ctime_ns) for told in map(os.stat, places[1:])]
    done = folder.restore()
    after = [(told.st_mtime_ns, told.st_ino, told.st_ctime_ns) for told in map(os.stat, places[1:])]

    assert (
        "restored   a\nunchanged  b  (it stands as it did before)\nunchanged  c  (it stands as it did before)\n",
        before,
    ) == (
        done.out,
        after,
    )


# What the reference does wrong.


def test_a_content_is_kept_once_and_not_in_the_journal(folder: Folder) -> None:
    """W27: shared between checkpoints, as bytes, however often it comes and goes."""
    data = random.Random(27).randbytes(50_000)
    folder.file("a", data)
    folder.agent(*(scribbled("a", each) for each in (b"x", data[:9], b"x", data[:9], b"x")))
    blobs = [path for path in (folder.path / ".clew" / "blobs").rglob("*") if path.is_file()]

    assert (3, True) == (len(blobs), (folder.path / ".clew" / "runs" / f"{RUN}.jsonl").stat().st_size < 50_000)


def test_what_is_kept_can_be_compared_and_put_back(folder: Folder) -> None:
    """W29: six megabytes before and six behind; each side counts by itself, and binary is a word."""
    old, new = (random.Random(seed).randbytes(6 << 20) for seed in (1, 2))
    folder.file("big", old)
    folder.agent(scribbled("big", new))
    shown, done = folder.type("diff", RUN, "k1"), folder.restore()

    assert (0, True, 0, old) == (
        shown.code,
        "too large to compare line by line, 6291456 → 6291456 bytes" in shown.out,
        done.code,
        (folder.path / "big").read_bytes(),
    )


def test_a_workspace_that_was_moved_is_put_back_where_it_is(folder: Folder, tmp_path_factory: Any) -> None:
    """W30: paths are relative, in the journal and on the screen."""
    folder.file("d/a", b"old")
    folder.agent(written("d/a", "new"))
    there = tmp_path_factory.mktemp("moved") / "there"
    folder.path.rename(there)
    folder.path.mkdir()
    told = (there / ".clew" / "runs" / f"{RUN}.jsonl").read_text()
    report = clew.Home(there / ".clew").restore(RUN, "k1", by="ann")

    assert ([{"path": "d/a", "outcome": "restored"}], b"old", False) == (
        [each for each in report["paths"] if each["path"] == "d/a"],
        (there / "d" / "a").read_bytes(),
        '"path":"/' in told,
    )


def test_only_the_paths_of_the_checkpoint_move(folder: Folder) -> None:
    """C53, C54, over the whole folder: every other byte, mode and link is as it was."""
    folder.file("d/deep/x", b"x", 0o600)
    (folder.path / "l").symlink_to("nowhere")
    folder.file("a", b"old")
    before = standing(folder.path)
    folder.agent(written("a", "new"), written("n/e/w", "new"))
    folder.restore("k2")
    folder.restore("k1")

    assert before == standing(folder.path)
