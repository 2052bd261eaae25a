"""What a store is: small protocols that the runtime is given. No concrete store belongs here."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

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


class FileBytes(msgspec.Struct, frozen=True):
    """The beginning of a file, and how long the whole is."""

    data: bytes
    size_bytes: int


class Listing(msgspec.Struct, frozen=True):
    """Paths of files; `more` when there are others, `unread` what could not be looked into."""

    paths: tuple[str, ...]
    more: bool = False
    unread: tuple[str, ...] = ()


class Found(msgspec.Struct, frozen=True):
    """Lines that a pattern was found in; `more` when there are others. `skipped`: paths of files, and why.

    A match has `path`, `line`, `column`, `text`, and `cut` where that is a part of the line.
    """

    matches: tuple[dict[str, Any], ...]
    searched: int
    more: bool = False
    skipped: tuple[tuple[str, str], ...] = ()


class Workspace(Protocol):
    """The one folder whose files tools may touch. Every path is judged where its links really lead.

    Paths are relative to the folder. `Refused` (`outside_workspace`) is raised before anything is touched: for a path
    that leads out of the folder, into a home or into a `.git`; `not_a_file` where no file is or can be.

    Source:
        DESIGN §3, toolkit; issue "Toolkit".
    """

    @property
    def root(self) -> str:
        """The folder, as text."""
        ...

    def resolve(self, path: str) -> str:
        """Where a path really leads; a link inside the folder is followed. Nothing need be there."""
        ...

    def read(self, path: str, limit: int) -> FileBytes:
        """At most `limit` bytes from the beginning. `NotFound` (`file_missing`)."""
        ...

    def listing(self, pattern: str, limit: int) -> Listing:
        """At most `limit` files that match, folder by folder, in each by the code points of the names.

        `*`, `?` and `[…]` stay within one name, `**` is any number of folders. A link to a folder is not followed.
        """
        ...

    def search(
        self, pattern: str, paths: Sequence[str], *, limit: int, ignore_case: bool = False, timeout_s: float = 30.0
    ) -> Found:
        """At most `limit` lines of these files in which the regular expression is found, in the order of `paths`.

        Raises:
            Refused: `invalid_pattern`, `search_too_slow` when the time is over. Storage: it could not be searched.
        """
        ...

    def write(self, path: str, data: bytes, *, mark: str = "") -> str:
        """Make this the file's whole content, durably: after a crash it is the old content or this. Returns the path.

        Parent folders are made; a file that is replaced keeps its mode. `mark` is the call's own: what a death left
        half written beside the file is used up by the next write under the same mark.

        Raises:
            Storage: the machine refused; after `durability_barrier_failed` the new content may stand.
        """
        ...


class Order(msgspec.Struct, frozen=True):
    """A command to be run: what, in which absolute folder, by which attempt `key#attempt`; bytes kept of its output.

    `leg` is the nonce of the leg in which it runs, empty outside of one.
    """

    command: str
    folder: str
    mark: str
    head_bytes: int
    tail_bytes: int
    leg: str = ""


class CommandEnd(msgspec.Struct, frozen=True):
    """How a command ended. Its output's beginning and end are kept, and how long the whole was.

    Attributes:
        exit_code: None when a signal ended it (then `signal_name` says which) or nobody saw its end.
        head: The beginning of what it wrote to stdout and stderr, in the order in which that came.
        tail: The end, where `head` is not all; bytes between the two are cut.
        size_bytes: Of all it wrote.
        duration_ms: From before its start until all of its processes had ended.
        stopped: Why it was ended before its time, empty when it ended by itself.
        ended: Processes that it left behind, in words; they were ended.
        left: Processes that could not be ended, in words.
        watched: False when its warden was killed: then nobody saw how it ended.
    """

    exit_code: int | None
    signal_name: str
    head: bytes
    tail: bytes
    size_bytes: int
    duration_ms: int
    stopped: str = ""
    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    watched: bool = True


UNMARKED: Final = "a process without a mark"
"""In the place of an attempt, where nobody knows whose a process is."""


class Processes(Protocol):
    """The processes of this machine, as far as calls start them.

    Source:
        DESIGN §5, stage 6.
    """

    def run(self, order: Order, stop: Callable[[], str]) -> CommandEnd:
        """Run a command as a group that has ended as a whole when this returns. Blocks its thread.

        `stop` is asked now and then: a text that is not empty is the reason to end the group.

        Raises:
            Refused: `command_not_started`; nothing ran.
        """
        ...

    def living(self, run_id: str) -> Mapping[str, str]:
        """Attempts `key#attempt` of a run of which a process lives here, and which ones, in words.

        A process is known by `CLEW_CALL` in its environment, or by descent from such a one; behind `adopt`, others
        that descend from this process are told under `UNMARKED`.
        """
        ...

    def end(self, run_id: str, legs: Collection[str]) -> Mapping[str, str]:
        """Tell the processes of a run to end, SIGTERM first and SIGKILL later; blocks until they have, some seconds.

        Only what is proven to be of this very run: it, or what it descends from, descends from this process or carries
        the nonce of one of these legs (`CLEW_LEG`). Another home may have a run of the same id.

        Returns:
            Attempts `key#attempt` of which one lives all the same, and which ones, in words.
        """
        ...

    def adopt(self) -> None:
        """This process serves a run alone: what it starts from now on is the run's, with or without a mark.

        What loses its parent below it becomes its own child. Only for a program that owns its process.
        """
        ...


class BlobStore(Protocol):
    """Bytes by their SHA-256, written once and shared."""

    def put(self, data: bytes) -> str:
        """Keep bytes durably; returns the digest (64 hex). `Storage` when they cannot be kept."""
        ...

    def get(self, sha256: str) -> bytes:
        """The bytes. `NotFound` (`blob_missing`), `Corrupt` (`blob_corrupt`) when the digest differs."""
        ...

    def has(self, sha256: str) -> bool:
        """Are the bytes there and whole?"""
        ...
