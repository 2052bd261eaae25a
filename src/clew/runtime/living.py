"""Which attempts are not over: a body runs in this process, a process lives on this machine. Decides nothing."""

from collections.abc import Sequence

from clew.core.calls import CallState
from clew.core.ids import split_key
from clew.core.redact import Redactor
from clew.stores.base import Processes

_running: dict[str, int] = {}


class running:  # noqa: N801  # reads as a statement: `with running(key, attempt):`
    """The body of this attempt runs, wherever its caller has gone meanwhile."""

    __slots__ = ("_name",)

    def __init__(self, key: str, attempt: int) -> None:
        self._name = f"{key}#{attempt}"

    def __enter__(self) -> None:
        _running[self._name] = _running.get(self._name, 0) + 1

    def __exit__(self, *_raised: object) -> None:
        left = _running[self._name] - 1
        if left:
            _running[self._name] = left
        else:
            del _running[self._name]


def is_running(key: str, attempt: int) -> bool:
    """Does a body of this attempt still run here?"""
    return f"{key}#{attempt}" in _running


def running_here() -> dict[str, str]:
    """Every attempt `key#attempt` whose body runs in this process, and how that is told to a person."""
    return dict.fromkeys(tuple(_running), "its body still runs in this process")


def alive(processes: Processes, calls: Sequence[CallState], redactor: Redactor) -> dict[str, str]:
    """Every attempt that is not over, and how that is told to a person.

    The machine's processes are looked through only where one of these calls of a run is open.
    """
    open_call = next((call for call in calls if call.open), None)
    if open_call is None:
        return running_here()
    found = processes.living(split_key(open_call.key)[0])
    return {mark: redactor.text(words) for mark, words in found.items()} | running_here()
