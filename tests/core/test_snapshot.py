"""The account of a run and the result that a program gets."""

import json
from typing import Any

import pytest
from hypothesis import given

from clew.core import events
from clew.core.compose import Close, Move
from clew.core.folding import fold
from clew.core.guarding import built_in
from clew.core.outcome import Outcome
from clew.core.records import Draft
from clew.core.resume import Facts
from clew.core.snapshot import RunResult, snapshot
from clew.core.state import RunState
from clew.errors import Corrupt, NotCompleted
from tests.core.test_delegation import at
from tests.histories import (
    BORN_MS,
    LOOK,
    PAY,
    RUN,
    Scribe,
    completed,
    denied,
    facts,
    failed,
    foreign,
    paused,
    proposed,
    returned,
    review,
    start,
    started,
)
from tests.strategies import History, histories

CALL = facts()
NOW = Facts(at_ms=BORN_MS)
CONTRACT = [
    "schemaVersion", "runId", "operation", "outcome", "metrics", "evaluation", "releaseReadiness", "trace",
    "checkpoints", "artifacts", "extensions", "resumable",
]  # fmt: skip
OURS = ["review", "approvals", "effects", "checks", "limits", "integrity", "loop", "legs"]


def account(state: RunState, trace: Any = ()) -> dict[str, Any]:
    return snapshot(state, NOW, trace=trace, integrity={"verdict": "clean"})


def result(scribe: Scribe, **options: Any) -> RunResult:
    return RunResult(scribe.state, output=None, account=lambda: account(scribe.state), **options)


def in_doubt(*more: Any) -> Scribe:
    scribe = Scribe().born()
    scribe.say(*started(CALL))
    scribe.say(*paused("unknown_effect"), *more)
    return scribe


@given(histories())
def test_an_account_has_the_members_of_the_contract_and_ours_and_is_json(history: History) -> None:
    """The same behind every door, whatever happened."""
    found = account(history.state)

    assert [*CONTRACT, *OURS] == list(found)
    assert found == json.loads(json.dumps(found))


@given(histories())
def test_an_account_is_resumable_only_where_nothing_is_unsettled(history: History) -> None:
    """It is what the plan says; without any tool offered, a person must settle what files cannot be asked of."""
    found = account(history.state)

    effects = [call for call in history.state.unsettled() if not (call.open and built_in(history.state, call))]
    assert not found["resumable"] or not effects


def test_an_account_names_what_waits_for_a_person() -> None:
    """One row an effect, with its key and when it started."""
    found = account(in_doubt().state)

    assert [(CALL.key, "started", "2026-11-29T14:00:01.000Z")] == [
        (row["idempotencyKey"], row["status"], row["startedAt"]) for row in found["review"]
    ]
    assert ("unknown_effect", False) == (found["outcome"]["finishReason"], found["resumable"])


def test_effects_are_the_calls_that_may_change_the_world() -> None:
    """Looking is none."""
    scribe = Scribe().born()
    scribe.say(*proposed(facts(1, LOOK)))
    scribe.say(*started(facts(2)))
    scribe.say(*returned(facts(2)))

    assert ["pay-2"] == [row["stepId"] for row in account(scribe.state)["effects"]]


def test_a_run_in_motion_is_accounted_for_by_its_operation() -> None:
    """It has no outcome yet, and nothing was evaluated."""
    found = account(Scribe().born().state)

    assert ({"status": "running", "finishReason": "running"}, [], False) == (
        found["outcome"], found["evaluation"]["scenarioResults"], found["releaseReadiness"]["ready"],
    )  # fmt: skip


def test_a_finished_run_is_accounted_for_by_its_finish() -> None:
    """What was recorded then is shown, not counted anew."""
    scribe = Scribe().born()
    scribe.say(*completed())
    assert scribe.state.finish is not None
    scribe.state.finish["evaluation"] = {"profile": "strict"}

    assert ({"profile": "strict"}, "succeeded") == (
        account(scribe.state)["evaluation"], account(scribe.state)["outcome"]["status"],
    )  # fmt: skip


def judged(scribe: Scribe) -> list[Any]:
    """A run with a check that passed and an effect that nobody can vouch for, paused; what its account warns of."""
    check = {"id": "books", "passed": True}
    scribe.say(*started(CALL))
    scribe.say({**events.step_output("check-1", "1"), "check": check})
    scribe.say(*paused("unknown_effect"))
    return list(account(scribe.state)["releaseReadiness"]["warnings"])


