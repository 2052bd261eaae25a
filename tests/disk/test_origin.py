"""What tells a file from its copies."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from clew.disk.files import publish
from clew.disk.origin import Origin, origin_of, read_with_origin
from clew.errors import Refused
from tests.disk.test_mounts import TABLE


def here(path: Path) -> Origin:
    found = read_with_origin(path, 100)
    assert found is not None
    return found[1]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "home.json"
    path.write_bytes(b"x")
    if here(path) == Origin(None, None):
        pytest.skip("this file system has nothing that tells a file from its copy")
    return path


def test_a_file_that_is_moved_is_the_same(file: Path) -> None:
    """A project's folder may get another name."""
    before = here(file)
    file.rename(file.with_name("moved"))

    assert before == here(file.with_name("moved"))


@pytest.mark.parametrize("flags", [["-r"], ["-a"]])
def test_a_copied_file_is_another_one(file: Path, flags: list[str]) -> None:
    """`cp -a` keeps every time and mode that there is, but not this."""
    subprocess.run(["cp", *flags, file, file.with_name("copy")], check=True)

    assert here(file.with_name("copy")).differs(here(file))


def test_an_inode_that_is_given_away_again_is_another_file(file: Path) -> None:
    """A home that is deleted and restored from a backup often gets the very numbers that it had."""
    before = here(file)
    if before.born is None:
        pytest.skip("this file system does not keep when a file was born")
    file.unlink()
    shutil.copy2("/dev/null", file)

    assert here(file).differs(before)


def test_the_birth_time_is_the_one_that_the_system_tells(tmp_path: Path) -> None:
    """An offset read wrongly would be some other number that changes now and then."""
    path = tmp_path / "home.json"
    path.write_bytes(b"x")
    told = subprocess.run(["stat", "-c", "%W", path], check=True, capture_output=True, text=True).stdout.strip()
    if told in ("0", "-"):
        pytest.skip("this file system does not keep when a file was born")

    assert told == str(here(path).born).partition(".")[0]


def test_what_a_file_says_of_itself_before_it_has_its_name_holds_afterwards(tmp_path: Path) -> None:
    """Its own inode stands in the file, so it has to be written before the file is published."""
    path = tmp_path / "home.json"
    publish(path, lambda fd: repr(origin_of(fd, path)).encode())

    assert repr(here(path)).encode() == path.read_bytes()


def test_a_file_that_is_not_there_has_no_origin(tmp_path: Path) -> None:
    """A home of an older clew has none."""
    assert read_with_origin(tmp_path / "home.json", 100) is None


def test_a_link_is_refused(tmp_path: Path) -> None:
    """What it leads to is not the home's own."""
    (tmp_path / "home.json").symlink_to("elsewhere")

    with pytest.raises(Refused) as caught:
        read_with_origin(tmp_path / "home.json", 100)

    assert "home_link_refused" == caught.value.code


@pytest.mark.parametrize(
    ("one", "two", "differs", "tells"),
    [
        (Origin(1, "1.0"), Origin(1, "1.0"), False, True),
        (Origin(1, "1.0"), Origin(2, "1.0"), True, True),
        (Origin(1, "1.0"), Origin(1, "2.0"), True, True),
        (Origin(None, "1.0"), Origin(2, "1.0"), False, True),
        (Origin(1, None), Origin(1, "2.0"), False, True),
        (Origin(None, None), Origin(2, "1.0"), False, False),
        (Origin(1, None), Origin(None, "1.0"), False, False),
    ],
)
def test_only_what_both_know_is_compared(one: Origin, two: Origin, differs: bool, tells: bool) -> None:
    """A home that comes from a file system without lasting numbers must not be called a copy for that alone."""
    assert (differs, tells) == (one.differs(two), one.tells_from(two))


@pytest.mark.parametrize(("place", "lasts"), [("/srv2", False), ("/home/ann/my disk", False), ("/homely", True)])
def test_a_number_that_is_made_up_at_each_mount_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, lasts: bool
) -> None:
    """Else every remount would make the home a copy, until nobody reads the refusal any more."""
    table = tmp_path / "mountinfo"
    table.write_text(TABLE, "utf-8")
    monkeypatch.setattr("clew.disk.mounts._MOUNTS", table)
    fd = os.open(tmp_path, os.O_RDONLY)
    found = origin_of(fd, Path(place) / "home.json")
    os.close(fd)

    assert lasts is (found.inode is not None)


@pytest.mark.parametrize("kind", ["vfat", "exfat", "msdos"])
def test_nothing_of_a_fat_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Its birth times are of the local zone: with the summer time every home on a stick would become a copy."""
    table = tmp_path / "mountinfo"
    table.write_text(f"27 1 254:0 / / rw - {kind} /dev/sda1 rw", "utf-8")
    monkeypatch.setattr("clew.disk.mounts._MOUNTS", table)

    assert Origin(None, None) == here(table)


def test_a_system_without_birth_times_tells_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is an answer; zero would be a time."""
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    fd = os.open(tmp_path, os.O_RDONLY)
    found = origin_of(fd, tmp_path / "home.json")
    os.close(fd)

    assert found.born is None
