"""The protocol of a home's upkeep: what lies there, who is at work, what was dropped and why. No implementation."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import msgspec

from clew.core.pruning import Drop


class Leftover(msgspec.Struct, frozen=True):
    """A file that nobody needs.

    Attributes:
        name: Below the home, parts joined by `/`.
        why: `temp`: half of what a process that is gone was writing. `torn`: the cut end of a journal.
        run: Whose cut end it is; empty for all else.
        stored_bytes: How long it is.
    """

    name: str
    why: Literal["temp", "torn"]
    run: str
    stored_bytes: int


class Pruning(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One prune, as it is recorded before anything is dropped: when, by whom, what was asked for, and what goes."""

    schema_version: Literal[1]
    at: str
    by: Mapping[str, Any]
    asked: Mapping[str, Any]
    drops: Sequence[Drop]
    torn: Sequence[str] = ()


class Upkeep(Protocol):
    """Looks after one home. All that drops is called by who is alone there.

    Source:
        DESIGN §7: "Each leg holds the home shared, `clew prune` holds it alone; receipts are never dropped."
    """

    def alone(self, said: Mapping[str, Any]) -> AbstractContextManager[bool]:
        """Be alone in the home while the block lasts; False when a leg holds it, of this process too.

        `said` is who is told of to a leg that would begin meanwhile. `Refused` (`home_copied`, `home_layout_unknown`).
        """
        ...

    def stock(self) -> Mapping[str, int]:
        """Every blob that is there, with its bytes on the disk, wherever and however often it lies there."""
        ...

    def leftovers(self) -> Iterator[Leftover]:
        """Temp files of processes that are gone, and all cut ends of journals."""
        ...

    def note(self, pruning: Pruning) -> None:
        """Record, durably, what is about to go. `Storage`."""
        ...

    def drop(self, digests: Collection[str]) -> int:
        """Remove these blobs; how many bytes are free now. What is gone already is gone.

        Raises:
            Storage: some may be gone; done again it goes on.
        """
        ...

    def clear(self, leftovers: Collection[Leftover]) -> int:
        """Remove these files; how many bytes are free now. `Storage` as `drop`."""
        ...

    def pruned(self, run_id: str) -> Mapping[str, str]:
        """Digests that this run referred to when they were pruned, and when that was. `Corrupt` (`pruned_corrupt`)."""
        ...
