"""What a life says about an agent, beside the life without a death."""

from typing import Any

import pytest

from clew.certify.judging import MEANINGS, Usual, deeds, judge, usual
from clew.certify.lives import Lived
from clew.certify.orders import Entry
from clew.certify.points import Kill, Point

DIED = Point((Kill("end", 1),))


def paid(order: str, key: str = "", **other: Any) -> Entry:
    facts = {"tool": "pay", "key": key or f"r:pay-{order}:c1", "arguments": {"order": order}, "effect": "external"}
    return Entry("happened", 1, **{**facts, **other})


def lived(*entries: Entry, point: Point = DIED, outcome: str = "completed", output: Any = "ok", **other: Any) -> Lived:
    return Lived(point, outcome, output=output, run_id="trial7", entries=list(entries), **other)


def whole(*entries: Entry, **other: Any) -> Usual:
    life = lived(*entries, point=Point(), **other)
    return usual(life, life)


def codes(life: Lived, beside: Usual) -> list[str]:
    return [finding.code for finding in judge(life, beside)]


def test_a_life_like_the_one_without_a_death_is_good() -> None:
    """A finding that is none costs a day."""
    assert [] == codes(lived(paid("a"), paid("b")), whole(paid("a"), paid("b")))


def test_the_same_deed_under_another_key_is_a_repetition() -> None:
    """The bank does not know our keys; it pays twice."""
    assert ["effect_repeated"] == codes(lived(paid("a"), paid("a", "r:pay-2:c2")), whole(paid("a")))


def test_the_same_key_twice_is_a_repetition() -> None:
    """Whatever else the agent is like."""
    assert "effect_repeated" in codes(lived(paid("a"), paid("a")), whole(paid("a")))


def test_the_same_key_twice_is_none_where_the_other_side_knows_it() -> None:
    """Idempotent says that the second one does nothing."""
    again = [paid("a", replay="idempotent")] * 2

    assert [] == codes(lived(*again), whole(again[0]))


def test_an_effect_that_is_missing_is_lost() -> None:
    """A run that says it is done must have done it."""
    assert ["effect_lost"] == codes(lived(paid("a")), whole(paid("a"), paid("b")))


def test_another_output_is_seen() -> None:
    """An answer that got lost shows in what the agent says."""
    assert ["other_output"] == codes(lived(paid("a"), output="else"), whole(paid("a")))


def test_the_runs_own_id_is_no_difference() -> None:
    """Each life has another one."""
    first = lived(paid("a", arguments={"reference": "trial7"}), output="done trial7")
    other = Lived(Point(), "completed", output="done trial8", run_id="trial8")
    other.entries = [paid("a", arguments={"reference": "trial8"})]

    assert [] == codes(first, usual(other, other))


def test_the_scratch_folder_is_no_difference() -> None:
    """Lives are lived in two folders side by side, and agents name theirs in arguments."""
    first = lived(paid("a", arguments={"path": "/s/0/desk/a.csv"}), output="/s/0/desk", work="/s/0/desk")
    other = lived(paid("a", arguments={"path": "/s/1/desk/a.csv"}), output="/s/1/desk", work="/s/1/desk", point=Point())

    assert [] == codes(first, usual(other, other))


def test_who_differs_without_a_death_is_not_compared() -> None:
    """A model's agent never does the same twice; its keys are still judged."""
    unsteady = usual(lived(paid("a"), point=Point()), lived(paid("b"), point=Point()))

    assert [] == codes(lived(paid("c")), unsteady)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ("paused: resume_divergence", "calls_diverged"), ("no end", "no_end"), ("too late", "no_end"), ("died", "died"),
        ("paused: agent_error", "other_end"), ("refused: run_state_corrupt", "other_end"),
    ],
)  # fmt: skip
def test_an_end_that_a_death_brought_about_is_a_finding(outcome: str, code: str) -> None:
    """Each by its name, for each is mended elsewhere."""
    assert [code] == codes(lived(paid("a"), outcome=outcome, output=None), whole(paid("a")))


def test_the_end_that_it_has_anyway_is_none() -> None:
    """An agent that always fails is no worse after a death."""
    beside = whole(paid("a"), outcome="failed: x", output=None)

    assert [] == codes(lived(paid("a"), outcome="failed: x", output=None), beside)


def test_what_is_asked_anew_after_a_death_is_a_divergence() -> None:
    """Nobody can answer what was never asked before."""
    life = lived(outcome="unanswered", output=None, unanswered=Entry("unanswered", tool="run.turn", arguments="?"))

    assert ["calls_diverged"] == codes(life, whole(paid("a")))


REFUSED = Entry("refused", 1, tool="pay", key="r:pay-a:c1", arguments={"order": "a"}, effect="external")


def test_a_failure_that_nobody_hears_of_is_swallowed() -> None:
    """The same output as if it had happened: the failure is in nobody's hands any more."""
    life = lived(REFUSED, paid("b"), point=Point(fails=1))

    assert ["error_swallowed"] == codes(life, whole(paid("a"), paid("b")))


@pytest.mark.parametrize("other", [{"output": "a was not paid"}, {"outcome": "paused: agent_error", "output": None}])
def test_a_failure_that_is_told_is_none(other: dict[str, Any]) -> None:
    """An agent that says so, or stops, has not swallowed it."""
    life = lived(REFUSED, paid("b"), point=Point(fails=1), **other)

    assert [] == codes(life, whole(paid("a"), paid("b")))


def test_a_failure_that_is_made_good_is_none() -> None:
    """It tried again, and it happened."""
    life = lived(REFUSED, paid("a", "r:pay-2:c2"), paid("b"), point=Point(fails=1))

    assert [] == codes(life, whole(paid("a"), paid("b")))


def test_what_follows_a_refusal_of_the_trial_is_not_judged() -> None:
    """The write was refused by us: what the agent does then says nothing."""
    seen = Entry("found", 1, code="writes_outside", what="note writes '/x', which was refused")

    assert ["writes_outside"] == codes(lived(seen, outcome="paused: unknown_effect", output=None), whole(paid("a")))


def test_a_process_that_lives_on_is_one_finding_whatever_its_number() -> None:
    """Its number and time are others in each life."""
    first = judge(lived(left=["pid 12 (sleep 600) since 13:00"]), whole())
    other = judge(lived(left=["pid 99 (sleep 600) since 14:00"]), whole())

    assert ("process_left", first) == (first[0].code, other)


def test_what_happened_is_counted_by_tool_and_arguments() -> None:
    """The key is ours, and not the world's."""
    counted = deeds(lived(paid("a"), paid("a", "r:pay-2:c2"), paid("b")))

    assert {'pay {"order":"a"}': 2, 'pay {"order":"b"}': 1} == dict(counted)


def test_every_code_has_a_meaning() -> None:
    """A code that is explained nowhere is a riddle."""
    assert [] == [code for code, meaning in MEANINGS.items() if not meaning or code.strip() != code]
