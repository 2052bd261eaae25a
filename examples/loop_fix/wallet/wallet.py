"""Money in whole cents."""


def split(cents: int, ways: int) -> list[int]:
    """Shares of an amount, the larger ones first; they add up to it and differ by a cent at most."""
    return [cents // ways] * ways
