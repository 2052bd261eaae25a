"""`docs/recovery.md`, row by row: the situation is made, the words are those that clew prints, the commands work."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from clew.core.outcome import EXIT_BY_REASON
from clew.views.advice import REASONS
from tests.contract import delegated, stopped, troubled, undone
from tests.contract.hostile import Place
from tests.contract.situations import SITUATIONS, Situation, words_of
from tests.house.tree import ROOT

MADE = (stopped, troubled, delegated, undone)
"""The files whose import fills `SITUATIONS`."""
PAGE = (ROOT / "docs" / "recovery.md").read_text("utf-8")


class Typed(NamedTuple):
    """A command of the page and the exit code that it promises."""

    command: str
    exit: int


class Row(NamedTuple):
    """One situation: the words to find it by, and each way out."""

    name: str
    shown: list[str]
    text: str
    ways: list[list[Typed]]


def rows() -> Iterator[Row]:
    """The rows of the page's tables."""
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 4 and cells[0] != "situation":
            ways = [re.findall(r"`(clew [^`]+)` → (\d+)", way) for way in re.split(r" or (?=`)", cells[3])]
            typed = [[Typed(command, int(code)) for command, code in way] for way in ways]
            yield Row(cells[0], re.findall(r"`([^`]+)`", cells[1]), cells[2], typed)


ROWS = {row.name: row for row in rows()}
WAYS = [
    pytest.param(row, way, id=f"{row.name}-{number}") for row in ROWS.values() for number, way in enumerate(row.ways)
]


def pattern(words: str) -> re.Pattern[str]:
    """The words of the page: `…` is anything on the line, spaces are as many as there are, RUN is the run."""
    pieces = [re.sub(r"\bRUN\b", "k3f[0-9a-z]*", re.escape(piece)) for piece in words.split("…")]
    return re.compile(r"[^\n]*?".join(re.sub(r"(\\ )+", r"\\s+", piece) for piece in pieces))


def exits(text: str) -> set[int]:
    """The exit codes that a row begins with: one, or one of two."""
    said = re.match(r"Exit (\d+)(?: or (\d+))?", text)
    return {int(code) for code in said.groups() if code} if said else set()


@pytest.mark.parametrize(("row", "way"), WAYS)
def test_a_row_shows_what_is_printed_and_its_commands_do_what_it_says(place: Place, row: Row, way: list[Typed]) -> None:
    """#250: at night nobody tries out whether a page is still right."""
    found = Situation(place)
    try:
        SITUATIONS[row.name](found)
        missing = [words for words in row.shown if not pattern(words).search(found.seen)]
        promised, met = exits(row.text), set(found.codes)
        codes = []
        for number, typed in enumerate(way):
            found.between.get(number, lambda: None)()
            codes.append(found.look(*words_of(typed.command, found.values)).code)
    finally:
        found.finish()

    assert ([], [typed.exit for typed in way]) == (missing, codes), found.seen
    assert not promised or promised & met, (promised, met, found.seen)


def test_every_row_has_its_situation_and_every_situation_its_row() -> None:
    """A row without one would rot; a situation without a row would be met by nobody."""
    assert sorted(SITUATIONS) == sorted(ROWS)


def test_nothing_stands_in_a_row_that_is_not_tried() -> None:
    """A command without its exit code, or words outside of the marks, would be read at night and by no test."""
    table = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| situation |")]
    tried = [
        f"| {row.name} | {', '.join(f'`{words}`' for words in row.shown)} | {row.text} | "
        + " or ".join(", ".join(f"`{typed.command}` → {typed.exit}" for typed in way) for way in row.ways)
        + " |"
        for row in rows()
    ]

    assert table == tried


def test_every_row_says_what_to_look_for_what_to_do_and_what_to_type() -> None:
    """A row with a hole in it is found at the worst moment."""
    holes = [row.name for row in ROWS.values() if not (row.shown and row.text and all(row.ways))]

    assert [] == holes


def test_every_reason_to_pause_is_on_the_page() -> None:
    """A pause that the page does not know leaves its reader alone."""
    told = {code for row in ROWS.values() for words in row.shown for code in re.findall(r"[\[(](\w+)[\])]", words)}

    missing = set(EXIT_BY_REASON) - told

    # Met on the way to another row: a person's Ctrl-C is told as SIGTERM is; the other is an older name of its row.
    assert {"interrupted", "committed_effect_pending"} == missing


def advised(seen: str) -> list[str]:
    """The commands that the last look advised."""
    last = seen.rpartition("$ clew ")[2]
    steps = re.findall(r"^\s+(?:next:|or:)\s+(.*)$", last, re.MULTILINE)
    return [verb for step in steps for verb in re.findall(r"clew (\w+)", step)]


@pytest.mark.parametrize("name", ["died in an effect", "a limit of time", "its process cannot be seen from here"])
def test_the_page_and_the_screen_advise_the_same(place: Place, name: str) -> None:
    """Two voices that differ are worse than one."""
    found = Situation(place)
    SITUATIONS[name](found)

    typed = {typed.command.split()[1] for way in ROWS[name].ways for typed in way}

    assert set(advised(found.seen)) <= typed


@pytest.mark.parametrize("reason", [reason for reason in REASONS if REASONS[reason].next])
def test_every_advice_of_a_reason_is_that_of_its_row(reason: str) -> None:
    """The command that a pause prints stands in the row that names its code."""
    verbs = set(re.findall(r"clew (\w+)", REASONS[reason].next))
    mine = [row for row in ROWS.values() if any(f"({reason})" in words for words in row.shown)]

    typed = {typed.command.split()[1] for row in mine for way in row.ways for typed in way}

    assert not mine or verbs <= typed
