"""One planted fault a test: each breaks one invariant of what calls, turns and approvals may do, and no other."""

from typing import Any

import pytest

from clew.core import events
from clew.core.answers import Answer, ErrorAnswer, inline
from clew.core.capability import resolve
from clew.core.records import Draft
from tests.core.unjudged import born, closing, labels
from tests.histories import (
    CHARGE,
    LOOK,
    RUN,
    approval,
    decided,
    denied,
    facts,
    nothing_happened,
    proposed,
    resume,
    returned,
    review,
    started,
    told,
)

PAY_1, CHARGE_1, LOOK_1 = facts(1), facts(1, CHARGE), facts(1, LOOK)
LOOK_ONCE = facts(1, resolve("once", "none", "unknown"))
KEPT = {"sha256": "a" * 64, "sizeBytes": 20_000, "mediaType": "application/json"}
NO = inline("pay-1", Answer(None, ErrorAnswer("failed", "no")), "null")


def receipt(status: Any, number: int = 1, /, call: events.CallFacts = PAY_1, **changes: Any) -> dict[str, Any]:
    """A receipt, with members of it changed."""
    return {**events.receipt(call, number, status), **changes}


def unknown(call: events.CallFacts = PAY_1) -> list[dict[str, Any]]:
    """An attempt in doubt."""
    return [*started(call), receipt("unknown", call=call)]


def turn(asked: str = "f" * 64) -> dict[str, Any]:
    return events.agent_start("turn-1", asked)


def answered(turn_id: str = "turn-1") -> dict[str, Any]:
    return events.step_output(turn_id, '"hi"')


def decided_by(source: str) -> dict[str, Any]:
    """A question that was closed by something else than a person."""
    return {**decided(decision="deny"), "source": source}


def child(step: Any = "child-1") -> Draft:
    """A child run is about to begin."""
    return Draft("delegation", {"type": "delegation_recorded", "parentStepId": step})


ENDED = events.turn_end("turn-1", None)
RESULT = events.tool_result(PAY_1, is_error=False)
KEYED = [{**proposed(PAY_1)[0], "businessKey": {"sha256": "f" * 64, "text": "1042"}}, proposed(PAY_1)[1]]
BORROWED = {**told(PAY_1), "heldBy": {"run": "r2"}}
LATE = review(PAY_1, "happened", result_recorded=True, result=None)

