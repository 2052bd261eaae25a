"""Where runs are played: a store whose process dies when told, a bank that counts, agents that pay."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.compose import Move, Saying, compose
from clew.core.folding import fold
from clew.core.records import Batch, Draft, Head, Record
from clew.core.state import RunState
from clew.core.times import format_ms
from clew.runtime.recovery import owner_of_leg
from clew.stores.base import CommandAnswer, RunStore
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.testing.clock import SetClock
from tests.histories import BORN_MS, facts

RUN = "orders-1"
WHO: dict[str, Any] = {"by": "ann", "reason": "looked at the bank"}


class Death(BaseException):
    """The process ends here; nobody may catch it."""


class Mortal(MemoryRunStore):
    """Runs in memory, of a process that dies at the append it is told. `acknowledged`: what was said to be durable.

    `die_at(n, kept)`: in the n-th append from now (0: the next), after `kept` of its bytes have reached the disk;
    None: all of them, and nobody was told. `in_doubt`: counted from the first that says that an outcome is unknown.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dead = False
        self.acknowledged: list[tuple[str, int, str]] = []
        self._left = -1
        self._kept: int | None = 0
        self._certain = False

    def die_at(self, appends: int, kept: int | None = 0, *, in_doubt: bool = False) -> None:
        self._left, self._kept, self._certain = appends, kept, in_doubt

    def revive(self) -> None:
        """Another process, later: whoever wrote is gone, the bytes stay."""
        self.forget_writers()
        self.dead, self._left, self._certain = False, -1, False

    def create(self, run_id: str, batch: Batch, *, wait_s: float = 0.0) -> Any:
        self.live()
        kept = self.doomed(batch)
        if kept is not None and kept < len(batch.data):
            raise Death  # A journal is born whole or not at all.
        writer = super().create(run_id, batch, wait_s=wait_s)
        return MortalWriter(self, writer).acknowledge(batch, kept)

    def open(self, run_id: str, *, wait_s: float = 2.0, ignore_head: bool = False) -> Any:
        self.live()
        return MortalWriter(self, super().open(run_id, wait_s=wait_s, ignore_head=ignore_head))

    def answer(self, run_id: str, answer: CommandAnswer) -> None:
        self.live()
        super().answer(run_id, answer)

    def live(self) -> None:
        if self.dead:
            raise Death

    def doomed(self, batch: Batch) -> int | None:
        """How many bytes of this append are kept, if it is the last one."""
        self._certain &= b'"status":"unknown"' not in batch.data
        if self._certain:
            return None
        self._left -= 1
        if self._left != -1:
            return None
        self.dead = True
        return 1 << 30 if self._kept is None else self._kept


class MortalWriter:
    """A writer in a mortal process; otherwise the writer it wraps."""

    def __init__(self, store: Mortal, writer: Any) -> None:
        self._store = store
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, batch: Batch, *, starts_effect: bool = False) -> int:
        self._store.live()
        kept = self._store.doomed(batch)
        if kept is not None and kept < len(batch.data):
            self._writer._journal.data += batch.data[:kept]
            raise Death
        at = self._writer.append(batch, starts_effect=starts_effect)
        self.acknowledge(batch, kept)
        return int(at)

    def acknowledge(self, batch: Batch, kept: int | None) -> "MortalWriter":
        if kept is not None:
            raise Death
        self._store.acknowledged.append((batch.run_id, batch.last, batch.chain))
        return self

    def publish_head(self, head: Head) -> None:
        self._store.live()
        self._writer.publish_head(head)


class Bank:
    """The outside world: what was paid, by key and by order, and what its tools do next.

    `fates`: what happens at the next payments: `pays` (default), `fails after` or `fails before` the money went.
    """

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.orders: Counter[str] = Counter()
        self.fates: list[str] = []
        self.knows = True

    def pay(self, call: clew.Call, order: str) -> dict[str, str]:
        fate = self.fates.pop(0) if self.fates else "pays"
        if fate == "fails before":
            raise ConnectionError("no answer from the bank")
        if fate == "nothing happened":
            raise clew.NothingHappened("the card was declined")
        self.paid[call.key] += 1
        self.orders[order] += 1
        if fate == "fails after":
            raise ConnectionError("no answer from the bank")
        return {"transfer": f"T-{order}"}

    def find(self, call: clew.Call) -> clew.Verdict:
        """A probe that tells the truth, or nothing."""
        if not self.knows:
            return clew.CannotTell("the bank is closed", retry_in_s=3600)
        if call.key in self.paid:
            return clew.Happened({"transfer": f"T-{call.arguments['order']}"})
        return clew.DidNotHappen("no such payment")

    def tool(self, name: str = "pay", *, probe: bool = False, **declared: Any) -> clew.Tool:
        asked: dict[str, Any] = {"probe": self.find, "in_doubt_s": 30} if probe else {}

        def pay(call: clew.Call, order: str) -> dict[str, str]:
            return self.pay(call, order)

        return clew.tool(name=name, effect="external", **asked, **declared)(pay)


