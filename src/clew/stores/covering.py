"""A look over a whole workspace: how every path stands, and what is left out and why. What changed, others say."""

import contextlib
import os
import stat
from collections.abc import Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from clew.core.checkpoint import PathState
from clew.core.cover import Cover, NotCovered
from clew.core.ignoring import Rules, left_out_by, read_rules
from clew.disk.anchor import Folder
from clew.disk.failures import failure
from clew.errors import Refused, Storage
from clew.stores.base.kept import BlobStore, Kept
from clew.stores.base.workspace import CoverLimits
from clew.stores.ground import KEPT_OUT, Ground, Take, counted, look_closely
from clew.stores.seen import Seen

IGNORE_FILES: Final = (".gitignore", ".clewignore")
"""In this order, so that the second can take in again what the first leaves out."""

Walk = Generator["Walk", None, None]
"""A walk through one folder; it yields that of each folder in it, which is to be ended before it goes on."""


def cover(ground: Ground, home: Path | None, keep: BlobStore | None, limits: CoverLimits) -> Cover:
    """How the workspace stands (`stores.base.Workspace.cover`)."""
    with ground.open() as folder, Seen.of(ground.root, home, folder) as seen:
        if keep is None:
            look = _Look(ground, limits, seen, counted, None)
            look.all(folder)
        else:
            kept = keep.digests()
            with keep.pack() as pack:
                look = _Look(ground, limits, seen, pack.keep, kept)
                look.all(folder)
        seen.keep()
    return Cover(look.manifest, tuple(look.not_covered))


class _Look:
    """One walk over a workspace.

    Args:
        kept: The digests whose content need not be read again; None when none is to be kept.
    """

    def __init__(
        self, ground: Ground, limits: CoverLimits, seen: Seen, take: Take, kept: frozenset[str] | None
    ) -> None:
        self._ground = ground
        self._limits = limits
        self._seen = seen
        self._take = take
        self._kept = kept
        self._bytes = 0
        self.manifest: dict[str, PathState] = {}
        self.not_covered: list[NotCovered] = []

    def all(self, root: Folder) -> None:
        """Everything below the folder, depth first, by the code points of the names."""
        walks = [self._walk(root, "", ())]
        try:
            while walks:
                inner = next(walks[-1], None)
                if inner is None:
                    walks.pop()
                else:
                    walks.append(inner)
        except OSError as fault:
            raise failure(fault, root.path, "list") from fault
        finally:
            # The innermost first: each holds its folder open.
            while walks:
                walks.pop().close()

    def _walk(self, folder: Folder, way: str, above: tuple[Rules, ...]) -> Walk:
        names = folder.names()
        rules = (*above, *self._rules(folder, way, names))
        for name in names:
            try:
                inner = self._one(folder, name, way + name, rules)
            except FileNotFoundError:
                continue
            except Refused:
                self._leave_out(way + name, "no_file")
            except OSError:
                self._leave_out(way + name, "unreadable")
            except Storage as fault:
                if fault.code != "file_changing":
                    raise
                self._leave_out(way + name, "changing")
            else:
                if inner is not None:
                    yield self._into(inner, f"{way}{name}", rules)

    def _into(self, folder: Folder, path: str, rules: tuple[Rules, ...]) -> Walk:
        with folder:
            if self._ground.is_home(folder):
                del self.manifest[path]
                self._leave_out(path, "kept_out")
                return
            try:
                yield from self._walk(folder, f"{path}/", rules)
            except OSError:
                # Its names cannot be read.
                del self.manifest[path]
                self._leave_out(path, "unreadable")

    def _one(self, folder: Folder, name: str, path: str, rules: tuple[Rules, ...]) -> Folder | None:
        """Look at one name; a folder is opened and given back, to be walked through."""
        found = folder.look(name)
        if found is None:
            return None
        is_folder = stat.S_ISDIR(found.st_mode)
        if self._is_left_out(path, name, rules, is_folder):
            return None
        if stat.S_ISREG(found.st_mode):
            self._file(folder, name, path, found)
            return None
        if is_folder:
            inner = folder.enter(name)
            self.manifest[path] = PathState("folder", mode=stat.S_IMODE(found.st_mode))
            return inner
        self._look_at(folder, name, path)
        return None

    def _is_left_out(self, path: str, name: str, rules: tuple[Rules, ...], is_folder: bool) -> bool:
        if name.casefold() in KEPT_OUT:
            self._leave_out(path, "kept_out")
        elif rule := left_out_by(rules, path, folder=is_folder):
            self._leave_out(path, "ignored", rule)
        elif len(self.manifest) >= self._limits.paths:
            self._leave_out(path, "over_limit")
        else:
            return False
        return True

    def _file(self, folder: Folder, name: str, path: str, found: os.stat_result) -> None:
        size = found.st_size
        if size > self._limits.file_bytes:
            return self._leave_out(path, "too_large")
        if self._bytes + size > self._limits.all_bytes:
            return self._leave_out(path, "over_limit")
        self._bytes += size
        digest = self._seen.digest(path, found)
        if digest is not None and (self._kept is None or digest in self._kept):
            self.manifest[path] = PathState("file", digest, size, stat.S_IMODE(found.st_mode))
        else:
            self._look_at(folder, name, path)
        return None

    def _look_at(self, folder: Folder, name: str, path: str) -> None:
        """A file or a link, unless it is gone or a folder by now: nobody has walked through that."""
        state, read = look_closely(folder, name, self._take, path)
        if state.kind == "folder":
            return self._leave_out(path, "changing")
        if read is not None:
            self.manifest[path] = state
            self._seen.saw(path, read, state.sha256)
        return None

    def _rules(self, folder: Folder, way: str, names: list[str]) -> Iterator[Rules]:
        """What the files of rules in a folder say; one that cannot be read says nothing."""
        for name in IGNORE_FILES:
            if name in names:
                with contextlib.suppress(OSError, Refused, Storage):
                    held: list[bytes] = []
                    look_closely(folder, name, partial(_hold, held=held), way + name)
                    yield read_rules(way + name, b"".join(held).decode("utf-8", "surrogateescape"))

    def _leave_out(self, path: str, why: str, rule: str = "") -> None:
        self.not_covered.append(NotCovered(path, why, rule))


def _hold(pieces: Iterable[bytes], held: list[bytes]) -> Kept:
    """Hold the beginning of a file of rules: 1 MiB of it counts."""
    held[:] = [next(iter(pieces), b"")]
    return counted(())
