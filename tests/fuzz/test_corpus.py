"""What a fuzzer found worth keeping is replayed, and some thousand inputs of chance beside it."""

import random
from pathlib import Path

import pytest

from tests.fuzz.orders import Orders, built
from tests.fuzz.targets import TARGETS, sound, strike

CORPUS = Path(__file__).parent / "corpus"
KEPT = sorted(path for path in CORPUS.rglob("*") if path.is_file())
BY_CHANCE = 1500


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_kept_is_read_or_refused(name: str) -> None:
    """An input that once reached a place of its own must reach it after each change as well."""
    kept = [path.read_bytes() for path in KEPT if path.parent.name == name]
    for data in kept:
        strike(name, data)

    assert len(kept) > 10


@pytest.mark.parametrize("name", TARGETS)
def test_bytes_of_chance_are_read_or_refused(name: str) -> None:
    """Nobody chose these."""
    chance = random.Random(name)
    for _ in range(BY_CHANCE):
        strike(name, chance.randbytes(chance.randrange(120)))


def test_orders_build_a_whole_journal_too() -> None:
    """A fuzzer that never gives a whole file would only try refusals."""
    assert b"".join(sound()) == built(Orders(bytes([7] * len(sound()))), sound())
