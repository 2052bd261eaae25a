"""A stranger's run store: journals as rows in one file of SQLite. Written for tests, by the protocols alone."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from clew.core.ids import check_id
from clew.core.records import Batch, Head, Record
from clew.disk import process
from clew.errors import Storage, UsageError
from clew.stores.base import Boundary, Command, CommandAnswer, Proof, Tail, TailRepaired
from clew.stores.refusals import control_conflict, held, id_taken, poisoned, replaced, unknown_run
from clew.stores.scan import JournalReading, OwnerState, place_of_repeated, record_of_line

_TABLES = """
    create table if not exists run (folded text primary key, id text unique);
    create table if not exists piece (run text, at integer, data blob, primary key (run, at));
    create table if not exists beside (run text, name text, data blob, primary key (run, name));
"""
_END = "select coalesce(max(at + length(data)), 0) from piece where run = ?"


class _Place:
    """The file of the database. Every deed opens it anew, so that it may be done in any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is durable at its end, or none of it has happened."""
        with closing(sqlite3.connect(self.path, timeout=60)) as base:
            base.executescript(_TABLES)
            try:
                base.execute("begin immediate")
                yield base
            except sqlite3.OperationalError as error:
                raise self.refusal(error, "run_state_failed") from error
            try:
                base.commit()
            except sqlite3.OperationalError as error:
                raise self.refusal(error, "durability_barrier_failed") from error

    def refusal(self, error: sqlite3.Error, code: str) -> Storage:
        return Storage(f"{self.path}: {error}", code=code, next="Check that disk.")

    def rows(self, question: str, *given: Any) -> list[Any]:
        """What a reader finds; nothing where there is no database yet, or none with tables."""
        if not self.path.exists():
            return []
        with closing(sqlite3.connect(self.path, timeout=60)) as base:
            made = base.execute("select count(*) from sqlite_master where type = 'table'").fetchone() == (3,)
            return base.execute(question, given).fetchall() if made else []


class _Source:
    """The bytes of one journal as they are now."""

    def __init__(self, place: _Place, run_id: str) -> None:
        self._place = place
        self._run_id = run_id

    def pieces(self, start: int) -> Iterator[bytes]:
        question = "select at, data from piece where run = ? and at + length(data) > ? order by at"
        for at, data in self._place.rows(question, self._run_id, start):
            yield data[max(start - at, 0) :]


class SqliteRunStore:
    """Runs in a file of SQLite. The lock is SQLite's own, on a file for each run, so the kernel frees it at a death."""

    boundary: Boundary = "power_loss"

    def __init__(self, path: str) -> None:
        self._place = _Place(Path(path))

    def dump(self, run_id: str) -> bytes:
        """The bytes of a journal."""
        return b"".join(_Source(self._place, run_id).pieces(0))

    def load(self, run_id: str, data: bytes) -> None:
        """Put these bytes there as the whole journal."""
        with closing(sqlite3.connect(self._place.path, timeout=60)) as base:
            base.executescript(f"pragma synchronous = off; {_TABLES}")
            base.execute("insert or ignore into run values (?, ?)", (run_id.casefold(), run_id))
            base.execute("delete from piece where run = ?", (run_id,))
            base.execute("insert into piece values (?, 0, ?)", (run_id, data))
            base.commit()

    def ids(self) -> list[str]:
        return [id for (id,) in self._place.rows("select id from run")]

    def create(self, run_id: str, batch: Batch, *, wait_s: float = 0.0) -> "SqliteRunWriter":
        lock = self._lock(check_id(run_id), wait_s)
        if lock is None:
            raise id_taken(run_id, run_id)
        try:
            with self._place.open() as base:
                base.execute("insert into run values (?, ?)", (run_id.casefold(), run_id))
                base.execute("insert into piece values (?, 0, ?)", (run_id, batch.data))
        except sqlite3.IntegrityError:
            lock.close()
            raise id_taken(run_id, run_id) from None
        except BaseException:
            lock.close()
            raise
        writer = SqliteRunWriter(run_id, self._place, lock, None)
        writer.adopt(batch.last, batch.chain)
        return writer

    def open(self, run_id: str, *, wait_s: float = 2.0, ignore_head: bool = False) -> "SqliteRunWriter":
        self._require(run_id)
        lock = self._lock(run_id, wait_s)
        if lock is None:
            reading = self.read(run_id)
            for _ in reading:
                pass
            state = self.owner_state(reading.leg) if reading.leg else "elsewhere"
            raise held(run_id, reading.leg, reading.leg_since, state)
        return SqliteRunWriter(run_id, self._place, lock, None if ignore_head else self.head(run_id))

    def read(self, run_id: str) -> JournalReading:
        self._require(run_id)
        head = self.head(run_id)
        return JournalReading(run_id, _Source(self._place, run_id), head, self.owner_state)

    def record_at(self, run_id: str, position: int) -> Record:
        self._require(run_id)
        data = b"".join(_Source(self._place, run_id).pieces(position))
        return record_of_line(run_id, data.split(b"\n", 1)[0], position)

    def head(self, run_id: str) -> Head | None:
        found = self._beside(run_id, "head")
        return msgspec.json.decode(found[0], type=Head) if found else None

    def size_bytes(self, run_id: str) -> int:
        self._require(run_id)
        return int(self._place.rows(_END, run_id)[0][0])

    def locate(self, run_id: str) -> str:
        return f"{self._place.path}#{run_id}"

    def owner_state(self, owner: dict[str, Any]) -> OwnerState:
        return process.owner_state(owner, process.identity())

    def identity(self) -> dict[str, Any]:
        return process.identity()

    def post(self, command: Command) -> None:
        self._require(command.run_id)
        name = f"command-{check_id(command.control_id, 'control')}"
        with self._place.open() as base:
            data = msgspec.json.encode(command)
            base.execute("insert or ignore into beside values (?, ?, ?)", (command.run_id, name, data))
        if msgspec.json.decode(self._beside(command.run_id, name)[0], type=Command) != command:
            raise control_conflict(command.run_id, command.control_id)

    def pending(self, run_id: str) -> Sequence[Command]:
        self._require(run_id)
        commands = [msgspec.json.decode(data, type=Command) for data in self._beside(run_id, "command-%")]
        return [command for command in commands if self.answered(run_id, command.control_id) is None]

    def answer(self, run_id: str, answer: CommandAnswer) -> None:
        self._require(run_id)
        self._keep(run_id, f"answer-{check_id(answer.control_id, 'control')}", msgspec.json.encode(answer))

    def answered(self, run_id: str, control_id: str) -> CommandAnswer | None:
        self._require(run_id)
        found = self._beside(run_id, f"answer-{check_id(control_id, 'control')}")
        return msgspec.json.decode(found[0], type=CommandAnswer) if found else None

    def _keep(self, run_id: str, name: str, data: bytes) -> None:
        with self._place.open() as base:
            base.execute("insert or replace into beside values (?, ?, ?)", (run_id, name, data))

    def _beside(self, run_id: str, name: str) -> list[bytes]:
        question = "select data from beside where run = ? and name like ? order by name"
        return [data for (data,) in self._place.rows(question, run_id, name)]

    def _require(self, run_id: str) -> None:
        """A journal that is there; an empty one without a head is none."""
        with suppress(UsageError):
            if self._place.rows(_END, check_id(run_id))[:1] not in ([], [(0,)]) or self.head(run_id):
                return
        raise unknown_run(run_id, str(self._place.path))

    def _lock(self, run_id: str, wait_s: float) -> sqlite3.Connection | None:
        """The writer's lock on the run, held as long as the connection is open; None when another one has it.

        `begin immediate`, not `exclusive`: of two that want it exclusively at once each finds the other one reading,
        and then none has it.
        """
        path = self._place.path.with_name(f"{self._place.path.name}-{run_id.casefold()}.lock")
        lock = sqlite3.connect(path, timeout=wait_s, isolation_level=None, check_same_thread=False)
        try:
            lock.execute("begin immediate")
        except sqlite3.OperationalError as error:
            lock.close()
            if "locked" in str(error):
                return None
            raise self._place.refusal(error, "run_state_failed") from error
        return lock


