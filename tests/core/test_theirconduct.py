"""Journals of another program: each statement of the contract by one planted fault, and its excuses for old traces."""

from typing import Any

import pytest

from clew.core.records import Draft
from tests.core.unjudged import closing, labels, theirs
from tests.histories import RUN

KEY = f"{RUN}:s1:c1"
WHO = {"agent": "main", "tool": "write", "callId": "c1", "stepId": "s1", "turnId": "t1", "idempotencyKey": KEY}
TURN = {"type": "agent_start", "agent": "main", "turnId": "t1"}
TURN_2 = {**TURN, "turnId": "t2"}
ENDED = {"type": "turn_end", "agent": "main", "turnId": "t1"}
STEP = {"type": "step_start", "stepId": "s1", "kind": "agent"}
LOOP = {"type": "step_start", "stepId": "loop-execute", "kind": "loop_execute"}
CALL = {"type": "tool_call", "args": {}, **WHO}
RESULT = {"type": "tool_result", "isError": False, **WHO}
FAILED = {**RESULT, "isError": True}
SAFE = {"type": "capability_resolved", "callId": "c1", "stepId": "s1", "recoveryDisposition": "replay_safe"}
ASKED = {"type": "approval_required", "approvalId": "a1", "runId": RUN}
DECIDED = {"type": "approval_resolved", "approvalId": "a1", "runId": RUN, "decision": "allow"}
DONE, ABORTED, STOPPED = (closing("finish", status) for status in ("succeeded", "aborted", "timeout"))


def receipt(status: Any, **changes: Any) -> dict[str, Any]:
    return {"type": "effect_receipt", "status": status, **WHO, **changes}


def without(event: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in names}


STARTED, COMMITTED = receipt("started"), receipt("committed")

LEGAL = {
    "a call that committed": [TURN, STEP, CALL, STARTED, COMMITTED, RESULT, ENDED, DONE],
    "a call that failed, without receipts": [TURN, CALL, FAILED, DONE],
    "a call that may be repeated, without receipts": [TURN, CALL, SAFE, RESULT, DONE],
    "a call that was not started": [TURN, CALL, receipt("not_started"), FAILED, DONE],
    "open, and the run is not over": [TURN, CALL, STARTED],
    "open, and the run was aborted": [TURN, CALL, STARTED, ABORTED],
    "open, and the run ran out of time": [TURN, CALL, STARTED, STOPPED],
    "late tools of the turn that ended": [TURN, ENDED, CALL, STARTED, COMMITTED, RESULT],
    "a trace without turns": [
        without(TURN, "turnId"), without(CALL, "turnId"), without(STARTED, "turnId"), without(ENDED, "turnId"),
    ],
    "a turn that began by its text": [{"type": "text_delta", "delta": "x"}, ENDED, CALL],
    "the loop of old programs": [LOOP, LOOP],
    "a call without a key": [TURN, without(CALL, "idempotencyKey"), without(FAILED, "idempotencyKey"), DONE],
    "a call without an id": [TURN, without(CALL, "callId", "idempotencyKey"), DONE],
    "a call of no step": [
        TURN, without({**CALL, "idempotencyKey": f"{RUN}:c1"}, "stepId"),
        without(receipt("started", idempotencyKey=f"{RUN}:c1"), "stepId"),
    ],
    "a receipt that says nothing": [TURN, CALL, receipt(None)],
    "asked and decided": [ASKED, DECIDED, DONE],
    "asked, and the run is not over": [ASKED],
    "asked again after it was decided": [ASKED, DECIDED, ASKED, DECIDED],
    "receipts of a turn known at the abort": [TURN, CALL, STARTED, "REQUEST_ABORT", COMMITTED],
    "not started, after the abort": [TURN, CALL, "REQUEST_ABORT", receipt("not_started")],
    "text after the abort": ["REQUEST_ABORT", {"type": "text_delta", "delta": "x"}, {"type": "error"}],
    "a result of nobody": [TURN, without(RESULT, "callId", "stepId", "idempotencyKey")],
    "a capability of nobody": [SAFE],
    "a child of theirs": [Draft("delegation", {"type": "delegation_recorded"})],
    "a loss that only we record": [Draft("resume", {"integrityWaived": {"accepted": "loss"}})],
}  # fmt: skip

