"""Commands to a run from outside: a living writer does them itself, a dead run is ended under its lock."""

from pathlib import Path
from typing import Any

import pytest

import clew
from clew.runtime.commanding import send
from clew.runtime.reviewing import Said
from clew.stores.base import Command, CommandAnswer
from clew.stores.memory import MemoryRunStore
from clew.testing.clock import SetClock
from tests.disk.living import living
from tests.histories import completed
from tests.runtime.stage import (
    RUN,
    WHO,
    Bank,
    Forger,
    code_of,
    dies,
    events_of,
    kinds_of,
    mortal_home,
    payer,
    records_of,
    resumes_of,
    state_of,
)

SAID = Said("ann", "enough")
# Async: a step that can be cancelled. Plain: a tool that returns when it is told, and then a second call.
ASYNC = """
import asyncio, sys
import clew
@clew.agent(name="orders")
async def orders(run, prompt):
    print("at work", flush=True)
    await asyncio.Event().wait()
result = clew.Home(sys.argv[1]).run_sync(orders, run_id="orders-1")
print(result.operation.state, result.reason, flush=True)
"""
PLAIN = """
import sys
import clew
@clew.tool(effect="external")
def pay():
    print("at work", flush=True)
    sys.stdin.readline()
    return "paid"
@clew.agent(tools=[pay], name="orders")
def orders(run, prompt):
    run.call(pay)
    while True:
        run.step("again", lambda: 1)
result = clew.Home(sys.argv[1]).run_sync(orders, run_id="orders-1")
print(result.operation.state, result.reason, flush=True)
"""


def dead_run() -> tuple[clew.Home, clew.Agent]:
    """A run whose process died while a payment was under way."""
    home, store = mortal_home()
    agent = payer(Bank().tool(), "1")
    store.die_at(2)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    return home, agent


# Abort.


def test_a_dead_run_is_aborted_under_its_lock_and_lists_what_was_started() -> None:
    """Nobody will run it again; what may have been paid must be named."""
    home, _ = dead_run()

    told = home.abort(RUN, **WHO)

    assert ("applied", ["pay-1"]) == (told["status"], [effect["stepId"] for effect in told["effects"]])
    assert ["resume", "REQUEST_ABORT", "FAIL", "finish"] == kinds_of(records_of(home))[-4:]


def test_an_abort_says_who_and_why() -> None:
    """The move's reason is the only place where it stands."""
    home, _ = dead_run()
    home.abort(RUN, **WHO)

    moves = [record.payload for record in records_of(home) if record.kind == "operation"]
    assert ["by ann: looked at the bank", "aborted"] == [move["reason"] for move in moves[-2:]]
    assert "control" == resumes_of(home)[0]["leg"]["purpose"]


def test_an_aborted_run_never_resumes() -> None:
    """Terminal is terminal."""
    home, agent = dead_run()
    home.abort(RUN, **WHO)

    assert ["run_already_finished"] * 2 == [code_of(home.resume_sync, RUN, agent), code_of(home.abort, RUN, **WHO)]


def test_a_paused_run_is_aborted() -> None:
    """The usual case: a person looked at what it waits for, and has had enough."""
    home, _ = mortal_home()
    bank = Bank()
    bank.fates = ["fails after"]
    home.run_sync(payer(bank.tool(), "1"), run_id=RUN)
    home.abort(RUN, **WHO)

    assert ("failed", ["pay-1"]) == (state_of(home).state, [row["stepId"] for row in home.result(RUN).waiting])


def test_an_end_that_was_cut_off_stands_against_an_abort() -> None:
    """The agent's end is on the disk: the run is completed by this writer, and nothing was aborted."""
    store, agent = MemoryRunStore(), payer(Bank().tool(), "1")
    store.implant(RUN, Forger(store, agent).say(*completed()[:1]).data)
    home = clew.Home(".clew", takeover="proven", store=store, clock=SetClock())

    code = code_of(home.abort, RUN, **WHO)

    assert ("run_already_finished", "completed") == (code, state_of(home).state)


@pytest.mark.parametrize("kept", [0, 500, 900, 1200, 1400, 1700, None])
def test_an_abort_that_died_is_finished_by_the_next_writer(kept: int | None) -> None:
    """Wherever its append was torn: either it was never said, or it ends as said."""
    home, agent = dead_run()
    store: Any = home.reader.store
    store.die_at(0, kept)
    dies(home.abort, RUN, **WHO)
    store.revive()
    asked = state_of(home).state in ("aborting", "failed")
    if state_of(home).finish is None:
        home.resume_sync(RUN, agent)

    assert ("failed" if asked else "paused") == state_of(home).state


