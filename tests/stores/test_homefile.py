"""`home.json`: which home this is, what is refused in a copy, and how a person frees it."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from clew.errors import ClewError, Storage
from clew.stores.homefile import HomeFile
from clew.stores.jsonl import FileRunStore
from tests.stores.lab import FileLab, Hand, go_on

AT = "2026-11-29T14:00:00.000Z"


@pytest.fixture
def lab(tmp_path: Path) -> FileLab:
    """A home with one run that nobody writes."""
    lab = FileLab(tmp_path)
    lab.store.create("r1", Hand().start(lab.store)).close()
    if HomeFile(lab.root).judge().standing == "unmarked":
        pytest.skip("this file system has nothing that tells a home from its copy")
    return lab


@pytest.fixture
def copy(lab: FileLab) -> Path:
    subprocess.run(["cp", "-r", lab.root, lab.root.with_name("copy")], check=True)
    return lab.root.with_name("copy")


def standing(root: Path) -> str:
    return HomeFile(root).judge().standing


def told(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "home.json").read_text("utf-8"))
    return found


def everything(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
    }


def refusal(root: Path) -> ClewError:
    with pytest.raises(ClewError) as caught:
        FileRunStore(root).open("r1").close()
    return caught.value


# What is written.


def test_a_home_is_made_with_its_layout_and_its_own_inode(lab: FileLab) -> None:
    """Anyone can check it with `ls -i`."""
    found = told(lab.root)

    assert (1, (lab.root / "home.json").stat().st_ino, []) == (found["layout"], found["inode"], found["unlocked"])


def test_a_home_keeps_its_journals_out_of_a_repository(lab: FileLab) -> None:
    """They hold arguments and answers."""
    assert "*\n" == (lab.root / ".gitignore").read_text("utf-8")


def test_a_home_that_is_there_is_not_made_anew(lab: FileLab) -> None:
    """Every new run would else make it the original again."""
    before = everything(lab.root)["home.json"]
    FileRunStore(lab.root).create("r2", Hand("r2").start(lab.store)).close()

    assert before == everything(lab.root)["home.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="a file is given its name by a link on POSIX only")
def test_a_file_that_comes_between_looking_and_publishing_is_not_replaced(lab: FileLab) -> None:
    """Whoever was first has told others of it."""
    path, came = lab.root / "home.json", list[str]()
    theirs = path.read_bytes().replace(b"{", b"{ ", 1)
    path.unlink()

    def come(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ == "link" and not came:
            came.append("home.json")
            path.write_bytes(theirs)

    sys.setprofile(come)
    try:
        HomeFile(lab.root).make()
    finally:
        sys.setprofile(None)

    assert (["home.json"], theirs) == (came, path.read_bytes())


def make_one(root: str, gate: Any, name: str) -> None:
    gate.wait(30)
    store = FileRunStore(Path(root))
    store.create(name, Hand(name).start(store)).close()


def test_two_processes_that_make_a_home_at_once_make_one(tmp_path: Path) -> None:
    """The one that came second must find the first one's file, whole."""
    spawn = multiprocessing.get_context("spawn")
    gate = spawn.Barrier(2)
    makers = [spawn.Process(target=make_one, args=(str(tmp_path / ".clew"), gate, name)) for name in ("r1", "r2")]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(60)

    assert [0, 0] == [maker.exitcode for maker in makers]
    assert standing(tmp_path / ".clew") in ("own", "unmarked")
    assert ["r1", "r2"] == sorted(FileRunStore(tmp_path / ".clew").ids())


# What is a copy, and what is not.


def test_a_moved_home_is_the_same(lab: FileLab) -> None:
    """A project's folder may get another name, with everything in it."""
    lab.root.parent.joinpath("deeper").mkdir()
    moved = lab.root.rename(lab.root.parent / "deeper" / ".clew")

    FileRunStore(moved).open("r1").close()

    assert "own" == standing(moved)


