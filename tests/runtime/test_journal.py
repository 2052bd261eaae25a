"""The living journal: one append after another, nothing after a failed one, nothing lost beside a refused one."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from clew.core.compose import Close, Move
from clew.core.events import Answering, Opening, error, step_output
from clew.core.outcome import Outcome
from clew.core.records import Batch, Record
from clew.core.state import RunState
from clew.errors import Corrupt, Refused, Stop, Storage
from clew.runtime.journal import Journal
from clew.runtime.recovery import Reopened, give_birth
from clew.stores.base import RunStore
from clew.stores.memory import MemoryRunStore
from clew.testing.clock import SetClock
from clew.testing.crash import Crash, CrashPoint, crashing
from tests.histories import approval, decided, facts, proposed


def born(store: RunStore) -> Journal:
    """A run's journal, its first leg open."""
    return give_birth(store, SetClock(), "r1", {"configName": "a", "schemaVersion": 1, "configFingerprint": "0" * 64})


def said(word: str) -> Any:
    return error(word, fatal=False)


def words(store: MemoryRunStore) -> list[str]:
    """What was said, in the order of the file."""
    events = [record.payload["event"] for record, _ in store.read("r1") if record.kind == "event"]
    return [event.get("message") or event["stepId"] for event in events]


def test_what_rides_goes_in_front_of_the_next_append() -> None:
    """A time that was read is on disk before anything rests on it, and costs no append of its own."""
    store, point = MemoryRunStore(), CrashPoint()
    journal = born(crashing(store, point))
    journal.riders.append(step_output("now-1", '"x"'))

    journal.append([said("one")])

    assert (["now-1", "one"], 1) == (words(store), len(point.appends))


@pytest.mark.parametrize(
    "late",
    [
        [{**approval(facts(1, run_id="r1")), "approvalId": ""}],
        [decided("a1", "deny", runId="r1"), *proposed(facts(1, run_id="r1"))],
    ],
    ids=["a question", "a no"],
)
def test_a_question_or_a_no_behind_an_abort_comes_too_late(late: list[Any]) -> None:
    """A thread that was about to say it hears `Stop`; the journal is sound, so that the abort can be ended."""
    store = MemoryRunStore()
    journal = born(store)
    journal.append([Move("REQUEST_ABORT", "enough")])
    before = store.raw("r1")

    with pytest.raises(Stop):
        journal.append(late)

    assert (before, None) == (store.raw("r1"), journal.fault)


def test_a_record_that_would_be_illegal_is_not_written_and_the_journal_goes_on() -> None:
    """Validate, append, then apply: a bug is refused before it is on disk."""
    store = MemoryRunStore()
    journal = born(store)
    before = store.raw("r1")

    with pytest.raises(Corrupt):
        journal.append([{"type": "turn_end", "turnId": "turn-9"}])

    assert before == store.raw("r1")
    journal.append([said("one")])
    assert ["one"] == words(store)


def test_an_append_too_large_is_refused_and_what_rode_on_it_waits_for_the_next() -> None:
    """Otherwise a recorded time would be lost, and read anew on replay."""
    store = MemoryRunStore()
    journal = born(store)
    journal.riders.append(step_output("now-1", '"x"'))

    with pytest.raises(Refused):
        journal.append([said("x" * (33 << 20))])
    journal.append([said("one")])

    assert ["now-1", "one"] == words(store)


@pytest.mark.parametrize("keep", [0, 30, None])
def test_after_a_failed_append_nothing_is_acknowledged(keep: int | None) -> None:
    """Nobody knows what is on disk now; the next opener reads it from the device."""
    store = MemoryRunStore()
    journal = born(crashing(store, CrashPoint(1, keep)))
    sequence = journal.state.sequence

    with pytest.raises(Crash):
        journal.append([said("one")])
    with pytest.raises(Storage) as caught:
        journal.append([said("two")])

    assert ("fact_ledger_poisoned", sequence) == (caught.value.code, journal.state.sequence)


