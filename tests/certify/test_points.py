"""The points of a trial: which there are, what they are called, which are drawn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.certify.points import Kill, Point, Shape, pairs, parse_point, planned, singles
from clew.errors import UsageError

SHAPES = st.builds(Shape, st.integers(1, 12), st.integers(0, 5))


def test_every_append_and_every_effect_is_a_place_to_die_at() -> None:
    """A moment that no point names is one that nobody ever tried."""
    names = [point.name for point in singles(Shape(2, 1))]

    assert ["before:1", "after:1", "before:2", "after:2", "start:1", "end:1", "fails:1"] == names


@given(SHAPES)
def test_a_name_says_which_point_it_is(shape: Shape) -> None:
    """The command in a report must show that very finding."""
    points = [Point(), *singles(shape), *pairs(shape)]

    assert points == [parse_point(point.name) for point in points]


@pytest.mark.parametrize("text", ["", "before", "before:0", "fails:1+before:2", "after:1+", "torn:1", "before:1x"])
def test_another_name_is_refused(text: str) -> None:
    """A point that is guessed at would be tried instead of the one that was meant."""
    with pytest.raises(UsageError) as error:
        parse_point(text)

    assert "unknown_point" == error.value.code


@given(SHAPES, st.integers(1, 200), st.text(max_size=3))
def test_so_many_points_are_planned_as_were_asked_for(shape: Shape, count: int, seed: str) -> None:
    """Silently fewer would be a promise of more than was tried."""
    points = planned(shape, count, seed)

    assert min(count, len(singles(shape)) + len(list(pairs(shape)))) == len(points) == len(set(points))


def test_few_points_are_of_every_kind() -> None:
    """Five deaths at appends say nothing of what happens around an effect."""
    points = planned(Shape(30, 10), 5, "1")

    assert {"before", "after", "start", "end", "fails"} == {point.name.partition(":")[0] for point in points}


def test_more_points_than_single_ones_are_second_deaths() -> None:
    """All that can be tried with one death is tried before the lot decides."""
    every = singles(Shape(3, 1))

    points = planned(Shape(3, 1), len(every) + 4, "1")

    assert every == points[: len(every)]
    assert [2, 2, 2, 2] == [len(point.kills) for point in points[len(every) :]]


def test_the_same_seed_draws_the_same_lot() -> None:
    """Who repeats a trial must see the same one."""
    assert planned(Shape(9, 3), 7, "a") == planned(Shape(9, 3), 7, "a")


def test_another_seed_draws_another_lot() -> None:
    """Trying again with another seed must try something else."""
    assert planned(Shape(40, 9), 7, "a") != planned(Shape(40, 9), 7, "b")


def test_deaths_come_one_after_the_other() -> None:
    """The second death belongs to the life after the first one."""
    point = Point((Kill("after", 2), Kill("end", 1)))

    assert [Kill("after", 2), Kill("end", 1), None] == [point.next_kill(died) for died in (0, 1, 2)]
