"""One path that is put back, against deaths at every operation and strangers between any two of them."""

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.core.checkpoint import ABSENT
from clew.disk import anchor
from clew.stores.base import PutBack, PutBackEnd
from clew.stores.memory import MemoryBlobStore
from clew.stores.swap import beside
from clew.stores.workspace import FileWorkspace
from tests.stores.dying import NOBODY, Counter, as_nobody, die_at, is_temp, quick_folder, without_exchange
from tests.stores.plots import MARK, Dir, File, Link, Thing, build, keep_all, plan_of, read, state_of, states

# 50 paths, every kind to every other.
_KINDS: dict[str, Thing | None] = {
    "none": None, "file": File(b"old\r\n" * 3000, 0o600), "link": Link("elsewhere"), "dir": Dir(0o755),
}  # fmt: skip
_NEW: dict[str, Thing | None] = {
    "none": None, "file": File(b"new" * 5000, 0o755), "link": Link("../out"), "dir": Dir(0o700),
}  # fmt: skip


def world() -> tuple[dict[str, Thing], dict[str, Thing]]:
    """As a tool left it, and as it was before."""
    left: dict[str, Thing] = {}
    before: dict[str, Thing] = {}
    for (was, old), (now, new) in itertools.product(_KINDS.items(), _NEW.items()):
        for number in range(2):
            name = f"{was}-{now}-{number}\udcff"
            for tree, thing in ((before, old), (left, new)):
                if thing is not None:
                    tree[name] = thing
                if isinstance(thing, Dir) and number:
                    tree[f"{name}/in"] = File(name.encode("utf-8", "surrogateescape"), 0o640)
    before["mode"], left["mode"] = File(b"same", 0o600), File(b"same", 0o644)
    before["shut"], left["shut"] = Dir(0o555), Dir(0o755)
    before["shut/in"], left["shut/in"] = File(b"in"), File(b"changed")
    for number in range(10):
        before[f"text{number}"], left[f"text{number}"] = File(b"a" * number), File(b"b" * number * 9)
    return left, before


def sweep(points: range, *, half: bool = False) -> tuple[int, list[str]]:
    """Kill a putting back at these operations, do it again each time: how many there were, and what was wrong."""
    left, before = world()
    blobs = MemoryBlobStore()
    keep_all(blobs, left, before)
    plan = plan_of(left, before)
    legal = {path: {state_of(left.get(path)), state_of(before.get(path))} for path in {*left, *before}}
    wrong: list[str] = []
    with quick_folder() as folder:
        root = folder / "work"
        for point in points:
            build(root, left)
            died = die_at(point, lambda: FileWorkspace(root).put_back(plan, blobs, mark=MARK), half=half)
            shown = {path: state for path, state in read(root).items() if not is_temp(path.rpartition("/")[2])}
            wrong += [f"{point}: {path} is {state}" for path, state in shown.items() if state not in legal[path]]
            ends = FileWorkspace(root).put_back(plan, blobs, mark=MARK)
            wrong += [f"{point}: {end}" for end in ends if end.outcome not in ("restored", "unchanged")]
            wrong += [f"{point}: {path}" for path, _ in read(root).items() ^ states(before).items()]
            if not died:
                return point, wrong
    return points.stop, wrong


def test_killed_at_every_tenth_operation_and_done_again_one_tree_stands() -> None:
    """Half a restore is worse than none: who does it again must get all of it, and never a half file meanwhile."""
    most, wrong = sweep(range(1, 10_000, 10))

    assert (wrong, most > 200) == ([], True)


@pytest.mark.crash
def test_killed_at_every_operation_and_done_again_one_tree_stands() -> None:
    """The same at each of them."""
    most, wrong = sweep(range(1, 10_000))

    assert (wrong, most > 200) == ([], True)


@pytest.mark.crash
def test_killed_in_the_middle_of_a_write_nothing_half_has_a_name() -> None:
    """A write is not atomic, the rename behind it is."""
    _, wrong = sweep(range(1, 10_000), half=True)

    assert wrong == []


