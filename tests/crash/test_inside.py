"""Ctrl-C at any bytecode, no memory at any allocation: an append is whole or its writer dead, a call done once."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.crash.counts import some
from tests.crash.inside import NEVER
from tests.crash.judge import judge
from tests.crash.parts import Promises
from tests.crash.strikes import prepare, seen_through
from tests.crash.studio import Ended, Studio
from tests.crash.sweep import in_memory
from tests.crash.works import WORKS

ALLOCATIONS = {"appends": 600, "one": 5_000, "capture": 10_000, "convert": 6_000}
"""More than there are in an append, in a run with one call, in a call that keeps a file, in a migration."""
STRUCK = re.compile(
    r"^(KeyboardInterrupt|MemoryError|TypeError: expected str, bytes or os\.PathLike"
    r"|TypeError: \w+: \w+ should be string, bytes|SystemError: <_FuncPtr|RuntimeError: can.t allocate read lock)",
    re.MULTILINE,
)
"""All but two are what CPython itself makes of no memory: `os.fsencode`, calls with a path, `ctypes`, `io.open`."""


@pytest.fixture
def root() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder / "town" / "home"


def strike(town: Studio, root: Path, work: str, how: str, number: int) -> tuple[Ended, list[str]]:
    """Strike a leg from inside; what was told, and the complaints."""
    facts = prepare(town, root, work, "only")
    ended = town.leg(work, "only", root, inside=[how, number])
    alone = ended.how == "raw" and STRUCK.search(ended.text) is not None
    complaints = [] if ended.how not in ("raw", "hung") or alone else [f"{ended.how}: {ended.text}"]
    promises = Promises([*facts, *ended.said])
    complaints += judge(root / WORKS[work].home, promises) if root.exists() else []
    return ended, complaints + seen_through(town, root, work, [*facts, *ended.said, *promises.judged])


def bytecodes(ended: Ended) -> int:
    return next(int(fact[2]) for fact in ended.said if fact[1] == "points")


@pytest.mark.parametrize(("work", "stride"), [("appends", 23), ("one", 600), ("capture", 2_300), ("convert", 4_100)])
def test_an_interrupt_at_a_bytecode(town: Studio, root: Path, work: str, stride: int) -> None:
    """Reliability finding 5, here and there: Ctrl-C is a fault of the storage in Python."""
    found = interrupted(town, root, work, stride, 7)

    assert {} == found


def test_an_interrupt_at_each_edge_of_a_call(town: Studio, root: Path) -> None:
    """A thread that was struck where a call begins or ends must not wait for itself at the leg's end."""
    found = interrupted(town, root, "one", 3, 1, of="/runtime/flights.py")

    assert {} == found


@pytest.mark.crash
@pytest.mark.parametrize(
    ("work", "stride"), [("appends", 1), ("one", some(29, 1)), ("capture", some(61, 1)), ("convert", some(97, 1))]
)
def test_an_interrupt_at_every_bytecode(town: Studio, root: Path, work: str, stride: int) -> None:
    """Row 13: of clew between a saying and its place in the journal, of a call, of one with a file, of a migration."""
    found = interrupted(town, root, work, stride, 1)

    assert {} == found


def interrupted(town: Studio, root: Path, work: str, stride: int, first: int, of: str = "") -> dict[int, list[str]]:
    """The complaints by bytecode, of all of clew or `of` one file."""
    how = f"bytecode{of}"
    whole = bytecodes(strike(town, root, work, how, NEVER)[0])
    assert whole > (50 if of else 500)
    return struck(town, root, work, how, range(first, whole, stride))


def struck(town: Studio, root: Path, work: str, how: str, numbers: Iterable[int]) -> dict[int, list[str]]:
    """The complaints by number, up to the first leg that hangs: each of them takes its time."""
    found = {}
    for number in numbers:
        ended, complaints = strike(town, root, work, how, number)
        if complaints:
            found[number] = [str(ended.how), *complaints]
        if ended.how == "hung":
            break
    return found


@pytest.mark.parametrize("how", ["memory", "memory from then on"])
@pytest.mark.parametrize(("work", "stride"), [("appends", 17), ("one", 333), ("capture", 1_300), ("convert", 900)])
def test_no_memory_at_an_allocation(town: Studio, root: Path, work: str, stride: int, how: str) -> None:
    """Row 12, here and there: SQLite's loop, once and from then on."""
    found = starved(town, root, work, how, stride)

    assert {} == found


@pytest.mark.crash
@pytest.mark.parametrize("how", ["memory", "memory from then on"])
@pytest.mark.parametrize(
    ("work", "stride"), [("appends", 1), ("one", some(9, 1)), ("capture", some(41, 1)), ("convert", some(31, 1))]
)
def test_no_memory_at_every_allocation(town: Studio, root: Path, work: str, stride: int, how: str) -> None:
    """Row 12: until nothing is left to refuse."""
    found = starved(town, root, work, how, stride)

    assert {} == found


def starved(town: Studio, root: Path, work: str, how: str, stride: int) -> dict[int, list[str]]:
    """The complaints by allocation."""
    return struck(town, root, work, how, range(1, ALLOCATIONS[work], stride))
