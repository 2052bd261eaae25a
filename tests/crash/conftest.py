"""What the tests of faults share: a studio, a folder for its homes, and silence about what is daily bread here."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.studio import Studio, studio
from tests.crash.sweep import in_memory


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing is logged while disks are swept."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def town() -> Iterator[Studio]:
    """Where the legs are played."""
    with studio() as made:
        yield made


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where their homes lie."""
    with in_memory() as made:
        yield made
