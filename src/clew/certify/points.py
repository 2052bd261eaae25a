"""Where an agent dies or is let down: the points of a trial, their names, and which of them are tried. Pure."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from clew.errors import UsageError

Moment = Literal["before", "after", "start", "end"]

_NAME: Final = re.compile(r"(before|after|start|end|fails):([1-9][0-9]{0,5})")


class Kill(msgspec.Struct, frozen=True):
    """One death, counted from the beginning of the life or from the death before it.

    `before` and `after` count appends, the birth of the run too; `start` and `end` count the bodies of tools that may
    change the world: before the body runs, and after it, before anything of its end is recorded.
    """

    moment: Moment
    number: int

    @property
    def name(self) -> str:
        """`before:7`."""
        return f"{self.moment}:{self.number}"


class Point(msgspec.Struct, frozen=True):
    """What happens to one life: it dies so often; or its effect number `fails` does not happen."""

    kills: tuple[Kill, ...] = ()
    fails: int = 0

    @property
    def name(self) -> str:
        """`none`, `after:7`, `after:7+before:2`, `fails:3`."""
        if self.fails:
            return f"fails:{self.fails}"
        return "+".join(kill.name for kill in self.kills) or "none"

    def next_kill(self, died: int) -> Kill | None:
        """The death that comes after so many."""
        return self.kills[died] if died < len(self.kills) else None


class Shape(msgspec.Struct, frozen=True):
    """What the life without a death did: appends, and bodies that may change the world."""

    appends: int
    bodies: int


def parse_point(text: str) -> Point:
    """The point of a name.

    Raises:
        UsageError: `unknown_point`.
    """
    if text == "none":
        return Point()
    found = [_NAME.fullmatch(part) for part in text.split("+")]
    words = [match.groups() for match in found if match is not None]
    if len(words) == len(found) and all(word != "fails" for word, _ in words):
        return Point(tuple(Kill(word, int(number)) for word, number in words))  # type: ignore[arg-type]  # matched above
    if len(words) == len(found) == 1:
        return Point(fails=int(words[0][1]))
    raise UsageError(
        f"{text!r} names no point of a trial",
        code="unknown_point",
        next="Take a name from a report, as in --point end:2; they change when the agent's calls do.",
        point=text,
    )


def singles(shape: Shape) -> list[Point]:
    """One death each, everywhere; and each effect once refused."""
    deaths: list[Point] = []
    for number in range(1, shape.appends + 1):
        deaths += [Point((Kill("before", number),)), Point((Kill("after", number),))]
    for number in range(1, shape.bodies + 1):
        deaths += [Point((Kill("start", number),)), Point((Kill("end", number),)), Point(fails=number)]
    return deaths


def pairs(shape: Shape) -> Iterator[Point]:
    """A second death, while the life goes on after the first one."""
    for first in singles(shape):
        for kill in first.kills:
            left = shape.appends - kill.number if kill.moment in ("before", "after") else shape.appends // 2
            for number in range(1, left + 3):
                yield Point((kill, Kill("before", number)))
                yield Point((kill, Kill("after", number)))
            for number in range(1, shape.bodies + 1):
                yield Point((kill, Kill("end", number)))


def planned(shape: Shape, count: int | None, seed: str) -> list[Point]:
    """The points that are tried: all single ones, or `count`; beyond the single ones, second deaths by lot.

    The same seed draws the same lot, and of two counts the greater holds the lesser's kinds of points.
    """
    every = singles(shape)
    if count is None or count == len(every):
        return every
    if count < len(every):
        chosen = set(_drawn(every, count, seed))
        return [point for point in every if point in chosen]
    return every + _drawn(list(pairs(shape)), count - len(every), seed)


def _drawn(points: Sequence[Point], count: int, seed: str) -> list[Point]:
    """So many by lot, each kind of moment in turn."""
    kinds: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda each: hashlib.sha256(f"{seed}:{each.name}".encode()).digest()):
        kind = "fails" if point.fails else "+".join(kill.moment for kill in point.kills)
        kinds.setdefault(kind, []).append(point)
    rows = [kinds[kind] for kind in sorted(kinds)]
    turn = [row[place] for place in range(max(map(len, rows), default=0)) for row in rows if place < len(row)]
    return turn[:count]
