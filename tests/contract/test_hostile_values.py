"""Bad input, part 3: results that are no plain JSON. `docs/values.md` says what they become; each row is run."""

import asyncio
import enum
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest

import clew
from tests.house.tree import ROOT
from tests.runtime.stage import RUN


@dataclass
class Invoice:
    order: str
    cents: int


class Line(msgspec.Struct):
    order: str
    cents: int


class Colour(enum.Enum):
    RED = "red"


class Odd:
    """No rule says how to keep it."""

    def __repr__(self) -> str:
        return "<odd>"


WORDS: dict[str, Any] = {
    "Invoice": Invoice, "Line": Line, "Colour": Colour, "Odd": Odd, "UTC": UTC, "date": date, "datetime": datetime,
    "timedelta": timedelta, "Decimal": Decimal, "PurePath": PurePath, "UUID": UUID, "nan": math.nan, "inf": math.inf,
}  # fmt: skip


class Row(NamedTuple):
    """One row of the page: what was returned, what is told, the annotation, what is told with it."""

    returned: str
    plain: str
    annotation: str
    typed: str


def rows() -> Iterator[Row]:
    """The rows of the page, as they stand there."""
    text = (ROOT / "docs" / "values.md").read_text("utf-8")
    for line in text.splitlines():
        cells = re.findall(r"`([^`]+)`", line)
        if line.startswith("| `") and len(cells) == 4:
            yield Row(*cells)


ROWS = list(rows())


def value(text: str) -> Any:
    """What a cell says, as Python reads it."""
    return eval(text, dict(WORDS))


def told(returned: Any, annotation: Any, *, by: str) -> list[Any]:
    """What the agent is told of this result live, and what it is told when the run is resumed."""
    heard: list[Any] = []

    def find(order: str) -> Any:
        return returned

    if annotation is not None:
        find.__annotations__["return"] = annotation
    tool = clew.tool(effect="external")(find)

    def then(found: Any) -> str:
        heard.append(found)
        if len(heard) == 1:
            raise RuntimeError("behind the answer")
        return "done"

    def plain(run: clew.SyncRun, prompt: Any) -> str:
        return then(run.call(tool, order="1042"))

    async def awaiting(run: clew.Run, prompt: Any) -> str:
        return then(await run.call(tool, order="1042"))

    home = clew.Home.memory()
    agent = clew.Agent(plain if by == "plain" else awaiting, name="asks", tools=[tool])
    if by == "plain":
        home.run_sync(agent, run_id=RUN)
        assert "completed" == home.resume_sync(RUN, agent).operation.state
    else:
        asyncio.run(home.run(agent, run_id=RUN))
        assert "completed" == asyncio.run(home.resume(RUN, agent)).operation.state
    return heard


@pytest.mark.parametrize("by", ["plain", "async"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.returned[:40].encode("ascii", "replace").decode())
def test_a_result_is_told_as_the_page_says_live_and_replayed(row: Row, by: str) -> None:
    """An agent that works once must not meet another value when it is resumed."""
    found = told(value(row.returned), None, by=by), told(value(row.returned), value(row.annotation), by=by)

    expected = value(row.plain), value(row.typed)
    assert ([expected[0]] * 2, [expected[1]] * 2) == found
    assert [type(expected[0])] * 2 + [type(expected[1])] * 2 == [type(each) for heard in found for each in heard]


@pytest.mark.parametrize("annotation", [Any, "Unknown", "datetime | str"])
def test_an_annotation_that_says_nothing_changes_nothing(annotation: Any) -> None:
    """No guessing: a text becomes a time only where the tool says so, and only so."""
    found = told(datetime(2026, 11, 29, tzinfo=UTC), annotation, by="plain")

    assert ["2026-11-29T00:00:00Z"] * 2 == found


def test_every_row_of_the_page_is_run() -> None:
    """A cell more or less, and a row would be read by people and by no test."""
    lines = (ROOT / "docs" / "values.md").read_text("utf-8").splitlines()

    assert len(ROWS) == len([line for line in lines if line.startswith("|")]) - 2  # the table's head and its rule


KINDS = ("dataclass", "datetime", "bytes", "set", "NaN", "lone surrogate", "10**40")


def test_the_page_has_a_row_for_each_kind_that_is_asked_for() -> None:
    """A rule that is not written down is no rule."""
    returned = [value(row.returned) for row in ROWS]

    found = [
        any(type(each) is Invoice for each in returned),
        any(type(each) is datetime for each in returned),
        any(type(each) is bytes for each in returned),
        any(type(each) is set for each in returned),
        any(each != each for each in returned),  # only NaN differs from itself
        "\ud800" in returned,
        10**40 in returned,
    ]

    assert dict.fromkeys(KINDS, True) == dict(zip(KINDS, found, strict=True))


def test_a_result_100_000_levels_deep_is_kept_as_what_it_looks_like(tmp_path: Path) -> None:
    """The effect has happened; that it cannot be said in full must not undo its record."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    live, replayed = told(deep, None, by="plain")

    inner = live
    while type(inner) is list:
        (inner,) = inner
    assert (live, "repr") == (replayed, inner["$clew"])


def test_a_result_of_20_mb_is_kept_and_told_again() -> None:
    """It lies in a blob; the agent need not know."""
    live, replayed = told("x" * 20_000_000, None, by="plain")

    assert (20_000_000, True) == (len(live), live == replayed)
