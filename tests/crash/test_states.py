"""Every disk that a power cut may leave of a real run is recovered; and the model itself does what it says."""

import itertools
import random

import pytest

from tests.crash.counts import some
from tests.crash.states import Bounds, Disks, subsets
from tests.crash.studio import can_trace
from tests.crash.sweep import Traced, sweep, traced
from tests.crash.trace import Bytes, Cut, Folder, Name, Op, Swap, SyncFile, SyncFolder
from tests.crash.works import KEEPING, REFERENCE

needs_strace = pytest.mark.skipif(not can_trace(), reason="strace is not here, or may not trace")


@pytest.fixture(scope="module")
def reference() -> Traced:
    """The reference run, traced once."""
    return traced(REFERENCE)


@needs_strace
def test_the_reference_run_walks_where_a_run_can_walk(reference: Traced) -> None:
    """A model of a run that never tore, resumed, heard or paused would prove little."""
    told = {fact[1] for fact in reference.facts}
    names = {op.gives.rpartition("/")[2].split("-")[0] for op in reference.ops if isinstance(op, Name)}

    assert ["first: died", "command: ok posted", "second: ok paused", "third: ok completed"] == reference.ends
    assert {"append", "head", "blob", "claim", "command", "answer", "end"} == told
    assert {"torn", "head.json", "home.json", "index.json", "c1.json"} <= names
    assert 50 < max(fact[4] for fact in reference.facts if fact[:2] == ["about", "append"])


@needs_strace
@pytest.mark.parametrize(("piece", "samples", "at_least"), [(512, 300, 2_500), (4096, 800, 400)])
def test_what_a_power_cut_may_leave_is_recovered(reference: Traced, piece: int, samples: int, at_least: int) -> None:
    """Promise 12: nothing acknowledged is lost, nothing legal is refused, twice mended is once mended."""
    found = sweep(reference, Bounds(piece, 9, samples))

    assert {} == found.examples
    assert at_least < found.distinct, found.words


