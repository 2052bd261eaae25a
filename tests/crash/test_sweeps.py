"""The journal of the reference run cut at every byte, and damaged at every byte and every sector of the device."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest

from clew.errors import Corrupt
from clew.stores.jsonl import FileRunStore
from tests.crash.counts import FULL, some
from tests.crash.judge import judge, records_of
from tests.crash.parts import Promises
from tests.crash.studio import studio
from tests.crash.sweep import in_memory
from tests.crash.works import REFERENCE, RUN

SECTOR = 512


class Written(NamedTuple):
    """A whole journal: its bytes, where each of its lines ends, how many records the first append has."""

    data: bytes
    ends: list[int]
    chains: list[str]
    born: int


@pytest.fixture(scope="module")
def written() -> Iterator[Written]:
    """The journal that the reference run leaves."""
    with in_memory() as folder, studio() as town:
        root = folder / "town" / "home"
        root.parent.mkdir()
        said = [fact for leg in REFERENCE.legs for fact in town.leg(REFERENCE.name, leg, root).said]
        data = (root / "runs" / f"{RUN}.jsonl").read_bytes()
        chains = [chain for _, chain in records_of(FileRunStore(root), RUN)[0]]
        ends = [at + 1 for at, byte in enumerate(data) if byte == 0x0A]
        yield Written(data, ends, chains, next(fact[3] for fact in said if fact[:2] == ["kept", "append"]))


@pytest.fixture
def home() -> Iterator[Path]:
    """A home whose journals are put there."""
    with in_memory() as folder:
        (folder / "home" / "runs").mkdir(parents=True)
        yield folder / "home"


def put(home: Path, data: bytes) -> Path:
    """The journal as a disk or a death left it, and nothing beside it."""
    for left in (home / "runs" / RUN).glob("*"):
        left.unlink()
    path = home / "runs" / f"{RUN}.jsonl"
    path.write_bytes(data)
    return path


# Row 5.


def shortened(home: Path, written: Written, cut: int) -> list[str]:
    """What is not as it must be of a journal that ends at this byte."""
    put(home, written.data[:cut])
    # A good last line without its LF is a record.
    there = sum(end - 1 <= cut for end in written.ends)
    facts = [["about", "append", RUN, 1, there, written.chains[:there]]]
    facts.append(["kept", "append", RUN, there, written.chains[there - 1]])
    return judge(home, Promises(facts))


def cuts(written: Written, stride: int) -> list[int]:
    """Bytes at which it may end: not inside its first record, which no legal state does."""
    edges = {end + side for end in written.ends for side in (-1, 0, 1)} if stride > 1 else set()
    inside = range(written.ends[0] - 1, len(written.data) + 1, stride)
    return sorted(cut for cut in {*edges, *inside} if written.ends[0] - 1 <= cut <= len(written.data))


def test_a_journal_that_ends_anywhere_is_recovered(written: Written, home: Path) -> None:
    """Row 5 at the ends of lines and here and there: exactly the records before the cut, then one append more."""
    found = {cut: wrong for cut in cuts(written, 211) if (wrong := shortened(home, written, cut))}

    assert {} == found


@pytest.mark.crash
@pytest.mark.parametrize("part", range(2))
def test_a_journal_that_ends_at_any_byte_is_recovered(written: Written, home: Path, part: int) -> None:
    """Row 5: every byte (by `make crash` every third)."""
    chosen = cuts(written, some(3, 1))
    assert len(chosen) > 20_000

    found = {cut: wrong for cut in chosen[part::2] if (wrong := shortened(home, written, cut))}

    assert {} == found


# Rows 6 and 7.


def refused(home: Path, data: bytes) -> str:
    """Empty when a reader and a writer refuse it and leave it byte for byte; else what they did."""
    path = put(home, data)
    store = FileRunStore(home)
    for deed in (lambda: records_of(store, RUN), lambda: opened(store)):
        try:
            deed()
        except Corrupt:
            continue
        return f"{deed} took it"
    return "" if path.read_bytes() == data and not (home / "runs" / RUN).exists() else "it was changed"


def opened(store: FileRunStore) -> None:
    writer = store.open(RUN)
    try:
        reading = writer.read()
        for _ in reading:
            pass
        writer.repair(reading.tail, 1)
    finally:
        writer.close()


def flips(written: Written, stride: int) -> Iterator[tuple[str, bytes]]:
    """A bit of every `stride`-th byte before the last line; by `make crash-full` each of its eight."""
    for at in range(0, written.ends[-2], stride):
        for bit in range(8) if FULL else (at // stride % 8,):
            data = bytearray(written.data)
            data[at] ^= 1 << bit
            yield f"bit {bit} of byte {at}", bytes(data)


def test_a_flipped_bit_is_refused(written: Written, home: Path) -> None:
    """Row 6 here and there: nothing is read, nothing is written, whatever it hit."""
    found = {name: said for name, data in flips(written, 131) if (said := refused(home, data))}

    assert {} == found


@pytest.mark.crash
@pytest.mark.parametrize("part", range(2))
def test_a_flipped_bit_of_any_byte_is_refused(written: Written, home: Path, part: int) -> None:
    """Row 6: every byte before the last line."""
    mine = islice(flips(written, some(2, 1)), part, None, 2)

    found = {name: said for name, data in mine if (said := refused(home, data))}

    assert {} == found


def _zeroed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes(SECTOR) + data[at + SECTOR :]


def _repeated(data: bytes, at: int) -> bytes:
    return data[: at + SECTOR] + data[at : at + SECTOR] + data[at + SECTOR :]


def _deleted(data: bytes, at: int) -> bytes:
    return data[:at] + data[at + SECTOR :]


def _swapped(data: bytes, at: int) -> bytes:
    one, two = data[at : at + SECTOR], data[at + SECTOR : at + 2 * SECTOR]
    return data[:at] + two + one + data[at + 2 * SECTOR :]


@pytest.mark.parametrize("damage", [_zeroed, _repeated, _deleted, _swapped])
def test_a_damaged_sector_is_refused(written: Written, home: Path, damage: Callable[[bytes, int], bytes]) -> None:
    """Row 7: each sector that ends before the last append; what is missing there was acknowledged."""
    behind = written.ends[-8]

    found = {
        at: said for at in range(0, behind - 2 * SECTOR, SECTOR) if (said := refused(home, damage(written.data, at)))
    }

    assert {} == found
