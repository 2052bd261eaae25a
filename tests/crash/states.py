"""Every disk that a power cut may leave behind: which of the steps that nothing has pinned are there, and which not.

The model is weaker than any real file system, on purpose: a write is one step for each piece of the device and one for
the size; a change of a name is one step of its folder; a cut is one step; the sync of a file pins its bytes and its
size, not its name; the sync of a folder pins its names; everything else is there or not, in any combination. What is
missing inside a file reads as zeros.

Source:
    shared reliability reference, section b; the model is that of ALICE (OSDI 2014).
"""

import hashlib
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.crash.trace import Bytes, Cut, Folder, Name, Op, Said, Swap, SyncFile, SyncFolder


class Bounds(NamedTuple):
    """How much is tried: all subsets of up to `whole` free steps; beyond that the rules, and `samples` by chance."""

    piece: int = 512
    whole: int = 10
    samples: int = 200
    pairs: int = 48
    seed: int = 7


class Step(NamedTuple):
    """One thing that is on the device or not. Its key is the inode, or the folder whose names it changes."""

    key: int | str
    what: Name | Swap | Folder | Bytes | Cut
    size: int = -1
    """Of a step that only makes a file as long as this."""


class State(NamedTuple):
    """One legal disk, after `op` calls: its folders, its files by path as digests, and how much had been said."""

    op: int
    folders: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...]
    said: int


def steps_of(op: Op, piece: int) -> Iterator[Step]:
    """What a call leaves to be written to the device."""
    if isinstance(op, Name | Swap | Folder):
        yield Step(op.folder, op)
    elif isinstance(op, Cut):
        yield Step(op.inode, op)
    elif isinstance(op, Bytes):
        end, at = op.at + len(op.data), op.at
        while at < end:
            behind = min(end, at - at % piece + piece)
            yield Step(op.inode, Bytes(op.inode, at, op.data[at - op.at : behind - op.at]))
            at = behind
        yield Step(op.inode, op, end)


def subsets(free: Sequence[int], bounds: Bounds, chance: random.Random) -> Iterator[tuple[int, ...]]:
    """Every choice while there are few; else none, all, prefixes, one missing, one alone, two missing, and samples."""
    if len(free) <= bounds.whole:
        for size in range(len(free) + 1):
            yield from itertools.combinations(free, size)
        return
    every = tuple(free)
    yield from (every[:number] for number in range(len(every) + 1))
    yield from (tuple(step for step in every if step != left) for left in every)
    yield from ((step,) for step in every)
    if len(every) <= bounds.pairs:
        yield from (tuple(s for s in every if s not in pair) for pair in itertools.combinations(every, 2))
    for _ in range(bounds.samples):
        share = chance.choice((0.1, 0.5, 0.9))
        yield tuple(step for step in every if chance.random() < share)


Tree = tuple[set[str], dict[str, int]]
"""Folders, and inodes by their paths."""


