"""Faults strike where they are told, once, and leave everything else alone."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from clew.errors import Storage
from clew.testing.faults import Strikes, failing_call


def test_the_first_call_of_that_name_fails_and_no_other(tmp_path: Path) -> None:
    """A device refuses once, and what was written before and after is there."""
    with (tmp_path / "file").open("wb") as file, failing_call("fsync", "fdatasync"):
        os.write(file.fileno(), b"one")
        with pytest.raises(OSError, match="the device refuses"):
            os.fsync(file.fileno())
        os.fsync(file.fileno())

    assert b"one" == (tmp_path / "file").read_bytes()


def test_a_failing_call_is_not_made(tmp_path: Path) -> None:
    """The fault comes instead of the write, not behind it."""
    with (tmp_path / "file").open("wb") as file, failing_call("write", error=MemoryError("none")):  # noqa: SIM117  # which of them raises must show
        with pytest.raises(MemoryError, match="none"):
            os.write(file.fileno(), b"one")

    assert b"" == (tmp_path / "file").read_bytes()


def test_outside_nothing_fails_and_a_profile_stays() -> None:
    """Whoever measures the tests goes on measuring."""
    calls = list[str]()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, what: calls.append(event))
    try:
        mine = sys.getprofile()
        with failing_call("getpid"):
            pass
        os.getpid()
        kept = sys.getprofile() is mine
    finally:
        sys.setprofile(before)

    assert (True, True) == (kept, "c_call" in calls)


class Book:
    """Three lines, one of them walked twice."""

    def __init__(self) -> None:
        self.done = list[str]()

    def write(self) -> None:
        for _ in range(2):
            self.done.append("word")
        self.done.append("end")


def test_it_strikes_at_each_line_once_and_then_spares() -> None:
    """Whatever is done again and again is struck everywhere, and the loop ends."""
    strikes, told, left = Strikes(KeyboardInterrupt), list[str](), list[int]()
    while told[-1:] != ["spared"]:
        book = Book()
        told.append(strikes.strike(book.write))
        left.append(len(book.done))

    assert (["raised"] * 3 + ["spared"], [0, 0, 2, 3]) == (told, left)


def test_a_deed_that_is_done_in_spite_of_it_says_so() -> None:
    """Somebody swallowed it, so what was asked for is acknowledged."""

    def swallows() -> None:
        with suppress(MemoryError):
            Book().write()

    strikes = Strikes(MemoryError)

    told = [strikes.strike(swallows) for _ in range(12)]

    assert {"raised", "returned", "spared"} == set(told)


def test_an_error_of_clew_that_was_made_of_it_counts_as_raised() -> None:
    """A store may tell it in its own words."""

    def tells() -> None:
        try:
            Book().write()
        except MemoryError as fault:
            raise Storage("no memory", code="run_state_failed", next="Free some.") from fault

    strikes = Strikes(MemoryError)

    assert {"raised"} == {strikes.strike(tells) for _ in range(4)}


def test_another_exception_comes_through() -> None:
    """A bug that shows only after a strike must not be taken for the strike."""

    def breaks() -> None:
        try:
            Book().write()
        finally:
            raise ZeroDivisionError

    strikes = Strikes(MemoryError)
    told = strikes.strike(breaks)

    with pytest.raises(ZeroDivisionError):
        strikes.strike(breaks)

    assert "raised" == told


def test_a_trace_that_was_there_stays() -> None:
    """Whoever measures coverage goes on measuring."""
    before = sys.gettrace()

    Strikes(MemoryError).strike(Book().write)

    assert sys.gettrace() is before
