"""A look is an answer or a typed refusal, never a raw error of the system."""

import errno
import os
from pathlib import Path

import pytest

from clew.disk.look import leads_to_folder, let_go, look
from clew.errors import Storage
from clew.testing.faults import failing_call


def test_an_open_file_is_looked_at(tmp_path: Path) -> None:
    """Its length is what a reader reads to."""
    (tmp_path / "file").write_bytes(b"abc")
    with (tmp_path / "file").open("rb") as file:
        size = look(file.fileno(), tmp_path / "file").st_size

    assert 3 == size


def test_a_look_that_the_system_refuses_is_told_by_path(tmp_path: Path) -> None:
    """A device that fails may fail at any call, and whoever opens a run hears where."""
    with (tmp_path / "file").open("wb") as file, pytest.raises(Storage) as caught, failing_call("fstat"):
        look(file.fileno(), tmp_path / "file")

    assert ("run_state_failed", "EIO") == (caught.value.code, caught.value.facts["errno"])


def test_what_was_only_read_is_let_go_whatever_the_system_says() -> None:
    """A close that fails after reading changes nothing that anybody was told."""
    fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)

    assert let_go(fd) is None  # type: ignore[func-returns-value]  # that it returns is what is asserted


def test_where_a_path_leads(tmp_path: Path) -> None:
    """A home may be a link to a disk with more room."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    paths = [tmp_path, tmp_path / "link", tmp_path / "file", tmp_path / "none", tmp_path / "file" / "below"]

    assert [True, True, False, False, False] == [leads_to_folder(path) for path in paths]


def test_a_path_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    """Not: there is no folder. One would be made beside the one that is there."""
    with pytest.raises(Storage) as caught, failing_call("stat", error=OSError(errno.EIO, os.strerror(errno.EIO))):
        leads_to_folder(tmp_path)

    assert "run_state_failed" == caught.value.code
