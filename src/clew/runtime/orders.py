"""How a caller wants a leg to be run, and who is told of signals. Runs nothing."""

import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec

from clew.errors import UsageError
from clew.runtime.approvals import Approver
from clew.runtime.ending import Policy
from clew.runtime.journal import Watcher
from clew.runtime.logs import listener


class Orders(msgspec.Struct, frozen=True):
    """How the caller wants a leg to be run: what it does on errors, whether signals are taken, who is told of what.

    `watch` is told of each record: the caller's `on_record` and the log, both such that they cannot hurt the leg.
    `approver` is asked where a start needs a person; without one the run pauses.
    """

    policy: Policy = Policy()
    signals: bool = False
    notice: Callable[[str], None] | None = None
    watch: Watcher | None = None
    approver: Approver | None = None


def orders_of(
    on_error: str,
    on_limit: str,
    signals: bool,
    notice: Callable[[str], None] | None,
    on_record: Watcher | None,
    approver: Approver | None = None,
) -> Orders:
    """How a leg is to be run, from what a caller said.

    Raises:
        UsageError: `invalid_order` for another word than `pause` and `fail`.
    """
    for name, word in (("on_error", on_error), ("on_limit", on_limit)):
        if word not in ("pause", "fail"):
            raise UsageError(f"{name} is {word!r}", code="invalid_order", next=f"Say {name}='pause' or {name}='fail'.")
    told = notice if notice is not None or not signals else say
    return Orders(Policy(on_error, on_limit), signals, told, listener(on_record), approver)


def say(text: str) -> None:
    """To the person at the keyboard whose signal was taken, where nobody else was named to tell it."""
    # Closed, absent or full, it changes nothing of what the run came to.
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.write(f"clew: {text}\n")
