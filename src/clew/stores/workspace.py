"""The files that tools may touch, in one folder of the user's. What a tool does with them is not known here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from clew.core.checkpoint import Manifest, PathState
from clew.core.cover import Cover, NotCovered
from clew.disk import files, tree
from clew.disk.search import TooSlow, seek_apart
from clew.errors import Refused, Storage
from clew.stores import filework
from clew.stores.base import COVER_LIMITS, BlobStore, CoverLimits, FileBytes, Found, Listing, PutBack, PutBackEnd
from clew.stores.covering import cover
from clew.stores.ground import KEPT_OUT, Ground, counted, outside
from clew.stores.putback import put_back


class FileWorkspace:
    """A folder on this machine. Holds nothing open; safe for any number of threads.

    It confines paths, not programs. What it changes, it changes through descriptors of the folders on the way, each
    entered from the one before and none of them through a link: whoever exchanges one meanwhile is refused.

    A file that is put back is another file than before: a second name of it (a hard link) keeps the old content, and
    only its mode and, where that is allowed, its owner are as they were; lists of rights and times are not kept.

    Source:
        DESIGN §3, toolkit; §7.
    """

    def __init__(self, root: Path, *, home: Path | None = None) -> None:
        self._root = root.absolute()
        self._home = home

    @property
    def root(self) -> str:
        """The folder, as text."""
        return str(self._root)

    def resolve(self, path: str) -> str:
        """Where a path really leads.

        Raises:
            Refused: `outside_workspace`.
        """
        return str(self._place(path))

    def read(self, path: str, limit: int) -> FileBytes:
        """At most `limit` bytes from the beginning of a file.

        Raises:
            Refused: `outside_workspace`, `not_a_file`. NotFound: `file_missing`. Storage.
        """
        return filework.read(self._ground(), self._below(path, self._place(path)), path, limit)

    def listing(self, pattern: str, limit: int) -> Listing:
        """At most `limit` files that match, folder by folder, in each by the code points of the names.

        Raises:
            Refused: `invalid_pattern`.
        """
        paths: list[str] = []
        unread: list[str] = []
        for path in self._walk(_pattern_parts(pattern), unread):
            if len(paths) == limit:
                return Listing(tuple(paths), True, tuple(unread))
            paths.append(path)
        return Listing(tuple(paths), False, tuple(unread))

    def search(
        self, pattern: str, paths: Sequence[str], *, limit: int, ignore_case: bool = False, timeout_s: float = 30.0
    ) -> Found:
        """At most `limit` lines of these files in which the regular expression is found, in the order of `paths`.

        Raises:
            Refused: `invalid_pattern`, `search_too_slow`, `outside_workspace`. Storage: `search_failed`.
        """
        places = [(path, str(self._place(path))) for path in paths]
        order = {"pattern": pattern, "ignoreCase": ignore_case, "limit": limit, "files": places}
        try:
            found = seek_apart(order, timeout_s)
        except TooSlow:
            raise _too_slow(pattern, timeout_s) from None
        except OSError as fault:
            raise Storage(
                f"the search could not be done: {fault}", code="search_failed", next="Mend what the message names."
            ) from fault
        if "wrong" in found:
            raise _no_expression(pattern, found["wrong"])
        skipped = tuple((path, why) for path, why in found["skipped"])
        return Found(tuple(found["matches"]), found["searched"], found["more"], skipped)

    def write(self, path: str, data: bytes, *, mark: str = "", kept: Manifest | None = None) -> str:
        """Make this the file's whole content; returns its path below the folder.

        Raises:
            Refused: `outside_workspace`, `not_a_file`, `file_read_only`, `file_changed`; nothing was changed. Storage.
        """
        below = self._below(path, self._place(path))
        filework.write(self._ground(), below, data, mark, _as_kept(below, kept))
        return below

    def delete(self, path: str, *, mark: str = "", kept: Manifest | None = None) -> str:
        """Remove a file or a link itself, durably; returns its path below the folder.

        Raises:
            Refused: `outside_workspace`, `not_a_file`, `file_changed`. NotFound: `file_missing`. Storage.
        """
        below = self._itself(path)
        filework.delete(self._ground(), below, mark, _as_kept(below, kept))
        return below

    def move(self, path: str, to: str, *, mark: str = "") -> str:
        """Give a file or a link another path, durably; returns that path below the folder.

        Raises:
            Refused: `outside_workspace`, `not_a_file`, `file_exists`. NotFound: `file_missing`. Storage.
        """
        below, there = self._itself(path), self._itself(to)
        filework.move(self._ground(), below, there)
        return there

    # Checkpoints.

    def declared(self, paths: Iterable[str]) -> list[str]:
        """The paths of a manifest for a call that may change these, sorted, each once.

        Raises:
            Refused: `outside_workspace`; nothing was touched.
        """
        found: set[str] = set()
        for path in paths:
            itself, leads_to = self._itself(path), self._below(path, self._place(path, tree.real_bytes))
            found |= {itself, leads_to, *self._missing_folders(itself), *self._missing_folders(leads_to)}
        return sorted(found)

    def stand(self, paths: Iterable[str], *, keep: BlobStore | None = None) -> dict[str, PathState]:
        """How each of these paths of a manifest stands: itself, never what a link leads to.

        Raises:
            Refused: `not_a_file`, `outside_workspace`. Storage: it cannot be read or kept; `file_changing`.
        """
        ground, wanted = self._ground(), list(paths)
        if keep is None or len(wanted) < 2:
            take = counted if keep is None else keep.keep
            return {path: ground.state(path, take) for path in wanted}
        with keep.pack() as pack:
            return {path: ground.state(path, pack.keep) for path in wanted}

    def inside(self, folders: Iterable[str]) -> tuple[list[str], list[NotCovered]]:
        """All that lies in these folders, at any depth, and what of it can be no path of a manifest.

        Raises:
            Refused: `outside_workspace`. Storage: the names in one cannot be read.
        """
        ground, missing = self._ground(), dict[str, NotCovered]()
        found = {path for folder in folders for path in ground.inside(folder, missing)}
        return sorted(found), [missing[path] for path in sorted(missing)]

    def put_back(self, plan: Sequence[PutBack], blobs: BlobStore, *, mark: str) -> list[PutBackEnd]:
        """Let paths stand again as they did, one after the other, each whole or not at all; it raises for none."""
        return put_back(self._ground(), plan, blobs, mark)

    def cover(self, *, keep: BlobStore | None = None, limits: CoverLimits = COVER_LIMITS) -> Cover:
        """How every path of the workspace stands, and which are not covered.

        Raises:
            Storage: the contents cannot be kept, or the folder itself cannot be read.
        """
        return cover(self._ground(), self._home, keep, limits)

    def _ground(self) -> Ground:
        return Ground(tree.real(self._root), None if self._home is None else tree.real(self._home))

    def _below(self, path: str, place: Path) -> str:
        """A path of a manifest, from a real one that is one of ours."""
        below = place.relative_to(tree.real(self._root)).as_posix()
        if below == ".":
            raise outside(path, "it is the workspace itself")
        return below

    def _itself(self, path: str) -> str:
        """Where a path leads with its folders followed, and its last part as it is."""
        whole = self._root / path
        if whole.name in ("", ".."):
            return self._below(path, self._place(path, tree.real_bytes))
        parent = self._place(str(whole.parent), tree.real_bytes)
        return self._below(path, self._place_of(path, parent / whole.name))

    def _missing_folders(self, below: str) -> Iterator[str]:
        root = tree.real(self._root)
        above = [parent for parent in Path(below).parents if parent.name]
        return (parent.as_posix() for parent in above if tree.kind_of(root / parent) is None)

    def _place(self, path: str, real: Callable[[Path], Path] = tree.real) -> Path:
        """The real path, if it is one of ours."""
        try:
            place = real(self._root / path)
        except (ValueError, OSError) as fault:
            raise outside(path, f"no file can have this path: {fault}") from None
        return self._place_of(path, place)

    def _place_of(self, path: str, place: Path) -> Path:
        root = tree.real(self._root)
        if not place.is_relative_to(root):
            raise outside(path, "it leads out of the workspace")
        if any(part.casefold() in KEPT_OUT for part in place.relative_to(root).parts):
            raise outside(path, "what lies in .clew and .git is kept from tools")
        if self._home is not None and place.is_relative_to(tree.real(self._home)):
            raise outside(path, "the home is kept from tools")
        return place

    def _walk(self, pattern: tuple[str, ...], unread: list[str]) -> Iterator[str]:
        """Every file that matches. A folder is only looked into while something below it could match."""
        ahead: list[tuple[str, tree.Kind, frozenset[int]]] = [("", "folder", _closed(pattern, {0}))]
        while ahead:
            path, kind, reached = ahead.pop()
            if kind == "folder" and any(at < len(pattern) for at in reached):
                found = self._inside(path, unread)
                steps = ((f"{path}/{name}".lstrip("/"), kind, _step(pattern, reached, name)) for name, kind in found)
                ahead += [*steps][::-1]
            elif len(pattern) in reached and (kind == "file" or (kind == "link" and self._leads_to_file(path))):
                yield path

    def _inside(self, path: str, unread: list[str]) -> list[tuple[str, tree.Kind]]:
        """What may be seen in a folder; what cannot be read, or cannot be named in JSON, is said in `unread`."""
        try:
            found = tree.entries(self._place(path))
        except (Storage, Refused):
            unread.append(path or ".")
            return []
        named = [entry for entry in found if _is_text(entry[0])]
        unread += [ascii(f"{path}/{name}".lstrip("/")) for name, _ in found if not _is_text(name)]
        return [(name, kind) for name, kind in named if self._shown(path, name)]

    def _shown(self, folder: str, name: str) -> bool:
        if name.casefold() in KEPT_OUT or files.is_temp(name):
            return False
        return self._home is None or tree.real(self._root / folder / name) != tree.real(self._home)

    def _leads_to_file(self, path: str) -> bool:
        try:
            return tree.kind_of(self._place(path)) == "file"
        except (Refused, Storage):
            return False


def _as_kept(below: str, kept: Manifest | None) -> PathState | None:
    """How a path was kept; one that was not is where a link leads that somebody has put there since."""
    if kept is not None and below not in kept:
        raise filework.changed(below)
    return None if kept is None else kept[below]


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _pattern_parts(pattern: str) -> tuple[str, ...]:
    parts = tuple(part for part in pattern.split("/") if part not in ("", "."))
    if not parts or pattern.startswith("/") or ".." in parts:
        raise Refused(
            f"{pattern!r} is no pattern for files below the workspace",
            code="invalid_pattern",
            next="Use one like '**/*.py': relative to the workspace and without '..'.",
            pattern=pattern,
        )
    return parts


def _closed(pattern: tuple[str, ...], reached: set[int]) -> frozenset[int]:
    """The places in the pattern that are reached, `**` for no folder at all included."""
    for at, part in enumerate(pattern):
        if part == "**" and at in reached:
            reached.add(at + 1)
    return frozenset(reached)


def _step(pattern: tuple[str, ...], reached: frozenset[int], name: str) -> frozenset[int]:
    """The places that are reached behind one more name."""
    ahead = {at for at in reached if at < len(pattern)}
    stay = {at for at in ahead if pattern[at] == "**"}
    return _closed(pattern, stay | {at + 1 for at in ahead - stay if fnmatchcase(name, pattern[at])})


def _no_expression(pattern: str, why: str) -> Refused:
    return Refused(
        f"{pattern!r} is no regular expression: {why}",
        code="invalid_pattern",
        next="Write one as Python's re takes it; re.escape makes one of plain text.",
        pattern=pattern,
    )


def _too_slow(pattern: str, timeout_s: float) -> Refused:
    return Refused(
        f"searching for {pattern!r} took longer than {timeout_s:g} s",
        code="search_too_slow",
        next="Search fewer files, or write the pattern so that it backtracks less.",
        pattern=pattern,
    )
