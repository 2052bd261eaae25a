"""Bytes by their SHA-256, written once and shared: a file each, or many in a pack. Who needs them is not known here."""

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

from clew.disk import files
from clew.disk.draft import Draft, standing
from clew.errors import ClewError, Corrupt, NotFound
from clew.stores import squeezed
from clew.stores.base.kept import BlobPack, Kept
from clew.stores.packs import FOLDER, SUFFIX, Counting, PackFile, PackWriter, Place, head_of, open_pack
from clew.stores.refusals import blob_missing, corrupt_file

_DIGEST = re.compile(r"[0-9a-f]{64}")
# As much is held at once; what is longer goes through a draft.
_HELD: Final = 4 << 20
_REMEMBERED: Final = 100_000


class FileBlobStore:
    """`blobs/ab/<sha256>` below a home, and packs in `blobs/packs`. Safe for any number of processes.

    Equal names have equal content. A file holds the content as it is, or a line that says `clew-blob 1 zlib` and the
    compressed content behind it; the name is always the digest of the content. Where it is that of the file, there is
    no such line, whatever the content begins with: that is how blobs lay before.

    Source:
        DESIGN §4, §5 stage 7, §7.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._packs: dict[str, PackFile | None] = {}
        self._listed: tuple[int, ...] = ()
        self._whole: dict[str, tuple[object, ...]] = {}
        self._settled = set[Path]()

    def put(self, data: bytes) -> str:
        """Keep bytes durably. Bytes that are there already are read and compared, not believed.

        Raises:
            Storage: they cannot be kept; nothing half-written is left.
        """
        digest = hashlib.sha256(data).hexdigest()
        if not self._is_kept(digest):
            path = self._path(digest)
            self._folder(path.parent.name)
            files.publish(path, b"".join(squeezed.framed((data,), data, fast=len(data) > _HELD)))
            self._settled.add(path)
        return digest

    def keep(self, pieces: Iterable[bytes]) -> Kept:
        """As `put`, piece by piece."""
        rest = iter(pieces)
        head = head_of(rest, _HELD)
        if len(head) < _HELD:
            return Kept(self.put(head), len(head))
        counting = Counting(chain((head,), rest))
        with Draft(self._folder(FOLDER)) as draft:
            for piece in squeezed.framed(counting, head, fast=True):
                draft.write(piece)
            kept = counting.kept()
            if not self._is_kept(kept.sha256):
                path = self._path(kept.sha256)
                self._folder(path.parent.name)
                draft.publish(path)
                self._settled.add(path)
        return kept

    @contextmanager
    def pack(self) -> Iterator[BlobPack]:
        """A block in which many blobs are taken; all are durable at its end, by one sync, or none is kept."""
        known = self.digests()
        writer = PackWriter(self._folder(FOLDER), lambda digest: digest in known and self._is_kept(digest))
        try:
            yield writer
            if len(writer):
                writer.publish()
        finally:
            writer.discard()

    def get(self, sha256: str) -> bytes:
        """The bytes of a digest.

        Raises:
            NotFound: `blob_missing`.
            Corrupt: `blob_corrupt` when they have another digest.
        """
        return b"".join(self.pieces(sha256))

    def pieces(self, sha256: str) -> Iterator[bytes]:
        """The bytes of a digest, piece by piece; that they are corrupt may be said behind the last one."""
        path, place = self._find(sha256)
        counting = Counting(self._content(path, place, sha256))
        try:
            yield from counting
        except ValueError as fault:
            raise corrupt_file(str(path), "blob_corrupt", f"the blob {sha256}: {fault}") from None
        found = counting.kept()
        if found.sha256 != sha256:
            why = f"its {found.size_bytes} bytes have the digest {found.sha256}"
            raise corrupt_file(str(path), "blob_corrupt", why if place is None else f"the blob {sha256}: {why}")
        self._remember(sha256, path)

    def has(self, sha256: str) -> bool:
        """Are the bytes there and whole? They are never in memory all at once, and read once while nothing changes."""
        try:
            path, _ = self._find(sha256)
            if self._whole.get(sha256) == standing(path):
                return True
            for _ in self.pieces(sha256):
                pass
        except (NotFound, Corrupt):
            return False
        return True

    def digests(self) -> frozenset[str]:
        """Every digest that something is kept under; only names and the indexes of packs are looked at."""
        root = files.below(self._root, "blobs")
        folders = (name for name in files.list_names(root) if len(name) == 2)
        alone = (name for folder in folders for name in files.list_names(files.below(root, folder)))
        found = {name for name in alone if _DIGEST.fullmatch(name)}
        for pack in self._known_packs().values():
            found.update(place.digest.hex() for place in (pack.places() if pack else ()))
        return frozenset(found)

    def _is_kept(self, sha256: str) -> bool:
        """Are the bytes there, whole and durable? Another process may have named them and not have synced the name."""
        if not self.has(sha256):
            return False
        path, _ = self._find(sha256)
        if path not in self._settled:
            files.sync_folder(path.parent)
            self._settled.add(path)
        return True

    # Where they lie.

    def _find(self, sha256: str) -> tuple[Path, Place | None]:
        """The file that holds a blob, and where in it if it is a pack."""
        with contextlib.suppress(NotFound):
            return self._look_up(sha256)
        # A folder may change twice within one tick of the clock that its time is taken from.
        self._listed = (0,)
        return self._look_up(sha256)

    def _look_up(self, sha256: str) -> tuple[Path, Place | None]:
        path = self._path(sha256)
        if files.size_of(path) is not None:
            return path, None
        digest = bytes.fromhex(sha256)
        packs = self._known_packs()
        for pack in packs.values():
            place = None if pack is None else pack.find(digest)
            if pack is not None and place is not None:
                return pack.path, place
        damaged = next((name for name, pack in packs.items() if pack is None), None)
        if damaged is not None:
            raise corrupt_file(str(self._folder_path(FOLDER) / damaged), "blob_corrupt", "the pack cannot be read")
        raise blob_missing(sha256, str(path))

    def _content(self, path: Path, place: Place | None, sha256: str) -> Iterator[bytes]:
        if place is None:
            return _as_it_is(path) if _is_old(path, sha256) else squeezed.unframed(_as_it_is(path))
        pack = self._packs.get(path.name) or PackFile(path)
        return pack.pieces(place)

    def _known_packs(self) -> dict[str, PackFile | None]:
        """The packs that stand there now; each is opened once, a damaged one at every change of the folder."""
        folder = self._folder_path(FOLDER)
        listed = standing(folder)
        if listed != self._listed:
            names = sorted(name for name in files.list_names(folder) if name.endswith(SUFFIX))
            self._packs = {name: self._packs.get(name) or open_pack(folder / name) for name in names}
            self._listed = listed
        return self._packs

    def _remember(self, sha256: str, path: Path) -> None:
        if len(self._whole) >= _REMEMBERED:
            self._whole.clear()
        with contextlib.suppress(ClewError):
            self._whole[sha256] = standing(path)

    def _folder_path(self, name: str) -> Path:
        return files.below(self._root, "blobs", name)

    def _folder(self, name: str) -> Path:
        path = self._folder_path(name)
        for folder in (path.parent, path):
            if files.size_of(folder) is None:
                files.make_folder(folder)
        return path

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise blob_missing(digest, str(self._root))
        return self._folder_path(digest[:2]) / digest


def _as_it_is(path: Path) -> Iterator[bytes]:
    return files.pieces(path, 0)


def _is_old(path: Path, sha256: str) -> bool:
    """Is what looks like our first line a part of the content? Only of a file that has one all of it is read."""
    pieces = _as_it_is(path)
    first = next(pieces, b"")
    if not first.startswith(squeezed.MAGIC):
        return False
    digest = hashlib.sha256(first)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest() == sha256
