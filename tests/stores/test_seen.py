"""What a look remembers: files that did not change are not read again, and only those."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.core.checkpoint import PathState
from clew.stores import seen as seen_room
from clew.stores.blobs import FileBlobStore
from clew.stores.workspace import FileWorkspace
from tests.stores.plots import File, build, state_of

OLD_NS = 1_000_000_000_000_000_000


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose files are as old as they say: the time of change cannot be set back, so the rule is moved."""
    monkeypatch.setattr(seen_room, "SETTLED_NS", -(10**18))
    (tmp_path / "home").mkdir()
    build(tmp_path / "work", {"a": File(b"aaaa"), "b": File(b"bbbb")})
    return tmp_path / "work"


def look(work: Path) -> tuple[dict[str, PathState], list[str]]:
    """The manifest, and which files were opened for it."""
    opened: list[str] = []
    real = os.open

    def watched(path, flags, *args, **kwargs):
        opened.append(str(path))
        return real(path, flags, *args, **kwargs)

    os.open = watched
    try:
        home = work.parent / "home"
        found = FileWorkspace(work, home=home).cover(keep=FileBlobStore(home))
    finally:
        os.open = real
    return dict(found.manifest), [name for name in opened if name in ("a", "b")]


def test_a_file_that_did_not_change_is_not_read_again(work: Path) -> None:
    """The second look of 50,000 files takes a second, not ten."""
    first = look(work)

    second = look(work)

    assert (first[1], second) == (["a", "b"], (first[0], []))


def rewrite(path: Path) -> None:
    path.write_bytes(b"AAAA")


def rewrite_with_the_old_time(path: Path) -> None:
    times = path.stat()
    path.write_bytes(b"AAAA")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def exchange(path: Path) -> None:
    path.with_name("c").write_bytes(b"AAAA")
    path.with_name("c").rename(path)


@pytest.mark.parametrize("change", [rewrite, rewrite_with_the_old_time, exchange])
def test_a_file_that_changed_is_read(work: Path, change: Callable[[Path], None]) -> None:
    """Of the same length, with its old time, by another file: it is still not the old content."""
    look(work)
    change(work / "a")

    found, opened = look(work)

    assert (found["a"], opened) == (state_of(File(b"AAAA")), ["a"])


def test_a_file_that_is_too_young_is_not_believed(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one tick of the clock it can change once more and look the same."""
    monkeypatch.setattr(seen_room, "SETTLED_NS", 10**18)
    look(work)

    _, opened = look(work)

    assert opened == ["a", "b"]


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [spoil, lambda path: path.write_bytes(b""), lambda path: path.unlink()])
def test_a_memory_that_is_damaged_is_none(work: Path, damage: Callable[[Path], object]) -> None:
    """A wrong digest would make a restore believe in bytes that never were."""
    first, _ = look(work)
    damage(next((work.parent / "home" / "covers").iterdir()))

    found, opened = look(work)

    assert (found, opened) == (first, ["a", "b"])


def test_a_content_that_is_not_kept_any_more_is_read_and_kept_again(work: Path) -> None:
    """That it was seen is no reason not to have it: the blobs may have been pruned since."""
    look(work)
    for pack in (work.parent / "home" / "blobs" / "packs").iterdir():
        pack.unlink()

    found, opened = look(work)

    kept = FileBlobStore(work.parent / "home").get(found["a"].sha256 or "")
    assert (opened, kept) == (["a", "b"], b"aaaa")
