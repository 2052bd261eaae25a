"""`home.json`: the layout of a home, and whether it is the one that was made here or a copy of it."""

import shlex
from pathlib import Path
from typing import Any, Literal

import msgspec

from clew.disk import files
from clew.disk.look import leads_to_folder
from clew.disk.origin import Origin, origin_of, read_with_origin
from clew.errors import Corrupt, Refused
from clew.stores.published import decode, encode

LAYOUT = 1
NAME = "home.json"
LOCK = "lock"
"""The file that each leg holds beside others, and a prune alone."""
_LIMIT = 1 << 20

Standing = Literal["own", "copy", "unmarked", "missing", "unknown_layout", "corrupt"]


class Unlocked(msgspec.Struct, frozen=True, rename="camel"):
    """Who said that this copy may go on, why and when, and what it was a copy of."""

    by: str
    reason: str
    at: str
    copied_from: dict[str, Any]


class HomeText(msgspec.Struct, frozen=True, rename="camel"):
    """The content of `home.json`. `inode` and `born` are the file's own; None where the file system has no lasting one.

    Source:
        DESIGN §4.
    """

    layout: int
    inode: int | None
    born: str | None
    unlocked: tuple[Unlocked, ...] = ()

    @property
    def origin(self) -> Origin:
        """What the file said of itself when it was written."""
        return Origin(self.inode, self.born)


class _Layout(msgspec.Struct):
    """As much of any `home.json`, older or newer, as must be understood."""

    layout: int


class Judged(msgspec.Struct, frozen=True):
    """How a home stands: `unmarked` is ours, but a copy of it would not be seen; `missing` has no such file yet."""

    standing: Standing
    text: HomeText | None = None
    here: Origin | None = None
    why: str = ""


class HomeFile:
    """The file `home.json` of one home. Making one touches nothing; it is read anew at each question.

    A copy (`cp -r`, a restored backup) is another file, so what the text says of itself does not fit any more. A home
    that is moved within its file system stays the same.

    Source:
        DESIGN §4: "a copied home is read-only for resume until `clew unlock --home`".
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.path = root / NAME

    def judge(self) -> Judged:
        """How the home stands, now. `Storage`, `Refused` (`home_link_refused`) when the file cannot be looked at."""
        found = read_with_origin(self.path, _LIMIT)
        if found is None:
            return Judged("missing")
        data, here = found
        try:
            layout = decode(data, _Layout).layout
            if layout != LAYOUT:
                return Judged("unknown_layout", why=f"layout {layout}")
            text = decode(data, HomeText)
        except ValueError as error:
            return Judged("corrupt", why=f"it does not describe a home: {error}")
        if text.origin.differs(here):
            return Judged("copy", text, here)
        return Judged("own" if text.origin.tells_from(here) else "unmarked", text, here)

    def require_known(self) -> None:
        """Before a run begins: this clew knows how the home is laid out.

        Raises:
            Refused: `home_layout_unknown`. Corrupt: `home_file_corrupt`.
        """
        self._require(self.judge())

    def require_own(self) -> None:
        """Before a run goes on: the home is known, and not a copy whose original may go on as well.

        Raises:
            Refused: `home_copied`, `home_layout_unknown`. Corrupt: `home_file_corrupt`.
        """
        judged = self.judge()
        self._require(judged)
        if judged.standing == "copy":
            raise Refused(
                f"the home {str(self._root)!r} is a copy: its {NAME} was written as another file",
                code="home_copied",
                next="Make sure that the original did not go on since the copy was made, and never does; "
                f"then `clew unlock --home {shlex.quote(str(self._root))} --by NAME --reason TEXT`.",
                path=str(self._root),
                written=None if judged.text is None else judged.text.origin._asdict(),
                here=None if judged.here is None else judged.here._asdict(),
            )

    def make(self) -> None:
        """Publish the file unless there is one; of two that do it at once, one is heard. `Storage`."""
        if files.size_of(self.path) is None:
            files.publish_new(self.path, self._writing(()))

    def found(self) -> None:
        """Make the home's folder with what every home has, where it is not there yet.

        The home itself may be a link, to a disk with more room; nothing below it may.

        Raises:
            Refused: `home_link_refused`, `home_layout_unknown`. Corrupt: `home_file_corrupt`. Storage.
        """
        if not (files.is_link(self._root) and leads_to_folder(self._root)):
            files.make_folder(self._root)
        if files.size_of(self._root / ".gitignore") is None:
            files.publish_new(self._root / ".gitignore", b"*\n")
        self.make()
        self.require_known()

    def unlock(self, by: str, reason: str, at: str) -> dict[str, Any]:
        """Say that this copy is the one that goes on: the file is published anew, as its own.

        A damaged file is replaced as well. Runs are not touched.

        Raises:
            Refused: `nothing_to_unlock` when it is no copy; `home_layout_unknown`. Storage.
        """
        judged = self.judge()
        if judged.standing not in ("copy", "corrupt"):
            if judged.standing == "unknown_layout":
                self._require(judged)
            raise Refused(
                f"the home {str(self._root)!r} is no copy: its {NAME} is its own or not there yet",
                code="nothing_to_unlock",
                next="Go on with `clew resume`.",
                path=str(self._root),
            )
        before = judged.text or HomeText(LAYOUT, None, None)
        said = Unlocked(by, reason, at, {"inode": before.inode, "born": before.born})
        files.publish(self.path, self._writing((*before.unlocked, said)))
        return {"path": str(self._root), "unlocked": msgspec.to_builtins(said), "times": len(before.unlocked) + 1}

    def _writing(self, unlocked: tuple[Unlocked, ...]) -> files.Content:
        return lambda fd: encode(HomeText(LAYOUT, *origin_of(fd, self.path), unlocked)) + b"\n"

    def _require(self, judged: Judged) -> None:
        if judged.standing == "unknown_layout":
            raise Refused(
                f"the home {str(self._root)!r} has {judged.why}; this clew knows layout {LAYOUT}",
                code="home_layout_unknown",
                next="Use the clew that made it, or a newer one.",
                path=str(self._root),
            )
        if judged.standing == "corrupt":
            raise Corrupt(
                f"{str(self.path)!r}: {judged.why}",
                code="home_file_corrupt",
                next=f"Find out what touched it; `clew unlock --home {shlex.quote(str(self._root))} --by NAME "
                "--reason TEXT` writes it anew.",
                path=str(self.path),
                why=judged.why,
            )
