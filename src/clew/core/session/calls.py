"""Calls and results of a session, matched along its branches as it is read. What a model is sent is not here."""

from array import array
from collections.abc import Iterator
from typing import Any

from clew.core.session.lines import BadLine
from clew.core.session.naming import NONE, Names
from clew.core.session.tree import NOWHERE, Tree


class Calls:
    """Which call has which result: some fifty bytes a call and its id.

    A result belongs to the nearest call of its id above it.

    Attributes:
        doubles: Call id, number of the call, and the entry of a second result on one branch.
        strays: Entries of results without their call above them, and the ids of those calls.
        parted: Call id, number of the call, and the compaction that stands between it and its result.
    """

    __slots__ = (
        "_before", "_ids", "_last", "_more", "_names", "_nodes", "_results", "_tool_names", "_tools", "_tree",
        "doubles", "parted", "strays",
    )  # fmt: skip

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._ids = Names()
        self._last = array("i")
        self._before = array("i")
        self._names = array("i")
        self._nodes = array("i")
        self._results = array("i")
        self._tool_names = Names()
        self._tools = array("i")
        self._more: dict[int, list[int]] = {}
        self.doubles: list[tuple[str, int, int]] = []
        self.strays: list[tuple[int, str]] = []
        self.parted: list[tuple[str, int, int]] = []

    def call(self, call_id: str, tool: str, node: int) -> None:
        """An entry holds this call."""
        number, name = len(self._nodes), self._ids.add(call_id)
        if name == len(self._last):
            self._last.append(NOWHERE)
        self._before.append(self._last[name])
        self._last[name] = number
        self._names.append(name)
        self._nodes.append(node)
        self._results.append(NOWHERE)
        self._tools.append(self._tool_names.add(tool))

    def result(self, call_id: str, node: int) -> None:
        """An entry is the result of this call."""
        number = self._above(call_id, node)
        if number == NOWHERE:
            self.strays.append((node, call_id))
            return
        parting = self._tree.compacted[node]
        if parting > self._nodes[number]:
            self.parted.append((call_id, number, parting))
        if self._results[number] == NOWHERE:
            self._results[number] = node
            return
        others = self._more.setdefault(number, [self._results[number]])
        if any(self._tree.leads_to(other, node) for other in others):
            self.doubles.append((call_id, number, node))
        else:
            others.append(node)

    def _above(self, call_id: str, node: int) -> int:
        """The last call of this id that stands on the branch of an entry."""
        name = self._ids.find(call_id)
        number = NOWHERE if name == NONE else self._last[name]
        while number != NOWHERE and not self._tree.leads_to(self._nodes[number], node):
            number = self._before[number]
        return number

    def named(self, number: int) -> tuple[str, int]:
        """The tool of a call, and its entry."""
        return self._tool_names.at(self._tools[number]), self._nodes[number]

    def open(self) -> Iterator[tuple[str, int]]:
        """Id and number of each call that has no result on any branch, in the order of the file."""
        return (
            (self._ids.at(self._names[number]), number)
            for number, result in enumerate(self._results)
            if result == NOWHERE
        )


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
