"""`clew doctor` as it is typed."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Done, Shell

SILENT = """
import clew

@clew.tool
def silent(): ...

@clew.agent(tools=[silent])
def settle(run, prompt): ...
"""


@pytest.fixture
def ended(shell: Shell) -> Shell:
    """A home with one run that is done."""
    shell("run", "agent.py:settle", "1", "--run-id", "done")
    return shell


def findings(done: Done, level: str) -> list[tuple[str, str]]:
    return [(each["about"], each["what"]) for each in done.json["findings"] if each["level"] == level]


def test_a_sound_home_ends_with_zero(ended: Shell) -> None:
    """For a script that asks before it lets runs start."""
    done = ended("doctor")

    assert 0 == done.code
    assert "OK       home" in done.out
    assert "PROBLEM" not in done.out


def test_looking_changes_nothing(ended: Shell) -> None:
    """Not one byte, not one modification time (promise 11)."""
    before = ended.bytes_and_times()
    ended("doctor")

    assert before == ended.bytes_and_times()


def test_findings_and_facts_are_json(ended: Shell) -> None:
    """A monitor reads the level, a person the words."""
    done = ended("doctor", "--json")

    assert (0, 0, []) == (done.code, done.json["exit"], findings(done, "problem"))
    assert 1 == done.json["facts"]["runs"]
    assert {"level", "about", "what"} <= set(done.json["findings"][0])


def test_a_damaged_journal_ends_with_twelve(ended: Shell) -> None:
    """The code that a run would meet there."""
    (ended.folder / ".clew" / "runs" / "done.jsonl").write_bytes(b"no journal\n")

    done = ended("doctor")

    assert 12 == done.code
    assert "PROBLEM  journal" in done.out
    assert "next: clew verify done" in done.out


def test_a_copied_home_ends_with_four_until_it_is_freed(ended: Shell) -> None:
    """In real processes, with `cp`: what is refused, what the doctor says, and the word that frees it."""
    subprocess.run(["cp", "-a", ".clew", "copy"], cwd=ended.folder, check=True)

    told = ended("doctor", "--home", "copy")
    refused = ended("abort", "done", "--home", "copy")
    freed = ended("unlock", "--home", "copy", "--by", "ann", "--reason", "the old disk is dead")
    after = ended("doctor", "--home", "copy")

    assert [4, 4, 0, 0] == [each.code for each in (told, refused, freed, after)]
    assert "[home_copied]" in refused.err
    assert "clew unlock --home" in told.out


@pytest.mark.parametrize("packed", [False, True])
def test_a_restored_home_resumes_nothing_before_it_is_freed(shell: Shell, packed: bool) -> None:
    """A backup does not know what happened since; `mv` is no backup."""
    shell.raise_flag("boom")
    shell("run", "agent.py:settle", "1", "--run-id", "doubtful")
    if packed:
        subprocess.run(["tar", "-cf", "backup.tar", ".clew"], cwd=shell.folder, check=True)
        shutil.rmtree(shell.folder / ".clew")
        subprocess.run(["tar", "-xpf", "backup.tar"], cwd=shell.folder, check=True)
    else:
        subprocess.run(["mv", ".clew", "away"], cwd=shell.folder, check=True)
        subprocess.run(["mv", "away", ".clew"], cwd=shell.folder, check=True)

    settled = shell("settle", "doubtful", "did-not-happen", "--by", "ann", "--reason", "no such transfer")

    assert (4 if packed else 0, packed) == (settled.code, "[home_copied]" in settled.err)


def test_what_is_left_open_is_a_warning_and_no_problem(shell: Shell) -> None:
    """A killed run and its uncertain payment are somebody's move, not damage."""
    shell.raise_flag("die")
    shell("run", "agent.py:settle", "1042", "--run-id", "killed")

    done = shell("doctor", "--json")

    assert (0, []) == (done.code, findings(done, "problem"))
    assert {"leg", "effect"} <= {about for about, _ in findings(done, "warning")}


def test_the_tools_of_an_agent_are_looked_at(ended: Shell) -> None:
    """Before anything is paid."""
    (ended.folder / "other.py").write_text(SILENT, "utf-8")

    done = ended("doctor", "--agent", "other.py:settle", "--json")

    assert [("tool", "tool 'silent' says nothing of its effect: it counts as external and is never repeated")] == [
        each for each in findings(done, "note") if each[0] == "tool"
    ]


def test_a_home_that_is_not_there_is_ten(typed: Callable[..., Done], tmp_path: Path) -> None:
    """And none is made."""
    done = typed("doctor", "--json")

    assert (10, "no_home", []) == (done.code, done.error["code"], list(tmp_path.iterdir()))
