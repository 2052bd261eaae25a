"""`clew find`: who has a business key, and the index built anew from the journals. Imports no agent."""

import json

from clew.cli.desk import Desk
from clew.core.canon import canonical
from clew.core.jsonable import to_json
from clew.errors import ClewError, Corrupt, NotFound, UsageError
from clew.views.keys import holder_lines, rebuilt_lines


def find(desk: Desk, key: str | None, tool: str | None, *, rebuild: bool) -> int:
    """Either of the two."""
    if (key is None) != rebuild or (rebuild and tool is not None):
        raise UsageError(
            "say either a KEY, with or without --tool, or --rebuild alone",
            code="invalid_command_line",
            next="See `clew find --help`.",
        )
    return _rebuild(desk) if key is None else _find(desk, key, tool)


def _find(desk: Desk, key: str, tool: str | None) -> int:
    home = desk.home().require()
    rows = [row for form in _forms(key) for row in home.find_key(form, tool)]
    if not rows:
        raise NotFound(
            f"nobody has the business key {key!r}" + ("" if tool is None else f" of tool {tool!r}"),
            code="key_not_held",
            next="A call with this key may start. Is it spelt as the tool's key function gives it?",
        )
    if desk.options.json:
        desk.screen.answer_json(rows)
    else:
        desk.screen.answer_lines(line for row in rows for line in holder_lines(row, desk.when(home)))
    return 0


def _forms(key: str) -> list[str]:
    """The text as it was typed and, where it is JSON in another spelling, the form that such a key counts by."""
    try:
        value = to_json(json.loads(key), at="key")
    except (ValueError, RecursionError, ClewError):
        return [key]
    form = key if type(value) is str else canonical(value).decode()
    return list(dict.fromkeys([key, form]))


def _rebuild(desk: Desk) -> int:
    report = desk.home().require().rebuild_keys()
    if desk.options.json:
        desk.screen.answer_json(report)
    else:
        desk.screen.answer_lines(rebuilt_lines(report))
    return 0 if report["complete"] else Corrupt.exit_code
