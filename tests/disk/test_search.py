"""The search in a process of its own: found the same, ended in time, ended by itself when nobody is left to ask."""

import contextlib
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.disk.search import TooSlow, seek_apart
from tests.disk.living import living

if sys.platform == "linux":
    from clew.disk import warden


def order(folder: Path, pattern: str, *names: str) -> dict[str, Any]:
    files = [[name, str(folder / name)] for name in names]
    return {"pattern": pattern, "ignoreCase": False, "limit": 100, "files": files}


def test_a_search_apart_finds_the_same(tmp_path: Path) -> None:
    """It is the same search, in another process."""
    (tmp_path / "x").write_text("Grüße\n")

    found = seek_apart(order(tmp_path, "ü", "x"), 30.0)

    assert {"path": "x", "line": 1, "column": 3, "text": "Grüße"} == found["matches"][0]


@pytest.mark.parametrize("pattern", ["(", "a{9999999999999}", "(?<=a+)b", "(?a)(?u)a", "(" * 5000 + ")" * 5000])
def test_what_is_no_pattern_is_told(tmp_path: Path, pattern: str) -> None:
    """The agent can write another one."""
    assert ["wrong"] == list(seek_apart(order(tmp_path, pattern), 30.0))


def test_a_pattern_that_never_ends_is_ended(tmp_path: Path) -> None:
    """In this process it would hold every thread, for days, and no signal would reach it."""
    (tmp_path / "x").write_text("a" * 64 + "b")

    with pytest.raises(TooSlow):
        seek_apart(order(tmp_path, "(a|a)*$", "x"), 0.5)


def test_a_search_that_came_to_no_end_is_no_answer(tmp_path: Path) -> None:
    """It was killed, or has run out of memory: that nothing was found is not known."""
    if sys.platform == "win32":
        pytest.skip("devices of Unix")
    with pytest.raises(OSError, match="exit code"):
        seek_apart({"pattern": "x", "ignoreCase": False, "limit": 1}, 30.0)


def test_a_program_without_an_interpreter_does_not_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The executable of a frozen program is itself."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)

    with pytest.raises(OSError, match="no Python interpreter"):
        seek_apart(order(tmp_path, "x"), 30.0)


@pytest.mark.parametrize(("pattern", "names"), [("[[a]", ["x"]), ("x", ["no such order"])])
def test_a_search_says_nothing_on_our_streams(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], pattern: str, names: list[str]
) -> None:
    """A warning about a model's pattern, or a traceback, is no progress of the run that the screen shows."""
    (tmp_path / "x").write_text("a")
    asked = order(tmp_path, pattern, *names)

    with contextlib.suppress(OSError):
        seek_apart(asked if names == ["x"] else {**asked, "files": None}, 30.0)

    assert ("", "") == capfd.readouterr()


STRUCK = """
import os, signal, sys
from clew.disk.search import seek_apart
os.setpgid(0, 0)
signal.signal(signal.SIGINT, lambda *_: print("struck", flush=True))
print("ready", flush=True)
print(seek_apart({"pattern": "b", "ignoreCase": False, "limit": 1, "files": [["up", sys.argv[1]]]}, 30.0)["searched"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="signals of Unix")
def test_ctrl_c_at_the_keyboard_does_not_tear_a_search(tmp_path: Path) -> None:
    """It reaches the whole group, and asks the run to pause at its next safe point: behind the search."""
    os.mkfifo(tmp_path / "up")
    with living(STRUCK, tmp_path / "up") as owner:
        said = [owner.says()]
        # Opened from the other side, so the search has begun.
        with (tmp_path / "up").open("w") as file:
            os.killpg(owner.pid, signal.SIGINT)
            said.append(owner.says())
            file.write("b")
        said.append(owner.says())

    assert ["ready", "struck", "1"] == said


SEEKS = """
import sys
from clew.disk.search import seek_apart
files = [["up", sys.argv[1]], ["x", sys.argv[2]]]
seek_apart({"pattern": "(a|a)*$", "ignoreCase": False, "limit": 1, "files": files}, 1.0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="its number is found in procfs")
def test_a_search_ends_although_who_asked_has_died(tmp_path: Path) -> None:
    """It would hold a processor for ever: the alarm is its own."""
    os.mkfifo(tmp_path / "up")
    (tmp_path / "x").write_text("a" * 64 + "b")
    with living(SEEKS, tmp_path / "up", tmp_path / "x") as owner:
        # Its first file is opened, so it has begun.
        (tmp_path / "up").write_text("")
        (search,) = warden.below(owner.pid, warden.processes())
        held = os.pidfd_open(search.pid)
        owner.kill()
    ended, _, _ = select.select([held], [], [], 30)
    signal.pidfd_send_signal(held, signal.SIGKILL) if not ended else None
    os.close(held)

    assert [held] == ended
