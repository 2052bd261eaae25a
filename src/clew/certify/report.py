"""What a trial has come to, as a value, in words and as JSON. Tries nothing."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from clew.certify.judging import MEANINGS, Finding
from clew.views.plain import count_text

NAMED: Final = 6
"""So many points are named behind one finding; the others are counted."""


class Found(msgspec.Struct, frozen=True, rename="camel"):
    """One finding with every point at which it was seen, and the command that shows it again."""

    code: str
    what: str
    where: str
    points: list[str]
    again: str


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """How an agent fared.

    Attributes:
        planned: Points that were to be tried; `ran` of them were, `deaths` processes were killed in these lives.
        single: How many points there are with one death, or one refused effect.
        not_reached: Lives that ended before the death that was meant for them.
        outcomes: How the lives ended, counted.
        settled: Lives in which a person had to say what had happened.
    """

    agent: str
    seed: str
    appends: int
    bodies: int
    single: int
    planned: int
    ran: int
    deaths: int
    not_reached: int
    seconds: float
    outcomes: dict[str, int]
    settled: int
    findings: list[Found]
    notes: list[str]

    @property
    def whole(self) -> bool:
        """Was every point tried that was to be tried?"""
        return self.ran == self.planned

    @property
    def exit_code(self) -> int:
        """0: nothing found at any point; 3: something found; 5: nothing found, but not every point was tried."""
        return 3 if self.findings else 0 if self.whole else 5


def gathered(found: dict[Finding, list[str]], again: str) -> list[Found]:
    """Findings by code, each with its points. `again` is the command without its point."""
    return [
        Found(one.code, one.what, one.where, points, f"{again} --point {points[0]}")
        for one, points in sorted(found.items(), key=lambda item: (item[0].code, item[0].what))
    ]


def as_json(report: Report) -> dict[str, Any]:
    """For programs."""
    told: dict[str, Any] = msgspec.to_builtins(report)
    return {"certified": report.exit_code == 0, "exit": report.exit_code, **told}


def lines(report: Report) -> Iterator[str]:
    """For people."""
    verdict = {0: "CERTIFIED", 3: "FAILED"}.get(report.exit_code, "STOPPED")
    yield f"{verdict}  {report.agent}   {_points(report)}, {count_text(report.deaths, 'death')}, {report.seconds:.0f} s"
    told = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes.items())
    usual = f"{count_text(report.appends, 'append')}, {count_text(report.bodies, 'effect')}"
    yield f"  without a death: {usual}; lives: {told or 'none'}"
    if report.settled:
        yield f"  a person had to say what happened in {report.settled} of them"
    if report.not_reached:
        yield f"  {report.not_reached} ended before the death that was meant for them"
    for found in report.findings:
        more = f" and {len(found.points) - NAMED} more" if len(found.points) > NAMED else ""
        yield f"  {found.code}: {found.what}"
        yield f"    {MEANINGS.get(found.code, found.code)}; seen at {', '.join(found.points[:NAMED])}{more}"
        yield f"    again: {found.again}"
    yield from (f"  note: {note}" for note in report.notes)
    if not report.whole:
        yield f"  not every point was tried: {report.ran} of {report.planned}; give it more seconds with --budget"


def _points(report: Report) -> str:
    single = f" ({report.single} with one death)" if report.planned != report.single else ""
    if report.whole:
        return f"{count_text(report.ran, 'point')}{single}"
    return f"{report.ran} of {count_text(report.planned, 'point')}{single}"
