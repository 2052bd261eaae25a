"""One at a time gives a name in a folder, and nobody is held for longer than that."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from clew.disk.naming import Naming
from clew.errors import Storage
from clew.testing import failing_call

linux = pytest.mark.skipif(sys.platform == "win32", reason="names that differ by case are one name there")


@linux
def test_one_at_a_time_holds_a_folder(tmp_path: Path) -> None:
    """What is looked up inside is still true when the name is given."""
    inside, most, together = list[int](), list[int](), Barrier(8)

    def work(number: int) -> None:
        together.wait()
        for _ in range(20):
            with Naming(tmp_path):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))

    assert (160, 1) == (len(most), max(most))


@linux
def test_a_child_that_was_forked_meanwhile_does_not_keep_the_folder(tmp_path: Path) -> None:
    """It has the descriptor too, and may live for days."""
    reading, writing = os.pipe()
    with Naming(tmp_path):
        child = os.fork()
        if child == 0:  # pragma: no cover  # another process
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    os.close(reading)

    with Naming(tmp_path):
        entered = True

    os.close(writing)
    os.waitpid(child, 0)
    assert entered


@linux
def test_what_fails_inside_lets_the_folder_go(tmp_path: Path) -> None:
    """A taken name must not hold up the next one."""
    with pytest.raises(FileExistsError), Naming(tmp_path):
        raise FileExistsError

    with Naming(tmp_path):
        entered = True

    assert entered


@linux
def test_a_holder_that_does_not_go_on_is_said(tmp_path: Path, wait_less: Callable[[float], None]) -> None:
    """A stopped process must not make every birth in its home wait for ever."""
    wait_less(0.05)
    hold = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], 0), fcntl.LOCK_EX); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(Storage) as refused, Naming(tmp_path):
            pass
        holder.communicate(b"\n")

    assert ("run_state_failed", str(tmp_path)) == (refused.value.code, refused.value.facts["path"])


@linux
def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    """Every error of the machine is told by its place."""
    with pytest.raises(Storage), Naming(tmp_path / "gone"):
        pass


@pytest.fixture
def wait_less(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Patience is a number of the module; nothing else is changed."""
    return lambda seconds: monkeypatch.setattr("clew.disk.naming._WAIT_S", seconds)


@linux
def test_a_folder_that_cannot_be_held_is_said(tmp_path: Path) -> None:
    """Some network file systems have no such lock: two births would not know of each other."""
    without = failing_call("flock", error=OSError(errno.ENOLCK, "no locks"))

    with without, pytest.raises(Storage) as refused, Naming(tmp_path):
        pass

    assert str(tmp_path) == refused.value.facts["path"]
