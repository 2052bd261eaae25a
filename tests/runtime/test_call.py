"""What a call gives its tool: who it is, and only what it was given of the machine."""

import os
import time
from pathlib import Path

import pytest

import clew
from clew.runtime.call import Call
from clew.stores.processes import LocalProcesses
from clew.stores.workspace import FileWorkspace

KEY = "r1:pay-1:c1"


def test_a_call_is_known_by_its_key() -> None:
    """Every attempt has the same, or the other side could not tell that it is the same payment."""
    first, second = Call(KEY, attempt=1), Call(KEY, attempt=2)

    assert ("r1", first.uuid, first.short) == (second.run_id, second.uuid, second.short)
    assert (16, 1, 2) == (len(first.short), first.attempt, second.attempt)


def test_a_call_gives_what_it_was_given(tmp_path: Path) -> None:
    """A tool under test gets the workspace and the processes of the test."""
    workspace, processes = FileWorkspace(tmp_path), LocalProcesses(time.monotonic)

    call = Call.loose(workspace=workspace, processes=processes)

    assert (True, True) == (call.workspace is workspace, call.processes is processes)


@pytest.mark.parametrize("name", ["workspace", "processes"])
def test_a_call_that_was_given_nothing_says_how_to(name: str) -> None:
    """An attribute error would send its reader into clew's own code."""
    with pytest.raises(clew.UsageError) as caught:
        getattr(Call.loose("pay"), name)

    assert (f"no_{name}", "clew.Home()" in caught.value.next) == (caught.value.code, True)


def test_a_call_is_called_off_when_its_run_is_or_when_it_is_left() -> None:
    """A tool that takes long gives up for either; that it asks is known, and it is given a moment."""
    run_ends = [False]
    call, other = (Call(KEY, called_off=lambda: run_ends[0]) for _ in range(2))

    before = (call.listened, call.called_off, call.listened)
    call.leave()
    left = (call.called_off, other.called_off)
    run_ends[0] = True

    assert ((False, False, True), (True, False), True) == (before, left, other.called_off)


def test_a_process_that_a_tool_starts_can_be_marked_as_its_own() -> None:
    """By the mark an abort and a resume find it, by the leg they know that it is of this very run."""
    call = Call("r1:pay-1:c1", attempt=2, leg="n1")

    assert {"A": "1", "CLEW_CALL": "r1:pay-1:c1#2", "CLEW_LEG": "n1"} == call.environment({"A": "1"})
    assert set(os.environ) <= set(call.environment())
