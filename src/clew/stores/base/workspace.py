"""The protocol of a workspace: the files that tools may touch. No implementation."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class FileBytes(msgspec.Struct, frozen=True):
    """The beginning of a file, and how long the whole is."""

    data: bytes
    size_bytes: int


class Listing(msgspec.Struct, frozen=True):
    """Paths of files; `more` when there are others, `unread` what could not be looked into."""

    paths: tuple[str, ...]
    more: bool = False
    unread: tuple[str, ...] = ()


class Found(msgspec.Struct, frozen=True):
    """Lines that a pattern was found in; `more` when there are others. `skipped`: paths of files, and why.

    A match has `path`, `line`, `column`, `text`, and `cut` where that is a part of the line.
    """

    matches: tuple[dict[str, Any], ...]
    searched: int
    more: bool = False
    skipped: tuple[tuple[str, str], ...] = ()


class Workspace(Protocol):
    """The one folder whose files tools may touch. Every path is judged where its links really lead.

    Paths are relative to the folder. `Refused` (`outside_workspace`) is raised before anything is touched: for a path
    that leads out of the folder, into a home or into a `.git`; `not_a_file` where no file is or can be.

    Source:
        DESIGN §3, toolkit; issue "Toolkit".
    """

    @property
    def root(self) -> str:
        """The folder, as text."""
        ...

    def resolve(self, path: str) -> str:
        """Where a path really leads; a link inside the folder is followed. Nothing need be there."""
        ...

    def read(self, path: str, limit: int) -> FileBytes:
        """At most `limit` bytes from the beginning. `NotFound` (`file_missing`)."""
        ...

    def listing(self, pattern: str, limit: int) -> Listing:
        """At most `limit` files that match, folder by folder, in each by the code points of the names.

        `*`, `?` and `[…]` stay within one name, `**` is any number of folders. A link to a folder is not followed.
        """
        ...

    def search(
        self, pattern: str, paths: Sequence[str], *, limit: int, ignore_case: bool = False, timeout_s: float = 30.0
    ) -> Found:
        """At most `limit` lines of these files in which the regular expression is found, in the order of `paths`.

        Raises:
            Refused: `invalid_pattern`, `search_too_slow` when the time is over. Storage: it could not be searched.
        """
        ...

    def write(self, path: str, data: bytes, *, mark: str = "") -> str:
        """Make this the file's whole content, durably: after a crash it is the old content or this. Returns the path.

        Parent folders are made; a file that is replaced keeps its mode. `mark` is the call's own: what a death left
        half written beside the file is used up by the next write under the same mark.

        Raises:
            Storage: the machine refused; after `durability_barrier_failed` the new content may stand.
        """
        ...
