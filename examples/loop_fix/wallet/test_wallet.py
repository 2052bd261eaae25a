import pytest
from wallet import split

AMOUNTS = [(0, 1), (100, 4), (100, 3), (101, 3), (5, 7), (99999, 8)]


@pytest.mark.parametrize(("cents", "ways"), AMOUNTS)
def test_shares_add_up(cents: int, ways: int) -> None:
    assert sum(split(cents, ways)) == cents


@pytest.mark.parametrize(("cents", "ways"), AMOUNTS)
def test_shares_differ_by_a_cent_at_most(cents: int, ways: int) -> None:
    shares = split(cents, ways)

    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(("cents", "ways"), AMOUNTS)
def test_larger_shares_come_first(cents: int, ways: int) -> None:
    shares = split(cents, ways)

    assert shares == sorted(shares, reverse=True)
