"""One figure beside its gate, and the table of all of them."""

from collections.abc import Iterable
from typing import Literal, NamedTuple


class Figure(NamedTuple):
    """One measured number.

    Attributes:
        what: What was measured, against what.
        value: The number; None when it could not be measured here.
        unit: `×` for a ratio, `s`, `MB`, `B`, or empty for a count.
        gate: What it must keep, if anything.
        sense: Whether the gate is the most or the least that is allowed, or the only number.
        note: Absolute numbers behind a ratio, or why nothing was measured.
    """

    what: str
    value: float | None
    unit: str = "×"
    gate: float | None = None
    sense: Literal["≤", "≥", "="] = "≤"
    note: str = ""

    @property
    def kept(self) -> bool | None:
        """Is the gate kept? None without a gate or a number."""
        if self.gate is None or self.value is None:
            return None
        if self.sense == "=":
            return self.value == self.gate
        return self.value <= self.gate if self.sense == "≤" else self.value >= self.gate


def table(figures: Iterable[Figure]) -> str:
    """All figures, one a line, as a Markdown table."""
    head = "| figure | measured | gate | kept | behind it |\n|---|---|---|---|---|\n"
    return head + "".join(_row(figure) for figure in figures)


def _row(figure: Figure) -> str:
    gate = "" if figure.gate is None else f"{figure.sense} {_number(figure.gate, figure.unit)}"
    kept = {True: "yes", False: "**no**", None: ""}[figure.kept]
    value = "not measured" if figure.value is None else _number(figure.value, figure.unit)
    return f"| {figure.what} | {value} | {gate} | {kept} | {figure.note} |\n"


def _number(value: float, unit: str) -> str:
    text = f"{value:.2f}" if isinstance(value, float) and not value.is_integer() else f"{value:,.0f}"
    return f"{text} {unit}".strip()
