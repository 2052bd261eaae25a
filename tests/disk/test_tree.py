"""Where a path of a user's really leads, what stands there, and new folders on the way."""

import os
from pathlib import Path

import pytest

from clew.disk import tree
from clew.disk.tree import walk
from clew.errors import Storage


def test_every_link_on_the_way_is_followed(tmp_path: Path) -> None:
    """A path is judged by where it ends, and a link in its middle decides that."""
    (tmp_path / "real").mkdir()
    (tmp_path / "one").symlink_to("real")
    (tmp_path / "two").symlink_to(tmp_path / "one")

    found = tree.real(tmp_path / "two" / "new.txt")

    assert found == tmp_path.resolve() / "real" / "new.txt"


@pytest.mark.parametrize("name", ["a\0b", "loop/\0", "a\ud800 high", "a\udc80 low"])
def test_what_no_name_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    """Such a text never becomes a path by chance, not even where the system would not look at it any more."""
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(ValueError):  # noqa: PT011  # the system words it
        tree.real(tmp_path / name)


def test_kinds_are_of_the_thing_itself(tmp_path: Path) -> None:
    """A link is told apart from what it leads to, a pipe from a file: reading one would wait for ever."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    names = ["file", "folder", "link", "loop", "loop/x", "pipe", "nothing", "file/x"]

    found = [tree.kind_of(tmp_path / name) for name in names]

    assert found == ["file", "folder", "link", "link", "link", "other", None, None]


def test_a_name_that_the_machine_does_not_take_is_said(tmp_path: Path) -> None:
    """It is neither there nor can it be made."""
    with pytest.raises(Storage) as told:
        tree.kind_of(tmp_path / ("x" * 300))

    assert told.value.facts["errno"] == "ENAMETOOLONG"


def test_entries_come_by_the_code_points_of_their_names(tmp_path: Path) -> None:
    """A listing that is cut must be cut at the same place on every machine."""
    for name in ("b", "é", "B", "a.txt", "a"):
        (tmp_path / name).touch()

    found = [name for name, _ in tree.entries(tmp_path)]

    assert found == ["B", "a", "a.txt", "b", "é"]


def test_a_folder_that_cannot_be_listed_is_said(tmp_path: Path) -> None:
    """An unread folder is not an empty one."""
    with pytest.raises(Storage):
        tree.entries(tmp_path / "nothing")


def test_a_walk_meets_everything_and_follows_no_link(tmp_path: Path) -> None:
    """A link to a folder above would be walked for ever."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    (tmp_path / "a" / "up").symlink_to("..")

    found = [(str(entry.path.relative_to(tmp_path)), entry.kind) for entry in walk(tmp_path)]

    assert [("a", "folder"), ("a/b", "folder"), ("a/up", "link"), ("a/b/file", "file")] == found


def test_a_folder_that_cannot_be_looked_into_is_met_and_passed(tmp_path: Path) -> None:
    """What lies beside it is still seen; a file in a folder's place stands for one that is forbidden."""
    (tmp_path / "file").write_text("x")

    denied, *rest = walk(tmp_path / "file")

    assert (tmp_path / "file", "denied", []) == (denied.path, denied.kind, rest)


def test_a_folder_that_is_gone_is_not_met(tmp_path: Path) -> None:
    """Between listing and looking it may vanish."""
    assert [] == list(walk(tmp_path / "gone"))
