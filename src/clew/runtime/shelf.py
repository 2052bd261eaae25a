"""The sessions of a home, as one looks at them: opened, listed, shown, judged, migrated, saved. Runs no agent."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from clew.core.ids import check_id, match_id
from clew.core.session.dialects import detect
from clew.core.session.projecting import project
from clew.core.session.salvaging import Salvage, salvage
from clew.core.session.state import MAIN
from clew.core.session.transcripts import Transcript, TranscriptReader, recognise
from clew.core.session.values import Projection
from clew.core.times import parse_ms
from clew.errors import ClewError, NotFound
from clew.runtime.desk import Desk
from clew.runtime.examined import Examined, InStore, Loose, examine
from clew.runtime.migrating import Migration, migrate_session
from clew.runtime.session import CoreMindSession, open_session
from clew.runtime.talking import required
from clew.stores.base import SessionStore

_FIRST_LINE = 1 << 20
_READ_WHOLE = 4 << 20
_LAST = "@last"


class Shelf(Desk):
    """The part of a home that has conversations."""

    _loose: Callable[[Path], Loose]

    @property
    def session_store(self) -> SessionStore:
        """Where they are. `UsageError` (`no_sessions`)."""
        return required(self._parts.sessions)

    def session(self, session_id: str, *, create: bool = True, wait_s: float = 2.0) -> CoreMindSession:
        """Open a session for its one writer, or begin it; close it when you are done (`with`).

        Args:
            session_id: A legal id; one of version 1 to 3 is migrated, its bytes are kept first.
            create: Begin it when it is not there.
            wait_s: So long another writer is waited for.

        Raises:
            as `open_session`.
        """
        clock, base = self._parts.clock, self._parts.base
        return open_session(self.session_store, clock, session_id, cwd=base, create=create, wait_s=wait_s)

    def sessions(self, *, full: bool = False) -> Iterator[dict[str, Any]]:
        """A row for each session, by its id; one that cannot be read says so.

        `full`: also those above 4 MiB are read to their end; else what only that would tell is None.
        """
        store = self.session_store
        rows = (_row(store, session_id, full=full) for session_id in sorted(store.ids()))
        yield from (row for row in rows if row is not None)

    def find_session(self, part: str) -> str:
        """The id that a typed part means.

        Raises:
            NotFound: `unknown_session`. UsageError: `ambiguous_run_id`, `invalid_session_id`.
        """
        ids = list(self.session_store.ids())
        if part == _LAST and not ids:
            raise NotFound(
                "there is no session here yet",
                code="unknown_session",
                next="Begin one with `clew run FILE:AGENT INPUT --session ID`.",
            )
        if part == _LAST:
            return max(ids, key=lambda each: (_begun(self.session_store, each), each))
        if part not in ids:
            check_id(part, "session")
        try:
            return match_id(part, ids)
        except NotFound as error:
            raise NotFound(
                f"there is no session {part!r}",
                code="unknown_session",
                next="List the sessions of this home with `clew session ls`.",
                session=part,
            ) from error

    def examine_session(self, session: str) -> Examined:
        """Read a session to its end: one of this home by its id, or a file by its path. Nothing is changed.

        Raises:
            Corrupt: `session_corrupt`. Refused: `session_unsupported`. NotFound: `unknown_session`.
        """
        source, expect = self._source(session)
        return examine(source, expect)

    def judge_file(self, session: str) -> Examined | Transcript:
        """As `examine_session`; also a transcript of Claude Code or a rollout of Codex, by its path."""
        source, expect = self._source(session)
        if expect is None and recognise(_first_line(source)) is not None:
            return _transcript(source)
        return examine(source, expect)

    def project_session(self, session: str, lane: str = MAIN) -> Projection:
        """What a model may be sent of it."""
        return project(self.examine_session(session).view(lane).messages)

    def migrate_session(self, session: str) -> Migration:
        """Make a session of version 1 to 3 one of ours; as `migrating.migrate_session`."""
        return migrate_session(self.session_store, self.find_session(session))

    def salvage_session(self, session: str, to: str | Path | None = None) -> Salvage:
        """Save what can be read of a session that is damaged, in a file of its own; the session is not changed.

        Without `to` it is only said what would be left out.

        Raises:
            Refused: `file_exists`, `session_unsupported`. Corrupt: `session_corrupt` when there is no header.
        """
        source, _ = self._source(session)
        saved = salvage(b"".join(source.read()))
        if to is not None:
            self._loose(Path(to)).make(saved.data)
        return saved

    def is_path(self, session: str) -> bool:
        """Is a file meant, and no session of this home? No id has a separator or an ending."""
        return any(letter in session for letter in "/\\.")

    def _source(self, session: str) -> tuple[Loose | InStore, str | None]:
        """What is read, and the id that its header must have."""
        if self.is_path(session):
            return self._loose(Path(session)), None
        session_id = self.find_session(session)
        return InStore(self.session_store, session_id), session_id


def _transcript(source: Loose | InStore) -> Transcript:
    reader = TranscriptReader()
    for piece in source.read():
        reader.feed(piece)
    return reader.finish()


def _first_line(source: Loose | InStore) -> bytes:
    head = b"".join(_until(source.read(0, _FIRST_LINE)))
    return head.partition(b"\n")[0]


def _until(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        if b"\n" in piece:
            return


def _begun(store: SessionStore, session_id: str) -> str:
    """When a session began, as a text that sorts; empty when its header does not say it."""
    try:
        value = detect(_first_line(InStore(store, session_id))).value
    except ClewError:
        return ""
    created = value.get("createdAt")
    return f"{created:020d}" if type(created) is int else _as_ms(value.get("timestamp"))


def _as_ms(timestamp: Any) -> str:
    found = parse_ms(timestamp) if type(timestamp) is str else None
    return "" if found is None else f"{found:020d}"


def _row(store: SessionStore, session_id: str, *, full: bool) -> dict[str, Any] | None:
    """What a list says of one; None when it is gone meanwhile. A short one is opened once."""
    row: dict[str, Any] = {"session": session_id, "format": None, "bytes": None, "entries": None, "title": None}
    row |= {"ending": None, "orphanCalls": None, "error": None}
    source = InStore(store, session_id)
    try:
        row["bytes"] = store.size_bytes(session_id)
        if full or row["bytes"] <= _READ_WHOLE:
            found = examine(source, session_id)
            state, orphans = found.state, len(found.judgement().orphan_calls)
            row |= {"format": state.format, "entries": state.entries, "title": state.title, "ending": state.ending}
            row["orphanCalls"] = orphans
        else:
            row["format"] = detect(_first_line(source)).format
    except NotFound:
        return None
    except ClewError as error:
        row |= {"error": error.as_json()["error"], "format": _format(source)}
    return row


def _format(source: InStore) -> str | None:
    """In which language one is written that cannot be read to its end."""
    try:
        return detect(_first_line(source)).format
    except ClewError:
        return None
