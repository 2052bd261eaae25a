"""What a session has cost, summed up as it is read. Where usage is stored in each dialect is not known here."""

from typing import Any, Final

from clew.core.session.lines import BadLine
from clew.core.session.values import Totals

_COUNTS: Final = {
    "input": "input",
    "output": "output",
    "cacheRead": "cache_read",
    "cacheWrite": "cache_write",
    "totalTokens": "tokens",
}
_NO_FIGURE: Final = ("aborted", "error")


class Sums:
    """Usage of one session under way; numbers are added in the order of the file, so that equal files give equal sums.

    Attributes:
        messages: Entries that are messages.
        unmeasured: Answers of which nobody said what they used.
    """

    __slots__ = ("_cost", "_sums", "messages", "unmeasured")

    def __init__(self) -> None:
        self.messages = 0
        self.unmeasured = 0
        self._sums: dict[str, int | float] = dict.fromkeys(_COUNTS.values(), 0)
        self._cost: int | float = 0

    def add(self, usage: Any, *, stop_reason: object = None) -> None:
        """Take in the usage of one stored call. An aborted one with nothing but zeros is unknown, not free.

        Raises:
            BadLine: it is not an object, or a count in it is not a number.
        """
        counts, cost = _read(usage)
        if stop_reason in _NO_FIGURE and not any(counts.values()):
            self.unmeasured += 1
        for name, count in counts.items():
            self._sums[name] += count
        self._cost += cost

    def totals(self, *, also_unmeasured: int = 0) -> Totals:
        """The sums so far."""
        return Totals(
            messages=self.messages, cost=self._cost, unmeasured=self.unmeasured + also_unmeasured, **self._sums
        )


def check_usage(usage: Any) -> None:
    """As `Sums.add` would, without adding.

    Raises:
        BadLine: it is not an object, or a count in it is not a number.
    """
    _read(usage)


def _read(usage: Any) -> tuple[dict[str, int | float], int | float]:
    if type(usage) is not dict:
        raise BadLine("its usage is not an object", reason="bad_member")
    cost = usage.get("cost")
    counts = {ours: _count(usage.get(theirs), theirs) for theirs, ours in _COUNTS.items()}
    return counts, _count(cost.get("total"), "cost") if type(cost) is dict else _count(cost, "cost")


def _count(value: Any, name: str) -> int | float:
    if value is None:
        return 0
    if type(value) not in (int, float):
        raise BadLine(f"the {name} of its usage is not a number", reason="bad_member")
    number: int | float = value
    return number
