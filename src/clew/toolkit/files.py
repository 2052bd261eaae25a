"""Tools for the files of the workspace. An answer is whole; where it would be a part, it fails and says what is cut."""

import base64
import codecs
import contextlib
import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from clew.errors import NotFound, NothingHappened, Refused, Storage
from clew.runtime.checkpoint import Before
from clew.runtime.paths import Expected
from clew.runtime.tools import Call, Failed, Tool

DEFAULT_BYTES = 1 << 20
MOST_BYTES = 16 << 20
DEFAULT_PATHS = 1000
MOST_PATHS = 100_000


@partial(Tool, effect="none", builtin=True)
def read_file(call: Call, path: str, encoding: str = "utf-8", max_bytes: int = DEFAULT_BYTES) -> str | Failed:
    """Read a text file of the workspace.

    Args:
        call: Whose workspace it is.
        path: Relative to the workspace, with `/`.
        encoding: Of the text; `base64` gives the bytes of any file in base64.
        max_bytes: A longer file fails; the answer's value has its beginning as `text`, and `sizeBytes` and `cutBytes`.

    Returns:
        The whole text, line ends as they are in the file.
    """
    _check_between("max_bytes", max_bytes, MOST_BYTES)
    decode = _decoder(encoding)
    try:
        found = call.workspace.read(path, max_bytes)
    except Refused as refused:
        raise NothingHappened(refused.message) from None
    except NotFound as missing:
        return Failed(missing.message)
    cut = found.size_bytes > len(found.data)
    try:
        text, used = decode(found.data, cut)
    except UnicodeError as fault:
        return Failed(f"{path!r} is not {encoding} text: {fault}; encoding='base64' gives its bytes")
    if not cut:
        return text
    rest = found.size_bytes - used
    said = f"{path!r} has {found.size_bytes} bytes, more than max_bytes={max_bytes}: {rest} at its end are cut"
    return Failed(said, {"text": text, "sizeBytes": found.size_bytes, "cutBytes": rest})


@partial(Tool, effect="none", builtin=True)
def list_files(call: Call, pattern: str = "**/*", limit: int = DEFAULT_PATHS) -> list[str] | Failed:
    """List files of the workspace. Folders, and what lies in `.clew` and `.git`, are not listed.

    Args:
        call: Whose workspace it is.
        pattern: `*`, `?` and `[…]` stay within one name, `**` is any number of folders.
        limit: With more files the call fails; the answer's value has the first of them as `paths`.

    Returns:
        Paths relative to the workspace, folder by folder, in each by the code points of the names.
    """
    _check_between("limit", limit, MOST_PATHS)
    try:
        found = call.workspace.listing(pattern, limit)
    except Refused as refused:
        raise NothingHappened(refused.message) from None
    paths = list(found.paths)
    if found.more:
        return Failed(f"more than {limit} files match {pattern!r}: all after these are cut", {"paths": paths})
    if found.unread:
        unread = list(found.unread)
        said = f"{len(unread)} places could not be read or named, the first is {unread[0]!r}"
        return Failed(said, {"paths": paths, "unread": unread})
    return paths


def as_utf8(content: str) -> bytes:
    """The bytes of a text that a tool is to write."""
    try:
        return content.encode()
    except UnicodeEncodeError as fault:
        raise NothingHappened(f"the content cannot be written as UTF-8: {fault}") from None


def about(path: str, data: bytes) -> dict[str, Any]:
    """What a tool says of a file that it wrote."""
    return {"path": path, "sizeBytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@contextlib.contextmanager
def told_before_it_is_touched() -> Iterator[None]:
    """What refuses a path, or denies it, does so before it is touched: nothing happened.

    All else may be cured, or be in the middle: then nobody knows, and the files are asked.
    """
    try:
        yield
    except (Refused, NotFound) as refused:
        raise NothingHappened(refused.message) from None
    except Storage as refused:
        if refused.code == "storage_denied":
            raise NothingHappened(refused.message) from None
        raise


def _written(before: Before, path: str, content: str) -> Expected:
    data = as_utf8(content)
    return Expected({path: data}, about(before.leads_to(path), data))


@partial(Tool, effect="workspace", replay="idempotent", builtin=True, paths=("path",), expects=_written)
def write_file(call: Call, path: str, content: str) -> dict[str, Any]:
    """Make `content` (UTF-8) the whole content of a file of the workspace; parent folders are made.

    How the file stands is kept before: `clew diff` shows what was changed, `clew restore` puts it back. A kill leaves
    the old content or the new, and a resume sees which. A file that is replaced keeps its mode; a link in the
    workspace that leads to a file in it stays a link.

    Args:
        call: Whose workspace it is.
        path: Relative to the workspace, with `/`.
        content: Line ends as they are to be in the file.

    Returns:
        `path` as it really is below the workspace, `sizeBytes`, `sha256`.

    Raises:
        NothingHappened: the path is refused, or the file denied, before it was touched.
        Storage: the machine refused in the middle; unknown.
    """
    data = as_utf8(content)
    with told_before_it_is_touched():
        written = call.workspace.write(path, data, mark=call.short, kept=call.kept)
    return about(written, data)


def _check_between(name: str, number: int, most: int) -> None:
    if not 1 <= number <= most:
        raise NothingHappened(f"{name} is {number}; it may be 1 to {most}")


def _decoder(encoding: str) -> Callable[[bytes, bool], tuple[str, int]]:
    """How bytes become text: gives the text and how many bytes are in it; a character cut in two is left out."""
    if encoding == "base64":
        return lambda data, cut: (base64.b64encode(data).decode(), len(data))
    try:
        with contextlib.suppress(UnicodeError):
            b"clew".decode(encoding)
    except (LookupError, ValueError):
        raise NothingHappened(f"{encoding!r} is not the name of a text encoding") from None
    return partial(_decode, codecs.getincrementaldecoder(encoding))


def _decode(decoder: Callable[[str], codecs.IncrementalDecoder], data: bytes, cut: bool) -> tuple[str, int]:
    decoding = decoder("strict")
    text = decoding.decode(data, not cut)
    return text, len(data) - len(decoding.getstate()[0])
