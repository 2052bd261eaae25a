"""The loop example killed in each phase of each round, at all that it records there, and resumed to an end."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.town import KEPT

pytestmark = pytest.mark.journeys

EXAMPLE = Path(__file__).parents[2] / "examples" / "loop_fix"
FIXER = Path(__file__).with_name("fixer.py")
PHASES = ["planning", "executing", "verifying", "repairing", "verifying", "repairing", "verifying", "succeeded"]
# Appends of a whole run: after the birth and each phase's record, what its step appends.
INSIDE = {"planning": 3, "executing": 7, "verifying": 3, "repairing": 7}


class Workshop:
    """A folder with the example in it, and one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".clew"), dirs_exist_ok=True)

    def go(self, deed: str, *kill: str) -> int:
        """One process of the run, to its end."""
        done = subprocess.run(
            [sys.executable, str(FIXER), deed, "r1", *kill], cwd=self.folder, capture_output=True, check=False,
            timeout=240, env={**KEPT, "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        return done.returncode

    @property
    def records(self) -> list[dict[str, Any]]:
        journal = self.folder / ".clew" / "runs" / "r1.jsonl"
        return [json.loads(line) for line in journal.read_text("utf-8").splitlines()] if journal.exists() else []

    @property
    def phases(self) -> list[str]:
        return [record["payload"]["phase"] for record in self.records if record["kind"] == "loop"]

    @property
    def answered(self) -> list[str]:
        """Steps and calls that have their answer."""
        told = [record["payload"]["event"] for record in self.records if record["kind"] == "event"]
        return [event["stepId"] for event in told if event["type"] == "step_output"]

    def asked(self) -> int:
        """So often a model was asked."""
        told = [record["payload"]["event"] for record in self.records if record["kind"] == "event"]
        return sum(event["type"] == "agent_start" for event in told)

    def passes(self) -> bool:
        """Does the project pass its tests, asked without clew?"""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        return subprocess.run(command, cwd=self.folder / "wallet", capture_output=True, check=False).returncode == 0


def places() -> list[tuple[int, str]]:
    """The appends to die at, with the phase that is on disk then: each phase's record, and all of its step's."""
    found, number = [], 1
    for phase in PHASES[:-1]:
        found += [(number + 1 + n, phase) for n in range(1 + INSIDE[phase])]
        number += 1 + INSIDE[phase]
    return found


def test_the_appends_of_the_example_are_where_they_are_looked_for(tmp_path: Path) -> None:
    """If the example changes, the deaths below would be somewhere else than they say."""
    shop = Workshop(tmp_path)
    end = shop.go("run")
    starts = sorted({record["append"] for record in shop.records})
    loops = [starts.index(record["append"]) + 1 for record in shop.records if record["kind"] == "loop"]

    begins = [number for number, phase in places() if (number - 1, phase) not in places()]

    assert (0, PHASES, begins) == (end, shop.phases, loops[:-1])


@pytest.mark.parametrize(("number", "phase"), places())
def test_a_loop_that_is_killed_goes_on_in_its_phase(tmp_path: Path, number: int, phase: str) -> None:
    """#216, #221: nothing that was answered is done again, no answered turn is paid twice, and pytest passes."""
    shop = Workshop(tmp_path)
    killed = shop.go("run", f"after:{number}")
    known, at = shop.answered, shop.phases[-1]

    end = shop.go("resume")

    assert (-9, phase, 0, PHASES, True) == (killed, at, end, shop.phases, shop.passes())
    assert known == shop.answered[: len(known)]
    assert len(set(shop.answered)) == len(shop.answered)
    assert shop.asked() - 3 in (0, 1)
