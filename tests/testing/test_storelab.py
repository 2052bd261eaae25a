"""The lab hands on what its author gave, and the hand writes journals that a reader takes for real ones."""

import pytest

from clew.core.chain import genesis
from clew.errors import Corrupt
from clew.stores.memory import MemoryRunStore
from clew.testing.kit import CaseFailed, CaseSkipped
from clew.testing.storelab import Hand, RunStoreLab, born, foreign, go_on, read_all, sample, told, written
from tests.stores.lab import memory_lab


def test_a_lab_hands_on_what_it_was_given() -> None:
    """It adds nothing: what is tested is the author's."""
    memory = MemoryRunStore()
    lab = RunStoreLab(
        lambda: memory, raw=memory.raw, implant=memory.implant, fail=memory.failing, elsewhere="store = None"
    )

    lab.implant("r1", b"{")

    assert (memory, b"{", "store = None") == (lab.store(), lab.raw("r1"), lab.elsewhere())
    with lab.fail("write"):
        assert {"write"} == memory._faults


@pytest.mark.parametrize("name", ["raw", "implant", "fail", "elsewhere"])
def test_a_lack_is_skipped_when_declared_and_fails_otherwise(name: str) -> None:
    """Each of the four, by its name."""
    given = {"raw": ("r1",), "implant": ("r1", b""), "fail": ("sync",), "elsewhere": ()}[name]
    memory = MemoryRunStore()
    bare, honest = RunStoreLab(lambda: memory), RunStoreLab(lambda: memory, cannot={name: "it is a queue"})

    with pytest.raises(CaseFailed, match=f"give the lab its '{name}'"):
        getattr(bare, name)(*given)
    with pytest.raises(CaseSkipped, match=f"this store has no '{name}': it is a queue"):
        getattr(honest, name)(*given)


def test_the_hand_writes_one_chain_from_the_genesis_on() -> None:
    """The cases write by the same rule as the runtime."""
    hand = Hand()
    first, second = hand.batch({"n": 1}), hand.batch({"n": 2}, {"n": 3})

    assert ((1, 1), (2, 3)) == ((first.first, first.last), (second.first, second.last))
    assert (3, second.chain, genesis("r1")) == (hand.sequence, hand.chain, Hand().chain)
    assert (hand.sequence, hand.chain, 9) == (hand.head(9).sequence, hand.head(9).chain, hand.head(9).size_bytes)


def test_a_written_journal_knows_its_lines_and_appends() -> None:
    """The cases compute from it what a reader must say."""
    journal = written([[{}], [{}, {}]])

    assert (3, [0, len(journal.lines[0]), len(b"".join(journal.lines[:2])), len(journal.data)]) == (
        len(journal.lines),
        journal.starts,
    )
    assert [len(journal.lines[0]), len(journal.data)] == journal.ends


@pytest.mark.parametrize("journal", [sample(), foreign(4)], ids=["ours", "theirs"])
def test_the_journals_of_the_kit_are_clean(journal: object) -> None:
    """A case that spoils a bad journal shows nothing."""
    lab, data = memory_lab(), journal.data  # type: ignore[attr-defined]  # both are journals
    lab.implant("r1", data)

    said = told(lambda: lab.store().read("r1"))

    assert ([*range(1, data.count(b"\n") + 1)], "clean", len(data), 0) == said


def test_a_corrupt_place_is_told_as_line_and_byte() -> None:
    """Two readers are compared by it."""
    lab = memory_lab()
    lab.implant("r1", sample().data + b"hello")

    said = told(lambda: lab.store().read("r1"))

    assert ("run_state_corrupt", 7, len(sample().data)) == said
    with pytest.raises(Corrupt):
        read_all(lab.store().read("r1"))


def test_a_run_that_was_born_is_gone_on_with() -> None:
    """What every case begins with."""
    lab = memory_lab()
    writer, hand = born(lab)
    writer.close()
    heir = lab.store().open("r1")

    after = go_on(heir)

    heir.close()
    assert (hand.sequence, hand.chain) == (after.sequence, after.chain)
