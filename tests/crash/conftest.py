"""Thousands of takeovers and mended ends would be logged; here they are the daily bread."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing is logged while disks are swept."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
