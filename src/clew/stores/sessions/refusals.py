"""What every session store says in the same words when it refuses. Nothing here reads or writes."""

from collections.abc import Iterable
from typing import Any

from clew.core.ids import same_id
from clew.errors import Held, NotFound, Refused, Storage


def unknown_session(session_id: str, place: str) -> NotFound:
    """There is no session under this id."""
    return NotFound(
        f"there is no session {session_id!r} in {place!r}",
        code="unknown_session",
        next="List the sessions of this home with `clew session ls`.",
        session=session_id,
    )


def require_free(session_id: str, taken: Iterable[str]) -> None:
    """Refuse an id that names the same file as another one where case is ignored.

    Raises:
        Refused: `session_id_conflict`.
    """
    for other in taken:
        if same_id(session_id, other):
            raise session_taken(session_id, other)


def session_taken(session_id: str, other: str) -> Refused:
    """An id is never given twice, and never replaced."""
    return Refused(
        f"there is a session {other!r} already, so {session_id!r} cannot begin",
        code="session_id_conflict",
        next=f"Open {other!r}, or choose another id.",
        session=session_id,
        existing=other,
    )


def held(session_id: str, owner: dict[str, Any]) -> Held:
    """Another writer has the lock. Names its process as far as the system tells it."""
    who = f"process {owner['pid']} on {owner['host']} ({owner['state']})" if owner else "another process"
    return Held(
        f"session {session_id!r} is being written by {who}",
        code="session_open_locked",
        next="Wait for that process, or end it; its lock is never taken from it.",
        session=session_id,
        owner=owner or None,
    )


def replaced(session_id: str, why: str) -> Storage:
    """Somebody else changed, deleted or replaced the session while it was open."""
    return Storage(
        f"session {session_id!r}: {why}",
        code="session_replaced",
        next=f"Nothing was written. Find out what touched the file, then `clew session verify {session_id}`.",
        session=session_id,
        why=why,
    )


def poisoned(session_id: str) -> Storage:
    """This writer is dead: what stands at the end of the session is not known to it any more."""
    return Storage(
        f"session {session_id!r}: this writer is closed: a change failed or was interrupted, or it was forked",
        code="fact_ledger_poisoned",
        next="Open the session anew: it is read as the disk really kept it.",
        session=session_id,
    )


def backup_differs(session_id: str, name: str) -> Refused:
    """A backup of other bytes is there; it may be the only copy of them."""
    return Refused(
        f"session {session_id!r}: {name!r} is there already and holds other bytes than the session",
        code="session_migration_conflict",
        next="Look what that backup is and move it elsewhere, then migrate again; nothing was changed.",
        session=session_id,
        backup=name,
    )
