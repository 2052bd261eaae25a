"""Which attempts have a body that still runs in this process: their effect may yet happen. Decides nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

_running: dict[str, int] = {}


@contextmanager
def running(key: str, attempt: int) -> Iterator[None]:
    """The body of this attempt runs, wherever its caller has gone meanwhile."""
    name = f"{key}#{attempt}"
    _running[name] = _running.get(name, 0) + 1
    try:
        yield
    finally:
        _running[name] -= 1
        if _running[name] == 0:
            del _running[name]


def is_running(key: str, attempt: int) -> bool:
    """Does a body of this attempt still run here?"""
    return f"{key}#{attempt}" in _running


def running_here() -> dict[str, str]:
    """Every attempt `key#attempt` whose body runs in this process, and how that is told to a person."""
    return dict.fromkeys(tuple(_running), "its body still runs in this process")