@needs_strace
@pytest.mark.crash
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize(("piece", "share"), [(512, 10), (4096, 1)])
def test_what_a_power_cut_may_leave_is_recovered_at_length(piece: int, share: int, part: int) -> None:
    """A run of its own for each part, so that other lengths meet other edges of the device's pieces."""
    wanted = some(100_000, 1_000_000) * share // 44

    # Of those that chance chooses for one place few are new, and of more still fewer.
    found = sweep(traced(REFERENCE), Bounds(piece, 13, some(wanted * 2 // 3, wanted), seed=part))

    assert {} == found.examples
    assert wanted * 9 // 10 < found.distinct or piece == 4096, found.words


# Files, sessions, artifacts, a restore, a migration, a prune.


@pytest.fixture(scope="module")
def keeping() -> Traced:
    """The work of the other stores, traced once."""
    return traced(KEEPING)


@needs_strace
def test_the_other_stores_walk_where_they_can_walk(keeping: Traced) -> None:
    """A model in which no pack was written anew and no names were exchanged would prove little."""
    told = {fact[1] for fact in keeping.facts}
    packs = [op for op in keeping.ops if isinstance(op, Name) and op.gives.endswith(".pack")]

    assert {"born: ok born", "first: died", "second: ok completed", "prune: ok pruned"} <= set(keeping.ends)
    assert {"file", "session", "source", "backup", "artifact", "blob", "pruned", "append", "head"} <= told
    # Of each look over the workspace one, and one that a prune has left of the first.
    assert (3, True) == (len(packs), any(isinstance(op, Swap) for op in keeping.ops))


@needs_strace
def test_what_a_power_cut_may_leave_of_files_and_sessions_is_recovered(keeping: Traced) -> None:
    """Files are old or new, sessions as far as acknowledged, a restore goes on, and nobody is refused."""
    found = sweep(keeping, Bounds(512, 4, 6))

    assert {} == found.examples
    assert 4_000 < found.distinct, found.words


@needs_strace
@pytest.mark.crash
@pytest.mark.parametrize(("piece", "samples", "at_least"), [(512, 500, 20_000), (4096, 300, 6_000)])
def test_what_a_power_cut_may_leave_of_files_and_sessions_is_recovered_at_length(
    piece: int, samples: int, at_least: int
) -> None:
    """More than 10,000 distinct legal disks of a run with checkpoints and a session: none refused, nothing lost."""
    found = sweep(traced(KEEPING), Bounds(piece, 10, some(samples, samples * 50)))

    assert {} == found.examples
    assert at_least < found.distinct, found.words


# The model.


def model(*ops: Op, piece: int = 512) -> set[tuple[tuple[str, bytes], ...]]:
    """The files of every state of these calls, by path and content."""
    disks = Disks([Folder("/", "/h"), SyncFolder("/"), *ops], Bounds(piece, 12))
    return {tuple((path, disks.contents[digest]) for path, digest in state.files) for state in disks}


MADE = (Name("/h", "/h/a", 1), SyncFolder("/h"))


def test_the_pieces_of_a_write_come_in_any_order_and_its_size_too() -> None:
    """Reliability finding 2: the end may be there while a piece before it is zero."""
    data = b"a" * 512 + b"b"

    found = {dict(files)["/h/a"] for files in model(*MADE, Bytes(1, 0, data)) if files}

    assert {b"", data, bytes(512) + b"b", b"a" * 512 + b"\0", bytes(513)} == found


def test_a_sync_pins_bytes_and_not_the_name() -> None:
    """A file that was synced may still be nowhere."""
    found = model(Name("/h", "/h/a", 1), Bytes(1, 0, b"x"), SyncFile(1), SyncFile(1))

    assert () in found
    assert {(("/h/a", b"x"),), (), (("/h/a", b""),), (("/h/a", b"\0"),)} >= found


def test_a_rename_without_a_sync_before_it_may_name_an_empty_file() -> None:
    """The mistake that ext4 forgives and others do not."""
    found = model(Name("/h", "/h/t", 1), Bytes(1, 0, b"x"), Name("/h", "/h/a", 1, "/h/t"), SyncFolder("/h"))

    assert (("/h/a", b""),) in found


def test_what_is_synced_in_a_folder_that_is_not_there_cannot_be_reached() -> None:
    """The parent of a new folder must be synced too."""
    ops = (Folder("/h", "/h/d"), Name("/h/d", "/h/d/a", 1), Bytes(1, 0, b"x"), SyncFile(1), SyncFolder("/h/d"))

    assert {(), (("/h/d/a", b"x"),)} == {
        files for files in model(*ops, SyncFile(1)) if files in ((), (("/h/d/a", b"x"),))
    }


def test_names_that_change_places_do_so_at_once() -> None:
    """An exchange is one step: a disk has both names as they were, or both as they are."""
    ops = (*MADE, Bytes(1, 0, b"x"), SyncFile(1), Name("/h", "/h/b", 2), SyncFolder("/h"))

    found = model(*ops, Swap("/h", "/h/a", 2, "/h/b", 1))

    assert {(("/h/a", b"x"), ("/h/b", b"")), (("/h/a", b""), ("/h/b", b"x"))} == {
        files for files in found if len(files) == 2
    }


def test_bytes_behind_a_cut_do_not_come_back() -> None:
    """A cut that is on the disk took them away, so a longer file behind it reads as zeros."""
    ops = (*MADE, Bytes(1, 0, b"abc"), SyncFile(1), Cut(1, 1), SyncFile(1), Bytes(1, 1, b"z"))

    found = {dict(files).get("/h/a") for files in model(*ops)}

    assert {b"a", b"az", b"a\0"} <= found
    assert b"ab" not in found


def test_few_free_steps_are_all_tried_and_many_by_rules() -> None:
    """Where the list is complete it is said to be, and where it is not the edges are in it."""
    few = set(subsets(range(4), Bounds(whole=4), random.Random(1)))
    many = set(subsets(range(20), Bounds(whole=4, samples=10), random.Random(1)))

    assert {each for size in range(5) for each in itertools.combinations(range(4), size)} == few
    assert {(), tuple(range(20)), (3,), tuple(range(7)), tuple(n for n in range(20) if n not in (2, 9))} <= many
