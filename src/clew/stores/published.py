"""The text of what is published whole: heads, commands, answers to commands. Journals have `core.codec`."""

from typing import TypeVar

import msgspec

from clew.core.answers import json_text
from clew.core.codec import strict_json

_Kind = TypeVar("_Kind", bound=msgspec.Struct)


def encode(value: msgspec.Struct) -> bytes:
    """One line of JSON, without LF; a lone surrogate in a text of the user's stands as its escape."""
    return json_text(value).encode()


def decode(data: bytes, kind: type[_Kind]) -> _Kind:
    """What `encode` wrote, read as strictly as a journal: no name twice, no NaN, each member of its type.

    Raises:
        ValueError: it is something else.

    Source:
        reference/journal.md §3.
    """
    return msgspec.convert(strict_json(data), kind)
