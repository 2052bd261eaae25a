"""The files that tools may touch, in one folder of the user's. What a tool does with them is not known here."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from clew.disk import files, tree
from clew.disk.search import TooSlow, seek_apart
from clew.errors import NotFound, Refused, Storage
from clew.stores.base import FileBytes, Found, Listing

KEPT_OUT = frozenset({".clew", ".git"})
_OWNER_MAY_WRITE = 0o200


class FileWorkspace:
    """A folder on this machine. Holds nothing open; safe for any number of threads.

    It confines paths, not programs: another process that exchanges a folder for a link between the look and the deed
    is not guarded against.

    Source:
        DESIGN §3, toolkit.
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
        place = self._place(path)
        if _file_at(place, path):
            size, data = files.size_of(place), files.read_bytes(place, limit)
            if size is not None and data is not None:
                return FileBytes(data, max(size, len(data)))
        raise NotFound(
            f"there is no file {path!r} in the workspace",
            code="file_missing",
            next="Look which files there are with list_files.",
            path=path,
        )

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

    def write(self, path: str, data: bytes, *, mark: str = "") -> str:
        """Make this the file's whole content; returns its path below the folder.

        Raises:
            Refused: `outside_workspace`, `not_a_file`, `file_read_only`; nothing was changed. Storage.
        """
        place = self._place(path)
        _check_replaceable(place, path)
        with tree.new_folders(place.parent):
            files.republish(place, data, mark=mark)
        return place.relative_to(tree.real(self._root)).as_posix()

    def _place(self, path: str) -> Path:
        """The real path, if it is one of ours."""
        try:
            root, place = tree.real(self._root), tree.real(self._root / path)
        except (ValueError, OSError) as fault:
            raise _outside(path, f"no file can have this path: {fault}") from None
        if not place.is_relative_to(root):
            raise _outside(path, "it leads out of the workspace")
        if any(part.casefold() in KEPT_OUT for part in place.relative_to(root).parts):
            raise _outside(path, "what lies in .clew and .git is kept from tools")
        if self._home is not None and place.is_relative_to(tree.real(self._home)):
            raise _outside(path, "the home is kept from tools")
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


def _file_at(place: Path, path: str) -> bool:
    """Is a file there (True) or nothing (False)?

    Raises:
        Refused: `not_a_file` when something else is, or the machine does not take the name.
    """
    try:
        kind = tree.kind_of(place)
    except Storage as fault:
        raise _no_file(path, str(fault.facts.get("errno", fault.message))) from None
    if kind in ("file", None):
        return kind == "file"
    raise _no_file(path, f"a {kind} stands there")


def _check_replaceable(place: Path, path: str) -> None:
    if _file_at(place, path) and not (files.mode_of(place) or 0) & _OWNER_MAY_WRITE:
        raise Refused(
            f"{path!r} is read-only",
            code="file_read_only",
            next="Give its owner the right to write it, or write another file.",
            path=path,
        )
    standing = next(above for above in place.parents if tree.kind_of(above) is not None)
    if tree.kind_of(standing) != "folder":
        raise _no_file(path, f"{standing.name!r} on the way there is no folder")


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


def _outside(path: str, why: str) -> Refused:
    return Refused(
        f"{path!r} is not a path of the workspace: {why}",
        code="outside_workspace",
        next="Use a path relative to the workspace, to a file in it.",
        path=path,
    )


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


def _no_file(path: str, why: str) -> Refused:
    return Refused(
        f"{path!r} is not a file and cannot become one: {why}",
        code="not_a_file",
        next="Choose the path of a file; list_files shows which there are.",
        path=path,
    )
