"""The machine's clock and chance, and what is made of any clock."""

import asyncio

import pytest

from clew.runtime.clock import LegTime, SystemClock, day_text, new_nonce, now_text, random_float, random_uuid
from clew.testing.clock import SetClock


def test_the_machines_clock_goes_on_and_its_chance_differs() -> None:
    """Time never goes back while one looks, and no two nonces are alike."""
    clock = SystemClock()

    before, later = (clock.now_ms(), clock.monotonic_s()), (clock.now_ms(), clock.monotonic_s())

    assert before <= later
    assert new_nonce(clock) != new_nonce(clock)


def test_the_machines_clock_sleeps_in_both_ways() -> None:
    """Sleeping no time at all still works, in a thread and on a loop."""
    clock = SystemClock()

    clock.sleep(0, lambda: False)
    asyncio.run(clock.sleep_on_loop(0, lambda: False))

    assert clock.monotonic_s() > 0


def test_a_time_is_said_as_records_say_it() -> None:
    """Three digits of milliseconds, UTC; the day as run ids carry it."""
    clock = SetClock(1_795_953_600_007)

    assert ("2026-11-29T12:00:00.007Z", "261129") == (now_text(clock), day_text(clock))


def test_chance_comes_from_the_clock_alone() -> None:
    """A set clock makes a run repeatable."""
    first, second = ((new_nonce(c), random_float(c), random_uuid(c)) for c in (SetClock(), SetClock()))

    assert first == second
    assert (16, "4") == (len(first[0]), first[2][14])
    assert 0 <= first[1] < 1


@pytest.mark.parametrize("on_loop", [False, True])
def test_a_sleep_is_cut_short_by_who_waits_for_its_end(on_loop: bool) -> None:
    """A person who pressed Ctrl-C while a probe is to be asked again in a minute waits at most a moment."""
    looks: list[int] = []

    def woken() -> bool:
        looks.append(1)
        return len(looks) > 1

    clock = SystemClock()
    cut = asyncio.run(clock.sleep_on_loop(3600, woken)) if on_loop else clock.sleep(3600, woken)

    assert (True, 2) == (cut, len(looks))


def test_the_time_of_a_leg_is_taken_by_a_clock_that_nobody_sets() -> None:
    """C122: an operator who sets the wall clock back an hour gives no hour away."""
    clock = SetClock()
    time, before = LegTime(clock), clock.now_ms()
    clock.advance(20)
    clock.set_wall(before - 3_600_000)

    assert (20_000, before + 20_000, True) == (time.ran_ms(), time.now_ms(), time.was_set())


@pytest.mark.parametrize(("ran_s", "drift_ms", "was_set"), [(0, 900, False), (0, 1100, True), (7200, 6000, False)])
def test_a_clock_that_drifts_was_not_set(ran_s: float, drift_ms: int, was_set: bool) -> None:
    """A time server holds a wall clock on the long run; that is no step."""
    clock = SetClock()
    time = LegTime(clock)
    clock.advance(ran_s)
    clock.set_wall(clock.now_ms() + drift_ms)

    assert was_set == time.was_set()