class Disks:
    """The states of one trace. `contents` holds what the files of the state at hand hold, by digest."""

    def __init__(self, ops: Sequence[Op], bounds: Bounds) -> None:
        self.ops = ops
        self.bounds = bounds
        self.contents: dict[bytes, bytes] = {}
        self.enumerated = 0
        self._top = next(op.path for op in ops if isinstance(op, Folder))
        self._steps: list[Step] = []
        self._of_file: dict[int, list[int]] = {}
        self._of_folder: dict[str, list[int]] = {}
        self._names: list[int] = []
        self._free: dict[int, None] = {}
        self._begun: dict[int, tuple[int, Content]] = {}

    def __iter__(self) -> Iterator[State]:
        """Each distinct state once, with as much said as had been said when it was first legal."""
        seen: set[int] = set()
        chance, said = random.Random(self.bounds.seed), 0
        for number, op in enumerate(self.ops):
            if isinstance(op, Said):
                said += 1
            else:
                self._advance(op)
            for state in self._after(number, said, chance):
                key = hash((state.folders, state.files, said))
                if key not in seen:
                    seen.add(key)
                    yield state

    def _advance(self, op: Op) -> None:
        if isinstance(op, SyncFile):
            self._pin(self._of_file.get(op.inode, ()))
        elif isinstance(op, SyncFolder):
            self._pin(self._of_folder.get(op.folder, ()))
        else:
            for step in steps_of(op, self.bounds.piece):
                number = len(self._steps)
                self._steps.append(step)
                self._free[number] = None
                if isinstance(step.key, int):
                    self._of_file.setdefault(step.key, []).append(number)
                else:
                    self._of_folder.setdefault(step.key, []).append(number)
                    self._names.append(number)

    def _pin(self, steps: Sequence[int]) -> None:
        for step in steps:
            self._free.pop(step, None)

    def _after(self, number: int, said: int, chance: random.Random) -> Iterator[State]:
        """The states that are legal after so many calls."""
        free = tuple(self._free)
        self.contents.clear()
        known: dict[tuple[int, tuple[int, ...]], bytes] = {}
        # What stands before the first name that is free is in each of them.
        begun = next((place for place, step in enumerate(self._names) if step in self._free), len(self._names))
        base, rest = self._tree((set(), {}), self._names[:begun], set()), self._names[begun:]
        for chosen in subsets(free, self.bounds, chance):
            self.enumerated += 1
            missing = set(free).difference(chosen)
            folders, names = self._reached(*self._tree(base, rest, missing))
            files = tuple((path, self._digest(inode, missing, known)) for path, inode in sorted(names.items()))
            yield State(number, tuple(sorted(folders)), files, said)

    def _tree(self, base: Tree, steps: Iterable[int], missing: set[int]) -> Tree:
        """Folders and names when these steps, but the missing ones, have come to others."""
        folders, names = base[0].copy(), base[1].copy()
        for number in steps:
            what = self._steps[number].what
            if number in missing:
                continue
            if isinstance(what, Folder):
                (folders.discard if what.gone else folders.add)(what.path)
            elif isinstance(what, Name):
                names.pop(what.takes, None)
                if what.gives:
                    names[what.gives] = what.inode
            elif isinstance(what, Swap):
                names[what.one], names[what.other] = what.first, what.second
        return folders, names

    def _reached(self, folders: set[str], names: dict[str, int]) -> Tree:
        reached = {path for path in folders if _reached(path, folders, self._top)}
        return reached, {path: inode for path, inode in names.items() if path.rpartition("/")[0] in reached}

    def _digest(self, inode: int, missing: set[int], known: dict[tuple[int, tuple[int, ...]], bytes]) -> bytes:
        steps = self._of_file.get(inode, [])
        gaps = tuple(step for step in steps if step in missing)
        if (inode, gaps) not in known:
            data = self._content(inode, steps, gaps)
            digest = hashlib.blake2b(data, digest_size=16).digest()
            self.contents[digest] = data
            known[inode, gaps] = digest
        return known[inode, gaps]

    def _content(self, inode: int, steps: Sequence[int], gaps: tuple[int, ...]) -> bytes:
        """What a file holds without these steps; what stands before the first of them is made once."""
        whole = steps.index(gaps[0]) if gaps else len(steps)
        begun = self._begun.get(inode)
        if begun is None or begun[0] > whole:
            begun = 0, Content()
        made = begun[1].with_steps(self._steps[step] for step in steps[begun[0] : whole])
        self._begun[inode] = whole, made
        return made.with_steps(self._steps[step] for step in steps[whole:] if step not in gaps).data


class Content(NamedTuple):
    """What a file holds: the blocks that were written, and how many bytes of them the file has."""

    blocks: bytes = b""
    size: int = 0

    @property
    def data(self) -> bytes:
        """As a reader sees it."""
        return self.blocks[: self.size].ljust(self.size, b"\0")

    def with_steps(self, steps: Iterable[Step]) -> "Content":
        """The same when these steps are on the device as well."""
        data, size = bytearray(self.blocks), self.size
        for step in steps:
            if isinstance(step.what, Cut):
                size = min(size, step.what.size)
                del data[step.what.size :]
            elif step.size >= 0:
                size = max(size, step.size)
            elif isinstance(step.what, Bytes):
                end = step.what.at + len(step.what.data)
                data.extend(bytes(max(0, end - len(data))))
                data[step.what.at : end] = step.what.data
        return Content(bytes(data), size)


def _reached(path: str, folders: set[str], top: str) -> bool:
    """Is the folder there, and each above it?"""
    while path != top:
        if path not in folders:
            return False
        path = path.rpartition("/")[0]
    return top in folders
