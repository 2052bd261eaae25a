"""Many blobs in one file: found by digest, whole or not at all."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.stores.blobs import FileBlobStore
from clew.stores.packs import PackFile, open_pack

CONTENTS = st.lists(st.binary(max_size=300) | st.integers(1, 9).map(lambda n: bytes([n]) * 5000), max_size=12)


def packed(root: Path, contents: list[bytes]) -> Path:
    """The one pack of these contents."""
    with FileBlobStore(root).pack() as pack:
        for data in contents:
            pack.keep([data])
    return next((root / "blobs" / "packs").iterdir())


@settings(max_examples=40, deadline=None)
@given(CONTENTS)
def test_every_content_of_a_pack_is_found(tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]) -> None:
    """By a store that did not write it."""
    root = tmp_path_factory.mktemp("home")
    with FileBlobStore(root).pack() as pack:
        kept = [pack.keep([data]).sha256 for data in contents]

    found = [FileBlobStore(root).get(digest) for digest in kept]

    assert found == contents


def test_equal_contents_lie_in_it_once(tmp_path: Path) -> None:
    """A tree of copies costs one of them."""
    path = packed(tmp_path, [b"x" * 3000, b"y", b"x" * 3000])

    found = sorted(place.size_bytes for place in PackFile(path).places())

    assert found == [1, 3000]


def test_what_is_kept_already_is_not_packed_again(tmp_path: Path) -> None:
    """The second look over a workspace costs nothing where nothing changed: no pack is made at all."""
    store = FileBlobStore(tmp_path)
    store.put(b"alone")
    packed(tmp_path, [b"in a pack"])

    with store.pack() as pack:
        pack.keep([b"alone"])
        pack.keep([b"in a pack"])

    assert len(os.listdir(tmp_path / "blobs" / "packs")) == 1


def test_a_long_content_goes_through_in_pieces_and_is_given_up_without_a_trace(tmp_path: Path) -> None:
    """A file that changed while it was read is read again: its first bytes must not stay in the pack."""
    store = FileBlobStore(tmp_path)
    piece = os.urandom(1 << 20)

    def broken() -> Iterator[bytes]:
        yield piece
        yield piece
        raise InterruptedError

    with store.pack() as pack:
        pack.keep([b"before"])
        with pytest.raises(InterruptedError):
            pack.keep(broken())
        long = pack.keep([piece, piece, b"end"]).sha256
        again = pack.keep([piece, piece, b"end"]).sha256
        after = pack.keep([b"after"]).sha256
    path = next((tmp_path / "blobs" / "packs").iterdir())

    found = [hashlib.sha256(store.get(digest)).hexdigest() for digest in (long, again, after)]

    assert (found, path.stat().st_size < 2_200_000) == ([long, again, after], True)


def test_a_block_that_raises_keeps_nothing(tmp_path: Path) -> None:
    """Nobody was promised anything."""
    store = FileBlobStore(tmp_path)

    def fail() -> None:
        with store.pack() as pack:
            pack.keep([b"x" * (3 << 20)])
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()

    assert ([*(tmp_path / "blobs" / "packs").iterdir()], store.digests()) == ([], frozenset())


def test_a_pack_is_for_its_owner_alone(tmp_path: Path) -> None:
    """The contents of a 0600 file lie in it."""
    path = packed(tmp_path, [b"secret"])

    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_flip_at_any_byte_is_never_handed_out(tmp_path: Path) -> None:
    """Every content is whole or refused, whatever byte of the pack is damaged."""
    contents = [b"one", b"two two two " * 20, b"three"]
    path = packed(tmp_path, contents)
    whole = path.read_bytes()
    digests = [hashlib.sha256(data).hexdigest() for data in contents]
    wrong = []

    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        store = FileBlobStore(tmp_path)
        for digest, data in zip(digests, contents, strict=True):
            if store.has(digest) and store.get(digest) != data:
                wrong.append((at, digest))

    assert wrong == []


@pytest.mark.parametrize("data", [b"", b"clew-pack 1\n", b"x" * 200, bytes(100) + b"\xff" * 40 + b"clewpack"])
def test_what_is_no_pack_is_no_pack(tmp_path: Path, data: bytes) -> None:
    """It may be cut by a power cut on a disk that lies."""
    (tmp_path / "x.pack").write_bytes(data)

    found = open_pack(tmp_path / "x.pack")

    assert found is None
