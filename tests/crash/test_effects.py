"""Death between an effect and its record: nobody knows, nothing is repeated, and a person's word lets it go on."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crash.counts import some
from tests.crash.strikes import Point, around_effects, strike
from tests.crash.studio import Studio
from tests.crash.test_states import needs_strace
from tests.crash.works import UNPROBED

pytestmark = needs_strace


@pytest.fixture(scope="module")
def points(town: Studio, folder: Path) -> list[Point]:
    """Four for each of the six effects: before it is begun, before it is done, before it is over, before its record."""
    found = around_effects(town, folder, UNPROBED.name, "only")
    assert len(found) == 24
    return found


def lived(town: Studio, folder: Path, chosen: Sequence[Point]) -> dict[str, tuple[object, ...]]:
    """What is not as it must be: killed, the order in doubt left to a person, everything paid once."""
    found: dict[str, tuple[object, ...]] = {}
    for number, point in enumerate(chosen):
        struck = strike(town, folder, UNPROBED.name, point)
        # How many files are opened and closed before depends on what else runs here, so those may be met elsewhere.
        open_ones = {1} if point.call == "write" else {0, 1}
        if (struck.ended, struck.complaints) != ("killed", []) or len(struck.settled) not in open_ones:
            found[f"{number}: {point}"] = (struck.ended, struck.settled, *struck.complaints)
    return found


def test_a_death_around_an_effect_is_settled_by_a_person(town: Studio, folder: Path, points: list[Point]) -> None:
    """Promise 2, here and there: the run is blocked, and what happened outside is what the books say, once."""
    found = lived(town, folder, points[::5])

    assert {} == found


@pytest.mark.crash
def test_every_death_around_an_effect_is_settled_by_a_person(town: Studio, folder: Path, points: list[Point]) -> None:
    """Row 15: each effect, each point, again and again."""
    found = lived(town, folder, points * some(5, 20))

    assert {} == found
