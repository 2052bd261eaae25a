"""The scratch workspace: what is copied of the user's own, and how it is made new."""

import os
from pathlib import Path

import pytest

from clew.certify import surroundings
from clew.certify.surroundings import copy, measured, renew
from clew.errors import UsageError


def planted(folder: Path) -> Path:
    source = folder / "source"
    for name in ("a.txt", "deep/b.txt", ".git/config", ".venv/lib/x.py", "deep/node_modules/y.js", "clew-certify-x/z"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name, "utf-8")
    (source / "link").symlink_to("a.txt")
    (source / "away").symlink_to("deep")
    return source


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_the_work_is_copied_and_what_belongs_to_tools_is_not(tmp_path: Path) -> None:
    """An agent needs its files; five hundred copies of an environment need a disk."""
    copy(planted(tmp_path), tmp_path / "target")

    assert {"a.txt", "deep", "deep/b.txt", "link", "away"} == names(tmp_path / "target")
    assert ("a.txt", "deep") == tuple(os.readlink(tmp_path / "target" / name) for name in ("link", "away"))


def test_only_what_is_copied_is_measured(tmp_path: Path) -> None:
    """A big `.git` is no reason to refuse."""
    count, size = measured(planted(tmp_path))

    assert (3, 5 + 10 + 5) == (count, size)


@pytest.mark.parametrize(("name", "bound"), [("MAX_FILES", 2), ("MAX_BYTES", 19)])
def test_a_workspace_beyond_the_bounds_is_refused(
    name: str, bound: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial that fills the disk is worse than none."""
    monkeypatch.setattr(surroundings, name, bound)

    with pytest.raises(UsageError) as error:
        measured(planted(tmp_path))

    assert "workspace_too_large" == error.value.code


def test_each_life_finds_it_as_it_was(tmp_path: Path) -> None:
    """What one life wrote must not be there in the next one; the folder stays, for processes stand in it."""
    work = tmp_path / "work"
    copy(planted(tmp_path), work)
    inode = work.stat().st_ino
    (work / "a.txt").write_text("changed", "utf-8")
    (work / ".clew" / "runs").mkdir(parents=True)

    renew(tmp_path / "source", work)

    assert ("a.txt", inode) == ((work / "a.txt").read_text("utf-8"), work.stat().st_ino)
    assert {"a.txt", "deep", "deep/b.txt", "link", "away"} == names(work)
