"""A look over a home's folder: what lies there that should not, what waits. Opens no journal and changes nothing."""

import re
from itertools import islice
from pathlib import Path
from typing import Any, Final

from clew.core.checkup import Some, Survey, Volume
from clew.disk import files, process
from clew.disk.tree import Entry, kind_of, walk
from clew.disk.volume import too_open, volume_of
from clew.errors import ClewError
from clew.stores.foreign import is_foreign
from clew.stores.homefile import HomeFile
from clew.stores.inbox import FileInbox

LOOKS: Final = 200_000
"""So many files and folders are looked at; a larger home is said to be larger."""
KEPT: Final = 1000

_PID = re.compile(r"\.(\d+)-\d+\.tmp\Z")
TORN: Final = "torn-"


def survey(root: Path, *, looks: int = LOOKS) -> Survey:
    """Look over a home.

    Args:
        root: The home's folder.
        looks: At most so many files and folders.

    Returns:
        What was found; the examples of each kind are bounded.

    """
    judged = _judged(root)
    seen = _Seen(root)
    entries = walk(root)
    for entry in islice(entries, looks):
        seen.look(entry)
    commands, strange = _commands(root, seen.inboxes)
    return Survey(
        path=str(root),
        volume=Volume(**volume_of(root)._asdict()),
        **judged,
        ignored=is_foreign(root) or _is_ignored(root),
        left_behind=seen.left_behind,
        too_open=seen.too_open,
        denied=seen.denied,
        links=seen.links,
        misplaced=seen.misplaced,
        pieces=tuple(seen.pieces),
        commands=tuple(commands[:KEPT]),
        strange_commands=strange,
        whole=next(entries, None) is None,
        sizes=seen.sizes,
    )


def _judged(root: Path) -> dict[str, Any]:
    """What `home.json` says, or why it says nothing."""
    if is_foreign(root):
        return {"standing": "foreign"}
    try:
        judged = HomeFile(root).judge()
    except ClewError as fault:
        return {"standing": "unreadable", "why": fault.message, "exit": fault.exit_code}
    return {"standing": judged.standing, "why": judged.why}


def _is_ignored(root: Path) -> bool:
    """Is there a `.gitignore`? Where nobody may look, that is met on the walk."""
    try:
        return kind_of(root / ".gitignore") is not None
    except ClewError:
        return True


class _Seen:
    """What one walk over a home has met so far."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ours = not is_foreign(root)
        self._runs = root / "runs"
        self.left_behind = Some()
        self.too_open = Some()
        self.denied = Some()
        self.links = Some()
        self.misplaced = Some()
        self.pieces: list[dict[str, str]] = []
        self.inboxes: list[str] = []
        self.sizes: dict[str, tuple[int, int]] = {}

    def look(self, entry: Entry) -> None:
        """One more file or folder."""
        path, name = entry.path, entry.path.name
        if entry.kind == "denied":
            self.denied = self.denied.plus(path=str(path))
        elif entry.kind == "link":
            self.links = self.links.plus(path=str(path))
        else:
            if too_open(entry.mode):
                self.too_open = self.too_open.plus(path=str(path), mode=f"{entry.mode & 0o777:04o}")
            wanted = _wanted(path.relative_to(self._root).parts)
            if self._ours and (entry.kind == "other" or wanted not in ("", entry.kind)):
                self.misplaced = self.misplaced.plus(path=str(path), kind=entry.kind, wanted=wanted)
            if entry.kind == "file":
                self._measure(path.relative_to(self._root).parts, entry.size_bytes)
            if files.is_temp(name) and left_behind(name):
                self.left_behind = self.left_behind.plus(path=str(path))
            elif path.parent.parent == self._runs:
                self._in_a_run(path, name)

    def _measure(self, place: tuple[str, ...], size_bytes: int) -> None:
        """Count a file for its folder, and a journal for the journals too."""
        journal = len(place) == 2 and place[0] == "runs" and place[1].endswith(".jsonl")
        for name in (place[0], "journals") if journal else (place[0],):
            count, size = self.sizes.get(name, (0, 0))
            if len(place) > 1:
                self.sizes[name] = (count + 1, size + size_bytes)

    def _in_a_run(self, path: Path, name: str) -> None:
        if name.startswith(TORN) and len(self.pieces) < KEPT:
            self.pieces.append({"run": path.parent.name, "name": name})
        elif name == "inbox":
            self.inboxes.append(path.parent.name)


def _wanted(place: tuple[str, ...]) -> str:
    """What belongs at a place of a home, by its names below it: `file`, `folder`, or empty where that is not said."""
    match place:
        case ("runs" | "blobs" | "sessions" | "keys" | "covers",) | ("blobs", _) | ("runs", _, "inbox"):
            return "folder"
        case ("home.json" | ".gitignore" | "lock",) | ("blobs", _, _) | ("runs", _, "head.json"):
            return "file"
        case ("runs", name) if name.endswith(".jsonl"):
            return "file"
    return ""


def left_behind(name: str) -> bool:
    """Is the process that made a temp file gone? One of another host or namespace may still be at work on it."""
    found = _PID.search(name)
    return found is not None and process.look(int(found[1])).state in ("none", "zombie")


def _commands(root: Path, run_ids: list[str]) -> tuple[list[dict[str, str]], Some]:
    """The commands without an answer, and the paths of what is none."""
    waiting: list[dict[str, str]] = []
    strange: list[dict[str, Any]] = []
    for run_id in run_ids:
        try:
            inbox = FileInbox(files.below(root, "runs"), run_id)
            found = inbox.pending()
            waiting += [{"run": run_id, "id": each.control_id, "type": each.type} for each in found]
            strange += [{"path": path} for path in inbox.unreadable()]
        except ClewError:
            # A folder that cannot be listed was met on the walk.
            continue
    return waiting, Some.of(strange)
