"""Journals that nobody judged while they were written, so that they can say anything: for the tests of the checker."""

from typing import Any

import msgspec

from clew.core.findings import Finding
from clew.core.invariants import check
from clew.core.operation import DurableOperation
from clew.core.records import Draft, Record
from clew.core.times import format_ms
from tests.histories import BORN_MS, RUN, start

TIME = format_ms(BORN_MS)


def journal(*said: Any, own: bool = True) -> list[Record]:
    """Records of these events, drafts and moves (by their names), numbered and wrapped, whatever they say."""
    found: list[Record] = []
    operation: DurableOperation | None = None
    for number, one in enumerate(said, 1):
        if isinstance(one, str):
            operation = _moved(operation, one, number)
            draft = Draft("operation", msgspec.to_builtins(operation.records[-1]))
        else:
            draft = one if isinstance(one, Draft) else Draft("event", {"runId": RUN, "sequence": number, "event": one})
            if operation is not None and type(draft.payload) is dict and draft.kind in ("pause", "finish"):
                draft = Draft(draft.kind, {"operation": operation.snapshot(), **draft.payload})
        tie: dict[str, Any] = {"chain": f"{number:064x}", "append": number} if own else {}
        found.append(Record(1, RUN, number, f"n-{number}", TIME, draft.kind, draft.payload, **tie))
    return found


def _moved(operation: DurableOperation | None, event: Any, number: int) -> DurableOperation:
    if operation is None:
        return DurableOperation.create(run_id=RUN, operation_id="op-1", event_id=f"m-{number}", at=TIME)
    return operation.move(event, event_id=f"m-{number}", at=TIME)


def born(*said: Any) -> list[Record]:
    """The same, of a run of ours that runs."""
    return journal(start(), "ACCEPT", "START", *said)


def theirs(*said: Any) -> list[Record]:
    """The same, of a run of another program that runs."""
    return journal(Draft("start", {"configFingerprint": "f"}), "ACCEPT", "START", *said, own=False)


def closing(kind: Any, status: object) -> Draft:
    """A `pause` or `finish` with the status where the runtime writes it."""
    return Draft(kind, {"outcome": {"status": status}})


def labels(records: list[Record], **given: Any) -> list[tuple[str, str]]:
    """What is found, as label and subject."""
    return [(finding.label, finding.subject) for finding in findings(records, **given)]


def findings(records: list[Record], **given: Any) -> list[Finding]:
    """What is found."""
    return list(check(records, **given))
