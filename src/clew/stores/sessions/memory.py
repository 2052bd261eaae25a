"""Sessions in the memory of this process: the reference that every other session store is compared with."""

import errno
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from clew.core.ids import check_id
from clew.disk import process
from clew.disk.failures import barrier_failed, failure
from clew.disk.files import PIECE
from clew.stores.base import Boundary, SetAside
from clew.stores.sessions.refusals import backup_differs, held, poisoned, replaced, require_free, unknown_session

_PLACE = "memory"


@dataclass(eq=False)
class _Session:
    """What there is of one session; another object under its id is another file."""

    data: bytes
    lock: threading.Lock = field(default_factory=threading.Lock)


class MemorySessionStore:
    """A session store (`stores.base.SessionStore`) that lives as long as its process. `failing` is a dying disk."""

    boundary: Boundary = "process_memory"

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self._sessions: dict[str, _Session] = {}
        self._naming = threading.Lock()
        self._faults = set[str]()

    def implant(self, session_id: str, data: bytes | None) -> None:
        """Put these bytes there as another file of that name, or take the file away, as somebody else would."""
        self._sessions.pop(session_id, None)
        if data is not None:
            self._sessions[session_id] = _Session(data)

    def raw(self, session_id: str) -> bytes:
        """The bytes of a session. `NotFound` (`unknown_session`)."""
        return self._existing(session_id).data

    @contextmanager
    def failing(self, step: Literal["write", "sync"]) -> Iterator[None]:
        """Within it every write breaks off in its middle, or every sync is refused."""
        self._faults.add(step)
        try:
            yield
        finally:
            self._faults.discard(step)

    def ids(self) -> list[str]:
        """All session ids, in no promised order."""
        return list(self._sessions)

    def create(self, session_id: str, data: bytes) -> "MemorySessionWriter":
        """Give birth to a session. `UsageError`, `Refused` (`session_id_conflict`), `Storage`."""
        session = _Session(b"")
        session.lock.acquire()
        require_free(check_id(session_id, "session"), list(self._sessions))
        session.data = self.written(b"", data)
        with self._naming:
            require_free(session_id, list(self._sessions))
            self._sessions[session_id] = session
        return MemorySessionWriter(self, session_id, session)

    def open(self, session_id: str, *, wait_s: float = 2.0) -> "MemorySessionWriter":
        """Take the lock. `UsageError`, `NotFound` (`unknown_session`), `Held` (`session_open_locked`)."""
        session = self._existing(session_id)
        if not session.lock.acquire(timeout=wait_s):
            identity = process.identity()
            owner = {name: identity[name] for name in ("pid", "host", "startTick")}
            raise held(session_id, {**owner, "state": "alive"})
        return MemorySessionWriter(self, session_id, session)

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a range, without a lock. `UsageError`, `NotFound` (`unknown_session`)."""
        return pieces(self._existing(session_id).data, start, end)

    def size_bytes(self, session_id: str) -> int:
        """Length of the session now. `NotFound` (`unknown_session`)."""
        return len(self._existing(session_id).data)

    def locate(self, session_id: str) -> str:
        """The word `memory`."""
        check_id(session_id, "session")
        return _PLACE

    def is_there(self, session_id: str, session: _Session) -> bool:
        """Is it still the one of that name?"""
        return self._sessions.get(session_id) is session

    def written(self, before: bytes, data: bytes) -> bytes:
        """What stands there after a write, if the store is not told to fail."""
        if "write" in self._faults:
            raise failure(OSError(errno.EIO, os.strerror(errno.EIO)), Path(_PLACE), "append to")
        if "sync" in self._faults:
            raise barrier_failed(OSError(errno.EIO, os.strerror(errno.EIO)), Path(_PLACE))
        return before + data

    def _existing(self, session_id: str) -> _Session:
        session = self._sessions.get(check_id(session_id, "session"))
        if session is None:
            raise unknown_session(session_id, _PLACE)
        return session


class MemorySessionWriter:
    """The one writer of a session in memory (`stores.base.SessionWriter`)."""

    def __init__(self, store: MemorySessionStore, session_id: str, session: _Session) -> None:
        self.session_id = session_id
        self._store = store
        self._session = session
        self._size = len(session.data)
        self._interrupted = False
        self._closed = False

    @property
    def size_bytes(self) -> int:
        """Length of the session up to the last acknowledged change."""
        return self._size

    @property
    def poisoned(self) -> bool:
        """True after a failed or interrupted change, and after `close`."""
        return self._interrupted or self._closed

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a range."""
        self._require_sound()
        return pieces(self._session.data, start, end)

    def append(self, data: bytes) -> int:
        """Put whole lines at the end. `Storage` (`session_replaced`, `fact_ledger_poisoned`, or what it is told)."""
        with self._changing():
            at = self._size
            self._put(self._store.written(self._session.data, data))
            return at

    def cut(self, at_byte: int) -> SetAside:
        """Take the end off; its bytes are kept as `<id>.torn-<offset>-<digest>`."""
        with self._changing():
            data = self._session.data[at_byte:]
            sha256 = hashlib.sha256(data).hexdigest()
            name = f"{self.session_id}.torn-{at_byte}-{sha256[:12]}"
            self._store.kept[name] = data
            self._put(self._store.written(self._session.data[:at_byte], b""))
            return SetAside(name, len(data), sha256)

    def back_up(self, version: int) -> SetAside:
        """Keep all bytes as `<id>.jsonl.v<version>.backup`. `Refused` (`session_migration_conflict`)."""
        self._require_sound()
        data, name = self._session.data, f"{self.session_id}.jsonl.v{version}.backup"
        if self._store.kept.setdefault(name, self._store.written(b"", data)) != data:
            raise backup_differs(self.session_id, name)
        return SetAside(name, len(data), hashlib.sha256(data).hexdigest())

    def renew(self, pieces: Iterable[bytes]) -> None:
        """Put other bytes in the place of all."""
        self._require_sound()
        data = b"".join(pieces)
        with self._changing():
            self._put(self._store.written(b"", data))

    def close(self) -> None:
        """Let the lock go. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._session.lock.release()

    def _put(self, data: bytes) -> None:
        self._session.data = data
        self._size = len(data)

    def _require_sound(self) -> None:
        if self.poisoned:
            raise poisoned(self.session_id)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self._require_sound()
        self._interrupted = True
        if not self._store.is_there(self.session_id, self._session):
            raise replaced(self.session_id, "it is not there any more, or another one is")
        if len(self._session.data) != self._size:
            raise replaced(self.session_id, f"it has {len(self._session.data)} bytes, expected {self._size}")
        yield
        self._interrupted = False


def pieces(data: bytes, start: int, end: int | None) -> Iterator[bytes]:
    """A range of bytes in pieces, the length as it is now."""
    stop = len(data) if end is None else min(end, len(data))
    for at in range(start, stop, PIECE):
        yield data[at : min(stop, at + PIECE)]
