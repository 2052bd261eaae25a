"""What the kit of session stores needs: the author's lab, and lines to put into it. No case belongs here."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

from clew.stores.base import SessionStore
from clew.testing.lab import Lab, Step

SESSION: Final = "s1"


class SessionStoreLab(Lab[SessionStore]):
    """A place for sessions, empty at first, that a case may fill, damage and look into. Lives for one case.

    The author of a store gives `store` always and the other five as well as it can. What it cannot do it says in
    `cannot`; the cases that need it are then skipped and say so. What is neither given nor declared fails them.

    Args:
        store: The store as another process opens it: a new object over the same place each time. A store in the
            memory of one process gives the same object again.
        raw: The bytes of a session, by its id, as they are kept.
        implant: Puts a session with these bytes there in the place of the one that was there, behind the store's back,
            as somebody else's program would; None takes it away. What is kept beside it stays.
        kept: The bytes that are kept beside the sessions under a name (a backup, a cut end), None when nothing is.
        fail: Within what it gives, the next `write` or the next `sync` fails, as on a dying disk; see `failing_call`.
        elsewhere: Lines of Python that make a `store` over this place in another process, which has the `sys.path`
            of this one.
        cannot: Name of one of these five -> why this store has nothing of the kind.

    Source:
        DESIGN §3, "a contract is a kit".
    """

    def __init__(
        self,
        store: Callable[[], SessionStore],
        *,
        raw: Callable[[str], bytes] | None = None,
        implant: Callable[[str, bytes | None], None] | None = None,
        kept: Callable[[str], bytes | None] | None = None,
        fail: Callable[[Step], AbstractContextManager[None]] | None = None,
        elsewhere: str | None = None,
        cannot: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(store, fail=fail, elsewhere=elsewhere, cannot=cannot)
        self._raw = raw
        self._implant = implant
        self._kept = kept

    def raw(self, session_id: str = SESSION) -> bytes:
        """The bytes of a session."""
        return self.given("raw", self._raw)(session_id)

    def implant(self, session_id: str, data: bytes | None) -> None:
        """Put another session there, or none."""
        self.given("implant", self._implant)(session_id, data)

    def kept(self, name: str) -> bytes | None:
        """What is kept under a name beside the sessions."""
        return self.given("kept", self._kept)(name)


def header(session_id: str = SESSION) -> bytes:
    """The first line of a session."""
    return b'{"kind":"header","version":4,"id":"%s","createdAt":1,"cwd":"/"}\n' % session_id.encode()


def line(number: int, text: str = "hello") -> bytes:
    """A later line."""
    return b'{"kind":"fact","seq":%d,"fact":"name","name":"%s"}\n' % (number, text.encode())


def read_all(store: SessionStore, session_id: str = SESSION) -> bytes:
    """All bytes that a reader sees."""
    return b"".join(store.read(session_id))
