"""How much of each sweep is done: a taste in `make test`, more by `make crash`, all of it by `make crash-full`."""

import os
from typing import Final

FULL: Final = os.environ.get("CLEW_CRASH") == "full"


def some(crash: int, full: int) -> int:
    """A number for tests with the mark `crash`."""
    return full if FULL else crash
