"""A search through the text files of the workspace. What was not searched is counted, never passed over."""

import glob
from collections import Counter
from functools import partial
from pathlib import PurePath
from typing import Any

from clew.errors import NothingHappened, Refused
from clew.runtime.tools import Call, Failed, Tool
from clew.stores.base import Found, Listing

MOST_LINES = 10_000
MOST_FILES = 100_000
MOST_TIMEOUT_S = 600.0
_NAMED = 20


@partial(Tool, effect="none", builtin=True)
def search_files(
    call: Call, pattern: str, path: str = ".", files: str = "**/*", ignore_case: bool = False, limit: int = 200,
    timeout_s: float = 30.0,
) -> dict[str, Any] | Failed:  # fmt: skip
    """Search the text files of the workspace, line by line, for a regular expression of Python's `re`.

    The search runs in a process of its own and is killed when its time is over, for nothing else ends a pattern that
    backtracks. Links that lead out of the workspace, `.clew` and `.git` are left out.

    Args:
        call: Whose workspace it is.
        pattern: Is looked for within each line, without its line end.
        path: A file, or the folder below which is searched; relative to the workspace, with `/`.
        files: Which files below `path`: `*`, `?` and `[…]` stay within one name, `**` is any number of folders.
        ignore_case: Letters are the same in both cases.
        limit: With more lines the call fails; the answer's value has the first of them.
        timeout_s: Seconds it may take.

    Returns:
        `matches`, file by file as `list_files` lists them: `path`, `line` and `column` (from 1), `text`, and `cut`
        where this is the part of a long line around the match. `searched`: how many files, to their ends. `skipped`:
        how many were not, by reason: `binary` (a NUL at the beginning), `not_utf8`, `too_long` (16 MiB),
        `unreadable`; then `skippedFirst` names the first of them.
    """
    if not 1 <= limit <= MOST_LINES:
        raise NothingHappened(f"limit is {limit}; it may be 1 to {MOST_LINES}")
    if not 0 < timeout_s <= MOST_TIMEOUT_S:
        raise NothingHappened(f"timeout_s is {timeout_s}; it may be more than 0 and at most {MOST_TIMEOUT_S:g}")
    try:
        paths, unread = _files(call, path, files)
        if isinstance(paths, Failed):
            return paths
        found = call.workspace.search(pattern, paths, limit=limit, ignore_case=ignore_case, timeout_s=timeout_s)
    except Refused as refused:
        raise NothingHappened(refused.message) from None
    return _told(found, unread, limit)


def _files(call: Call, path: str, files: str) -> tuple[tuple[str, ...] | Failed, tuple[str, ...]]:
    """Which files are to be searched, and what could not be looked into; a search of none is no search."""
    place = PurePath(call.workspace.resolve(path)).relative_to(call.workspace.resolve("."))
    below = [glob.escape(part) for part in place.parts]
    found = call.workspace.listing("/".join(below), 1) if below else Listing(())
    if not found.paths:
        found = call.workspace.listing("/".join([*below, files]), MOST_FILES)
    if found.more:
        return Failed(f"more than {MOST_FILES} files match; say a narrower path or files"), ()
    if not found.paths:
        return Failed(f"there is no file {files!r} below {path!r} to search"), ()
    return found.paths, found.unread


def _told(found: Found, unread: tuple[str, ...], limit: int) -> dict[str, Any] | Failed:
    skipped = [*found.skipped, *((path, "unreadable") for path in unread)]
    value: dict[str, Any] = {"matches": list(found.matches), "searched": found.searched}
    if skipped:
        value["skipped"] = dict(sorted(Counter(why for _, why in skipped).items()))
        value["skippedFirst"] = [path for path, _ in skipped[:_NAMED]]
    if found.more:
        return Failed(f"more than {limit} lines match: all after these are cut", value)
    return value
