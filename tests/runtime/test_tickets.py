"""What an agent is told of a call, and how a recorded call goes on."""

from typing import Any

import pytest

import clew
from clew.core.answers import Answer, ErrorAnswer, Unrecorded
from clew.core.calls import CallState
from clew.core.capability import resolve
from clew.errors import ClewError, Denied, ResultNotRecorded, ToolError
from clew.runtime.tickets import deliver, facts_of, new_walk, recorded_walk, restored
from clew.runtime.tools import Tool


def pay(order: str) -> int:
    return 1


TOOL = Tool(pay, effect="external", probe=lambda call: clew.DidNotHappen(), in_doubt_s=3, secret=True)
CALL = CallState("pay-1", "c1", "r1:pay-1:c1", "pay", "turn-0", "f" * 64, 7, attempt=2)


@pytest.mark.parametrize(("value", "expected"), [(3, 3), ("three", "three"), (None, None)])
def test_an_answer_is_told_in_its_type_or_as_it_is(value: Any, expected: Any) -> None:
    """A wrong annotation is no reason to fail after a payment."""
    told = deliver(TOOL, Answer(value))

    assert expected == told
    assert expected == restored(value, int)


@pytest.mark.parametrize(
    ("answer", "family", "code", "message"),
    [
        (Answer(None, ErrorAnswer("denied", "not today")), Denied, "policy_denied", "not today"),
        (Answer(None, ErrorAnswer("ValueError", "")), ToolError, "tool_failed", "ValueError"),
        (Answer([1], ErrorAnswer("failed", "404", [1])), ToolError, "tool_failed", "404"),
        (Unrecorded("pay happened"), ResultNotRecorded, "result_not_recorded", "pay happened"),
    ],
)
def test_an_error_answer_is_an_error(answer: Any, family: type[ClewError], code: str, message: str) -> None:
    """Told the same way live and replayed, for both come from the record."""
    with pytest.raises(family) as caught:
        deliver(TOOL, answer)

    assert (family, code, message) == (type(caught.value), caught.value.code, caught.value.message)


def test_a_recorded_call_keeps_its_ids_and_its_capability() -> None:
    """Today's counts only where it died before its own was recorded."""
    recorded, today = resolve("pay", "workspace"), resolve("pay", "external")
    kept = facts_of(
        "r1", CallState(**{**{f: getattr(CALL, f) for f in CALL.__struct_fields__}, "capability": recorded}), today
    )
    lost = facts_of("r1", CALL, today)

    assert (recorded, today) == (kept.capability, lost.capability)
    assert ("r1:pay-1:c1", "pay-1", "c1", "turn-0") == (kept.key, kept.step_id, kept.call_id, kept.turn_id)


def test_a_walk_knows_what_the_tool_says_of_itself() -> None:
    """Secret and probe hold for a call that goes on as for a new one."""
    facts = facts_of("r1", CALL, TOOL.capability)

    fresh, again = new_walk(TOOL, facts, {}), recorded_walk(TOOL, facts, CALL, rerun=True, doubt_ms=5)

    assert (0, False, True, 3) == (fresh.attempt, fresh.recorded, fresh.secret, fresh.probe and fresh.probe.in_doubt_s)
    assert (2, True, False, True, True, 5) == (
        again.attempt, again.recorded, again.resolved, again.rerun, again.secret, again.doubt_ms,
    )  # fmt: skip
