import re
from typing import Any, get_args

import pytest

from clew.cli.app import app
from clew.core.outcome import EXIT_BY_REASON
from clew.core.resume import Decision
from clew.views.advice import DECISIONS, REASONS, RESULT_HINT, STATES, WHY, next_steps, plan_lines, reason_text
from tests.views.samples import effect, row, waiting

SHOWN = (
    "accepted", "running", "stopped", "interrupted", "owner_elsewhere", "paused", "aborting", "completed", "failed",
    "unreadable", "foreign",
)  # fmt: skip
SETTLE = "clew settle k3f happened|did-not-happen --by … --reason …"
LOST = "clew settle k3f CALL happened --by … --reason …"
PROBE = "clew resume k3f  asks its probe or repeats it, where declared so"


def test_every_state_has_words() -> None:
    """A state that only a program understands is no help at three in the morning."""
    assert set(SHOWN) == set(STATES)


@pytest.mark.parametrize("reason", [*EXIT_BY_REASON, "effect_given_up", "aborted", "process_interrupted"])
def test_every_reason_has_words_and_its_code(reason: str) -> None:
    """The words are for the person, the code for the search."""
    shown = reason_text(reason)

    assert shown.endswith(f" ({reason})")


def test_every_decision_of_a_plan_has_words() -> None:
    """A dry run is read before money moves."""
    assert set(get_args(Decision)) == set(DECISIONS)


def test_a_reason_of_another_program_is_shown_as_it_is() -> None:
    """Inventing words for it would be guessing."""
    shown = reason_text("coffee_break")

    assert "coffee_break" == shown


@pytest.mark.parametrize("reason", [reason for reason in EXIT_BY_REASON if EXIT_BY_REASON[reason] != 21])
def test_every_pause_says_what_to_do_next(reason: str) -> None:
    """There is always a next step, and it names the run as it is typed."""
    steps = next_steps(row("paused", reason=reason), "k3f")

    assert 1 == len(steps)
    assert "k3f" in steps[0]


@pytest.mark.parametrize(
    ("told", "expected"), [("running", ["continue it with the program that began it"]), ("finished", [])]
)
def test_a_run_of_another_program_is_continued_there(told: str, expected: list[str]) -> None:
    """No command of clew can do it, so none is advised."""
    assert expected == next_steps(row("foreign", foreign=told), "k3f")


def test_every_command_in_an_advice_exists() -> None:
    """Advice that cannot be typed is worse than none."""
    texts = [advice.next for advice in REASONS.values()]
    named = {word for text in texts for word in re.findall(r"clew (\w+)", text)}

    assert named <= {name for name in app if not name.startswith("-")}


@pytest.mark.parametrize("shown", ["interrupted", "paused"])
def test_an_open_effect_is_settled_or_asked_after(shown: str) -> None:
    """A person's word first, for the probe may not exist; never just: resume and see."""
    steps = next_steps(row(shown, reason="unknown_effect", **waiting(effect())), "k3f")

    assert [SETTLE, PROBE, RESULT_HINT] == steps


def test_with_several_open_effects_one_is_named() -> None:
    """The command must work as it is printed."""
    steps = next_steps(row("paused", **waiting(effect(stepId="pay-7"), effect())), "k3f")

    assert "clew settle k3f pay-7 happened|did-not-happen --by … --reason …" == steps[0]


def test_a_committed_effect_is_not_asked_whether_it_happened() -> None:
    """That much is known; only what it returned is missing."""
    steps = next_steps(row("paused", **waiting(effect(status="committed"))), "k3f")

    assert "clew settle k3f happened --result JSON --by … --reason …" == steps[0]


def test_what_is_settled_meanwhile_is_resumed() -> None:
    """The reason of the pause stands in the journal, but it does not hold any more."""
    steps = next_steps(row("paused", reason="unknown_effect"), "k3f")

    assert ["clew resume k3f"] == steps


@pytest.mark.parametrize(("lost", "step"), [(["key-1"], LOST), ([], "clew resume k3f"), (None, LOST)])
def test_a_secret_answer_is_settled_once(lost: Any, step: str) -> None:
    """Advised a second time it would be refused; a list of an older clew does not say how many are left."""
    found = row("paused", reason="secret_answer_lost", **({} if lost is None else {"lost": lost}))

    assert [step] == next_steps(found, "k3f")


def test_a_dead_run_without_open_effects_is_resumed_whatever_it_paused_for_before() -> None:
    """Its last pause is history."""
    steps = next_steps(row("interrupted", reason="budget_exceeded"), "k3f")

    assert ["clew resume k3f"] == steps


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("agent_error", "mend the agent, then clew resume k3f"),
        ("budget_exceeded", "clew resume k3f --max-turns N"),
        ("process_alive", "wait for it or end it, then clew resume k3f"),
        ("unknown_effect", "clew resume k3f"),
    ],
)
@pytest.mark.parametrize("shown", ["paused", "interrupted"])
def test_a_run_that_is_paused_is_advised_by_its_reason_also_behind_a_leg_that_died(
    shown: str, reason: str, step: str
) -> None:
    """No agent ran in that leg, so what has to be done first has still to be done first."""
    open_ = waiting(effect()) if reason == "process_alive" else {}
    found = row(shown, reason=reason, message="limit turns = 1 reached (1)", **open_) | {"state": "paused"}

    assert [step] == next_steps(found, "k3f")