def payer(tool: clew.Tool, *orders: str, **declared: Any) -> clew.Agent:
    """A plain agent that pays these orders one after another."""

    def orders_agent(run: clew.SyncRun, prompt: Any) -> list[Any]:
        return [run.call(tool, order=order) for order in orders]

    found = clew.agent(tools=[tool], name="orders", **declared)(orders_agent)
    assert isinstance(found, clew.Agent)
    return found


def async_payer(tool: clew.Tool, *orders: str) -> clew.Agent:
    """As `payer`, for an event loop."""

    async def orders_agent(run: clew.Run, prompt: Any) -> list[Any]:
        return [await run.call(tool, order=order) for order in orders]

    found = clew.agent(tools=[tool], name="orders")(orders_agent)
    assert isinstance(found, clew.Agent)
    return found


def mortal_home(**how: Any) -> tuple[clew.Home, Mortal]:
    """A home in a mortal process, with a set clock; a dead owner is followed by a standing order."""
    store = Mortal()
    given = {"takeover": "proven", "store": store, "blobs": MemoryBlobStore(), "clock": SetClock(), **how}
    return clew.Home(".clew", **given), store


def dies(deed: Callable[..., Any], *given: Any, **named: Any) -> None:
    """The process dies in it; then it is another process, later."""
    with pytest.raises((Death, clew.Storage)):
        deed(*given, **named)


def code_of(deed: Callable[..., Any], *given: Any, **named: Any) -> str:
    """The code of the error that it raises."""
    with pytest.raises(clew.ClewError) as caught:
        deed(*given, **named)
    return caught.value.code


def records_of(home: clew.Home, run_id: str = RUN) -> list[Record]:
    return list(home.reader.records(run_id))


def events_of(home: clew.Home, kind: str, run_id: str = RUN) -> list[dict[str, Any]]:
    """The events of one type, in the order of the journal."""
    events = (record.payload["event"] for record in records_of(home, run_id) if record.kind == "event")
    return [event for event in events if event["type"] == kind]


def resumes_of(home: clew.Home, run_id: str = RUN) -> list[dict[str, Any]]:
    """The payloads of the `resume` records, a leg each."""
    return [record.payload for record in records_of(home, run_id) if record.kind == "resume"]


def kinds_of(records: Sequence[Record]) -> list[str]:
    """What each record is: its kind, an event's type, or a move's name."""
    return [_kind(record) for record in records]


def _kind(record: Record) -> str:
    if record.kind == "event":
        return str(record.payload["event"]["type"])
    return str(record.payload["event"]) if record.kind == "operation" else record.kind


class Forger:
    """Writes a journal as another machine would: legal, ours, and its last leg left open."""

    def __init__(self, store: RunStore, agent: clew.Agent, run_id: str = RUN, **owner: Any) -> None:
        self.state = RunState(run_id)
        self.data = b""
        self._count = 0
        leg = {**owner_of_leg(store, 1, "forged", "run"), **owner}
        config = agent.fingerprint()
        start = {
            "configName": agent.name, "schemaVersion": 1, "configFingerprint": config.whole(), "initialPrompt": None,
            "operationId": "op-1", "leg": leg, "configParts": config.parts(), "workspace": ".", "limits": {},
        }  # fmt: skip
        self.say(Draft("start", start), Move("ACCEPT"), Move("START"))

    def say(self, *sayings: Saying) -> "Forger":
        composed = compose(self.state, sayings, at=format_ms(BORN_MS), new_id=self._new_id, size_bytes=len(self.data))
        self.state.merge(composed.state)
        self.data += composed.batch.data
        return self

    def _new_id(self) -> str:
        self._count += 1
        return f"forged-{self._count}"


def snapshot_of(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file and folder below: modification time, inode, bytes."""
    found = {path: path.stat() for path in sorted(root.rglob("*"))}
    return {
        str(path): (stat.st_mtime_ns, stat.st_ino, path.read_bytes() if path.is_file() else b"")
        for path, stat in found.items()
    }


def state_of(home: clew.Home, run_id: str = RUN) -> RunState:
    return fold(home.reader.store.read(run_id), run_id)


def facts_in(state: RunState) -> Any:
    """Who the first call of a run is."""
    return facts(1, run_id=state.run_id)


def died_in_the_payment(bank: Bank, *, happened: bool, is_async: bool = False) -> tuple[clew.Home, clew.Agent]:
    """The process died while the payment of order 1 was under way; its tool has a probe."""
    home, store = mortal_home()
    pay = bank.tool(probe=True)
    store.die_at(2)
    agent = payer(pay, "1")
    dies(home.run_sync, agent, run_id=RUN)
    store.revive()
    if not happened:
        bank.paid.clear()
    return home, async_payer(pay, "1") if is_async else agent
