"""Search files for a regular expression in a process of its own, for nothing else can interrupt one that backtracks.

It is run as a script by a bare interpreter, which is quick, so nothing of clew is imported here. The order and what
was found are JSON on its input and output.
"""

import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

MOST_FILE_BYTES: Final = 16 << 20
SHOWN_CHARS: Final = 500
_BEFORE_CHARS: Final = 100
_LOOKED_AT: Final = 8192


def seek(order: dict[str, Any]) -> dict[str, Any]:
    """Lines of files that the pattern is found in, file by file as ordered.

    Args:
        order: `pattern`, `ignoreCase`, `limit` of lines, `files`: pairs of the name to tell and the path to read.

    Returns:
        `matches`: `path`, `line` and `column` from 1, `text`, and `cut` where that is a part of the line; `more` when
        there are others; `searched` files; `skipped`: pairs of a name and why (`binary`, `not_utf8`, `too_long`,
        `unreadable`).
    """
    pattern = re.compile(order["pattern"], re.IGNORECASE if order["ignoreCase"] else 0)
    matches, skipped, searched = list[dict[str, Any]](), list[tuple[str, str]](), 0
    for name, place in order["files"]:
        why, text = _text_of(place)
        if why:
            skipped.append((name, why))
            continue
        for match in _lines(pattern, name, text):
            if len(matches) == order["limit"]:
                return {"matches": matches, "more": True, "searched": searched, "skipped": skipped}
            matches.append(match)
        searched += 1
    return {"matches": matches, "more": False, "searched": searched, "skipped": skipped}


def _text_of(place: str) -> tuple[str, str]:
    """Why a file is not searched, or its text."""
    try:
        with Path(place).open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
    except OSError:
        return "unreadable", ""
    if b"\0" in data[:_LOOKED_AT]:
        return "binary", ""
    if len(data) > MOST_FILE_BYTES:
        return "too_long", ""
    try:
        return "", data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "not_utf8", ""


def _lines(pattern: "re.Pattern[str]", name: str, text: str) -> Iterator[dict[str, Any]]:
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole.removesuffix("\r")
        found = pattern.search(line)
        # Behind the last line end there is no line.
        if found is None or (not line and number > text.count("\n")):
            continue
        begin = max(0, found.start() - _BEFORE_CHARS) if len(line) > SHOWN_CHARS else 0
        shown = line[begin : begin + SHOWN_CHARS]
        told = {"path": name, "line": number, "column": found.start() + 1, "text": shown}
        yield {**told, "cut": True} if len(shown) < len(line) else told


def main() -> None:
    """Read the order, search, say what was found; the alarm ends it should whoever asked have died."""
    order = json.load(sys.stdin.buffer)
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, order["seconds"])
    try:
        found = seek(order)
    except (re.error, ValueError, OverflowError, RecursionError, MemoryError) as fault:
        found = {"wrong": str(fault) or type(fault).__name__}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