def test_an_owner_elsewhere_is_looked_after_before_it_is_unlocked() -> None:
    """Two writers pay twice; the nonce saves a refused command."""
    steps = next_steps(row("owner_elsewhere"), "k3f")

    expected = "clew unlock k3f --nonce 3f9ac1d2e4b5a697 --by … --reason …"
    assert [f"look on vm whether process 812 still lives; once it is gone: {expected}"] == steps


def test_a_stopped_process_is_continued_or_ended() -> None:
    """Its lock is never taken from it."""
    steps = next_steps(row("stopped"), "k3f")

    assert ["let process 812 go on (kill -CONT 812) or end it"] == steps


def test_a_process_that_lives_is_waited_for_before_anything_is_settled() -> None:
    """What it still does may happen after somebody has said that it did not."""
    steps = next_steps(row("paused", reason="process_alive", **waiting(effect())), "k3f")

    assert ["wait for it or end it, then clew resume k3f"] == steps


def test_an_unreadable_run_is_verified() -> None:
    """Verify names line and byte."""
    steps = next_steps({"runId": "k3f", "shown": "unreadable"}, "k3f")

    assert ["clew verify k3f"] == steps


@pytest.mark.parametrize("shown", ["accepted", "running", "aborting", "completed", "failed"])
def test_where_nothing_has_to_be_done_nothing_is_advised(shown: str) -> None:
    """Advice that is always there is not read."""
    steps = next_steps(row(shown), "k3f")

    assert [] == steps


def test_a_failed_run_with_an_open_effect_still_wants_to_know() -> None:
    """The money may have moved although the run is over."""
    steps = next_steps(row("failed", reason="aborted", **waiting(effect())), "k3f")

    assert [SETTLE] == steps


def test_a_plan_says_for_each_step_what_and_why() -> None:
    """It is what a person agrees to."""
    steps = [
        {"stepId": "pay-1", "decision": "skip", "reason": "step_stable"},
        {"stepId": "write-10", "decision": "probe", "reason": "probe_declared", "detail": "find_payment"},
    ]

    lines = plan_lines({"steps": steps})

    assert [
        "pay-1     skip    its recorded answer is told again: answered",
        "write-10  probe   the tool's probe is asked first: started, no answer (find_payment)",
    ] == lines


def test_an_empty_plan_is_said_in_words() -> None:
    """An empty answer looks like a failure."""
    lines = plan_lines({"steps": []})

    assert ["nothing is recorded yet: the agent starts from the top"] == lines


def test_words_are_sentences_parts_not_codes() -> None:
    """An underscore in what a person reads is a code that slipped through."""
    texts = [*STATES.values(), *DECISIONS.values(), *WHY.values(), *(advice.what for advice in REASONS.values())]

    assert [] == [text for text in texts if "_" in text or not text]


@pytest.mark.parametrize(
    ("reason", "steps"),
    [
        ("unknown_effect", [SETTLE.replace("k3f", "kid-1"), "clew resume k3f  once that is done"]),
        ("pause_requested", ["clew resume k3f"]),
        ("coffee_break", ["clew resume k3f"]),
        ("budget_exceeded", ["clew resume kid-1 --max-calls N", "clew resume k3f  once that is done"]),
        (
            "approval_required",
            [
                "clew approve kid-1 --by … --reason …",
                "clew deny kid-1 --by … --reason …",
                "clew resume k3f  once that is done",
            ],
        ),
    ],
)
def test_a_run_that_waits_for_a_child_says_what_the_child_wants(reason: str, steps: list[str]) -> None:
    """The way out is at the bottom; the parent takes the child along where nothing else is wanted."""
    waited = row("paused", reason="child_paused", child={"runId": "kid-1", "reason": reason})

    assert steps == next_steps(waited, "k3f")


def test_a_limit_of_a_child_is_lifted_by_its_own_flag() -> None:
    """More calls are no help where the tokens are used up."""
    child = {"runId": "kid-1", "reason": "budget_exceeded", "message": "limit tokens = 10 reached (11)"}

    steps = next_steps(row("paused", reason="child_paused", child=child), "k3f")

    assert ["clew resume kid-1 --max-tokens N", "clew resume k3f  once that is done"] == steps


@pytest.mark.parametrize("shown", ["interrupted", "paused", "failed", "completed"])
@pytest.mark.parametrize(("later", "words"), [(False, "clew restore k3f k1"), (True, "clew restore k3f k1 --later")])
def test_a_restore_that_was_cut_off_is_gone_on_with_first(shown: str, later: bool, words: str) -> None:
    """Half a tree is worse than either, and until it is whole a resume is refused: to advise one is a dead end."""
    steps = next_steps(row(shown, restoring=begun(later=later)), "k3f")

    assert [words] == steps


def test_beside_a_restore_that_was_cut_off_a_person_may_say_what_is_asked() -> None:
    """An approval and a settlement wait for no file."""
    asked = {"wanted": 1, "approvals": [{"standing": "pending", "stepId": "pay-1"}]}
    steps = next_steps(row("paused", restoring=begun(), **asked, **waiting(effect())), "k3f")

    approve, deny = (f"clew {word} k3f --by … --reason …" for word in ("approve", "deny"))
    assert ["clew restore k3f k1", SETTLE, approve, deny] == steps


def test_a_run_that_lives_is_advised_nothing_of_a_restore() -> None:
    """Who holds it is told how to go on when that ends."""
    assert [] == next_steps(row("running", restoring=begun()), "k3f")


def begun(*, later: bool = False) -> dict[str, object]:
    return {"restoreId": "restore-1", "checkpointId": "k1", "later": later}
