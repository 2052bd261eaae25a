"""What an abort lets into a journal: receipts and answers of what began before it; all else is refused and counted."""

import random
from collections import Counter
from typing import Any

import pytest

from clew.core import events
from clew.core.abort import KEPT, STARTS, admitted, refuses
from clew.core.compose import Close, Move
from clew.core.folding import fold
from clew.core.outcome import Outcome
from clew.core.state import RunState
from clew.errors import Corrupt
from tests.core.test_delegation import at, fact, intent
from tests.core.test_delegation import told as delegated
from tests.histories import LOOK, PAY, Scribe, facts, failed, proposed, read, refold, resume, returned, started, told

FIRST, SECOND = facts(1), facts(2)
TURN = events.agent_start("turn-1", "f")
ABORT = Move("REQUEST_ABORT", "asked")
LATE = (
    events.turn_end("turn-1", None),
    events.tool_result(FIRST, is_error=False),
    events.step_output("plan-1", "1"),
    events.step_output("turn-1", '"heard"'),
    events.effect_receipt(SECOND, "committed"),
    events.tool_attempt(SECOND, 2, "unknown"),
    events.policy_denied(FIRST, "no"),
)


def aborting(*before: Any) -> Scribe:
    """A run with a call and a turn under way, and the abort on disk."""
    scribe = Scribe().born()
    for said in (started(FIRST), [TURN], *before, [ABORT]):
        scribe.say(*said)
    return scribe


def refused(scribe: Scribe) -> int:
    return scribe.state.metrics.rejected_after_abort


def finish(scribe: Scribe) -> dict[str, Any]:
    assert scribe.state.finish is not None
    return scribe.state.finish


def found(state: RunState, step: str) -> str:
    call = state.calls.get(step)
    assert call is not None
    return call.status


def test_the_operation_and_one_finish_are_stored() -> None:
    """Contract #95: the abort itself must come to its end, once."""
    scribe = aborting()
    scribe.say(Move("FAIL", "aborted"), Close("finish", Outcome("aborted", "aborted")))

    assert ("failed", "aborted") == (scribe.state.state, finish(scribe)["outcome"]["status"])
    with pytest.raises(Corrupt):
        scribe.say(Close("finish", Outcome("aborted", "aborted")))


@pytest.mark.parametrize("late", LATE, ids=lambda event: f"{event['type']} {event.get('stepId', '')}")
def test_what_comes_too_late_is_dropped_and_counted(late: events.Event) -> None:
    """Contract #96: nobody is told by an error, nothing of it is written, and it is not passed over in silence."""
    scribe = aborting()
    before = scribe.state.sequence
    scribe.say(late)

    assert (before, 1) == (scribe.state.sequence, refused(scribe))


@pytest.mark.parametrize("status", ["committed", "unknown"])
def test_a_receipt_of_a_call_that_began_before_is_kept(status: Any) -> None:
    """Contract #97 as DESIGN §13 has it: what became of an effect is never thrown away."""
    scribe = aborting()
    scribe.say(events.effect_receipt(FIRST, status))

    assert (status, 0) == (found(scribe.state, "pay-1"), refused(scribe))


def test_an_answer_of_a_call_that_began_before_is_kept_without_the_end_of_its_story() -> None:
    """Contract #96, #97: one append, of which the answer and the receipt are facts, and the rest is not needed."""
    scribe = aborting()
    scribe.say(*returned(FIRST))

    assert ([], 1) == (scribe.state.unsettled(), refused(scribe))


@pytest.mark.parametrize("kind", ["text_delta", "approval_required", "error"])
def test_what_was_only_said_is_stored(kind: str) -> None:
    """Contract #98: it changes nothing, and may say why."""
    assert not refuses(aborting().state, {"type": kind})


@pytest.mark.parametrize("status", ["not_started", None])
def test_a_receipt_without_an_effect_follows_its_call(status: Any) -> None:
    """Contract #99 as DESIGN §13 has it: kept of a call that was recorded before, refused of any other."""
    state = aborting().state
    receipts = [{**events.effect_receipt(call, "committed"), "status": status} for call in (FIRST, SECOND)]

    assert [False, True] == [refuses(state, receipt) for receipt in receipts]


