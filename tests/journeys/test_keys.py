"""Business keys under real processes that are really killed: whatever dies when, each order is paid once."""

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.journeys.town import KEPT

KEEPER = Path(__file__).with_name("keykeeper.py")
PROCESSES, KEYS, DOOMED = 50, 100, 15


def keeper(folder: Path, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(KEEPER), *words]
    env = {**KEPT, "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)


def swept(folder: Path, first: int, last: int) -> list[dict[str, Any]]:
    """What each death in a range of calls of the system came to."""
    process = keeper(folder, "sweep", str(first), str(last))
    out, err = process.communicate(timeout=240)
    assert (0, "") == (process.returncode, err)
    return [json.loads(line) for line in out.splitlines()]


def faults(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Deaths after which the key was not paid exactly once, or somebody was told that another run has paid it."""
    wrong = []
    for one in found:
        payer = one["effects"][0].split()[1] if one["effects"] else ""
        mine = [run for run, (state, _) in one["told"].items() if state == "mine"]
        lied = [run for run, (state, who) in one["told"].items() if state == "committed" and who != payer]
        if len(one["effects"]) != 1 or one["codes"][1] != 0 or lied or any(run != payer for run in mine):
            wrong.append(one)
    return wrong


def test_a_death_around_the_claim_leaves_one_payment(tmp_path: Path) -> None:
    """Before it, amid it, between it and the start: the next run pays, or the first once it is resumed."""
    found = swept(tmp_path, 293, 305)

    assert ([], 12) == (faults(found), len(found))


@pytest.mark.crash
@pytest.mark.parametrize("first", [2, 90, 180, 270])
def test_a_death_at_any_call_of_the_system_leaves_one_payment(tmp_path: Path, first: int) -> None:
    """Two deaths for each key, of the run that has it and of the run that takes it over."""
    found = swept(tmp_path, first, first + 90)

    assert ([], 90) == (faults(found), len(found))


@pytest.mark.journeys
def test_fifty_processes_race_for_a_hundred_keys(tmp_path: Path) -> None:
    """Each order is paid once whoever dies, and everybody else hears who paid it."""
    keys, chance = [f"order-{number}" for number in range(KEYS)], random.Random(7)
    deaths = {number: chance.randrange(400, 9000) for number in chance.sample(range(PROCESSES), DOOMED)}
    processes = [keeper(tmp_path, "run", f"r{n}", str(deaths.get(n, 0)), *keys) for n in range(PROCESSES)]
    ends = [(process.communicate(timeout=230), process.returncode) for process in processes]
    killed = [number for number, (_, code) in enumerate(ends) if code == -9]
    for number in killed:
        resumed = keeper(tmp_path, "resume", f"r{number}", "0")
        resumed.communicate(timeout=120)
    effects = [line.split() for line in (tmp_path / "effects").read_text("ascii").splitlines()]
    payer = dict(effects)
    told = {n: json.loads((tmp_path / f"told-r{n}").read_text("ascii")) for n in range(PROCESSES)}
    wrong = [
        (n, key, state, who)
        for n, answers in told.items()
        for key, (state, who) in answers.items()
        if payer[key] != (f"r{n}" if state == "mine" else who)
    ]

    assert Counter(dict.fromkeys(keys, 1)) == Counter(key for key, _ in effects)
    assert [] == wrong
    assert len(killed) > DOOMED // 2
    assert [] == [said for (_, said), code in ends if code not in (0, -9)]
    assert clew.Home(tmp_path / ".clew").rebuild_keys() == {
        "runs": PROCESSES, "held": KEYS, "free": 0, "complete": True, "counts": {}, "added": [], "conflicts": [],
        "unreadable": [],
    }  # fmt: skip
