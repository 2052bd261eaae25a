"""Keeping and cutting a torn end on a real file, and what a crash in between leaves."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.disk.append import AppendFile, birth
from clew.errors import Storage
from clew.stores.base import Tail, TailRepaired
from clew.stores.repair import keep_and_cut
from tests.disk.living import calls_of

TORN = Tail("torn", 4, 3)
DIGEST = hashlib.sha256(b"two").hexdigest()
NAME = f"torn-4-{DIGEST[:12]}"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[AppendFile]:
    file = birth(tmp_path / "r1.jsonl", b"one\ntwo")
    yield file
    file.close()


def test_the_bytes_are_kept_before_they_are_cut(file: AppendFile, tmp_path: Path) -> None:
    """They may hold what a person needs to see, such as the answer of a bank."""
    repaired = keep_and_cut(file, tmp_path / "r1", TORN, 9)

    kept = {path.name: path.read_bytes() for path in (tmp_path / "r1").iterdir()}
    assert (repaired, kept) == ((TailRepaired(9, 4, 3, DIGEST, NAME),), {NAME: b"two"})
    assert (tmp_path / "r1.jsonl").read_bytes() == b"one\n"


def test_the_kept_bytes_are_durable_before_the_cut(file: AppendFile, tmp_path: Path) -> None:
    """A power cut between the two must leave one of them."""
    calls = calls_of(keep_and_cut, file, tmp_path / "r1", TORN, 9)

    assert calls == ["mkdir", "fsync", "write", "fsync", "replace", "fsync", "ftruncate", "fsync"]


def test_what_cannot_be_kept_is_not_cut(file: AppendFile, tmp_path: Path) -> None:
    """The only copy stays where it is."""
    (tmp_path / "r1").write_bytes(b"a file where the folder should be")

    with pytest.raises(Storage):
        keep_and_cut(file, tmp_path / "r1", TORN, 9)

    assert (tmp_path / "r1.jsonl").read_bytes() == b"one\ntwo"


def test_a_crash_between_keeping_and_cutting_ends_in_one_piece(file: AppendFile, tmp_path: Path) -> None:
    """The next leg finds the same bytes, so it keeps them under the same name."""
    (tmp_path / "r1").mkdir()
    (tmp_path / "r1" / NAME).write_bytes(b"two")

    repaired = keep_and_cut(file, tmp_path / "r1", TORN, 9)

    assert [cut.kept_as for cut in repaired] == [NAME]


def test_a_clean_end_names_what_was_cut_there_before(file: AppendFile, tmp_path: Path) -> None:
    """A crash between cutting and recording; other places and other files are not its business."""
    (tmp_path / "r1").mkdir()
    for name in ("torn-7-0123456789ab", "torn-4-0123456789ab", "torn-7-x", "head.json"):
        (tmp_path / "r1" / name).write_bytes(b"")

    repaired = keep_and_cut(file, tmp_path / "r1", Tail("clean", 7), 9)

    assert [cut.kept_as for cut in repaired] == ["torn-7-0123456789ab"]


def test_a_missing_lf_is_written_alone(file: AppendFile, tmp_path: Path) -> None:
    """Nothing is kept, and no folder is made for nothing."""
    repaired = keep_and_cut(file, tmp_path / "r1", Tail("unterminated", 7), 9)

    assert (repaired, (tmp_path / "r1.jsonl").read_bytes(), os.listdir(tmp_path)) == ((), b"one\ntwo\n", ["r1.jsonl"])