LEGAL = {
    "returned": [*started(PAY_1), *returned(PAY_1)],
    "torn behind its answer": [*started(PAY_1), told(PAY_1)],
    "denied": denied(PAY_1),
    "denied, then started": [*proposed(PAY_1), receipt("not_started"), receipt("started", 2), receipt("committed", 2)],
    "nothing happened": [*started(PAY_1), *nothing_happened(PAY_1)],
    "settled, and started again": [*unknown(), review(PAY_1, "did_not_happen"), receipt("started", 2)],
    "a third attempt": [
        *unknown(), review(PAY_1, "did_not_happen"), receipt("started", 2), receipt("unknown", 2),
        review(PAY_1, "did_not_happen", 2), receipt("started", 3),
    ],
    "repeated with its key": [*started(CHARGE_1), receipt("started", 2, call=CHARGE_1)],
    "settled with a result": [*unknown(), review(PAY_1, "happened", result_recorded=True), told(PAY_1)],
    "the result was torn off, then given": [
        *unknown(), review(PAY_1, "happened", result_recorded=True),
        review(PAY_1, "happened", result_recorded=True), told(PAY_1), RESULT,
    ],
    "a result that is gone is given anew": [
        *started(PAY_1), {**told(PAY_1), "blob": KEPT}, receipt("committed"), RESULT,
        review(PAY_1, "happened", result_recorded=True), told(PAY_1),
    ],
    "a secret that is gone is given anew": [
        *started(PAY_1), receipt("committed", persistence="withheld"), review(PAY_1, "happened"),
    ],
    "not kept, settled": [
        *started(PAY_1), receipt("committed", persistence="failed"), review(PAY_1, "happened", result_recorded=True),
        told(PAY_1),
    ],
    "the answer of who has the key": [*KEYED, receipt("not_started"), BORROWED, RESULT],
    "the answer of who took the key in between": [
        *KEYED, receipt("started"), receipt("unknown"), review(PAY_1, "did_not_happen"), BORROWED, RESULT,
    ],
    "seen": [*proposed(LOOK_1), told(LOOK_1), events.tool_result(LOOK_1, is_error=False)],
    "a step": [answered("plan-1")],
    "a turn and its call": [turn(), answered(), ENDED, *started(facts(1, turn="turn-1"))],
    "a turn that died": [turn(), turn(), answered(), ENDED],
    "a turn that raised": [turn(), ENDED, events.agent_start("turn-2", "f" * 64)],
    "approved": [approval(PAY_1), decided(), *started(PAY_1)],
    "refused": [approval(PAY_1), decided(decision="deny"), *proposed(PAY_1), receipt("not_started")],
    "refused, later allowed": [
        approval(PAY_1), decided(decision="deny"), *proposed(PAY_1), receipt("not_started"), receipt("started", 2),
    ],
    "asked again after a refusal": [
        approval(PAY_1), decided(decision="deny"), approval(PAY_1, "a2"), decided("a2"), *started(PAY_1),
    ],
    "asked about another": [approval(facts(2)), *started(PAY_1)],
    "not asked for any more, later started": [
        approval(PAY_1), decided_by("invalidation"), *started(PAY_1),
    ],
    "asked for anew while it was withdrawn": [
        approval(PAY_1), decided_by("invalidation"), approval(PAY_1, "a2"), decided("a2"), *started(PAY_1),
    ],
    "seen after a yes": [approval(LOOK_1), decided(), *proposed(LOOK_1), told(LOOK_1)],
    "denied as an answer": [
        approval(LOOK_1), decided(decision="deny"), *proposed(LOOK_1), {**NO, "stepId": "look-1"},
    ],
    "a child ends although its parent is aborted": [child(), "REQUEST_ABORT", answered("child-1")],
    "what is said of a child": [child(), Draft("delegation", {"type": "child_created"}), answered("child-1")],
    "aborted": [*started(PAY_1), "REQUEST_ABORT", *returned(PAY_1), "FAIL", closing("finish", "aborted")],
    "aborted with a call in doubt": [*started(PAY_1), "REQUEST_ABORT", "FAIL", closing("finish", "aborted")],
    "failed, later settled": [
        *unknown(), "FAIL", closing("finish", "failed"), resume(2, "settle"), LATE, events.leg_ended(2),
    ],
    "nothing that is judged": [events.leg_ended(1), events.error("x", fatal=False)],
}  # fmt: skip

ATTEMPT_2 = [*unknown(), review(PAY_1, "did_not_happen")]

