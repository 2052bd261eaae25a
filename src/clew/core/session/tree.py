"""Entries of a session as numbers: who follows whom, of which kind, and where each stands. No contents, no names."""

from array import array
from collections.abc import Iterator
from enum import IntEnum

NOWHERE = -1


class Kind(IntEnum):
    """What an entry is, as far as a reader must know without looking at it again."""

    UNKNOWN = 0
    MESSAGE = 1
    ASSISTANT = 2
    SYSTEM = 3
    RESULT = 4
    MODEL = 5
    LEVEL = 6
    TOOLS = 7
    COMPACTION = 8
    BRANCH_SUMMARY = 9
    CUSTOM = 10
    CUSTOM_MESSAGE = 11
    LABEL = 12
    TITLE = 13
    USAGE = 14
    EDIT = 15
    LEAF = 16
    COMPANION = 17


MESSAGES = frozenset((Kind.MESSAGE, Kind.ASSISTANT, Kind.SYSTEM, Kind.RESULT, Kind.CUSTOM_MESSAGE))


class Tree:
    """About forty bytes an entry; the parent of an entry always has a smaller number than its own.

    Attributes:
        parents: By number; `NOWHERE` above a root.
        compacted: The nearest compaction at or above.
        parts: Which of several writes on one line, where that is not the first.
    """

    __slots__ = ("_depths", "_jumps", "compacted", "kinds", "lines", "offsets", "parents", "parts", "sizes")

    def __init__(self) -> None:
        self.parents = array("i")
        self.kinds = array("B")
        self.lines = array("I")
        self.offsets = array("Q")
        self.sizes = array("Q")
        self.compacted = array("i")
        self.parts: dict[int, int] = {}
        self._depths = array("I")
        self._jumps = array("i")

    def __len__(self) -> int:
        return len(self.parents)

    def add(self, parent: int, kind: Kind, *, line: int, byte: int, size: int, part: int = 0) -> int:
        """Enter one entry below another; its number."""
        node = len(self.parents)
        self.parents.append(parent)
        self.kinds.append(kind)
        self.lines.append(line)
        self.offsets.append(byte)
        self.sizes.append(size)
        above = NOWHERE if parent == NOWHERE else self.compacted[parent]
        self.compacted.append(node if kind == Kind.COMPACTION else above)
        if part:
            self.parts[node] = part
        self._depths.append(0 if parent == NOWHERE else self._depths[parent] + 1)
        self._jumps.append(node if parent == NOWHERE else self._jump(parent))
        return node

    def _jump(self, parent: int) -> int:
        """Where a child of this entry jumps to: so laid out, any entry above is found in a logarithm of steps."""
        depths, jump = self._depths, self._jumps[parent]
        far = self._jumps[jump]
        return far if depths[parent] - depths[jump] == depths[jump] - depths[far] else parent

    def leads_to(self, upper: int, lower: int) -> bool:
        """Is `upper` the same entry as `lower`, or one above it?"""
        depths, jumps, parents = self._depths, self._jumps, self.parents
        aim = depths[upper]
        while depths[lower] > aim:
            jump = jumps[lower]
            lower = jump if depths[jump] >= aim else parents[lower]
        return lower == upper

    def path(self, leaf: int) -> list[int]:
        """From the root down to an entry; nothing for `NOWHERE`."""
        found = []
        while leaf != NOWHERE:
            found.append(leaf)
            leaf = self.parents[leaf]
        found.reverse()
        return found

    def walk(self) -> Iterator[int]:
        """Each entry twice, a branch at a time: `node` on the way down, `~node` when all below it was seen."""
        children, following = array("i", [NOWHERE]) * len(self), array("i", [NOWHERE]) * len(self)
        root = NOWHERE
        for node in range(len(self) - 1, -1, -1):
            parent = self.parents[node]
            if parent == NOWHERE:
                following[node], root = root, node
            else:
                following[node], children[parent] = children[parent], node
        while root != NOWHERE:
            yield from self._below(root, children, following)
            root = following[root]

    def _below(self, root: int, children: "array[int]", following: "array[int]") -> Iterator[int]:
        node = root
        while True:
            yield node
            if children[node] != NOWHERE:
                node = children[node]
                continue
            yield ~node
            while node != root and following[node] == NOWHERE:
                node = self.parents[node]
                yield ~node
            if node == root:
                return
            node = following[node]
