"""Sessions as they are read to be judged: one of a store or a loose file, to its end or at its end. Nothing is changed.

How a home is asked for them is in `shelf`.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from clew.core.checkup import Talks
from clew.core.invariants import SessionFacts
from clew.core.session.judging import judge
from clew.core.session.lines import BOM, BadLine, exact
from clew.core.session.reading import SessionReader
from clew.core.session.state import MAIN, SessionState
from clew.core.session.values import Judgement, View
from clew.core.session.viewing import view
from clew.errors import ClewError, Storage
from clew.runtime.windows import reading
from clew.stores.base import SessionStore

_END: Final = 1 << 16


class Loose(Protocol):
    """A file that is in no home."""

    place: str

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a range."""
        ...

    def make(self, data: bytes) -> None:
        """Make it where nothing is."""
        ...


class InStore:
    """A session of a store, read by its id."""

    def __init__(self, store: SessionStore, session_id: str) -> None:
        self.place = store.locate(session_id)
        self._store = store
        self._id = session_id

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a range."""
        return self._store.read(self._id, start, end)


class Examined(msgspec.Struct, frozen=True):
    """A session that was read to its end: where it is, its state, how long it is, the SHA-256 of all its bytes."""

    place: str
    state: SessionState
    size_bytes: int
    sha256: str
    source: Loose | InStore

    def view(self, lane: str = MAIN) -> View:
        """What the conversation is now.

        Raises:
            NotFound: `unknown_lane`. Storage: `session_replaced`: a migration put another file there meanwhile.
        """
        try:
            shown = view(self.state, reading(self.source), lane=lane)
        except (BadLine, LookupError, TypeError, AttributeError) as fault:
            raise self._replaced() from fault
        # The places of its entries are those of the file that was read; what is renewed has another first line.
        if not self._is_same():
            raise self._replaced()
        return shown

    def _is_same(self) -> bool:
        header = self.state.header
        line = b"".join(self.source.read(0, self.state.header_size)).removesuffix(b"\n")
        try:
            return bool(exact(line.removeprefix(BOM)) == header.value)
        except BadLine:
            return False

    def _replaced(self) -> Storage:
        return Storage(
            f"session {self.state.id!r} was replaced while it was looked at",
            code="session_replaced",
            next="Look again: what is there now is another file.",
            session=self.state.id,
        )

    def judgement(self) -> Judgement:
        """What is to be said of it as a whole."""
        return judge(self.state)


def examine(source: Loose | InStore, expect: str | None) -> Examined:
    """Read a session to its end, piece by piece. As `SessionReader`."""
    reader, digest, size = SessionReader(expect=expect), hashlib.sha256(), 0
    for piece in source.read():
        digest.update(piece)
        size += len(piece)
        reader.feed(piece)
    return Examined(source.place, reader.finish(), size, digest.hexdigest(), source)


def examine_own(store: SessionStore, session_id: str) -> Examined:
    """The same of a session of a store. `NotFound` (`unknown_session`)."""
    return examine(InStore(store, session_id), session_id)


def facts_at_end(store: SessionStore, session_id: str) -> SessionFacts | None:
    """How far a session of ours has come, by its last whole line alone; None when that does not tell it.

    As much is read as that line is long, however long the session is.
    """
    try:
        size = store.size_bytes(session_id)
        span = _END
        while True:
            data = b"".join(store.read(session_id, max(0, size - span), size))
            lines = data.rsplit(b"\n", 2)
            if len(lines) == 3 or span >= size:
                break
            span *= 8
        last = exact(lines[-2]) if len(lines) > 1 else None
    except (ClewError, BadLine):
        return None
    if type(last) is not dict:
        return None
    number = 0 if last.get("kind") == "header" and last.get("version") == 4 else last.get("seq")
    return SessionFacts(session_id, number) if type(number) is int else None


def facts_and_trouble(store: SessionStore, session_id: str) -> tuple[SessionFacts | None, dict[str, Any]]:
    """How far a session has come, read to its end; and that as a row, with the error where it cannot be read."""
    told: dict[str, Any] = {"sessionId": session_id, "lastSequence": None, "error": None}
    try:
        state = examine_own(store, session_id).state
    except ClewError as error:
        return None, told | {"error": error.as_json()["error"]}
    if state.format != "v4a":
        return None, told
    return SessionFacts(session_id, state.sequence), told | {"lastSequence": state.sequence}


def look_over(store: SessionStore | None) -> Talks:
    """What a doctor asks of the sessions of a home: which cannot be read, and which calls in them have no result.

    Source:
        C05.
    """
    found = Talks()
    if store is None:
        return found
    try:
        ids = sorted(store.ids())
    except ClewError as fault:
        return _unreadable(found, "", fault)
    for session_id in ids:
        try:
            orphans = examine_own(store, session_id).judgement().orphan_calls
        except ClewError as fault:
            found = _unreadable(found, session_id, fault)
            continue
        changes: dict[str, Any] = {"sessions": found.sessions + 1, "orphan_calls": found.orphan_calls + len(orphans)}
        if orphans:
            one = {"session": session_id, "calls": len(orphans), "tool": orphans[0].tool, "line": orphans[0].line}
            changes["orphaned"] = found.orphaned.plus(**one)
        found = msgspec.structs.replace(found, **changes)
    return found


def _unreadable(found: Talks, session_id: str, fault: ClewError) -> Talks:
    told = {"code": fault.code, "message": fault.message, "exit": fault.exit_code}
    return msgspec.structs.replace(
        found,
        sessions=found.sessions + bool(session_id),
        unreadable=found.unreadable.plus(session=session_id, **told),
        worst_exit=max(found.worst_exit, fault.exit_code),
    )