@pytest.mark.parametrize("code", [ASYNC, PLAIN], ids=["async", "plain"])
def test_a_living_run_aborts_itself(tmp_path: Path, code: str) -> None:
    """Its lock is never taken; `aborting` is on disk before anything is stopped, and the command is on the record."""
    home = clew.Home(tmp_path / ".clew")
    with living(code, tmp_path / ".clew") as writer:
        writer.says()
        writer.go_on()
        told = home.abort(RUN, **WHO)
        ended = writer.says()

    kinds = kinds_of(records_of(home))
    assert ("applied", "failed aborted") == (told["status"], ended)
    assert kinds.index("control") < kinds.index("REQUEST_ABORT") < kinds.index("FAIL")


# Pause.


@pytest.mark.parametrize("code", [ASYNC, PLAIN], ids=["async", "plain"])
def test_a_living_run_pauses_at_its_next_safe_point(tmp_path: Path, code: str) -> None:
    """What is under way ends first; then nothing new starts, and the run can go on later."""
    home = clew.Home(tmp_path / ".clew")
    with living(code, tmp_path / ".clew") as writer:
        writer.says()
        writer.go_on()
        told = home.pause(RUN, **WHO)
        ended = writer.says()

    assert ("applied", "paused pause_requested") == (told["status"], ended)


def test_a_run_that_nobody_runs_cannot_be_paused() -> None:
    """Saying "applied" would be false, and waiting for an answer would be for ever."""
    home, _ = dead_run()
    before = len(records_of(home))

    code = code_of(home.pause, RUN, **WHO)

    assert ("run_not_living", before) == (code, len(records_of(home)))


# The inbox from the sender's side.


class Busy(MemoryRunStore):
    """A store of which another process always holds the run, and answers as it is told."""

    answers: list[CommandAnswer]

    def open(self, run_id: str, **how: Any) -> Any:
        raise clew.Held("busy", code="run_state_locked", next="Wait.")

    def answered(self, run_id: str, control_id: str) -> CommandAnswer | None:
        return CommandAnswer(control_id, self.says, "because") if self.says else None  # type: ignore[arg-type]  # any word

    says = ""


def busy(says: str) -> clew.Home:
    store = Busy()
    store.says = says
    store.implant(RUN, Forger(store, payer(Bank().tool())).data)
    return clew.Home(".clew", store=store, clock=SetClock())


@pytest.mark.parametrize("status", ["applied", "accepted", "duplicate"])
def test_the_senders_told_what_became_of_the_command(status: str) -> None:
    """Each of them means that it is on the record."""
    assert status == send(busy(status)._parts, RUN, "pause", SAID, {})


@pytest.mark.parametrize("status", ["rejected", "conflict"])
def test_a_rejected_command_is_an_error_with_the_writers_reason(status: str) -> None:
    """A script must not go on as if it had been done."""
    with pytest.raises(clew.Refused, match="because") as caught:
        send(busy(status)._parts, RUN, "pause", SAID, {})

    assert "control_rejected" == caught.value.code


def test_a_writer_that_does_not_answer_leaves_the_command_in_its_inbox() -> None:
    """It may be in a long call; the sender hears where the command waits."""
    home = busy("")

    with pytest.raises(clew.Held) as caught:
        send(home._parts, RUN, "pause", SAID, {})

    waiting = home.reader.store.pending(RUN)
    assert ("run_state_locked", [caught.value.facts["controlId"]]) == (
        caught.value.code,
        [command.control_id for command in waiting],
    )


def test_a_command_is_withdrawn_only_without_an_answer() -> None:
    """The writer answered, paused and left: what it did must be heard, not done twice."""
    home, _ = dead_run()

    class Answering(MemoryRunStore):
        def post(self, command: Command) -> None:
            super().post(command)
            self.answer(RUN, CommandAnswer(command.control_id, "applied"))

        def open(self, run_id: str, **how: Any) -> Any:
            return super().open(run_id, **how)

    store = Answering()
    store.implant(RUN, home.reader.store.raw(RUN))  # type: ignore[attr-defined]  # a memory store

    status = send(clew.Home(".clew", store=store, clock=SetClock())._parts, RUN, "abort", SAID, {})

    assert "applied" == status


def test_what_waits_in_the_inbox_of_an_ended_run_is_answered() -> None:
    """Its journal takes no more commands; a sender that is still waiting hears why."""
    home, _ = dead_run()
    home.reader.store.post(Command(1, "late", RUN, "pause", "bob", "lunch"))
    home.abort(RUN, **WHO)

    answer = home.reader.store.answered(RUN, "late")

    assert answer is not None
    assert ("rejected", []) == (answer.status, events_of(home, "control"))