BROKEN: dict[str, tuple[list[Any], tuple[str, str]]] = {
    "a step starts twice": ([STEP, STEP], ("I-4", "s1")),
    "the loop starts twice in a run with turns": ([TURN, LOOP, LOOP], ("I-4", "loop-execute")),
    "a call of a turn that is not open": ([TURN, TURN_2, CALL], ("I-5", "t1")),
    "a receipt of a turn that is not open": ([TURN, CALL, TURN_2, STARTED], ("I-5", "t1")),
    "a result of a turn that is not open": ([TURN, CALL, TURN_2, RESULT], ("I-5", "t1")),
    "another turn ends": ([TURN_2, ENDED], ("I-5", "t1")),
    "a turn ends that never began": ([ENDED], ("I-5", "t1")),
    "a turn that began by its text, then another began": (
        [{"type": "text_delta"}, TURN_2, ENDED], ("I-5", "t1"),
    ),
    "a key of another call": ([TURN, {**CALL, "idempotencyKey": f"{RUN}:s1:c2"}], ("I-6", "c1")),
    "a result with the key of another call": ([TURN, CALL, {**FAILED, "idempotencyKey": "k"}], ("I-6", "c1")),
    "a receipt without a call": ([TURN, STARTED], ("I-6", KEY)),
    "a receipt of another step": (
        [TURN, CALL, {**STARTED, "stepId": "s2"}], ("I-6", KEY),
    ),
    "a call that never ended": ([TURN, CALL, STARTED, DONE], ("I-7", KEY)),
    "a call that never ended in a run that failed": ([TURN, CALL, STARTED, closing("finish", "failed")], ("I-7", KEY)),
    "a value that nothing explains": ([TURN, CALL, RESULT, DONE], ("I-7", KEY)),
    "two failed results, though aborted": ([TURN, CALL, FAILED, FAILED, ABORTED], ("I-7", KEY)),
    "asked twice": ([ASKED, ASKED], ("I-9", "a1")),
    "asked for another run": ([{**ASKED, "runId": "other"}], ("I-9", "a1")),
    "asked without an id": ([without(ASKED, "approvalId")], ("I-9", "")),
    "decided without a question": ([DECIDED], ("I-9", "a1")),
    "decided for another run": ([ASKED, {**DECIDED, "runId": "other"}], ("I-9", "a1")),
    "nobody decided": ([ASKED, DONE], ("I-9", "a1")),
    "a result after the abort": ([TURN, CALL, "REQUEST_ABORT", RESULT], ("I-10", "c1")),
    "a turn ends after the abort": ([TURN, "REQUEST_ABORT", ENDED], ("I-10", "")),
    "a receipt of no turn after the abort": (
        [TURN, CALL, STARTED, "REQUEST_ABORT", without(COMMITTED, "turnId")], ("I-10", "c1"),
    ),
    "a receipt of a later turn after the abort": (
        [TURN, CALL, STARTED, "REQUEST_ABORT", TURN_2, {**COMMITTED, "turnId": "t2"}], ("I-10", "c1"),
    ),
    "committed without a start": ([TURN, CALL, COMMITTED], ("I-12", KEY)),
    "started becomes not started": ([TURN, CALL, STARTED, receipt("not_started")], ("I-12", KEY)),
    "started twice": ([TURN, CALL, STARTED, STARTED], ("I-12", KEY)),
}  # fmt: skip


@pytest.mark.parametrize("said", LEGAL.values(), ids=LEGAL)
def test_what_is_legal_there_is_not_found(said: list[Any]) -> None:
    """#224, #225, #227: old traces and runs that were stopped have their excuses."""
    assert [] == labels(theirs(*said))


@pytest.mark.parametrize(("said", "expected"), BROKEN.values(), ids=BROKEN)
def test_one_fault_is_one_finding(said: list[Any], expected: tuple[str, str]) -> None:
    """#224 to #227, #229, #230, #232: duplicates are never excused, and every fault has its own label."""
    assert [expected] == labels(theirs(*said))


@pytest.mark.parametrize("status", ["aborted", "timeout"])
def test_an_open_call_is_excused_where_the_runtime_writes_why_it_ended(status: str) -> None:
    """#227, W38: the runtime writes `outcome.status`; the status alone is the shape that only tests ever wrote."""
    said = [TURN, CALL, STARTED]

    assert [] == labels(theirs(*said, Draft("finish", {"outcome": {"status": status}})))
    assert [] == labels(theirs(*said, Draft("finish", {"status": status})))
    assert [("I-7", KEY)] == labels(theirs(*said, Draft("finish", {"outcome": {}})))
