"""A child in its parent's journal: the facts, their legal order, and what may not stand without them."""

from collections.abc import Callable
from typing import Any

import pytest

from clew.core import delegation, events
from clew.core.answers import Answer, inline
from clew.core.compose import Move, Saying
from clew.core.delegation import DelegationState, result_of, unjoined, waited_for
from clew.core.records import Draft
from clew.errors import Corrupt
from tests.histories import RUN, Scribe, completed, facts, paused, proposed, refold, resume, view

STEP, CHILD = "child-1", "kid-1"
ASKED = "f" * 64
SPENT = {"maxCalls": 2}


def intent(step: str = STEP, child: str = CHILD, **changes: Any) -> Draft:
    """`delegation_recorded` of one child."""
    fact = delegation.recorded(
        run_id=RUN, step_id=step, child_id=child, turn_id="turn-0", fingerprint=ASKED, agent="worker", depth=1,
        workspace=".", policies=("careful",), allocation={"maxCalls": 3}, tools=("pay",), at="-",
    )  # fmt: skip
    return Draft("delegation", {**fact, **changes})


KNOWN = DelegationState(STEP, CHILD, ASKED, "worker", 1, 0)
FACTS: dict[str, Callable[[], dict[str, Any]]] = {
    "created": lambda: delegation.created(RUN, KNOWN),
    "running": lambda: delegation.running(RUN, KNOWN, {"maxCalls": 3}),
    "cancel_requested": lambda: delegation.cancel_requested(RUN, KNOWN, by="join_timeout", reason="late"),
    "paused": lambda: delegation.paused(
        RUN, KNOWN, reason="unknown_effect", waiting={"runId": CHILD, "reason": "unknown_effect"}, spent=SPENT,
        descendants=0, result=result_of("paused"),
    ),
    "orphaned": lambda: delegation.orphaned(RUN, KNOWN),
    "terminal": lambda: delegation.terminal(
        RUN, KNOWN, reason="completed", spent=SPENT, descendants=0, result=result_of("completed")
    ),
    "joined": lambda: delegation.joined(RUN, KNOWN, result_of("completed")),
}  # fmt: skip
ANSWER = inline(STEP, Answer("done"), '"done"')


def fact(status: str, **changes: Any) -> Draft:
    return Draft("delegation", {**FACTS[status](), **changes})


def told(status: str) -> list[Saying]:
    """A fact with what must stand before it in its append."""
    return [ANSWER, fact(status)] if status == "joined" else [fact(status)]


def at(*statuses: str) -> Scribe:
    """A run whose child came to the last of these."""
    scribe = Scribe().born()
    scribe.say(intent())
    for status in statuses:
        scribe.say(*told(status))
    return scribe


def refused(scribe: Scribe, *sayings: Saying) -> str:
    """Why a record cannot stand; nothing changed."""
    before = view(scribe.state)
    with pytest.raises(Corrupt) as caught:
        scribe.say(*sayings)
    assert view(scribe.state) == before
    return str(caught.value.facts["why"])


WAYS: dict[str, tuple[str, ...]] = {
    "recorded": (),
    "created": ("created",),
    "running": ("created", "running"),
    "cancel_requested": ("created", "running", "cancel_requested"),
    "paused": ("created", "running", "paused"),
    "orphaned": ("created", "orphaned"),
    "terminal": ("created", "running", "terminal"),
    "joined": ("created", "running", "terminal", "joined"),
}
LEGAL = {
    "recorded": {"created", "orphaned"},
    "created": {"running", "cancel_requested", "paused", "orphaned", "terminal"},
    "running": {"cancel_requested", "paused", "orphaned", "terminal"},
    "cancel_requested": {"paused", "orphaned", "terminal"},
    "paused": {"running", "cancel_requested", "paused", "terminal"},
    "orphaned": {"created", "running", "cancel_requested", "paused", "terminal"},
    "terminal": {"joined"},
    "joined": set(),
}


@pytest.mark.parametrize("following", list(FACTS))
@pytest.mark.parametrize("status", list(WAYS))
def test_a_child_moves_only_as_the_table_says(status: str, following: str) -> None:
    """Promise 1 holds for children as well: what may follow is known for every state."""
    scribe = at(*WAYS[status])
    try:
        scribe.say(*told(following))
        moved = True
    except Corrupt:
        moved = False

    assert (following in LEGAL[status]) == moved


def test_the_whole_way_is_read_back_as_it_was_written() -> None:
    """A reader judges each fact by the rules that judged it before it was written."""
    scribe = at("created", "running", "paused", "running", "terminal", "joined")

    assert view(scribe.state) == view(refold(scribe.data))


def test_a_child_is_known_by_what_its_facts_said() -> None:
    """C88: an open child is kept in the run's state, not only in a text that may be shortened."""
    known = at("created", "running", "paused").state.delegations[STEP]

    assert DelegationState(
        STEP, CHILD, ASKED, "worker", 1, known.position, "paused", True, {"maxCalls": 3}, {"maxCalls": 3}, SPENT,
        "paused", "unknown_effect", {"runId": CHILD, "reason": "unknown_effect"},
    ) == known  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"childRunId": ""}, "has no childRunId"),
        ({"inputFingerprint": 7}, "has no inputFingerprint"),
        ({"agent": None}, "has no agent"),
        ({"parentRunId": "other"}, "names another parent"),
        ({"parentStepId": "child-2"}, "names another parent"),
        ({"depth": "1"}, "no depth"),
        ({"depth": 4}, "no depth"),
        ({"requestedAllocation": None}, "no depth or no allocation"),
        ({"requestedAllocation": {"maxCalls": -1}}, "budget max_calls is -1"),
        ({"childRunId": RUN}, "is taken"),
        ({"delegationId": f"other:{STEP}"}, "is not of this run"),
        ({"delegationId": 7}, "is not of this run"),
        ({"delegationId": f"{RUN}:"}, "is not of this run"),
        ({"type": "child_adopted"}, "is not known"),
        ({"type": None}, "is not known"),
    ],
)
def test_an_intent_that_lacks_something_is_refused(changes: dict[str, Any], why: str) -> None:
    """What is to be found again after a crash must name who it is."""
    assert why in refused(Scribe().born(), intent(**changes))


