"""A journal that another program began: how it is told, and that every door which would write refuses it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import clew
from clew.stores.memory import MemoryRunStore
from clew.testing.clock import SetClock
from tests.histories import foreign
from tests.runtime.stage import RUN, WHO, Bank, code_of, payer

Payload = tuple[str, dict[str, Any]]

STARTED: Payload = ("start", {"configFingerprint": "x"})
KEY = f"{RUN}:s1:c1"
CALL: Payload = ("event", {"event": {"type": "tool_call", "tool": "t", "stepId": "s1", "callId": "c1", "args": {}}})
OPEN: Payload = ("event", {"event": {"type": "effect_receipt", "idempotencyKey": KEY, "status": "started"}})
AGENT = payer(Bank().tool(), "1")


def moved(*events: str) -> list[Payload]:
    """The operation's records, in another program's hand."""
    states = {"ACCEPT": "accepted", "START": "running", "PAUSE": "paused", "RESUME": "running", "COMPLETE": "completed"}
    told, before = list[Payload](), None
    for number, event in enumerate(events, 1):
        said = {
            "schemaVersion": 1, "operationId": "o", "runId": RUN, "correlationId": f"{RUN}:o", "sequence": number,
            "eventId": f"e{number}", "event": event, "from": before, "to": states[event],
            "timestamp": "2026-11-29T14:00:00.000Z",
        }  # fmt: skip
        told.append(("operation", said))
        before = states[event]
    return told


def theirs(*payloads: Payload) -> clew.Home:
    """A home of ours with a run of theirs in it."""
    store = MemoryRunStore()
    records = foreign(STARTED, *payloads, run_id=RUN)
    store.implant(RUN, b"".join(msgspec.json.encode(record) + b"\n" for record, _ in records))
    return clew.Home(".clew", store=store, clock=SetClock(), takeover="operator")


DOORS: dict[str, Callable[[clew.Home], Any]] = {
    "resume": lambda home: home.resume_sync(RUN, AGENT, signals=False),
    "ensure": lambda home: home.ensure_sync(AGENT, None, run_id=RUN, signals=False),
    "plan": lambda home: home.plan(RUN, AGENT),
    "settle": lambda home: home.settle(RUN, clew.DidNotHappen(), **WHO),
    "settle by key": lambda home: home.settle(KEY, clew.Happened(), **WHO),
    "abort": lambda home: home.abort(RUN, **WHO),
    "pause": lambda home: home.pause(RUN, **WHO),
    "unlock": lambda home: home.unlock(RUN, nonce="n", **WHO),
    "accept_loss": lambda home: home.accept_loss(RUN, **WHO),
}


@pytest.mark.parametrize("said", [[], [CALL, OPEN], moved("ACCEPT", "START")], ids=["nothing", "an effect", "running"])
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_every_door_that_writes_says_whose_it_is(door: Callable[[clew.Home], Any], said: list[Payload]) -> None:
    """Who began a journal continues it; whatever is open in it, "nothing to settle" would be a guess."""
    home = theirs(*said)
    before = home.reader.store.raw(RUN)  # type: ignore[attr-defined]  # the memory store shows its bytes

    code = code_of(door, home)

    assert ("foreign_run", before) == (code, home.reader.store.raw(RUN))  # type: ignore[attr-defined]  # as above


@pytest.mark.parametrize("door", ["abort", "pause", "settle"])
def test_no_command_is_left_for_a_writer_that_would_not_read_it(door: str) -> None:
    """Whoever holds it, the inbox is ours alone."""
    home = theirs(CALL, OPEN)
    holder = home.reader.store.open(RUN)

    code = code_of(DOORS[door], home)
    holder.close()

    assert ("foreign_run", []) == (code, list(home.reader.store.pending(RUN)))


@pytest.mark.parametrize("door", ["settle", "abort", "pause", "unlock", "accept_loss", "ensure"])
def test_no_end_is_written_for_another_program(door: str) -> None:
    """Its COMPLETE without a finish is its business; whoever asks for it here is told whose it is."""
    home = theirs(*moved("ACCEPT", "START", "COMPLETE"))

    assert ("foreign_run", "run_already_finished") == (code_of(DOORS[door], home), code_of(DOORS["plan"], home))


@pytest.mark.parametrize("payload", [{"status": "succeeded"}, {"outcome": {"status": "failed"}}, {}], ids=str)
def test_a_finished_one_is_finished_before_it_is_anybodys(payload: dict[str, Any]) -> None:
    """#64: it goes on nowhere, so nobody is sent to the other program for that."""
    home = theirs(*moved("ACCEPT", "START"), ("finish", payload))

    assert ["run_already_finished"] * 2 == [code_of(DOORS[door], home) for door in ("resume", "plan")]


PAUSED: Payload = ("pause", {"outcome": {"status": "paused", "finishReason": "waiting"}})
TOLD: list[tuple[list[Payload], tuple[str, str, str]]] = [
    ([], ("unknown", "", "")),
    (moved("ACCEPT"), ("accepted", "accepted", "")),
    (moved("ACCEPT", "START"), ("running", "running", "")),
    ([PAUSED], ("unknown", "paused", "waiting")),
    ([*moved("ACCEPT", "START", "PAUSE"), PAUSED], ("paused", "paused", "waiting")),
    ([*moved("ACCEPT", "START", "PAUSE", "RESUME"), PAUSED], ("running", "running", "")),
    ([("finish", {"status": "succeeded"})], ("unknown", "finished", "succeeded")),
    ([("finish", {"outcome": {"status": "failed", "finishReason": "why"}})], ("unknown", "finished", "why")),
    ([("finish", {"outcome": [1]})], ("unknown", "finished", "")),
    ([("finish", {})], ("unknown", "finished", "")),
]


@pytest.mark.parametrize(("said", "expected"), TOLD)
def test_it_is_told_in_its_own_words_and_no_state_is_made_up(
    said: list[Payload], expected: tuple[str, str, str]
) -> None:
    """Promise 9: "about to start" or "running" of a run that nobody here runs was invented."""
    (row,) = theirs(*said).runs()

    assert ("foreign", *expected) == (row["shown"], row["state"], row["foreign"], row["reason"])


def test_it_has_a_result_only_where_its_program_recorded_how_it_stands() -> None:
    """It is not damaged: it only never said so."""
    known = theirs(*moved("ACCEPT", "START")).result(RUN)

    assert ("running", None) == (known.operation.state, known.output)
    assert "foreign_run" == code_of(theirs().result, RUN)


def test_what_its_calls_would_need_is_judged_all_the_same() -> None:
    """Reading is mutual: the plan of a foreign run is for whoever continues it elsewhere."""
    plan = theirs(CALL, OPEN).plan(RUN)

    assert plan is not None
    assert [("s1", "review")] == [(step.step_id, step.decision) for step in plan.steps]
