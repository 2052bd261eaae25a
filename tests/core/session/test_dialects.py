"""The first line tells in which language a session is written, or that it is none."""

import json
from typing import Any

import pytest

from clew.core.session.dialects import detect, no_header
from clew.errors import ClewError
from tests.core.session.scribe import header


@pytest.mark.parametrize(
    ("format", "value"),
    [
        ("v1", header(None)),
        ("v1", header(1)),
        ("v2", header(2)),
        ("v2", {**header(2), "version": 2.0}),
        ("v3", header(3)),
        ("v4a", {"kind": "header", "version": 4, "id": "s1", "createdAt": 5, "cwd": "/"}),
        ("v4b", {"v": 4, "kind": "header", "id": "s1", "createdAt": 5, "storageVersion": 1}),
    ],
)
def test_each_language_is_known_by_its_header(format: str, value: dict[str, Any]) -> None:
    """C109: two of them are called 4, and read as one another they would be nonsense."""
    found = detect(json.dumps(value).encode())

    assert (format, "s1", False) == (found.format, found.id, found.byte_order_mark)


@pytest.mark.parametrize(
    ("version", "value"),
    [
        ("3", header("3")),  # type: ignore[arg-type]  # that is the point
        (3.5, header(3.5)),  # type: ignore[arg-type]  # that is the point
        (5, header(5)),
        (None, {**header(3), "version": None}),
        ("bool", {**header(3), "version": True}),
        (4, header(4)),
        (9, {"kind": "header", "version": 9, "id": "s", "createdAt": 5, "cwd": "/"}),
        (5, {"v": 5, "kind": "header", "id": "s", "createdAt": 5}),
        (4, {"v": 4, "kind": "header", "id": "s", "createdAt": 5, "storageVersion": 2}),
        (None, {"type": "message"}),
        ("x" * 80, header("x" * 200)),  # type: ignore[arg-type]  # that is the point
    ],
)
def test_another_version_is_refused_and_named(version: object, value: dict[str, Any]) -> None:
    """§9, item 7: what a newer program wrote is not ours to guess at."""
    with pytest.raises(ClewError) as caught:
        detect(json.dumps(value).encode())

    assert ("session_unsupported", version) == (caught.value.code, caught.value.facts["version"])


@pytest.mark.parametrize(
    "raw", [b"", b"nonsense", b"[]", b'{"type":"session","version":3}', b'{"kind":"header","version":4,"id":"s"}']
)
def test_a_first_line_that_is_no_header_is_damage(raw: bytes) -> None:
    """An early reader wrote a fresh header over such a file."""
    with pytest.raises(ClewError) as caught:
        detect(raw)

    assert ("session_corrupt", 1, 0) == (caught.value.code, caught.value.facts["line"], caught.value.facts["byte"])


def test_a_byte_order_mark_is_seen_and_passed_over() -> None:
    """§8, row 12: an editor put it there; the session is whole."""
    assert detect(b"\xef\xbb\xbf" + json.dumps(header()).encode()).byte_order_mark


@pytest.mark.parametrize(("word", "rest"), [("empty", b""), ("part", b'{"type":"ses')])
def test_nothing_precedes_a_header(word: str, rest: bytes) -> None:
    """A file with a part of a header is not an empty session, and is not born again."""
    error = no_header(rest)

    assert ("session_corrupt", "no_header") == (error.code, error.facts["reason"])
    assert word in error.message
