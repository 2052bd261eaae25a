"""What lies under a home."""

import os
import stat
from pathlib import Path

import pytest

from clew.disk.volume import too_open, undone, volume_of


def test_a_real_folder_has_room_and_a_kind(tmp_path: Path) -> None:
    """The doctor goes by this."""
    found = volume_of(tmp_path)

    assert found.kind not in ("", "unknown")
    assert 0 < (found.free_bytes or 0) <= (found.total_bytes or 0)


def test_looking_writes_nothing(tmp_path: Path) -> None:
    """A doctor that tries whether it may write leaves something behind when it dies."""
    before = tmp_path.stat().st_mtime_ns
    found = volume_of(tmp_path)

    assert (True, before, []) == (found.writable, tmp_path.stat().st_mtime_ns, os.listdir(tmp_path))


def test_a_folder_that_is_not_there_has_no_numbers(tmp_path: Path) -> None:
    """A number that nobody told would be a guess."""
    found = volume_of(tmp_path / "gone")

    assert (None, None, None, None, False) == (
        found.free_bytes, found.total_bytes, found.free_inodes, found.total_inodes, found.writable,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("loaded", "names"),
    [
        ("/usr/lib/x86_64-linux-gnu/libeatmydata.so.1.3.0", ("eatmydata",)),
        ("libnosync.so:libeatmydata.so", ("eatmydata", "nosync")),
        ("/usr/lib/libc.so.6", ()),
    ],
)
def test_a_library_that_undoes_a_sync_is_seen(loaded: str, names: tuple[str, ...]) -> None:
    """It is put there to make builds fast, and inherited by everything that the build starts."""
    assert names == undone(loaded)


def test_a_library_that_was_preloaded_is_seen_in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable is what a child would inherit, even where this process was started without it."""
    monkeypatch.setenv("LD_PRELOAD", "libeatmydata.so")

    assert ("eatmydata",) == volume_of(tmp_path).undone


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps permissions elsewhere")
@pytest.mark.parametrize(("mode", "is_open"), [(0o600, False), (0o700, False), (0o640, True), (0o701, True)])
def test_what_others_may_open_is_too_open(mode: int, is_open: bool) -> None:
    """Arguments and answers stand in the journals."""
    assert is_open is too_open(stat.S_IFREG | mode)
