"""Calls and results of a session, matched along its branches as it is read. What a model is sent is not here."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from clew.core.session.lines import BadLine
from clew.core.session.naming import Names
from clew.core.session.tree import NOWHERE, Tree


class Calls:
    """Which call has which result: some thirty bytes a call and its id.

    A result belongs to the nearest call of its id above it. They are matched when it is asked for, on one walk over
    the tree, so that it costs the same whatever a stranger's file holds.
    """

    __slots__ = (
        "_ids",
        "_names",
        "_nodes",
        "_pairs",
        "_result_names",
        "_result_nodes",
        "_tool_names",
        "_tools",
        "_tree",
    )

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._ids = Names()
        self._names = array("i")
        self._nodes = array("i")
        self._tool_names = Names()
        self._tools = array("i")
        self._result_names = array("i")
        self._result_nodes = array("i")
        self._pairs: Pairs | None = None

    def call(self, call_id: str, tool: str, node: int) -> None:
        """An entry holds this call. Entries come in their order."""
        self._names.append(self._ids.add(call_id))
        self._nodes.append(node)
        self._tools.append(self._tool_names.add(tool))
        self._pairs = None

    def result(self, call_id: str, node: int) -> None:
        """An entry is the result of this call."""
        self._result_names.append(self._ids.add(call_id))
        self._result_nodes.append(node)
        self._pairs = None

    def named(self, number: int) -> tuple[str, int]:
        """The tool of a call, and its entry."""
        return self._tool_names.at(self._tools[number]), self._nodes[number]

    def open(self) -> Iterator[tuple[str, int]]:
        """Id and number of each call that has no result on any branch, in the order of the file."""
        answered = self._matched().answered
        return ((self._ids.at(self._names[number]), number) for number, has in enumerate(answered) if not has)

    @property
    def doubles(self) -> list[tuple[str, int, int]]:
        """Call id, number of the call, and the entry of a second result on one branch."""
        return [(self._ids.at(self._names[number]), number, node) for node, number in self._matched().doubles]

    @property
    def strays(self) -> list[tuple[int, str]]:
        """Entries of results without their call above them, and the ids of those calls."""
        return [(node, self._ids.at(name)) for node, name in self._matched().strays]

    @property
    def parted(self) -> list[tuple[str, int, int]]:
        """Call id, number of the call, and the compaction that stands between it and its result."""
        found = ((number, self._tree.compacted[node]) for node, number in self._matched().parted)
        return [(self._ids.at(self._names[number]), number, compaction) for number, compaction in found]

    def _matched(self) -> "Pairs":
        if self._pairs is None:
            self._pairs = Pairs(self._names, self._nodes, self._result_names, self._result_nodes, len(self._ids))
            self._pairs.match(self._tree)
        return self._pairs


class Pairs:
    """Calls and results of one tree, matched. Numbers of calls and names, no texts.

    Attributes:
        answered: By number of the call: has it a result?
        doubles, parted: Entry of the result, number of its call.
        strays: Entry of the result, number of the name that it gives.
    """

    def __init__(
        self, names: "array[int]", nodes: "array[int]", result_names: "array[int]", result_nodes: "array[int]", ids: int
    ) -> None:
        self.answered = bytearray(len(names))
        self.doubles: list[tuple[int, int]] = []
        self.parted: list[tuple[int, int]] = []
        self.strays: list[tuple[int, int]] = []
        self._names = names
        self._nodes = nodes
        self._result_names = result_names
        self._result_nodes = result_nodes
        # Of the entries above: the nearest call of a name, the one that it hides, and how often a call was answered.
        self._nearest = array("i", [NOWHERE]) * ids
        self._hidden = array("i", [NOWHERE]) * len(names)
        self._above = array("i", [0]) * len(names)
        self._owner = array("i", [NOWHERE]) * len(result_names)

    def match(self, tree: Tree) -> None:
        """Walk the tree once, a branch at a time."""
        for node in tree.walk():
            if node >= 0:
                self._enter(node, tree.compacted[node])
            else:
                self._leave(~node)
        for found in (self.doubles, self.parted, self.strays):
            found.sort()

    def _enter(self, node: int, compaction: int) -> None:
        for number in _those_of(self._nodes, node):
            name = self._names[number]
            self._hidden[number], self._nearest[name] = self._nearest[name], number
        for result in _those_of(self._result_nodes, node):
            name = self._result_names[result]
            number = self._owner[result] = self._nearest[name]
            if number == NOWHERE:
                self.strays.append((node, name))
                continue
            if compaction > self._nodes[number]:
                self.parted.append((node, number))
            if self._above[number]:
                self.doubles.append((node, number))
            self._above[number] += 1
            self.answered[number] = True

    def _leave(self, node: int) -> None:
        for result in _those_of(self._result_nodes, node):
            if (number := self._owner[result]) != NOWHERE:
                self._above[number] -= 1
        for number in reversed(_those_of(self._nodes, node)):
            self._nearest[self._names[number]] = self._hidden[number]


def _those_of(nodes: "array[int]", node: int) -> range:
    """Where an entry stands in a list of entries that is in order."""
    first = bisect_left(nodes, node)
    end = first
    while end < len(nodes) and nodes[end] == node:
        end += 1
    return range(first, end)


def calls_in(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Id and tool of each call that an assistant's message holds, in order.

    Raises:
        BadLine: a call lacks its id or name.
    """
    content = message.get("content")
    for block in content if type(content) is list else ():
        if type(block) is dict and block.get("type") == "toolCall":
            if type(block.get("id")) is not str or type(block.get("name")) is not str:
                raise BadLine("a call in it has no id or no name", reason="bad_member")
            yield block["id"], block["name"]
