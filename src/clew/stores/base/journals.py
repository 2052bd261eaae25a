"""The protocol of a run store: journals, their writers, their inboxes. No implementation."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

import msgspec

from clew.core.records import Batch, Head, Record

Boundary = Literal["process_memory", "power_loss"]


class Proof(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question about a dead owner and its answer; `fact` is what was seen."""

    proof: str
    answer: Literal["yes", "no", "cannot_tell"]
    fact: str | None = None


class Tail(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """How a journal ends. `torn`: bytes from `at_byte` on belong to an append that nobody acknowledged.

    `unterminated`: the last record is whole but its LF is missing. `being_written`: a living writer is in the middle.
    """

    verdict: Literal["clean", "unterminated", "torn", "being_written"]
    at_byte: int
    bytes: int = 0
    reason: str = ""


class TailRepaired(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A cut tail: where, how much, its digest and the name under which the bytes were kept."""

    before_sequence: int
    at_byte: int
    bytes: int
    sha256: str
    kept_as: str


class Reading(Protocol):
    """One pass over a journal, in the order of the file. Iterate it once; then `tail` says how it ended.

    Iteration raises `Corrupt` (`run_state_corrupt`, with facts `line` and `byte`) at the first thing that is wrong.
    """

    def __iter__(self) -> Iterator[tuple[Record, int]]:
        """Each record with its position, by which `record_at` finds it again."""
        ...

    @property
    def tail(self) -> Tail:
        """Only after the last record."""
        ...


class RunWriter(Protocol):
    """The one writer of a journal, for one leg. Holds the kernel's lock until closed.

    After any exception inside `append` it is poisoned: every later call raises `Storage` (`fact_ledger_poisoned`).
    It is called from several threads, by one at a time.
    """

    run_id: str

    def read(self) -> Reading:
        """Read from the device, not from the cache, what stands before this writer's first append."""
        ...

    def prove(self, owner: dict[str, Any]) -> tuple[Proof, ...]:
        """Is the owner of an unclosed leg (member `leg` of a record) provably gone? Only under the lock.

        Four answers in this order: `kernel_lock`, `local_file_system`, `same_inode`, `process_gone`. Gone is proven by
        four times `yes`.
        """
        ...

    def repair(self, tail: Tail, sequence: int) -> tuple[TailRepaired, ...]:
        """Make the end clean after `read`: write a missing LF, or keep and cut a torn tail; name pieces kept before.

        `sequence` is the next record's. The newest cut stands first.
        """
        ...

    def adopt(self, sequence: int, chain: str) -> None:
        """Say where the next append goes on: after record `sequence` with value `chain`."""
        ...

    def append(self, batch: Batch, *, starts_effect: bool = False) -> int:
        """One write and one sync. Returns the position of the batch's first record when it is durable.

        `starts_effect` also compares the path with the open file, so that no effect starts on a replaced journal.

        Raises:
            Storage: `durability_barrier_failed`, `disk_full`, `journal_replaced`, `fact_ledger_poisoned`;
                `run_state_conflict` when the batch is not the next. The very batch that stands there already is
                acknowledged once more and adds nothing.
        """
        ...

    @property
    def poisoned(self) -> bool:
        """True after a failed or interrupted append, or in a forked child."""
        ...

    @property
    def size_bytes(self) -> int:
        """Length of the journal up to the last acknowledged append."""
        ...

    def publish_head(self, head: Head) -> None:
        """Replace the head by one that is at least as far."""
        ...

    def close(self) -> None:
        """Let the lock go; the writer is then as one that is poisoned. Safe to call twice."""
        ...


class Command(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One command from another process, waiting in a run's inbox."""

    schema_version: Literal[1]
    control_id: str
    run_id: str
    type: str
    by: str
    reason: str
    arguments: dict[str, Any] = {}


class CommandAnswer(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What became of a command: of a `duplicate` says `duplicate_of` what became of it before.

    `code` is that of a refusal of which nothing is recorded; a sequence is that of the record that says so, 0 if none.
    """

    control_id: str
    status: Literal["accepted", "applied", "rejected", "duplicate", "conflict"]
    reason: str = ""
    code: str = ""
    duplicate_of: str = ""
    accepted_sequence: int = 0
    applied_sequence: int = 0
    rejected_sequence: int = 0


class RunStore(Protocol):
    """Where journals live. Readers never write and never lock.

    Source:
        DESIGN §4; promises 4, 6, 7, 11 and 12.
    """

    boundary: Boundary

    def ids(self) -> Sequence[str]:
        """All run ids, in no promised order; unreadable journals included."""
        ...

    def create(self, run_id: str, batch: Batch, *, wait_s: float = 0.0) -> RunWriter:
        """Give birth to a journal, locked, with its first append. `Refused` (`run_id_conflict`) if the id exists."""
        ...

    def open(self, run_id: str, *, wait_s: float = 2.0, ignore_head: bool = False) -> RunWriter:
        """Take the journal's lock. `NotFound` (`unknown_run`), `Held` (`run_state_locked`) after `wait_s` seconds.

        `ignore_head` is for a person who accepts what a journal lost: it is read as it is, and its head starts anew.
        """
        ...

    def read(self, run_id: str) -> Reading:
        """Read without lock up to the size at open. `NotFound` (`unknown_run`)."""
        ...

    def record_at(self, run_id: str, position: int) -> Record:
        """The record at a position that a reading or an append gave."""
        ...

    def head(self, run_id: str) -> Head | None:
        """The published head, or None when there is none. `Corrupt` when it cannot be read."""
        ...

    def size_bytes(self, run_id: str) -> int:
        """Length of the journal now. `NotFound` (`unknown_run`)."""
        ...

    def locate(self, run_id: str) -> str:
        """The journal's place in words for a person: a path, or `memory`."""
        ...

    def owner_state(self, owner: dict[str, Any]) -> Literal["alive", "stopped", "gone", "elsewhere"]:
        """What a reader may say of a leg's process, without any lock. `elsewhere`: cannot tell from here."""
        ...

    def identity(self) -> dict[str, Any]:
        """Who this process is: host, machineId, bootId, pid, startTick, pidNamespace, user."""
        ...

    def post(self, command: Command) -> None:
        """Put a command into the inbox. The same one again changes nothing; another content is `control_conflict`."""
        ...

    def pending(self, run_id: str) -> Sequence[Command]:
        """Commands without an answer, by control id."""
        ...

    def answer(self, run_id: str, answer: CommandAnswer) -> None:
        """Answer a command where its sender looks."""
        ...

    def answered(self, run_id: str, control_id: str) -> CommandAnswer | None:
        """The answer to a command, once there is one."""
        ...
