"""A plain agent whose thread is busy: commands are taken all the same, and an abort strikes it."""

import threading
from pathlib import Path

import pytest

import clew
from clew.runtime.lookout import Lookout
from tests.disk.living import living
from tests.runtime.stage import RUN, WHO, events_of, kinds_of, records_of
from tests.threadless import no_threads

# A plain tool without a time limit in the main thread, which waits for nothing that ever comes.
HANGS = """
import sys, threading
import clew
@clew.tool(effect="external")
def pay():
    print("at work", flush=True)
    threading.Event().wait()
@clew.agent(tools=[pay], name="orders")
def orders(run, prompt):
    run.call(pay)
result = clew.Home(sys.argv[1]).run_sync(orders, run_id="orders-1")
print(result.operation.state, result.reason, flush=True)
"""


def test_an_abort_strikes_an_agent_that_hangs_in_its_tool(tmp_path: Path) -> None:
    """It would look into its inbox at its next call, which never comes: the payment is unknown, the run is over."""
    home = clew.Home(tmp_path / ".clew")
    with living(HANGS, tmp_path / ".clew") as writer:
        writer.says()
        told = home.abort(RUN, **WHO)
        ended = writer.says()

    kinds = kinds_of(records_of(home))
    assert ("applied", "failed aborted") == (told["status"], ended)
    assert kinds.index("REQUEST_ABORT") < kinds.index("FAIL")
    assert ["started", "unknown"] == [event["status"] for event in events_of(home, "effect_receipt")]


def test_a_text_reaches_an_agent_that_is_in_a_long_call(tmp_path: Path) -> None:
    """Its sender need not wait until the tool has returned."""
    home = clew.Home(tmp_path / ".clew")
    with living(HANGS, tmp_path / ".clew") as writer:
        writer.says()
        told = home.steer(RUN, "be quick", by="ann")
        home.abort(RUN, **WHO)
        writer.says()

    assert ("accepted", "rejected") == (told["status"], events_of(home, "control")[-1]["state"])


def test_who_is_watched_is_looked_after_until_the_end_and_no_longer() -> None:
    """A look behind the end would touch a journal that is closed."""
    lookout, seen, after = Lookout(), threading.Event(), threading.Event()
    with lookout.watching(seen.set):
        first = seen.wait(30)
    with lookout.watching(after.set):
        seen.clear()
        again = after.wait(30)

    assert (True, True, False) == (first, again, seen.is_set())


def test_without_a_thread_nobody_looks_and_the_next_leg_tries_again() -> None:
    """Who runs the leg is told, and looks for himself."""
    lookout, seen = Lookout(), threading.Event()
    with no_threads(), lookout.watching(seen.set) as watched:
        alone = watched
    with lookout.watching(seen.set) as watched:
        looked = seen.wait(30)

    assert (False, True, True) == (alone, watched, looked)


def test_one_that_fails_does_not_blind_the_others() -> None:
    """One thread serves all legs of a program."""
    lookout, seen = Lookout(), threading.Event()

    def fails() -> None:
        raise OSError("its disk is gone")

    with lookout.watching(fails), lookout.watching(seen.set):
        looked = seen.wait(30)

    assert looked


@pytest.mark.parametrize("kind", ["pause"])
def test_a_pause_is_heard_while_the_tool_runs(tmp_path: Path, kind: str) -> None:
    """It is applied at once and acts at the next safe point: what has started is not interrupted."""
    home = clew.Home(tmp_path / ".clew")
    with living(HANGS, tmp_path / ".clew") as writer:
        writer.says()
        told = home.pause(RUN, **WHO)
        alive = writer.process.poll() is None

    assert ("applied", True) == (told["status"], alive)
