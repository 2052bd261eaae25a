"""Row 28: arbitrary bytes as files of every kind. What a fuzzer found is replayed beside it, in `tests/fuzz`."""

import random

import pytest

from tests.crash.counts import some
from tests.fuzz.targets import TARGETS, strike


@pytest.mark.crash
@pytest.mark.parametrize("name", TARGETS)
def test_a_quarter_of_a_million_inputs_are_read_or_refused(name: str) -> None:
    """A million in all (ten by `make crash-full`): records or a typed refusal, and a naive reader agrees."""
    chance, inputs = random.Random(f"{name}, many"), some(250_000, 2_500_000)
    for _ in range(inputs):
        strike(name, chance.randbytes(chance.randrange(160)))
