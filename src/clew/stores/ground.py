"""The folder of a workspace, and how a path in it stands, reached part by part. Only new folders are made here."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from clew.core.checkpoint import ABSENT, PathState, is_below
from clew.core.cover import NotCovered
from clew.disk import anchor
from clew.disk.anchor import Folder
from clew.disk.failures import failure
from clew.errors import Refused, Storage
from clew.stores.base.kept import Kept

KEPT_OUT: Final = frozenset({".clew", ".git"})
_LOOKS: Final = 5

Take = Callable[[Iterable[bytes]], Kept]
"""What is done with the pieces of a file: they are kept, or only counted."""


class Ground:
    """The real folder of a workspace, for one deed. What is kept from tools is refused on the way.

    Every folder on a path is entered through the descriptor of the one before, so that none of them is a link,
    whatever anybody puts in its place meanwhile.

    Source:
        DESIGN §7: "targets outside the workspace are refused after resolving".
    """

    def __init__(self, root: Path, home: Path | None) -> None:
        self.root = root
        self._home = home

    @contextmanager
    def open(self) -> Iterator[Folder]:
        """The folder itself. `Storage` where none is."""
        try:
            folder = Folder.at(self.root)
        except OSError as fault:
            raise failure(fault, self.root, "open") from fault
        with folder:
            yield folder

    @contextmanager
    def folder_of(self, path: str, *, make: bool = False) -> Iterator[tuple[Folder, str]]:
        """The folder that a path of a manifest is in, and its last name.

        Args:
            path: Below the workspace.
            make: Folders that are not there are made; those made go again if the block raises.

        Raises:
            Refused: `outside_workspace`. Storage: where the workspace has no folder.
            OSError: `FileNotFoundError`, or `NotADirectoryError` for a link or anything else on the way.
        """
        *way, name = self.parts(path)
        with contextlib.ExitStack() as held:
            folder = held.enter_context(self.open())
            for part in way:
                if make and _make(folder, part):
                    held.push(partial(_unmake, folder, part))
                folder = held.enter_context(folder.enter(part))  # each is entered through the last
                self.require_not_home(folder, path)
            yield folder, name

    def parts(self, path: str) -> list[str]:
        """The names of a path of a manifest. `Refused` (`outside_workspace`)."""
        if not is_below(path):
            raise outside(path, "it is no path below the workspace")
        parts = path.split("/")
        if any(part.casefold() in KEPT_OUT for part in parts):
            raise outside(path, "what lies in .clew and .git is kept from tools")
        return parts

    def is_home(self, folder: Folder) -> bool:
        """Is this folder the home, by whatever name it was reached?"""
        return self._home is not None and self._is_home(folder.identity())

    def _is_home(self, identity: tuple[int, int]) -> bool:
        if self._home is not None:
            with contextlib.suppress(OSError):
                found = os.stat(self._home)
                return identity == (found.st_dev, found.st_ino)
        return False

    def require_not_home(self, folder: Folder, path: str) -> None:
        """`Refused` (`outside_workspace`) in a home."""
        if self.is_home(folder):
            raise outside(path, "the home is kept from tools")

    def state(self, path: str, take: Take) -> PathState:
        """How a path stands, itself; absent where a folder on the way is none, or a link.

        Raises:
            Refused: `outside_workspace`, `not_a_file`. Storage: it cannot be read; `file_changing`.
        """
        try:
            with self.folder_of(path) as (folder, name):
                return state_of(folder, name, take, path)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        except OSError as fault:
            raise failure(fault, self.root / path, "look at") from fault

    def inside(self, path: str, missing: dict[str, NotCovered]) -> Iterator[str]:
        """The paths of all that lies in a folder, at any depth; into `missing` goes what can be no such path.

        Raises:
            Refused: `outside_workspace`. Storage: its names cannot be read.
        """
        ahead = [path]
        while ahead:
            place = ahead.pop()
            try:
                with self.folder_of(place) as (above, name), above.enter(name) as folder:
                    found = [(f"{place}/{each}", folder.look(each)) for each in folder.names()]
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as fault:
                raise failure(fault, self.root / place, "list") from fault
            for below, stands in found:
                why = self._no_path(below, stands)
                if why:
                    missing[below] = NotCovered(below, why)
                elif stands is not None:
                    yield below
                    if stat.S_ISDIR(stands.st_mode):
                        ahead.append(below)

    def _no_path(self, path: str, stands: os.stat_result | None) -> str:
        """Why what stands there can be no path of a manifest; empty when it can."""
        if path.rpartition("/")[2].casefold() in KEPT_OUT:
            return "kept_out"
        if stands is not None and stat.S_ISDIR(stands.st_mode):
            return "kept_out" if self._is_home((stands.st_dev, stands.st_ino)) else ""
        known = stands is None or stat.S_ISREG(stands.st_mode) or stat.S_ISLNK(stands.st_mode)
        return "" if known else "no_file"


def _make(folder: Folder, part: str) -> bool:
    try:
        folder.make_folder(part)
    except FileExistsError:
        return False
    folder.sync()
    return True


def _unmake(folder: Folder, part: str, fault: object, *_: object) -> None:
    """A folder that was made goes again if what it was made for failed."""
    if fault is not None:
        with contextlib.suppress(OSError):
            folder.remove_folder(part)


class _Changing(Exception):
    """A file did not stand still while it was read."""


def state_of(folder: Folder, name: str, take: Take, path: str) -> PathState:
    """How a name in an open folder stands (`look_closely`)."""
    return look_closely(folder, name, take, path)[0]


def look_closely(folder: Folder, name: str, take: Take, path: str) -> tuple[PathState, os.stat_result | None]:
    """How a name in an open folder stands, and what the machine says of it.

    A file that changes while it is read is read again, a few times.

    Raises:
        Refused: `not_a_file`. Storage: `file_changing`. OSError.
    """
    for _ in range(_LOOKS):
        with contextlib.suppress(_Changing):
            return _look(folder, name, take, path)
    raise file_changing(path)


def _look(folder: Folder, name: str, take: Take, path: str) -> tuple[PathState, os.stat_result | None]:
    found = folder.look(name)
    if found is None:
        return ABSENT, None
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode) or bool(getattr(found, "st_reparse_tag", 0)):
        return PathState("link", target=_target(folder, name)), found
    if stat.S_ISDIR(found.st_mode):
        return PathState("folder", mode=mode), found
    if not stat.S_ISREG(found.st_mode):
        raise no_file(path, "a pipe, a socket or a device stands there")
    kept, found = _read_file(folder, name, take)
    return PathState("file", kept.sha256, kept.size_bytes, stat.S_IMODE(found.st_mode)), found


def _target(folder: Folder, name: str) -> str:
    try:
        return folder.target(name)
    except OSError:
        # It is no link any more, or gone.
        raise _Changing from None


def _read_file(folder: Folder, name: str, take: Take) -> tuple[Kept, os.stat_result]:
    """Read a file that stands still from its first byte to its last, and how it stood.

    Raises:
        _Changing: it did not, or it is no file. OSError: it cannot be read.
    """
    try:
        fd = folder.open(name)
    except OSError as fault:
        if isinstance(fault, FileNotFoundError) or _is_no_file(folder, name):
            raise _Changing from None
        raise
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise _Changing
        kept = take(_steady(folder, name, fd, before))
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)
    return kept, before


def _is_no_file(folder: Folder, name: str) -> bool:
    """Does no file stand there now that could be opened?"""
    found = folder.look(name)
    return found is None or not stat.S_ISREG(found.st_mode)


def _steady(folder: Folder, name: str, fd: int, before: os.stat_result) -> Iterator[bytes]:
    """The bytes of an open file; `_Changing` behind the last one if it is not as it was before the first."""
    size = 0
    for piece in anchor.pieces_of(fd):
        size += len(piece)
        # One that grows as fast as it is read would have no end.
        if size > before.st_size:
            raise _Changing
        yield piece
    standing = folder.look(name)
    if standing is None or not signature(before) == signature(os.fstat(fd)) == signature(standing):
        raise _Changing
    if size != before.st_size:
        raise _Changing


def signature(found: os.stat_result) -> tuple[int, ...]:
    """What changes when a file does: device, inode, size, mode, both times."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns)


def counted(pieces: Iterable[bytes]) -> Kept:
    """What bytes are known by; none is kept."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return Kept(digest.hexdigest(), size)


# What is refused.


def file_changing(path: str) -> Storage:
    """It was read again and again, and was another one each time."""
    return Storage(
        f"{path!r} did not stand still while it was read, {_LOOKS} times",
        code="file_changing",
        next="Wait until whatever writes it is done, then do it again.",
        path=path,
    )


def outside(path: str, why: str) -> Refused:
    """A path that no tool may touch."""
    return Refused(
        f"{path!r} is not a path of the workspace: {why}",
        code="outside_workspace",
        next="Use a path relative to the workspace, to a file in it.",
        path=path,
    )


def no_file(path: str, why: str) -> Refused:
    """Something stands there that is no file, or nothing can."""
    return Refused(
        f"{path!r} is not a file and cannot become one: {why}",
        code="not_a_file",
        next="Choose the path of a file; list_files shows which there are.",
        path=path,
    )
