"""What a session has cost: what was reported, no more, and what was not is said to be unknown."""

from typing import Any

import pytest

from clew.core.session.lines import BadLine
from clew.core.session.sums import Sums, check_usage
from clew.core.session.values import Totals
from tests.core.session.scribe import USAGE


def test_usage_is_summed() -> None:
    """Each stored call was paid."""
    sums = Sums()
    sums.add(USAGE)
    sums.add({"input": 1.5, "cost": 0.25})

    assert Totals(input=2.5, output=2, cache_read=3, cache_write=4, tokens=10, cost=0.35) == sums.totals()


@pytest.mark.parametrize(("unmeasured", "reason", "usage"), [
    (1, "aborted", {"input": 0, "output": 0}),
    (1, "error", {}),
    (0, "stop", {"input": 0}),
    (0, "aborted", {"output": 1}),
])  # fmt: skip
def test_zeros_of_an_aborted_answer_are_unknown(unmeasured: int, reason: str, usage: dict[str, Any]) -> None:
    """Promise 9: it was not free, nobody counted it."""
    sums = Sums()
    sums.add(usage, stop_reason=reason)

    assert unmeasured == sums.totals().unmeasured


def test_answers_that_nobody_measured_are_added() -> None:
    """The caller knows of answers without any record."""
    assert 3 == Sums().totals(also_unmeasured=3).unmeasured


@pytest.mark.parametrize("usage", [5, {"input": "1"}, {"output": True}, {"cost": {"total": []}}, {"cost": "1"}])
def test_usage_that_is_no_number_is_refused(usage: Any) -> None:
    """A count that cannot be read must not count as nothing."""
    with pytest.raises(BadLine) as caught:
        check_usage(usage)

    assert "bad_member" == caught.value.reason
