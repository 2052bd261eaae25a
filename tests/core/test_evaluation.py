"""Checks that ran, and whether a run is ready for release: nothing is scored that did not run."""

from math import nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import events
from clew.core.capability import resolve
from clew.core.evaluation import (
    EVIDENCE,
    TEXT_CHARS,
    TOOLS,
    Check,
    check_member,
    check_rows,
    evaluation,
    readiness,
)
from clew.core.state import RunState
from clew.errors import Corrupt, UsageError
from tests.histories import EDIT, LOOK, Scribe, completed, denied, facts, proposed, refold, returned, review, started


def recorded(name: str, check: Check, step: str = "check.x-1") -> dict[str, Any]:
    """The event of a check."""
    return {**events.step_output(step, "{}"), "check": check_member(name, check)}


def checked(*checks: tuple[str, Check]) -> Scribe:
    """A run with these checks."""
    scribe = Scribe().born()
    for number, (name, check) in enumerate(checks, 1):
        scribe.say(recorded(name, check, f"check.x-{number}"))
    return scribe


def test_an_evaluation_is_the_checks_that_ran() -> None:
    """Contract #170, W32: by name, with score and reason where they were given; nothing beside."""
    state = refold(checked(("totals", Check(True, 0.5, "equal")), ("files", Check(False))).data)

    assert {
        "profile": "standard",
        "scenarioResults": [
            {"id": "totals", "passed": True, "score": 0.5, "reason": "equal"}, {"id": "files", "passed": False},
        ],
        "qualityScores": {},
        "securityFindings": [],
    } == evaluation(state)  # fmt: skip


def test_no_check_of_a_name_covers_another() -> None:
    """The second order's totals say nothing of the first one's."""
    state = checked(("totals", Check(False)), ("totals", Check(True)), ("totals", Check(True))).state

    assert [("totals", False), ("totals #2", True), ("totals #3", True)] == [
        (result["id"], result["passed"]) for result in evaluation(state)["scenarioResults"]
    ]
    assert not readiness(state, "succeeded")["ready"]


@pytest.mark.parametrize(
    ("checks", "status", "blockers"),
    [
        ((), "succeeded", ["no evaluation ran"]),
        ((), "paused", ["the run is paused", "no evaluation ran"]),
        ((), "failed", ["the run failed", "no evaluation ran"]),
        ((("a", Check(True)),), "succeeded", []),
        ((("a", Check(True)),), "aborted", ["the run aborted"]),
        ((("a", Check(True)), ("b", Check(False))), "succeeded", ["check 'b' did not pass"]),
        ((("b", Check(False, reason="3 of 4")),), "succeeded", ["check 'b' did not pass: 3 of 4"]),
        ((("b", Check(True, findings=["key in log"])),), "succeeded", ["open security finding: key in log"]),
    ],
)
def test_a_run_is_ready_only_when_it_succeeded_and_all_checks_passed(
    checks: tuple[tuple[str, Check], ...], status: str, blockers: list[str]
) -> None:
    """Contract #170, promise 8: each thing that stands in the way is named."""
    assert {"ready": not blockers, "blockers": blockers, "warnings": []} == readiness(checked(*checks).state, status)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans())), st.sampled_from(["succeeded", "paused", "failed"]))
def test_ready_means_that_something_ran_and_everything_passed(ran: list[tuple[str, bool]], status: str) -> None:
    """The rule by another hand."""
    state = checked(*((name, Check(passed)) for name, passed in ran)).state

    ready = bool(ran) and status == "succeeded" and all(passed for _, passed in ran)

    assert ready == readiness(state, status)["ready"]


def test_a_finding_is_told_once_and_stays_open() -> None:
    """Two checks may see the same."""
    state = checked(("a", Check(True, findings=["k", "l"])), ("b", Check(True, findings=["k"]))).state

    assert ["k", "l"] == evaluation(state)["securityFindings"]


def test_effects_outside_that_happened_are_a_warning() -> None:
    """Contract #170: what cannot be taken back is known before the release; looking, files and denials are none."""
    scribe = checked(("a", Check(True)))
    scribe.say(*started(facts(1)))
    scribe.say(*returned(facts(1)))
    scribe.say(*started(facts(2)))
    scribe.say(review(facts(2), "did_not_happen"))
    scribe.say(*denied(facts(3)))
    scribe.say(*proposed(facts(4, LOOK)))
    scribe.say(*started(facts(5, EDIT)))

    assert ["1 effect outside cannot be undone: pay"] == readiness(scribe.state, "succeeded")["warnings"]


