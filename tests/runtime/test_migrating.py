"""A session is migrated on disk: the copy first, one step, no loss, and a second time changes nothing."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from clew.core.session.reading import read_session
from clew.core.session.viewing import view
from clew.errors import ClewError, Corrupt, Held, Refused
from clew.runtime.migrating import Migration, migrate_session
from clew.stores.sessions.files import FileSessionStore, FileSessionWriter
from clew.stores.sessions.memory import MemorySessionStore

HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/x"}


def v3(*entries: dict[str, object], **header: object) -> bytes:
    lines: list[dict[str, object]] = [HEADER | header]
    parent = None
    for number, entry in enumerate(entries):
        lines.append({"id": f"e{number}", "parentId": parent, "timestamp": HEADER["timestamp"], **entry})
        parent = str(lines[-1]["id"])
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def said(text: str, role: str = "user") -> dict[str, object]:
    return {"type": "message", "message": {"role": role, "content": text, "timestamp": 1}}


TALK = v3(said("one"), said("two", "assistant"), {"type": "session_info", "name": "Title"}, said("three"))


class Place:
    """A home with one session, as a person finds it."""

    def __init__(self, root: Path, data: bytes = TALK) -> None:
        self.folder = root / ".clew" / "sessions"
        self.folder.mkdir(parents=True)
        self.public = self.folder / "s1.jsonl"
        self.public.write_bytes(data)
        self.store = FileSessionStore(root / ".clew")

    def all(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def migrate(self) -> Migration:
        return migrate_session(self.store, "s1")


def shown(data: bytes) -> list[tuple[str, object]]:
    return [(each.role, each.content) for each in view(read_session(data), lambda at, n: data[at : at + n]).messages]


def test_the_source_is_kept_byte_for_byte_and_the_view_is_the_same(tmp_path: Path) -> None:
    """#190 A person can always go back to what there was, and finds the same conversation in the new one."""
    place = Place(tmp_path)

    done = place.migrate()

    files = place.all()
    assert {"s1.jsonl", "s1.jsonl.v3.backup"} == set(files)
    assert (TALK, shown(TALK)) == (files["s1.jsonl.v3.backup"], shown(files["s1.jsonl"]))
    assert (True, "v3", sha256(TALK).hexdigest(), 3) == (
        done.migrated, done.source_format, done.source_sha256, done.view,
    )  # fmt: skip


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    """#190 A program that migrates whenever it opens must not touch what is migrated."""
    place = Place(tmp_path)
    place.migrate()
    before, stamp = place.all(), place.public.stat()

    done = place.migrate()

    after = place.public.stat()
    assert (before, (stamp.st_ino, stamp.st_mtime_ns)) == (place.all(), (after.st_ino, after.st_mtime_ns))
    assert (False, None) == (done.migrated, done.backup)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_backup_is_named_by_the_version_that_it_holds(tmp_path: Path, version: int) -> None:
    """Who looks for what there was finds it by its name."""
    data = v3(said("one"), version=version)
    if version == 1:
        header, entry = (json.loads(line) for line in data.splitlines())
        lines = [
            {k: v for k, v in header.items() if k != "version"},
            {k: entry[k] for k in ("type", "timestamp", "message")},
        ]
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    place = Place(tmp_path, data)

    done = place.migrate()

    assert (f"s1.jsonl.v{version}.backup", data) == (done.backup, place.all()[f"s1.jsonl.v{version}.backup"])


def test_what_the_new_one_says_of_its_source_is_true(tmp_path: Path) -> None:
    """C110 Whether a file was migrated, and from which bytes, stands in that file, and not in a mark beside it."""
    place = Place(tmp_path)
    place.migrate()

    marker = json.loads(place.public.read_bytes().split(b"\n", 1)[0])["metadata"]["coremindMigration"]

    wanted = {"sourceFormat": 3, "sourceSha256": sha256(TALK).hexdigest(), "complete": True}
    assert wanted | {"schemaVersion": 1, "backupFile": "s1.jsonl.v3.backup"} == marker


def test_a_source_that_came_back_longer_is_a_conflict(tmp_path: Path) -> None:
    """#195 C110 An old program that went on with it must not lose what was said there, nor the first backup."""
    place = Place(tmp_path)
    place.migrate()
    longer = TALK + v3(said("four")).splitlines(keepends=True)[1].replace(b'"e0"', b'"e9"')
    place.public.write_bytes(longer)
    before = place.all()

    with pytest.raises(Refused) as caught:
        place.migrate()

    assert ("session_migration_conflict", before) == (caught.value.code, place.all())


