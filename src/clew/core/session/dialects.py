"""In which language a file is written: its first line tells. The other lines are not read here."""

from typing import Any, Final

import msgspec

from clew.core.session.lines import BOM, BadLine, damaged, exact, shown
from clew.core.session.values import Format
from clew.errors import Corrupt, Refused

_BY_VERSION: Final[dict[object, Format]] = {1: "v1", 2: "v2", 3: "v3"}
_HEADERS: Final = {"v4a": (("id", str), ("createdAt", int), ("cwd", str)), "v4b": (("id", str), ("createdAt", int))}


class Header(msgspec.Struct, frozen=True):
    """The first line of a session: the language, the id, the line itself, and whether a byte order mark leads it."""

    format: Format
    id: str
    value: dict[str, Any]
    byte_order_mark: bool = False


def detect(line: bytes) -> Header:
    """Tell from its first line, without LF, in which language a session is written.

    A version that is missing means 1. One that is a text or has a fraction is none.

    Raises:
        Corrupt: `session_corrupt` when the line is not strict JSON, or a header lacks what it must have.
        Refused: `session_unsupported` when it is the beginning of something else, or of another version;
            `facts["version"]` has it.

    Source:
        reference/sessions.md §6; §8, row 12.
    """
    marked = line.startswith(BOM)
    try:
        value = exact(line.removeprefix(BOM))
        if type(value) is not dict:
            raise BadLine("it is not an object")
        return _header(value, _format(value), marked)
    except BadLine as error:
        raise damaged(error, 1, 0) from None


def _format(value: dict[str, Any]) -> Format:
    version = value.get("version")
    if value.get("type") == "session":
        if "version" not in value:
            return "v1"
        if type(version) in (int, float) and version in _BY_VERSION:
            return _BY_VERSION[version]
        raise _unsupported("a session", version)
    if value.get("kind") != "header":
        raise _unsupported("", version)
    if "v" in value:
        version = value["v"]
        if type(version) is int and version == 4 and value.get("storageVersion", 1) == 1:
            return "v4b"
    elif type(version) is int and version == 4:
        return "v4a"
    raise _unsupported("a session", version)


def _header(value: dict[str, Any], format: Format, marked: bool) -> Header:
    for name, wanted in _HEADERS.get(format, (("id", str),)):
        if type(value.get(name)) is not wanted:
            raise BadLine(f"the {name} of its header is missing or has the wrong type", reason="bad_header")
    return Header(format, value["id"], value, marked)


def _unsupported(what: str, version: object) -> Refused:
    plain = version if version is None or type(version) in (int, float, str) else type(version).__name__
    found = what if version is None else f"{what} of version {shown(version)}"
    known = f"the file begins with {found}, which is not among those that can be read"
    return Refused(
        known if what else "the file does not begin with the header of a session",
        code="session_unsupported",
        next="Nothing was touched. Sessions of versions 1 to 4 can be read; a newer clew may know this one."
        if what
        else "Nothing was touched. Transcripts of other programs are read by `clew session verify` alone.",
        version=plain if type(plain) is not str else plain[:80],
    )


def no_header(rest: bytes) -> Corrupt:
    """The refusal of a file whose first line never ended, or that is empty: nothing precedes it."""
    why = "only a part of its first line is there" if rest else "it is empty"
    return damaged(BadLine(why, reason="no_header"), 1, 0)
