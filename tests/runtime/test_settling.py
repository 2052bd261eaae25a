"""A person settles an effect: under the lock of a run that waits, or by the inbox of a writer that lives."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.records import Batch
from clew.runtime.commanding import send
from clew.runtime.listed import row_of
from clew.runtime.reviewing import Said
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.testing.clock import SetClock
from tests.disk.living import living
from tests.histories import failed, started
from tests.runtime.stage import (
    RUN,
    WHO,
    Bank,
    Forger,
    Mortal,
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
from tests.runtime.stage import facts_in as facts

# One effect stays open while its sibling is under way: until then, the writer lives.
WRITER = """
import sys
import clew
home = clew.Home(sys.argv[1])
@clew.tool(effect="external")
def fails(): raise ConnectionError("no answer")
@clew.tool(effect="external")
def waits():
    sys.stdin.readline()
    return "waited"
def watch(record):
    if record.kind == "event" and record.payload["event"].get("status") == "unknown":
        print("open", flush=True)
@clew.agent(tools=[fails, waits])
async def orders(run, prompt):
    async with run.group() as group:
        group.call(fails)
        group.call(waits)
result = home.run_sync(orders, run_id="orders-1", on_record=watch)
print(result.operation.state, result.reason, flush=True)
"""


def open_effect() -> tuple[clew.Home, Bank, clew.Agent]:
    """A paused run with one open effect."""
    home, _ = mortal_home()
    bank = Bank()
    bank.fates = ["fails before"]
    agent = payer(bank.tool(), "1")
    home.run_sync(agent, run_id=RUN)
    return home, bank, agent


def test_a_settlement_leaves_why_the_run_paused() -> None:
    """What the tool raised is what the person who mends it must read, and it is nowhere else on the screen."""
    home, _, _ = open_effect()
    before = home.reader.row(RUN)
    home.settle(RUN, clew.DidNotHappen(), **WHO)
    told = home.reader.row(RUN)

    assert ("paused", "unknown_effect", "ConnectionError: no answer from the bank", 0) == tuple(
        told[name] for name in ("shown", "reason", "message", "waitingCount")
    )
    assert before["pausedAt"] == told["pausedAt"]


def test_a_secret_answer_that_was_settled_is_not_asked_for_again() -> None:
    """A list that went on asking would send its reader to a command that is refused."""
    home, _ = mortal_home()

    @clew.tool(effect="external", secret=True)
    def key(call: clew.Call) -> str:
        return "a new key"

    @clew.agent(tools=[key])
    def agent(run: clew.SyncRun, prompt: Any) -> None:
        run.call(key)
        raise LookupError("a bug")

    home.run_sync(agent, run_id=RUN)
    raised = home.reader.row(RUN)
    home.resume_sync(RUN, agent)
    wanted = home.reader.row(RUN)
    home.settle(RUN, clew.Happened(), call="key-1", **WHO)
    settled = home.reader.row(RUN)

    assert "lost" not in raised
    assert [("secret_answer_lost", ["key-1"]), ("secret_answer_lost", [])] == [
        (told["reason"], told["lost"]) for told in (wanted, settled)
    ]
    assert row_of(home.reader.store.head(RUN)) is not None


def test_happened_with_a_result_is_the_answer() -> None:
    """The agent goes on as if the tool had returned it; the bank is not asked again."""
    home, bank, agent = open_effect()
    home.settle(RUN, clew.Happened({"transfer": "T-77"}), **WHO)

    result = home.resume_sync(RUN, agent)

    assert ([{"transfer": "T-77"}], 0) == (result.output, bank.orders["1"])


def test_happened_without_a_result_is_an_error_answer_of_its_own() -> None:
    """The agent must be able to tell "it happened, nobody knows what it returned" from a failure."""
    home, _, agent = open_effect()
    home.settle(RUN, clew.Happened(), **WHO)
    result = home.resume_sync(RUN, agent)

    assert isinstance(result.fault, clew.ResultNotRecorded)


def test_did_not_happen_lets_the_call_start_again_under_the_same_key() -> None:
    """The key is the effect's, not the attempt's."""
    home, bank, agent = open_effect()
    home.settle(RUN, clew.DidNotHappen(), **WHO)
    home.resume_sync(RUN, agent)

    assert [f"{RUN}:pay-1:c1"] == list(bank.paid)
    assert ["started", "committed"] == [event["status"] for event in events_of(home, "tool_attempt")]


def test_a_settled_call_that_is_killed_again_asks_again() -> None:
    """A person spoke of the attempt that was, not of all that will be: no third start by itself."""
    home, store = mortal_home()
    bank = Bank()
    agent = payer(bank.tool(), "1")
    store.die_at(2)
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    home.settle(RUN, clew.DidNotHappen(), **WHO)
    store.die_at(2)
    dies(home.resume_sync, RUN, agent)
    store.revive()

    result = home.resume_sync(RUN, agent)

    assert ("unknown_effect", 2, [2]) == (result.reason, bank.orders["1"], [row["attempt"] for row in result.waiting])


class Visited(Mortal):
    """A store that somebody else comes to right before its next lock is taken."""

    meanwhile: Callable[[], Any] | None = None

    def open(self, run_id: str, **how: Any) -> Any:
        visit, self.meanwhile = self.meanwhile, None
        if visit is not None:
            visit()
        return super().open(run_id, **how)


def test_what_was_found_out_of_one_attempt_does_not_settle_the_one_that_was_started_meanwhile() -> None:
    """It did not happen the first time; said of the second, which somebody started since, the bank is paid again."""
    store = Visited()
    home = clew.Home(".clew", takeover="proven", store=store, blobs=MemoryBlobStore(), clock=SetClock())
    bank = Bank()
    bank.fates = ["fails before", "fails after"]
    agent = payer(bank.tool(), "1")
    home.run_sync(agent, run_id=RUN)

    def meanwhile() -> None:
        home.settle(RUN, clew.DidNotHappen(), **WHO)
        home.resume_sync(RUN, agent)

    store.meanwhile = meanwhile
    refused = code_of(home.settle, RUN, clew.DidNotHappen(), **WHO)
    home.resume_sync(RUN, agent)

    assert ("review_conflict", 1) == (refused, bank.orders["1"])


def test_who_looked_at_one_attempt_settles_no_later_one() -> None:
    """Between the look and the word another process may have started it again, and the word was of the first."""
    home, bank, agent = open_effect()
    home.settle(RUN, clew.DidNotHappen(), **WHO)
    bank.fates = ["fails after"]
    home.resume_sync(RUN, agent)

    refused = code_of(home.settle, RUN, clew.DidNotHappen(), attempt=1, **WHO)
    home.settle(RUN, clew.Happened(), attempt=2, **WHO)

    assert ("review_conflict", 1) == (refused, bank.orders["1"])


def test_give_up_ends_the_run_and_keeps_the_effect_on_the_list() -> None:
    """What nobody will ever know must not look settled."""
    home, _, _ = open_effect()
    home.settle(RUN, clew.GiveUp(), **WHO)

    result = home.result(RUN)

    assert ("failed", "effect_given_up") == (result.operation.state, result.reason)
    assert [("pay-1", "unknown", "give_up")] == [
        (row["stepId"], row["status"], row["review"]["outcome"]) for row in result.snapshot["effects"]
    ]


def test_a_give_up_that_died_before_the_end_is_finished_by_the_next_writer() -> None:
    """The person's word is on the disk; the run must not run on because the end behind it is missing."""
    home, store = mortal_home()
    bank = Bank()
    bank.fates = ["fails after"]
    agent = payer(bank.tool(), "1")
    home.run_sync(agent, run_id=RUN)
    store.die_at(2)
    dies(home.settle, RUN, clew.GiveUp(), **WHO)
    store.revive()

    result = home.resume_sync(RUN, agent)

    assert ("failed", "effect_given_up", 1) == (result.operation.state, result.reason, bank.orders["1"])


