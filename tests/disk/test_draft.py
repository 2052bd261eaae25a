"""A file that is named only when it is whole."""

import os
from pathlib import Path

import pytest

from clew.disk.draft import Draft, part_of, standing
from clew.errors import Storage


def test_a_draft_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    """Nobody may find half of it under the name."""
    with Draft(tmp_path) as draft:
        draft.write(b"one")
        draft.write(b"two")
        before = (tmp_path / "name").exists()
        draft.publish(tmp_path / "name")

    assert (before, (tmp_path / "name").read_bytes(), os.listdir(tmp_path)) == (False, b"onetwo", ["name"])


def test_a_draft_that_is_not_published_is_gone(tmp_path: Path) -> None:
    """Whatever ended the block."""
    with Draft(tmp_path) as draft:
        draft.write(b"one")
        before = len(os.listdir(tmp_path))

    assert (before, os.listdir(tmp_path)) == (1, [])


def test_what_was_cut_is_not_in_it(tmp_path: Path) -> None:
    """A blob that was given up in the middle leaves nothing in its pack."""
    with Draft(tmp_path) as draft:
        draft.write(b"onetwo")
        draft.cut(3)
        draft.write(b"three")
        draft.publish(tmp_path / "name")

    assert ((tmp_path / "name").read_bytes(), draft.size_bytes) == (b"onethree", 8)


def test_a_name_that_cannot_be_had_is_a_typed_refusal_and_nothing_stays(tmp_path: Path) -> None:
    """A folder stands there."""
    (tmp_path / "name" / "in").mkdir(parents=True)

    with Draft(tmp_path) as draft, pytest.raises(Storage):
        draft.publish(tmp_path / "name")

    assert os.listdir(tmp_path) == ["name"]


def test_a_part_of_a_file_ends_where_the_file_does(tmp_path: Path) -> None:
    """Who asks for more must see that it is less."""
    (tmp_path / "a").write_bytes(b"abcdef")

    found = [b"".join(part_of(tmp_path / "a", start, end)) for start, end in ((1, 3), (4, 99), (9, 10))]

    assert found == [b"bc", b"ef", b""]


def test_a_file_that_changed_stands_otherwise(tmp_path: Path) -> None:
    """What was found whole need not be read again, but only as long as it is that file."""
    (tmp_path / "a").write_bytes(b"abc")
    before = standing(tmp_path / "a")

    (tmp_path / "a").write_bytes(b"abcd")

    assert (standing(tmp_path / "a") == before, standing(tmp_path / "none")) == (False, ())
