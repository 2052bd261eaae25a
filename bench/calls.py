"""The cost of one call and one append, against bare writes of the same bytes in the same process and round."""

import asyncio
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import clew
from bench.figures import Figure
from bench.pairs import Rounds, take_turns
from clew.core import events
from clew.core.chain import genesis
from clew.core.codec import encode_append
from clew.core.records import Draft

ROUNDS = 40
CALLS = 40


@clew.tool(effect="external")
def pay(call: clew.Call, order: str, cents: int) -> dict:
    """A tool whose body costs nothing."""
    return {"order": order, "cents": cents, "paid": True}


@clew.tool(effect="external", name="pay_async")
async def pay_async(call: clew.Call, order: str, cents: int) -> dict:
    """The same, as a coroutine."""
    return {"order": order, "cents": cents, "paid": True}


class Bare:
    """A file that is written and synced by hand: what any durable append must cost at least."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def write(self, data: bytes) -> None:
        """One write, one sync."""
        os.write(self.fd, data)
        os.fdatasync(self.fd)


def appends_of(journal: Path) -> list[bytes]:
    """The bytes of the last call's two appends in a journal, so that the bare file is given the same."""
    lines = journal.read_bytes().splitlines(keepends=True)[-6:]
    return [b"".join(lines[:3]), b"".join(lines[3:])]


def sync_call(folder: Path) -> list[Figure]:
    """A whole call of a plain agent, and one append through the store and through the living journal."""
    home = clew.Home(folder / "sync")
    found: list[Rounds] = []

    @clew.agent(tools=[pay])
    def agent(run: clew.SyncRun, prompt: str) -> str:
        count = iter(range(1_000_000))

        def ours(times: int) -> None:
            for _ in range(times):
                run.call(pay, order=f"{next(count)}", cents=4200)

        ours(20)
        pair = appends_of(folder / "sync" / "runs" / f"{run.run_id}.jsonl")
        by_hand = twice(Bare(folder / "bare"), pair)
        found.append(take_turns({"call": (ours, CALLS), "bare": (by_hand, CALLS)}, ROUNDS))
        found.append(_appends(run, Bare(folder / "bare-one")))
        return "done"

    home.run_sync(agent, "bench").raise_for_state()
    calls, appends = found
    return [
        Figure("critical append (encode, chain, look, write, sync) / write + fdatasync", appends.ratio("store", "bare"),
               gate=1.3, note=_ms(appends, "store", "bare")),
        Figure("append through the living journal (judged and folded too) / write + fdatasync",
               appends.ratio("journal", "bare"), note=_ms(appends, "journal", "bare")),
        Figure("whole call, plain agent / two bare synced appends", calls.ratio("call", "bare"), gate=1.6,
               note=_ms(calls, "call", "bare")),
    ]  # fmt: skip


def twice(bare: Bare, pair: list[bytes]) -> Callable[[int], None]:
    """Both appends of a call by hand, so many times."""

    def work(times: int) -> None:
        for _ in range(times):
            for data in pair:
                bare.write(data)

    return work


def _appends(run: clew.SyncRun, bare: Bare) -> Rounds:
    """One record an append, three ways: through the living journal, through a store's writer alone, and by hand."""
    journal = run._gate.journal
    said = events.error("x" * 400, fatal=False)
    lines: list[bytes] = []

    def living(times: int) -> None:
        for _ in range(times):
            journal.append([said])

    def by_hand(times: int) -> None:
        for _ in range(times):
            bare.write(lines[0])

    writer = _Alone(run)
    writer.work(1)
    lines.append(writer.last)
    return take_turns({"journal": (living, CALLS), "bare": (by_hand, CALLS), "store": (writer.work, CALLS)}, ROUNDS)


class _Alone:
    """A run's store writer, driven without a journal above it: a run of its own, born for this."""

    def __init__(self, run: clew.SyncRun) -> None:
        store = run._gate.store
        self.run_id = f"{run.run_id}-alone"
        batch = encode_append(
            self.run_id, after=0, chain=genesis(self.run_id), drafts=[Draft("start", {})],
            timestamp="2026-11-29T12:00:00.000Z", event_ids=["b-0"],
        )  # fmt: skip
        self.writer = store.create(self.run_id, batch)
        self.sequence, self.chain, self.last = 1, batch.chain, b""

    def work(self, times: int) -> None:
        """Encode, chain and append one record, so many times."""
        for _ in range(times):
            payload = {
                "eventId": f"b-{self.sequence}",
                "runId": self.run_id,
                "sequence": self.sequence,
                "timestamp": "2026-11-29T12:00:00.000Z",
                "event": events.error("x" * 400, fatal=False),
            }
            batch = encode_append(
                self.run_id, after=self.sequence, chain=self.chain, drafts=[Draft("event", payload)],
                timestamp="2026-11-29T12:00:00.000Z", event_ids=[f"b-{self.sequence}"],
            )  # fmt: skip
            self.writer.append(batch, starts_effect=True)
            self.sequence, self.chain, self.last = batch.last, batch.chain, batch.data


def async_call(folder: Path) -> list[Figure]:
    """A whole call of an async agent, the loop free while the disk works."""
    home = clew.Home(folder / "async")
    rounds = Rounds()

    @clew.agent(tools=[pay_async])
    async def agent(run: clew.Run, prompt: str) -> str:
        bare, order, count = Bare(folder / "bare-async"), random.Random(1), iter(range(1_000_000))
        for _ in range(20):
            await run.call(pay_async, order=f"{next(count)}", cents=4200)
        by_hand = twice(bare, appends_of(folder / "async" / "runs" / f"{run.run_id}.jsonl"))
        for _ in range(ROUNDS):
            for name in order.sample(("call", "bare"), 2):
                since = time.perf_counter()
                if name == "bare":
                    by_hand(CALLS)
                else:
                    for _ in range(CALLS):
                        await run.call(pay_async, order=f"{next(count)}", cents=4200)
                rounds.add(name, time.perf_counter() - since, CALLS)
        return "done"

    asyncio.run(home.run(agent, "bench")).raise_for_state()
    return [
        Figure("whole call, async agent / two bare synced appends", rounds.ratio("call", "bare"), gate=2.4,
               note=_ms(rounds, "call", "bare")),
    ]  # fmt: skip


def _ms(rounds: Rounds, mine: str, theirs: str) -> str:
    return f"{rounds.median_ms(mine):.3f} ms against {rounds.median_ms(theirs):.3f} ms"
