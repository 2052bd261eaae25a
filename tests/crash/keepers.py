"""Stores of sessions, packs and prunes that say what they are about to do, and what they have promised."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

import clew
from clew.disk.failures import failure
from clew.stores.base import Pruning, SetAside
from clew.stores.base.kept import BlobPack, Kept
from clew.stores.sessions.files import FileSessionStore
from clew.stores.upkeep import FileUpkeep
from tests.crash.telling import Tell, TellingBlobs, TellingKeys, TellingStore


class TellingPack:
    """A pack of which nothing is promised before its block has ended."""

    def __init__(self, inner: BlobPack) -> None:
        self._inner = inner
        self.taken: list[str] = []

    def keep(self, pieces: Iterable[bytes]) -> Kept:
        kept = self._inner.keep(pieces)
        self.taken.append(kept.sha256)
        return kept


class PackingBlobs(TellingBlobs):
    """`TellingBlobs`, whose packs are told of too."""

    @contextmanager
    def pack(self) -> Iterator[BlobPack]:
        with super().pack() as inner:
            pack = TellingPack(inner)
            yield pack
        for sha256 in pack.taken:
            self.tell.kept("blob", sha256)


class TellingSessions(FileSessionStore):
    """`FileSessionStore`, told of: by the digests of all bytes of a session, as it may be found."""

    tell: Tell

    def create(self, session_id: str, data: bytes) -> Any:
        self.tell.about("session", session_id, _sha256(data))
        writer = super().create(session_id, data)
        self.tell.kept("session", session_id, _sha256(data))
        return TellingSession(writer, self.tell, data)

    def open(self, session_id: str, *, wait_s: float = 2.0) -> Any:
        writer, path = super().open(session_id, wait_s=wait_s), Path(self.locate(session_id))
        try:
            return TellingSession(writer, self.tell, path.read_bytes())
        except OSError as error:
            # This look is no part of what is struck.
            writer.close()
            raise failure(error, path, "read") from error


class TellingSession:
    """A writer of a session that tells; everything else is the writer's."""

    def __init__(self, inner: Any, tell: Tell, data: bytes) -> None:
        self._inner = inner
        self._tell = tell
        self._data = data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, data: bytes) -> int:
        ends = [at + 1 for at, byte in enumerate(data) if byte == 0x0A]
        for end in ends:
            self._tell.about("session", self._inner.session_id, _sha256(self._data + data[:end]))
        at = int(self._inner.append(data))
        self._kept(self._data + data)
        return at

    def cut(self, at_byte: int) -> SetAside:
        self._tell.about("session", self._inner.session_id, _sha256(self._data[:at_byte]))
        cut: SetAside = self._inner.cut(at_byte)
        self._kept(self._data[:at_byte])
        return cut

    def back_up(self, version: int) -> SetAside:
        copy: SetAside = self._inner.back_up(version)
        self._tell.kept("backup", copy.name, copy.sha256)
        return copy

    def renew(self, pieces: Iterable[bytes]) -> None:
        data = b"".join(pieces)
        self._tell.about("session", self._inner.session_id, _sha256(data))
        self._inner.renew([data])
        self._kept(data)

    def _kept(self, data: bytes) -> None:
        self._data = data
        self._tell.kept("session", self._inner.session_id, _sha256(data))


class TellingUpkeep(FileUpkeep):
    """`FileUpkeep`, told of."""

    tell: Tell

    def note(self, pruning: Pruning) -> None:
        super().note(pruning)
        for drop in pruning.drops:
            self.tell.kept("pruned", drop.sha256)


def home_of(root: Path, tell: Tell) -> clew.Home:
    """A home in files all of whose stores tell."""
    stores: dict[str, Any] = {"store": TellingStore(root), "blobs": PackingBlobs(root), "keys": TellingKeys(root)}
    stores |= {"sessions": TellingSessions(root)}
    upkeep = TellingUpkeep(root)
    for store in (*stores.values(), upkeep):
        store.tell = tell
    home = clew.Home(root, takeover="proven", **stores)
    # Beside stores that it does not know, a home has nobody to look after it.
    home._parts = msgspec.structs.replace(home._parts, upkeep=upkeep)
    home.reader.upkeep = upkeep
    return home


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