@pytest.mark.parametrize("flags", ["-r", "-a"])
def test_a_run_in_a_copied_home_is_not_opened(lab: FileLab, flags: str) -> None:
    """The original may go on as well: then both start what is not in the other's journal."""
    root = lab.root.with_name("copy")
    subprocess.run(["cp", flags, lab.root, root], check=True)
    before = everything(root)

    fault = refusal(root)

    assert ("home_copied", 4, before) == (fault.code, fault.exit_code, everything(root))
    assert f"clew unlock --home {root}" in fault.next


def test_a_home_restored_from_a_backup_is_a_copy(lab: FileLab) -> None:
    """Deleted and brought back it often gets the inodes that it had; what happened since is not in the backup."""
    backup = lab.root.with_name("backup.tar")
    with tarfile.open(backup, "w") as archive:
        archive.add(lab.root, ".clew")
    if HomeFile(lab.root).judge().text.born is None:  # type: ignore[union-attr]  # it is there
        pytest.skip("this file system does not keep when a file was born")
    shutil.rmtree(lab.root)
    subprocess.run(["tar", "-xpf", backup, "-C", lab.root.parent], check=True)

    assert "home_copied" == refusal(lab.root).code


def test_a_hard_link_to_the_same_files_is_no_copy(lab: FileLab) -> None:
    """Whoever opens it writes into the very same journal, under the same lock."""
    subprocess.run(["cp", "-rl", lab.root, lab.root.with_name("linked")], check=True)

    assert "own" == standing(lab.root.with_name("linked"))


def test_a_home_reached_by_a_link_is_the_same(lab: FileLab) -> None:
    """The home may be a link."""
    link = lab.root.with_name("link")
    link.symlink_to(lab.root)

    FileRunStore(link).open("r1").close()

    assert "own" == standing(link)


def test_new_runs_may_start_in_a_copy(copy: Path) -> None:
    """Their ids are new; what must not happen twice is what the copied journals tell of."""
    store = FileRunStore(copy)
    store.create("r2", Hand("r2").start(store)).close()

    assert ["r1", "r2"] == sorted(store.ids())
    assert "copy" == standing(copy)


def test_a_copy_is_read_like_any_home(copy: Path) -> None:
    """Looking at a backup is what it is for."""
    assert 1 == len(list(FileRunStore(copy).read("r1")))


def test_a_home_without_the_file_gets_it_with_its_next_leg(lab: FileLab) -> None:
    """It was made by an older clew; that an older copy of it is not seen is said by the doctor."""
    (lab.root / "home.json").unlink()
    writer = lab.store.open("r1")
    opened = (lab.root / "home.json").exists()
    go_on(writer)
    writer.close()

    assert (False, "own") == (opened, standing(lab.root))


def test_a_home_on_a_file_system_without_lasting_numbers_is_not_called_a_copy(lab: FileLab) -> None:
    """What cannot be told is not guessed; the doctor says so."""
    (lab.root / "home.json").write_text('{"layout":1,"inode":null,"born":null,"unlocked":[]}', "utf-8")
    lab.store.open("r1").close()

    assert "unmarked" == standing(lab.root)


# What else it may say.


@pytest.mark.parametrize("deed", ["open", "create"])
def test_a_layout_that_is_not_known_is_refused(lab: FileLab, deed: str) -> None:
    """A newer clew may keep journals elsewhere; ours would begin beside them."""
    (lab.root / "home.json").write_text('{"layout":2,"place":"else"}', "utf-8")
    store = FileRunStore(lab.root)
    with pytest.raises(ClewError) as caught:
        store.open("r1") if deed == "open" else store.create("r2", Hand("r2").start(store))

    assert ("home_layout_unknown", ["r1"]) == (caught.value.code, store.ids())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"layout":"1"}',
        '{"layout":1}',
        '{"layout":1,"inode":"7","born":null}',
        '{"layout":1,"layout":1}',
    ],
)
def test_a_damaged_file_is_told_and_left(lab: FileLab, text: str) -> None:
    """Nothing is guessed from half a file."""
    (lab.root / "home.json").write_text(text, "utf-8")

    fault = refusal(lab.root)

    assert ("home_file_corrupt", 12, text) == (fault.code, fault.exit_code, (lab.root / "home.json").read_text("utf-8"))


