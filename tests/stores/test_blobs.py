"""Blobs as files: one name, one content, checked whenever it is read."""

import hashlib
import tracemalloc
from pathlib import Path

import pytest

from clew.errors import Corrupt, Refused, Storage
from clew.stores.blobs import FileBlobStore

DIGEST = hashlib.sha256(b"answer").hexdigest()


@pytest.fixture
def blobs(tmp_path: Path) -> FileBlobStore:
    return FileBlobStore(tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "blobs" / DIGEST[:2] / DIGEST


def test_a_blob_lies_under_its_digest(blobs: FileBlobStore, path: Path) -> None:
    """Anyone can find and check it without clew."""
    digest = blobs.put(b"answer")

    assert (digest, path.read_bytes(), path.stat().st_mode & 0o777) == (DIGEST, b"answer", 0o600)


def test_a_blob_is_written_once(blobs: FileBlobStore, path: Path) -> None:
    """Shared content is not paid for again."""
    blobs.put(b"answer")
    before = path.stat()

    blobs.put(b"answer")

    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_damaged_bytes_are_never_handed_out(blobs: FileBlobStore, path: Path) -> None:
    """An answer that is replayed must be the one that was told."""
    blobs.put(b"answer")
    path.write_bytes(b"Answer")

    with pytest.raises(Corrupt) as caught:
        blobs.get(DIGEST)

    assert (caught.value.code, blobs.has(DIGEST)) == ("blob_corrupt", False)


def test_keeping_bytes_again_heals_a_damaged_blob(blobs: FileBlobStore, path: Path) -> None:
    """The name says what belongs there, and here it is."""
    blobs.put(b"answer")
    path.write_bytes(b"Answer")

    blobs.put(b"answer")

    assert blobs.get(DIGEST) == b"answer"


def test_what_cannot_be_kept_is_a_typed_refusal(blobs: FileBlobStore, tmp_path: Path) -> None:
    """The fact that an effect happened is then recorded without its large answer."""
    (tmp_path / "blobs").write_bytes(b"a file where the folder should be")

    with pytest.raises(Storage):
        blobs.put(b"answer")


def test_a_linked_blob_is_refused(blobs: FileBlobStore, path: Path, tmp_path: Path) -> None:
    """Nothing below the home may be one."""
    path.parent.mkdir(parents=True)
    path.symlink_to("/etc/hostname")

    with pytest.raises(Refused):
        blobs.get(DIGEST)


def test_looking_whether_a_blob_is_whole_does_not_load_it(blobs: FileBlobStore) -> None:
    """`clew verify` looks at each of them, and one may be longer than the memory (C22)."""
    digest = blobs.put(b"x" * (24 << 20))
    tracemalloc.start()
    try:
        whole = blobs.has(digest)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (True, True) == (whole, peak < 4 << 20)
