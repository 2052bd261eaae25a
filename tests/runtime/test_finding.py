"""Where the home is found."""

from collections.abc import Callable
from pathlib import Path

import pytest

from clew.errors import NotFound
from clew.runtime.finding import absolute, find_home, require_home


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLEW_HOME", raising=False)


def test_the_nearest_home_upwards_is_meant(tmp_path: Path) -> None:
    """As with a repository: a command works from any folder of the project."""
    (tmp_path / ".clew").mkdir()
    (tmp_path / "a" / ".clew").mkdir(parents=True)
    (tmp_path / "a" / "b").mkdir()
    (tmp_path / "c").mkdir()

    assert [tmp_path / "a" / ".clew", tmp_path / ".clew"] == [
        find_home(tmp_path / "a" / "b"),
        find_home(tmp_path / "c"),
    ]


def test_a_named_home_wins_over_a_near_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service says where its home is, wherever it was started."""
    (tmp_path / ".clew").mkdir()
    monkeypatch.setenv("CLEW_HOME", "/srv/runs")

    assert Path("/srv/runs") == find_home(tmp_path)


def test_a_file_of_that_name_is_no_home(tmp_path: Path) -> None:
    """Only a folder can hold runs."""
    (tmp_path / ".clew").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".clew").touch()

    assert tmp_path / ".clew" == find_home(tmp_path / "a")


def test_a_folder_without_runs_is_no_home(tmp_path: Path) -> None:
    """A mistyped path must not read as "no such run"."""
    with pytest.raises(NotFound) as caught:
        require_home(tmp_path)

    assert ("no_home", 10, []) == (caught.value.code, caught.value.exit_code, list(tmp_path.iterdir()))


def test_a_home_inside_is_pointed_at(tmp_path: Path) -> None:
    """The usual mistake: the project's folder instead of the home in it."""
    (tmp_path / ".clew").mkdir()
    with pytest.raises(NotFound) as caught:
        require_home(tmp_path)

    assert str(tmp_path / ".clew") in caught.value.next


def test_a_home_with_runs_is_one(tmp_path: Path) -> None:
    """Nothing is asked of it."""
    (tmp_path / "runs").mkdir()

    require_home(tmp_path)

    assert ["runs"] == [path.name for path in tmp_path.iterdir()]


def test_a_home_with_nothing_but_sessions_is_one(tmp_path: Path) -> None:
    """Somebody talked before anything was run."""
    (tmp_path / "sessions").mkdir()

    require_home(tmp_path)


@pytest.mark.parametrize("deed", [find_home, lambda: absolute(".clew")])
def test_from_a_folder_that_was_removed_nothing_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: Callable[[], object]
) -> None:
    """A shell may stand in a folder that a tool has removed; that is no fault of ours, and no home of its own."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(NotFound) as caught:
        deed()
    monkeypatch.chdir(tmp_path)

    assert "no_home" == caught.value.code


def test_a_path_from_the_root_on_is_meant_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others begin where the program stood when it said them, wherever its tools go later."""
    monkeypatch.chdir(tmp_path)

    assert [tmp_path / ".clew", Path("/srv/runs")] == [absolute(".clew"), absolute("/srv/runs")]
