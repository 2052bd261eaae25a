"""What only memory can do: let a writer die without closing."""

import threading

import pytest

from clew.errors import Corrupt, Storage
from clew.stores.memory import MemoryBlobStore
from tests.stores.lab import Hand, MemoryLab, go_on


@pytest.fixture
def lab() -> MemoryLab:
    return MemoryLab()


def test_a_forgotten_writer_is_dead_and_its_owner_gone(lab: MemoryLab) -> None:
    """So that a test can die at any point and resume in the same process, with the proofs of a real death."""
    hand = Hand()
    dead = lab.store.create("r1", hand.start(lab.store))
    reading = lab.store.read("r1")
    list(reading)
    leg = reading.leg or {}
    before = lab.store.owner_state(leg)

    lab.store.forget_writers()

    heir = lab.store.open("r1", wait_s=0.0)
    assert (before, lab.store.owner_state(leg), heir.prove(leg)[3].answer) == ("alive", "gone", "yes")
    with pytest.raises(Storage):
        dead.append(hand.batch({"n": 1}))
    go_on(heir)
    heir.close()


def test_the_heirs_leg_is_alive_and_the_dead_ones_stays_gone(lab: MemoryLab) -> None:
    """The nonce tells two legs of one process apart."""
    hand = Hand()
    lab.store.create("r1", hand.start(lab.store, "n1"))
    lab.store.forget_writers()
    heir = lab.store.open("r1")
    go_on(heir)
    here = lab.store.identity()

    heir.append(hand.batch({"leg": {"nonce": "n2"}}, kind="resume"))

    states = [lab.store.owner_state({**here, "nonce": nonce}) for nonce in ("n1", "n2")]
    assert states == ["gone", "alive"]


def test_an_opener_waits_for_a_closing_writer(lab: MemoryLab) -> None:
    """Two threads of one process take turns as two processes do."""
    writer = lab.store.create("r1", Hand().start(lab.store))
    closing = threading.Thread(target=writer.close)
    closing.start()

    heir = lab.store.open("r1", wait_s=10.0)

    closing.join()
    assert heir.poisoned is False


def test_damaged_bytes_are_never_handed_out() -> None:
    """The reference keeps the same promise as the files."""
    blobs = MemoryBlobStore()
    digest = blobs.put(b"answer")
    blobs.kept[digest] = b"Answer"

    with pytest.raises(Corrupt):
        blobs.get(digest)

    assert blobs.has(digest) is False
