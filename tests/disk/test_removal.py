"""Files that go, and folders by the sizes of what lies in them."""

import os
import sys
from pathlib import Path

import pytest

from clew.disk.removal import remove, sizes
from clew.errors import Storage
from clew.testing.faults import failing_call


def test_a_file_goes_and_its_length_is_told(tmp_path: Path) -> None:
    """That is what a prune reports."""
    path = tmp_path / "a"
    path.write_bytes(b"12345")

    assert (5, False) == (remove(path), path.exists())


def test_what_is_gone_already_is_no_error(tmp_path: Path) -> None:
    """A prune that was killed is done again."""
    assert 0 == remove(tmp_path / "a")


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_link_goes_itself(tmp_path: Path) -> None:
    """Never what it leads to."""
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(target)
    remove(tmp_path / "link")

    assert (b"mine", ["target"]) == (target.read_bytes(), os.listdir(tmp_path))


def test_a_machine_that_refuses_is_told_as_storage(tmp_path: Path) -> None:
    """With the path, and what is there stays."""
    path = tmp_path / "a"
    path.write_bytes(b"1")
    with failing_call("unlink"), pytest.raises(Storage, match="cannot remove"):
        remove(path)

    assert path.exists()


def test_sizes_are_those_of_files_alone(tmp_path: Path) -> None:
    """A folder that should not be there is not counted as content."""
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "b").mkdir()

    assert ([("a", 3)], []) == (list(sizes(tmp_path)), list(sizes(tmp_path / "none")))


def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path) -> None:
    """A home of which a part is not seen must not be taken for an empty one."""
    (tmp_path / "a").write_bytes(b"1")

    with pytest.raises(Storage, match="cannot list"):
        list(sizes(tmp_path / "a"))
