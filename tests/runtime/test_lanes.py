"""Places of calls that may change the same paths: who meets whom, who goes first, who is told to look again."""

import pytest

from clew.runtime.lanes import EVERYWHERE, Lane, Lanes


def lane(*paths: str) -> Lane:
    return Lane(paths, lambda: None)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (["a"], ["a"], True),
        (["a"], ["b"], False),
        (["d"], ["d/x"], True),
        (["d/x"], ["d"], True),
        (["d/x"], ["d/y"], False),
        (["d"], ["dd/x"], False),
        (["Note"], ["note"], True),
        (["a", "b"], ["c", "b"], True),
        (EVERYWHERE, ["a"], True),
        (["a"], EVERYWHERE, True),
        ([], EVERYWHERE, True),
        ([], ["a"], False),
    ],
)
def test_two_meet_where_both_may_change_one_path(one: list[str] | None, other: list[str] | None, meet: bool) -> None:
    """What a folder's call takes away is also the file in it; and names may differ in case alone."""
    assert meet == Lane(one, lambda: None).meets(Lane(other, lambda: None))


def test_who_asked_first_goes_first() -> None:
    """A call that waits is never passed over by one that came later."""
    lanes, places = Lanes(), [lane("a"), lane("a", "b"), lane("b"), lane("c")]
    for place in places:
        lanes.enter(place)
    first = [lanes.is_free(place) for place in places]
    lanes.leave(places[0])

    assert ([True, False, False, True], [True, False, True]) == (
        first, [lanes.is_free(place) for place in places[1:]],
    )  # fmt: skip


def test_who_leaves_wakes_who_waits() -> None:
    """Nobody looks at a clock to see whether it may go; and leaving twice is no fault."""
    lanes, woken = Lanes(), list[str]()
    first, second = lane("a"), Lane(["a"], lambda: woken.append("second"))
    lanes.enter(first)
    lanes.enter(second)
    lanes.leave(first)
    lanes.leave(first)

    assert ["second", "second"] == woken


def test_a_place_holds_what_it_asked_for() -> None:
    """Where a path leads may have changed while it waited."""
    held = lane("a", "b")

    assert (True, False, False, True) == (
        held.holds(["B"]), held.holds(["c"]), held.holds(EVERYWHERE), Lane(EVERYWHERE, lambda: None).holds(EVERYWHERE),
    )  # fmt: skip
