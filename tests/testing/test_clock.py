"""The set clock stands, moves when it is told, and gives the same chance to everyone."""

import asyncio

from clew.testing.clock import NOON_MS, SetClock


def test_it_stands_until_it_is_told() -> None:
    """Otherwise tests would measure the machine."""
    clock = SetClock()

    clock.advance(1.5)

    assert (NOON_MS + 1500, 1.5) == (clock.now_ms(), clock.monotonic_s())


def test_sleeping_moves_it_at_once_and_is_remembered() -> None:
    """An hour of waiting takes no time in a test."""
    clock = SetClock()

    clock.sleep(3600)
    asyncio.run(clock.sleep_on_loop(1))

    assert ([3600, 1], 3601.0) == (clock.slept, clock.monotonic_s())


def test_the_wall_clock_may_be_set_back_and_no_time_passes() -> None:
    """Operators do that; durations must not notice."""
    clock = SetClock()

    clock.set_wall(0)

    assert (0, 0.0) == (clock.now_ms(), clock.monotonic_s())


def test_chance_repeats_with_the_seed_only() -> None:
    """Each draw differs, each clock with this seed draws the same."""
    one, same, other = SetClock(seed="a"), SetClock(seed="a"), SetClock(seed="b")

    drawn = [one.chance(40), one.chance(40)]

    assert drawn == [same.chance(40), same.chance(40)]
    assert 3 == len({*drawn, other.chance(40)})
    assert 40 == len(drawn[0])
