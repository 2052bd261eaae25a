"""A machine that gives no thread: each would want more memory for its stack than there are addresses."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

TOO_MUCH = 1 << 46


@contextmanager
def no_threads() -> Iterator[None]:
    """Within it no thread can be started in this process; those that live go on."""
    before = threading.stack_size(TOO_MUCH)
    try:
        yield
    finally:
        threading.stack_size(before)


def none_starts() -> bool:
    """Is it so?"""
    try:
        threading.Thread(target=bool).start()
    except RuntimeError:
        return True
    return False