@pytest.mark.crash
def test_where_names_cannot_be_exchanged_it_converges_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older kernels, network disks: for a moment nothing stands there, and that moment is made up for."""
    monkeypatch.setattr(anchor, "_rename", without_exchange)
    left, before = world()
    blobs = MemoryBlobStore()
    keep_all(blobs, left, before)
    plan, wrong = plan_of(left, before), []
    with quick_folder() as folder:
        for point in itertools.count(1, 3):
            build(folder / "work", left)
            died = die_at(point, lambda: FileWorkspace(folder / "work").put_back(plan, blobs, mark=MARK))
            FileWorkspace(folder / "work").put_back(plan, blobs, mark=MARK)
            wrong += [f"{point}: {path}" for path, _ in read(folder / "work").items() ^ states(before).items()]
            if not died:
                break

    assert wrong == []


@pytest.mark.parametrize("half", [b"", bytes(10), b"bef" + bytes(3)])
def test_what_a_power_cut_leaves_of_a_half_made_file_is_made_anew(half: bytes) -> None:
    """Pieces of it are zero then, so it is no beginning of what is wanted; and nothing of anybody else."""
    left, before = {"a": File(b"left")}, {"a": File(b"before")}
    blobs = MemoryBlobStore()
    keep_all(blobs, left, before)
    with quick_folder() as folder:
        build(folder / "work", left)
        (folder / "work" / beside("a", f"{MARK}:a:new")).write_bytes(half)
        ends = FileWorkspace(folder / "work").put_back(plan_of(left, before), blobs, mark=MARK)
        names = os.listdir(folder / "work")

    assert (["restored"], ["a"]) == ([end.outcome for end in ends], names)


# Rights.


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1644, 0o7711])
@pytest.mark.parametrize("was", ["there", "gone"])
def test_a_file_that_runs_by_its_owners_rights_gets_them_back(mode: int, was: str) -> None:
    """Each write takes them away from an ordinary user's file, and what is not as before must not be called so."""
    with quick_folder() as folder:
        folder.chmod(0o777)

        def done() -> bool:
            root = folder / "work"
            before: dict[str, Thing] = {"run": File(b"old", mode)}
            left: dict[str, Thing] = {"run": File(b"newer", 0o755)} if was == "there" else {}
            blobs = MemoryBlobStore()
            keep_all(blobs, before)
            build(root, left)
            ends = FileWorkspace(root).put_back(plan_of(left, before), blobs, mark=MARK)
            return ([end.outcome for end in ends], read(root)) == (["restored"], states(before))

        assert as_nobody(done)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to a group that its user is not in")
def test_a_mode_that_the_machine_does_not_give_is_said_to_have_failed() -> None:
    """A group's rights are kept from who is not in it: the path is not as before, and is not called so."""
    with quick_folder() as folder:
        folder.chmod(0o777)
        root, blobs = folder / "work", MemoryBlobStore()
        before: dict[str, Thing] = {"run": File(b"old", 0o2755)}
        keep_all(blobs, before)
        build(root, {"run": File(b"newer", 0o755)})
        # What is new in it belongs to its group.
        root.chmod(0o2777)
        os.chown(root / "run", NOBODY, 0)
        plan = plan_of({"run": File(b"newer", 0o755)}, before)

        def failed() -> bool:
            (end,) = FileWorkspace(root).put_back(plan, blobs, mark=MARK)
            return (end.outcome, [*read(root)]) == ("failed", ["run"])

        assert as_nobody(failed)


# Strangers.

MINE = b"typed a moment ago"


def edits(path: Path) -> None:
    path.write_bytes(MINE)


def saves(path: Path) -> None:
    """As an editor does: another file takes the name."""
    path.with_name("draft").write_bytes(MINE)
    os.rename(path.with_name("draft"), path)


