"""What a power cut may leave of the last append: a shorter file, or sectors of it that were never written."""

from collections.abc import Iterator
from itertools import combinations

SECTOR = 512


def power_cuts(kept: bytes, lost: bytes) -> Iterator[bytes]:
    """Every state of a file of which `kept` was synced before, and `lost` was being appended; not `kept` alone."""
    whole = kept + lost
    yield from (whole[:size] for size in range(len(kept) + 1, len(whole)))
    sectors = [*range(len(kept) // SECTOR, (len(whole) - 1) // SECTOR + 1)]
    for count in range(1, len(sectors) + 1):
        for gone in combinations(sectors, count):
            state = bytearray(whole)
            for sector in gone:
                start, stop = max(len(kept), sector * SECTOR), min(len(whole), (sector + 1) * SECTOR)
                state[start:stop] = bytes(stop - start)
            yield bytes(state)
