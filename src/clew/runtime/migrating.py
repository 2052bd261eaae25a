"""A session of an older version becomes one of ours on disk: a copy of every byte first, then one step. Blocking."""

import hashlib
from collections.abc import Iterator

import msgspec

from clew.core.session.converting import as_migration, source_version
from clew.core.session.migrating import check_migrated, migrate
from clew.core.session.reading import SessionReader, read_session
from clew.core.session.state import SessionState
from clew.core.session.values import ReadAt
from clew.core.session.viewing import view
from clew.errors import ClewError, Refused
from clew.runtime.windows import reading
from clew.stores.base import SessionStore, SessionWriter

_PIECE = 1 << 20


class Migration(msgspec.Struct, frozen=True, rename="camel"):
    """What became of a session that was to be migrated.

    Attributes:
        source_format: What it was written in before: `v1`, `v2`, `v3`; `v4a` when there was nothing to do.
        backup: Name of the copy of the source beside it, None when there was nothing to do.
        source_sha256: Of all its bytes before.
        entries: How many it has now.
        view: How many messages it shows, before as after.
    """

    session_id: str
    migrated: bool
    source_format: str
    source_sha256: str
    backup: str | None
    entries: int
    view: int


def migrate_session(store: SessionStore, session_id: str) -> Migration:
    """Make a v1, v2 or v3 session one of ours, or leave it as it is. A second time changes nothing.

    Whatever happens, and wherever it breaks off, the public name leads to the source or to the whole new session, and
    the copy of the source is there before anything else is changed.

    Raises:
        UsageError: `invalid_session_id`. NotFound: `unknown_session`. Held: `session_open_locked`.
        Corrupt: `session_migration_invalid`: a line, a time or a reference is bad, or its end is torn.
        Refused: `session_migration_unsupported`, `session_migration_conflict`, `session_migration_failed`.
        Storage: the source is there, or all that was to be published.

    Source:
        reference/sessions.md §9; DESIGN §8; promise 10; contract #190 to #196.
    """
    writer = store.open(session_id)
    try:
        return migrate_held(writer)
    finally:
        writer.close()


def migrate_held(writer: SessionWriter) -> Migration:
    """As `migrate_session`, by who has the session open already; the writer goes on with the new one."""
    session_id = writer.session_id
    state, sha256 = _read(writer, session_id)
    if state.format == "v4a":
        now = view(state, reading(writer))
        return Migration(session_id, False, "v4a", sha256, None, state.entries, len(now.messages))
    version = source_version(state)
    # Made and compared in memory first: what cannot be migrated leaves no copy behind, and nothing else either.
    new = b"".join(migrate(state, reading(writer), sha256=sha256, backup_file=backup_name(session_id, version)))
    after = read_session(new, expect=session_id)
    shown = view(after, _in(new))
    check_migrated(state, view(state, reading(writer)), shown)
    kept = writer.back_up(version)
    if kept.sha256 != sha256:
        raise _failed(session_id, "its bytes are not those that were read")
    writer.renew(_pieces(new))
    if _digest(writer) != hashlib.sha256(new).hexdigest():
        raise _failed(session_id, "what was published cannot be read again as it was written")
    return Migration(session_id, True, state.format, sha256, kept.name, after.entries, len(shown.messages))


def backup_name(session_id: str, version: int) -> str:
    """Under which name the source of a migration is kept."""
    return f"{session_id}.jsonl.v{version}.backup"


def _in(data: bytes) -> ReadAt:
    return lambda offset, size: data[offset : offset + size]


def _read(writer: SessionWriter, session_id: str) -> tuple[SessionState, str]:
    reader, digest = SessionReader(expect=session_id), hashlib.sha256()
    try:
        for piece in writer.read():
            digest.update(piece)
            reader.feed(piece)
        return reader.finish(), digest.hexdigest()
    except ClewError as error:
        raise as_migration(error) from error


def _digest(writer: SessionWriter) -> str:
    digest = hashlib.sha256()
    for piece in writer.read():
        digest.update(piece)
    return digest.hexdigest()


def _pieces(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), _PIECE):
        yield data[at : at + _PIECE]


def _failed(session_id: str, why: str) -> Refused:
    return Refused(
        f"session {session_id!r} was not migrated: {why}",
        code="session_migration_failed",
        next="Look whether another program writes it; its backup, if there is one, holds every byte of the source.",
        session=session_id,
        why=why,
    )
