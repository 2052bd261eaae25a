"""What a run's checkpoints changed in real files, and how that stands now."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import ClewError, NotFound, Refused, Storage, UsageError
from clew.runtime.comparing import Difference
from clew.testing.crash import CrashPoint
from tests.runtime.keeper import RUN, Keeper, standing
from tests.runtime.scene import agent_of
from tests.runtime.study import Study


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    (tmp_path / "a").write_bytes(b"one\n")
    return Keeper(tmp_path)


def only(keeper: Keeper, name: str = "k1") -> Difference:
    (found,) = keeper.home.diff(RUN, name)
    return found


def test_each_checkpoint_is_told_in_its_order(keeper: Keeper) -> None:
    """A person looks for the one to take back."""
    keeper.edit("a", b"two\n")
    keeper.edit("b", b"new\n")
    keeper.end()

    assert [("k1", ["a"]), ("k2", ["b"])] == [
        (each.checkpoint.checkpoint_id, [path.path for path in each.paths]) for each in keeper.home.diff(RUN)
    ]


def test_both_contents_can_be_read(keeper: Keeper) -> None:
    """#156: from the journal and the blobs alone, whatever stands in the folder now."""
    keeper.edit("a", b"two\n")
    keeper.end()
    (keeper.folder / "a").unlink()
    found = only(keeper)
    (path,) = found.paths

    assert (b"one\n", b"two\n") == tuple(found.content("a", state) for state in (path.before, path.compared))


def test_what_a_dead_call_left_is_read_where_it_stands(keeper: Keeper) -> None:
    """Nobody kept it; a content that has changed meanwhile is not taken for it."""
    keeper.edit("a", b"two\n", dies=True)
    keeper.end("dead")
    found = only(keeper)
    (path,) = found.paths
    before = found.content("a", path.compared)
    (keeper.folder / "a").write_bytes(b"six\n")

    assert ("unknown", b"two\n", None) == (path.standing, before, found.content("a", path.compared))


def test_why_a_content_is_not_to_be_had_is_said(keeper: Keeper) -> None:
    """Pruned on purpose, or damaged: only the second wants somebody to look at the disk."""
    keeper.edit("a", b"two\n")
    keeper.end()
    (keeper.folder / "a").unlink()
    (path,) = only(keeper).paths
    blobs = keeper.folder / ".clew" / "blobs"
    (blobs / (path.before.sha256 or "")[:2] / (path.before.sha256 or "")).write_bytes(b"rot")
    damaged = only(keeper).shown("a", path.before)
    keeper.home.prune(keep_days=0)
    pruned = only(keeper).shown("a", path.before)

    assert (True, True) == ("have the digest" in str(damaged), "was pruned on" in str(pruned))


@pytest.fixture
def dead(tmp_path: Path) -> Study:
    """A command of which nobody heard: it changed one file, made one, removed one; a person changed another since."""
    study = Study(tmp_path)
    for name in ("changed", "gone", "mine", "same"):
        study.file(name).write_text("old")

    def build() -> None:
        study.file("changed").write_text("new")
        study.file("made").write_text("new")
        study.file("gone").unlink()

    tool = clew.Tool(build, effect="process", paths=clew.WORKSPACE)
    agent = agent_of("plain", lambda run: (yield run.call(tool)), tool)
    with pytest.raises(Storage):
        study.run(agent, point=CrashPoint(2, 0))
    study.die()
    study.file("mine").write_text("mine")
    return study


def test_what_a_dead_command_changed_is_all_that_is_not_as_before(dead: Study) -> None:
    """Nobody recorded what was its work and what a person's: both are shown, and said to be unknown."""
    (found,) = dead.home().diff(RUN)

    assert ["changed", "gone", "made", "mine"] == [each.path for each in found.paths]
    assert [("unknown", None)] * 4 == [(each.standing, each.after) for each in found.paths]


