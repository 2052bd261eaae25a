"""Session stores with one fault each: what an author may get wrong, and the kit must find. No sound one is here."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any, ClassVar

from clew.errors import ClewError, Held, NotFound, Refused, Storage
from clew.stores.base import SetAside
from clew.stores.sessions.memory import MemorySessionStore
from clew.testing import SessionStoreLab
from tests.testing.faulty import Around
from tests.testing.sqlite_sessions import SqliteSessionStore


class Sound(Around):
    """A memory store without a fault; a subclass plants one in it or in its writer."""

    Writer: ClassVar[type[Around]] = Around

    def create(self, *given: Any, **how: Any) -> Any:
        return self._around(self.inner.create(*given, **how))

    def open(self, *given: Any, **how: Any) -> Any:
        return self._around(self.inner.open(*given, **how))

    def _around(self, inner: Any) -> Any:
        writer = self.Writer(inner)
        vars(writer)["memory"] = self.inner
        return writer


def lab_of(fault: type[Sound]) -> SessionStoreLab:
    """The faulty store, plugged in as a sound one is."""
    memory = MemorySessionStore()
    return SessionStoreLab(
        lambda: fault(memory),
        raw=memory.raw,
        implant=memory.implant,
        kept=memory.kept.get,
        fail=memory.failing,
        cannot={"elsewhere": "it lives in the memory of one process"},
    )


class Headerless(Sound):
    """Is born empty, and gets its first lines later."""

    def create(self, session_id: str, data: bytes) -> Any:
        self.inner.create(session_id, b"").close()
        writer = self.inner.open(session_id)
        writer.append(data)
        return writer


class Greeting(Sound):
    """Adds a line whenever it is opened."""

    def open(self, session_id: str, *, wait_s: float = 2.0) -> Any:
        writer = self.inner.open(session_id, wait_s=wait_s)
        writer.append(b'{"opened":true}\n')
        return writer


class Chatty(Sound):
    """Makes a session to see whether it can."""

    def ids(self) -> list[str]:
        with suppress(ClewError):
            self.inner.create("probe", b"").close()
        return list(self.inner.ids())


class Short(Sound):
    """Takes ids of 64 characters at most."""

    def create(self, session_id: str, data: bytes) -> Any:
        return self.inner.create(session_id[:64], data)


class AnyName(Sound):
    """Says that an illegal id is unknown, as if it could be one."""

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        if not session_id.isalnum():
            raise NotFound("there is none", code="unknown_session", next="Look.")
        return iter(self.inner.read(session_id, start, end))


class Obliging(Sound):
    """Makes what is asked for."""

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        with suppress(Refused):
            self.inner.create(session_id, b"").close()
        return iter(self.inner.read(session_id, start, end))


class CaseSensitive(Sound):
    """Gives a name twice if it is spelt otherwise."""

    def create(self, session_id: str, data: bytes) -> Any:
        from clew.stores.sessions import memory

        if session_id in self.inner.ids():
            return super().create(session_id, data)
        session = memory._Session(data)
        session.lock.acquire()
        self.inner._sessions[session_id] = session
        return memory.MemorySessionWriter(self.inner, session_id, session)


class Racing(Sound):
    """Looks whether the name is free, and takes it later."""

    together: ClassVar[Barrier] = Barrier(8)

    def create(self, session_id: str, data: bytes) -> Any:
        if any(session_id.casefold() == other.casefold() for other in self.inner.ids()):
            return super().create(session_id, data)
        with suppress(BrokenBarrierError):
            self.together.wait(timeout=20)
        self.inner.implant(session_id, data)
        return self.inner.open(session_id)


class Replacing(Sound):
    """Begins anew what it cannot read."""

    def create(self, session_id: str, data: bytes) -> Any:
        if session_id in self.inner.ids() and not self.inner.raw(session_id).startswith(b'{"kind":"header"'):
            self.inner.implant(session_id, None)
        return super().create(session_id, data)


class Stillborn(Sound):
    """Leaves half of a birth that failed."""

    def create(self, session_id: str, data: bytes) -> Any:
        try:
            return self.inner.create(session_id, data)
        except Storage:
            self.inner.implant(session_id, data[:9])
            raise


class HalfBorn(Headerless):
    """As the headerless one: an interrupt finds it empty."""


class TextMode(Sound):
    """Reads as text, with the line ends of the machine."""

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        data = b"".join(self.inner.read(session_id, start, end))
        yield data.replace(b"\r\n", b"\n")


class FirstPiece(Sound):
    """Gives the first MiB of what it has."""

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        yield next(iter(self.inner.read(session_id, start, end)), b"")


class Growing(Sound):
    """Reads on while somebody writes."""

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        yield from self.inner.read(session_id, start, end)
        yield self.inner.raw(session_id)[start + 2_500_000 :] if end is None and start == 0 else b""


class Mending(Sound):
    """Cuts a torn end while it reads."""

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        data = self.inner.raw(session_id)
        if not data.endswith(b"\n"):
            self.inner.implant(session_id, data[: data.rfind(b"\n") + 1])
        return iter(self.inner.read(session_id, start, end))


class Doubling(Sound):
    """Appends each thing twice."""

    class Writer(Around):
        def append(self, data: bytes) -> int:
            at: int = self.inner.append(data)
            self.inner.append(data)
            return at


class Displaced(Sound):
    """Says where the lines end."""

    class Writer(Around):
        def append(self, data: bytes) -> int:
            self.inner.append(data)
            end: int = self.inner.size_bytes
            return end


class Hasty(Sound):
    """Keeps what it is given until it is closed."""

    class Writer(Around):
        held = b""

        def append(self, data: bytes) -> int:
            self.held += data
            return int(self.inner.size_bytes)

        def close(self) -> None:
            if self.held:
                self.inner.append(self.held)
            self.held = b""
            self.inner.close()


class Undying(Sound):
    """Goes on after a failure, and after it was closed."""

    class Writer(Around):
        poisoned = False

        def _revive(self) -> None:
            self.inner._interrupted = self.inner._closed = False

        def append(self, data: bytes) -> int:
            self._revive()
            return int(self.inner.append(data))


class Uncounted(Sound):
    """Does not know how long a session is."""

    class Writer(Around):
        size_bytes = 0


class InPieces(Sound):
    """Appends in two writes."""

    class Writer(Around):
        def append(self, data: bytes) -> int:
            at: int = self.inner.append(data[:9])
            self.inner.append(data[9:])
            return at


class Open(Sound):
    """Lets everybody in."""

    def open(self, session_id: str, *, wait_s: float = 2.0) -> Any:
        try:
            return super().open(session_id, wait_s=0.0)
        except Held:
            session = self.inner._existing(session_id)
            session.lock.release()
            return super().open(session_id, wait_s=wait_s)


class Impatient(Sound):
    """Does not wait."""

    def open(self, session_id: str, *, wait_s: float = 2.0) -> Any:
        return super().open(session_id, wait_s=0.0)


class Remembering(Sound):
    """Shows what it read when it was first opened."""

    class Writer(Around):
        seen: ClassVar[dict[int, bytes]] = {}

        def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
            yield b"".join(self.inner.read(start, end)).partition(b"\n")[0]


class Recreating(Sound):
    """Writes to the name, whatever it leads to."""

    class Writer(Around):
        memory: Any

        def append(self, data: bytes) -> int:
            here = self.memory._sessions.setdefault(self.inner.session_id, self.inner._session)
            self.inner._session, self.inner._size = here, len(here.data)
            return int(self.inner.append(data))


class Unguarded(Sound):
    """Guards appends alone."""

    class Writer(Around):
        memory: Any

        def cut(self, at_byte: int) -> SetAside:
            self.inner._session = self.memory._sessions[self.inner.session_id]
            return SetAside(*_told(self.inner.cut(at_byte)))


class Wasting(Sound):
    """Cuts without a copy."""

    class Writer(Around):
        memory: Any

        def cut(self, at_byte: int) -> SetAside:
            kept = self.inner.cut(at_byte)
            self.memory.kept.clear()
            return SetAside(*_told(kept))


class Numbering(Sound):
    """Gives each copy of an end another name."""

    class Writer(Around):
        memory: Any

        def cut(self, at_byte: int) -> SetAside:
            kept = self.inner.cut(at_byte)
            data = self.memory.kept.pop(kept.name)
            name = f"{kept.name}-{len(self.memory.kept)}"
            self.memory.kept[name] = self.memory.kept[name + "."] = data
            return SetAside(name, kept.bytes, kept.sha256)


class Late(Sound):
    """Cuts first and keeps later, so a failure in between loses the end."""

    class Writer(Around):
        memory: Any

        def cut(self, at_byte: int) -> SetAside:
            self.inner._session.data = self.inner._session.data[:at_byte]
            self.inner._size = at_byte
            self.memory.written(b"", b"")
            return SetAside(*_told(self.inner.cut(at_byte)))


class Decoding(Sound):
    """Backs up the text, and not the bytes."""

    class Writer(Around):
        memory: Any

        def back_up(self, version: int) -> SetAside:
            kept = self.inner.back_up(version)
            self.memory.kept[kept.name] = self.memory.kept[kept.name].decode(errors="replace").encode()
            return SetAside(*_told(kept))


class Overwriting(Sound):
    """Makes every backup anew."""

    class Writer(Around):
        memory: Any

        def back_up(self, version: int) -> SetAside:
            self.memory.kept.pop(f"{self.inner.session_id}.jsonl.v{version}.backup", None)
            return SetAside(*_told(self.inner.back_up(version)))


class HalfBacked(Sound):
    """Leaves half of a backup that failed."""

    class Writer(Around):
        memory: Any

        def back_up(self, version: int) -> SetAside:
            try:
                return SetAside(*_told(self.inner.back_up(version)))
            except Storage:
                self.memory.kept[f"{self.inner.session_id}.jsonl.v{version}.backup"] = b"half"
                raise


class LettingGo(Sound):
    """Lets the lock go when it replaces."""

    class Writer(Around):
        def renew(self, pieces: Iterable[bytes]) -> None:
            self.inner.renew(pieces)
            self.inner._session.lock.release()
            self.inner._session.lock.acquire(timeout=0)
            self.inner._session.lock.release()


class InPlace(Sound):
    """Empties the session and then writes the new lines, one after the other."""

    class Writer(Around):
        memory: Any

        def renew(self, pieces: Iterable[bytes]) -> None:
            self.inner._session.data, self.inner._size = b"", 0
            for piece in pieces:
                self.inner.append(piece)


class Listing(Sound):
    """Lists what is kept as well."""

    def ids(self) -> list[str]:
        return [*self.inner.ids(), *self.inner.kept]


class ThreadsOnly(SqliteSessionStore):
    """A lock that another process does not see."""

    def lock(self, session_id: str, wait_s: float) -> Any:
        import sqlite3

        return sqlite3.connect(":memory:", check_same_thread=False)


def _told(kept: SetAside) -> tuple[str, int, str]:
    return kept.name, kept.bytes, kept.sha256
