"""A migration is struck at each of its file operations, in a real process: nothing is lost and the next run goes on."""

import json
from pathlib import Path

import pytest

from clew.runtime.migrating import migrate_session
from clew.stores.sessions.files import FileSessionStore
from tests.contract.struck import Strike, calls_of, every, needs_strace, strikes, struck

pytestmark = needs_strace

STAMP = "2026-01-01T00:00:00.000Z"


def source() -> bytes:
    """A conversation of version 3 with a branch, a label, a title and a compaction that keeps a part."""
    lines: list[dict[str, object]] = [{"type": "session", "version": 3, "id": "s1", "timestamp": STAMP, "cwd": "/x"}]
    parents = [None, "e0", "e1", "e0", "e3", "e4", "e5"]
    for number, parent in enumerate(parents):
        entry: dict[str, object] = {"type": "message", "message": {"role": "user", "content": f"line {number} é"}}
        if number == 4:
            entry = {"type": "label", "targetId": "e1", "label": "here"}
        if number == 5:
            entry = {"type": "compaction", "summary": "short", "firstKeptEntryId": "e3", "tokensBefore": 9}
        lines.append({"id": f"e{number}", "parentId": parent, "timestamp": STAMP, **entry})
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


class Town:
    """A home with one old session, made anew for each strike."""

    def __init__(self, root: Path) -> None:
        self.sessions = root / ".clew" / "sessions"
        self.sessions.mkdir(parents=True)
        self.public = self.sessions / "s1.jsonl"
        self.backup = self.sessions / "s1.jsonl.v3.backup"
        self.public.write_bytes(source())
        self.store = FileSessionStore(root / ".clew")

    def migrate(self) -> None:
        migrate_session(self.store, "s1")

    def temps(self) -> list[str]:
        return [path.name for path in self.sessions.iterdir() if path.name.endswith(".tmp")]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a migration that nothing strikes makes of it."""
    town = Town(tmp_path_factory.mktemp("whole"))
    town.migrate()
    return town.public.read_bytes()


def suffer(root: Path, strike: Strike, wanted: bytes) -> str:
    """One strike, and what is wrong with what it leaves; empty when nothing is."""
    town, old = Town(root), source()
    code = struck(town.migrate, strike)
    public = town.public.read_bytes() if town.public.exists() else None
    backup = town.backup.read_bytes() if town.backup.exists() else None
    if public not in (old, wanted):
        return f"{strike}: the public file is neither the source nor the new one"
    if backup not in (None, old) or (public == wanted and backup is None):
        return f"{strike}: the backup is not the source"
    if code == 0 and public != wanted:
        return f"{strike}: it said that it was done"
    if strike.how != "kill" and strike.call not in ("unlink", "close") and town.temps():
        return f"{strike}: it left {town.temps()} behind"
    town.migrate()
    if (town.public.read_bytes(), town.backup.read_bytes()) != (wanted, old):
        return f"{strike}: the next run does not converge"
    stamp = town.public.stat()
    town.migrate()
    if town.public.stat() != stamp:
        return f"{strike}: a further run changes something"
    return ""


def sweep(root: Path, wanted: bytes, step: int) -> tuple[int, list[str]]:
    found = strikes(Town(root / "count").migrate)
    chosen = found if step == 1 else [*every(found, step)]
    wrong = [suffer(root / str(number), strike, wanted) for number, strike in enumerate(chosen)]
    return len(chosen), [each for each in wrong if each]


def test_a_migration_makes_the_copy_before_it_changes_the_name(tmp_path: Path) -> None:
    """#191 #196 Both are given their names in one step each, and the copy is on the device before."""
    town = Town(tmp_path)

    calls = calls_of(town.migrate, ("fsync", "rename", "renameat2", "link", "unlink"))

    names = [call for call in calls if call not in ("fsync", "unlink")]
    first = calls.index(names[0])
    assert (2, "rename") == (len(names), names[1])
    assert "fsync" in calls[:first]
    assert "fsync" in calls[first : calls.index("rename", first + 1)]
    assert "unlink" not in calls


def test_a_migration_that_is_struck_at_every_tenth_place_loses_nothing(tmp_path: Path, wanted: bytes) -> None:
    """#191 #198 Killed, out of space, refused or denied: the source or the whole new one is there, and it goes on."""
    count, wrong = sweep(tmp_path, wanted, 10)

    assert ([], True) == (wrong, count >= 8)


@pytest.mark.crash
def test_a_migration_that_is_struck_at_any_place_loses_nothing(tmp_path: Path, wanted: bytes) -> None:
    """#191 #198 The same at each of them."""
    count, wrong = sweep(tmp_path, wanted, 1)

    assert ([], True) == (wrong, count >= 100)
