import pytest

from clew.views.effects import call_text, effects_table, evidence_lines, standing, uncertain, waiting_lines
from tests.views.samples import WHEN, effect

SETTLED = {"outcome": "did_not_happen", "source": "operator", "by": "ann", "reason": "no transfer at the bank"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"status": "not_started"}, "not started"),
        ({}, "started, no answer"),
        ({"status": "unknown"}, "outcome unknown"),
        ({"status": "committed", "answered": True}, "happened, answered"),
        ({"status": "committed"}, "happened, its answer was not kept"),
        ({"status": "unknown", "review": SETTLED}, "did not happen, says ann"),
        ({"status": "not_started", "answered": True}, "not started, answered"),
        ({"status": "melted"}, "melted"),
    ],
)
def test_how_an_effect_stands_is_said_in_words(changed: dict, expected: str) -> None:
    """Known, unknown and said by somebody are three different things."""
    shown = standing(effect(**changed))

    assert expected == shown


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "pay order=1042 cents=4200 (started 13:54:02, no answer)"),
        ({"status": "unknown"}, "pay order=1042 cents=4200 (started 13:54:02, outcome unknown)"),
        ({"status": "committed"}, "pay order=1042 cents=4200 (started 13:54:02, happened, its answer was not kept)"),
        ({"arguments": {}, "startedAt": "2026-11-01T01:02:03.000Z"}, "pay (started 2026-11-01 01:02:03, no answer)"),
    ],
)
def test_an_open_effect_reads_as_the_design_promises(changed: dict, expected: str) -> None:
    """The line is what the operator compares with the other side's list."""
    shown = uncertain(effect(**changed), WHEN)

    assert expected == shown


def test_an_effect_without_a_start_is_not_given_one() -> None:
    """Nothing is invented: a foreign journal may know none."""
    row = effect()
    del row["startedAt"]

    shown = uncertain(row, WHEN)

    assert "pay order=1042 cents=4200 (no answer)" == shown


def test_an_effect_that_was_never_started_says_so() -> None:
    """Only its receipt can say that, not the absence of a time."""
    row = effect(status="not_started")
    del row["startedAt"]

    shown = uncertain(row, WHEN)

    assert "pay order=1042 cents=4200 (not started, no answer)" == shown


def test_without_recorded_arguments_the_tool_stands_alone() -> None:
    """`settle` answers with such a row."""
    row = effect()
    del row["arguments"]

    shown = call_text(row)

    assert "pay" == shown


def test_nothing_that_waits_takes_no_line() -> None:
    """The usual row is one line."""
    lines = waiting_lines([], 0, WHEN)

    assert [] == lines


def test_several_that_wait_are_listed_by_step_and_the_rest_counted() -> None:
    """The step is what `settle` wants to hear."""
    lines = waiting_lines([effect(), effect(stepId="pay-10", status="unknown")], 5, WHEN)

    assert [
        "5 effects uncertain:",
        "  pay-1   pay order=1042 cents=4200 (started 13:54:02, no answer)",
        "  pay-10  pay order=1042 cents=4200 (started 13:54:02, outcome unknown)",
        "  … and 3 more",
    ] == lines


def test_the_table_has_each_effect_with_the_names_that_went_outside() -> None:
    """A second start is what everybody asks about; and the bank's books know a payment by its key or its UUID."""
    lines = effects_table(
        [effect(attempt=2, review=SETTLED), effect(stepId="pay-2", status="not_started", attempt=0)], WHEN
    )

    assert [
        "step   call                       stands                    attempts",
        "pay-1  pay order=1042 cents=4200  did not happen, says ann  2, last started 13:54:02",
        "       key k3f9x2-261129:pay-1:c1  as a UUID 12477c3d-4ed6-578b-86cc-525b0953a3fd",
        "pay-2  pay order=1042 cents=4200  not started",
    ] == lines


def test_an_empty_table_says_so() -> None:
    """A heading over nothing looks like a fault."""
    lines = effects_table([], WHEN)

    assert ["no effects"] == lines


def test_evidence_names_every_name_that_the_other_side_may_know() -> None:
    """The bank was given the UUID; the key alone cannot be found in its list."""
    lines = evidence_lines(effect(review=SETTLED), WHEN)

    assert [
        "effect     pay order=1042 cents=4200",
        "key        k3f9x2-261129:pay-1:c1",
        "as a UUID  12477c3d-4ed6-578b-86cc-525b0953a3fd   short ia2r3mkgzmepwilm",
        "attempt    1, started 13:54:02",
        "stands     did not happen, says ann",
        "settled    by ann: no transfer at the bank",
    ] == lines
