"""Answers as text in a record and back."""

import json
from typing import Any

import pytest
from hypothesis import given

from clew.core.answers import (
    INLINE_BYTES,
    PREVIEW_CHARS,
    Answer,
    ErrorAnswer,
    beside,
    inline,
    is_long,
    json_text,
    read_answer,
)
from tests.strategies import json_values

DIGEST = "d" * 64


@given(json_values())
def test_an_answer_is_read_as_it_was_told(value: Any) -> None:
    """Live and replayed are the same."""
    answer = Answer(value)

    assert answer == read_answer(inline("pay-1", answer, json_text(value)), None)


@given(json_values())
def test_an_answer_beside_the_journal_is_read_as_it_was_told(value: Any) -> None:
    """The blob is the answer, what stands in the record is only its beginning."""
    text = json_text(value)
    event = beside("pay-1", Answer(value), text, DIGEST, len(text.encode()))

    assert Answer(value) == read_answer(event, text.encode())


def test_a_struct_with_a_lone_surrogate_in_it_has_a_text_as_well() -> None:
    """Heads and commands carry texts of the user's; msgspec alone refuses them."""
    text = json_text(Answer({"k": "x\ud99c"}))

    assert (True, {"value": {"k": "x\ud99c"}, "error": None}) == (text.isascii(), json.loads(text))


def test_an_error_answer_is_read_as_it_was_told() -> None:
    """A tool that says that it failed returned something, too."""
    answer = Answer({"code": 3}, ErrorAnswer("failed", "exit code 3", {"code": 3}))

    assert answer == read_answer(inline("pay-1", answer, '{"code":3}'), None)


def test_an_error_answer_says_so_in_the_same_event() -> None:
    """No prefix can replay it as success."""
    event = inline("pay-1", Answer(None, ErrorAnswer("denied", "no")), "null")

    assert (True, {"kind": "denied", "message": "no"}) == (event["isError"], event["error"])


@pytest.mark.parametrize("error", [{}, {"error": None}, {"error": {}}], ids=repr)
def test_an_error_answer_stays_one_whatever_it_says_of_the_error(error: dict[str, Any]) -> None:
    """Another program may leave the reason out; that does not make it a success."""
    event = {"type": "step_output", "stepId": "s1", "text": "null", "isError": True, **error}

    assert Answer(None, ErrorAnswer("", "")) == read_answer(event, None)


def test_an_error_beside_a_success_is_not_one() -> None:
    """The flag decides."""
    event = {"type": "step_output", "stepId": "s1", "text": "1", "error": {"kind": "x"}}

    assert Answer(1) == read_answer(event, None)


def test_text_that_is_no_json_is_not_made_one() -> None:
    """An answer is what was told, or nothing."""
    with pytest.raises(ValueError, match="Expecting value"):
        read_answer({"type": "step_output", "stepId": "s1", "text": "done"}, None)


@pytest.mark.parametrize(
    ("text", "long"),
    [
        ("x" * INLINE_BYTES, False),
        ("x" * (INLINE_BYTES + 1), True),
        ("é" * (INLINE_BYTES // 2), False),
        ("é" * (INLINE_BYTES // 2 + 1), True),
        ("\ud800" * (INLINE_BYTES // 3), False),
        ("\ud800" * (INLINE_BYTES // 3 + 1), True),
    ],
    ids=["limit", "one more", "bytes at the limit", "one more byte", "surrogates", "one more surrogate"],
)
def test_an_answer_stands_in_its_record_up_to_sixteen_kib(text: str, long: bool) -> None:
    """Counted in bytes, for that is what the journal grows by."""
    assert long == is_long(text)


def test_a_long_answer_leaves_its_beginning_and_its_digest() -> None:
    """A person sees what it is about; a program reads the whole."""
    event = beside("pay-1", Answer("x"), '"' + "x" * 20_000 + '"', DIGEST, 20_002)

    assert PREVIEW_CHARS == len(event["text"])
    assert {"sha256": DIGEST, "sizeBytes": 20_002, "mediaType": "application/json"} == event["blob"]


def test_halves_of_a_pair_are_escaped() -> None:
    """UTF-8 cannot hold them, JSON can."""
    assert '"\\ud800"' == json_text("\ud800")
