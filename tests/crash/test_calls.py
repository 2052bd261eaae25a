"""A process killed at a system call, or a call that fails, once or from then on: nothing lost, nothing done twice."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crash.counts import some
from tests.crash.strikes import Point, counted, deaths, errors, strike
from tests.crash.studio import Studio
from tests.crash.test_states import needs_strace
from tests.crash.works import KEEPING, REFERENCE, TORN

pytestmark = needs_strace
LEGS = ("first", "second", "third")
KEEPERS = ("first", "second", "restore", "later", "migrate", "prune")
KINDS = ("killed", "failing once", "failing from then on")


def points(town: Studio, folder: Path, work: str, leg: str, kind: str) -> list[Point]:
    """Every point of a leg, in the order of the names of the calls."""
    counts = counted(town, folder, work, leg)
    return list(deaths(leg, counts) if kind == "killed" else errors(leg, counts, goes_on=kind == KINDS[2]))


def struck(town: Studio, folder: Path, work: str, chosen: Sequence[Point]) -> dict[str, list[str]]:
    """The complaints by point; at least most of the points must have been met."""
    met, found = 0, dict[str, list[str]]()
    for point in chosen:
        one = strike(town, folder, work, point)
        met += one.fired
        if one.complaints:
            found[str(point)] = [one.ended, *one.complaints]
    assert met >= len(chosen) * 3 // 4
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_leg_struck_at_a_system_call_is_recovered(town: Studio, folder: Path, kind: str) -> None:
    """Promise 12 here and there: typed errors, nothing acknowledged lost, each order paid exactly once in the end."""
    stride = 17 if kind == "killed" else 83
    chosen = [point for leg in LEGS for point in points(town, folder, REFERENCE.name, leg, kind)[::stride]]

    assert {} == struck(town, folder, REFERENCE.name, chosen)


@pytest.mark.crash
@pytest.mark.parametrize("leg", LEGS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_leg_struck_at_each_system_call_is_recovered(town: Studio, folder: Path, kind: str, leg: str) -> None:
    """Rows 1, 2 and 3 of the table: every kill; of the errors every third, by `make crash-full` every one."""
    stride = 1 if kind == "killed" else some(3, 1)

    assert {} == struck(town, folder, REFERENCE.name, points(town, folder, REFERENCE.name, leg, kind)[::stride])


@pytest.mark.parametrize("kind", KINDS)
def test_a_keeping_leg_struck_at_a_system_call_is_recovered(town: Studio, folder: Path, kind: str) -> None:
    """Rows 1 to 3, 25 and 26 here and there: checkpoints, sessions, a restore, a migration, a prune."""
    stride = 53 if kind == "killed" else 301
    chosen = [point for leg in KEEPERS for point in points(town, folder, KEEPING.name, leg, kind)[7::stride]]

    assert {} == struck(town, folder, KEEPING.name, chosen)


@pytest.mark.parametrize("leg", ["second", "prune"])
def test_a_close_that_fails_is_told_by_type(town: Studio, folder: Path, leg: str) -> None:
    """What was synced is kept whatever its closing says, and no raw error comes out of a prune, or of procfs."""
    failing = points(town, folder, KEEPING.name, leg, "failing from then on")
    chosen = [point for point in failing if point.call == "close"][::7]

    assert {} == struck(town, folder, KEEPING.name, chosen)


@pytest.mark.crash
@pytest.mark.parametrize("leg", KEEPERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_keeping_leg_struck_at_each_system_call_is_recovered(town: Studio, folder: Path, kind: str, leg: str) -> None:
    """The same: every kill; of the errors every ninth, by `make crash-full` every one."""
    stride = 1 if kind == "killed" else some(9, 1)

    assert {} == struck(town, folder, KEEPING.name, points(town, folder, KEEPING.name, leg, kind)[::stride])


@pytest.mark.parametrize("work", [work.name for work in TORN])
def test_a_recovery_that_is_killed_is_followed_by_one_that_is_not(town: Studio, folder: Path, work: str) -> None:
    """Row 14 here and there: the third start finds its way, whatever the first death had torn."""
    chosen = points(town, folder, work, "second", "killed")

    assert {} == struck(town, folder, work, chosen[len(work) % 29 :: 61])


@pytest.mark.crash
@pytest.mark.parametrize("work", [work.name for work in TORN])
def test_a_recovery_that_is_killed_anywhere_is_followed_by_one_that_is_not(
    town: Studio, folder: Path, work: str
) -> None:
    """Row 14: before each call that opens, mends, cuts and goes on, and some that fail."""
    chosen = points(town, folder, work, "second", "killed")[:: some(2, 1)]
    failing = points(town, folder, work, "second", "failing once")[:: some(40, 4)]

    assert {} == struck(town, folder, work, [*chosen, *failing])
