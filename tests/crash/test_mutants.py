"""Each planted bug makes the test that claims it turn red; a sweep that cannot fail proves nothing.

A bug is a patch in `mutants/`, headed by a sentence, the promise of DESIGN §1 that it breaks, the row of the table that
claims it, and the test that must see it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.crash.rows import ROWS
from tests.house.tree import ROOT, SRC

MUTANTS = Path(__file__).with_name("mutants")
_HEAD = re.compile(r"\A(?P<words>.+)\n\npromise: (?P<promise>\d+)\nrow: (?P<row>\d+)\ntest: (?P<test>\S+)\n\n--- ")
QUICK = ("no-sync-of-an-append", "any-bad-end-is-torn")
"""Planted in the daily suite as well."""


class Mutant(NamedTuple):
    """One planted bug."""

    name: str
    promise: int
    row: int
    test: str

    def __str__(self) -> str:
        return self.name


def mutants() -> list[Mutant]:
    """All of them, by name."""
    found = []
    for path in sorted(MUTANTS.glob("*.patch")):
        head = _HEAD.match(path.read_text("utf-8"))
        assert head is not None, path
        found.append(Mutant(path.stem, int(head["promise"]), int(head["row"]), head["test"]))
    return found


ALL = mutants()


def copied(folder: Path) -> Path:
    """The package in a folder of its own."""
    shutil.copytree(SRC / "clew", folder / "src" / "clew", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "src"


def judged(source: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """pytest, in a process whose clew is the one that lies there."""
    env = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("PYTEST_XDIST_WORKER", None)
    marks = "not journeys and not crash"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=line", "-m", marks, *words]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=600)


def caught(mutant: Mutant, folder: Path) -> str:
    """`caught` when the test that claims it fails; else what pytest said."""
    source = copied(folder)
    patch = MUTANTS / f"{mutant.name}.patch"
    subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True, timeout=60)
    done = judged(source, mutant.test)
    return "caught" if done.returncode == 1 and "\nFAILED " in done.stdout else done.stdout + done.stderr


@pytest.mark.parametrize("mutant", [mutant for mutant in ALL if mutant.name in QUICK], ids=str)
def test_a_planted_bug_is_caught(mutant: Mutant, tmp_path: Path) -> None:
    """Row 30, two of them."""
    assert "caught" == caught(mutant, tmp_path)


@pytest.mark.crash
@pytest.mark.parametrize("mutant", [mutant for mutant in ALL if mutant.name not in QUICK], ids=str)
def test_every_planted_bug_is_caught(mutant: Mutant, tmp_path: Path) -> None:
    """Row 30: by the test that claims it."""
    assert "caught" == caught(mutant, tmp_path)


def test_the_copy_is_what_is_tested(tmp_path: Path) -> None:
    """Else every bug would be planted beside the code that runs."""
    code = "import clew, sys; print(clew.__file__)"
    env = {**os.environ, "PYTHONPATH": str(copied(tmp_path))}

    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=60)

    assert str(tmp_path / "src" / "clew" / "__init__.py") == done.stdout.strip()


def broken() -> Iterator[int]:
    yield from (mutant.promise for mutant in ALL)


def test_each_promise_is_broken_at_least_once() -> None:
    """Each of the twelve of DESIGN §1, or one of them would be a sentence only."""
    assert set(range(1, 13)) == set(broken())


def test_each_planted_bug_is_claimed_by_a_row() -> None:
    """A bug that no row of the table claims would be caught by chance."""
    assert [] == [mutant.name for mutant in ALL if mutant.row not in ROWS]