def test_a_try_that_broke_off_behind_the_backup_is_done_again(tmp_path: Path) -> None:
    """#191 An equal backup is that of an earlier try."""
    place = Place(tmp_path)
    (place.folder / "s1.jsonl.v3.backup").write_bytes(TALK)

    done = place.migrate()

    assert (True, shown(TALK)) == (done.migrated, shown(place.public.read_bytes()))


BROKEN: list[tuple[bytes, type[ClewError], str]] = [
    (b"not a session\n", Corrupt, "session_migration_invalid"),
    (b"", Corrupt, "session_migration_invalid"),
    (TALK[:-9], Corrupt, "session_migration_invalid"),
    (TALK.replace(b'"e1"', b'"e0"', 1), Corrupt, "session_migration_invalid"),
    (v3(said("one"), id="other"), Corrupt, "session_migration_invalid"),
    (v3(said("one"), timestamp="yesterday"), Corrupt, "session_migration_invalid"),
    (v3(said("one"), version=9), Refused, "session_migration_unsupported"),
    (v3(said("one"), {"type": "hologram"}), Refused, "session_migration_unsupported"),
    (
        v3(said("one"), {"type": "compaction", "summary": "s", "firstKeptEntryId": "gone", "tokensBefore": 1}),
        Corrupt,
        "session_migration_invalid",
    ),
]


@pytest.mark.parametrize(("data", "family", "code"), BROKEN)
def test_what_cannot_be_migrated_is_left_as_it_is(
    tmp_path: Path, data: bytes, family: type[ClewError], code: str
) -> None:
    """#192 #193 #194 Nothing is overwritten, and no copy of it is left about."""
    place = Place(tmp_path, data)

    with pytest.raises(family) as caught:
        place.migrate()

    assert (code, {"s1.jsonl": data}) == (caught.value.code, place.all())


def test_bytes_that_are_no_text_are_kept_and_refused(tmp_path: Path) -> None:
    """A decoder that replaces them would migrate another conversation."""
    data = TALK.replace(b"two", b"t\xffo")
    place = Place(tmp_path, data)

    with pytest.raises(Corrupt, match="UTF-8"):
        place.migrate()

    assert {"s1.jsonl": data} == place.all()


def test_a_byte_order_mark_is_in_the_backup(tmp_path: Path) -> None:
    """The backup has every byte, the new one only what belongs there."""
    place = Place(tmp_path, b"\xef\xbb\xbf" + TALK)

    place.migrate()

    files = place.all()
    assert (b"\xef\xbb\xbf" + TALK, b'{"kind"') == (files["s1.jsonl.v3.backup"], files["s1.jsonl"][:7])


def test_a_session_that_is_being_written_is_not_migrated(tmp_path: Path) -> None:
    """Its writer would go on with a file that nobody sees any more."""
    place = Place(tmp_path)
    writer = place.store.open("s1")

    with pytest.raises(Held, match="is being written by process"):
        migrate_session(_impatient(place.store), "s1")

    writer.close()
    assert {"s1.jsonl": TALK} == place.all()


def _impatient(store: FileSessionStore) -> FileSessionStore:
    """A store that waits for nobody."""

    class Impatient(FileSessionStore):
        def __init__(self) -> None:
            vars(self).update(vars(store))

        def open(self, session_id: str, *, wait_s: float = 2.0) -> FileSessionWriter:
            return super().open(session_id, wait_s=0.0)

    return Impatient()


def test_a_session_in_memory_migrates_in_the_same_way() -> None:
    """One rule for every store."""
    store = MemorySessionStore()
    store.implant("s1", TALK)

    done = migrate_session(store, "s1")

    assert (True, TALK, shown(TALK)) == (done.migrated, store.kept["s1.jsonl.v3.backup"], shown(store.raw("s1")))


@pytest.mark.parametrize(("deed", "published"), [("back_up", False), ("renew", True)])
def test_bytes_that_change_under_a_migration_are_found(
    tmp_path: Path, deed: str, published: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that writes without the lock, a device that gives back other bytes: never said to have gone well."""
    place, real = Place(tmp_path), getattr(FileSessionWriter, deed)

    def meets(writer: FileSessionWriter, *given: Any) -> Any:
        if deed == "back_up":
            _spoil(place.public)
            return real(writer, *given)
        real(writer, *given)
        return _spoil(place.public)

    monkeypatch.setattr(FileSessionWriter, deed, meets)

    with pytest.raises(Refused) as refused:
        place.migrate()

    assert "session_migration_failed" == refused.value.code
    assert published == (place.all()["s1.jsonl.v3.backup"] == TALK)


def _spoil(path: Path) -> None:
    """Another letter in the last message, the length as before."""
    with path.open("r+b") as file:
        at = path.read_bytes().rindex(b"three")
        file.seek(at)
        file.write(b"T")
