"""Runs and blobs in the memory of this process: the reference that every other store is compared with."""

import errno
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from clew.core.codec import MAX_APPEND
from clew.core.ids import check_id
from clew.core.records import Batch, Head, Record
from clew.disk import process
from clew.disk.failures import barrier_failed, failure
from clew.disk.files import PIECE
from clew.stores.base import BlobPack, Boundary, Command, CommandAnswer, Kept, Proof, Tail, TailRepaired
from clew.stores.gathering import MemoryGuest, MemoryPresence
from clew.stores.refusals import (
    blob_missing,
    control_conflict,
    corrupt_file,
    held,
    poisoned,
    replaced,
    require_free,
    unknown_run,
)
from clew.stores.scan import JournalReading, OwnerState, place_of_repeated, record_of_line

_PLACE = "memory"


@dataclass
class _Journal:
    """What a home has of one run."""

    data: bytearray
    faults: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    writer: "MemoryRunWriter | None" = None
    head: Head | None = None
    kept: dict[str, bytes] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)
    answers: dict[str, CommandAnswer] = field(default_factory=dict)

    def pieces(self, start: int) -> Iterator[bytes]:
        for at in range(start, len(self.data), PIECE):
            yield bytes(self.data[at : at + PIECE])

    def write(self, data: bytes) -> None:
        """Put bytes at the end. `Storage` when the store is told to fail: half of them are there then, or all."""
        if "write" in self.faults:
            self.data += data[: len(data) // 2]
            raise failure(OSError(errno.EIO, "told to fail"), Path(_PLACE), "append to")
        self.data += data
        self.sync()

    def cut(self, at: int) -> None:
        """Take the end off. `Storage` when syncs are to fail: it may be gone then, or not."""
        del self.data[at:]
        self.sync()

    def sync(self) -> None:
        """Nothing, unless the store is told to fail."""
        if "sync" in self.faults:
            raise barrier_failed(OSError(errno.EIO, "told to fail"), Path(_PLACE))


class MemoryRunStore:
    """A run store (`stores.base.RunStore`) that lives as long as its process; its journals are the same bytes.

    `forget_writers` is a death: whoever wrote is gone, the bytes stay. `failing` is a dying disk.
    """

    boundary: Boundary = "process_memory"

    def __init__(self) -> None:
        self._journals: dict[str, _Journal] = {}
        self._naming = threading.Lock()
        self._faults = set[str]()
        self.presence = MemoryPresence()
        self.pruned: dict[str, dict[str, str]] = {}

    def forget_writers(self) -> None:
        """Let every writer die without closing: its lock is free, its leg stays unclosed, its owner is gone."""
        for journal in list(self._journals.values()):
            if journal.writer is not None:
                journal.writer.die()

    def implant(self, run_id: str, data: bytes) -> None:
        """Put these bytes there as the whole journal, good or bad; its lock and what is kept beside it stay."""
        journal = self._journals.setdefault(run_id, _Journal(bytearray(), self._faults))
        journal.data[:] = data

    @contextmanager
    def failing(self, step: Literal["write", "sync"]) -> Iterator[None]:
        """Within it every write of a journal breaks off in its middle, or every sync is refused."""
        self._faults.add(step)
        try:
            yield
        finally:
            self._faults.discard(step)

    def raw(self, run_id: str) -> bytes:
        """The bytes of a journal, also of an empty one. `NotFound` (`unknown_run`)."""
        if run_id not in self._journals:
            raise unknown_run(run_id, _PLACE)
        return bytes(self._journals[run_id].data)

    def pieces(self) -> dict[tuple[str, str], bytes]:
        """The cut ends that are kept, by run and name."""
        kept = ((run_id, journal.kept) for run_id, journal in list(self._journals.items()))
        return {(run_id, name): data for run_id, named in kept for name, data in list(named.items())}

    def forget_piece(self, run_id: str, name: str) -> None:
        """A cut end that nobody needs any more."""
        self._journals[run_id].kept.pop(name, None)

    def ids(self) -> list[str]:
        """All run ids, in no promised order; unreadable journals included."""
        return list(self._journals)

    def create(self, run_id: str, batch: Batch, *, wait_s: float = 0.0) -> "MemoryRunWriter":
        """Give birth to a journal with its first append.

        Raises:
            Refused: `run_id_conflict`. UsageError: `invalid_run_id`. Storage: there is no journal then.
        """
        del wait_s
        require_free(check_id(run_id), list(self._journals))
        journal = _Journal(bytearray(), self._faults)
        journal.lock.acquire()
        journal.write(batch.data)
        with self._naming:
            require_free(run_id, list(self._journals))
            guest = self.presence.join()
            self._journals[run_id] = journal
        writer = MemoryRunWriter(run_id, journal, self.owner_state, None, guest)
        writer.note_legs(batch)
        writer.adopt(batch.last, batch.chain)
        return writer

    def open(self, run_id: str, *, wait_s: float = 2.0, ignore_head: bool = False) -> "MemoryRunWriter":
        """Take the lock of a journal. `NotFound` (`unknown_run`), `Held` (`run_state_locked`)."""
        journal = self._existing(run_id)
        guest = self.presence.join()
        if not journal.lock.acquire(timeout=wait_s):
            guest.leave()
            raise self._held(run_id)
        return MemoryRunWriter(run_id, journal, self.owner_state, None if ignore_head else journal.head, guest)

    def read(self, run_id: str) -> JournalReading:
        """Read without lock. `NotFound` (`unknown_run`)."""
        journal = self._existing(run_id)
        return JournalReading(run_id, journal, journal.head, self.owner_state)

    def record_at(self, run_id: str, position: int) -> Record:
        """The record at a position that a reading or an append gave."""
        data = self._existing(run_id).data
        end = data.find(b"\n", position, position + MAX_APPEND)
        return record_of_line(run_id, bytes(data[position : end if end >= 0 else None]), position)

    def head(self, run_id: str) -> Head | None:
        """The published head, or None when there is none."""
        journal = self._journals.get(run_id)
        return None if journal is None else journal.head

    def size_bytes(self, run_id: str) -> int:
        """Length of the journal now. `NotFound` (`unknown_run`)."""
        return len(self._existing(run_id).data)

    def locate(self, run_id: str) -> str:
        """The word `memory`."""
        return _PLACE

    def owner_state(self, owner: dict[str, Any]) -> OwnerState:
        """What a reader may say of a leg: in this process only a living writer of ours is alive."""
        here = process.identity()
        if any(owner.get(member) != here[member] for member in here):
            return process.owner_state(owner, here)
        writers = (journal.writer for journal in list(self._journals.values()) if journal.writer is not None)
        return "alive" if any(owner.get("nonce") in writer.nonces for writer in writers) else "gone"

    def identity(self) -> dict[str, Any]:
        """Who this process is."""
        return process.identity()

    def post(self, command: Command) -> None:
        """Put a command into the inbox. `NotFound`, `Refused` (`control_conflict`)."""
        check_id(command.control_id, "control")
        there = self._existing(command.run_id).commands.setdefault(command.control_id, command)
        if there != command:
            raise control_conflict(command.run_id, command.control_id)

    def pending(self, run_id: str) -> Sequence[Command]:
        """Commands without an answer, by control id."""
        journal = self._existing(run_id)
        return [journal.commands[name] for name in sorted(journal.commands.keys() - journal.answers.keys())]

    def answer(self, run_id: str, answer: CommandAnswer) -> None:
        """Answer a command where its sender looks."""
        self._existing(run_id).answers[check_id(answer.control_id, "control")] = answer

    def answered(self, run_id: str, control_id: str) -> CommandAnswer | None:
        """The answer to a command, once there is one."""
        return self._existing(run_id).answers.get(check_id(control_id, "control"))

    def _held(self, run_id: str) -> Exception:
        reading = self.read(run_id)
        for _ in reading:
            pass
        state = self.owner_state(reading.leg) if reading.leg else "elsewhere"
        return held(run_id, reading.leg, reading.leg_since, state)

    def _existing(self, run_id: str) -> _Journal:
        journal = self._journals.get(run_id)
        if journal is None or not (journal.data or journal.head):
            raise unknown_run(run_id, _PLACE)
        return journal


class MemoryRunWriter:
    """The one writer of a journal in memory (`stores.base.RunWriter`)."""

    def __init__(
        self, run_id: str, journal: _Journal, owner_state: Callable[[dict[str, Any]], OwnerState], head: Head | None,
        guest: MemoryGuest,
    ) -> None:  # fmt: skip
        self.run_id = run_id
        self._guest = guest
        self.nonces: set[str] = set()
        self._journal = journal
        self._head = head
        self._owner_state = owner_state
        self._reading: JournalReading | None = None
        self._sequence = 0
        self._size = len(journal.data)
        self._dead = False
        self._closed = False
        journal.writer = self

    def read(self) -> JournalReading:
        """Read what stands before this writer's first append."""
        self._require_sound()
        self._reading = JournalReading(self.run_id, self._journal, self._head)
        return self._reading

    def prove(self, owner: dict[str, Any]) -> tuple[Proof, ...]:
        """Is the owner of an unclosed leg provably gone?"""
        self._require_sound()
        gone = process.prove_gone(owner, process.identity())
        if self._owner_state(owner) == "gone":
            gone = process.Gone("yes", gone.fact if gone.answer == "yes" else "its writer in this process is gone")
        return (
            Proof("kernel_lock", "yes"),
            Proof("local_file_system", "yes", _PLACE),
            Proof("same_inode", "yes"),
            Proof("process_gone", gone.answer, gone.fact),
        )

    def repair(self, tail: Tail, sequence: int) -> tuple[TailRepaired, ...]:
        """Make the end clean after `read`, and name what was cut at this byte, now and before."""
        self._require_sound()
        self._dead = True
        journal, at, cut = self._journal, tail.at_byte, ""
        if tail.verdict == "unterminated":
            journal.write(b"\n")
        elif tail.verdict == "torn":
            piece = bytes(journal.data[at:])
            cut = f"torn-{at}-{hashlib.sha256(piece).hexdigest()[:12]}"
            journal.kept[cut] = piece
            journal.cut(at)
        self._size = len(journal.data)
        self._reading = None
        self._dead = False
        names = sorted((name for name in journal.kept if name.startswith(f"torn-{at}-")), key=lambda name: name != cut)
        return tuple(
            TailRepaired(sequence, at, len(journal.kept[name]), hashlib.sha256(journal.kept[name]).hexdigest(), name)
            for name in names
        )

    def adopt(self, sequence: int, chain: str) -> None:
        """Say where the next append goes on."""
        del chain
        assert self._reading is None or self._reading.tail.verdict == "clean", "the end was not repaired"
        self._sequence = sequence

    def append(self, batch: Batch, *, starts_effect: bool = False) -> int:
        """Put a batch at the end. Returns where it begins.

        Raises:
            Storage: `fact_ledger_poisoned`, `run_state_conflict`, `journal_replaced`; and when it is told to fail.
        """
        del starts_effect
        self._require_sound()
        self._dead = True
        if batch.first != self._sequence + 1:
            place = place_of_repeated(batch, self._journal, self._sequence + 1)
            self._dead = False
            return place
        at = self._size
        if len(self._journal.data) != at:
            raise replaced(self.run_id, len(self._journal.data), at)
        self.note_legs(batch)
        self._journal.write(batch.data)
        self._sequence = batch.last
        self._size += len(batch.data)
        self._dead = False
        return at

    def note_legs(self, batch: Batch) -> None:
        """Remember the legs that this writer opens: by their nonce its owner is known to live."""
        legs = (record.payload.get("leg") for record in batch.records)
        self.nonces |= {leg["nonce"] for leg in legs if isinstance(leg, dict) and "nonce" in leg}

    @property
    def poisoned(self) -> bool:
        """True after a failed or interrupted append, and after `close`."""
        return self._dead or self._closed

    @property
    def size_bytes(self) -> int:
        """Length of the journal up to the last acknowledged append."""
        return self._size

    def publish_head(self, head: Head) -> None:
        """Replace the head by one that is at least as far, and names nothing that is not acknowledged."""
        self._require_sound()
        assert head.sequence <= self._sequence, "a head is a lower bound"
        assert self._head is None or head.sequence >= self._head.sequence, "a head never goes back"
        self._head = self._journal.head = head

    def close(self) -> None:
        """Let the lock go. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._journal.writer = None
            self._journal.lock.release()
            self._guest.leave()

    def die(self) -> None:
        """What a SIGKILL leaves: the bytes, and a lock that is free."""
        self.close()

    def _require_sound(self) -> None:
        if self.poisoned:
            raise poisoned(self.run_id)


class MemoryBlobStore:
    """Bytes by their SHA-256 (`stores.base.BlobStore`), as long as the process lives."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        """Keep bytes; returns the digest."""
        digest = hashlib.sha256(data).hexdigest()
        self.kept[digest] = bytes(data)
        return digest

    def keep(self, pieces: Iterable[bytes]) -> Kept:
        """As `put`."""
        data = b"".join(pieces)
        return Kept(self.put(data), len(data))

    @contextmanager
    def pack(self) -> Iterator[BlobPack]:
        """A block in which many blobs are taken; all are kept at its end, or none."""
        taken = MemoryBlobStore()
        yield taken
        for data in taken.kept.values():
            self.put(data)

    def get(self, sha256: str) -> bytes:
        """The bytes of a digest. `NotFound` (`blob_missing`), `Corrupt` (`blob_corrupt`)."""
        data = self.kept.get(sha256)
        if data is None:
            raise blob_missing(sha256, _PLACE)
        found = hashlib.sha256(data).hexdigest()
        if found != sha256:
            raise corrupt_file(_PLACE, "blob_corrupt", f"the bytes of {sha256} have the digest {found}")
        return data

    def has(self, sha256: str) -> bool:
        """Are the bytes there and whole?"""
        data = self.kept.get(sha256)
        return data is not None and hashlib.sha256(data).hexdigest() == sha256

    def pieces(self, sha256: str) -> Iterator[bytes]:
        """As `get`, in one piece."""
        yield self.get(sha256)

    def digests(self) -> frozenset[str]:
        """Every digest that something is kept under."""
        return frozenset(self.kept)
