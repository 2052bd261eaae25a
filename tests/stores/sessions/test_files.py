"""Sessions as files: their public path, their neighbours, what a migration beside an opener does. The rest: the kit."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.disk.append import AppendFile, birth
from clew.errors import ClewError, NotFound, Refused, Storage
from clew.stores.sessions import files as room
from clew.stores.sessions.files import FileSessionStore
from clew.testing.sessionlab import SESSION, header, line, read_all


@pytest.fixture
def store(tmp_path: Path) -> FileSessionStore:
    return FileSessionStore(tmp_path / ".clew")


def test_the_public_path_is_the_file(store: FileSessionStore, tmp_path: Path) -> None:
    """#180 It is there from the first moment, under the name that every program knows, for this user alone."""
    store.create(SESSION, header()).close()

    path = tmp_path / ".clew" / "sessions" / "s1.jsonl"
    assert (header(), str(path)) == (path.read_bytes(), store.locate(SESSION))
    assert sys.platform == "win32" or (path.stat().st_mode & 0o777, path.stat().st_nlink) == (0o600, 1)


def test_making_a_store_touches_nothing(store: FileSessionStore, tmp_path: Path) -> None:
    """A program that only looks leaves no home behind."""
    assert ([], []) == (store.ids(), list(tmp_path.iterdir()))


def test_what_is_no_session_is_not_listed(store: FileSessionStore, tmp_path: Path) -> None:
    """Backups, cut ends, temp files and strange names lie in the same folder."""
    store.create(SESSION, header()).close()
    for name in ("s1.jsonl.v3.backup", "s1.torn-9-0123456789ab", ".s1.jsonl.1-1.tmp", "a b.jsonl", "notes.txt"):
        (tmp_path / ".clew" / "sessions" / name).write_bytes(b"x")

    assert [SESSION] == store.ids()


def test_a_link_in_the_place_of_a_session_is_refused(store: FileSessionStore, tmp_path: Path) -> None:
    """It could lead a write anywhere."""
    store.create("s2", header("s2")).close()
    outside = tmp_path / "outside"
    outside.write_bytes(header())
    (tmp_path / ".clew" / "sessions" / "s1.jsonl").symlink_to(outside)

    for deed in (lambda: store.open(SESSION), lambda: read_all(store), lambda: store.create(SESSION, header())):
        with pytest.raises(Refused, match="is a link"):
            deed()

    assert header() == outside.read_bytes()


def test_a_session_that_grew_under_its_writer_stops_it(store: FileSessionStore) -> None:
    """What another program appended without the lock may be half a line."""
    writer = store.create(SESSION, header())
    with Path(store.locate(SESSION)).open("ab") as file:
        file.write(b'{"kind"')

    with pytest.raises(Storage) as caught:
        writer.append(line(1))
    writer.close()

    assert ("session_replaced", header() + b'{"kind"') == (caught.value.code, read_all(store))


def test_a_session_that_was_moved_aside_and_put_back_as_a_copy_stops_its_writer(store: FileSessionStore) -> None:
    """#188 The file that is open is still there, under another name, and nobody would see what goes into it."""
    writer = store.create(SESSION, header())
    path = Path(store.locate(SESSION))
    path.rename(path.with_suffix(".old"))
    path.write_bytes(header())

    with pytest.raises(Storage) as caught:
        writer.append(line(1))
    writer.close()

    assert ("session_replaced", header(), header()) == (
        caught.value.code, path.read_bytes(), path.with_suffix(".old").read_bytes(),
    )  # fmt: skip


def test_a_copied_home_writes_no_session(store: FileSessionStore, tmp_path: Path) -> None:
    """The original goes on writing the same conversation, and both would claim it."""
    store.create(SESSION, header()).close()
    copy = tmp_path / "copy" / ".clew"
    (copy / "sessions").mkdir(parents=True)
    for name in ("home.json", "sessions/s1.jsonl"):
        (copy / name).write_bytes((tmp_path / ".clew" / name).read_bytes())

    with pytest.raises(Refused) as caught:
        FileSessionStore(copy).open(SESSION)

    assert ("home_copied", header()) == (caught.value.code, read_all(FileSessionStore(copy)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_write(store: FileSessionStore) -> None:
    """Two processes with one descriptor have one lock, and would both append."""
    writer = store.create(SESSION, header())
    child = os.fork()
    if child == 0:
        os._exit(7 if writer.poisoned else 0)

    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    writer.append(line(1))
    writer.close()
    assert (7, header() + line(1)) == (code, read_all(store))


def test_a_backup_that_is_there_is_made_sure_of(store: FileSessionStore, tmp_path: Path) -> None:
    """Who made it may have died before its name was on the device; a migration must not build on that."""
    writer = store.create(SESSION, header())
    (tmp_path / ".clew" / "sessions" / "s1.jsonl.v3.backup").write_bytes(header())
    synced: list[str] = []

    def watch(frame: object, event: str, called: object) -> None:
        if event == "c_call" and getattr(called, "__name__", "") == "fsync":
            synced.append("fsync")

    sys.setprofile(watch)
    try:
        writer.back_up(3)
    finally:
        sys.setprofile(None)
    writer.close()

    assert len(synced) >= 2


def test_a_session_that_went_away_is_unknown(store: FileSessionStore) -> None:
    """Nothing is made by asking for it, at any door."""
    store.create(SESSION, header()).close()
    Path(store.locate(SESSION)).unlink()

    for deed in (lambda: store.open(SESSION), lambda: read_all(store), lambda: store.size_bytes(SESSION)):
        with pytest.raises(NotFound, match="there is no session 's1'"):
            deed()


# Between a look and what rests on it.


def test_a_session_that_came_behind_the_look_is_not_replaced(
    store: FileSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process began the same conversation between our look and our birth."""

    def late(path: Path, data: bytes, naming: Any) -> AppendFile:
        with naming:
            path.write_bytes(b"theirs")
        return birth(path, data)

    monkeypatch.setattr(room, "birth", late)

    with pytest.raises(Refused) as refused:
        store.create(SESSION, header())

    assert ("session_id_conflict", b"theirs") == (refused.value.code, read_all(store))


@pytest.mark.parametrize("change", ["removed", "denied", "always another"])
def test_what_happens_behind_the_look_is_told_of_the_session(
    store: FileSessionStore, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed is unknown, denied is denied; and one that is another file each time is not tried for ever."""
    store.create(SESSION, header()).close()
    path, opened, tries = Path(store.locate(SESSION)), AppendFile.open, list[Path]()

    def late(path: Path, *, wait_s: float) -> AppendFile | None:
        tries.append(path)
        if change == "removed":
            path.unlink()
        elif change == "denied":
            raise Storage("denied", code="storage_denied", next="Ask.")
        else:
            raise Storage("it is another file than the one that is open", code="journal_replaced", next="Look.")
        return opened(path, wait_s=wait_s)

    monkeypatch.setattr(AppendFile, "open", late)

    with pytest.raises(ClewError) as refused:
        store.open(SESSION)

    wanted = {
        "removed": ("unknown_session", 1),
        "denied": ("storage_denied", 1),
        "always another": ("session_replaced", 6),
    }
    assert wanted[change] == (refused.value.code, len(tries))
    assert (change == "removed") != path.exists()
