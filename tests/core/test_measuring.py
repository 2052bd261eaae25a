"""Events that only measure: compactions, prefixes."""

from typing import Any

import pytest

from clew.errors import Corrupt
from tests.histories import Scribe, refold


def compacted(summary: Any) -> dict[str, Any]:
    return {"type": "context_compacted", "beforeTokens": 9, "afterTokens": 2, "summaryFingerprint": summary}


def prefix(fingerprint: Any) -> dict[str, Any]:
    return {"type": "context_prefix", "agent": "main", "fingerprint": fingerprint}


def test_events_that_measure_are_summed() -> None:
    """Contract #167: compactions, the last summary, each prefix once."""
    scribe = Scribe().born()
    scribe.say(compacted("s1"), prefix("p1"))
    scribe.say(compacted("s2"), prefix("p1"), prefix("p2"))

    found = refold(scribe.data).metrics.snapshot(0, clock_stepped=False)

    assert (2, "s2", ["p1", "p2"]) == (
        found["context"]["compactions"], found["context"]["lastSummaryFingerprint"],
        found["context"]["stablePrefixFingerprints"],
    )  # fmt: skip


@pytest.mark.parametrize(
    "event",
    [
        compacted(None), prefix(7),
    ],
)  # fmt: skip
def test_a_measure_that_cannot_be_read_is_refused(event: dict[str, Any]) -> None:
    """Promise 4: nothing is defaulted on read."""
    with pytest.raises(Corrupt, match="record 4"):
        Scribe().born().say(event)