BROKEN: dict[str, tuple[list[Any], tuple[str, str]]] = {
    # I-4
    "a call in the step of another": ([*started(PAY_1), *proposed(PAY_1)[:1]], ("I-4", "pay-1")),
    "a call in a step that is done": ([answered("pay-1"), proposed(PAY_1)[0]], ("I-4", "pay-1")),
    "a turn that is answered begins again": ([turn(), answered(), turn()], ("I-4", "turn-1")),
    "a turn that is over begins again": ([turn(), ENDED, turn()], ("I-4", "turn-1")),
    "a turn begins again with another request": ([turn(), turn("0" * 64)], ("I-4", "turn-1")),
    "a turn with the id of a step": ([answered("turn-1"), turn()], ("I-4", "turn-1")),
    "a child in the step of a call": ([*started(PAY_1), child("pay-1")], ("I-4", "pay-1")),
    "a call in the step of a child": ([child("pay-1"), *proposed(PAY_1)[:1]], ("I-4", "pay-1")),
    "a child of no step": ([child(None)], ("I-6", "None")),
    "a child after the abort": (["REQUEST_ABORT", child()], ("I-10", "child-1")),
    "a step is done twice": ([answered("plan-1"), answered("plan-1")], ("I-4", "plan-1")),
    "a turn is answered twice": ([turn(), answered(), answered()], ("I-4", "turn-1")),
    # I-5
    "a call of a turn that never began": (proposed(facts(1, turn="turn-7")), ("I-5", "pay-1")),
    "a turn ends that never began": ([ENDED], ("I-5", "turn-1")),
    "a turn ends twice": ([turn(), answered(), ENDED, ENDED], ("I-5", "turn-1")),
    "a turn is answered after its end": ([turn(), ENDED, answered()], ("I-5", "turn-1")),
    "a turn without an id": ([{**turn(), "turnId": None}], ("I-5", "None")),
    "the end of a turn without an id": ([{**ENDED, "turnId": []}], ("I-5", "[]")),
    "a receipt of another turn": ([*proposed(PAY_1), receipt("started", turnId="turn-3")], ("I-5", "pay-1")),
    "a result of another turn": (
        [*started(PAY_1), told(PAY_1), receipt("committed"), {**RESULT, "turnId": None}], ("I-5", "pay-1"),
    ),
    # I-6
    "a receipt of another tool": ([*proposed(PAY_1), receipt("started", tool="look")], ("I-6", "pay-1")),
    "an attempt of another tool": ([*ATTEMPT_2, receipt("started", 2, tool="look")], ("I-6", "pay-1")),
    "a capability of another tool": ([proposed(PAY_1)[0], {**proposed(PAY_1)[1], "tool": "look"}], ("I-6", "pay-1")),
    "a result of another tool": (
        [*started(PAY_1), told(PAY_1), receipt("committed"), {**RESULT, "tool": "look"}], ("I-6", "pay-1"),
    ),
    "a call of no id": ([{**proposed(PAY_1)[0], "callId": None}], ("I-6", "pay-1")),
    "a call of no turn": ([{**proposed(PAY_1)[0], "turnId": None}], ("I-6", "pay-1")),
    "a call of no step": ([{**proposed(PAY_1)[0], "stepId": None}], ("I-6", "None")),
    "a key of another call": ([{**proposed(PAY_1)[0], "idempotencyKey": f"{RUN}:pay-1:c2"}], ("I-6", "pay-1")),
    "a call id of another call": (
        [*started(PAY_1), {**proposed(LOOK_1)[0], "callId": "c1"}], ("I-6", "look-1"),
    ),
    "a receipt without a call": ([receipt("started")], ("I-6", "pay-1")),
    "an attempt without a call": ([receipt("started", 2)], ("I-6", "pay-1")),
    "a capability without a call": ([proposed(PAY_1)[1]], ("I-6", "pay-1")),
    "a result without a call": ([RESULT], ("I-6", "pay-1")),
    "a review without a call": ([review(PAY_1, "happened")], ("I-6", "pay-1")),
    "a result of a call with another id": ([*started(PAY_1), {**RESULT, "callId": "c2"}], ("I-6", "pay-1")),
    "a receipt with another key": ([*proposed(PAY_1), receipt("started", idempotencyKey="k")], ("I-6", "pay-1")),
    "a receipt bound to nothing": ([*proposed(PAY_1), receipt("started", binding=None)], ("I-6", "pay-1")),
    "a receipt of other arguments": (
        [*proposed(PAY_1), receipt("started", binding={"argumentsFingerprint": "0" * 64})], ("I-6", "pay-1"),
    ),
    "an attempt with another key": ([*ATTEMPT_2, receipt("started", 2, attemptId="k#2")], ("I-6", "pay-1")),
    "an attempt without a number": ([*ATTEMPT_2, receipt("started", 2, attempt="2")], ("I-6", "pay-1")),
    "a first attempt that is none": (
        [*proposed(PAY_1), receipt("started", 2, attempt=1, attemptId=f"{PAY_1.key}#1")], ("I-6", "pay-1"),
    ),
    "an attempt behind another receipt": ([*ATTEMPT_2, receipt("started", 2, previousReceiptId="k")], ("I-6", "pay-1")),
    "an attempt with other arguments": (
        [*ATTEMPT_2, receipt("started", 2, argumentsFingerprint="0" * 64)], ("I-6", "pay-1"),
    ),
    "an answer of no step": ([{**answered(), "stepId": 3}], ("I-6", "3")),
    "a question with another key": ([{**approval(PAY_1), "idempotencyKey": f"{RUN}:pay-9:c1"}], ("I-6", "a1")),
    # I-7
    "two answers": ([*started(PAY_1), *returned(PAY_1), told(PAY_1)], ("I-7", "pay-1")),
    "two results": ([*started(PAY_1), *returned(PAY_1), RESULT], ("I-7", "pay-1")),
    "a result without an answer": ([*started(PAY_1), receipt("committed"), RESULT], ("I-7", "pay-1")),
    "a result against the answer": ([*started(PAY_1), NO, receipt("committed"), RESULT], ("I-7", "pay-1")),
    "an answer of nothing": ([*proposed(PAY_1), told(PAY_1)], ("I-7", "pay-1")),
    "an answer of nothing that may be repeated": ([*proposed(LOOK_ONCE), told(LOOK_ONCE)], ("I-7", "once-1")),
    "a value of what was denied": ([*proposed(PAY_1), receipt("not_started"), told(PAY_1)], ("I-7", "pay-1")),
    "another's answer without a key": ([*proposed(PAY_1), receipt("not_started"), BORROWED], ("I-7", "pay-1")),
    "another's answer of what was started": ([*KEYED, receipt("started"), BORROWED], ("I-7", "pay-1")),
    "another's answer of what was settled": (
        [*KEYED, receipt("started"), receipt("unknown"), review(PAY_1, "happened"), BORROWED], ("I-7", "pay-1"),
    ),
    "an answer of nobody": ([*KEYED, receipt("not_started"), {**BORROWED, "heldBy": "r2"}], ("I-7", "pay-1")),
    "a value of what did not happen": ([*ATTEMPT_2, told(PAY_1)], ("I-7", "pay-1")),
    "an answer of what is unknown": ([*unknown(), told(PAY_1)], ("I-7", "pay-1")),
    "an answer of what was given up": ([*unknown(), review(PAY_1, "give_up"), NO], ("I-7", "pay-1")),
    "an answer behind committed": ([*started(PAY_1), receipt("committed"), told(PAY_1)], ("I-7", "pay-1")),
    "unknown though answered": ([*started(PAY_1), told(PAY_1), receipt("unknown")], ("I-7", "pay-1")),
    "settled, then committed": (
        [*started(PAY_1), review(PAY_1, "did_not_happen"), receipt("committed")], ("I-7", "pay-1"),
    ),
    "settled twice": ([*ATTEMPT_2, review(PAY_1, "happened")], ("I-7", "pay-1")),
    "settled although it was answered": (
        [*started(PAY_1), *returned(PAY_1), review(PAY_1, "happened")], ("I-7", "pay-1"),
    ),
    "settled although it never started": (
        [*proposed(PAY_1), receipt("not_started"), review(PAY_1, "happened")], ("I-7", "pay-1"),
    ),
    "settled as something": ([*unknown(), review(PAY_1, "perhaps")], ("I-7", "pay-1")),
    "committed, settled as not happened": (
        [*started(PAY_1), receipt("committed"), review(PAY_1, "did_not_happen")], ("I-7", "pay-1"),
    ),
    "another attempt is settled": ([*unknown(), review(PAY_1, "happened", 2)], ("I-7", "pay-1")),
    "no attempt is settled": ([*proposed(PAY_1), review(PAY_1, "happened", 0)], ("I-7", "pay-1")),
    "succeeded with an open call": (
        [*started(PAY_1), events.agent_end(1), "COMPLETE", closing("finish", "succeeded")], ("I-7", "pay-1"),
    ),
    "completed with an open call": ([*unknown(), events.agent_end(1), "COMPLETE"], ("I-7", "pay-1")),
    "completed with an answer that was not kept": (
        [*started(PAY_1), receipt("committed"), events.agent_end(1), "COMPLETE"], ("I-7", "pay-1"),
    ),
    # I-9
    "asked twice by one id": ([approval(PAY_1), approval(facts(2))], ("I-9", "a1")),
    "asked without an id": ([{**approval(PAY_1), "approvalId": None}], ("I-9", "None")),
    "asked about nothing": ([{**approval(PAY_1), "idempotencyKey": None}], ("I-9", "a1")),
    "asked while it was asked": ([approval(PAY_1), approval(PAY_1, "a2")], ("I-9", "a2")),
    "decided without a question": ([decided()], ("I-9", "a1")),
    "decided on no question": ([{**decided(), "approvalId": 1}], ("I-9", "1")),
    "decided twice": ([approval(PAY_1), decided(), decided(decision="deny")], ("I-9", "a1")),
    "started while it was asked": ([approval(PAY_1), *started(PAY_1)], ("I-9", "pay-1")),
    "started although refused": ([approval(PAY_1), decided(decision="deny"), *started(PAY_1)], ("I-9", "pay-1")),
    "started although expired": ([approval(PAY_1), decided(decision="expired"), *started(PAY_1)], ("I-9", "pay-1")),
    "seen while it was asked": ([approval(LOOK_1), *proposed(LOOK_1), told(LOOK_1)], ("I-9", "look-1")),
    "started with other arguments": (
        [{**approval(PAY_1), "argumentsFingerprint": "0" * 64}, decided(), *started(PAY_1)], ("I-9", "pay-1"),
    ),
    # I-10
    "a call after the abort": (["REQUEST_ABORT", *proposed(PAY_1)], ("I-10", "pay-1")),
    "a start after the abort": ([*proposed(PAY_1), "REQUEST_ABORT", receipt("started")], ("I-10", "pay-1")),
    "a turn after the abort": (["REQUEST_ABORT", turn()], ("I-10", "turn-1")),
    "a turn is answered after the abort": ([turn(), "REQUEST_ABORT", answered()], ("I-10", "turn-1")),
    "a turn ends after the abort": ([turn(), "REQUEST_ABORT", ENDED], ("I-10", "turn-1")),
    "a step after the abort": (["REQUEST_ABORT", answered("plan-1")], ("I-10", "plan-1")),
    "the agent ends after the abort": (["REQUEST_ABORT", events.agent_end(1)], ("I-10", "")),
    # I-11
    "a call while it is paused": (["PAUSE", *proposed(PAY_1)], ("I-11", "pay-1")),
    "the agent ends twice": ([events.agent_end(1), events.agent_end(1)], ("I-11", "")),
    # I-12
    "committed without a start": ([*proposed(PAY_1), receipt("committed")], ("I-12", "pay-1")),
    "unknown without a start": ([*proposed(PAY_1), receipt("unknown")], ("I-12", "pay-1")),
    "committed becomes unknown": ([*started(PAY_1), receipt("committed"), receipt("unknown")], ("I-12", "pay-1")),
    "unknown becomes committed": ([*unknown(), receipt("committed")], ("I-12", "pay-1")),
    "started becomes not started": ([*started(PAY_1), receipt("not_started")], ("I-12", "pay-1")),
    "a word that is no status": ([*started(PAY_1), receipt("done")], ("I-12", "pay-1")),
    "a status that is no word": ([*started(PAY_1), receipt([])], ("I-12", "pay-1")),
    "two starts": ([*started(PAY_1), receipt("started")], ("I-12", "pay-1")),
    "an attempt is left out": ([*ATTEMPT_2, receipt("started", 3)], ("I-12", "pay-1")),
    "a receipt of an attempt that is over": (
        [*ATTEMPT_2, receipt("started", 2), receipt("committed")], ("I-12", "pay-1"),
    ),
    "a second attempt of what may have happened": ([*unknown(), receipt("started", 2)], ("I-12", "pay-1")),
    "a second attempt of what happened": (
        [*unknown(), review(PAY_1, "happened"), receipt("started", 2)], ("I-12", "pay-1"),
    ),
    "a second attempt of what was answered": (
        [*started(CHARGE_1), *returned(CHARGE_1), receipt("started", 2, call=CHARGE_1)], ("I-12", "charge-1"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", LEGAL.values(), ids=LEGAL)
def test_what_is_legal_is_not_found(said: list[Any]) -> None:
    """A checker that cries at legal journals is switched off by the first who reads it."""
    assert [] == labels(born(*said))


@pytest.mark.parametrize(("said", "expected"), BROKEN.values(), ids=BROKEN)
def test_one_fault_is_one_finding(said: list[Any], expected: tuple[str, str]) -> None:
    """#224 to #227, #229, #230, #232: each fault is found, under its label, and nothing else is."""
    assert [expected] == labels(born(*said))


def test_a_loss_that_was_accepted_puts_what_might_have_started_in_doubt() -> None:
    """After a loss a missing receipt proves nothing: such a call must be settled, and may not just start."""
    loss = resume(2, "repair", integrityWaived={"accepted": "loss", "by": "ann", "reason": "no copy"})
    lost = [*proposed(PAY_1), *proposed(facts(2, LOOK)), *started(facts(3)), *denied(facts(4)), loss]
    settled = [review(PAY_1, "did_not_happen"), receipt("started", 2), receipt("committed", 2)]

    assert [] == labels(born(*lost, *settled))
    assert [("I-12", "pay-1")] == labels(born(*lost, receipt("started")))
    assert [("I-7", "pay-1"), ("I-7", "pay-3")] == labels(born(*lost, events.agent_end(1), "COMPLETE"))


def test_another_waiver_puts_nothing_in_doubt() -> None:
    """An accepted configuration says nothing of records."""
    accepted = resume(2, integrityWaived={"accepted": "config"})

    assert [] == labels(born(*proposed(PAY_1), accepted, Draft("resume", {}), receipt("started")))
