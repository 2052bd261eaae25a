"""A file that is named only when it is whole."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.disk.draft import Draft, part_of, standing
from clew.errors import Storage
from clew.testing import failing_call


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


@pytest.mark.parametrize("deed", ["write", "ftruncate", "fsync", "replace"])
def test_what_the_machine_refuses_is_told_by_its_place_and_leaves_nothing(tmp_path: Path, deed: str) -> None:
    """A checkpoint whose content is not on the disk must not be recorded."""

    def publish(draft: Draft) -> None:
        draft.write(b"one")
        draft.cut(1)
        draft.publish(tmp_path / "name")

    with failing_call(deed), pytest.raises(Storage), Draft(tmp_path) as draft:
        publish(draft)

    assert [] == os.listdir(tmp_path)


def test_an_interrupt_while_it_gets_its_name_leaves_no_second_file(tmp_path: Path) -> None:
    """Ctrl-C is nobody's error, and is handed on as it came."""
    with failing_call("replace", error=KeyboardInterrupt()), pytest.raises(KeyboardInterrupt), Draft(tmp_path) as draft:  # type: ignore[arg-type]  # an interrupt on purpose
        draft.publish(tmp_path / "name")

    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize(("call", "ask"), [("open", lambda path: list(part_of(path, 0, 1))), ("lstat", standing)])
def test_what_cannot_be_looked_at_is_not_called_absent(
    tmp_path: Path, call: str, ask: Callable[[Path], object]
) -> None:
    """Absent content is content that may be dropped."""
    (tmp_path / "a").write_bytes(b"abc")

    with failing_call(call), pytest.raises(Storage) as refused:
        ask(tmp_path / "a")

    assert str(tmp_path / "a") == refused.value.facts["path"]
