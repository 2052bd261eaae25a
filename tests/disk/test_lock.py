"""The kernel's lock: who is refused, and what frees it."""

import os
from pathlib import Path

import pytest

from clew.disk.lock import take, try_lock
from tests.disk.living import HOLDER, living


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    path.write_bytes(b"")
    return path


def test_a_second_descriptor_of_the_same_process_is_refused(path: Path) -> None:
    """POSIX record locks would grant it, and two writers in one process would overwrite each other."""
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    try_lock(first)

    granted = try_lock(second)

    assert granted is False
    os.close(first)
    os.close(second)


def test_closing_another_descriptor_does_not_free_it(path: Path) -> None:
    """A reader in the same process must not take the writer's lock away by ending."""
    first = os.open(path, os.O_RDWR)
    try_lock(first)
    os.close(os.open(path, os.O_RDWR))
    third = os.open(path, os.O_RDWR)

    granted = try_lock(third)

    assert granted is False
    os.close(first)
    os.close(third)


def test_closing_the_holder_frees_it(path: Path) -> None:
    """There is no other way to let go, so this one must work."""
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    try_lock(first)
    os.close(first)

    granted = try_lock(second)

    assert granted is True
    os.close(second)


def test_a_living_holder_is_waited_for_in_vain(path: Path) -> None:
    """The lock is never taken by age, however long one waits."""
    fd = os.open(path, os.O_RDWR)
    with living(HOLDER, path) as holder:
        holder.says()

        granted = take(fd, 0.05)

    assert granted is False
    os.close(fd)


def test_a_stopped_holder_still_holds(path: Path) -> None:
    """It may go on at any moment and write."""
    fd = os.open(path, os.O_RDWR)
    with living(HOLDER, path) as holder:
        holder.says()
        holder.stop()

        granted = take(fd, 0.05)

    assert granted is False
    os.close(fd)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_killed_holder_frees_it(path: Path, stopped: bool) -> None:
    """A death is the kernel's knowledge: nobody has to judge it, nor wait for a lease to end."""
    fd = os.open(path, os.O_RDWR)
    with living(HOLDER, path) as holder:
        holder.says()
        if stopped:
            holder.stop()
        holder.kill()

        granted = take(fd, 10.0)

    assert granted is True
    os.close(fd)
