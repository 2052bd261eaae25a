"""A look over a home's folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clew.core.checkup import Survey
from clew.stores.base import Command, CommandAnswer
from clew.stores.survey import survey
from tests.stores.lab import FileLab, Hand

POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows keeps permissions elsewhere")


@pytest.fixture
def lab(tmp_path: Path) -> FileLab:
    """A home with one run that nobody writes."""
    lab = FileLab(tmp_path)
    hand = Hand()
    writer = lab.store.create("r1", hand.start(lab.store))
    writer.publish_head(hand.head(writer.size_bytes))
    writer.close()
    return lab


def gone_pid() -> int:
    """The number of a process that has ended."""
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    return int(done.stdout)


def counts(found: Survey) -> dict[str, int]:
    names = ("left_behind", "too_open", "denied", "links", "misplaced", "strange_commands")
    return {name: getattr(found, name).count for name in names if getattr(found, name).count}


def test_a_home_as_it_was_made_has_nothing_in_it_that_should_not_be(lab: FileLab) -> None:
    """Whatever clew itself writes must not be complained of."""
    found = survey(lab.root)

    assert ({}, (), (), True, True) == (counts(found), found.pieces, found.commands, found.ignored, found.whole)
    assert found.standing in ("own", "unmarked")


def test_looking_changes_nothing(lab: FileLab) -> None:
    """No byte, no time, no file more (promise 11)."""
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in [lab.root, *lab.root.rglob("*")]}
    survey(lab.root)

    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in [lab.root, *lab.root.rglob("*")]}


@POSIX
def test_what_others_may_open_is_found(lab: FileLab) -> None:
    """`cp` and `git` make files that anyone may read."""
    lab.path("r1").chmod(0o644)

    found = survey(lab.root)

    assert {"too_open": 1} == counts(found)
    assert ({"path": str(lab.path("r1")), "mode": "0644"},) == found.too_open.first


def test_the_temp_file_of_a_dead_process_is_found_and_that_of_a_living_one_is_not(lab: FileLab) -> None:
    """What somebody is writing just now is not left behind."""
    for pid in (gone_pid(), os.getpid()):
        (lab.root / "runs" / "r1" / f".head.json.{pid}-1.tmp").touch(mode=0o600)

    found = survey(lab.root)

    assert {"left_behind": 1} == counts(found)
    assert f".{os.getpid()}-" not in found.left_behind.first[0]["path"]


def test_a_link_is_found_and_not_followed(lab: FileLab) -> None:
    """It could lead anywhere, and round in circles."""
    (lab.root / "runs" / "r1" / "inbox").symlink_to(lab.root)

    found = survey(lab.root)

    assert {"links": 1} == counts(found)


@pytest.mark.parametrize(
    ("place", "kind", "wanted"),
    [
        ("blobs", "file", "folder"), ("blobs/ab", "file", "folder"), ("blobs/ab/cd", "folder", "file"),
        ("sessions", "file", "folder"), ("runs/r1/inbox", "file", "folder"), ("runs/r1/head.json", "folder", "file"),
        ("runs/r2.jsonl", "folder", "file"), ("home.json", "folder", "file"), (".gitignore", "folder", "file"),
    ],
)  # fmt: skip
def test_what_stands_in_the_place_of_something_else_is_found(lab: FileLab, place: str, kind: str, wanted: str) -> None:
    """A half restored backup: a command or a large answer would be refused only in the middle of the work."""
    path = lab.root / place
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    path.mkdir(mode=0o700) if kind == "folder" else os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))

    found = survey(lab.root)

    assert ({"path": str(path), "kind": kind, "wanted": wanted},) == found.misplaced.first


@POSIX
@pytest.mark.parametrize(("place", "wanted"), [("runs/r1/head.json", "file"), ("notes", "")])
def test_a_pipe_is_found_and_not_opened(lab: FileLab, place: str, wanted: str) -> None:
    """To open it is to wait for ever for who writes."""
    path = lab.root / place
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)

    found = survey(lab.root)

    assert ({"path": str(path), "kind": "other", "wanted": wanted},) == found.misplaced.first


@pytest.mark.parametrize("place", ["runs/r1/torn-1", "runs/notes", "notes", "runs/notes/inbox.d/x"])
def test_what_others_put_beside_ours_is_not_complained_of(lab: FileLab, place: str) -> None:
    """A note of a person's stands in nobody's way."""
    path = lab.root / place
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))

    assert 0 == survey(lab.root).misplaced.count


def test_a_home_that_is_reached_by_a_link_is_looked_over(lab: FileLab) -> None:
    """The home itself may be one."""
    link = lab.root.with_name("link")
    link.symlink_to(lab.root)
    (link / "runs" / "r1" / "torn-9-0123456789ab").touch(mode=0o600)

    assert ({"run": "r1", "name": "torn-9-0123456789ab"},) == survey(link).pieces


def test_waiting_commands_are_found_and_answered_ones_are_not(lab: FileLab) -> None:
    """What has its answer waits for nobody."""
    for name in ("c1", "c2"):
        lab.store.post(Command(1, name, "r1", "pause", "ann", "lunch"))
    lab.store.answer("r1", CommandAnswer("c1", "applied"))
    (lab.root / "runs" / "r1" / "inbox" / "c3.json").touch(mode=0o600)

    found = survey(lab.root)

    assert ({"run": "r1", "id": "c2", "type": "pause"},) == found.commands
    assert {"strange_commands": 1} == counts(found)


def test_a_large_home_is_looked_over_in_part_and_said_to_be(lab: FileLab) -> None:
    """A doctor must come to an end."""
    entries = len(list(lab.root.rglob("*")))

    assert [False, True] == [survey(lab.root, looks=looks).whole for looks in (entries - 1, entries)]


def test_a_folder_that_this_user_may_not_look_into_is_found(lab: FileLab) -> None:
    """Root may look into everything; a folder that vanishes into a file's place stands for one that is forbidden."""
    if os.name == "nt" or os.geteuid() == 0:
        pytest.skip("root is denied nothing")
    (lab.root / "runs" / "r1").chmod(0)
    try:
        found = survey(lab.root)
    finally:
        (lab.root / "runs" / "r1").chmod(0o700)

    assert {"denied": 1} == counts(found)


def test_a_home_file_that_cannot_be_looked_at_is_told_and_the_rest_is_looked_at(lab: FileLab) -> None:
    """A doctor that stops at the first trouble is of no use."""
    (lab.root / "home.json").unlink()
    (lab.root / "home.json").symlink_to("elsewhere")

    found = survey(lab.root)

    assert ("unreadable", 4, {"links": 1}) == (found.standing, found.exit, counts(found))


def test_another_programs_home_is_said_to_be_one(tmp_path: Path) -> None:
    """Nothing of ours is missed in it."""
    (tmp_path / ".coremind" / "runs").mkdir(parents=True, mode=0o700)

    found = survey(tmp_path / ".coremind")

    assert ("foreign", True) == (found.standing, found.ignored)
