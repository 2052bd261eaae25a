"""What a caller may order of a leg, and who hears of a signal when nobody was named."""

import errno
import io
import logging
import sys
from typing import Any

import pytest

from clew.core.records import Record
from clew.errors import UsageError
from clew.runtime.ending import Policy
from clew.runtime.orders import orders_of, say
from tests.histories import Scribe, read


@pytest.mark.parametrize(("on_error", "on_limit"), [("fail", "pause"), ("pause", "fail"), ("pause", "pause")])
def test_what_is_ordered_is_what_is_done(on_error: str, on_limit: str) -> None:
    """The two words decide between a pause that can be mended and an end."""
    orders = orders_of(on_error, on_limit, False, None, None)

    assert (Policy(on_error, on_limit), False) == (orders.policy, orders.signals)


@pytest.mark.parametrize(("on_error", "on_limit"), [("stop", "pause"), ("pause", "PAUSE"), ("", "pause")])
def test_another_word_is_refused_before_anything_runs(on_error: str, on_limit: str) -> None:
    """A mistyped `fail` must not become a pause in silence."""
    with pytest.raises(UsageError) as caught:
        orders_of(on_error, on_limit, False, None, None)

    assert "invalid_order" == caught.value.code


@pytest.mark.parametrize(("signals", "notice", "told"), [(True, None, say), (False, None, None), (True, print, print)])
def test_who_presses_the_key_is_told_where_nobody_else_was_named(signals: bool, notice: Any, told: Any) -> None:
    """A program that goes on after Ctrl-C without a word looks broken."""
    assert told is orders_of("pause", "pause", signals, notice, None).notice


def test_the_word_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """stdout is the program's own."""
    say("pausing")

    assert ("", "clew: pausing\n") == tuple(capsys.readouterr())


def test_nobody_is_told_of_records_whose_caller_did_not_ask() -> None:
    """Where nobody listens to the log either; a plain call pays for nothing."""
    logging.disable(logging.CRITICAL)
    try:
        watch = orders_of("pause", "pause", False, None, None).watch
    finally:
        logging.disable(logging.NOTSET)

    assert watch is None


def test_a_caller_that_asked_is_told() -> None:
    """With its own function, guarded."""
    seen: list[Record] = []
    watch = orders_of("pause", "pause", False, None, seen.append).watch
    assert watch is not None

    record = read(Scribe().born().data)[0][0]
    watch(record)

    assert [record] == seen


class Full(io.StringIO):
    """A stream on a disk without room."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "full")


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [Full(), closed(), None], ids=["full", "closed", "none"])
def test_a_word_that_cannot_be_told_hurts_nothing(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leg has ended; its result must reach the caller although nobody can be told how to go on."""
    monkeypatch.setattr(sys, "stderr", stream)

    assert say("pausing") is None  # type: ignore[func-returns-value]  # that it returns is the point
