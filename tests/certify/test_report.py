"""What a trial has come to: its verdict, its words, its exit code."""

from typing import Any

from clew.certify.judging import Finding
from clew.certify.report import Report, as_json, gathered, lines


def report(**other: Any) -> Report:
    facts: dict[str, Any] = {
        "agent": "settle", "seed": "1", "appends": 9, "bodies": 2, "single": 24, "planned": 24, "ran": 24, "deaths": 22,
        "not_reached": 0, "seconds": 3.2, "outcomes": {"completed": 24}, "settled": 0, "findings": [], "notes": [],
    }  # fmt: skip
    return Report(**{**facts, **other})


FOUND = gathered(
    {Finding("effect_repeated", "pay happened twice"): [f"end:{n}" for n in range(1, 9)]}, "clew certify a"
)


def test_clean_is_zero_only_when_all_was_tried() -> None:
    """An exit code of 0 is read by programs that read nothing else."""
    assert [0, 5, 3, 3] == [
        each.exit_code
        for each in (report(), report(ran=3), report(findings=FOUND), report(findings=FOUND, ran=3))
    ]  # fmt: skip


def test_a_finding_says_how_to_see_it_again() -> None:
    """The command is typed as it stands."""
    text = "\n".join(lines(report(findings=FOUND)))

    assert "again: clew certify a --point end:1" in text
    assert "seen at end:1, end:2, end:3, end:4, end:5, end:6 and 2 more" in text


def test_what_was_not_tried_is_in_words_too() -> None:
    """Silence about it would be a lie."""
    text = "\n".join(lines(report(ran=3)))

    assert "not every point was tried: 3 of 24" in text
    assert text.startswith("STOPPED  settle   3 of 24 points")


def test_json_says_the_verdict_and_every_number() -> None:
    """A program must not put the verdict together itself."""
    told = as_json(report(ran=3))

    assert (False, 5, 3, 24, 0) == (told["certified"], told["exit"], told["ran"], told["planned"], told["notReached"])
