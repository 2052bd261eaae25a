"""Sessions as files `<home>/sessions/<id>.jsonl`, with their backups and cut ends beside them."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.core.ids import check_id
from clew.disk import files
from clew.disk.append import AppendFile, birth
from clew.disk.holder import holder_of
from clew.disk.naming import Naming
from clew.disk.renewal import confirm, keep_new, renew
from clew.errors import Storage, UsageError
from clew.stores.base import Boundary, SetAside
from clew.stores.homefile import HomeFile
from clew.stores.sessions.refusals import (
    backup_differs,
    held,
    poisoned,
    replaced,
    require_free,
    session_taken,
    unknown_session,
)

_SUFFIX = ".jsonl"
_TRIES = 5


class FileSessionStore:
    """The sessions of one home (`stores.base.SessionStore`): files that anyone can read.

    Making one touches nothing. The public path of a session never changes, and a session is there once it is made.

    Source:
        DESIGN §4 and §8; reference/sessions.md §7 to §9.
    """

    boundary: Boundary = "power_loss"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._home = HomeFile(root)

    def ids(self) -> list[str]:
        """All session ids, in no promised order; unreadable ones included."""
        names = files.list_names(self._folder())
        stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return [stem for stem in stems if _is_id(stem)]

    def create(self, session_id: str, data: bytes) -> "FileSessionWriter":
        """Give birth to a session, locked, with its first lines.

        Raises:
            UsageError: `invalid_session_id`. Refused: `session_id_conflict`, `home_copied`, `home_layout_unknown`.
            Corrupt: `home_file_corrupt`. Storage: there is no session then, or a whole one.
        """
        path = self._path(session_id)
        if files.size_of(path) is not None:
            raise session_taken(session_id, session_id)
        self._make()
        try:
            return FileSessionWriter(session_id, birth(path, data, self._naming(session_id)))
        except FileExistsError:
            raise session_taken(session_id, session_id) from None

    def open(self, session_id: str, *, wait_s: float = 2.0) -> "FileSessionWriter":
        """Take the lock of a session.

        Raises:
            UsageError: `invalid_session_id`. NotFound: `unknown_session`. Held: `session_open_locked`.
            Refused: `home_copied`, `home_layout_unknown`, `home_link_refused`. Corrupt: `home_file_corrupt`.
            Storage: `session_replaced` when it is another file at each try; or the machine refused.
        """
        path = self._path(session_id)
        if files.size_of(path) is None:
            raise unknown_session(session_id, str(path.parent))
        self._home.require_own()
        try:
            with _told_of(session_id):
                file = _locked(path, wait_s)
        except FileNotFoundError:
            raise unknown_session(session_id, str(path.parent)) from None
        if file is None:
            raise held(session_id, holder_of(path))
        return FileSessionWriter(session_id, file)

    def read(self, session_id: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a range, without a lock. `UsageError` (`invalid_session_id`), `NotFound` (`unknown_session`)."""
        path = self._path(session_id)
        if files.size_of(path) is None:
            raise unknown_session(session_id, str(path.parent))
        return files.pieces(path, start, end)

    def size_bytes(self, session_id: str) -> int:
        """Length of the session now. `NotFound` (`unknown_session`)."""
        path = self._path(session_id)
        size = files.size_of(path)
        if size is None:
            raise unknown_session(session_id, str(path.parent))
        return size

    def locate(self, session_id: str) -> str:
        """The public path of the session."""
        return str(self._path(session_id))

    def _folder(self) -> Path:
        return files.below(self._root, "sessions")

    def _path(self, session_id: str) -> Path:
        return self._folder() / f"{check_id(session_id, 'session')}{_SUFFIX}"

    def _make(self) -> None:
        self._home.found()
        files.make_folder(self._folder())

    @contextmanager
    def _naming(self, session_id: str) -> Iterator[None]:
        """The moment in which a session gets its name, one at a time."""
        with Naming(self._folder()):
            require_free(session_id, self.ids())
            yield