def test_after_a_failed_append_the_loop_is_not_acknowledged_either() -> None:
    """Those who wait behind it are told, and do not wait for ever."""
    store = MemoryRunStore()
    journal = born(crashing(store, CrashPoint(1, 0)))

    async def main() -> list[str]:
        appends = [journal.append_from_loop([said(word)]) for word in ("one", "two", "three")]
        return [type(end).__name__ for end in await asyncio.gather(*appends, return_exceptions=True)]

    ends = asyncio.run(main())

    assert ["Crash", "Storage", "Storage"] == ends


def test_when_the_leg_has_ended_whoever_was_left_behind_is_stopped() -> None:
    """A task that goes on must not break what was closed in order."""
    store = MemoryRunStore()
    journal = born(store)
    journal.append([Move("PAUSE", "x"), Close("pause", Outcome("paused", "x"))])

    with pytest.raises(Stop):
        journal.append([said("late")])
    with pytest.raises(Stop):
        asyncio.run(journal.append_from_loop([said("late")]))

    assert (None, []) == (journal.fault, words(store))


def test_a_start_asks_once_more_when_its_turn_has_come() -> None:
    """The gate may close while it waits behind another append."""
    store = MemoryRunStore()
    journal, closed = born(store), threading.Event()

    def check() -> None:
        if closed.is_set():
            raise Stop("closed")

    journal.check_start = check

    async def main() -> list[str]:
        async def one_and_close() -> None:
            await journal.append_from_loop([said("one")], starts=True)
            closed.set()

        first = asyncio.ensure_future(one_and_close())
        second = asyncio.ensure_future(journal.append_from_loop([said("two")], starts=True))
        await asyncio.wait([first, second])
        await journal.append_from_loop([said("three")])
        return [type(second.exception()).__name__]

    found = asyncio.run(main())

    assert (["Stop"], ["one", "three"]) == (found, words(store))


def test_appends_from_a_loop_keep_their_order() -> None:
    """They are handed to threads; the file has them as they were asked for."""
    store = MemoryRunStore()
    journal = born(store)
    order = [str(n) for n in range(50)]

    async def main() -> None:
        await asyncio.gather(*(journal.append_from_loop([said(word)]) for word in order))

    asyncio.run(main())

    assert order == words(store)


