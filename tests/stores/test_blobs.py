"""Blobs as files: one name, one content, checked whenever it is read."""

import hashlib
import itertools
import os
import shutil
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from clew.errors import Corrupt, Refused, Storage
from clew.stores.blobs import FileBlobStore
from clew.stores.squeezed import MAGIC
from clew.stores.workspace import FileWorkspace
from tests.stores.dying import die_at, quick_folder
from tests.stores.plots import File, Tree, build

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


def test_a_blob_in_a_damaged_pack_is_corrupt_and_not_missing(blobs: FileBlobStore, tmp_path: Path) -> None:
    """Who looks for it must hear which file to bring back."""
    with blobs.pack() as pack:
        pack.keep([b"answer"])
    pack_path = next((tmp_path / "blobs" / "packs").iterdir())
    pack_path.write_bytes(pack_path.read_bytes()[:-1])

    with pytest.raises(Corrupt) as caught:
        FileBlobStore(tmp_path).get(DIGEST)

    assert (caught.value.code, str(pack_path) in caught.value.message) == ("blob_corrupt", True)


def test_a_pack_of_another_process_is_seen(blobs: FileBlobStore, tmp_path: Path) -> None:
    """Two processes work in one home."""
    before = blobs.has(DIGEST)
    with FileBlobStore(tmp_path).pack() as pack:
        pack.keep([b"answer"])

    assert (before, blobs.has(DIGEST), blobs.get(DIGEST), set(blobs.digests())) == (False, True, b"answer", {DIGEST})


def test_keeping_bytes_again_heals_a_damaged_pack(blobs: FileBlobStore, tmp_path: Path) -> None:
    """What is there is not believed by its name."""
    with blobs.pack() as pack:
        pack.keep([b"answer"])
    pack_path = next((tmp_path / "blobs" / "packs").iterdir())
    pack_path.write_bytes(pack_path.read_bytes().replace(b"answer", b"Answer"))

    with blobs.pack() as pack:
        pack.keep([b"answer"])

    assert FileBlobStore(tmp_path).get(DIGEST) == b"answer"


def test_a_blob_that_did_not_change_is_not_read_again(blobs: FileBlobStore, path: Path) -> None:
    """A run asks for each of its answers at each look; a gigabyte must not be read each time."""
    blobs.put(b"x" * 100_000)
    digest = hashlib.sha256(b"x" * 100_000).hexdigest()
    blobs.has(digest)

    read = reads_during(lambda: blobs.has(digest))

    assert read == 0


def reads_during(deed) -> int:
    count = 0

    def look(event: str, args: tuple) -> None:
        nonlocal count
        count += watching[0] and event == "open"

    watching = [True]
    sys.addaudithook(look)
    deed()
    watching[0] = False
    return count


def test_long_content_is_kept_piece_by_piece(blobs: FileBlobStore) -> None:
    """1 GiB in as much memory as 32 MiB."""
    piece = b"a line of a log\n" * (1 << 16)
    tracemalloc.start()

    kept = blobs.keep(piece for _ in range(32))
    size = sum(len(piece) for piece in blobs.pieces(kept.sha256))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (kept.size_bytes, size, peak < 16 << 20) == (32 << 20, 32 << 20, True)


def test_what_the_pieces_raise_comes_out_and_nothing_is_kept(blobs: FileBlobStore, tmp_path: Path) -> None:
    """A file that changed while it was read is no blob."""

    def broken() -> Iterator[bytes]:
        yield b"x" * (5 << 20)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        blobs.keep(broken())

    assert ([path for path in tmp_path.rglob("*") if path.is_file()], blobs.digests()) == ([], frozenset())


@pytest.mark.parametrize(
    "content",
    [
        MAGIC + b"zlib\n" + b"an old log of ours\n" * 9,
        MAGIC + b"zlib\n" + zlib.compress(b"x" * 9000),
        MAGIC + b"plain\n" + b"y" * 5000,
        MAGIC + b"something\n",
        MAGIC + b"plain\n" + b"longer than a piece\n" * 80_000,
        MAGIC,
    ],
)
def test_a_blob_of_before_is_its_content_whatever_it_begins_with(
    blobs: FileBlobStore, path: Path, content: bytes
) -> None:
    """It was kept when no blob had a first line of ours: its name, which is the digest of the file, says so."""
    digest = hashlib.sha256(content).hexdigest()
    old = path.parents[1] / digest[:2] / digest
    old.parent.mkdir(parents=True, exist_ok=True)
    old.write_bytes(content)

    assert (content, True, digest) == (blobs.get(digest), blobs.has(digest), blobs.put(content))


def test_text_is_stored_in_fewer_bytes_and_comes_back(blobs: FileBlobStore, tmp_path: Path) -> None:
    """A checkpoint of a large file that is edited 200 times must not cost 200 times its size."""
    data = b"".join(b"line %d of a file\n" % at for at in range(10_000))

    digest = blobs.put(data)

    stored = (tmp_path / "blobs" / digest[:2] / digest).stat().st_size
    assert (blobs.get(digest) == data, blobs.has(digest), stored < len(data) / 3) == (True, True, True)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("paths", [["text"], ["text", "noise", "long"]])
def test_killed_at_any_operation_of_keeping_no_name_lies(paths: list[str], half: bool) -> None:
    """What stands under a digest is that content, and the next try keeps all of it."""
    tree: Tree = {"text": File(b"line\n" * 5000), "noise": File(os.urandom(5000)), "long": File(os.urandom(5 << 20))}
    wrong = []
    with quick_folder() as folder:
        build(folder / "work", tree)
        workspace = FileWorkspace(folder / "work")
        for point in itertools.count(1):
            home = folder / f"home{point}"
            home.mkdir()
            store = FileBlobStore(home)
            died = die_at(point, partial(workspace.stand, paths, keep=store), half=half)
            wrong += [f"{point}: {digest}" for digest in store.digests() if not store.has(digest)]
            found = workspace.stand(paths, keep=store)
            kept = {path: FileBlobStore(home).get(found[path].sha256 or "") for path in paths}
            wrong += [f"{point}: {path}" for path in paths if kept[path] != tree[path]]
            shutil.rmtree(home)
            if not died:
                break

    assert (wrong, point > 5) == ([], True)


def test_what_another_process_named_is_durable_before_it_is_promised(blobs: FileBlobStore, tmp_path: Path) -> None:
    """It may have died before it synced the name: a power cut would take the content that we built on."""
    FileBlobStore(tmp_path).put(b"answer")
    syncs = []

    def sync(fd: int) -> None:
        syncs.append(os.readlink(f"/proc/self/fd/{fd}"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        blobs.put(b"answer")
        blobs.put(b"answer")

    assert syncs == [str(tmp_path / "blobs" / DIGEST[:2])]


def test_long_content_that_is_there_is_not_kept_a_second_time(blobs: FileBlobStore, tmp_path: Path) -> None:
    """200 checkpoints of one video must not take the room of 200."""
    pieces = [b"a line of a log\n" * (1 << 16)] * 5
    first = blobs.keep(pieces)
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*") if path.is_file()}

    again = blobs.keep(pieces)

    assert first == again
    assert before == {path: path.stat().st_ino for path in tmp_path.rglob("*") if path.is_file()}


def test_what_is_remembered_has_a_bound(blobs: FileBlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lives for months meets millions of contents."""
    monkeypatch.setattr("clew.stores.blobs._REMEMBERED", 2)
    digests = [blobs.put(bytes([number])) for number in range(9)]

    found = [blobs.has(digest) for digest in digests]

    assert ([True] * 9, True) == (found, len(blobs._whole) <= 2)
