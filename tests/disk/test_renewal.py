"""A locked file gets other content in one step, and a copy is made once or not at all."""

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.disk.append import AppendFile
from clew.disk.renewal import confirm, keep_new, renew
from clew.errors import Storage
from clew.testing import failing_call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "f").write_bytes(b"old\n")
    return tmp_path / "f"


def opened(path: Path) -> AppendFile:
    file = AppendFile.open(path, wait_s=0.0)
    assert file is not None
    return file


def test_the_name_leads_to_the_new_bytes_and_the_lock_stays(path: Path) -> None:
    """Nobody comes in between the old and the new."""
    new = renew(opened(path), [b"new", b" bytes\n"])

    other = AppendFile.open(path, wait_s=0.0)
    new.append(b"more\n", check_path=True)
    new.close()
    assert (None, b"new bytes\nmore\n") == (other, path.read_bytes())


def test_what_can_be_seen_is_locked_already(path: Path) -> None:
    """At the moment in which the new file gets its name somebody may open it."""
    seen: list[object] = []
    file = opened(path)

    def pieces() -> Iterator[bytes]:
        temp = next(each for each in path.parent.iterdir() if each != path)
        yield b"new\n"
        seen.append(temp)

    new = renew(file, pieces())
    again = AppendFile.open(path, wait_s=0.0)
    new.close()

    assert ([True], None) == ([temp != path for temp in seen], again)


@pytest.mark.parametrize("call", ["write", "fsync", "flock", "replace", "rename"])
def test_a_failure_leaves_the_old_bytes_and_no_temp_file(path: Path, call: str) -> None:
    """A half-written file must never have the name, nor stay beside it."""
    file = opened(path)

    with failing_call(call, error=OSError(errno.ENOSPC, "full")):
        try:
            renew(file, [b"new\n"]).close()
        except Storage:
            assert file.poisoned
    file.close()

    assert path.read_bytes() in (b"old\n", b"new\n")
    assert [path] == list(path.parent.iterdir())


def test_a_file_that_is_another_one_by_now_is_not_replaced(path: Path) -> None:
    """It is somebody else's, and was not the one that was read."""
    file = opened(path)
    path.with_name("g").write_bytes(b"theirs")
    path.with_name("g").replace(path)

    with pytest.raises(Storage) as caught:
        renew(file, [b"new\n"])
    file.close()

    assert ("journal_replaced", b"theirs") == (caught.value.code, path.read_bytes())


def test_an_error_of_the_source_is_the_callers(path: Path) -> None:
    """It says what was wrong with what was to be written."""
    file = opened(path)

    def broken() -> Iterator[bytes]:
        yield b"new"
        raise ValueError("no line")

    with pytest.raises(ValueError, match="no line"):
        renew(file, broken())
    file.close()

    assert [b"old\n"] == [each.read_bytes() for each in path.parent.iterdir()]


def test_a_copy_is_made_once(path: Path) -> None:
    """What is there is never replaced, whatever it holds."""
    copy = path.with_name("copy")

    made = [keep_new(copy, [b"a", b"b"]), keep_new(copy, [b"other"])]

    assert ([True, False], b"ab", 2) == (made, copy.read_bytes(), len(list(path.parent.iterdir())))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows renames without replacing anyway")
@pytest.mark.parametrize("call", ["write", "fsync", "link"])
def test_a_copy_that_fails_leaves_nothing_under_its_name(path: Path, call: str) -> None:
    """Half a backup would be taken for one."""
    copy = path.with_name("copy")

    with failing_call(call, error=OSError(errno.EIO, "bad")):
        try:
            keep_new(copy, [b"ab"])
        except Storage:
            assert not copy.exists()

    assert path.with_name("copy") not in path.parent.iterdir() or copy.read_bytes() == b"ab"


@pytest.mark.skipif(not hasattr(os, "link"), reason="no hard links here")
def test_a_copy_has_one_name(path: Path) -> None:
    """Where the system can rename without replacing, there is no moment of two names, and none is left."""
    keep_new(path.with_name("copy"), [b"ab"])

    assert 1 == path.with_name("copy").stat().st_nlink


def test_what_is_there_is_made_sure_of(path: Path) -> None:
    """Its maker may have died between naming and syncing."""
    confirm(path)

    with pytest.raises(Storage, match="cannot open"):
        confirm(path.with_name("none"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows never replaces by a rename")
def test_a_copy_is_kept_where_no_rename_spares_what_is_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older kernels and some file systems have none; a migration needs its copy there as well."""

    def unknown(temp: Path, path: Path) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))

    monkeypatch.setattr("clew.disk.renewal.rename_new", unknown)

    found = [keep_new(path.parent / "copy", [b"copy"]) for _ in range(2)]

    assert ([True, False], b"copy", ["copy", "f"]) == (
        found,
        (path.parent / "copy").read_bytes(),
        sorted(os.listdir(path.parent)),
    )


def test_a_copy_that_gets_no_name_is_told_and_leaves_nothing(path: Path) -> None:
    """Without its copy a session is not migrated, so who migrates must hear of it."""
    with failing_call("close"), pytest.raises(Storage):
        keep_new(path.parent / "copy", [b"copy"])

    assert ["f"] == os.listdir(path.parent)
