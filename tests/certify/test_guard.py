"""What an agent on trial may not do, told by the events that Python raises before it is done."""

import os
from pathlib import Path
from typing import Any

import pytest

from clew.certify.guard import Doing, Guard, Part
from clew.certify.ledger import Ledger, read

WRITE = os.O_WRONLY | os.O_CREAT


class Post:
    """A guard over a scratch folder, asked without being installed: that could never be undone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.guard = Guard(Ledger(folder / "ledger", 1), str(self.work), [str(folder / "tmp")], [str(folder / "mine")])

    def allows(self, part: Part, event: str, *given: Any) -> bool:
        """May this be done by that part of an agent?"""
        try:
            with self.guard.doing(Doing(part, "it")):
                self.guard.hear(event, given)
        except (PermissionError, ConnectionRefusedError):
            return False
        return True

    @property
    def found(self) -> list[str]:
        return [entry.code for entry in read(self.folder / "ledger")]


@pytest.fixture
def post(tmp_path: Path) -> Post:
    return Post(tmp_path)


@pytest.mark.parametrize(
    ("event", "rest"),
    [
        ("open", ("w", WRITE)), ("os.mkdir", (0o777, -1)), ("os.remove", (-1,)), ("os.truncate", (0,)),
        ("os.chmod", (0o600, -1)), ("sqlite3.connect", ()),
    ],
)  # fmt: skip
def test_nothing_outside_is_changed(post: Post, event: str, rest: tuple[Any, ...]) -> None:
    """Five hundred lives would do five hundred times what the agent does to its owner's files."""
    allowed = post.allows("agent", event, str(post.folder / "theirs"), *rest)

    assert (False, ["writes_outside"]) == (allowed, post.found)


def test_nothing_is_moved_out_of_the_workspace(post: Post) -> None:
    """The second path of a rename counts as the first one does."""
    allowed = post.allows("workspace", "os.rename", str(post.work / "a"), str(post.folder / "a"), -1, -1)

    assert not allowed


def test_a_link_out_of_the_workspace_leads_out(post: Post) -> None:
    """A path is where it leads to, not how it is spelt."""
    (post.work / "away").symlink_to(post.folder)

    assert not post.allows("workspace", "open", str(post.work / "away" / "file"), "w", WRITE)


@pytest.mark.parametrize("place", ["work/a", "tmp/b", "mine/c"])
def test_its_own_places_are_the_agents(post: Post, place: str) -> None:
    """A tool that cannot do its work is not tried."""
    assert post.allows("workspace", "open", str(post.folder / place), "w", WRITE)


def test_looking_is_free(post: Post) -> None:
    """An agent reads its settings, its certificates, its model's prompts."""
    assert post.allows("agent", "open", "/etc/hostname", "r", os.O_RDONLY)


@pytest.mark.parametrize(("part", "code"), [("probe", "probe_writes"), ("free", "free_tool_writes")])
def test_who_only_looks_writes_nowhere(post: Post, part: Part, code: str) -> None:
    """A probe that writes is no question; a tool of effect none that does is run again without a thought."""
    allowed = post.allows(part, "open", str(post.work / "mark"), "w", WRITE)

    assert (False, [code]) == (allowed, post.found)


def test_the_agent_reaches_nobody(post: Post) -> None:
    """What it does past the gate is done in every life."""
    allowed = post.allows("agent", "socket.connect", None, ("bank.example", 443))

    assert (False, ["network_past_gate"]) == (allowed, post.found)


def test_its_own_processes_are_reached(post: Post) -> None:
    """Workers of a pool speak to each other by a socket in a folder of theirs."""
    allowed = [post.allows("agent", "socket.connect", None, str(post.folder / place)) for place in ("tmp/s", "else/s")]

    assert [True, False] == allowed


def test_a_name_is_not_looked_up(post: Post) -> None:
    """The finding says whom it meant, not where that is today."""
    post.allows("agent", "socket.getaddrinfo", b"bank.example", 443, 0, 0, 0)

    told = read(post.folder / "ledger")[0].what
    assert "it connects to bank.example:443, which was refused" == told


def test_a_probe_reaches_nobody_and_that_is_no_finding(post: Post) -> None:
    """It means to ask the bank about a payment that was never made there."""
    allowed = post.allows("probe", "socket.connect", None, ("bank.example", 443))

    assert (False, []) == (allowed, post.found)


def test_a_tool_that_only_looks_may_look_anywhere(post: Post) -> None:
    """Its author says that it changes nothing; a rate is asked for where rates are."""
    assert post.allows("free", "socket.connect", None, ("rates.example", 443))


def test_a_program_that_is_started_is_noted(post: Post) -> None:
    """What it does is not seen from here, so whoever reads the report must know of it."""
    allowed = post.allows("workspace", "subprocess.Popen", "/usr/bin/git", ["git"], None, None)

    assert (True, ["unwatched_program"]) == (allowed, post.found)


def test_a_probe_starts_nothing(post: Post) -> None:
    """It could ask the bank by another program."""
    assert not post.allows("probe", "subprocess.Popen", "/usr/bin/curl", ["curl"], None, None)


def test_live_everything_goes(post: Post) -> None:
    """That one time was asked for, typed and confirmed."""
    assert post.allows("live", "open", str(post.folder / "theirs"), "w", WRITE)
    assert post.allows("live", "socket.connect", None, ("bank.example", 443))
