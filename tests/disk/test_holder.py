"""Who holds a lock is told as far as the system knows it, and never guessed."""

import os
import sys
from pathlib import Path

import pytest

from clew.disk.append import AppendFile
from clew.disk.holder import holder_of
from tests.disk.living import living

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who holds a lock")

LOCKS = """\
1: POSIX  ADVISORY  WRITE 11 08:01:77 0 EOF
2: FLOCK  ADVISORY  WRITE 22 08:01:77 0 EOF
2: -> FLOCK  ADVISORY  WRITE 33 08:01:77 0 EOF
3: FLOCK  ADVISORY  WRITE -1 08:01:78 0 EOF
4: FLOCK  ADVISORY  WRITE 44 08:01:9
"""


def test_the_process_that_holds_a_file_is_named(tmp_path: Path) -> None:
    """The user must know which process to look for."""
    path = tmp_path / "f"
    path.write_bytes(b"x")
    file = AppendFile.open(path, wait_s=0.0)
    assert file is not None

    found = holder_of(path)

    file.close()
    assert (os.getpid(), "alive") == (found["pid"], found["state"])


def test_nobody_is_named_where_nobody_holds(tmp_path: Path) -> None:
    """A wrong name would send a person after the wrong process."""
    (tmp_path / "f").write_bytes(b"x")

    assert [{}, {}] == [holder_of(tmp_path / "f"), holder_of(tmp_path / "none")]


@pytest.mark.parametrize(("place", "pid"), [("08:01:77", 22), ("08:01:78", 0), ("08:01:7", 0), ("08:01:9", 44)])
def test_only_the_flock_of_the_very_file_counts(place: str, pid: int) -> None:
    """Who waits for it does not have it, and a record lock is another lock."""
    from clew.disk.holder import pid_in

    assert pid == pid_in(LOCKS, place)


def test_a_holder_that_has_ended_meanwhile_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the list of locks and the look at the process it may die; its number may be another's next."""
    path = tmp_path / "f"
    path.write_bytes(b"x")
    with living("print('here', flush=True)") as process:
        process.says()
        process.process.wait()
    found = path.stat()
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    (tmp_path / "locks").write_text(f"1: FLOCK  ADVISORY  WRITE {process.pid} {place} 0 EOF\n")
    monkeypatch.setattr("clew.disk.holder._LOCKS", tmp_path / "locks")

    told = holder_of(path)

    assert {} == told
