"""Faults that strike a store from outside: a call of the system that fails, an exception between two lines."""

import errno
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal

from clew.errors import ClewError

Struck = Literal["raised", "returned", "spared"]


@contextmanager
def failing_call(*names: str, error: Exception | None = None) -> Iterator[None]:
    """Within it, the first call of a C function of one of these names fails instead of being made, in this thread.

    So a device can be made to refuse a write (`write`) or a sync (`fsync`, `fdatasync`), a database a `commit`,
    without anything in the store knowing of it.

    Args:
        names: Of the functions as Python knows them, without their module.
        error: What is raised; an I/O error (`EIO`) unless given.
    """
    fault = error or OSError(errno.EIO, "the device refuses")
    left = 1

    def strike(frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        if left and event == "c_call" and getattr(called, "__name__", "") in names:
            left = 0
            raise fault

    before = sys.getprofile()
    sys.setprofile(strike)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextmanager
def in_small_steps() -> Iterator[None]:
    """Within it the threads of this process take turns as often as they can, so that what races is seen to race."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Strikes:
    """Raises an exception between two lines of a deed, as Ctrl-C or a lack of memory does. Lives for one case.

    Each time it strikes at the first line where it has not struck yet, in whatever Python function that line stands,
    so a deed that is done again and again is struck everywhere once.

    Args:
        make: Gives the exception that is raised.
    """

    def __init__(self, make: Callable[[], BaseException]) -> None:
        self._make = make
        self._struck: set[tuple[str, int]] = set()

    def strike(self, deed: Callable[[], object]) -> Struck:
        """Do it, and strike.

        Args:
            deed: It may let the exception through or turn it into an error of clew.

        Returns:
            `raised`: the exception came out, or a `ClewError`. `returned`: the deed was done in spite of it.
            `spared`: there was no line left to strike at, so it was done as usual.
        """
        fault: BaseException | None = None

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal fault
            place = (frame.f_code.co_filename, frame.f_lineno)
            if fault is None and event == "line" and place not in self._struck:
                self._struck.add(place)
                fault = self._make()
                raise fault
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            deed()
        except BaseException as raised:
            if raised is not fault and not (fault and isinstance(raised, ClewError)):
                raise
            return "raised"
        finally:
            sys.settrace(before)
            # What the deed had in its hands is let go now, or a lock could outlive it as long as the exception does.
            if fault is not None:
                fault.__traceback__ = fault.__context__ = None
                gc.collect(1)
        return "returned" if fault else "spared"
