"""Calls and results are matched along branches."""

from typing import Any

import pytest

from clew.core.session.calls import Calls, calls_in
from clew.core.session.lines import BadLine
from clew.core.session.tree import NOWHERE, Kind, Tree


def chain(*parents: int, kinds: dict[int, Kind] | None = None) -> Tree:
    tree = Tree()
    for node, parent in enumerate(parents):
        tree.add(parent, (kinds or {}).get(node, Kind.MESSAGE), line=node, byte=0, size=1)
    return tree


def test_a_call_without_a_result_on_any_branch_is_open() -> None:
    """C01: it may have taken effect, and nobody knows."""
    calls = Calls(chain(-1, 0, 0))
    calls.call("a", "pay", 0)
    calls.call("b", "look", 0)
    calls.result("a", 2)

    assert ([("b", 1)], ("look", 0), []) == (list(calls.open()), calls.named(1), calls.parted)


def test_a_result_belongs_to_the_call_on_its_branch() -> None:
    """Some providers name their calls alike in every turn."""
    calls = Calls(chain(-1, 0, 0))
    calls.call("a", "pay", 1)
    calls.call("a", "pay", 2)
    calls.result("a", 1)

    assert ([("a", 1)], []) == (list(calls.open()), calls.strays)


def test_a_result_whose_call_is_not_above_is_a_stray() -> None:
    """C06: a provider refuses a conversation with such a result for ever."""
    calls = Calls(chain(-1, 0, NOWHERE))
    calls.call("a", "pay", 1)
    calls.result("a", 2)
    calls.result("b", 1)

    assert [(2, "a"), (1, "b")] == calls.strays


def test_results_on_two_branches_are_no_double() -> None:
    """A user goes back and tries again: that is what branches are for."""
    calls = Calls(chain(-1, 0, 0, 1))
    calls.call("a", "pay", 0)
    calls.result("a", 1)
    calls.result("a", 2)
    calls.result("a", 3)

    assert [("a", 0, 3)] == calls.doubles


def test_a_compaction_between_a_call_and_its_result_is_noticed() -> None:
    """C09: the context behind it begins with a result that nobody asked for."""
    calls = Calls(chain(-1, 0, 1, kinds={1: Kind.COMPACTION}))
    calls.call("a", "pay", 0)
    calls.result("a", 2)

    assert [("a", 0, 1)] == calls.parted


def test_calls_are_read_in_order() -> None:
    """Results go to a provider in the order of the calls."""
    content = [{"type": "toolCall", "id": str(n), "name": "pay"} for n in range(3)]

    assert [("0", "pay"), ("1", "pay"), ("2", "pay")] == list(
        calls_in({"content": [{"type": "text"}, "odd", *content]})
    )
    assert [] == list(calls_in({"content": "text"}))


@pytest.mark.parametrize("block", [{"type": "toolCall", "name": "x"}, {"type": "toolCall", "id": "1"}])
def test_a_block_that_cannot_be_read_is_refused(block: Any) -> None:
    """C111: a call that was skipped would be an effect that nobody counts."""
    with pytest.raises(BadLine) as caught:
        list(calls_in({"content": [block]}))

    assert "bad_member" == caught.value.reason
