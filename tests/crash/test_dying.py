"""Row 9: a sync that really fails, after which a sync succeeds and the cache shows what the device never took."""

import hashlib
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from clew.errors import Storage
from clew.stores.base import RunWriter
from clew.stores.blobs import FileBlobStore
from tests.crash.counts import some
from tests.dying import dying
from tests.stores.lab import FileLab, Hand, code_of, go_on, read_all

APPEND, BLOB, HEAD = "append", "blob", "head"


class Work:
    """Appends, blobs and heads of one run until something is refused, and what was said yes to until then."""

    def __init__(self, folder: Path, chance: int) -> None:
        self.lab, self._hand, self._chance = FileLab(folder), Hand(), random.Random(chance)
        self.writer: RunWriter = self.lab.store.create("r1", self._hand.start(self.lab.store))
        self.records, self.published, self.blobs = 1, 0, list[bytes]()

    def until_refused(self) -> tuple[str, str]:
        """The deed that was refused, and by which code."""
        for deed in self._deeds():
            try:
                self._do(deed)
            except Storage as error:
                return deed, error.code
        raise AssertionError("the device took everything")

    def is_dead(self) -> bool:
        """Does the writer refuse from now on?"""
        return "fact_ledger_poisoned" == code_of(lambda: self.writer.append(self._hand.batch({"n": 1})), Storage)

    def check(self) -> None:
        """All that was said yes to is there, and another process goes on behind it."""
        heir, blobs = self.lab.store.open("r1"), FileBlobStore(self.lab.root)
        found = len(read_all(heir.read())[0])
        assert found >= self.records
        head = self.lab.store.head("r1")
        assert (head.sequence if head else 0) >= self.published
        assert self.blobs == [blobs.get(hashlib.sha256(data).hexdigest()) for data in self.blobs]
        heir.append(go_on(heir).batch({"n": "goes on"}))
        heir.close()

    def _deeds(self) -> Iterator[str]:
        for _ in count():
            yield self._chance.choice((APPEND, APPEND, BLOB, HEAD))

    def _do(self, deed: str) -> None:
        if deed == APPEND:
            self.writer.append(self._hand.batch({"pad": "x" * self._chance.choice((10, 5_000, 200_000))}))
            self.records = self._hand.sequence
        elif deed == BLOB:
            data = self._chance.randbytes(self._chance.choice((10, 5_000, 200_000)))
            FileBlobStore(self.lab.root).put(data)
            self.blobs.append(data)
        else:
            self.writer.publish_head(self._hand.head())
            self.published = self._hand.sequence


def die(folder: Path, number: int) -> tuple[str, str]:
    """Work on a device that ends at some place; what was refused and how. It is judged after a new start."""
    with dying(folder) as device:
        work = Work(device.mounted, number)
        device.starve(number * 61_000)
        refused = work.until_refused()
        if refused[0] == APPEND:
            assert work.is_dead()
        work.writer.close()
        device.again()
        work.check()
    return refused


@pytest.mark.crash
def test_wherever_the_device_ends_all_that_was_acknowledged_is_on_it(tmp_path: Path) -> None:
    """In an append, a blob or a head; at the first write of a block and in the file system's own journal."""
    refused = [die(tmp_path / str(number), number) for number in range(some(20, 120))]

    assert {APPEND, BLOB} <= {deed for deed, _ in refused}
    assert {"durability_barrier_failed"} == {code for deed, code in refused if deed == APPEND}
