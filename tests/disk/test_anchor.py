"""A folder held by a descriptor: what is done in it stays in it, and nothing goes through a link."""

import ctypes
import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from clew.disk import anchor
from clew.disk.anchor import Folder
from clew.testing import failing_call


def test_a_held_folder_stays_the_same_whatever_takes_its_name(tmp_path: Path) -> None:
    """Who exchanges a folder for a link between the look and the deed leads nothing away."""
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()

    with Folder.at(tmp_path / "work") as folder:
        (tmp_path / "work").rename(tmp_path / "moved")
        (tmp_path / "work").symlink_to("outside")
        os.close(folder.born("new"))

    assert (os.listdir(tmp_path / "moved"), os.listdir(tmp_path / "outside")) == (["new"], [])


@pytest.mark.parametrize("name", ["link", "file", "missing"])
def test_only_a_real_folder_is_entered(tmp_path: Path, name: str) -> None:
    """A link on the way is no way."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("dir")
    (tmp_path / "file").touch()

    with Folder.at(tmp_path) as folder, pytest.raises((NotADirectoryError, FileNotFoundError)):
        folder.enter(name)


def test_a_link_is_not_opened_as_a_file(tmp_path: Path) -> None:
    """What it leads to is somebody else's."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to("secret")

    with Folder.at(tmp_path) as folder, pytest.raises(OSError, match="symbolic links"):
        folder.open("link")


def test_two_names_are_exchanged_whatever_they_are(tmp_path: Path) -> None:
    """Nothing is ever missing under either of them."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("text")

    with Folder.at(tmp_path) as folder:
        done = folder.exchange("dir", "file")

    assert (done, (tmp_path / "dir").read_text(), (tmp_path / "file").is_dir()) == (True, "text", True)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", ["file", "dir", "link"])
def test_a_name_that_is_taken_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, known: bool
) -> None:
    """Whoever was first keeps it, on machines that know such a rename and on others."""
    (tmp_path / "new").symlink_to("x") if kind == "link" else (tmp_path / "new").touch()
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("first")
    (tmp_path / "link").symlink_to("first")
    if not known:
        monkeypatch.setattr(anchor, "_rename", lambda *_: False)

    with Folder.at(tmp_path) as folder, pytest.raises(FileExistsError):
        folder.rename_new("new", kind)

    assert sorted(os.listdir(tmp_path)) == ["dir", "file", "link", "new"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ["dir", "file", "link", b"\xff".decode("utf-8", "surrogateescape")])
def test_anything_gets_another_name_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, known: bool
) -> None:
    """Any name that the platform allows is a name."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "\udcff").touch()
    (tmp_path / "to").mkdir()
    if not known:
        monkeypatch.setattr(anchor, "_rename", lambda *_: False)

    with Folder.at(tmp_path) as folder, folder.enter("to") as to:
        folder.rename_new(name, name, to)

    assert (os.listdir(tmp_path / "to"), (tmp_path / name).exists()) == ([name], False)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o666, 0o000])
def test_a_new_file_has_its_mode_whatever_the_umask_is(tmp_path: Path, mode: int) -> None:
    """What was group-writable is so again."""
    with Folder.at(tmp_path) as folder:
        os.close(folder.born("new", mode))

    assert (tmp_path / "new").stat().st_mode & 0o7777 == mode


def test_a_folder_that_is_not_empty_is_not_removed(tmp_path: Path) -> None:
    """And it is told apart from other refusals."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "in").touch()

    with Folder.at(tmp_path) as folder, pytest.raises(OSError, match="not empty") as caught:
        folder.remove_folder("dir")

    assert (anchor.is_not_empty(caught.value), (tmp_path / "dir/in").exists()) == (True, True)


# Where folders have no descriptors, as on Windows.


@pytest.fixture
def unheld(tmp_path: Path) -> Folder:
    return Folder(tmp_path, None)


@pytest.mark.parametrize("name", ["link", "file"])
def test_by_path_too_only_a_real_folder_is_entered(unheld: Folder, name: str) -> None:
    """A link on the way is no way, however the folder is held."""
    (unheld.path / "dir").mkdir()
    (unheld.path / "link").symlink_to("dir")
    (unheld.path / "file").touch()

    with pytest.raises(NotADirectoryError):
        unheld.enter(name)


def test_by_path_a_folder_is_entered_changed_and_left(unheld: Folder) -> None:
    """The same deeds by another way of holding."""
    unheld.make_folder("dir", 0o775)

    with unheld.enter("dir") as folder:
        os.close(folder.born("new"))
        folder.sync()

    assert (["new"], 0o775) == (os.listdir(unheld.path / "dir"), (unheld.path / "dir").stat().st_mode & 0o777)


# Machines that can less.


def test_a_mode_that_is_not_given_is_said(tmp_path: Path) -> None:
    """Some file systems take any mode and keep none: who was to be kept out is not."""
    fd = os.open(tmp_path / "x", os.O_CREAT | os.O_RDWR, 0o600)

    with pytest.raises(PermissionError):
        anchor.require_mode(fd, 0o640)

    os.close(fd)


def test_an_error_of_the_machine_comes_as_it_is(tmp_path: Path) -> None:
    """A refused descriptor is no link on the way."""
    with Folder.at(tmp_path) as folder, failing_call("open"), pytest.raises(OSError, match="device refuses"):
        folder.enter("dir")


@pytest.mark.parametrize("known", ["no kernel", "no library"])
def test_where_names_cannot_be_exchanged_that_is_said(
    tmp_path: Path, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then there is another way, with a moment in which nothing stands there; a false yes would lose a file."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")

    def refused(*_: object) -> int:
        ctypes.set_errno(errno.ENOSYS)
        return -1

    library = SimpleNamespace(renameat2=refused) if known == "no kernel" else object()
    monkeypatch.setattr(anchor, "_LIBC", library)

    with Folder.at(tmp_path) as folder:
        done = folder.exchange("a", "b")

    assert (False, "a", "b") == (done, (tmp_path / "a").read_text(), (tmp_path / "b").read_text())


def test_a_link_is_no_folder_in_whatever_words_the_machine_says_it(tmp_path: Path) -> None:
    """Of a link in the way some systems say that it is no folder, others that it goes round in circles."""
    loop = OSError(errno.ELOOP, "too many links")

    with Folder.at(tmp_path) as folder, failing_call("open", error=loop), pytest.raises(NotADirectoryError):
        folder.enter("link")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such owners")
@pytest.mark.parametrize("may", [True, False])
def test_a_file_is_given_to_another_where_that_is_allowed(
    tmp_path: Path, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only root may; whoever may not goes on with a file of their own, and is told."""
    fd, given = os.open(tmp_path / "x", os.O_CREAT | os.O_RDWR, 0o600), list[tuple[int, int]]()

    def change(fd: int, owner: int, group: int) -> None:
        if not may:
            raise PermissionError
        given.append((owner, group))

    monkeypatch.setattr(os, "fchown", change)

    done = [anchor.give_to(fd, 65534, 65533), anchor.give_to(fd, os.geteuid(), os.fstat(fd).st_gid)]

    os.close(fd)
    assert ([may, False], [(65534, 65533)] * may) == (done, given)
