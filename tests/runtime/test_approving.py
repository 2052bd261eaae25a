"""Which question a person means, whether it may be decided, and what of it is recorded while the run is under way."""

from typing import Any

import pytest

import clew
from clew.runtime.approving import check_said, pick_approval
from clew.stores.base import Command
from tests.histories import BORN_MS, RUN, Scribe, approval, completed, decided, facts, paused
from tests.runtime.scene import RUN as PLAYED
from tests.runtime.scene import Scene, paying

CALL = facts()
WHO: dict[str, Any] = {"by": "ann", "reason": "looked"}


def waiting(*numbers: int, **how: Any) -> Scribe:
    """A run that waits for these calls."""
    scribe = Scribe().born()
    for number in numbers:
        scribe.say(approval(facts(number), f"a{number}", **how))
    return scribe


@pytest.mark.parametrize("name", ["a2", "c2", "pay-2", f"{RUN}:pay-2:c2"])
def test_a_question_is_found_by_each_of_its_names(name: str) -> None:
    """People copy what they see."""
    assert "a2" == pick_approval(waiting(1, 2).state, name, BORN_MS).approval_id


def test_the_only_question_needs_no_name() -> None:
    """`clew approve RUN` is what is typed most."""
    assert "a1" == pick_approval(waiting(1).state, None, BORN_MS).approval_id


def test_the_last_question_of_a_call_is_the_one_that_is_meant() -> None:
    """An earlier one was denied; its word stands."""
    scribe = waiting(1)
    scribe.say(decided("a1", "deny"))
    scribe.say(approval(CALL, "a2"))

    assert "a2" == pick_approval(scribe.state, "pay-1", BORN_MS).approval_id


def failing(scribe: Scribe, name: str | None, at_ms: int = BORN_MS) -> str:
    with pytest.raises(clew.ClewError) as caught:
        pick_approval(scribe.state, name, at_ms)
    return caught.value.code


def test_what_cannot_be_decided_is_refused_by_name() -> None:
    """A yes that went nowhere would be taken for a yes."""
    done, ended = waiting(1), waiting()
    done.say(decided())
    ended.say(*completed())

    assert [
        "which_approval", "nothing_to_approve", "nothing_to_approve", "approval_closed", "approval_closed",
        "nothing_to_approve", "approval_expired",
    ] == [
        failing(waiting(1, 2), None),
        failing(waiting(), None),
        failing(waiting(1), "pay-9"),
        failing(done, "a1"),
        failing(done, None),
        failing(ended, None),
        failing(waiting(1, expires_at="2026-11-29T14:00:01.000Z"), "a1", BORN_MS + 1000),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (clew.Approve("", "looked"), "review_incomplete"),
        (clew.Reject("ann", ""), "review_incomplete"),
        (clew.Approve("ann", "looked", 0), "invalid_expiry"),
    ],
)
def test_a_word_without_a_name_or_a_reason_is_refused(said: Any, code: str) -> None:
    """C99: who and why are required."""
    with pytest.raises(clew.UsageError) as caught:
        check_said(said)

    assert code == caught.value.code


# While the run is under way: each command is read at its next look.


def commanded(*commands: Command) -> tuple[Scene, list[Any]]:
    """A run in whose inbox these lie when it has come to its question; what became of each."""
    scene = Scene()
    pay = paying(scene, "plain")
    scene.clock.advance(3600)

    def approver(request: clew.ApprovalRequest) -> None:
        for command in commands:
            scene.memory.post(command)
            while scene.memory.answered(PLAYED, command.control_id) is None and not request.over():
                scene.clock.advance(1)

    agent = clew.Agent(lambda run, prompt: run.propose(pay, "a"), name="agent", tools=[pay])
    scene.run(agent, approver=approver)
    answers = [scene.memory.answered(PLAYED, command.control_id) for command in commands]
    return scene, [None if answer is None else answer.status for answer in answers]


def command(kind: str, name: str = "k1", **arguments: Any) -> Command:
    return Command(1, name, PLAYED, kind, "ann", "looked", {"approval": "a1", **arguments})


def test_the_same_command_twice_is_applied_once() -> None:
    """A sender that heard nothing sends again, while the start that it allowed is under way."""
    scene, said = commanded(command("approve"), command("approve"))

    assert (["applied", "applied"], 1, 1) == (said, len(scene.said("approval_resolved")), len(scene.bank.paid))


@pytest.mark.parametrize(
    ("arguments", "rejected"),
    [
        ({"approval": "a9"}, "no approval was wanted for 'a9'"),
        ({"argumentsFingerprint": "0" * 64}, "is for other arguments"),
        ({"expiresInMs": 0}, "would lapse after"),
    ],
)
def test_a_command_that_is_not_clear_is_rejected(arguments: dict[str, Any], rejected: str) -> None:
    """Nothing of it is recorded but that it came and why it was refused; the question waits."""
    scene, said = commanded(command("approve", **arguments), command("deny", "k2"))

    told = [event.get("reason", "") for event in scene.said("control") if event["state"] == "rejected"]
    assert (["rejected", "applied"], 1, []) == (said, len(scene.said("approval_resolved")), scene.bank.paid)
    assert rejected in told[0]


@pytest.mark.parametrize("arguments", [{"expiresInMs": "soon"}, {"asAnswer": "yes"}])
def test_a_command_that_cannot_be_understood_leaves_no_record(arguments: dict[str, Any]) -> None:
    """Its sender hears why; the question waits for one that can."""
    scene, said = commanded(command("approve", **arguments), command("deny", "k2"))

    assert (["rejected", "applied"], 1, []) == (said, len(scene.said("approval_resolved")), scene.bank.paid)
    assert ["k2"] == list(dict.fromkeys(event["controlId"] for event in scene.said("control")))


def test_a_second_reviewer_is_told_that_it_is_decided() -> None:
    """One word stands."""
    scene, said = commanded(command("deny"), command("approve", "k2"))

    assert ("applied", []) == (said[0], scene.bank.paid)
    assert ["deny"] == [event["decision"] for event in scene.said("approval_resolved")]


def test_a_paused_run_may_be_decided() -> None:
    """That is where most questions are answered."""
    scribe = waiting(1)
    scribe.say(*paused("approval_required"))

    assert "a1" == pick_approval(scribe.state, None, BORN_MS).approval_id
