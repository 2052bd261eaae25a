"""A tree of runs, three deep, killed a hundred times at random: every payment once, every child joined."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.journeys.family import everything
from tests.journeys.town import KEPT

FAMILY = Path(__file__).with_name("family.py")
KILLS = 50
RUNS = 1 + 2 + 4 + 4


class Tree:
    """One tree in a folder of its own, until nothing of it is left to do."""

    def __init__(self, folder: Path, face: str, chance: random.Random) -> None:
        self.folder = folder
        self.face = face
        self.chance = chance
        self.killed = 0
        (folder / "paid").mkdir(parents=True)
        self.home = clew.Home(folder / ".clew")

    def born(self) -> bool:
        return (self.folder / ".clew" / "runs" / "top.jsonl").exists()

    def ended(self) -> bool:
        return self.born() and self.home.result("top").operation.state in ("completed", "failed")

    def leg(self, *, deadly: bool) -> None:
        """One process; a deadly one is killed at some moment of its work, wherever it then is."""
        command = [sys.executable, str(FAMILY), "resume" if self.born() else "run", "top", self.face]
        victim = subprocess.Popen(
            command, cwd=self.folder, env=KEPT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert victim.stdout is not None
        with victim.stdout as said:
            assert said.readline() == "ready\n"
            try:
                victim.wait(timeout=self.chance.uniform(0.0, 0.12) if deadly else 60)
            except subprocess.TimeoutExpired:
                victim.kill()
                self.killed += 1
        victim.wait(timeout=30)

    def report(self) -> dict[str, Any]:
        """What must be true of every tree in the end."""
        paid = sorted(path.name.split("-", 2)[2] for path in (self.folder / "paid").iterdir())
        states = {run_id: self.home.reader.see(run_id).state for run_id in self.home.reader.store.ids()}
        return {
            "paid": paid,
            "runs": len(states),
            "states": {state.state for state in states.values()},
            "children": {known.status for state in states.values() for known in state.delegations.values()},
            "tails": {self.home.verify(run_id)["tail"]["verdict"] for run_id in states},
        }


HONEST = {
    "paid": sorted(everything("top")),
    "runs": RUNS,
    "states": {"completed"},
    "children": {"joined"},
    "tails": {"clean"},
}


@pytest.mark.journeys
@pytest.mark.parametrize("face", ["async", "plain"])
def test_a_tree_that_is_killed_again_and_again_pays_everything_once(tmp_path: Path, face: str) -> None:
    """Half of a hundred deaths a face: whoever comes next adopts what was left, and starts nothing again."""
    chance, killed = random.Random(face), 0
    reports: list[dict[str, Any]] = []
    while killed < KILLS:
        tree = Tree(tmp_path / f"tree-{len(reports)}", face, chance)
        while not tree.ended():
            tree.leg(deadly=killed + tree.killed < KILLS)
        killed += tree.killed
        reports.append(tree.report())

    assert (KILLS, []) == (killed, [report for report in reports if report != HONEST])