def test_a_warning_names_a_few_tools() -> None:
    """It is read by people."""
    scribe = checked(("a", Check(True)))
    for number in range(1, TOOLS + 2):
        scribe.say(*started(facts(number, resolve(f"tool{number}", "external"))))

    named = ", ".join(f"tool{number}" for number in range(1, TOOLS + 1))

    assert [f"6 effects outside cannot be undone: {named}, …"] == readiness(scribe.state, "succeeded")["warnings"]


def test_a_finish_carries_its_evaluation() -> None:
    """W32: from the checks in the journal, whoever wrote the line."""
    scribe = checked(("a", Check(True)))
    scribe.say(*completed())
    assert scribe.state.finish is not None

    assert ([{"id": "a", "passed": True}], True) == (
        scribe.state.finish["evaluation"]["scenarioResults"], scribe.state.finish["releaseReadiness"]["ready"],
    )  # fmt: skip


def test_an_evaluation_that_did_not_run_is_empty() -> None:
    """W32: the reference scored execution 1 for every run; each call gives its own lists."""
    evaluation(RunState("r"))["qualityScores"]["execution"] = 1

    assert {"profile": "standard", "scenarioResults": [], "qualityScores": {}, "securityFindings": []} == evaluation(
        RunState("r")
    )


def test_evidence_is_shown_in_our_own_account() -> None:
    """The contract's result has no place for it."""
    check = Check(False, evidence=["line 3", {"sum": 7}], findings=["k"])

    assert [
        {"id": "a", "passed": False, "stepId": "check.x-1", "evidence": ["line 3", '{"sum":7}'], "findings": ["k"]}
    ] == check_rows(checked(("a", check)).state)


def test_what_a_state_keeps_of_a_check_is_bounded() -> None:
    """The whole answer stands beside; a fold must not grow with it."""
    long = "x" * 1000
    member = check_member("a", Check(True, reason=long, evidence=[long] * 50, findings=[long]))

    assert (TEXT_CHARS, EVIDENCE, {TEXT_CHARS}, TEXT_CHARS) == (
        len(member["reason"]), len(member["evidence"]), {len(item) for item in member["evidence"]},
        len(member["findings"][0]),
    )  # fmt: skip


@pytest.mark.parametrize(
    "member",
    [
        None, "passed", {}, {"id": "a"}, {"passed": True}, {"id": "a", "passed": 1}, {"id": "a", "passed": "yes"},
        {"id": " ", "passed": True}, {"id": "a", "passed": True, "score": "1"},
        {"id": "a", "passed": True, "reason": None}, {"id": "a", "passed": True, "evidence": "x"},
        {"id": "a", "passed": True, "findings": [1]}, {"id": "a", "passed": True, "verdict": "fine"},
    ],
)  # fmt: skip
def test_a_check_that_cannot_be_read_is_refused(member: Any) -> None:
    """Promise 8: what is read as passed must have been written as passed."""
    with pytest.raises(Corrupt, match=r"the check of step 'check\.x-1'"):
        Scribe().born().say({**events.step_output("check.x-1", "{}"), "check": member})


def test_the_answer_of_a_call_is_no_check() -> None:
    """A tool that looks like one would pass itself."""
    scribe = Scribe().born()
    scribe.say(*started(facts(1)))
    told, *rest = returned(facts(1))
    scribe.say({**told, "check": {"id": "a", "passed": True}}, *rest)

    assert () == scribe.state.checks


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"passed": 1}, "passed"), ({"passed": None}, "passed"), ({"passed": True, "score": nan}, "score"),
        ({"passed": True, "score": True}, "score"), ({"passed": True, "score": "1"}, "score"),
        ({"passed": True, "reason": 3}, "reason"), ({"passed": True, "evidence": "x"}, "evidence"),
        ({"passed": True, "findings": "x"}, "findings"), ({"passed": True, "findings": [1]}, "findings"),
    ],
)  # fmt: skip
def test_what_is_no_check_is_refused(members: dict[str, Any], named: str) -> None:
    """A truthy value is not a pass."""
    with pytest.raises(UsageError, match=f"a check's {named} is ") as caught:
        Check(**members)

    assert "invalid_check" == caught.value.code
