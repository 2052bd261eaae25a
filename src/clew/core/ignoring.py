r"""Rules by which paths of a workspace are left out, in the syntax of `.gitignore`. No file is looked at here.

A line is one rule. Empty lines and those that begin with `#` are none; `\` in front of a character takes its meaning;
blanks at the end do not count. `!` takes a path in again that an earlier rule left out. A `/` at the end means folders
only; one at the beginning or in the middle ties the rule to the folder of its file, without one it holds at any depth.
`*`, `?` and `[…]` stay within a name, `**/` is any number of folders, `/**` all that is below. Of several rules that
fit, the last counts, and a file of a deeper folder is behind one of a higher. What is below a folder that is left out
is never looked at, so it cannot be taken in again. A set with a class, as
`[[:alpha:]]`, is not understood, so its rule is none.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple


class Rule(NamedTuple):
    """One rule.

    Attributes:
        told: As it is told to people: the path of its file, and the line.
        fits: What of a path below the folder of its file it is about.
        again: Does it take in again?
        folders: Is it about folders only?
    """

    told: str
    fits: re.Pattern[str]
    again: bool
    folders: bool


class Rules(NamedTuple):
    """The rules of one file. `folder` is the folder it lies in, with a `/` behind it, or empty."""

    folder: str
    rules: tuple[Rule, ...]


def read_rules(path: str, text: str) -> Rules:
    """The rules of a file.

    Args:
        path: Of the file, below the workspace.
        text: What is in it; a line that is no rule, as a set that is not closed, is left out.
    """
    lines = (line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n"))
    rules = (_read_rule(path, line) for line in lines)
    folder, slash, _ = path.rpartition("/")
    return Rules(folder + slash, tuple(rule for rule in rules if rule is not None))


def left_out_by(stack: Sequence[Rules], path: str, *, folder: bool) -> str:
    """The rule that leaves a path out, as it is told; empty where none does.

    Args:
        stack: The rules of the folders above it, the highest first.
        path: Below the workspace.
        folder: Is it a folder, itself and not by a link?
    """
    for rules in reversed(stack):
        below = path[len(rules.folder) :]
        for rule in reversed(rules.rules):
            if (folder or not rule.folders) and rule.fits.fullmatch(below):
                return "" if rule.again else rule.told
    return ""


def _read_rule(path: str, line: str) -> Rule | None:
    text = _without_blanks(line)
    if text.startswith("#"):
        return None
    again, text = text.startswith("!"), text.removeprefix("!")
    folders, text = text.endswith("/"), text.removesuffix("/")
    if not text:
        return None
    tied, text = "/" in text, text.removeprefix("/")
    try:
        pattern = _quick(_pieces(text))
        fits = re.compile(pattern if tied else f"(?:.*/)?{pattern}", re.DOTALL)
    except ValueError:
        return None
    return Rule(f"{path}: {line.strip()}", fits, again, folders)


def _without_blanks(line: str) -> str:
    text = line.rstrip(" ")
    escaped = len(text) < len(line) and (len(text) - len(text.rstrip("\\"))) % 2
    return f"{text} " if escaped else text


_NAMES, _ANY, _BELOW = "[^/]*", "(?:.*/)?", "/.+"
# So many `**/` in one rule, and matching takes as long as there are ways to divide a path among them.
_MOST_ANY = 4


def _quick(pieces: list[str]) -> str:
    """The pieces as one expression that does not try a name's letters in every way.

    Of several `*` in one name each but the last may take the first that fits and never come back to it.
    """
    if pieces.count(_ANY) > _MOST_ANY:
        raise ValueError("it leaves open too often how deep it is")
    whole, name = "", list[str]()
    for piece in [*pieces, ""]:
        if piece in ("/", _ANY, _BELOW, ""):
            whole += _quick_name(name) + piece
            name = []
        else:
            name.append(piece)
    return whole


def _quick_name(pieces: list[str]) -> str:
    parts = [""]
    for piece in pieces:
        if piece == _NAMES:
            parts.append("")
        else:
            parts[-1] += piece
    if len(parts) == 1:
        return parts[0]
    first, *between, last = parts
    return first + "".join(f"(?>[^/]*?{part})" for part in between) + _NAMES + last


_MEANING = {"all": ".+", "any": _ANY, "below": _BELOW, "names": _NAMES, "one": "[^/]"}
_DEPTH = re.compile(
    r"(?P<all>\A\*{2,}\Z)|(?P<any>(?<![^/])\*{2,}/)|(?P<below>/\*{2,}\Z)"
    r"|(?P<names>\*+)|(?P<one>\?)|(?P<escaped>\\.)|(?P<set>\[)"
)


def _pieces(text: str) -> list[str]:
    """A pattern as pieces of a regular expression. `ValueError` where it is none."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        found = _DEPTH.match(text, at)
        if found is None:
            pieces.append(re.escape(text[at]))
            at += 1
            continue
        at = found.end()
        if found.lastgroup == "set":
            piece, at = _set(text, at)
        elif found.lastgroup == "escaped":
            piece = re.escape(found.group()[1])
        else:
            piece = _MEANING[found.lastgroup or ""]
        pieces.append(piece)
    if text.endswith("\\") and _without_escapes(text).endswith("\\"):
        raise ValueError("it ends with an escape of nothing")
    return pieces


def _without_escapes(text: str) -> str:
    return re.sub(r"\\.", "", text, flags=re.DOTALL)


def _set(text: str, at: int) -> tuple[str, int]:
    """A set `[…]` behind its `[`, and where it ends."""
    negated = text[at : at + 1] in ("!", "^") and bool(text[at : at + 1])
    begin = at = at + negated
    inside = ""
    while text[at : at + 1] != "]" or at == begin:
        letter = text[at + 1 : at + 2] if text[at : at + 1] == "\\" else text[at : at + 1]
        if not letter or text[at : at + 2] == "[:":
            raise ValueError("a set is not closed, or has a class in it")
        at += 1 + (text[at] == "\\")
        inside += letter if letter == "-" and text[at - 2 : at - 1] != "\\" else re.escape(letter)
    try:
        re.compile(f"[{inside}]")
    except re.error:
        raise ValueError("it is no set") from None
    return f"(?!/)[{'^' if negated else ''}{inside}]", at + 1
