"""The search itself: which lines are found, and what is said of what was not searched."""

from pathlib import Path
from typing import Any

import pytest

from clew.disk.seeker import MOST_FILE_BYTES, SHOWN_CHARS, seek


def order(folder: Path, pattern: str, *names: str, limit: int = 100, ignore_case: bool = False) -> dict[str, Any]:
    files = [[name, str(folder / name)] for name in names]
    return {"pattern": pattern, "ignoreCase": ignore_case, "limit": limit, "files": files}


def places(found: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(match["path"], match["line"], match["column"]) for match in found["matches"]]


@pytest.mark.parametrize(
    ("pattern", "ignore_case", "expected"),
    [
        ("b", False, [("x", 1, 2), ("x", 3, 1)]),
        ("B", False, []),
        ("B", True, [("x", 1, 2), ("x", 3, 1)]),
        ("^$", False, [("x", 2, 1)]),
        ("b$", False, [("x", 3, 1)]),
        ("b\n", False, []),
    ],
)
def test_lines_are_found_with_their_place(
    tmp_path: Path, pattern: str, ignore_case: bool, expected: list[tuple[str, int, int]]
) -> None:
    """Whoever opens the file at that line must see it; a line end of either kind is no part of the line."""
    (tmp_path / "x").write_bytes(b"abc\r\n\r\nb\r\n")

    found = seek(order(tmp_path, pattern, "x", ignore_case=ignore_case))

    assert expected == places(found)


def test_files_are_searched_in_their_order(tmp_path: Path) -> None:
    """The same search gives the same answer."""
    for name in ("b", "a"):
        (tmp_path / name).write_text("x\n")

    found = seek(order(tmp_path, "x", "b", "a"))

    assert ([("b", 1, 1), ("a", 1, 1)], 2, False) == (places(found), found["searched"], found["more"])


def test_lines_beyond_the_limit_are_said_to_be_there(tmp_path: Path) -> None:
    """A list that stops without a word is taken for whole."""
    (tmp_path / "x").write_text("x\n" * 3)

    cut, whole = seek(order(tmp_path, "x", "x", limit=2)), seek(order(tmp_path, "x", "x", limit=3))

    assert ((2, True), (3, False)) == tuple((len(found["matches"]), found["more"]) for found in (cut, whole))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0x", "binary"),
        (b"x\xff", "not_utf8"),
        (b"x" * (MOST_FILE_BYTES + 1), "too_long"),
        (None, "unreadable"),
    ],
)
def test_what_is_not_searched_is_told(tmp_path: Path, data: bytes | None, why: str) -> None:
    """ "Not found" is only true of what was looked at."""
    if data is not None:
        (tmp_path / "x").write_bytes(data)
    (tmp_path / "y").write_text("x")

    found = seek(order(tmp_path, "x", "x", "y"))

    assert ([("x", why)], 1, [("y", 1, 1)]) == (found["skipped"], found["searched"], places(found))


def test_a_mark_of_utf_8_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    """Windows programs write it, and `^` means the first letter behind it."""
    (tmp_path / "x").write_bytes("\ufeffName".encode())

    assert [("x", 1, 1)] == places(seek(order(tmp_path, "^Name", "x")))


def test_of_a_long_line_the_part_around_the_match_is_told(tmp_path: Path) -> None:
    """A file of one line would be the answer otherwise."""
    (tmp_path / "x").write_text("a" * 5000 + "needle" + "b" * 5000)

    (match,) = seek(order(tmp_path, "needle", "x"))["matches"]

    assert (5001, SHOWN_CHARS, True, True) == (
        match["column"],
        len(match["text"]),
        "needle" in match["text"],
        match["cut"],
    )