def test_a_contradicting_second_settlement_is_refused_and_writes_nothing() -> None:
    """The first stands; the journal does not grow by a leg that says nothing."""
    home, _, _ = open_effect()
    home.settle(RUN, clew.Happened(1), **WHO)
    before = len(records_of(home))

    code = code_of(home.settle, RUN, clew.DidNotHappen(), call="pay-1", **WHO)

    assert ("review_conflict", before) == (code, len(records_of(home)))


class Full:
    """A writer whose disk has no room from its second append on; otherwise the writer it wraps."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._appends = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, batch: Batch, *, starts_effect: bool = False) -> int:
        self._appends += 1
        if self._appends > 1:
            raise clew.Storage("there is no room", code="disk_full", next="Make room.")
        return int(self._writer.append(batch, starts_effect=starts_effect))


class FullStore(MemoryRunStore):
    """A store on a disk that fills up once a leg has been opened."""

    full = False

    def open(self, run_id: str, *, wait_s: float = 2.0, ignore_head: bool = False) -> Any:
        writer = super().open(run_id, wait_s=wait_s, ignore_head=ignore_head)
        return Full(writer) if self.full else writer


def test_a_settlement_that_the_disk_does_not_take_says_that_the_disk_is_full() -> None:
    """Closing the leg fails as well then; that it did must not be what the person is told."""
    store, bank = FullStore(), Bank()
    home = clew.Home(".clew", takeover="operator", store=store, clock=SetClock())
    bank.fates = ["fails before"]
    home.run_sync(payer(bank.tool(), "1"), run_id=RUN)
    store.full = True

    code = code_of(home.settle, RUN, clew.DidNotHappen(), **WHO)

    assert ("disk_full", []) == (code, events_of(home, "effect_review"))


def test_a_settlement_is_a_leg_of_its_own() -> None:
    """It is opened, says one thing, and is closed; the operation does not move."""
    home, _, _ = open_effect()
    before = len(records_of(home))
    home.settle(RUN, clew.Happened(1), evidence=["line 14"], **WHO)

    assert ["resume", "effect_review", "step_output", "leg_ended"] == kinds_of(records_of(home)[before:])
    assert [{"kind": "text", "text": "line 14"}] == events_of(home, "effect_review")[0]["evidence"]
    assert ("settle", "paused") == (resumes_of(home)[0]["leg"]["purpose"], state_of(home).state)


def test_a_long_result_goes_beside_the_journal() -> None:
    """A person may paste a whole statement."""
    home, _, agent = open_effect()
    home.settle(RUN, clew.Happened("x" * 20_000), **WHO)

    assert 20_000 == len(home.resume_sync(RUN, agent).output[0])


def test_an_effect_can_be_named_by_its_key_alone() -> None:
    """The key is what the bank's statement shows."""
    home, _, _ = open_effect()

    row = home.settle(f"{RUN}:pay-1:c1", clew.Happened(1), **WHO)

    assert ("pay-1", "happened") == (row["stepId"], row["review"]["outcome"])