def test_a_paused_run_is_accounted_for_by_its_pause() -> None:
    """What was recorded then is shown as long as nobody did anything since."""
    scribe = Scribe().born()
    judged(scribe)
    assert scribe.state.pause is not None
    scribe.state.pause["releaseReadiness"] = {"ready": False, "blockers": ["then"]}

    assert ["then"] == account(scribe.state)["releaseReadiness"]["blockers"]


def test_what_was_settled_since_the_pause_is_judged_anew() -> None:
    """An effect that did not happen is nothing that cannot be undone, and the pause did not know that."""
    scribe = Scribe().born()
    before = judged(scribe)
    scribe.opened("settle", review(CALL, "did_not_happen"))
    scribe.say(events.leg_ended(2))
    found = account(scribe.state)

    assert ["1 effect outside cannot be undone: pay"] == before
    assert ([], ["the run is paused"]) == (
        found["releaseReadiness"]["warnings"], found["releaseReadiness"]["blockers"],
    )  # fmt: skip


def test_an_account_says_why_the_run_paused_whoever_looked_in_since() -> None:
    """The words of what the agent raised are what the next person needs first."""
    scribe = Scribe().born()
    error = {"code": "agent_error", "message": "ValueError: a bug"}
    scribe.say(Move("PAUSE", "agent_error"), Close("pause", Outcome("paused", "agent_error", error)))
    scribe.opened("control")
    scribe.say(events.leg_ended(2))

    found = account(scribe.state)
    assert ({"status": "paused", "finishReason": "agent_error", "error": error}, True, 22) == (
        found["outcome"], found["resumable"], result(scribe).exit_code,
    )  # fmt: skip


def test_a_run_without_an_operation_has_none_in_its_account() -> None:
    """A foreign journal may have been written before there were any."""
    found = account(fold(foreign(("start", {})), "run-1"))

    assert (None, [], False) == (found["operation"], found["legs"], found["resumable"])


def test_usage_that_nobody_reported_is_null() -> None:
    """Promise 9."""
    scribe = Scribe().born()
    scribe.say(events.agent_start("turn-1", "f"))
    scribe.say(events.step_output("turn-1", "1"), events.turn_end("turn-1", None))
    metrics = account(scribe.state)["metrics"]

    assert (None, None, 1) == (metrics["tokens"], metrics["costUsd"], metrics["unmeasuredTurns"])


def test_all_legs_are_in_the_account() -> None:
    """Who ran it, since when, and what closed it."""
    scribe = in_doubt()
    scribe.opened("settle")
    found = account(scribe.state)["legs"]

    assert [(1, "pause", True), (2, None, False)] == [
        (leg["number"], leg["closedBy"], leg["closedAt"] == scribe.state.paused_at) for leg in found
    ]


def test_the_trace_is_what_was_read() -> None:
    """The fold keeps none of it."""
    assert [{"sequence": 1}] == account(Scribe().born().state, trace=[{"sequence": 1}])["trace"]


# May it go on? One judgement for the account and the plan.


def rests(*said: Any) -> RunState:
    """A run that paused behind what was said."""
    scribe = Scribe().born()
    scribe.say(*said)
    scribe.say(*paused())
    return scribe.state


@pytest.mark.parametrize(
    ("said", "resumable"),
    [
        (denied(CALL), True),
        ([*proposed(CALL), events.effect_receipt(CALL, "not_started")], True),
        (proposed(facts(1, LOOK)), True),
        ([*started(CALL), *returned(CALL)], True),
        (started(CALL), False),
        ([*started(CALL), events.receipt(CALL, 1, "unknown")], False),
    ],
    ids=["denied", "not started", "free, no receipt", "committed and answered", "started", "unknown"],
)
def test_a_paused_run_is_resumable_unless_an_effect_is_in_doubt(said: Any, resumable: bool) -> None:
    """Contract #160 to #162: the account that a program stores says what the plan would say, and JSON keeps it."""
    found = account(rests(*said))

    assert (resumable, found) == (found["resumable"], json.loads(json.dumps(found)))


@pytest.mark.parametrize("capability", [None, PAY, LOOK], ids=["unknown", "external", "free"])
def test_a_foreign_call_without_a_key_is_not_resumable(capability: Any) -> None:
    """Contract #163, #165, W40: no key, no proof; and a run of another program is not ours to go on with anyway."""
    call = {"type": "tool_call", "tool": "x", "callId": "c1", "agent": "main"}
    known = [] if capability is None else [
        {"type": "capability_resolved", "callId": "c1", "agent": "main", "tool": "x",
         "capability": capability.as_json(), "recoveryDisposition": capability.disposition},
    ]  # fmt: skip
    moves = Scribe("run-1").compose(start(), Move("ACCEPT"), Move("START"), Move("PAUSE", "x")).batch.records[1:]
    told = [("event", {"event": said}) for said in (call, *known)] + [("operation", move.payload) for move in moves]
    state = fold(foreign(("start", {}), *told), "run-1")

    found = account(state)

    assert ("paused", False) == (found["operation"]["state"], found["resumable"])


