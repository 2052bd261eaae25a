"""The crash point dies where it is told, leaves what it is told, and is otherwise not there."""

import pytest

from clew.stores.memory import MemoryRunStore
from clew.testing.crash import Crash, CrashPoint, crashing
from tests.stores.lab import Hand, read_all


@pytest.mark.parametrize(("keep", "left"), [(0, 0), (7, 7), (None, None)])
def test_it_leaves_what_it_was_told_of_the_append_it_dies_at(keep: int | None, left: int | None) -> None:
    """A death inside of a write is the state that every reader must survive."""
    memory, hand, point = MemoryRunStore(), Hand(), CrashPoint(2, keep)
    store = crashing(memory, point)
    writer = store.create("r1", hand.start(store))
    writer.append(hand.batch({"n": 1}))
    before = len(memory.raw("r1"))
    last = hand.batch({"n": 2})

    with pytest.raises(Crash):
        writer.append(last)

    assert last.data[:left] == memory.raw("r1")[before:]
    assert (True, 2) == (point.struck, len(point.appends))


def test_the_dead_write_nothing_more() -> None:
    """A thread of the dead process may still hold the writer."""
    memory, hand, point = MemoryRunStore(), Hand(), CrashPoint(1, 0)
    store = crashing(memory, point)
    writer = store.create("r1", hand.start(store))
    before, batch = memory.raw("r1"), hand.batch({"n": 1})
    with pytest.raises(Crash):
        writer.append(batch)

    with pytest.raises(Crash):
        writer.append(batch)

    assert before == memory.raw("r1")


def test_a_point_that_never_strikes_changes_nothing() -> None:
    """What is measured with it holds without it."""
    memory, hand, point = MemoryRunStore(), Hand(), CrashPoint()
    store = crashing(memory, point)
    writer = store.create("r1", hand.start(store))
    writer.append(hand.batch({"n": 1}))
    writer.close()

    records, tail = read_all(store.open("r1").read())

    assert ([1, 2], "clean", False) == ([record.sequence for record in records], tail.verdict, point.struck)
