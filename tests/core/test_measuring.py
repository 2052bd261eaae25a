"""Events that only measure: compactions, prefixes, artifacts."""

from typing import Any

import pytest

from clew.errors import Corrupt
from tests.histories import Scribe, refold


def compacted(summary: Any) -> dict[str, Any]:
    return {"type": "context_compacted", "beforeTokens": 9, "afterTokens": 2, "summaryFingerprint": summary}


def prefix(fingerprint: Any) -> dict[str, Any]:
    return {"type": "context_prefix", "agent": "main", "fingerprint": fingerprint}


def artifact(status: Any, size: Any) -> dict[str, Any]:
    return {"type": "artifact_created", "artifactId": "x", "status": status, "sizeBytes": size}


def test_events_that_measure_are_summed() -> None:
    """Contract #167: compactions, the last summary, each prefix once, artifacts by kind with the bytes kept."""
    scribe = Scribe().born()
    scribe.say(compacted("s1"), prefix("p1"), artifact("stored", 30), artifact("blocked", 7))
    scribe.say(compacted("s2"), prefix("p1"), prefix("p2"), artifact("stored", 4))

    found = refold(scribe.data).metrics.snapshot(0, clock_stepped=False)

    assert (2, "s2", ["p1", "p2"], {"stored": 2, "blocked": 1, "totalBytes": 34}) == (
        found["context"]["compactions"], found["context"]["lastSummaryFingerprint"],
        found["context"]["stablePrefixFingerprints"], found["artifacts"],
    )  # fmt: skip


@pytest.mark.parametrize(
    "event",
    [
        compacted(None), prefix(7), artifact("lost", 1), artifact("stored", -1), artifact("stored", True),
        artifact("stored", "1"),
    ],
)  # fmt: skip
def test_a_measure_that_cannot_be_read_is_refused(event: dict[str, Any]) -> None:
    """Promise 4: nothing is defaulted on read."""
    with pytest.raises(Corrupt, match="record 4"):
        Scribe().born().say(event)