def test_what_a_dead_command_changed_is_not_put_back_unseen(dead: Study) -> None:
    """A person's file is among it, and nobody could tell which."""
    before = standing(dead.folder)
    report = dead.home().restore(RUN, "k1", by="ann", reason="no")

    assert ({"unknown"}, before) == ({each["outcome"] for each in report["paths"]}, standing(dead.folder))


def test_a_dead_command_whose_list_is_gone_has_nothing_to_show(dead: Study) -> None:
    """Without the list of what was there before, there is nothing that could be compared, and nothing is put back."""
    (known,) = dead.checkpoints
    assert known.whole is not None
    del dead.blobs.kept[known.whole.sha256]
    (found,) = dead.home().diff(RUN)
    with pytest.raises(Refused) as refusal:
        dead.home().restore(RUN, "k1", by="ann", reason="no")

    assert ((), "checkpoint_not_reversible") == (found.paths, refusal.value.code)


def test_what_is_no_file_has_no_content(keeper: Keeper) -> None:
    """A link is what it says, a folder is what lies in it; what is gone cannot be read either."""

    def linked() -> None:
        (keeper.folder / "l").symlink_to("a")
        (keeper.folder / "a").unlink()

    keeper.call(["l", "a"], linked)
    keeper.end()
    found = only(keeper)
    lost = found.paths[0].before
    shutil.rmtree(keeper.folder / ".clew" / "blobs")

    assert [None, None] == [
        found.content(path.path, state)
        for path, state in zip(found.paths, (lost, found.paths[1].compared), strict=True)
    ]


def test_a_path_that_cannot_be_looked_at_is_told_and_the_others_too(keeper: Keeper) -> None:
    """A pipe in the place of a file stops nobody from seeing the rest."""
    keeper.call(["a", "b"], keeper.writing("a", "b", data=b"x"))
    keeper.end()
    (keeper.folder / "a").unlink()
    os.mkfifo(keeper.folder / "a")
    found = only(keeper).paths

    assert [("a", True, None), ("b", False, "as_left")] == [
        (path.path, bool(path.unseen), None if path.unseen else path.standing) for path in found
    ]


def test_a_look_changes_nothing(keeper: Keeper) -> None:
    """Promise 11: no byte and no time, in the folder or in the home."""
    keeper.edit("a", b"two\n")
    keeper.end()

    def times() -> Any:
        return {path: os.stat(path).st_mtime_ns for path in sorted(keeper.folder.rglob("*"))}

    before = standing(keeper.folder), times()
    list(keeper.home.diff(RUN))

    assert before == (standing(keeper.folder), times())


@pytest.mark.parametrize(
    ("name", "family", "code"),
    [("k9", NotFound, "checkpoint_not_found"), ("../k1", UsageError, "invalid_checkpoint_id")],
)
def test_a_checkpoint_that_is_not_there_is_an_error(
    keeper: Keeper, name: str, family: type[ClewError], code: str
) -> None:
    """#157: with the names of those that are; a name that is none is refused before anything is read."""
    keeper.edit("a", b"two\n")
    keeper.end()
    with pytest.raises(family) as error:
        list(keeper.home.diff(RUN, name))

    assert code == error.value.code


def test_a_run_without_checkpoints_has_none(tmp_path: Path) -> None:
    """It says so instead of listing nothing."""
    keeper = Keeper(tmp_path)
    keeper.begin()
    keeper.end("paused")

    with pytest.raises(NotFound, match="it has none"):
        list(keeper.home.diff(RUN, "k1"))
    assert [] == list(keeper.home.diff(RUN))


def test_a_run_with_many_checkpoints_names_the_first(keeper: Keeper) -> None:
    """An error is one line."""
    for number in range(22):
        keeper.edit("a", b"%d" % number)
    keeper.end()

    with pytest.raises(NotFound, match=r"k20 …$"):
        list(keeper.home.diff(RUN, "k99"))
