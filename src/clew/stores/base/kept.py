"""The protocols of what is kept beside the journals: blobs and claims on business keys. No implementation."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from clew.core.keys import Claim


class Kept(msgspec.Struct, frozen=True):
    """What bytes are known by: their SHA-256 (64 hex) and how many they are."""

    sha256: str
    size_bytes: int


class BlobPack(Protocol):
    """Many blobs that are kept together: nothing is promised of any of them until the block has ended."""

    def keep(self, pieces: Iterable[bytes]) -> Kept:
        """Take the bytes of one more blob, piece by piece, never all at once. `Storage`.

        What `pieces` raises comes out, and the blob is not in the pack.
        """
        ...


class BlobStore(Protocol):
    """Bytes by their SHA-256, written once and shared."""

    def put(self, data: bytes) -> str:
        """Keep bytes durably; returns the digest (64 hex). `Storage` when they cannot be kept."""
        ...

    def keep(self, pieces: Iterable[bytes]) -> Kept:
        """As `put`, piece by piece, so that no more than a few pieces are in memory.

        What `pieces` raises comes out, and nothing is kept.
        """
        ...

    def pack(self) -> AbstractContextManager[BlobPack]:
        """A block in which many blobs are taken; they are durable at its end, by one sync. If it raises, none is kept.

        Raises:
            Storage: at the end; none is kept then.
        """
        ...

    def get(self, sha256: str) -> bytes:
        """The bytes. `NotFound` (`blob_missing`), `Corrupt` (`blob_corrupt`) when the digest differs."""
        ...

    def pieces(self, sha256: str) -> Iterator[bytes]:
        """As `get`, piece by piece. `Corrupt` may come behind the last piece: use nothing of them before the end."""
        ...

    def has(self, sha256: str) -> bool:
        """Are the bytes there and whole? Blobs that did not change since this store looked are not read again."""
        ...

    def digests(self) -> frozenset[str]:
        """Every digest that something is kept under. No content is read: whether it is whole, `has` says."""
        ...


class KeyIndex(Protocol):
    """Claims on business keys, numbered from 1 for each key of a tool; the last one counts, none is ever replaced.

    Safe for any number of processes. What a claim is worth, its run's journal says.

    Source:
        DESIGN §4 "Everything else"; promises 2 and 12.
    """

    def mark(self) -> str:
        """Which index this is; empty until it was said to be complete, or when it was removed."""
        ...

    def complete(self, mark: str, at: str) -> None:
        """Say that it knows every key that any journal holds. The first who says so is heard."""
        ...

    def last(self, sha256: str, tool: str) -> tuple[int, Claim] | None:
        """The last claim on a key and its number. `Corrupt` (`key_claim_corrupt`)."""
        ...

    def take(self, number: int, claim: Claim) -> bool:
        """Publish under the next number, durably; False when it is given. `Refused` (`home_copied`), `Storage`."""
        ...

    def of_key(self, sha256: str) -> Sequence[Claim]:
        """The last claim on a key for each tool that has one, by the tools' names."""
        ...

    def claims(self) -> Iterator[Claim]:
        """The last claim on every key, in no promised order."""
        ...
