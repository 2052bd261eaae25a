"""Approvals in words: in a list, on a run's page, and as the question itself."""

from typing import Any

import pytest

from clew.views.approvals import approval_lines, decision_lines, question_lines, stands
from tests.views.samples import WHEN


def asked(**changed: Any) -> dict[str, Any]:
    return {
        "approvalId": "a1",
        "stepId": "pay-1",
        "callId": "c1",
        "tool": "pay",
        "idempotencyKey": "k3f9x2-261129:pay-1:c1",
        "standing": "pending",
        "risk": "high",
        "askedAt": "2026-11-29T13:54:02.000Z",
        "arguments": {"order": "1042", "cents": 4200},
        **changed,
    }


def granted(**changed: Any) -> dict[str, Any]:
    told = {"standing": "granted", "by": "ann", "reason": "checked", "decidedAt": "2026-11-29T13:58:00.000Z"}
    return asked(**{**told, **changed})


def test_what_waits_is_told_in_one_line_each() -> None:
    """Whoever lists runs must see what is wanted of them, and why."""
    row = {"approvals": [asked(why="large", expiresAt="2026-11-29T15:00:00.000Z")], "wanted": 1, "allowed": 0}

    assert [
        "1 approval wanted:",
        "  pay-1  pay order=1042 cents=4200 (high risk, asked 13:54:02, large, until 15:00:00)",
    ] == approval_lines(row, WHEN)


def test_what_was_allowed_and_did_not_start_is_told_too() -> None:
    """Somebody said yes, and nobody resumed the run."""
    row = {"approvals": [granted(until="2026-11-29T15:00:00.000Z")], "wanted": 0, "allowed": 1}

    assert [
        "1 call approved, never started:",
        "  pay-1  pay order=1042 cents=4200 (approved by ann: checked, until 15:00:00)",
    ] == approval_lines(row, WHEN)


def test_of_many_the_first_are_told_and_the_rest_counted() -> None:
    """A list stays a list."""
    row = {"approvals": [asked(), asked(stepId="pay-2"), granted(stepId="pay-3")], "wanted": 5, "allowed": 2}

    lines = approval_lines(row, WHEN)

    assert ("5 approvals wanted, 2 calls approved, never started:", "  … and 4 more") == (lines[0], lines[-1])


def test_a_run_without_approvals_has_no_line() -> None:
    """Most have none."""
    assert [] == approval_lines({}, WHEN)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (asked(), "waits for a yes or a no"),
        (granted(), "approved, never started; by ann at 13:58:00: checked"),
        (granted(standing="used"), "approved, started; by ann at 13:58:00: checked"),
        (granted(standing="denied", reason="too\nmuch"), "denied; by ann at 13:58:00: too\\nmuch"),
        (granted(standing="invalidated", by="agent"), "not asked for any more; by agent at 13:58:00: checked"),
        (asked(standing="odd"), "odd"),
    ],
)
def test_how_an_approval_stands_is_said_with_who_and_why(found: dict[str, Any], expected: str) -> None:
    """C102: a reason that is kept and not shown is lost."""
    assert expected == stands(found, WHEN)
    assert [f"pay-1: {expected}"] == decision_lines([found], WHEN)


def test_the_question_says_all_that_it_must() -> None:
    """Yes or no is said to this, and to nothing else."""
    effect = {
        "operations": ["workspace"],
        "paths": ["a.txt"],
        "urls": ["https://x"],
        "reversible": False,
        "declared": False,
    }
    lines = question_lines(asked(effect=effect, why="large", expiresAt="2026-11-29T15:00:00.000Z"), WHEN)

    assert [
        "approval   a1 of pay-1",
        "call       pay order=1042 cents=4200",
        "effect     workspace, high risk, cannot be undone, undeclared",
        "key        k3f9x2-261129:pay-1:c1   as a UUID " + lines[3].split()[-1],
        "touches    a.txt, https://x",
        "asked      13:54:02",
        "why        large",
        "lapses     15:00:00",
    ] == lines


def test_a_harmless_question_is_short() -> None:
    """Nothing is said that is not known."""
    effect = {"operations": ["none"], "paths": [], "urls": [], "reversible": True, "declared": True}

    assert ["approval", "call", "effect", "key", "asked"] == [
        line.split()[0] for line in question_lines(asked(effect=effect, risk="low"), WHEN)
    ]
