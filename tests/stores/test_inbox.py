"""The inbox as files that any process can drop and anyone can read."""

import os
from pathlib import Path

import pytest

from clew.errors import Corrupt, Refused
from clew.stores.base import Command, CommandAnswer
from clew.stores.inbox import FileInbox

COMMAND = Command(1, "c1", "r1", "settle", "ann", "bank says so", {"outcome": "happened"})


@pytest.fixture
def inbox(tmp_path: Path) -> FileInbox:
    (tmp_path / "runs").mkdir()
    return FileInbox(tmp_path / "runs", "r1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "r1" / "inbox"


def test_a_command_is_a_file_of_plain_json(inbox: FileInbox, folder: Path) -> None:
    """Its shape is a contract between versions."""
    inbox.post(COMMAND)

    text = (folder / "c1.json").read_text()
    assert text == (
        '{"schemaVersion":1,"controlId":"c1","runId":"r1","type":"settle","by":"ann","reason":"bank says so",'
        '"arguments":{"outcome":"happened"}}'
    )


def test_an_answer_lies_beside_its_command(inbox: FileInbox, folder: Path) -> None:
    """Nothing is deleted: the inbox is part of what happened."""
    inbox.post(COMMAND)
    inbox.answer(CommandAnswer("c1", "applied"))

    names = sorted(path.name for path in folder.iterdir())

    assert names == ["c1.answer.json", "c1.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"schemaVersion":2,"controlId":"bad","runId":"r1","type":"pause","by":"a","reason":"b"}',
        b'{"schemaVersion":1,"controlId":"other","runId":"r1","type":"pause","by":"a","reason":"b"}',
        b'{"schemaVersion":1,"controlId":"bad","runId":"r2","type":"pause","by":"a","reason":"b"}',
    ],
)
def test_an_unreadable_command_is_reported_and_kept(inbox: FileInbox, folder: Path, content: bytes) -> None:
    """It must not block the others, nor vanish: somebody wanted something."""
    inbox.post(COMMAND)
    (folder / "bad.json").write_bytes(content)

    found = (inbox.pending(), inbox.unreadable(), (folder / "bad.json").read_bytes())

    assert found == ([COMMAND], [str(folder / "bad.json")], content)


def test_a_command_behind_a_damaged_one_of_its_id_is_a_conflict(inbox: FileInbox, folder: Path) -> None:
    """What stands there may have been another command."""
    inbox.post(COMMAND)
    (folder / "c1.json").write_bytes(b"{")

    with pytest.raises(Refused):
        inbox.post(COMMAND)


def test_a_damaged_answer_is_corrupt(inbox: FileInbox, folder: Path) -> None:
    """Its sender must not take silence for it."""
    inbox.answer(CommandAnswer("c1", "applied"))
    (folder / "c1.answer.json").write_bytes(b"{}")

    with pytest.raises(Corrupt) as caught:
        inbox.answered("c1")

    assert caught.value.code == "control_answer_corrupt"


def test_looking_into_an_inbox_makes_nothing(inbox: FileInbox, tmp_path: Path) -> None:
    """Readers never write."""
    found = (inbox.pending(), inbox.unreadable(), inbox.answered("c1"), list((tmp_path / "runs").iterdir()))

    assert found == ([], [], None, [])


def test_a_linked_inbox_is_refused(inbox: FileInbox, folder: Path, tmp_path: Path) -> None:
    """Commands would come from wherever it leads."""
    folder.parent.mkdir()
    folder.symlink_to(tmp_path)

    with pytest.raises(Refused) as caught:
        inbox.pending()

    assert caught.value.code == "home_link_refused"


def test_a_file_that_no_command_is_called_like_does_not_block_the_others(inbox: FileInbox, folder: Path) -> None:
    """A note, a folder, a link and a pipe that somebody left there: each is reported, none ends a run."""
    inbox.post(COMMAND)
    (folder / "my note.json").write_bytes(b"hello")
    (folder / "dir.json").mkdir()
    (folder / "link.json").symlink_to("/")
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe.json")

    found = (inbox.pending(), sorted(Path(path).name for path in inbox.unreadable()))

    assert found == ([COMMAND], sorted(path.name for path in folder.iterdir() if path.name != "c1.json"))
