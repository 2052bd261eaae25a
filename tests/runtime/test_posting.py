"""Commands from their sender's side: the same id is done once, wherever it was done and whatever has ended since."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import clew
from clew.runtime.control import POLL_S
from clew.runtime.posting import Posting
from clew.runtime.reviewing import Said
from clew.stores.base import Command
from tests.runtime.stage import RUN, WHO, Bank, code_of, events_of, mortal_home, payer, state_of

NAMED: dict[str, Any] = {**WHO, "control_id": "c-1"}


def open_effect() -> tuple[clew.Home, Bank]:
    """A run that waits for a person."""
    home, _ = mortal_home()
    bank = Bank()
    bank.fates = ["fails after"]
    home.run_sync(payer(bank.tool(), "1"), run_id=RUN)
    return home, bank


DEEDS: dict[str, Callable[[clew.Home], Any]] = {
    "abort": lambda home: home.abort(RUN, **NAMED),
    "settle": lambda home: home.settle(RUN, clew.Happened({"transfer": "T"}), **NAMED),
    "settle by name": lambda home: home.settle(RUN, clew.Happened({"transfer": "T"}), call="pay-1", **NAMED),
    "give up": lambda home: home.settle(RUN, clew.GiveUp(), **NAMED),
    "steer": lambda home: home.steer(RUN, "be quick", by="ann", control_id="c-1"),
}


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
def test_what_was_done_under_the_lock_is_done_once(deed: Callable[[clew.Home], Any]) -> None:
    """Contract #203: its sender was cut off before it heard, and sends again; also when that ended the run."""
    home, _ = open_effect()
    deed(home)
    before = state_of(home).sequence
    deed(home)

    assert (before, ["c-1"]) == (state_of(home).sequence, sorted({e["controlId"] for e in events_of(home, "control")}))


@pytest.mark.parametrize(
    "other",
    [
        lambda home: home.abort(RUN, by="bob", reason="no", control_id="c-1"),
        lambda home: home.settle(RUN, clew.GiveUp(), **NAMED),
        lambda home: home.pause(RUN, **NAMED),
    ],
    ids=["by another", "another deed", "another kind"],
)
def test_another_command_under_the_id_is_a_conflict(other: Callable[[clew.Home], Any]) -> None:
    """Contract #205: the first stays bound, also behind the end of the run."""
    home, _ = open_effect()
    home.settle(RUN, clew.Happened({"transfer": "T"}), **NAMED)

    assert "control_conflict" == code_of(other, home)


def test_a_settlement_behind_the_end_is_answered_in_the_inbox() -> None:
    """DESIGN §4: the journal of an ended run takes no commands; under the same id it is a duplicate all the same."""
    home, _ = open_effect()
    home.abort(RUN, **WHO)
    told = [home.settle(RUN, clew.DidNotHappen(), call="pay-1", **NAMED)["review"]["outcome"] for _ in range(2)]

    answer = home.reader.store.answered(RUN, "c-1")
    assert (["did_not_happen"] * 2, "applied") == (told, None if answer is None else answer.status)
    assert ([], 1) == (events_of(home, "control"), len(events_of(home, "effect_review")))


def test_a_refusal_is_told_again() -> None:
    """Contract #208: who asks again for what a run that has ended refused hears the same."""
    home, _ = open_effect()
    home.abort(RUN, **WHO)
    codes = [code_of(home.abort, RUN, **NAMED) for _ in range(2)]

    assert (["run_already_finished"] * 2, []) == (codes, events_of(home, "control"))


def test_what_nobody_would_understand_is_not_even_posted() -> None:
    """Contract #207: it stops at its sender's door."""
    home, _ = open_effect()
    codes = [
        code_of(home.steer, RUN, "", by="ann", control_id="c-1"),
        code_of(home.pause, RUN, by="ann", reason="lunch", control_id="../c"),
        code_of(home.pause, RUN, by=" ", reason="lunch", control_id="c-1"),
    ]

    assert ["control_invalid", "invalid_control_id", "review_incomplete"] == codes
    assert [] == home.reader.store.pending(RUN)


def test_equal_commands_at_once_are_done_once() -> None:
    """Contract #206: eight senders and four threads that look; two facts, one deed."""
    home, _ = mortal_home()
    done: list[int] = []

    @clew.tool(effect="none")
    def post() -> None:
        clock: Any = home._parts.clock
        threads = [
            threading.Thread(
                target=home.reader.store.post, args=(Command(1, "c-1", RUN, "steer", "ann", "x", {"text": "stop"}),)
            )
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        clock.advance(POLL_S)

    @clew.agent(tools=[post], name="orders")
    def orders(run: clew.SyncRun, prompt: Any) -> Any:
        run.call(post)
        with run.group() as group:
            for _ in range(4):
                group.call(look)
        done.extend(len(run.steering()) for _ in range(3))
        return "done"

    @clew.tool(effect="none")
    def look(call: clew.Call) -> bool:
        return call.called_off

    home.run_sync(orders, run_id=RUN)

    assert ([1, 0, 0], ["accepted", "applied"]) == (done, [event["state"] for event in events_of(home, "control")])


def test_a_command_of_a_dead_sender_is_answered_by_the_next_leg() -> None:
    """Contract #204, #208: posted to nobody, it is not lost; what cannot be done any more is said so."""
    home, _ = open_effect()
    store = home.reader.store
    settling = {"call": "pay-1", "outcome": "happened", "attempt": 1, "result": {"transfer": "T"}}
    store.post(Command(1, "c-1", RUN, "settle", "ann", "looked", settling))
    store.post(Command(1, "c-2", RUN, "abort", "ann", "enough"))
    home.abort(RUN, **WHO)
    answers = [store.answered(RUN, name) for name in ("c-1", "c-2")]

    assert [("rejected", "control_unavailable")] * 2 == [(a.status, a.code) for a in answers if a is not None]


def test_one_run_has_one_leg_at_a_time() -> None:
    """Contract #104: a second one on the same run is refused while the first is active, also in the same process."""
    home, _ = mortal_home()
    codes: list[str] = []

    def agent(run: clew.SyncRun, prompt: Any) -> Any:
        codes.append(code_of(home.run_sync, agent, run_id=RUN))
        codes.append(code_of(home.resume_sync, RUN, agent))
        return "done"

    home.run_sync(agent, run_id=RUN)

    assert ["run_id_conflict", "run_state_locked"] == codes


def test_an_id_of_our_own_making_is_never_used_twice() -> None:
    """Two people who say the same mean two things."""
    home, _ = open_effect()
    ids = {Posting(home._parts, RUN, "pause", Said("ann", "x"), {}).command.control_id for _ in range(100)}

    assert 100 == len(ids)
