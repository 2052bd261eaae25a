"""The protocol of a workspace: the files that tools may touch. No implementation."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

from clew.core.checkpoint import Manifest, PathState
from clew.core.cover import Cover, NotCovered
from clew.stores.base.kept import BlobStore


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


class PutBack(msgspec.Struct, frozen=True):
    """One path that is to be put back.

    Attributes:
        path: Of a manifest: below the workspace, no part before the last one a link.
        found: As it must stand, to the byte; if it stands otherwise, it stays.
        wanted: As it shall stand. A file's content lies in the blob of its digest.
    """

    path: str
    found: PathState
    wanted: PathState


PutBackOutcome = Literal["restored", "unchanged", "conflict", "failed", "unknown"]


class PutBackEnd(msgspec.Struct, frozen=True):
    """What became of one path.

    Attributes:
        path: As it was given.
        outcome: `restored`: it stands as wanted, durably. `unchanged`: it stood so already, and was not touched.
            `conflict`: it stood otherwise than said, and was left as it was. `failed`: the machine refused before
            anything was changed. `unknown`: it refused in the middle, so it stands as it was or as wanted.
        now: How it stood when it was looked at last; None where that is not known.
        why: For people, where it is neither restored nor unchanged. It names what was left beside the path.
        code: Of the error, where there was one.
    """

    path: str
    outcome: PutBackOutcome
    now: PathState | None = None
    why: str = ""
    code: str = ""


class CoverLimits(msgspec.Struct, frozen=True):
    """How much of a workspace is covered; what is beyond is said not to be."""

    file_bytes: int = 64 << 20
    all_bytes: int = 1 << 30
    paths: int = 200_000


COVER_LIMITS: Final = CoverLimits()


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

    def write(self, path: str, data: bytes, *, mark: str = "", kept: Manifest | None = None) -> str:
        """Make this the file's whole content, durably: after a crash it is the old content or this. Returns the path.

        Parent folders are made; a file that is replaced keeps its mode. `mark` is the call's own: what a death left
        half written beside the file is used up by the next write under the same mark. With `kept`, as a call has it,
        only what stands as it was kept is replaced: what somebody wrote behind that is kept nowhere.

        Raises:
            Refused: `file_changed`; nothing was changed. Storage: the machine refused; after
                `durability_barrier_failed` the new content may stand.
        """
        ...

    def delete(self, path: str, *, mark: str = "", kept: Manifest | None = None) -> str:
        """Remove a file or a link itself, durably; with `kept` only what stands as it was kept. Returns the path.

        Raises:
            Refused: `not_a_file` for a folder or anything else; `file_changed`. NotFound: `file_missing`.
            Storage: as `write`.
        """
        ...

    def move(self, path: str, to: str, *, mark: str = "") -> str:
        """Give a file or a link another path, durably; parent folders are made. Returns the new path.

        Raises:
            Refused: `file_exists` where anything stands there already, `not_a_file`. NotFound. Storage: as `write`.
        """
        ...

    def declared(self, paths: Iterable[str]) -> list[str]:
        """The paths of the manifest of a call that says that it may change these, sorted, each once.

        The folders before the last part are followed where they are links. A path that is a link itself stands for
        itself, and where it leads is one more path. Folders on the way that are not there yet are paths too, for the
        call may make them.

        Raises:
            Refused: `outside_workspace` for one that leads out, or whose link does; nothing was touched.
        """
        ...

    def stand(self, paths: Iterable[str], *, keep: BlobStore | None = None) -> dict[str, PathState]:
        """How each of these paths of a manifest stands: itself, never what a link leads to.

        Nothing is read through a link: where a part before the last is none, or no folder, the path is absent.

        Args:
            paths: As `declared` gave them, or as they stand in a record.
            keep: Where the contents of the files are kept; they are durable blobs before this returns. Without it
                they are only read. A file is never in memory as a whole.

        Raises:
            Refused: `not_a_file` for a pipe, a socket or a device; `outside_workspace`.
            Storage: it cannot be read or kept; `file_changing` when it did not stand still while it was read.
        """
        ...

    def inside(self, folders: Iterable[str]) -> tuple[list[str], list[NotCovered]]:
        """The paths of all that lies in these folders, at any depth, and what of it can be no path of a manifest.

        Args:
            folders: Paths of a manifest; of one that is no folder by now, nothing.

        Raises:
            Refused: `outside_workspace`. Storage: the names in one cannot be read.
        """
        ...

    def put_back(self, plan: Sequence[PutBack], blobs: BlobStore, *, mark: str) -> list[PutBackEnd]:
        """Let paths stand again as they did, one after the other, each whole or not at all.

        What is found at the last moment, and is not what was said, is never replaced and never lost. Killed anywhere
        and done again under the same mark, it converges. Hand in every path, also one that another look found
        changed: what an earlier death left beside a path is settled here, whatever becomes of the path. What goes is
        removed first, the deepest first; what comes is made then, the outermost first. A folder that is not empty
        stays. A path that stands as wanted is not touched, so its times stay. Nothing is done through a link. What is
        in a folder that is closed to this user fails (`storage_denied`): no folder is opened for it.

        Args:
            plan: Each path once.
            blobs: Where the contents are.
            mark: 16 characters of a-z and 2-7 (`core.ids.call_short`): of this deed alone, the same at each try.

        Returns:
            One end for each, in the order of the plan. It raises nothing for a path, and goes on with the others.
        """
        ...

    def cover(self, *, keep: BlobStore | None = None, limits: CoverLimits = COVER_LIMITS) -> Cover:
        """How every path of the workspace stands, and which are not covered.

        Files that did not change since the last time (size, both times, inode; older than 20 ms then) are not read.

        Args:
            keep: Where the contents of the files are kept, in one pack, by one sync, before this returns.
            limits: What is beyond them is not covered.

        Raises:
            Storage: the contents cannot be kept, or the folder itself cannot be read.
        """
        ...
