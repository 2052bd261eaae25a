"""The shapes of events: the members that a journal has, in their order."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.core import events
from clew.core.answers import Answer, inline
from clew.core.capability import resolve
from clew.core.compose import Close, Composed, Move, Saying, compose
from clew.core.events import KNOWN, CallFacts, Event
from clew.core.happenings import HAPPENINGS
from clew.core.outcome import Outcome
from clew.core.records import Draft
from clew.core.state import RunState
from tests.histories import EXAMPLES, facts

CALL = facts()
PAY = resolve("pay", "external", "unknown")


def pay(run_id: str) -> CallFacts:
    """The call of every example."""
    return CallFacts(
        run_id=run_id,
        step_id="pay-1",
        call_id="c1",
        key=f"{run_id}:pay-1:c1",
        tool="pay",
        turn_id="turn-1",
        fingerprint="761f472f3b8bf626200e697941360b9e109b07e213a94b5bc4587ff66ec7562b",
        capability=PAY,
    )


def rebuilt(event: Event, run_id: str) -> Event:
    """The event of an example, made anew by the function of its type."""
    call, turn = pay(run_id), event.get("turnId", "")
    if event["type"] == "step_output":
        value = json.loads(event["text"])
        return inline(event["stepId"], Answer(value), event["text"])
    if event["type"] == "effect_review":
        return events.effect_review(
            step_id="pay-1", call_id="c1", key=call.key, attempt=event["attempt"], review_id=event["reviewId"],
            outcome=event["outcome"], source=event["source"], by=event["by"], reason=event["reason"],
            evidence=event["evidence"], result_recorded=event["resultRecorded"],
        )  # fmt: skip
    made: dict[str, Callable[[], Event]] = {
        "agent_start": lambda: events.agent_start(turn, event["requestFingerprint"]),
        "turn_end": lambda: events.turn_end(turn, None),
        "tool_call": lambda: events.tool_call(call, event["args"]),
        "capability_resolved": lambda: events.capability_resolved(call),
        "effect_receipt": lambda: events.receipt(call, 1, event["status"]),
        "tool_attempt": lambda: events.receipt(call, event["attempt"], event["status"]),
        "tool_result": lambda: events.tool_result(call, is_error=event["isError"]),
        "agent_end": lambda: events.agent_end(event["output"]),
        "leg_ended": lambda: events.leg_ended(event["leg"]),
        "approval_required": lambda: event,
    }
    return made[event["type"]]()


def lines(example: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in example.read_bytes().splitlines()]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_events_have_the_members_of_the_examples_in_their_order(example: Path) -> None:
    """The examples were read by two releases of the reference; what is written otherwise was not."""
    records = [record for record in lines(example) if record["kind"] == "event"]
    found = [json.dumps(rebuilt(record["payload"]["event"], record["runId"])) for record in records]

    assert [json.dumps(record["payload"]["event"]) for record in records] == found


class Again:
    """Writes an example anew, append by append, from nothing but what it says."""

    def __init__(self, example: Path) -> None:
        self.records = lines(example)
        self.state = RunState(self.records[0]["runId"])
        self.data = b""
        self._count, self._nonce = 0, ""

    def new_id(self) -> str:
        self._count += 1
        return f"{self._nonce}-{self._count}"

    def write(self) -> bytes:
        for append in self._appends():
            composed = self._compose(append)
            self.data += composed.batch.data
            self.state.merge(composed.state)
        return self.data

    def _appends(self) -> Iterator[list[dict[str, Any]]]:
        firsts = sorted({record["append"] for record in self.records})
        return ([record for record in self.records if record["append"] == first] for first in firsts)

    def _compose(self, append: list[dict[str, Any]]) -> Composed:
        self._nonce = append[0]["eventId"].partition("-")[0]
        return compose(
            self.state,
            [self._saying(record) for record in append],
            at=append[0]["timestamp"],
            new_id=self.new_id,
            size_bytes=len(self.data),
        )

    def _saying(self, record: dict[str, Any]) -> Saying:
        payload = record["payload"]
        if record["kind"] == "event":
            return rebuilt(payload["event"], record["runId"])
        if record["kind"] == "operation":
            return Move(payload["event"], payload.get("reason"))
        if record["kind"] in ("pause", "finish"):
            return Close(record["kind"], Outcome(payload["outcome"]["status"], payload["outcome"]["finishReason"]))
        return Draft(record["kind"], payload)


def closing(line: bytes) -> str:
    """The last record without two counts, which the examples give by hand: 17 characters for 18, no retry for one."""
    record = json.loads(line)
    for name in ("outputChars", "retries"):
        del record["payload"]["metrics"][name]
    del record["chain"]
    return json.dumps(record)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_written_again_byte_for_byte(example: Path) -> None:
    """Numbers, ids, chain and order: the format is what the specification says, not what we mean by it."""
    expected, found = example.read_bytes().splitlines(), Again(example).write().splitlines()

    assert expected[:-1] == found[:-1]
    assert closing(expected[-1]) == closing(found[-1])


def test_the_examples_are_here() -> None:
    """Without them the two tests above would assert nothing."""
    assert ["completed", "paused", "second_attempt", "settled"] == [path.stem for path in EXAMPLES]


def test_every_event_that_moves_a_state_is_known() -> None:
    """Else a journal of ours would be refused for what we wrote."""
    assert set(HAPPENINGS) <= KNOWN


def test_a_receipt_says_when_its_answer_was_not_kept() -> None:
    """Only then does it carry the member."""
    kept = events.receipt(CALL, 1, "committed")
    lost = events.receipt(CALL, 1, "committed", persistence="failed")

    assert lost == {**kept, "persistence": "failed"}


def test_an_attempt_says_when_its_answer_was_not_kept() -> None:
    """The same member for every attempt."""
    kept = events.receipt(CALL, 2, "committed")
    lost = events.receipt(CALL, 2, "committed", persistence="withheld")

    assert lost == {**kept, "persistence": "withheld"}


def test_attempts_point_at_the_one_before() -> None:
    """The first is named by the key itself."""
    found = [events.tool_attempt(CALL, number, "started")["previousReceiptId"] for number in (2, 3, 4)]

    assert [CALL.key, f"{CALL.key}#2", f"{CALL.key}#3"] == found


def test_a_result_given_after_the_end_stands_in_the_review() -> None:
    """No `step_output` may follow the finish; a tool that returns nothing returned null, which is a result."""
    said: dict[str, Any] = {
        "step_id": "pay-1", "call_id": "c1", "key": CALL.key, "attempt": 1, "review_id": "r1", "outcome": "happened",
        "source": "operator", "by": "ann", "reason": "saw it", "evidence": (), "result_recorded": True,
    }  # fmt: skip
    without, null = events.effect_review(**said), events.effect_review(**said, result=None)

    assert ("result" in without, null) == (False, {**without, "result": None})


@pytest.mark.parametrize(
    ("usage", "told"), [(None, {"usage": "unmeasured"}), ({}, {"usage": "unmeasured"}), ({"tokens": 0}, {"tokens": 0})]
)
def test_usage_that_was_not_reported_is_unmeasured(usage: Any, told: Event) -> None:
    """Promise 9: never zero."""
    head = {"type": "turn_end", "agent": "main", "turnId": "turn-1"}

    assert {**head, **told} == events.turn_end("turn-1", usage)


def test_an_error_names_a_limit_of_ours() -> None:
    """The reference has no event for it that it would accept."""
    limit = {"dimension": "toolCalls", "limit": 20, "actual": 20}

    assert {"type": "error", "message": "m", "fatal": False} == events.error("m", fatal=False)
    assert {"type": "error", "message": "m", "fatal": True, "budget": limit} == events.error(
        "m", fatal=True, budget=limit
    )


def test_a_command_carries_what_it_asks_and_why_it_was_refused() -> None:
    """Each only where there is something to say."""
    bare = {"type": "control", "controlId": "k1", "fingerprint": "f", "state": "rejected"}
    found = events.control("k1", "f", "rejected", command={"kind": "pause"}, reason="the run is over")

    assert bare == events.control("k1", "f", "rejected")
    assert {**bare, "command": {"kind": "pause"}, "reason": "the run is over"} == found


def test_a_denial_says_why() -> None:
    """It is the agent's answer."""
    assert {"type": "policy_denied", "agent": "main", "tool": "pay", "reason": "no"} == events.policy_denied(CALL, "no")


def test_how_long_an_abort_waited_is_told_in_milliseconds() -> None:
    """Contract §2.4; W19: in the journal, not to a callback alone."""
    assert {"type": "quiescence_timeout", "timeoutMs": 5000} == events.quiescence_timeout(5000)
