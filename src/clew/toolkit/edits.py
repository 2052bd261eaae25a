"""Tools that change one file of the workspace in place. How each file stands is kept before; whole files: `files`."""

from functools import partial
from typing import Any

from clew.errors import NothingHappened
from clew.runtime.checkpoint import Before
from clew.runtime.paths import Expected
from clew.runtime.tools import Call, Tool
from clew.toolkit.files import MOST_BYTES, about, told_before_it_is_touched


def _edited(before: Before, path: str, old: str, new: str, encoding: str) -> Expected:
    if (before.size_bytes(path) or 0) > MOST_BYTES:
        raise _too_large(path, before.size_bytes(path) or 0)
    data = before.read(path)
    if data is None:
        raise NothingHappened(f"there is no file {path!r} in the workspace")
    changed = edited(data, path, old, new, encoding)
    return Expected({path: changed}, about(before.leads_to(path), changed))


@partial(Tool, effect="workspace", builtin=True, paths=("path",), expects=_edited)
def edit_file(call: Call, path: str, old: str, new: str, encoding: str = "utf-8") -> dict[str, Any]:
    r"""Replace the one place of a file where exactly this text stands. All other bytes, and its mode, stay as they are.

    How the file stands is kept before: `clew diff` shows the change, `clew restore` takes it back.

    Args:
        call: Whose workspace it is.
        path: Relative to the workspace, with `/`.
        old: The text as it stands in the file, line ends and white space included; it must stand there once.
        new: What is to stand there instead; its line ends are written as they are.
        encoding: Of the file. Bytes that are not UTF-8 do not matter; in any other encoding the whole must be text.

    Returns:
        `path` as it really is below the workspace, `sizeBytes`, `sha256`.

    Raises:
        NothingHappened: the text stands there more or less often than once, or the path is refused; the message says.
        Storage: the machine refused in the middle; unknown.
    """
    with told_before_it_is_touched():
        found = call.workspace.read(path, MOST_BYTES)
        if found.size_bytes > len(found.data):
            raise _too_large(path, found.size_bytes)
        changed = edited(found.data, path, old, new, encoding)
        written = call.workspace.write(path, changed, mark=call.short, kept=call.kept)
    return about(written, changed)


def edited(data: bytes, path: str, old: str, new: str, encoding: str) -> bytes:
    """The bytes of a file with one text in the place of another.

    Raises:
        NothingHappened: the text does not stand there exactly once, or the file is not text of this encoding.
    """
    if not old or old == new:
        raise NothingHappened("there is no text to look for" if not old else "both texts are the same")
    text, errors = _text(data, path, encoding)
    place = text.find(old)
    if place < 0:
        raise NothingHappened(f"the text does not stand in {path!r}{_almost(text, old)}")
    if text.find(old, place + 1) >= 0:
        raise NothingHappened(f"the text stands in {path!r} more than once: give more of what is around it")
    try:
        return (text[:place] + new + text[place + len(old) :]).encode(encoding, errors)
    except UnicodeEncodeError as fault:
        raise NothingHappened(f"the new text cannot be written as {encoding}: {fault}") from None


def _text(data: bytes, path: str, encoding: str) -> tuple[str, str]:
    """The text of a file so that the same bytes come back from it, and how its strange bytes are to be written."""
    errors = "surrogateescape" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else "strict"
    try:
        text = data.decode(encoding, errors)
        same = text.encode(encoding, errors) == data
    except (LookupError, UnicodeError) as fault:
        raise NothingHappened(f"{path!r} is not {encoding} text: {fault}") from None
    if not same:
        raise NothingHappened(f"{path!r} read as {encoding} does not give the same bytes again")
    return text, errors


def _almost(text: str, old: str) -> str:
    r"""A hint, where only the line ends or the white space around it differ."""
    if "\n" in old and old.replace("\r\n", "\n") in text.replace("\r\n", "\n"):
        return ", but it does with other line ends: " + ("\\r\\n" if "\r\n" in text else "\\n")
    return ", but it does without the white space around it" if old.strip() and old.strip() in text else ""


def _too_large(path: str, size_bytes: int) -> NothingHappened:
    return NothingHappened(f"{path!r} has {size_bytes} bytes; at most {MOST_BYTES} can be edited")


def _deleted(before: Before, path: str) -> Expected:
    _check_there(before, path)
    return Expected({path: None}, {"path": before.stands_at(path)})


def _check_there(before: Before, path: str) -> None:
    kind = before[path].kind
    if kind in ("absent", "folder"):
        raise NothingHappened(f"{path!r} is a folder" if kind == "folder" else f"there is no file {path!r}")


@partial(Tool, effect="workspace", builtin=True, paths=("path",), expects=_deleted)
def delete_file(call: Call, path: str) -> dict[str, Any]:
    """Remove one file of the workspace, or a link itself. What it held is kept: `clew restore` brings it back.

    Args:
        call: Whose workspace it is.
        path: Relative to the workspace, with `/`.

    Returns:
        `path` as it was below the workspace.

    Raises:
        NothingHappened: there is none, it is a folder, or the path is refused.
        Storage: the machine refused in the middle; unknown.
    """
    with told_before_it_is_touched():
        return {"path": call.workspace.delete(path, mark=call.short, kept=call.kept)}


def _moved(before: Before, path: str, to: str) -> Expected:
    _check_there(before, path)
    if before[to].kind != "absent":
        raise NothingHappened(f"{to!r} stands there already; delete it first if it is to be replaced")
    return Expected({path: None, to: before[path]}, {"path": before.stands_at(to)})


@partial(Tool, effect="workspace", builtin=True, paths=("path", "to"), expects=_moved)
def move_file(call: Call, path: str, to: str) -> dict[str, Any]:
    """Give one file of the workspace, or a link itself, another path; parent folders are made. It replaces nothing.

    Args:
        call: Whose workspace it is.
        path: Relative to the workspace, with `/`.
        to: Where it is to stand.

    Returns:
        `path` where it stands now, below the workspace.

    Raises:
        NothingHappened: there is none, something stands at `to`, it is a folder, or a path is refused.
        Storage: the machine refused in the middle; unknown.
    """
    with told_before_it_is_touched():
        return {"path": call.workspace.move(path, to, mark=call.short)}