@pytest.mark.parametrize(
    ("before", "status", "changes", "why"),
    [
        ((), "created", {"childRunId": "other"}, "without its delegation"),
        ((), "created", {"delegationId": f"{RUN}:child-9"}, "without its delegation"),
        (("created",), "running", {"allocation": None}, "has no allocation"),
        (("created",), "running", {"allocation": {"maxTurns": 0.5}}, "budget max_turns is 0.5"),
        (("created",), "cancel_requested", {"requestedBy": None}, "has no requestedBy"),
        (("created", "running"), "paused", {"waiting": None}, "has no waiting"),
        (("created", "running"), "paused", {"result": None}, "has no result"),
        (("created", "running"), "terminal", {"spent": None}, "has no spent"),
        (("created", "running"), "terminal", {"spent": {"maxCalls": -1}}, "has used -1 of maxCalls"),
        (("created", "running"), "terminal", {"spent": {"maxTokens": True}}, "has used True of maxTokens"),
        (("created", "running"), "terminal", {"reason": None}, "has no reason"),
        (("created", "running"), "terminal", {"result": {"outcome": "completed"}}, "no whole result"),
        (("created", "running"), "terminal", {"result": {**result_of("x"), "outcome": 1}}, "no whole result"),
    ],
)
def test_a_fact_that_lacks_something_is_refused(
    before: tuple[str, ...], status: str, changes: dict[str, Any], why: str
) -> None:
    """Half a fact would be read as a whole one."""
    assert why in refused(at(*before), fact(status, **changes))


def test_two_children_cannot_have_one_id() -> None:
    """C88: a second start on the same target is refused, however its letters are written."""
    assert "is taken" in refused(at("created", "running"), intent("child-2", CHILD.upper()))


def test_a_child_takes_a_step_of_its_own() -> None:
    """Its answer must be nobody else's."""
    scribe = Scribe().born()
    scribe.say(events.step_output(STEP, "1"))

    assert "is taken" in refused(scribe, intent())


def test_a_call_cannot_take_the_step_of_a_child() -> None:
    """The other way round as well."""
    scribe = Scribe().born()
    call = facts()
    scribe.say(intent(call.step_id))

    assert "is a child's" in refused(scribe, *proposed(call))


@pytest.mark.parametrize("said", [fact("running"), intent("child-2", "kid-2")])
def test_a_child_is_delegated_and_runs_only_in_a_running_run(said: Draft) -> None:
    """An ended or aborted run begins nothing."""
    scribe = at("created")
    scribe.say(Move("REQUEST_ABORT", "by ann"))

    assert "while the operation is aborting" in refused(scribe, said)


def test_the_agent_is_told_nothing_before_the_end_was_read() -> None:
    """The child's end is durable before its parent reads it, and read before it is told."""
    assert "before the end of child" in refused(at("created", "running"), ANSWER)


def test_a_child_is_joined_only_with_its_answer() -> None:
    """What was joined without one could never be replayed."""
    assert "without the answer" in refused(at("created", "running", "terminal"), fact("joined"))


@pytest.mark.parametrize("status", [status for status in WAYS if status != "joined"])
def test_a_run_does_not_complete_past_a_child(status: str) -> None:
    """Promise 8: no success while a part of the work is nobody's."""
    assert "completed while child" in refused(at(*WAYS[status]), *completed())


def test_a_run_completes_behind_its_joined_child() -> None:
    """Nothing is left to wait for."""
    scribe = at(*WAYS["joined"])
    scribe.say(*completed())

    assert ("completed", []) == (scribe.state.state, unjoined(scribe.state.delegations))


def test_every_prefix_of_a_joining_is_legal() -> None:
    """A torn append leaves a more doubtful state: the end is known, then the answer, then that it was heard."""
    scribe = at("created", "running")
    scribe.say(*told("terminal"), *told("joined"))
    lines = scribe.data.splitlines(keepends=True)

    assert ["running", "terminal", "terminal", "joined"] == [
        refold(b"".join(lines[: len(lines) - cut])).delegations[STEP].status for cut in (3, 2, 1, 0)
    ]


def test_a_run_waits_for_what_its_paused_child_waits_for() -> None:
    """Who resumes the parent must see which run is in the way."""
    scribe = at("created", "running", "paused")
    scribe.say(*paused("child_paused"))

    assert {"runId": CHILD, "reason": "unknown_effect"} == waited_for(scribe.state.delegations)


def test_a_run_waits_for_no_child_that_is_not_paused() -> None:
    """An orphan's own journal says how it stands."""
    scribe = at("created", "running")
    scribe.say(*paused())
    scribe.say(resume(2), fact("orphaned"))

    assert waited_for(scribe.state.delegations) is None


def test_what_a_fork_learns_of_children_stays_there_until_it_is_merged() -> None:
    """A refused append must leave nothing behind."""
    scribe = Scribe().born()
    ahead = scribe.ahead()
    ahead.say(intent())

    assert ({}, [STEP]) == (scribe.state.delegations, list(ahead.state.delegations))


def test_a_result_lists_a_bounded_part() -> None:
    """A child with many effects must not make its parent's record too large."""
    assert 100 == len(result_of("failed", risks=[{"stepId": str(number)} for number in range(500)])["unresolvedRisks"])
