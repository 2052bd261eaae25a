"""Calls and results are matched along branches."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    calls.result("b", 1)
    calls.result("a", 2)

    assert [(1, "b"), (2, "a")] == calls.strays


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


def naive(tree: Tree, calls: list[tuple[str, int]], results: list[tuple[str, int]]) -> tuple[Any, Any, Any]:
    """Calls without a result, doubles, strays, by looking at each result's way to the root."""
    owner: dict[int, int | None] = {}
    for place, (name, node) in enumerate(results):
        above = [number for number, (other, at) in enumerate(calls) if other == name and tree.leads_to(at, node)]
        owner[place] = max(above, key=lambda number: (len(tree.path(calls[number][1])), number), default=None)
    doubles = [
        (name, owner[place], node)
        for place, (name, node) in enumerate(results)
        if owner[place] is not None
        and any(
            owner[other] == owner[place] and tree.leads_to(at, node) for other, (_, at) in enumerate(results[:place])
        )
    ]
    answered = set(owner.values())
    opened = [(name, number) for number, (name, _) in enumerate(calls) if number not in answered]
    return opened, doubles, [(node, name) for place, (name, node) in enumerate(results) if owner[place] is None]


@given(st.lists(st.integers(-1, 30), min_size=1, max_size=30), st.data())
def test_one_walk_finds_what_a_look_at_each_result_finds(wishes: list[int], data: st.DataObject) -> None:
    """Property: trees of any shape, few ids, so that they meet; asked twice, for more may be said in between."""
    tree = chain(*(NOWHERE if wish < 0 or node == 0 else wish % node for node, wish in enumerate(wishes)))
    nodes, name = st.integers(0, len(wishes) - 1), st.sampled_from("ab")
    asked = sorted(data.draw(st.lists(st.tuples(name, nodes), max_size=20)), key=lambda each: each[1])
    results = st.lists(st.tuples(name, nodes), max_size=20, unique_by=lambda each: each[1])
    told = sorted(data.draw(results), key=lambda each: each[1])
    calls = Calls(tree)
    for call_id, node in asked:
        calls.call(call_id, "pay", node)
    list(calls.open())
    for call_id, node in told:
        calls.result(call_id, node)

    assert naive(tree, asked, told) == (list(calls.open()), calls.doubles, calls.strays)


def test_very_many_calls_of_one_id_side_by_side_are_matched_on_one_walk() -> None:
    """A file of a stranger must not keep a reader busy for an hour: each result looked at each call once."""
    steps = 0

    class Counting(Tree):
        def leads_to(self, upper: int, lower: int) -> bool:
            nonlocal steps
            steps += 1
            return super().leads_to(upper, lower)

    tree = Counting()
    calls = Calls(tree)
    for node in range(2001):
        tree.add(NOWHERE if node == 0 else 0, Kind.MESSAGE, line=node, byte=0, size=1)
        if 0 < node <= 1000:
            calls.call("a", "pay", node)
        elif node:
            calls.result("a", node)

    assert (1000, 1000, True) == (len(list(calls.open())), len(calls.strays), steps < 10_000)
