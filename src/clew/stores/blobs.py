"""Bytes by their SHA-256, one file each, written once and shared. Who needs them is not known here."""

import hashlib
import re
from pathlib import Path

from clew.disk import files
from clew.errors import NotFound
from clew.stores.refusals import blob_missing, corrupt_file

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NO_LIMIT = 1 << 62


class FileBlobStore:
    """`blobs/ab/<sha256>` below a home. Safe for any number of processes: equal names have equal content.

    Source:
        DESIGN §4, §5 stage 7.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, data: bytes) -> str:
        """Keep bytes durably. Bytes that are there already are read and compared, not believed.

        Raises:
            Storage: they cannot be kept; nothing half-written is left.
        """
        digest = hashlib.sha256(data).hexdigest()
        if not self.has(digest):
            path = self._path(digest)
            for folder in (path.parent.parent, path.parent):
                files.make_folder(folder)
            files.publish(path, data)
        return digest

    def get(self, sha256: str) -> bytes:
        """The bytes of a digest.

        Raises:
            NotFound: `blob_missing`.
            Corrupt: `blob_corrupt` when they have another digest.
        """
        path = self._path(sha256)
        data = files.read_bytes(path, _NO_LIMIT)
        if data is None:
            raise blob_missing(sha256, str(path))
        found = hashlib.sha256(data).hexdigest()
        if found != sha256:
            raise corrupt_file(str(path), "blob_corrupt", f"its {len(data)} bytes have the digest {found}")
        return data

    def has(self, sha256: str) -> bool:
        """Are the bytes there and whole? They are never in memory all at once."""
        try:
            path = self._path(sha256)
        except NotFound:
            return False
        if files.size_of(path) is None:
            return False
        found = hashlib.sha256()
        for piece in files.pieces(path, 0):
            found.update(piece)
        return found.hexdigest() == sha256

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise blob_missing(digest, str(self._root))
        return files.below(self._root, "blobs", digest[:2]) / digest
