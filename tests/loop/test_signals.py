"""What an error's code means for a loop."""

import pytest

from clew.loop import LoopEvent, signals
from clew.loop.signals import signal


@pytest.mark.parametrize(
    ("code", "event"),
    [
        ("process_aborted", LoopEvent("ABORT", message="m")),
        ("process_timeout", LoopEvent("TIMEOUT", message="m")),
        ("diff_input_limit", LoopEvent("BUDGET_EXCEEDED", message="m")),
        ("unknown_effect", LoopEvent("PAUSE", code="unknown_effect", message="m")),
        ("execution_security_violation", LoopEvent("PAUSE", code="execution_security_violation", message="m")),
        ("unclassified_error", LoopEvent("PAUSE", code="unclassified_error", message="m")),
        ("resume_config_mismatch", LoopEvent("FAIL", code="resume_config_mismatch", message="m")),
        ("rate_limit", LoopEvent("FAIL", code="rate_limit", message="m")),
        ("unknown", LoopEvent("FAIL", code="unknown", message="m")),
    ],
)
def test_a_code_of_the_contract_means_what_its_classes_say(code: str, event: LoopEvent) -> None:
    """#221: retry class human pauses; cancel, timeout and budget have phases of their own; the rest fails."""
    assert event == signal(code, "m")


@pytest.mark.parametrize("code", ["", "tool_failed", "ABORTED", "aborted "])
def test_a_code_that_is_not_of_the_contract_wants_a_person(code: str) -> None:
    """Contract §4: it is unclassified, and to give a loop up for it would be a guess."""
    assert LoopEvent("PAUSE", code="unclassified_error", message="m") == signal(code, "m")


def test_no_code_stands_in_two_classes() -> None:
    """The first that matched would win by accident."""
    classes = [signals._CANCEL, signals._TIMEOUT, signals._BUDGET, signals._HUMAN, signals._OTHER]

    assert len(frozenset[str]().union(*classes)) == sum(map(len, classes))