class SqliteRunWriter:
    """The one writer of a journal in SQLite."""

    def __init__(self, run_id: str, place: _Place, lock: sqlite3.Connection, head: Head | None) -> None:
        self.run_id = run_id
        self._place = place
        self._lock = lock
        self._head = head
        self._reading: JournalReading | None = None
        self._sequence = 0
        self._size = int(place.rows(_END, run_id)[0][0])
        self._dead = False

    def read(self) -> JournalReading:
        self._require_sound()
        self._reading = JournalReading(self.run_id, _Source(self._place, self.run_id), self._head)
        return self._reading

    def prove(self, owner: dict[str, Any]) -> tuple[Proof, ...]:
        self._require_sound()
        gone = process.prove_gone(owner, process.identity())
        return (
            Proof("kernel_lock", "yes"),
            Proof("local_file_system", "cannot_tell", "SQLite"),
            Proof("same_inode", "cannot_tell", "SQLite"),
            Proof("process_gone", gone.answer, gone.fact),
        )

    def repair(self, tail: Tail, sequence: int) -> tuple[TailRepaired, ...]:
        self._require_sound()
        at, cut = tail.at_byte, ""
        with self._place.open() as base:
            if tail.verdict == "unterminated":
                base.execute("insert into piece values (?, ?, ?)", (self.run_id, at, b"\n"))
            elif tail.verdict == "torn":
                data = b"".join(_Source(self._place, self.run_id).pieces(at))
                cut = f"torn-{at}-{sha256(data).hexdigest()[:12]}"
                base.execute("insert or replace into beside values (?, ?, ?)", (self.run_id, cut, data))
                base.execute("delete from piece where run = ? and at >= ?", (self.run_id, at))
                shorter = "update piece set data = substr(data, 1, ? - at) where run = ? and at + length(data) > ?"
                base.execute(shorter, (at, self.run_id, at))
        self._size = int(self._place.rows(_END, self.run_id)[0][0])
        self._reading = None
        question = "select name, data from beside where run = ? and name like ? order by name != ?, name"
        kept = self._place.rows(question, self.run_id, f"torn-{at}-%", cut)
        return tuple(TailRepaired(sequence, at, len(data), sha256(data).hexdigest(), name) for name, data in kept)

    def adopt(self, sequence: int, chain: str) -> None:
        del chain
        assert self._reading is None or self._reading.tail.verdict == "clean", "the end was not repaired"
        self._sequence = sequence

    def append(self, batch: Batch, *, starts_effect: bool = False) -> int:
        del starts_effect
        self._require_sound()
        self._dead = True
        if batch.first != self._sequence + 1:
            at = place_of_repeated(batch, _Source(self._place, self.run_id), self._sequence + 1)
        else:
            at = self._put(batch.data)
            self._sequence = batch.last
            self._size = at + len(batch.data)
        self._dead = False
        return at

    def _put(self, data: bytes) -> int:
        with self._place.open() as base:
            (found,) = base.execute(_END, (self.run_id,)).fetchone()
            if found != self._size:
                raise replaced(self.run_id, found, self._size)
            base.execute("insert into piece values (?, ?, ?)", (self.run_id, found, data))
        return int(found)

    @property
    def poisoned(self) -> bool:
        return self._dead

    @property
    def size_bytes(self) -> int:
        return self._size

    def publish_head(self, head: Head) -> None:
        self._require_sound()
        assert head.sequence <= self._sequence, "a head is a lower bound"
        assert self._head is None or head.sequence >= self._head.sequence, "a head never goes back"
        with self._place.open() as base:
            data = msgspec.json.encode(head)
            base.execute("insert or replace into beside values (?, 'head', ?)", (self.run_id, data))
        self._head = head

    def close(self) -> None:
        self._dead = True
        self._lock.close()

    def _require_sound(self) -> None:
        if self._dead:
            raise poisoned(self.run_id)
