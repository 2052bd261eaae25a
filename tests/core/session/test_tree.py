"""Who follows whom, found in few steps."""

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.session.tree import NOWHERE, Kind, Tree


@st.composite
def grown(draw: st.DrawFn) -> tuple[Tree, list[int]]:
    tree, parents = Tree(), []
    for node in range(draw(st.integers(1, 25))):
        parents.append(draw(st.integers(NOWHERE, node - 1) | st.just(node - 1)))
        kind = draw(st.sampled_from([Kind.MESSAGE, Kind.MESSAGE, Kind.COMPACTION]))
        tree.add(parents[-1], kind, line=node, byte=node * 10, size=9)
    return tree, parents


def climbed(parents: list[int], node: int) -> list[int]:
    found = []
    while node != NOWHERE:
        found.append(node)
        node = parents[node]
    return found


@given(grown(), st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_above_is_found(found: tuple[Tree, list[int]], choice: st.DataObject) -> None:
    """A result belongs to a call above it, on its own branch and no other."""
    tree, parents = found
    upper, lower = (choice.draw(st.integers(0, len(tree) - 1)) for _ in range(2))

    assert (upper in climbed(parents, lower)) == tree.leads_to(upper, lower)


@given(grown())
@settings(max_examples=40, deadline=None)
def test_paths_lead_from_the_root(found: tuple[Tree, list[int]]) -> None:
    """The context is read in this order."""
    tree, parents = found
    last = len(tree) - 1

    assert climbed(parents, last)[::-1] == tree.path(last)
    assert [] == tree.path(NOWHERE)


@given(grown())
@settings(max_examples=40, deadline=None)
def test_the_nearest_compaction_is_known(found: tuple[Tree, list[int]]) -> None:
    """A view asks for it first, and must not read a whole path to find it."""
    tree, parents = found
    expected = [
        next((above for above in climbed(parents, node) if tree.kinds[above] == Kind.COMPACTION), NOWHERE)
        for node in range(len(tree))
    ]

    assert expected == list(tree.compacted)


def test_a_long_chain_is_climbed_in_few_steps() -> None:
    """A second result at the end of a long session must not cost a walk of it each time."""
    tree = Tree()
    for node in range(100_000):
        tree.add(node - 1, Kind.MESSAGE, line=node, byte=0, size=1, part=int(node == 7))
    found = [tree.leads_to(0, node) for node in range(90_000, 100_000)]

    assert all(found)
    assert {7: 1} == tree.parts
