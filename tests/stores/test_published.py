"""The text of heads, commands and their answers, and how strictly it is read back."""

from typing import Any

import pytest
from hypothesis import given

from clew.core.records import Head
from clew.stores.base import Command
from clew.stores.published import decode, encode
from tests.strategies import json_values

CHAIN = "c" * 64
TEXT = b'{"sequence":7,"chain":"x","sizeBytes":900,"row":{"input":"x"}}'


@given(json_values())
def test_what_was_published_is_read_back(value: Any) -> None:
    """Whatever the user's input or reason holds, lone surrogates and large integers included."""
    head = Head(7, CHAIN, 900, {"input": value})

    assert head == decode(encode(head), Head)


def test_a_lone_surrogate_stands_as_its_escape() -> None:
    """C90: the file stays UTF-8 that anyone can read."""
    data = encode(Command(1, "c1", "r1", "pause", "ann", "caf\udce9"))

    assert (True, b"\\udce9" in data) == (data.isascii(), True)


@pytest.mark.parametrize(
    "data",
    [
        TEXT.replace(b'"sequence":7', b'"sequence":7,"sequence":8'), TEXT.replace(b"7", b'"7"'),
        TEXT.replace(b'"x"}', b"NaN}"), TEXT[:-1], b"[]", b"", TEXT.replace(b"900", b"9.5"),
    ],
)  # fmt: skip
def test_anything_else_is_refused(data: bytes) -> None:
    """C95, C96: a head that two readers read differently is a bound that nobody can trust."""
    with pytest.raises(ValueError, match=r"."):
        decode(data, Head)


def test_the_text_that_is_spoiled_above_is_a_good_one() -> None:
    """Else it would be refused for something else."""
    assert Head(7, "x", 900, {"input": "x"}) == decode(TEXT, Head)