class FileSessionWriter:
    """The one writer of a session file (`stores.base.SessionWriter`)."""

    def __init__(self, session_id: str, file: AppendFile) -> None:
        self.session_id = session_id
        self._file = file
        self._interrupted = False
        self._is_fresh = True

    @property
    def size_bytes(self) -> int:
        """Length of the session up to the last acknowledged change."""
        return self._file.size_bytes

    @property
    def poisoned(self) -> bool:
        """True after a failed or interrupted change, after `close`, and in a forked child."""
        return self._interrupted or self._file.poisoned

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a range; the first time what the device has, not what the cache shows."""
        self._require_sound()
        if self._is_fresh:
            self._file.forget_cache()
            self._is_fresh = False
        return self._file.pieces(start, end)

    def append(self, data: bytes) -> int:
        """One write and one sync. Returns where the lines begin, when they are durable.

        Raises:
            Storage: `session_replaced`, `disk_full`, `storage_denied`, `run_state_failed`,
                `durability_barrier_failed`, `fact_ledger_poisoned`. After each of them the writer is poisoned.
        """
        with self._changing():
            return self._file.append(data, check_path=True)

    def cut(self, at_byte: int) -> SetAside:
        """Take the end off; its bytes are kept first as `<id>.torn-<offset>-<digest>`."""
        with self._changing():
            data = b"".join(self._file.pieces(at_byte))
            sha256 = hashlib.sha256(data).hexdigest()
            name = f"{self.session_id}.torn-{at_byte}-{sha256[:12]}"
            files.publish(self._file.path.with_name(name), data)
            self._file.truncate(at_byte)
            return SetAside(name, len(data), sha256)

    def back_up(self, version: int) -> SetAside:
        """Keep all bytes as `<id>.jsonl.v<version>.backup`, byte for byte; equal ones that are there are taken.

        Raises:
            Refused: `session_migration_conflict`. Storage.
        """
        self._require_sound()
        path = self._file.path.with_name(f"{self._file.path.name}.v{version}.backup")
        sha256 = _digest(self.read())
        there = files.size_of(path) is not None
        if there or not keep_new(path, self._file.pieces(0)):
            if files.size_of(path) != self.size_bytes or _digest(files.pieces(path, 0)) != sha256:
                raise backup_differs(self.session_id, path.name)
            confirm(path)
        return SetAside(path.name, self.size_bytes, sha256)

    def renew(self, pieces: Iterable[bytes]) -> None:
        """Publish other bytes under the public name in one step, and go on with them.

        Raises:
            Storage: as `append`; `publish_failed`. The old bytes are there then, or all of the new.
        """
        self._require_sound()
        with _told_of(self.session_id):
            # It is the file that is poisoned where this fails: until then the pieces may come from it.
            self._file = renew(self._file, pieces)

    def close(self) -> None:
        """Let the lock go. Safe to call twice."""
        self._file.close()

    def _require_sound(self) -> None:
        if self.poisoned:
            raise poisoned(self.session_id)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Whatever is raised inside, an interrupt included, poisons this writer."""
        self._require_sound()
        self._interrupted = True
        with _told_of(self.session_id):
            yield
        self._interrupted = False


@contextmanager
def _told_of(session_id: str) -> Iterator[None]:
    """What the disk says of a journal is said of a session."""
    try:
        yield
    except Storage as error:
        if error.code != "journal_replaced":
            raise
        raise replaced(session_id, error.message) from error


def _locked(path: Path, wait_s: float) -> AppendFile | None:
    """The file that the path leads to, locked: while one waited, a migration may have put another one there."""
    for _ in range(_TRIES):
        try:
            return AppendFile.open(path, wait_s=wait_s)
        except Storage as error:
            if error.code != "journal_replaced":
                raise
    return AppendFile.open(path, wait_s=wait_s)


def _digest(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _is_id(name: str) -> bool:
    try:
        return bool(check_id(name, "session"))
    except UsageError:
        return False