def test_a_folder_in_its_place_is_an_error_of_ours(lab: FileLab) -> None:
    """No traceback for what somebody put there."""
    (lab.root / "home.json").unlink()
    (lab.root / "home.json").mkdir()
    with pytest.raises(Storage) as caught:
        lab.store.open("r1")

    assert str(lab.root / "home.json") == caught.value.facts["path"]


# Freeing a copy.


def test_a_freed_copy_goes_on_and_says_who_freed_it(copy: Path) -> None:
    """Whoever finds a payment made twice must find whose word it was."""
    before = told(copy)
    HomeFile(copy).unlock("ann", "the old disk is dead", AT)
    FileRunStore(copy).open("r1").close()

    (said,) = told(copy)["unlocked"]

    assert ("ann", "the old disk is dead", AT) == (said["by"], said["reason"], said["at"])
    assert {"inode": before["inode"], "born": before["born"]} == said["copiedFrom"]


def test_a_copy_of_a_freed_copy_is_a_copy_again_and_keeps_the_history(copy: Path) -> None:
    """One word frees one copy."""
    HomeFile(copy).unlock("ann", "moved to the new disk", AT)
    again = copy.with_name("again")
    shutil.copytree(copy, again)
    found = standing(again)
    HomeFile(again).unlock("bob", "and once more", AT)

    assert ("copy", ["ann", "bob"]) == (found, [said["by"] for said in told(again)["unlocked"]])


def test_freeing_touches_nothing_but_the_file(copy: Path) -> None:
    """The runs have their own records of what a person does."""
    before = everything(copy)
    HomeFile(copy).unlock("ann", "the old disk is dead", AT)
    after = everything(copy)

    assert {"home.json"} == {name for name in before | after if before.get(name) != after.get(name)}


def test_the_original_is_not_touched_by_freeing_its_copy(lab: FileLab, copy: Path) -> None:
    """They share nothing."""
    before = everything(lab.root)
    HomeFile(copy).unlock("ann", "the old disk is dead", AT)

    assert before == everything(lab.root)


def test_an_original_has_nothing_to_free(lab: FileLab) -> None:
    """Said in the wrong folder, the word must not be spent."""
    before = everything(lab.root)
    with pytest.raises(ClewError) as caught:
        HomeFile(lab.root).unlock("ann", "why not", AT)

    assert ("nothing_to_unlock", before) == (caught.value.code, everything(lab.root))


def test_a_damaged_file_is_written_anew_on_a_persons_word(lab: FileLab) -> None:
    """The journals are whole; a broken label must not lock them for ever."""
    (lab.root / "home.json").write_text("{", "utf-8")
    HomeFile(lab.root).unlock("ann", "a full disk cut it", AT)

    assert "own" == standing(lab.root)


def test_a_layout_that_is_not_known_is_nobodys_to_free(lab: FileLab) -> None:
    """A word does not teach this clew what a newer one did."""
    (lab.root / "home.json").write_text('{"layout":2}', "utf-8")
    with pytest.raises(ClewError) as caught:
        HomeFile(lab.root).unlock("ann", "why not", AT)

    assert "home_layout_unknown" == caught.value.code


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps permissions elsewhere")
def test_the_file_is_its_owners_alone(copy: Path) -> None:
    """Freed or made."""
    HomeFile(copy).unlock("ann", "the old disk is dead", AT)

    assert 0o600 == (copy / "home.json").stat().st_mode & 0o777


def test_a_run_begins_in_a_home_that_is_a_link(tmp_path: Path) -> None:
    """People put the home on a disk with more room; the link stays what it is."""
    (tmp_path / "disk").mkdir()
    (tmp_path / ".clew").symlink_to(tmp_path / "disk")
    store = FileRunStore(tmp_path / ".clew")

    store.create("r1", Hand("r1").start(store)).close()

    assert (True, True) == ((tmp_path / ".clew").is_symlink(), (tmp_path / "disk" / "runs" / "r1.jsonl").exists())
