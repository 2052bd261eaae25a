"""Restores among random mixes of tools, subprocesses and people, and restores that are really killed."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.journeys.mixes import MIXES, Mix, judge, play
from tests.stores.dying import quick_folder

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def judged(mix: Mix) -> None:
    with tempfile.TemporaryDirectory() as folder:
        judge(play(Path(folder), mix), mix)


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(MIXES)
def test_a_persons_bytes_are_never_lost(mix: Mix) -> None:
    """C56, C57, C59 to C63: what a person did stays and is told, all else goes back byte for byte, with its mode."""
    judged(mix)


@pytest.mark.journeys
@settings(max_examples=500, deadline=None, suppress_health_check=SLOW)
@given(MIXES)
def test_in_500_mixes_a_persons_bytes_are_never_lost(mix: Mix) -> None:
    """The same, as often as the issue asks for."""
    judged(mix)


# Deaths.


def killed(folder: Path, first: int, every: int) -> list[dict[str, Any]]:
    """What became of restores of fifty paths, killed at file operation `first` and at each `every`-th after it."""
    script = Path(__file__).with_name("restorer.py")
    words = [sys.executable, str(script), str(folder / "work"), str(first), str(every)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=3000, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("first", [pytest.param(1, marks=pytest.mark.crash), 7])
def test_a_restore_that_is_killed_at_any_file_operation_is_ended_by_the_next(first: int) -> None:
    """W26, W28: one consistent tree each time, nothing left beside it, and a person's file in between stays."""
    with quick_folder() as folder:
        found = killed(folder, first, 1 if first == 1 else 10)

    assert [] == [each for each in found if each["problem"]]
    assert [True] * (len(found) - 1) + [False] == [each["died"] for each in found]
    assert len(found) > (500 if first == 1 else 50)
