"""The home of CoreMind: every door that looks is open, every door that writes is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.core.records import Head
from clew.errors import NotFound, Refused
from clew.stores.base import Command, CommandAnswer, Tail
from clew.stores.foreign import ForeignRunStore, ForeignSessionStore, is_foreign
from clew.stores.jsonl import FileRunStore
from tests.stores.lab import Hand, read_all

JOURNAL = (
    b'{"version":1,"runId":"r1","sequence":1,"timestamp":"2026-08-16T00:00:00.000Z","kind":"start","payload":{}}\n'
)


@pytest.fixture
def store(tmp_path: Path) -> ForeignRunStore:
    path = tmp_path / ".coremind" / "runs" / "r1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(JOURNAL)
    return ForeignRunStore(tmp_path / ".coremind")


def everything(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in root.rglob("*")
    }


@pytest.mark.parametrize(
    ("name", "expected"), [(".coremind", True), (".CoreMind", True), (".clew", False), ("coremind", False)]
)
def test_a_home_of_coremind_is_known_by_its_name(tmp_path: Path, name: str, expected: bool) -> None:
    """Where case is ignored, another spelling is the same folder."""
    assert expected == is_foreign(tmp_path / name)


def test_a_link_to_one_is_one(tmp_path: Path) -> None:
    """What counts is the folder that would be written."""
    (tmp_path / ".coremind").mkdir()
    (tmp_path / "runs-of-theirs").symlink_to(tmp_path / ".coremind")

    assert is_foreign(tmp_path / "runs-of-theirs")


def test_its_runs_are_listed_and_read(store: ForeignRunStore) -> None:
    """Reading is mutual."""
    records, tail = read_all(store.open("r1").read())

    assert (["r1"], 1, Tail("clean", len(JOURNAL))) == (store.ids(), len(records), tail)
    assert (len(JOURNAL), True) == (store.open("r1").size_bytes, store.open("r1").poisoned)


def test_a_run_that_is_not_there_is_not_there(store: ForeignRunStore) -> None:
    """As in a home of ours."""
    with pytest.raises(NotFound):
        store.open("r2")


def test_opening_takes_no_lock(store: ForeignRunStore, tmp_path: Path) -> None:
    """CoreMind does not know our lock; who only reads must not keep anybody out."""
    opened = store.open("r1")
    other = FileRunStore(tmp_path / ".coremind").open("r1", wait_s=0.0)
    opened.close()
    other.close()

    assert opened.run_id == other.run_id


WRITES: dict[str, Callable[[ForeignRunStore], Any]] = {
    "create": lambda store: store.create("r9", Hand("r9").start(store)),
    "post": lambda store: store.post(Command(1, "c1", "r1", "pause", "ann", "why")),
    "answer": lambda store: store.answer("r1", CommandAnswer("c1", "applied")),
    "prove": lambda store: store.open("r1").prove({}),
    "repair": lambda store: store.open("r1").repair(Tail("torn", 3, 4), 2),
    "adopt": lambda store: store.open("r1").adopt(1, ""),
    "append": lambda store: store.open("r1").append(Hand("r1", 1).batch({}), starts_effect=True),
    "publish_head": lambda store: store.open("r1").publish_head(Head(1, "", 0, {})),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_write_is_refused_and_nothing_changes(
    store: ForeignRunStore, tmp_path: Path, write: Callable[[ForeignRunStore], Any]
) -> None:
    """Not a byte of ours among files that another program takes for its own."""
    before = everything(tmp_path)

    with pytest.raises(Refused) as caught:
        write(store)

    assert ("foreign_home", 4) == (caught.value.code, caught.value.exit_code)
    assert before == everything(tmp_path)


def test_sessions_of_another_program_are_read_and_never_written(tmp_path: Path) -> None:
    """Its own locks and files are not ours to touch."""
    folder = tmp_path / ".coremind" / "sessions"
    folder.mkdir(parents=True)
    (folder / "s1.jsonl").write_bytes(b"{}\n")
    store = ForeignSessionStore(tmp_path / ".coremind")

    doors: list[Callable[[], Any]] = [lambda: store.create("s2", b"{}\n"), lambda: store.open("s1")]
    for door in doors:
        with pytest.raises(Refused) as caught:
            door()
        assert "foreign_home" == caught.value.code
    with pytest.raises(NotFound):
        store.open("s2")

    assert (["s1"], b"{}\n", ["sessions"]) == (
        store.ids(), b"".join(store.read("s1")), [path.name for path in (tmp_path / ".coremind").iterdir()],
    )  # fmt: skip
