"""Checkpoints, judged a second time: what the fold would never take, and what a journal may hold all the same."""

from typing import Any

import pytest

from clew.core.custody import Custody
from clew.core.findings import Slip

KEPT = {"checkpointId": "k1", "stepId": "edit-1", "attempt": 1}
LEFT = {**KEPT, "after": []}


def found(*seen: tuple[dict[str, Any], int, str]) -> list[str]:
    slip = Slip(9)
    custody = Custody(slip)
    for payload, attempt, status in seen:
        custody.see(payload, attempt, status)
    return [f"{finding.label} {finding.subject}: {finding.what}" for finding in slip.found]


@pytest.mark.parametrize("status", ["committed", "unknown"])
def test_both_records_of_an_attempt_give_no_finding(status: str) -> None:
    """#228: they are what a restore rests on."""
    assert [] == found((KEPT, 0, ""), (LEFT, 1, status))


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ([({**KEPT, "checkpointId": 7}, 0, "")], "without a name"),
        ([({**KEPT, "checkpointId": "k2"}, 0, "")], "another number"),
        ([(KEPT, 1, "started")], "of attempt 1 while the last is 1"),
        ([(LEFT, 1, "committed")], "without a checkpoint of it"),
        ([(KEPT, 0, ""), ({**LEFT, "stepId": "edit-2"}, 1, "committed")], "without a checkpoint of it"),
        ([(KEPT, 0, ""), (LEFT, 2, "committed")], "without a checkpoint of it"),
        ([(KEPT, 0, ""), (LEFT, 1, "started")], "while it is 'started'"),
        ([(KEPT, 0, ""), (LEFT, 1, "committed"), (LEFT, 1, "committed")], "said twice"),
    ],
)
def test_what_cannot_be_is_found(seen: list[tuple[dict[str, Any], int, str]], why: str) -> None:
    """#228: whoever wrote it did not write it by the rules."""
    assert 1 == len(found(*seen))
    assert why in found(*seen)[0]
