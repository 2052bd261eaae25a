from pathlib import Path

from clew.core.findings import INVARIANTS, Finding
from clew.views.findings import _NEXT, finding_lines

TWICE = Finding("I-7", 12, 11, "the result is told twice", "pay-1").as_json()
LATE = Finding("I-3", 15, 14, "a loop record behind the finish", "").as_json()
END = "  This is no crash: a program wrote what it must not, or somebody edited it. Keep a copy, and report it."


def test_a_finding_says_where_what_which_promise_and_what_to_do() -> None:
    """A label alone sends its reader to a book, at night."""
    assert [
        "  2 findings:",
        "  line 12, pay-1: the result is told twice [I-7: a call has exactly one end, and something explains it]",
        "    next: look outside, under its key in `clew show RUN --effects`, whether it happened, and how often",
        "  line 15, a loop record behind the finish [I-3: nothing follows the finish but what may]",
        "    next: bring the journal back from a copy of the home",
        END,
    ] == finding_lines({"findings": [TWICE, LATE], "findingCount": 2})


def test_what_is_not_told_is_counted() -> None:
    """A journal that is wrong everywhere must not pass for one with a few faults."""
    lines = finding_lines({"findings": [TWICE], "findingCount": 2_000})

    assert ("  2000 findings:", "  and 1999 more", END) == (lines[0], lines[-2], lines[-1])


def test_where_nobody_looked_or_nothing_was_found_nothing_is_said() -> None:
    """`clew verify` without a deep look says nothing of what it did not ask."""
    assert ([], []) == (finding_lines({}), finding_lines({"findings": [], "findingCount": 0}))


def test_every_invariant_has_a_next_step() -> None:
    """A finding without a next step is a worry."""
    assert list(INVARIANTS) == list(_NEXT)


def test_what_a_stranger_named_stays_on_its_line() -> None:
    """C126: a step's name may hold control characters; they must not move the cursor."""
    forged = Finding("I-4", 3, 3, "the step starts a second time", "x\x1b[2J\nOK").as_json()

    lines = finding_lines({"findings": [forged], "findingCount": 1})

    assert not [line for line in lines if "\x1b" in line or "\n" in line]


def test_the_page_of_the_format_has_the_same_words() -> None:
    """A label is looked up there."""
    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text("utf-8")

    assert [] == [label for label, words in INVARIANTS.items() if f"| {label} | {words} |" not in page]