def test_appends_from_threads_are_each_whole() -> None:
    """A group of plain calls writes from many threads; every record is counted once."""
    store = MemoryRunStore()
    journal = born(store)

    def writes(name: int) -> None:
        for n in range(20):
            journal.riders.append(step_output(f"now-{name * 20 + n + 1}", '"x"'))
            journal.append([said(f"{name}/{n}")])

    threads = [threading.Thread(target=writes, args=[name]) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = words(store)
    assert {f"{name}/{n}" for name in range(6) for n in range(20)} <= set(found)
    assert (240, 240) == (len(found), len(set(found)))


class Held(CrashPoint):
    """An append that waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def take(self, batch: Batch) -> Batch | None:
        self.begun.set()
        assert self.go.wait(30)
        return super().take(batch)


def test_a_cancellation_is_handed_back_when_the_append_is_durable() -> None:
    """An append is not to be torn by the wish to end it."""
    store, point = MemoryRunStore(), Held()
    journal = born(crashing(store, point))

    async def main() -> Any:
        task = asyncio.ensure_future(journal.append_from_loop([said("one")]))
        while not point.begun.is_set():
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        still = not task.done()
        point.go.set()
        return still, await task

    still, met = asyncio.run(main())

    assert (True, True, ["one"]) == (still, isinstance(met, asyncio.CancelledError), words(store))


def test_a_watcher_is_told_of_each_durable_record_from_the_first_on() -> None:
    """`clew run` prints as it goes; the birth happened before anybody could watch."""
    store, told = MemoryRunStore(), list[Record]()
    journal = born(store)
    journal.watch(told.append)

    journal.append([said("one")])

    assert [record.sequence for record, _ in store.read("r1")] == [record.sequence for record in told]


def test_a_watcher_that_fails_is_left_alone() -> None:
    """The run does not depend on who looks at it."""
    store, calls = MemoryRunStore(), []
    journal = born(store)

    def watcher(record: Record) -> None:
        calls.append(record)
        raise LookupError

    journal.watch(watcher)
    journal.append([said("one")])

    assert (1, ["one"]) == (len(calls), words(store))


def test_event_ids_go_on_and_never_repeat() -> None:
    """Nonce and counter: two legs cannot give the same id."""
    store = MemoryRunStore()
    journal = born(store)
    journal.append([said("one")])
    store.forget_writers()
    opened = Reopened(store, SetClock(seed="second"), store.open("r1"), "resume")
    opened.take_over("proven")
    again = opened.begin()
    again.append([said("two")])

    ids = [record.event_id for record, _ in store.read("r1")]
    assert len(ids) == len(set(ids))


def test_event_ids_never_repeat_where_both_ways_of_making_an_append_are_gone() -> None:
    """The short way of a usual call asks for its ids at once: one too few, and the next record has another's."""
    store, call = MemoryRunStore(), facts(1, run_id="r1")
    journal = born(store)
    for sayings in ([Opening(call, {})], [said("between")], [Answering(call, "1")], [said("behind")]):
        journal.append(sayings)
    records = [record for record, _ in store.read("r1")]
    ids = [record.event_id for record in records]
    ids += [record.payload["eventId"] for record in records if record.kind in ("event", "operation")]

    assert len(set(ids)) == len(ids)


def test_a_journal_is_not_closed_under_a_write() -> None:
    """The number of its descriptor may be another file's in a moment, and the bytes would go there."""
    entered, leave, order = threading.Event(), threading.Event(), list[str]()
    journal = born(MemoryRunStore())
    writer: Any = journal.writer

    class Slow:
        size_bytes = writer.size_bytes

        def append(self, batch: Any, *, starts_effect: bool = False) -> int:
            entered.set()
            leave.wait(20)
            order.append("written")
            return int(writer.append(batch, starts_effect=starts_effect))

        def close(self) -> None:
            order.append("closed")

    journal.writer = Slow()  # type: ignore[assignment]  # all that an append asks of it
    writing = threading.Thread(target=journal.append, args=([said("slow")],))
    writing.start()
    entered.wait(20)
    closing = threading.Thread(target=journal.close)
    closing.start()
    closing.join(0.05)
    leave.set()
    for thread in (writing, closing):
        thread.join(20)

    assert ["written", "closed"] == order


def test_nothing_to_say_writes_nothing() -> None:
    """An empty append would cost two syncs, and there is no record to put into it."""
    point = CrashPoint()
    journal = born(crashing(MemoryRunStore(), point))
    before = journal.state.sequence

    journal.append([])

    assert (before, []) == (journal.state.sequence, point.appends)


def test_what_was_written_and_cannot_be_taken_in_ends_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is ahead of what this process knows: it must not go on by what it knew before."""
    journal = born(MemoryRunStore())
    with monkeypatch.context() as patched:
        patched.setattr(RunState, "merge", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.append([said("one")])

    with pytest.raises(Storage) as caught:
        journal.append([said("two")])

    assert "fact_ledger_poisoned" == caught.value.code


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_a_write_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a forked child the writing thread is not there any more; the journal is closed all the same."""
    monkeypatch.setattr("clew.runtime.journal.WRITE_S", 0.01)
    journal, ended = born(MemoryRunStore()), list[str]()
    journal.beside = lambda: ended.append("session")

    with write_at_work(journal):
        journal.append([said("one")])
        journal.close()

    assert (True, ["session"]) == (journal.writer.poisoned, ended)


@contextmanager
def write_at_work(journal: Journal) -> Iterator[None]:
    """Another thread holds what a write holds."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with journal._writing:
            entered.set()
            leave.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(20)
    try:
        yield
    finally:
        leave.set()
        thread.join(20)
