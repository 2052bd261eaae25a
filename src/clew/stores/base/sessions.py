"""The protocol of a session store: conversations, one file of lines each, with one writer. No implementation.

What a line means is not known here (`core.session`): a store keeps bytes, their order, a lock and what was cut off.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from clew.stores.base.journals import Boundary


class SetAside(msgspec.Struct, frozen=True, rename="camel"):
    """Bytes that were kept beside a session before it was changed: under which name, how many, their SHA-256."""

    name: str
    bytes: int
    sha256: str


class SessionWriter(Protocol):
    """The one writer of a session. Holds the lock until closed; called by one thread at a time.

    After any exception inside `append`, `cut` or `renew` it is poisoned: every later call raises `Storage`
    (`fact_ledger_poisoned`), for what stands at the end is not known any more.
    """

    session_id: str

    @property
    def size_bytes(self) -> int:
        """Length of the session up to the last acknowledged change."""
        ...

    @property
    def poisoned(self) -> bool:
        """True after a failed or interrupted change, after `close`, and in a forked child."""
        ...

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a range in pieces; all of them by default. From the device, before this writer's first change.

        Raises:
            Storage: they cannot be read; `durability_barrier_failed` when the sync before the first reading fails.
        """
        ...

    def append(self, data: bytes) -> int:
        """Put whole lines at the end: one write and one sync. Returns where they begin, when they are durable.

        Before it writes it makes sure that the public name still leads to the session that was opened, and that nobody
        else changed its length: a session that was deleted is never born again without its beginning.

        Raises:
            Storage: `session_replaced`, `disk_full`, `storage_denied`, `durability_barrier_failed`,
                `fact_ledger_poisoned`.
        """
        ...

    def cut(self, at_byte: int) -> SetAside:
        """Take the end off behind `at_byte`; its bytes are kept first, durably, as `<id>.torn-<offset>-<digest>`.

        `digest` is the first 12 hex digits of their SHA-256. Cut off between the two, it is done again.

        Raises:
            Storage: as `append`; nothing was cut before the bytes are kept.
        """
        ...

    def back_up(self, version: int) -> SetAside:
        """Keep all bytes of the session, durably, as `<public name>.v<version>.backup`; the session is not changed.

        One that is there with the very same bytes is taken as it is: this is a second try.

        Raises:
            Refused: `session_migration_conflict` when one with other bytes is there; it is never replaced.
            Storage: it cannot be kept; no half-written one is left under that name.
        """
        ...

    def renew(self, pieces: Iterable[bytes]) -> None:
        """Publish other bytes under the public name, durably, in one step: it leads to the old or the new, always.

        The lock is held on the new ones before they can be seen, and this writer goes on with them.

        Raises:
            Storage: as `append`, and `publish_failed`; the old bytes are there then, or all of the new.
        """
        ...

    def close(self) -> None:
        """Let the lock go; the writer is then as one that is poisoned. Safe to call twice."""
        ...


class SessionStore(Protocol):
    """Where conversations are kept. Readers never write and never lock.

    Ids are those of runs: `check_id(session_id, "session")`, and two that differ by case alone are one.

    Source:
        DESIGN §4 and §8; reference/sessions.md §7 to §9; promises 6, 10, 11 and 12.
    """

    boundary: Boundary

    def ids(self) -> Sequence[str]:
        """All session ids, in no promised order; unreadable ones included, backups and cut ends not."""
        ...

    def create(self, session_id: str, data: bytes) -> SessionWriter:
        """Give birth to a session, locked, with its first lines; nobody ever sees a part of them.

        Raises:
            UsageError: `invalid_session_id`. Refused: `session_id_conflict` when the id exists.
            Storage: it cannot be made; there is no session then, or a whole one.
        """
        ...

    def open(self, session_id: str, *, wait_s: float = 2.0) -> SessionWriter:
        """Take the lock of a session.

        Raises:
            UsageError: `invalid_session_id`. NotFound: `unknown_session`.
            Held: `session_open_locked` after `wait_s` seconds; facts name the holder as far as it can be known.
            Storage: it cannot be opened for writing.
        """
        ...

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a range in pieces, without a lock, up to the length that it has at the first piece.

        Raises:
            UsageError: `invalid_session_id`. NotFound: `unknown_session`. Storage.
        """
        ...

    def size_bytes(self, session_id: str) -> int:
        """Length of the session now. `NotFound` (`unknown_session`)."""
        ...

    def locate(self, session_id: str) -> str:
        """The session's place in words for a person: its public path, or `memory`."""
        ...
