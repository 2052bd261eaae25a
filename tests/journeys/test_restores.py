"""Restores among random mixes of tools, subprocesses and people, and restores that are really killed."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.journeys.mixes import MIXES, Mix, judge, play

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
