"""Answers: what the agent was told, as text in a record and back. Restoring Python types belongs to `jsonable`."""

import json
from typing import Any, Final

import msgspec

from clew.core.events import Event, step_output

INLINE_BYTES: Final = 16 * 1024
PREVIEW_CHARS: Final = 1024

_encode: Final = msgspec.json.Encoder().encode


class ErrorAnswer(msgspec.Struct, frozen=True):
    """An answer that is an error: `kind` is the exception's name or `denied`, `nothing_happened`, `failed`."""

    kind: str
    message: str
    value: Any = None


class Answer(msgspec.Struct, frozen=True):
    """What the agent was told: JSON, and the error if it was one."""

    value: Any
    error: ErrorAnswer | None = None


class Unrecorded(msgspec.Struct, frozen=True):
    """Settled as happened without a result: the agent is told so (`ResultNotRecorded`), live and replayed."""

    message: str


def json_text(value: Any) -> str:
    """JSON text of a value that the walker has passed, or of a Struct of such; lone surrogates as escapes."""
    try:
        return _encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def is_long(text: str) -> bool:
    """Is it too long to stand in a record?"""
    if len(text) <= INLINE_BYTES // 4:
        # No character has more than four bytes.
        return False
    return len(text) > INLINE_BYTES or len(text.encode("utf-8", "surrogatepass")) > INLINE_BYTES


def inline(step_id: str, answer: Answer, text: str) -> Event:
    """The event of an answer that stands in the record itself."""
    return step_output(step_id, text, error=_error(answer))


def beside(step_id: str, answer: Answer, text: str, sha256: str, size_bytes: int) -> Event:
    """The event of an answer whose text is a blob: its beginning, and where the whole is."""
    blob = {"sha256": sha256, "sizeBytes": size_bytes, "mediaType": "application/json"}
    return step_output(step_id, text[:PREVIEW_CHARS], blob=blob, error=_error(answer))


def _error(answer: Answer) -> Event | None:
    if answer.error is None:
        return None
    return {"kind": answer.error.kind, "message": answer.error.message}


def read_answer(event: Event, whole: bytes | None) -> Answer:
    """The answer of a `step_output`; `whole` is its blob's content, if it has one.

    Raises:
        ValueError: when the text is not JSON.
    """
    text = event["text"] if whole is None else whole.decode("utf-8", "surrogatepass")
    value = json.loads(text)
    if event.get("isError") is not True:
        return Answer(value)
    error = event.get("error") or {}
    return Answer(value, ErrorAnswer(str(error.get("kind", "")), str(error.get("message", "")), value))
