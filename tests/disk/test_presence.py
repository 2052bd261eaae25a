"""Many at work in a folder, or one alone: what the kernel holds, and what a death, a fork or an exec leaves of it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from clew.disk import presence
from clew.errors import Storage
from clew.testing.faults import Strikes, failing_call

WORK = """
import sys
from pathlib import Path

from clew.disk import presence

guest = presence.join(Path(sys.argv[1]), 0)
print("in" if guest else "out", flush=True)
sys.stdin.readline()
"""
ALONE = """
import sys
from pathlib import Path

from clew.disk import presence

with presence.alone(Path(sys.argv[1]), b"a prune", 0.1) as is_alone:
    print("alone" if is_alone else "beside others", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@contextmanager
def another(code: str, path: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A process of its own, and the first thing it says; it is ended behind the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def is_free(path: Path, wait_s: float = 0.0) -> bool:
    """May one be alone now, or so soon?"""
    with presence.alone(path, b"", wait_s) as is_alone:
        return is_alone


def test_many_are_at_work_side_by_side(path: Path) -> None:
    """Legs do not wait for one another."""
    guests = [presence.join(path, 0), presence.join(path, 0)]

    with another(WORK, path) as (_, said):
        assert (True, "in") == (all(guests), said)


def test_one_who_would_be_alone_is_told_of_the_others(path: Path) -> None:
    """Of the same process too: a flock is the descriptor's."""
    guest = presence.join(path, 0)

    with another(ALONE, path) as (_, said):
        assert (False, "beside others") == (is_free(path), said)
    assert guest is not None


def test_beside_one_who_is_alone_nobody_comes_in_and_reads_who_it_is(path: Path) -> None:
    """And when it has gone, it says nothing any more."""
    with presence.alone(path, b"pid 7", 0):
        found = presence.join(path, 0.05), presence.who(path), is_free(path)

    assert (None, b"pid 7", False) == found
    assert (b"", True) == (presence.who(path), presence.join(path, 0) is not None)


def test_the_last_guest_lets_go(path: Path) -> None:
    """Not the first: the others are still at work."""
    first, second = presence.join(path, 0), presence.join(path, 0)
    assert first is not None
    assert second is not None
    first.leave()
    first.leave()
    between = is_free(path)
    second.leave()

    assert (False, True) == (between, is_free(path))


def test_who_forgets_to_leave_is_gone_with_its_object(path: Path) -> None:
    """An exception between two lines must not hold a folder for ever."""
    guest = presence.join(path, 0)
    assert guest is not None
    del guest

    assert is_free(path)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_a_death_lets_go(path: Path) -> None:
    """SIGKILL runs no clean-up; the kernel does."""
    with another(WORK, path) as (process, said):
        before = is_free(path)
        process.send_signal(signal.SIGKILL)
        process.wait(30)

        assert ("in", False, True) == (said, before, is_free(path, 10))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_holds_nothing_and_takes_nothing_from_its_parent(path: Path) -> None:
    """It outlives its parent's leg, perhaps by days; and it must not end the parent's hold by closing."""
    guest = presence.join(path, 0)
    assert guest is not None
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    beside_child = is_free(path)
    guest.leave()
    after_leaving = is_free(path, 10)
    os.close(writing)
    os.waitpid(child, 0)

    assert (False, True) == (beside_child, after_leaving)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_comes_in_by_itself(path: Path) -> None:
    """A program that forks its workers runs legs in each of them."""
    guest = presence.join(path, 0)
    assert guest is not None
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        mine = presence.join(path, 0)
        guest.leave()
        os.write(writing, b"in" if mine and not is_free(path) else b"out")
        os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reading, 10)
    os.close(reading)
    os.close(writing)

    assert b"in" == told


def test_a_program_that_a_guest_starts_does_not_hold_it(path: Path) -> None:
    """Close-on-exec: a browser that a tool left behind would keep every prune out."""
    guest = presence.join(path, 0)
    assert guest is not None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as process:
        guest.leave()
        found = is_free(path, 10)
        process.kill()

    assert found


def test_a_file_that_was_removed_and_made_anew_is_another_one(path: Path) -> None:
    """Who holds a file that has no name any more keeps nobody out, so the next guest holds the new one."""
    first = presence.join(path, 0)
    path.unlink()
    second = presence.join(path, 0)

    assert (True, True, False) == (first is not None, second is not None, is_free(path))


@pytest.mark.parametrize("make", [KeyboardInterrupt, MemoryError])
def test_an_exception_between_any_two_lines_leaves_the_folder_free(path: Path, make: Any) -> None:
    """A leg that was not opened must not keep every prune out until its process ends."""
    strikes, struck = Strikes(make), "raised"
    while struck != "spared":
        guests = list[Any]()
        struck = strikes.strike(lambda guests=guests: guests.append(presence.join(path, 0)))  # type: ignore[misc]  # at once
        del guests

        assert is_free(path)


@pytest.mark.parametrize(
    ("call", "entering"), [("open", "join"), ("open", "alone"), ("flock", "join"), ("flock", "alone")]
)
def test_what_the_machine_refuses_is_told_by_its_place(path: Path, call: str, entering: str) -> None:
    """Whoever may not hold the home must hear of that, and not work in it unseen."""
    with failing_call(call), pytest.raises(Storage) as refused, ExitStack() as stack:
        presence.join(path, 0) if entering == "join" else stack.enter_context(presence.alone(path, b"", 0))

    assert (str(path), True) == (refused.value.facts["path"], is_free(path))


def test_a_child_lets_go_of_what_its_parent_holds(path: Path) -> None:
    """What is done in a fork, done here: the descriptor is closed, and who goes on comes in by another one."""
    guest = presence.join(path, 0)

    presence._in_forked_child()
    free, again = is_free(path), presence.join(path, 0)

    assert (guest is not None, free, again is not None) == (True, True, True)
