"""Which rows of heads are believed, and that a list goes on where one is not."""

from typing import Any

import msgspec
import pytest

import clew
from clew.core.records import Head
from clew.runtime.listed import row_of, says_why
from tests.runtime.stage import RUN, Bank, mortal_home, payer

SPOILED: list[tuple[str, Any]] = [
    ("startedAt", None), ("startedAt", 3), ("updatedAt", []), ("waiting", None), ("waiting", 3), ("waiting", "x"),
    ("waiting", [3]), ("waiting", [{}]), ("waitingCount", "x"), ("calls", True), ("leg", 7), ("state", []),
    ("legClosed", "no"), ("input", {}), ("foreign", 1), ("runId", "other"), ("unreadBytes", "x"), ("shown", "gone"),
]  # fmt: skip
EFFECT = {
    "stepId": "pay-1", "callId": "c1", "tool": "pay", "idempotencyKey": f"{RUN}:pay-1:c1", "attempt": 1,
    "status": "started", "answered": False, "repeatable": False, "position": 0, "startedAt": "",
}  # fmt: skip


def two_runs() -> tuple[clew.Home, Any]:
    """One with an open effect, one that is done."""
    home, store = mortal_home()
    bank = Bank()
    bank.fates = ["fails after"]
    home.run_sync(payer(bank.tool(), "1"), run_id=RUN)
    home.run_sync(clew.agent(name="other")(lambda run, prompt: 1), run_id="other")
    return home, store


def spoil(store: Any, **change: Any) -> None:
    head = store._journals[RUN].head
    store._journals[RUN].head = Head(head.sequence, head.chain, head.size_bytes, {**head.row, **change})


def test_the_row_that_a_leg_publishes_is_one() -> None:
    """Else every list would read every journal."""
    _, store = two_runs()
    head = store.head(RUN)

    assert head.row == row_of(head)


def test_a_row_that_does_not_say_why_the_run_waits_is_not_believed() -> None:
    """Heads of an older clew lost the words of a pause behind a person's leg; the journal still has them."""
    home, store = mortal_home()

    @clew.agent
    def agent(run: clew.SyncRun, prompt: str) -> None:
        raise LookupError("a bug")

    home.run_sync(agent, run_id=RUN)
    home.steer(RUN, "look again", by="ann")
    head = store._journals[RUN].head
    assert head is not None
    old = {name: value for name, value in head.row.items() if name != "pausedAt"} | {"message": ""}
    store._journals[RUN].head = msgspec.structs.replace(head, row=old)

    assert "LookupError: a bug" == next(home.runs())["message"]


def test_a_row_that_an_agents_leg_published_says_why_the_run_waits() -> None:
    """Else a list of an older home would read every journal of a paused run."""
    _, store = two_runs()
    row = store.head(RUN).row
    old = {name: value for name, value in row.items() if name != "pausedAt"}

    assert (True, True, False) == (says_why(row), says_why(old), says_why({**old, "leg": {"purpose": "control"}}))


def test_a_run_without_a_head_has_no_row() -> None:
    """It is read from its journal."""
    assert row_of(None) is None


@pytest.mark.parametrize(("name", "value"), SPOILED)
def test_a_row_of_another_shape_is_not_believed(name: str, value: Any) -> None:
    """A damaged head, or one of another version, must not end the list of all runs: the journal says the same."""
    home, store = two_runs()
    before = list(home.runs())
    spoil(store, **{name: value})

    assert before == list(home.runs())
    assert row_of(store.head(RUN)) is None


@pytest.mark.parametrize("name", ["state", "waiting", "waitingCount", "leg", "updatedAt"])
def test_a_row_that_lacks_a_member_is_not_believed(name: str) -> None:
    """What is missing would be taken for nothing: no effect that waits, no leg that is open."""
    home, store = two_runs()
    before = list(home.runs())
    head = store._journals[RUN].head
    row = {member: value for member, value in head.row.items() if member != name}
    store._journals[RUN].head = msgspec.structs.replace(head, row=row)

    assert before == list(home.runs())


@pytest.mark.parametrize(("name", "value"), SPOILED)
def test_a_doctor_goes_on_behind_a_spoiled_head(name: str, value: Any) -> None:
    """It is there for homes that are not well."""
    home, store = two_runs()
    spoil(store, **{name: value})

    found = home.checkup()

    assert (2, 0, 1) == (found.runs, found.unreadable.count, found.uncertain.count)


def test_an_effect_that_is_not_where_the_head_says_makes_its_run_unreadable() -> None:
    """Arguments of another call would be shown to whoever decides whether it happened."""
    home, store = two_runs()
    spoil(store, waiting=[EFFECT])

    rows = {row["runId"]: (row["shown"], row["reason"]) for row in home.runs()}

    assert {RUN: ("unreadable", "head_corrupt"), "other": ("completed", "completed")} == rows