STRANGERS: list[Callable[[Path], None]] = [edits, saves]
CHANGES = [
    (File(b"left"), File(b"before")), (File(b"left"), None), (None, File(b"before")), (Link("x"), File(b"before")),
    (File(b"left"), Link("x")), (File(b"left"), Dir(0o755)), (Dir(0o755), File(b"before")), (Dir(0o700), Dir(0o755)),
    (None, Dir(0o555)), (Dir(0o755), None), (File(b"left", 0o600), File(b"left", 0o644)),
]  # fmt: skip


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("exchange", [True, False])
def test_what_a_person_saves_between_any_two_operations_is_not_lost(
    stranger: Callable[[Path], None], change: tuple[Thing | None, Thing | None], exchange: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Between the look and the deed somebody saves: afterwards the bytes are there, at the path or said beside it."""
    left, before = change
    if not exchange:
        monkeypatch.setattr(anchor, "_rename", without_exchange)
    blobs, lost = MemoryBlobStore(), []
    keep_all(blobs, *({"a": thing} for thing in change if thing is not None))
    plan = [PutBack("a", state_of(left), state_of(before))]
    with quick_folder() as folder:
        path = folder / "work" / "a"
        for point in itertools.count(1):
            build(folder / "work", {} if left is None else {"a": left})
            struck, end = struck_at(point, path, stranger, plan, blobs)
            if struck is None:
                break
            kept = [place.name for place in path.parent.iterdir() if place.is_file() and place.read_bytes() == MINE]
            if struck and not any(name == "a" or name in end.why for name in kept):
                lost.append((point, end, sorted(os.listdir(path.parent))))

    assert lost == []


def struck_at(
    point: int, path: Path, stranger: Callable[[Path], None], plan: list[PutBack], blobs: MemoryBlobStore
) -> tuple[bool | None, PutBackEnd]:
    """Put back while a stranger saves before the n-th operation: could they (None: there are not so many), the end."""
    struck: list[bool] = []

    def strike() -> None:
        counter.remove()
        try:
            # A link is what a person replaces, not what it leads to.
            if path.is_symlink():
                path.unlink()
            stranger(path)
            struck.append(True)
        except (IsADirectoryError, PermissionError):
            struck.append(False)

    counter = Counter(point, strike, looks=True)
    counter.install()
    try:
        end = FileWorkspace(path.parent).put_back(plan, blobs, mark=MARK)[0]
    finally:
        counter.remove()
    return (struck[0] if struck else None), end


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("change", CHANGES)
def test_a_refusal_at_any_operation_is_said_and_made_up_for(
    change: tuple[Thing | None, Thing | None], code: int
) -> None:
    """Never half of anything under the name, never an outcome that is not so, and the next try does it."""
    left, before = change
    blobs = MemoryBlobStore()
    wrong: list[object] = []
    keep_all(blobs, *({"a": thing} for thing in change if thing is not None))
    plan = [PutBack("a", state_of(left), state_of(before))]

    def refuse() -> None:
        raise OSError(code, os.strerror(code))

    with quick_folder() as folder:
        work = folder / "work"
        for point in itertools.count(1):
            build(work, {} if left is None else {"a": left})
            counter = Counter(point, refuse)
            counter.install()
            try:
                (end,) = FileWorkspace(work).put_back(plan, blobs, mark=MARK)
            finally:
                counter.remove()
            now = read(work).get("a", ABSENT)
            open_yet = Dir(int(before) | 0o700) if isinstance(before, Dir) else before
            legal = {"restored": [before], "failed": [left], "unknown": [left, before, open_yet]}.get(end.outcome, [])
            wrong += [(point, end, now)] if now not in map(state_of, legal) else []
            FileWorkspace(work).put_back(plan, blobs, mark=MARK)
            wrong += [(point, "again")] if read(work) != states({} if before is None else {"a": before}) else []
            if counter.count < point:
                break

    assert (wrong, point > 3) == ([], True)


def test_a_death_while_a_strangers_content_was_taken_out_is_made_up_for(tmp_path: Path) -> None:
    """It stood under our own name beside the path: the next try must not take it for a leftover of ours."""
    build(tmp_path / "work", {"a": File(b"left")})
    blobs = MemoryBlobStore()
    keep_all(blobs, {"a": File(b"before")})
    plan = [PutBack("a", state_of(File(b"left")), state_of(File(b"before")))]
    exchange = anchor.Folder.exchange

    def edited_and_killed(folder: anchor.Folder, name: str, other: str) -> bool:
        (tmp_path / "work/a").write_bytes(MINE)
        exchange(folder, name, other)
        os._exit(9)

    if not (child := os.fork()):
        anchor.Folder.exchange = edited_and_killed  # type: ignore[method-assign,assignment]  # the child dies of it
        FileWorkspace(tmp_path / "work").put_back(plan, blobs, mark=MARK)
    os.waitpid(child, 0)
    between = (tmp_path / "work/a").read_bytes()

    end = FileWorkspace(tmp_path / "work").put_back(plan, blobs, mark=MARK)[0]

    assert (between, end.outcome, read(tmp_path / "work")) == (b"before", "conflict", states({"a": File(MINE)}))


def test_the_content_of_a_file_is_never_readable_by_more_people_than_the_file(tmp_path: Path) -> None:
    """A 0600 file must not be 0644 for a moment (C62): its mode stands before its first byte."""
    left, secret = {"a": File(b"left", 0o600)}, {"a": File(b"secret", 0o600)}
    blobs = MemoryBlobStore()
    keep_all(blobs, secret)
    modes: set[int] = set()

    def look() -> None:
        for place in (tmp_path / "work").iterdir():
            if place.read_bytes() in (b"secret", b"sec"):
                modes.add(place.stat().st_mode & 0o777)

    for point in range(1, 40):
        build(tmp_path / "work", left)
        counter = Counter(point, look, half=True)
        counter.install()
        FileWorkspace(tmp_path / "work").put_back(plan_of(left, secret), blobs, mark=MARK)
        counter.remove()

    assert modes == {0o600}


def test_a_pipe_in_the_place_is_left_alone_and_makes_nobody_wait(tmp_path: Path) -> None:
    """Opening it would wait for a writer for ever."""
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work/a")
    blobs = MemoryBlobStore()
    keep_all(blobs, {"a": File(b"x")})

    end = FileWorkspace(tmp_path / "work").put_back([PutBack("a", ABSENT, state_of(File(b"x")))], blobs, mark=MARK)[0]

    assert (end.outcome, end.code) == ("conflict", "not_a_file")


# Strangers who come twice, and what a death left with them.


def coming(
    monkeypatch: pytest.MonkeyPatch, deed: str, before: Callable[[], object], after: Callable[[], object]
) -> None:
    """Somebody comes right before and right behind the first deed of this name in a folder."""
    real, met = getattr(anchor.Folder, deed), list[bool]()

    def done(*given: object) -> object:
        if met:
            return real(*given)
        met.append(True)
        before()
        found = real(*given)
        after()
        return found

    monkeypatch.setattr(anchor.Folder, deed, done)


def one(work: Path, left: Thing | None, before: Thing | None) -> PutBackEnd:
    """Put `a` back alone."""
    blobs = MemoryBlobStore()
    keep_all(blobs, *({"a": thing} for thing in (left, before) if thing is not None))
    return FileWorkspace(work).put_back([PutBack("a", state_of(left), state_of(before))], blobs, mark=MARK)[0]


def contents(work: Path) -> set[bytes]:
    return {place.read_bytes() for place in work.rglob("*") if place.is_file()}


LEFT, BEFORE, AGAIN = File(b"left"), File(b"before"), b"and once more"


@pytest.mark.parametrize(("wanted", "exchange"), [(None, True), (BEFORE, False)], ids=["taken away", "swapped apart"])
def test_who_saves_twice_around_a_taking_away_loses_neither(
    tmp_path: Path, wanted: Thing | None, exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was taken out is theirs, and so is what has the name by now."""
    work = tmp_path / "work"
    build(work, {"a": LEFT})
    aside = beside("a", f"{MARK}:a:aside")
    if not exchange:
        monkeypatch.setattr(anchor, "_rename", without_exchange)
        # What is made gets its name beside the path first; the taking away is what comes next.
        coming(monkeypatch, "exchange", lambda: (work / "a").write_bytes(MINE), lambda: None)
        real = anchor.Folder.rename_new

        def renamed(folder: anchor.Folder, name: str, to: str, there: anchor.Folder | None = None) -> None:
            real(folder, name, to, there)
            if to == aside:
                (work / "a").write_bytes(AGAIN)

        monkeypatch.setattr(anchor.Folder, "rename_new", renamed)
    else:
        coming(
            monkeypatch, "rename_new", lambda: (work / "a").write_bytes(MINE), lambda: (work / "a").write_bytes(AGAIN)
        )

    end = one(work, LEFT, wanted)

    assert ("conflict", True) == (end.outcome, aside in end.why)
    assert (AGAIN, MINE) == ((work / "a").read_bytes(), (work / aside).read_bytes())


def test_what_is_removed_at_the_last_moment_is_a_conflict_and_stays_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who removed it has decided; nothing of ours is left beside it."""
    work = tmp_path / "work"
    build(work, {"a": LEFT})
    coming(monkeypatch, "exchange", (work / "a").unlink, lambda: None)

    end = one(work, LEFT, BEFORE)

    assert ("conflict", "somebody removed it meanwhile", []) == (end.outcome, end.why, os.listdir(work))


def test_what_was_saved_gets_its_name_back_though_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody saves, we exchange, somebody removes what we made: the saved bytes still belong there."""
    work = tmp_path / "work"
    build(work, {"a": LEFT})
    coming(monkeypatch, "exchange", lambda: (work / "a").write_bytes(MINE), (work / "a").unlink)

    end = one(work, LEFT, BEFORE)

    assert ("conflict", states({"a": File(MINE)})) == (end.outcome, read(work))


def test_who_saves_twice_around_an_exchange_loses_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has the name by now stays there; what was taken out is kept beside it, and that is said."""
    work = tmp_path / "work"
    build(work, {"a": LEFT})
    temp = beside("a", f"{MARK}:a")
    coming(monkeypatch, "exchange", lambda: (work / "a").write_bytes(MINE), lambda: (work / "a").write_bytes(AGAIN))

    end = one(work, LEFT, BEFORE)

    assert ("conflict", True) == (end.outcome, temp in end.why)
    assert (AGAIN, MINE) == ((work / "a").read_bytes(), (work / temp).read_bytes())


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_that_is_filled_at_the_last_moment_stays_with_what_is_in_it(
    tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was empty when we looked; a folder is never removed with somebody's work in it."""
    work = tmp_path / "work"
    build(work, {"a": Dir(0o755)})
    if not exchange:
        monkeypatch.setattr(anchor, "_rename", without_exchange)
    coming(monkeypatch, "exchange", lambda: (work / "a/in").write_bytes(MINE), lambda: None)

    end = one(work, Dir(0o755), BEFORE)

    assert ("conflict", {"a", "a/in"}) == (end.outcome, set(read(work)))
    assert {MINE} == contents(work)


def test_a_folder_with_something_in_it_is_no_file_to_be(tmp_path: Path) -> None:
    """The tool left an empty folder; what is in it now is a person's."""
    work = tmp_path / "work"
    build(work, {"a": Dir(0o755), "a/in": File(MINE)})

    end = one(work, Dir(0o755), BEFORE)

    assert ("conflict", "the folder is not empty", {"a", "a/in"}) == (end.outcome, end.why, set(read(work)))


@pytest.mark.parametrize(("out", "is_ours"), [(b"left", True), (MINE, False)])
def test_what_a_death_left_aside_goes_only_if_it_is_the_tools(tmp_path: Path, out: bytes, is_ours: bool) -> None:
    """Killed behind the taking away, and by the next try a person has made the file anew: theirs stays, and is said."""
    work, aside = tmp_path / "work", beside("a", f"{MARK}:a:aside")
    build(work, {"a": File(AGAIN), aside: File(out)})

    end = one(work, LEFT, None)

    assert ("conflict", not is_ours) == (end.outcome, aside in end.why)
    assert ({AGAIN} if is_ours else {AGAIN, MINE}) == contents(work)


def test_what_a_death_left_of_two_strangers_is_told_and_touched_by_nobody(tmp_path: Path) -> None:
    """Which of both belongs there, only a person can say."""
    work, temp = tmp_path / "work", beside("a", f"{MARK}:a")
    build(work, {"a": File(AGAIN), temp: File(MINE)})

    end = one(work, LEFT, BEFORE)

    assert ("conflict", True) == (end.outcome, temp in end.why)
    assert states({"a": File(AGAIN), temp: File(MINE)}) == read(work)


def test_a_folder_that_was_filled_after_a_death_is_not_taken_for_ours(tmp_path: Path) -> None:
    """We made it, a person has put work into it since, and what they had there before is beside it: both stay."""
    work, temp = tmp_path / "work", beside("a", f"{MARK}:a")
    build(work, {"a": Dir(0o755), "a/in": File(MINE), temp: File(AGAIN)})

    end = one(work, LEFT, Dir(0o755))

    assert ("conflict", True) == (end.outcome, temp in end.why)
    assert {MINE, AGAIN} == contents(work)
