"""Names of runs, steps, calls and tools: what is legal, what is equal, what is unique. Not what they refer to."""

import base64
import hashlib
import re
import uuid
from collections.abc import Collection
from typing import Final

from clew.errors import NotFound, UsageError

CALL_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "urn:clew:call")
"""The UUIDv5 namespace of calls: UUIDv5 of the URL namespace and the name `urn:clew:call`."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_ID_LENGTH: Final = 128
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NAME_LENGTH: Final = 80
_RESERVED: Final = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))]
)
# Without i, l, o and u: nothing in an id can be misread when it is typed from a screen.
_LETTERS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_CHANCE_LENGTH: Final = 6
_CANDIDATES: Final = 5


def check_id(text: str, what: str = "run") -> str:
    """Return `text` when a file may be named by it on every system.

    Args:
        text: The id as the user gave it.
        what: Whose id it is, for the error code: `run`, `session`, `checkpoint`.

    Raises:
        UsageError: `invalid_<what>_id` when it is empty, longer than 128, holds anything but ASCII letters, digits,
            `_` and `-`, begins with one of these two, or is a device name of Windows.

    Source:
        DESIGN §4; contract #18.
    """
    if not _fits(text, _ID, _ID_LENGTH) or text.lower() in _RESERVED:
        raise UsageError(
            f"{_shown(text)} is not a legal {what} id",
            code=f"invalid_{what}_id",
            next="Use at most 128 ASCII letters, digits, '_' and '-', begin with a letter or digit, "
            "and avoid device names such as CON or COM1.",
            id=_fact(text),
        )
    return text


def is_digest(text: str) -> bool:
    """Is this a SHA-256, as a blob is named by it: 64 hex digits in lower case?"""
    return _DIGEST.fullmatch(text) is not None


def same_id(a: str, b: str) -> bool:
    """Say whether two ids name the same file on a system that ignores case. Source: DESIGN §4."""
    return a.casefold() == b.casefold()


def new_run_id(chance: bytes, day: str) -> str:
    """Make a run id such as `k3f9x2-261129`, random part first so that three characters suffice to type it.

    Args:
        chance: At least six random bytes; the low five bits of each are used.
        day: The day as `yymmdd`.

    Source:
        DESIGN §4.
    """
    assert len(chance) >= _CHANCE_LENGTH, "six random bytes are needed"
    return check_id("".join(_LETTERS[byte % 32] for byte in chance[:_CHANCE_LENGTH]) + f"-{day}")


def match_id(part: str, ids: Collection[str]) -> str:
    """Find the one run that a typed part means: the exact id, else the only beginning, else the only inside part.

    Case is ignored unless the exact id is there.

    Raises:
        NotFound: `unknown_run` when no id contains the part.
        UsageError: `ambiguous_run_id` when several do; `facts["candidates"]` has the first five.

    Source:
        DESIGN §4, §10.
    """
    if part in ids:
        return part
    found = _closest(part.casefold(), ids)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(
            f"there is no run {_shown(part)}",
            code="unknown_run",
            next="List the runs of this home with `clew ls`.",
            part=_fact(part),
        )
    candidates = sorted(found)[:_CANDIDATES]
    more = ", …" if len(found) > _CANDIDATES else ""
    raise UsageError(
        f"{_shown(part)} means {len(found)} runs: {', '.join(map(repr, candidates))}{more}",
        code="ambiguous_run_id",
        next="Type more characters of the run that you mean.",
        part=part,
        candidates=candidates,
    )


def _closest(part: str, ids: Collection[str]) -> list[str]:
    """The ids of the first rule that any id satisfies; an empty part names nothing."""
    if not part:
        return []
    folded = {id: id.casefold() for id in ids}
    return (
        [id for id, text in folded.items() if text == part]
        or [id for id, text in folded.items() if text.startswith(part)]
        or [id for id, text in folded.items() if part in text]
    )


def effect_key(run_id: str, step_id: str, call_id: str) -> str:
    """Make the idempotency key `run:step:call`, which every record of one effect carries.

    Raises:
        UsageError: `invalid_run_id`, `invalid_step_id` or `invalid_call_id` when a part is empty, holds `:` or `#`
            (they separate), or a character that cannot be printed (an environment variable carries the key).

    Source:
        DESIGN promise 3, §5 stage 6; reference/journal.md §1.
    """
    key = f"{run_id}:{step_id}:{call_id}"
    if run_id and step_id and call_id and key.count(":") == 2 and "#" not in key and key.isprintable():
        return key
    parts = ((run_id, "run"), (step_id, "step"), (call_id, "call"))
    text, what = next(part for part in parts if not _fits_in_key(part[0]))
    raise UsageError(
        f"{_shown(text)} cannot be the {what} part of an idempotency key",
        code=f"invalid_{what}_id",
        next="Give it a name of printable characters without ':' and '#'.",
        id=_fact(text),
    )


def _fits_in_key(text: str) -> bool:
    return text != "" and ":" not in text and "#" not in text and text.isprintable()


def split_key(key: str) -> tuple[str, str, str]:
    """Take a key apart into run, step and call.

    Raises:
        UsageError: `invalid_key` when it has not exactly three parts.
    """
    parts = key.split(":")
    if len(parts) != 3 or not all(parts):
        raise UsageError(
            f"{_shown(key)} is not an idempotency key",
            code="invalid_key",
            next="Write it as 'run:step:call'; `clew show RUN --effects` prints the keys.",
            key=_fact(key),
        )
    return parts[0], parts[1], parts[2]


def attempt_id(key: str, attempt: int) -> str:
    """Name one attempt of an effect: the key itself for the first, `key#n` for the n-th. Source: journal.md §1."""
    assert attempt >= 1, "attempts are numbered from 1"
    return key if attempt == 1 else f"{key}#{attempt}"


def call_uuid(key: str) -> uuid.UUID:
    """The key as a UUID, for systems that want their idempotency keys so: UUIDv5 in `CALL_NAMESPACE`."""
    return uuid.uuid5(CALL_NAMESPACE, key)


def call_short(key: str) -> str:
    """The key in 16 characters, for short reference fields: lower-case base32 of the first 80 bits of its SHA-256."""
    return base64.b32encode(hashlib.sha256(key.encode()).digest()[:10]).decode().lower()


def check_name(text: str, what: str) -> str:
    """Return `text` when a tool or step may be called so; `.`, `:` and `#` separate and are therefore no part of it.

    Raises:
        UsageError: `invalid_<what>_name` when it is empty, longer than 80, holds anything but ASCII letters, digits,
            `_` and `-`, or begins with a digit or `-`.

    Source:
        reference/journal.md §1.
    """
    if not _fits(text, _NAME, _NAME_LENGTH):
        raise UsageError(
            f"{_shown(text)} is not a legal {what} name",
            code=f"invalid_{what}_name",
            next="Use at most 80 ASCII letters, digits, '_' and '-', and begin with a letter or '_'.",
            name=_fact(text),
        )
    return text


def step_id(path: str, name: str, number: int) -> str:
    """Name the n-th step of a name below a path: `<path>.<name>-<n>`, at the root `<name>-<n>`."""
    assert number >= 1, "steps are numbered from 1"
    return f"{path}.{name}-{number}" if path else f"{name}-{number}"


def _fits(text: object, pattern: re.Pattern[str], length: int) -> bool:
    return isinstance(text, str) and len(text) <= length and pattern.fullmatch(text) is not None


def _fact(text: object) -> str:
    """A name as a fact: as it was given, if it can be printed and is short, so that a program can compare it."""
    return text if isinstance(text, str) and text.isprintable() and len(text) <= 200 else _shown(text)


def _shown(text: object) -> str:
    """A name for a message: quoted, printable and short."""
    shown = ascii(text)
    return shown if len(shown) <= 200 else f"{shown[:200]}…"
