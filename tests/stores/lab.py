"""Stores for the tests, each with a way to put raw bytes in and take them out, and a hand that writes journals."""

from pathlib import Path
from typing import Any, Protocol

from clew.core.chain import genesis
from clew.core.codec import encode_append
from clew.core.records import Batch, Draft, Head, Kind, Record
from clew.errors import ClewError, Corrupt
from clew.stores.base import Reading, RunStore, RunWriter, Tail
from clew.stores.jsonl import FileRunStore
from clew.stores.memory import MemoryRunStore

TIME = "2026-11-29T14:00:00.000Z"


class Lab(Protocol):
    """A store and its bytes."""

    @property
    def store(self) -> RunStore: ...

    def implant(self, run_id: str, data: bytes) -> None: ...

    def raw(self, run_id: str) -> bytes: ...


class FileLab:
    """Files below a folder of the test."""

    def __init__(self, root: Path) -> None:
        self.root = root / ".clew"
        self.store = FileRunStore(self.root)

    def path(self, run_id: str) -> Path:
        return self.root / "runs" / f"{run_id}.jsonl"

    def implant(self, run_id: str, data: bytes) -> None:
        self.path(run_id).parent.mkdir(parents=True, exist_ok=True)
        # A new file: rewriting one in place makes some file systems wait for the device.
        self.path(run_id).unlink(missing_ok=True)
        self.path(run_id).write_bytes(data)

    def raw(self, run_id: str) -> bytes:
        return self.path(run_id).read_bytes()


class MemoryLab:
    """The memory of the test."""

    def __init__(self) -> None:
        self.store = MemoryRunStore()

    def implant(self, run_id: str, data: bytes) -> None:
        self.store.implant(run_id, data)

    def raw(self, run_id: str) -> bytes:
        return self.store.raw(run_id)


class Hand:
    """Encodes the appends of one run, each behind the one before."""

    def __init__(self, run_id: str = "r1", sequence: int = 0, chain: str = "") -> None:
        self.run_id = run_id
        self.sequence = sequence
        self.chain = chain or genesis(run_id)

    def batch(self, *payloads: dict[str, Any], kind: Kind = "event") -> Batch:
        ids = [f"n-{self.sequence + i}" for i in range(len(payloads))]
        batch = encode_append(
            self.run_id,
            after=self.sequence,
            chain=self.chain,
            drafts=[Draft(kind, payload) for payload in payloads],
            timestamp=TIME,
            event_ids=ids,
        )
        self.sequence, self.chain = batch.last, batch.chain
        return batch

    def start(self, store: RunStore, nonce: str = "n1", **changes: Any) -> Batch:
        """The first append: a leg of this process, unless changed."""
        leg = {"number": 1, "nonce": nonce, "purpose": "run", **store.identity(), "version": "0.1.0", **changes}
        return self.batch({"leg": leg}, kind="start")

    def head(self, size_bytes: int = 0) -> Head:
        return Head(self.sequence, self.chain, size_bytes, {})


def read_all(reading: Reading) -> tuple[list[Record], Tail]:
    records = [record for record, _ in reading]
    return records, reading.tail


def verdict(lab: Lab, run_id: str) -> tuple[Any, ...]:
    """All that a reader may say, so that two readers can be compared: an error's place, or records and end."""
    try:
        records, tail = read_all(lab.store.read(run_id))
    except Corrupt as error:
        return error.code, error.facts.get("line"), error.facts.get("byte")
    except ClewError as error:
        return (error.code,)
    return [record.sequence for record in records], tail


def go_on(writer: RunWriter) -> Hand:
    """Read, repair and adopt as a new leg does; returns the hand for what follows."""
    reading = writer.read()
    last = [record for record, _ in reading][-1]
    writer.repair(reading.tail, last.sequence + 1)
    hand = Hand(writer.run_id, last.sequence, last.chain or "")
    writer.adopt(hand.sequence, hand.chain)
    return hand
