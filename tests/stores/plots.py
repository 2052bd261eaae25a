"""Folders with everything in them that a checkpoint knows: made from a manifest, and read back without our code."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from hypothesis import strategies as st

from clew.core.checkpoint import ABSENT, PathState
from clew.stores.base import BlobStore, PutBack

MARK = "abcdefgh234567ab"
CONTENTS = (
    b"", b"a", b"one\r\ntwo\r\n", "\ufefftext".encode(), "\u4f60\u597d".encode("gb18030"), bytes(range(256)) * 16,
    b"line\n" * 4000, "text".encode("utf-16"), b"clew-blob 1 zlib\nno", b"clew-blob 1 plain\n" + b"x" * 5000,
)  # fmt: skip


class File(bytes):
    """The content of a file with a mode."""

    mode: int = 0o644

    def __new__(cls, data: bytes, mode: int = 0o644) -> Self:
        made = super().__new__(cls, data)
        made.mode = mode
        return made


class Link(str):
    """What a link says."""

    __slots__ = ()


class Dir(int):
    """A folder of a mode."""


Thing = File | Link | Dir
Tree = Mapping[str, Thing]


def state_of(thing: Thing | None) -> PathState:
    """What a manifest says of it."""
    if thing is None:
        return ABSENT
    if isinstance(thing, File):
        return PathState("file", hashlib.sha256(thing).hexdigest(), len(thing), thing.mode)
    return PathState("link", target=str(thing)) if isinstance(thing, Link) else PathState("folder", mode=int(thing))


def build(root: Path, tree: Tree) -> None:
    """Make the folder be exactly this tree."""
    if root.exists():
        # An ordinary user cannot empty a folder that is closed to its owner.
        for place in (place for place in root.rglob("*") if place.is_dir() and not place.is_symlink()):
            place.chmod(0o755)
        shutil.rmtree(root)
    root.mkdir()
    for path in sorted(tree, key=lambda path: path.split("/")):
        thing, place = tree[path], root / path
        if isinstance(thing, File):
            place.write_bytes(thing)
            place.chmod(thing.mode)
        elif isinstance(thing, Link):
            place.symlink_to(str(thing))
        else:
            place.mkdir()
    for path in sorted(tree, reverse=True):
        thing = tree[path]
        if isinstance(thing, Dir):
            (root / path).chmod(int(thing))


def read(root: Path) -> dict[str, PathState]:
    """Everything that lies in the folder, temp files too."""
    found: dict[str, PathState] = {}
    for place in root.rglob("*"):
        info = place.lstat()
        path, mode = str(place.relative_to(root)), info.st_mode & 0o7777
        if place.is_symlink():
            found[path] = PathState("link", target=os.readlink(place))
        elif place.is_dir():
            found[path] = PathState("folder", mode=mode)
        else:
            data = place.read_bytes()
            found[path] = PathState("file", hashlib.sha256(data).hexdigest(), len(data), mode)
    return found


def states(tree: Tree) -> dict[str, PathState]:
    """The same of a tree."""
    return {path: state_of(thing) for path, thing in tree.items()}


def is_closed(tree: Tree) -> bool:
    """Is something in a folder that this user may not change?"""
    shut = [path for path, thing in tree.items() if isinstance(thing, Dir) and not int(thing) & 0o200]
    return os.geteuid() != 0 and any(path.startswith(f"{folder}/") for folder in shut for path in tree)


def plan_of(now: Tree, wanted: Tree, paths: Iterable[str] | None = None) -> list[PutBack]:
    """From one tree to another."""
    named = sorted({*now, *wanted}) if paths is None else sorted(paths)
    return [PutBack(path, state_of(now.get(path)), state_of(wanted.get(path))) for path in named]


def keep_all(blobs: BlobStore, *trees: Tree) -> None:
    """Their contents as blobs."""
    for tree in trees:
        for thing in tree.values():
            if isinstance(thing, File):
                blobs.put(bytes(thing))


_NAMES = st.sampled_from(["a", "b", "\u00fc", "\udcff", "c d", "x" * 200])
_MODES = st.sampled_from([0o644, 0o600, 0o755, 0o444, 0o640, 0o4755, 0o2750])
things = st.one_of(
    st.builds(File, st.sampled_from(CONTENTS), _MODES),
    st.builds(Link, st.sampled_from(["a", "../a", "/nowhere", "b/a", "\udcfe"])),
    st.sampled_from([0o755, 0o700, 0o555, 0o1777]).map(Dir),
)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Thing]:
    """A tree of at most three levels, any kind at any place."""
    tree: dict[str, Thing] = {}
    for way in [""] + [f"{name}/" for name in ("a", "b", "\udcff")] + ["a/b/"]:
        above = way.rstrip("/")
        if above and not isinstance(tree.get(above), Dir):
            continue
        for name in draw(st.lists(_NAMES, max_size=3, unique=True)):
            tree[way + name] = draw(things)
    return tree
