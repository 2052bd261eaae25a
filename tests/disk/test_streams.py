"""What is opened while a standard stream is closed does not get its number."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from clew.disk.streams import clear, pipe
from tests.disk.living import output_of

CLOSED = """
import os, sys
from pathlib import Path
from clew.disk import append, files
for number in map(int, sys.argv[2].split()):
    os.close(number)
path = Path(sys.argv[1])
file = append.birth(path, b"one\\n")
if sys.argv[3] == "opened":
    file.close()
    file = append.AppendFile.open(path, wait_s=0.0)
for number in (0, 1, 2):
    try:
        os.write(number, b"a library warns\\n")
    except OSError:
        pass
file.append(b"two\\n")
file.close()
files.publish(Path(sys.argv[1] + ".head"), lambda fd: str(fd).encode())
"""


def test_a_descriptor_above_the_streams_stays_as_it_is() -> None:
    """Another number would make whoever holds the first one close a stranger's file."""
    reading, writing = os.pipe()

    found = clear(reading)

    assert reading == found
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("closed", ["0", "1", "2", "1 2", "0 1 2"])
@pytest.mark.parametrize("how", ["born", "opened"])
def test_what_is_said_on_a_closed_stream_does_not_go_into_the_journal(tmp_path: Path, closed: str, how: str) -> None:
    """A daemon is started without streams, a library warns: every journal that is open then would be damaged."""
    path = tmp_path / "journal"

    output_of(CLOSED, path, closed, how)

    assert b"one\ntwo\n" == path.read_bytes()
    assert int((tmp_path / "journal.head").read_bytes()) > 2


@pytest.mark.skipif(sys.platform != "linux", reason="looks into procfs")
@pytest.mark.parametrize("closed", ["0", "2", "0 2"])
def test_both_ends_of_a_pipe_are_clear(closed: str) -> None:
    """A child is handed one of them beside its streams; one that is a stream itself never reaches it."""
    code = (
        "import os, sys; from clew.disk.streams import pipe; streams = [int(each) for each in sys.argv[1].split()];"
        "[os.close(each) for each in streams];"
        "print(*(end > 2 for end in pipe()), sum(os.path.exists(f'/proc/self/fd/{each}') for each in streams))"
    )

    assert ["True True 0"] == output_of(code, closed)


def test_a_pipe_carries_what_is_written() -> None:
    """The ends must not be mixed up."""
    reading, writing = pipe()
    os.write(writing, b"x")

    found = os.read(reading, 2)

    assert b"x" == found
    os.close(reading)
    os.close(writing)


@contextmanager
def without_streams() -> Iterator[None]:
    """Within it this process has neither input nor output, so what is opened gets their numbers."""
    kept = [os.dup(number) for number in (0, 1)]
    for number in (0, 1):
        os.close(number)
    try:
        yield
    finally:
        for number, fd in enumerate(kept):
            os.dup2(fd, number)
            os.close(fd)


def test_a_descriptor_with_the_number_of_a_stream_gets_another(tmp_path: Path) -> None:
    """What is said on that stream later would be written into the file."""
    with without_streams():
        low = os.open(tmp_path / "journal", os.O_CREAT | os.O_WRONLY)

        found = clear(low)

    assert (low, found > 2, os.fstat(found).st_ino) == (0, True, (tmp_path / "journal").stat().st_ino)
    os.close(found)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into procfs")
@pytest.mark.parametrize("call", [1, 2])
def test_a_pipe_that_finds_no_number_leaves_nothing_open(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every failed start of a tool would cost two descriptors, until the process has none left."""
    dup, calls = os.dup, count(1)

    def refused(fd: int) -> int:
        if next(calls) == call:
            raise OSError(errno.EMFILE, "too many open files")
        return dup(fd)

    before = os.listdir("/proc/self/fd")

    with without_streams():
        monkeypatch.setattr(os, "dup", refused)
        with pytest.raises(OSError, match="too many open files"):
            pipe()
        # The streams' own numbers are free again.
        low = [os.open(os.devnull, os.O_RDONLY) for _ in range(2)]

    assert ([0, 1], before) == (low, os.listdir("/proc/self/fd"))
