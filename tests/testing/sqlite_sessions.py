"""A stranger's session store: conversations as rows in one file of SQLite. Written for tests, by the protocols."""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from typing import Any

from clew.core.ids import check_id
from clew.errors import Storage
from clew.stores.base import Boundary, SetAside
from clew.stores.sessions.refusals import backup_differs, held, poisoned, replaced, session_taken, unknown_session

_TABLES = """
    create table if not exists session (folded text primary key, id text, number integer, data blob);
    create table if not exists kept (name text primary key, data blob);
"""
_PIECE = 1 << 20


class SqliteSessionStore:
    """A session store (`stores.base.SessionStore`) in one file."""

    boundary: Boundary = "power_loss"

    def __init__(self, path: str) -> None:
        self.path = path

    @contextmanager
    def base(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is durable at its end, or none of it has happened."""
        with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as base:
            base.executescript(_TABLES)
            try:
                base.execute("begin immediate")
                yield base
            except sqlite3.OperationalError as error:
                raise Storage(str(error), code="run_state_failed", next="Check that disk.") from error
            try:
                base.commit()
            except sqlite3.OperationalError as error:
                raise Storage(str(error), code="durability_barrier_failed", next="Check that disk.") from error

    def ids(self) -> list[str]:
        with self.base() as base:
            return [row[0] for row in base.execute("select id from session")]

    def create(self, session_id: str, data: bytes) -> "SqliteSessionWriter":
        lock = self.lock(check_id(session_id, "session"), 0.5)
        try:
            with self.base() as base:
                row = base.execute("select id from session where folded = ?", (session_id.casefold(),)).fetchone()
                if row is not None or lock is None:
                    raise session_taken(session_id, row[0] if row else session_id)
                self.insert(base, session_id, data)
        except BaseException:
            if lock is not None:
                lock.close()
            raise
        return SqliteSessionWriter(self, session_id, lock)

    def open(self, session_id: str, *, wait_s: float = 2.0) -> "SqliteSessionWriter":
        self.size_bytes(session_id)
        lock = self.lock(session_id, wait_s)
        if lock is None:
            raise held(session_id, {})
        return SqliteSessionWriter(self, session_id, lock)

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        return in_pieces(self.row(session_id)[1][start:end])

    def size_bytes(self, session_id: str) -> int:
        return len(self.row(session_id)[1])

    def locate(self, session_id: str) -> str:
        return f"{self.path}, session {session_id}"

    def row(self, session_id: str) -> tuple[int, bytes]:
        question = "select number, data from session where id = ?"
        with self.base() as base:
            row = base.execute(question, (check_id(session_id, "session"),)).fetchone()
        if row is None:
            raise unknown_session(session_id, self.path)
        return row[0], bytes(row[1])

    def kept(self, name: str) -> bytes | None:
        with self.base() as base:
            row = base.execute("select data from kept where name = ?", (name,)).fetchone()
        return row and bytes(row[0])

    def load(self, session_id: str, data: bytes | None) -> None:
        with self.base() as base:
            base.execute("delete from session where id = ?", (session_id,))
            if data is not None:
                self.insert(base, session_id, data)

    def insert(self, base: sqlite3.Connection, session_id: str, data: bytes) -> None:
        number = time.monotonic_ns()
        base.execute("insert into session values (?, ?, ?, ?)", (session_id.casefold(), session_id, number, data))

    def lock(self, session_id: str, wait_s: float) -> sqlite3.Connection | None:
        """A lock that the kernel takes back when its process dies: that of a file of SQLite."""
        lock = sqlite3.connect(
            f"{self.path}-{session_id.casefold()}.lock", timeout=wait_s, isolation_level=None, check_same_thread=False
        )
        try:
            lock.execute("begin exclusive")
        except sqlite3.OperationalError as error:
            lock.close()
            if "locked" in str(error):
                return None
            raise Storage(str(error), code="run_state_failed", next="Check that disk.") from error
        return lock


class SqliteSessionWriter:
    """The one writer of a session (`stores.base.SessionWriter`)."""

    def __init__(self, store: SqliteSessionStore, session_id: str, lock: Any) -> None:
        self.session_id = session_id
        self.poisoned = False
        self._store = store
        self._lock = lock
        self._number, data = store.row(session_id)
        self.size_bytes = len(data)

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        self._require_sound()
        return in_pieces(self._store.row(self.session_id)[1][start:end])

    def append(self, data: bytes) -> int:
        at = self.size_bytes
        self._change(lambda before: before + data)
        return at

    def cut(self, at_byte: int) -> SetAside:
        kept = None

        def change(before: bytes, base: sqlite3.Connection) -> bytes:
            nonlocal kept
            digest = sha256(before[at_byte:]).hexdigest()
            kept = SetAside(f"{self.session_id}.torn-{at_byte}-{digest[:12]}", len(before) - at_byte, digest)
            base.execute("insert or replace into kept values (?, ?)", (kept.name, before[at_byte:]))
            return before[:at_byte]

        self._change_with(change)
        assert kept is not None
        return kept

    def back_up(self, version: int) -> SetAside:
        self._require_sound()
        data, name = self._store.row(self.session_id)[1], f"{self.session_id}.jsonl.v{version}.backup"
        with self._store.base() as base:
            base.execute("insert or ignore into kept values (?, ?)", (name, data))
            if bytes(base.execute("select data from kept where name = ?", (name,)).fetchone()[0]) != data:
                raise backup_differs(self.session_id, name)
        return SetAside(name, len(data), sha256(data).hexdigest())

    def renew(self, pieces: Iterable[bytes]) -> None:
        self._require_sound()
        data = b"".join(pieces)
        self._change(lambda before: data)

    def close(self) -> None:
        self.poisoned = True
        self._lock.close()

    def _change(self, change: Any) -> None:
        self._change_with(lambda before, base: change(before))

    def _change_with(self, change: Any) -> None:
        self._require_sound()
        self.poisoned = True
        with self._store.base() as base:
            row = base.execute("select number, data from session where id = ?", (self.session_id,)).fetchone()
            if row is None or row[0] != self._number or len(row[1]) != self.size_bytes:
                raise replaced(self.session_id, "it is another one now")
            data = change(bytes(row[1]), base)
            base.execute("update session set data = ? where number = ?", (data, self._number))
        self.size_bytes = len(data)
        self.poisoned = False

    def _require_sound(self) -> None:
        if self.poisoned:
            raise poisoned(self.session_id)


def in_pieces(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), _PIECE):
        yield data[at : at + _PIECE]