@pytest.mark.parametrize("payload", [None, 5, [], {}, {"type": 5}, "tool_result", {"type": "new"}])
def test_what_is_no_event_is_not_judged_here(payload: Any) -> None:
    """Contract #100: other rules refuse what is broken; this one is about what came too late."""
    assert not refuses(aborting().state, payload)


@pytest.mark.parametrize("count", [0, 3])
def test_how_much_was_refused_stands_in_the_finish(count: int) -> None:
    """Contract #101: three are 3, none is no member at all; a reader counts as the writer did."""
    scribe = aborting()
    for late in LATE[:count]:
        scribe.say(late)
    scribe.say(*failed())

    metrics = finish(scribe)["metrics"]
    assert ([count] if count else []) == [metrics[name] for name in metrics if name == "rejectedAfterAbort"]
    assert count == refold(scribe.data).metrics.rejected_after_abort


def test_what_comes_too_late_in_the_last_append_is_counted_in_it() -> None:
    """The finish is written once: what it does not say nobody will ever know."""
    scribe = aborting()
    scribe.say(LATE[0], *failed())

    assert 1 == finish(scribe)["metrics"]["rejectedAfterAbort"]


@pytest.mark.parametrize("told", [None, "3", -1, {"rejectedAfterAbort": "3"}])
def test_a_finish_that_counts_in_no_number_counts_nothing(told: Any) -> None:
    """A reader of another's words believes numbers only."""
    scribe = aborting()
    scribe.say(*failed())
    records = read(scribe.data)
    records[-1][0].payload["metrics"] = told

    assert 0 == fold(records, scribe.state.run_id).metrics.rejected_after_abort


@pytest.mark.parametrize(
    "event", [proposed(SECOND)[0], events.effect_receipt(FIRST, "started"), events.agent_start("turn-2", "f")]
)
def test_what_would_begin_is_refused_aloud(event: events.Event) -> None:
    """Dropped in silence, its body would run all the same."""
    with pytest.raises(Corrupt, match="aborting"):
        aborting().say(event)


@pytest.mark.parametrize("late", LATE[:2], ids=lambda event: event["type"])
def test_a_reader_refuses_what_the_writer_would_have_dropped(late: events.Event) -> None:
    """I-10: the same rule judges a record before it is written and when it is read."""
    scribe = aborting()
    scribe.say({"type": "error", "message": "stands in", "fatal": False})
    records = read(scribe.data)
    records[-1][0].payload["event"] = late

    with pytest.raises(Corrupt, match="after the abort"):
        fold(records, scribe.state.run_id)


@pytest.mark.parametrize(("ended", "unmeasured"), [((), 1), (([events.turn_end("turn-1", {"tokens": 5})],), 0)])
def test_a_turn_that_an_abort_cut_off_is_unmeasured(ended: Any, unmeasured: int) -> None:
    """Promise 9: the model was asked and may have answered; nothing says that it cost nothing."""
    scribe = aborting(*ended)
    scribe.say(*failed())

    finish = scribe.state.finish
    assert finish is not None
    assert unmeasured == finish["metrics"]["unmeasuredTurns"]


def test_a_later_leg_finishes_the_abort_under_the_same_rule() -> None:
    """The process died amid it: the next one knows what still counts."""
    scribe = aborting()
    scribe.say(resume(2, "control"), events.effect_receipt(FIRST, "unknown"), LATE[1], *failed())

    assert ("failed", "unknown", 1) == (scribe.state.state, found(scribe.state, "pay-1"), refused(scribe))


def test_no_event_is_both_kept_and_a_start() -> None:
    """One decides against the other."""
    assert frozenset() == KEPT & STARTS


# Interleavings.