# After the end.


def aborted() -> clew.Home:
    home, _, _ = open_effect()
    home.abort(RUN, **WHO)
    return home


@pytest.mark.parametrize(
    ("verdict", "members"),
    [(clew.Happened(7), (True, 7)), (clew.Happened(), (False, None)), (clew.GiveUp(), (False, None))],
)
def test_an_effect_is_settled_after_the_end(verdict: Any, members: tuple[bool, Any]) -> None:
    """The books are closed later than the run; its state never moves again."""
    home = aborted()
    home.settle(RUN, verdict, **WHO)

    event = events_of(home, "effect_review")[0]
    assert members == (event["resultRecorded"], event.get("result"))
    assert ("failed", "aborted", []) == (state_of(home).state, home.result(RUN).reason, home.result(RUN).waiting)


def test_a_settlement_after_the_end_is_not_contradicted_either() -> None:
    """The same rule, in a leg behind the finish."""
    home = aborted()
    home.settle(RUN, clew.DidNotHappen(), **WHO)

    assert "review_conflict" == code_of(home.settle, RUN, clew.Happened(), call="pay-1", **WHO)


def test_an_end_that_was_cut_off_is_written_before_the_settlement() -> None:
    """Otherwise the finish would close the leg in the middle of what the person says."""
    store, agent = MemoryRunStore(), payer(Bank().tool(), "1")
    forger = Forger(store, agent)
    forger.say(*started(facts(forger.state)))
    forger.say(*failed("agent_error")[:1])
    store.implant(RUN, forger.data)
    home = clew.Home(".clew", takeover="proven", store=store, clock=SetClock())
    home.settle(RUN, clew.Happened(3), **WHO)

    assert ["resume", "finish", "resume", "effect_review", "leg_ended"] == kinds_of(records_of(home))[-5:]


# While a writer lives.


def test_a_living_writer_takes_the_settlement_from_its_inbox(tmp_path: Path) -> None:
    """Its lock is never taken; it records what the person said before it pauses."""
    home = clew.Home(tmp_path / ".clew")
    with living(WRITER, tmp_path / ".clew") as writer:
        writer.says()
        row = home.settle(RUN, clew.Happened("paid"), call="group-1.fails-1", **WHO)
        writer.go_on()
        writer.says()

    assert ("happened", "ann") == (row["review"]["outcome"], row["review"]["by"])
    assert ["accepted", "applied"] == [event["state"] for event in events_of(home, "control")]


def test_an_effect_that_is_under_way_is_not_settled(tmp_path: Path) -> None:
    """It may return at any moment, and what a tool returns is known; the person is told to wait."""
    home = clew.Home(tmp_path / ".clew")
    with living(WRITER, tmp_path / ".clew") as writer:
        writer.says()
        with pytest.raises(clew.Refused, match="under way") as caught:
            home.settle(RUN, clew.Happened("paid"), call="group-1.waits-1", **WHO)
        writer.go_on()
        writer.says()

    assert "control_rejected" == caught.value.code


def test_without_a_name_the_open_effects_of_a_living_run_are_looked_up(tmp_path: Path) -> None:
    """Two are open here, one of them under way: a command that guesses would be worse than none."""
    home = clew.Home(tmp_path / ".clew")
    with living(WRITER, tmp_path / ".clew") as writer:
        writer.says()
        code = code_of(home.settle, RUN, clew.Happened("paid"), **WHO)
        writer.go_on()
        writer.says()

    assert "which_effect" == code


def test_a_command_whose_writer_has_gone_is_withdrawn_and_done_under_the_lock() -> None:
    """Between looking at the lock and posting, the writer may have paused: nobody would ever answer."""
    home, _, _ = open_effect()
    status = send(home._parts, RUN, "settle", Said("ann", "looked"), {"outcome": "happened"})

    row = home.settle(RUN, clew.Happened(1), **WHO)

    assert (None, "happened") == (status, row["review"]["outcome"])
    assert [] == home.reader.store.pending(RUN)
