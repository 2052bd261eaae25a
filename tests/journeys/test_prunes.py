"""Real processes that prune a home and are really killed amid it, and legs that would go on meanwhile."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import Held
from clew.stores.blobs import FileBlobStore

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here"),
    pytest.mark.journeys,
]
# What a prune asks of the system, by the names that these functions have in Python.
DEEDS = frozenset(
    ["open", "write", "fsync", "close", "link", "unlink", "replace", "rename", "mkdir", "ftruncate", "flock", "scandir",
     "listdir", "lseek"]
)  # fmt: skip
LONG = "y" * 30_000


def going(run: Any, prompt: Any) -> str:
    """Keeps something, gets a long answer, pauses in its first leg."""
    run.artifact("report", b"going " * 100)
    answer: str = run.step("think", lambda: LONG)
    if prompt == "pause" and not Path(run.workspace, "resumed").exists():
        run.pause("my_reason")
    return str(len(answer))


def ended(run: Any, prompt: Any) -> str:
    """Keeps what goes, and what another run keeps too."""
    run.artifact("mine", b"ended " * 1000)
    run.artifact("shared", b"going " * 100)
    return "done"


def first(run: Any, prompt: Any) -> None:
    """Makes the home."""


class Place:
    """A home with a run that may go on, one that has ended, blobs of nobody, packs and halves of the dead."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.root = folder / ".clew"
        self.home.run_sync(first, run_id="first", signals=False)
        blobs = FileBlobStore(self.root)
        blobs.put(b"nobody's")
        for contents in ([b"going " * 100, b"1" * 300, b"2" * 300], [b"3" * 300]):
            with blobs.pack() as pack:
                for content in contents:
                    pack.keep([content])
        self.home.run_sync(going, "pause", run_id="going", signals=False)
        self.home.run_sync(ended, run_id="ended", signals=False)
        (self.root / "runs" / f".x.{_dead()}-1.tmp").write_bytes(b"half")

    @property
    def home(self) -> clew.Home:
        return clew.Home(self.root, takeover="proven")

    def prune(self) -> dict[str, Any]:
        return self.home.prune(keep_days=0)

    def files(self) -> set[str]:
        """All that lies there but what says when it was pruned."""
        paths = (path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())
        return {path for path in paths if not path.startswith("blobs/pruned/")}

    def see(self) -> dict[str, Any]:
        """What every reader must find, whatever happened to the prune."""
        verdicts = {run_id: self.home.verify(run_id, deep=True) for run_id in ("going", "ended")}
        return {
            "missing": [verdict["missingBlobs"] for verdict in verdicts.values()],
            "pruned of going": verdicts["going"]["prunedBlobs"],
            "findings": [verdict["findings"] for verdict in verdicts.values()],
            "report": self.home.artifact("going", "report").read() == b"going " * 100,
        }


SOUND = {"missing": [[], []], "pruned of going": {}, "findings": [[], []], "report": True}


def _dead() -> int:
    """A number whose process is gone."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child


def amid(number: int, strike: Callable[[], None], deed: Callable[[], object]) -> int:
    """Do it in a process that is struck right before its n-th deed; returns its number."""
    child = os.fork()
    if child:
        return child
    left = number

    def count(frame: Any, event: str, called: Any) -> None:
        nonlocal left
        if event == "c_call" and called.__name__ in DEEDS and called.__module__ in ("posix", "fcntl"):
            left -= 1
            if left == 0:
                strike()

    code = 1
    try:
        sys.setprofile(count)
        deed()
        sys.setprofile(None)
        code = 0
    finally:
        os._exit(code)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at(number: int, deed: Callable[[], object]) -> bool:
    """Was there an n-th deed to be killed at?"""
    _, status = os.waitpid(amid(number, die, deed), 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the prune raised"
    return os.WIFSIGNALED(status)


def sweep(tmp_path: Path, step: int, first: int) -> int:
    """Kill a prune at its deeds, `step` apart; each time look, prune again, and compare with one that was let be."""
    calm = Place(tmp_path / "calm")
    calm.prune()
    number, expected = first, calm.files()
    while True:
        place = Place(tmp_path / f"p{number}")
        if not killed_at(number, place.prune):
            return number
        assert place.see() == SOUND, f"killed at deed {number}"
        again = place.prune()
        assert (expected, []) == (place.files(), again["notRemoved"]), f"killed at deed {number}"
        assert place.see() == SOUND, f"killed at deed {number}, pruned again"
        assert {} == place.prune()["went"], f"killed at deed {number}, pruned once more"
        (place.folder / "resumed").touch()
        assert str(len(LONG)) == place.home.resume_sync("going", going, signals=False).output
        number += step


def test_a_prune_that_is_killed_anywhere_converges(tmp_path: Path) -> None:
    """What is missing behind a death is recorded as pruned, and the next prune ends where the first one would have."""
    assert sweep(tmp_path, 10, 5) > 80


@pytest.mark.crash
def test_a_prune_that_is_killed_at_every_deed_converges(tmp_path: Path) -> None:
    """All of them."""
    assert sweep(tmp_path, 1, 1) > 80


def test_a_leg_waits_for_a_prune_that_is_amid_its_work(tmp_path: Path) -> None:
    """Refused with a name as long as it lasts; and free again when the prune is killed instead of ended."""
    place = Place(tmp_path / "p")
    child = amid(50, lambda: os.kill(os.getpid(), signal.SIGSTOP), place.prune)
    os.waitpid(child, os.WUNTRACED)
    with pytest.raises(Held) as meanwhile:
        place.home.resume_sync("going", going, signals=False)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (place.folder / "resumed").touch()
    result = place.home.resume_sync("going", going, signals=False)

    assert ("home_being_pruned", True) == (meanwhile.value.code, f'"pid":{child}' in meanwhile.value.message)
    assert "completed" == result.operation.state


def test_a_prune_is_kept_out_by_a_leg_in_another_process_until_that_is_killed(tmp_path: Path) -> None:
    """The kernel lets go of what a SIGKILL leaves; what the dead leg put down and never recorded goes."""
    place = Place(tmp_path / "p")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:

        def hold(run: Any, prompt: Any) -> None:
            place.home.reader.blobs.put(b"before its record")
            os.write(writing, b"1")
            signal.pause()

        place.home.run_sync(hold, run_id="live", signals=False)
        os._exit(0)
    os.read(reading, 1)
    with pytest.raises(Held) as meanwhile:
        place.prune()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)
    report = place.prune()

    assert ("home_in_use", ["live"], child) == (
        meanwhile.value.code, meanwhile.value.facts["runs"], meanwhile.value.facts["owners"][0]["pid"],
    )  # fmt: skip
    assert 5 == report["went"]["unreferenced"]["count"]
