"""A process is really killed around a change of a file: the files settle it by themselves, or a person does."""

import signal
import subprocess
import sys
from pathlib import Path

import clew

SCRIBBLER = str(Path(__file__).with_name("scribbler.py"))


def go(folder: Path, deed: str, moment: str = "never") -> subprocess.CompletedProcess[str]:
    """One process of the run."""
    command = [sys.executable, SCRIBBLER, deed, moment]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def killed(folder: Path, moment: str, *, old: str | None = "old\n") -> None:
    """The run has died there."""
    if old is not None:
        (folder / "note").write_text(old)
    dead = go(folder, "run", moment)
    assert -signal.SIGKILL == dead.returncode, dead.stderr


def starts(folder: Path) -> int:
    return len((folder / "starts").read_text().splitlines())


def settled(folder: Path) -> list[tuple[str, str]]:
    """Who settled what, as the journal says it."""
    records = [record for record, _ in clew.FileRunStore(folder / ".clew").read("n1")]
    events = [record.payload["event"] for record in records if record.kind == "event"]
    return [(event["outcome"], event["source"]) for event in events if event["type"] == "effect_review"]


def test_killed_before_its_write_it_is_done_by_the_next_process(tmp_path: Path) -> None:
    """Every path is as it was, so nothing happened, and nobody is asked."""
    killed(tmp_path, "start")
    resumed = go(tmp_path, "resume")

    assert (0, "completed None note is written\n") == (resumed.returncode, resumed.stdout), resumed.stderr
    assert ("the whole note\n", 2, [("did_not_happen", "checkpoint")]) == (
        (tmp_path / "note").read_text(), starts(tmp_path), settled(tmp_path),
    )  # fmt: skip


def test_killed_behind_its_write_it_is_not_done_again(tmp_path: Path) -> None:
    """The file is as the tool said it would leave it: it happened, and the agent is told what it would have heard."""
    killed(tmp_path, "done", old=None)
    resumed = go(tmp_path, "resume")

    assert (0, "completed None note is written\n") == (resumed.returncode, resumed.stdout), resumed.stderr
    assert (1, [("happened", "checkpoint")]) == (starts(tmp_path), settled(tmp_path))


def test_killed_in_the_middle_of_its_write_it_waits_for_a_person(tmp_path: Path) -> None:
    """Half a note is neither: nothing is guessed and nothing written over it, until somebody says what is to count."""
    killed(tmp_path, "middle")
    paused = go(tmp_path, "resume")
    untouched = (tmp_path / "note").read_text()
    home = clew.Home(tmp_path / ".clew", takeover="proven")
    home.settle("n1", clew.DidNotHappen(), by="ann", reason="half a note is none")
    resumed = go(tmp_path, "resume")

    assert (21, "paused unknown_effect None\n", "the ") == (paused.returncode, paused.stdout, untouched), paused.stderr
    assert (0, "the whole note\n", 2) == (resumed.returncode, (tmp_path / "note").read_text(), starts(tmp_path))


def test_what_a_person_wrote_between_two_processes_stays(tmp_path: Path) -> None:
    """The note was written, the process died, and somebody went on with it by hand."""
    killed(tmp_path, "done")
    (tmp_path / "note").write_text("the whole note, and more\n")
    paused = go(tmp_path, "resume")

    assert (21, "the whole note, and more\n", 1) == (
        paused.returncode, (tmp_path / "note").read_text(), starts(tmp_path),
    )  # fmt: skip