class Play:
    """Calls, turns and steps that begin and end in any order, with one abort somewhere among them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.scribe = Scribe().born()
        self.open: list[Any] = []
        self.late = 0
        self.known: dict[str, str] = {}
        self.number = 0

    @property
    def aborted(self) -> bool:
        return self.scribe.state.state == "aborting"

    def go(self) -> "Play":
        deeds = [self.call, self.turn, self.end, self.end, self.step, self.raise_one]
        for _ in range(self.chance.randint(1, 12)):
            self.chance.choice(deeds)()
        self.scribe.say(ABORT)
        for _ in range(self.chance.randint(0, 12)):
            self.chance.choice([*deeds, self.steer])()
        self.scribe.say(*failed())
        return self

    def begin(self, *said: Any) -> bool:
        """Say what begins; after the abort it must be refused aloud, and nothing of it stands there."""
        before = self.scribe.state.sequence
        try:
            self.scribe.say(*said)
        except Corrupt:
            assert self.aborted
            assert before == self.scribe.state.sequence
            return False
        assert not self.aborted
        return True

    def call(self) -> None:
        self.number += 1
        call = facts(self.number, self.chance.choice([PAY, LOOK]))
        if self.begin(*(started(call) if call.capability is PAY else proposed(call))):
            self.open.append(call)

    def turn(self) -> None:
        self.number += 1
        name = f"turn-{self.number}"
        if self.begin(events.agent_start(name, "f")):
            self.open.append(name)

    def step(self) -> None:
        self.number += 1
        self.late += self.aborted
        self.scribe.say(events.step_output(f"plan-{self.number}", "1"))

    def steer(self) -> None:
        self.scribe.say(events.control(f"c{self.scribe.state.sequence}", "f", "accepted", command={"type": "steer"}))

    def end(self) -> None:
        """One that is under way comes to its end."""
        if not self.open:
            return
        one = self.open.pop(self.chance.randrange(len(self.open)))
        if isinstance(one, str):
            self.late += 2 * self.aborted
            self.scribe.say(events.step_output(one, "1"), events.turn_end(one, None))
        elif one.capability is PAY:
            self.late += self.aborted
            self.known[one.step_id] = "committed"
            self.scribe.say(*returned(one))
        else:
            self.late += self.aborted
            self.known[one.step_id] = ""
            self.scribe.say(told(one, 1), events.tool_result(one, is_error=False))

    def raise_one(self) -> None:
        paying = [one for one in self.open if not isinstance(one, str) and one.capability is PAY]
        if paying:
            self.open.remove(paying[0])
            self.known[paying[0].step_id] = "unknown"
            self.scribe.say(events.effect_receipt(paying[0], "unknown"))


@pytest.mark.parametrize("thousand", [range(500), range(500, 1000)], ids=["first", "second"])
def test_a_thousand_interleavings_keep_what_is_known_and_nothing_else(thousand: range) -> None:
    """Contract #102: no late fact, no call without its end, no second end of one, and every refusal counted."""
    for seed in thousand:
        play = Play(seed).go()
        state = refold(play.scribe.data)
        said = [record.payload["event"] for record, _ in read(play.scribe.data) if record.kind == "event"]
        ends = Counter(event["stepId"] for event in said if event.get("status") in ("committed", "unknown"))

        assert play.known == {step: found(state, step) for step in play.known}, seed
        assert play.late == state.metrics.rejected_after_abort, seed
        assert all(count == 1 for count in ends.values()), seed
        assert {call.step_id for call in state.unsettled()} == {
            one.step_id for one in play.open if not isinstance(one, str) and one.capability is PAY
        } | {step for step, status in play.known.items() if status == "unknown"}, seed


def test_nothing_is_judged_that_is_no_event() -> None:
    """Moves and closings pass: they are the abort itself."""
    kept, late = admitted(aborting().state, [Move("FAIL", "aborted"), LATE[0]])

    assert ([Move("FAIL", "aborted")], 1) == (kept, late)


def test_the_answer_of_a_child_that_was_delegated_before_is_kept() -> None:
    """C45: what became of it is known, and the record that joins it stands behind its answer."""
    scribe = at("created", "running")
    scribe.say(ABORT)
    scribe.say(fact("terminal"), *delegated("joined"))

    assert ("joined", 0, "aborting") == (
        scribe.state.delegations["child-1"].status, refused(scribe), scribe.state.state,
    )  # fmt: skip


@pytest.mark.parametrize("late", [events.effect_receipt(facts(9), "committed"), {"type": "step_output", "stepId": 7}])
def test_what_is_of_no_call_and_no_child_is_dropped(late: events.Event) -> None:
    """A receipt says what became of a call; a step without a name is of nobody."""
    scribe = at("created", "running")
    scribe.say(ABORT)

    assert refuses(scribe.state, late)


def test_no_child_is_delegated_after_the_abort() -> None:
    """Nothing begins any more."""
    scribe = aborting()

    with pytest.raises(Corrupt):
        scribe.say(intent())