def test_an_account_of_an_operation_of_another_run_cannot_be_made() -> None:
    """Contract #164: the record is refused where it is read, and says by its name which member is wrong."""
    scribe = Scribe()
    other = Scribe("another").compose(start(), Move("ACCEPT")).batch.records[1]

    with pytest.raises(Corrupt, match=r"operation\.runId 'another'") as caught:
        scribe.say(start(), Draft("operation", other.payload))

    assert "operation_state_corrupt" == caught.value.code


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ([], "running"),
        ([Move("REQUEST_ABORT", "asked")], "aborting"),
        (failed(), "failed"),
        (completed(), "completed"),
        ([Move("FAIL", "x")], "failed"),
    ],
    ids=["running", "aborting", "failed", "completed", "failed, not closed"],
)
def test_only_a_paused_run_is_resumable(said: Any, state: str) -> None:
    """Contract #165, W14: a run that runs is not to be resumed beside itself, and one that ended never."""
    scribe = Scribe().born()
    if said:
        scribe.say(*said)
    found = account(scribe.state)

    assert (state, False) == (found["operation"]["state"], found["resumable"])


# Results.


def test_a_completed_run_raises_nothing() -> None:
    """A state is a result."""
    scribe = Scribe().born()
    scribe.say(*completed())
    found = result(scribe)

    assert found is found.raise_for_state()
    assert (0, None, [], f"<RunResult {RUN} completed>") == (found.exit_code, found.reason, found.waiting, repr(found))


def test_a_paused_run_says_what_it_waits_for() -> None:
    """The code is that of the reason, and the next step is a command."""
    found = result(in_doubt(), retry_in_s=5.0)
    with pytest.raises(NotCompleted) as error:
        found.raise_for_state()

    assert ("run_paused", 21, [CALL.key]) == (
        error.value.code, error.value.exit_code, [row["idempotencyKey"] for row in error.value.facts["waiting"]],
    )  # fmt: skip
    assert (f"<RunResult {RUN} paused (unknown_effect)>", 5.0) == (repr(found), found.retry_in_s)
    assert "clew resume" in error.value.next


def test_a_failed_run_does_not_offer_to_go_on() -> None:
    """A terminal run never resumes."""
    scribe = Scribe().born()
    scribe.say(*failed("aborted"))
    with pytest.raises(NotCompleted) as error:
        result(scribe).raise_for_state()

    assert ("run_failed", 3, False) == (error.value.code, error.value.exit_code, "resume" in error.value.next)


def test_what_the_agent_raised_is_the_cause() -> None:
    """A traceback that ends in "paused: agent_error" leaves whoever reads it to guess where."""
    fault = LookupError("no such order")

    with pytest.raises(NotCompleted) as raised:
        result(Scribe().born(), fault=fault).raise_for_state()

    assert fault is raised.value.__cause__


def test_the_account_of_a_result_is_read_when_it_is_asked_for() -> None:
    """It can be long, and the run may have gone on."""
    scribe = Scribe().born()
    found = result(scribe)
    scribe.say(*completed())

    assert "completed" == found.snapshot["operation"]["state"]


def test_an_account_names_the_children_of_a_run() -> None:
    """Whoever reads it must see what else belongs to it; a run that stands alone has no such member."""
    told = account(at("created", "running", "paused").state)

    assert (
        [{"stepId": "child-1", "runId": "kid-1", "agent": "worker", "status": "paused", "outcome": "paused",
          "reason": "unknown_effect"}],
        False,
    ) == (told["children"], "children" in account(Scribe().born().state))  # fmt: skip


def test_an_account_of_a_child_names_its_parent() -> None:
    """Either leads to the other."""
    parent = {"runId": "top", "stepId": "child-1", "depth": 1}
    scribe = Scribe()
    scribe.say(start(parent=parent), Move("ACCEPT"), Move("START"))

    assert parent == account(scribe.state)["parent"]


def test_a_run_that_waits_for_a_child_exits_as_that_child_would() -> None:
    """A script that looks at the code sees what is wanted, however far down."""
    scribe = at("created", "running", "paused")
    outcome = Outcome("paused", "child_paused", {"code": "budget_exceeded", "message": "child kid-1 is paused"})
    scribe.say(Move("PAUSE", "child_paused"), Close("pause", outcome))

    assert ("child_paused", 5) == (result(scribe).reason, result(scribe).exit_code)
    assert 5 == result(scribe.opened("control")).exit_code
