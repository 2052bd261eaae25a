"""Permission for one start: what its records may say, in which order, and how it stands at a time."""

from typing import Any

import pytest

from clew.core import approvals, events
from clew.core.approvals import Approve, Reject, approval_row, pause_reason, standing, standing_of
from clew.core.capability import resolve, with_checkpoint
from clew.core.compose import Move
from clew.core.effect import Walk
from clew.core.events import Event
from clew.core.needs import (
    Allow,
    Answered,
    Append,
    Ask,
    Call,
    Closing,
    Consult,
    End,
    Heard,
    Returned,
    Seek,
)
from clew.core.resume import Facts, Offered, ResumePlan, Step, prepare_run_resume, with_approver
from clew.core.state import ApprovalState
from clew.core.times import format_ms
from clew.errors import Corrupt
from tests.histories import (
    BORN_MS,
    LOOK,
    PAY,
    Scribe,
    approval,
    completed,
    decided,
    facts,
    failed,
    paused,
    prefixes,
    proposed,
    refold,
    returned,
    review,
    started,
    told,
)
from tests.histories import (
    refusal as refusal_of,
)

CALL = facts()
LATER = BORN_MS + 3_600_000
REFUSED = [decided("a1", "deny"), *proposed(CALL), events.effect_receipt(CALL, "not_started")]


def run(*appends: list[Any]) -> Scribe:
    """A run in which this was said."""
    scribe = Scribe().born()
    for append in appends:
        scribe.say(*append)
    return scribe


def refusal(scribe: Scribe, *said: Any) -> str:
    """Why this may not be said here."""
    with pytest.raises(Corrupt) as caught:
        scribe.compose(*said)
    return caught.value.message


def last(scribe: Scribe) -> ApprovalState:
    """The last approval of the first call."""
    asked = standing_of(scribe.state, CALL.step_id)
    assert asked is not None
    return asked


def at(ms: int) -> str:
    return format_ms(ms)


def without(event: Event, name: str) -> Event:
    return {member: value for member, value in event.items() if member != name}


# What is written.


def test_a_question_is_numbered_when_it_is_appended() -> None:
    """Two siblings may ask at once; the journal's order gives the ids."""
    scribe = run()
    blank = {**approval(CALL), "approvalId": ""}
    scribe.say(blank, {**approval(facts(2)), "approvalId": ""})
    scribe.say({**approval(facts(3)), "approvalId": ""})

    assert ["a1", "a2", "a3"] == [asked.approval_id for asked in scribe.state.approvals.values()]


def test_a_question_says_why_until_when_and_what_lapsed() -> None:
    """Members that would be empty are left out, as the example of the format has it."""
    told = approval(CALL, why="large", expires_at=at(LATER), replaces={"approvalId": "a1"})

    assert ["reason", "expiresAt", "replaces"] == [name for name in told if name not in approval(CALL)]


@pytest.mark.parametrize(
    ("capability", "risk", "reversible", "declared"),
    [
        (resolve("t", "none"), "low", True, True),
        (with_checkpoint(resolve("t", "workspace"), kept=False), "low", False, True),
        (with_checkpoint(resolve("t", "workspace"), kept=True), "low", True, True),
        (with_checkpoint(resolve("t", "process"), kept=True), "high", False, True),
        (resolve("t", "external"), "high", False, True),
        (resolve("t"), "high", False, False),
        (resolve("t", "magic"), "high", False, False),
    ],
    ids=["none", "workspace", "files kept", "command", "external", "undeclared", "unknown"],
)
def test_a_question_says_what_the_start_may_do(capability: Any, risk: str, reversible: bool, declared: bool) -> None:
    """Whoever is asked judges by it: nothing is made to look smaller than it is."""
    found = approvals.effect_of(capability, ["a"], ["https://b"])

    assert (risk, reversible, declared) == (approvals.risk_of(capability), found["reversible"], found["declared"])
    assert ([capability.effect], ["a"], ["https://b"]) == (found["operations"], found["paths"], found["urls"])


@pytest.mark.parametrize(
    ("said", "decision", "expires"),
    [
        (Approve("ann", "fine"), "allow", None),
        (Approve("ann", "fine", 60), "allow", at(LATER + 60_000)),
        (Reject("ann", "fine"), "deny", None),
    ],
    ids=["yes", "yes for a minute", "no"],
)
def test_a_decision_names_who_why_and_when(said: Any, decision: str, expires: str | None) -> None:
    """#229: it belongs to one question, and an audit finds all of it in the record."""
    scribe = run([approval(CALL)])
    event = approvals.resolution(last(scribe), said, source="operator", at_ms=LATER)

    scribe.say(event)

    asked = last(scribe)
    assert (decision, "operator", "ann", "fine", LATER) == (
        asked.decision, asked.source, asked.by, asked.reason, asked.decided_ms,
    )  # fmt: skip
    assert expires == event.get("expiresAt")


# What may be said, and where.


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ([paused()], approval(CALL)),
        ([], {**approval(CALL), "risk": "some"}),
        ([], without(approval(CALL), "effect")),
        ([], without(approval(CALL), "capability")),
        ([], approval(CALL, expires_at="soon")),
        ([], {**approval(CALL), "businessKey": {"sha256": "f" * 64}}),
        ([[approval(CALL)]], approval(CALL, "a2")),
        ([[approval(CALL)], [decided()]], approval(CALL, "a2")),
        ([[approval(CALL)], [decided()]], approval(CALL, "a2", replaces={"approvalId": "a9"})),
        ([], approval(CALL, replaces={"approvalId": "a0"})),
        ([[approval(CALL)], REFUSED], approval(CALL, "a2", replaces={"approvalId": "a1"})),
        ([started(CALL)], approval(CALL)),
        ([started(CALL), returned(CALL)], approval(CALL)),
        ([proposed(CALL)], {**approval(CALL), "argumentsFingerprint": "0" * 64}),
        ([[approval(CALL)], [decided("a1", "deny")]], {**approval(CALL, "a2"), "argumentsFingerprint": "0" * 64}),
        ([[events.step_output(CALL.step_id, "1")]], approval(CALL)),
        ([[events.agent_start("turn-1", "f")]], {
            **approval(CALL), "stepId": "turn-1", "idempotencyKey": f"{CALL.run_id}:turn-1:c1",
        }),
    ],
    ids=[
        "paused", "no risk", "no effect", "no capability", "no time", "no key", "waits", "allowed already",
        "gives up another", "gives up nothing", "gives up a no", "open", "answered", "other arguments than recorded",
        "other arguments than asked", "a step's id", "a turn's id",
    ],
)  # fmt: skip
def test_a_question_that_cannot_stand_is_refused(before: list[list[Any]], event: Event) -> None:
    """One question a start, of a call that may start: else a yes could mean another effect."""
    scribe = run(*before)

    with pytest.raises(Corrupt):
        scribe.compose(event)


@pytest.mark.parametrize(
    "event",
    [
        decided(by=""),
        decided(by=" "),
        decided(by=None),
        decided(reason=""),
        decided(reason=None),
        decided(source="somebody"),
        decided(source="expiry"),
        decided(source="invalidation"),
        without(decided(), "at"),
        decided(at="now"),
        decided(expiresAt="never"),
    ],
    ids=[
        "by nobody", "by a blank", "by null", "for nothing", "for null", "no source", "the clock allows",
        "the agent allows", "never", "no time", "no end",
    ],
)  # fmt: skip
def test_a_decision_without_an_actor_is_refused(event: Event) -> None:
    """C99: pending changes only by a person, by expiry or by invalidation, and the record says by whom."""
    scribe = run([approval(CALL)])

    with pytest.raises(Corrupt):
        scribe.compose(event)


def test_nothing_is_decided_once_the_run_ends() -> None:
    """Nothing of it starts any more."""
    scribe = run([approval(CALL)], [Move("REQUEST_ABORT")], [Move("FAIL", "aborted")])

    assert "decided while the operation is failed" in refusal(scribe, decided())


def test_nothing_waits_or_is_left_over_once_an_abort_is_asked_for() -> None:
    """Who is told that something waits for them would decide what nobody takes any more."""
    asked, allowed = run([approval(CALL)], [Move("REQUEST_ABORT")]), run([approval(CALL)], [decided()])
    before = approvals.unused(allowed.state, BORN_MS)
    allowed.say(Move("REQUEST_ABORT"))

    assert ([], 1, []) == (approvals.waiting(asked.state), len(before), approvals.unused(allowed.state, BORN_MS))


def test_a_call_is_not_recorded_while_its_question_waits() -> None:
    """Promise 5: the question comes first."""
    assert "is recorded while approval 'a1' waits" in refusal(run([approval(CALL)]), *proposed(CALL))


def test_a_call_is_recorded_with_the_arguments_it_was_asked_for_with() -> None:
    """What starts is what was shown."""
    scribe = run([approval(CALL)], [decided()])
    other = {**events.tool_call(CALL, {}), "argumentsFingerprint": "0" * 64}

    assert "is not the one that approval 'a1' is for" in refusal(scribe, other)


def test_a_call_of_another_id_cannot_take_an_approved_step() -> None:
    """The key is the permission's, and no other's."""
    scribe = run([approval(CALL)], [decided()])
    other = {**events.tool_call(CALL, {}), "callId": "c9", "idempotencyKey": f"{CALL.run_id}:{CALL.step_id}:c9"}

    assert "is not the one that approval 'a1' is for" in refusal(scribe, other)


def test_a_recorded_call_does_not_start_while_its_question_waits() -> None:
    """The second attempt of a call is asked for like the first."""
    scribe = run([approval(CALL)], REFUSED, [approval(CALL, "a2")])

    assert "starts while approval 'a2' waits" in refusal(scribe, *started(CALL, 2))


def test_a_start_uses_the_permission_up() -> None:
    """#229: one permission, one start."""
    scribe = run([approval(CALL)], [decided()])
    before = last(scribe).used

    scribe.say(*started(CALL))

    assert (False, True, "used") == (before, last(scribe).used, standing(last(scribe), LATER))


def test_a_start_that_a_policy_allowed_uses_nothing_up() -> None:
    """A no of yesterday stays a no in the books."""
    scribe = run([approval(CALL)], REFUSED)

    scribe.say(*started(CALL, 2))

    assert ("denied", False) == (standing(last(scribe), LATER), last(scribe).used)


def test_a_free_call_uses_its_permission_up_with_its_answer() -> None:
    """It starts without a receipt, and may simply start again until then."""
    look = facts(1, LOOK)
    scribe = run([approval(look)], [decided()], proposed(look))
    before = scribe.state.approvals.get("a1")

    scribe.say(told(look))

    after = scribe.state.approvals.get("a1")
    assert before is not None
    assert after is not None
    assert (False, True) == (before.used, after.used)


def test_a_lapsed_permission_gives_way_to_a_new_question() -> None:
    """By name, so that there never are two."""
    lapses = {"expiresAt": at(BORN_MS + 1)}
    scribe = run([approval(CALL)], [decided(**lapses)], [approval(CALL, "a2", replaces={"approvalId": "a1"})])

    assert ["replaced", "pending"] == [standing(asked, LATER) for asked in scribe.state.approvals.values()]


def test_a_second_attempt_may_be_asked_for() -> None:
    """After it is proved that the first did not happen, the policy is asked anew."""
    scribe = run(
        [approval(CALL)],
        [decided()],
        started(CALL),
        [events.receipt(CALL, 1, "unknown")],
        [review(CALL, "did_not_happen")],
    )

    scribe.say(approval(CALL, "a2"))

    assert ["used", "pending"] == [standing(asked, LATER) for asked in scribe.state.approvals.values()]


def test_numbers_of_what_was_asked_for_are_not_given_out_again() -> None:
    """A new call of the next leg must not take the key of one that waits."""
    scribe = run([approval(facts(3))])

    assert (3, 3) == (scribe.state.numbers.get("pay"), scribe.state.numbers.get("call"))


def test_a_denial_torn_at_any_line_leaves_the_no_or_the_question() -> None:
    """journal.md §1: every prefix of an append is a legal, more doubtful state."""
    scribe = run([approval(CALL)])
    asked = scribe.data
    scribe.say(*REFUSED, *paused("tool_approval_denied"))

    found = [refold(data) for data in prefixes(scribe.data) if len(data) >= len(asked)]

    assert ["pending"] + ["denied"] * 6 == [
        standing(asked, LATER) for state in found for asked in state.approvals.values()
    ]
    assert all(not state.unsettled() for state in found)


# How it stands.


@pytest.mark.parametrize(
    ("said", "early", "late"),
    [
        ([], "pending", "pending"),
        ([decided()], "granted", "granted"),
        ([decided(expiresAt=at(LATER))], "granted", "expired"),
        ([decided("a1", "deny")], "denied", "denied"),
        ([decided("a1", "deny", source="expiry")], "expired", "expired"),
        ([decided("a1", "deny", source="invalidation")], "invalidated", "invalidated"),
    ],
)
def test_an_approval_stands_by_what_was_said_and_the_time(said: list[Event], early: str, late: str) -> None:
    """A word for each, the same at every door."""
    scribe = run([approval(CALL)], *([said] if said else []))

    assert (early, late) == (standing(last(scribe), BORN_MS), standing(last(scribe), LATER))


def test_a_question_lapses_by_its_time() -> None:
    """Nothing that lapsed is waited for."""
    scribe = run([approval(CALL, expires_at=at(LATER))])

    assert ("pending", "expired") == (standing(last(scribe), LATER - 1), standing(last(scribe), LATER))


def test_what_nobody_answered_is_closed_by_the_clock() -> None:
    """C99: an expiry is a record with an actor, like a person's word."""
    scribe = run([approval(CALL, expires_at=at(LATER))])
    scribe.say(approvals.lapsed(last(scribe), LATER))

    asked = last(scribe)
    assert ("deny", "expiry", "clock", f"nobody decided until {at(LATER)}") == (
        asked.decision, asked.source, asked.by, asked.reason,
    )  # fmt: skip


def test_what_is_not_asked_for_any_more_is_closed_by_the_agent() -> None:
    """C99: so is an invalidation."""
    scribe = run([approval(CALL)])
    scribe.say(approvals.invalidated(last(scribe), "it ended", LATER))

    assert ("deny", "invalidation", "agent", "it ended") == (
        last(scribe).decision, last(scribe).source, last(scribe).by, last(scribe).reason,
    )  # fmt: skip


def test_an_ended_run_waits_for_nothing() -> None:
    """Lists must not ask a person about what can never start."""
    scribe = run([approval(CALL)], [approval(facts(2), "a2")], [decided("a2")])
    before = len(approvals.waiting(scribe.state)), len(approvals.unused(scribe.state, BORN_MS))
    scribe.say(*failed())

    assert ((1, 1), 0, 0) == (
        before,
        len(approvals.waiting(scribe.state)),
        len(approvals.unused(scribe.state, BORN_MS)),
    )


def test_a_permission_whose_call_has_another_answer_is_no_permission_to_start() -> None:
    """An extension said no behind the person's yes, or another call had the business key: nothing is left to start."""
    refused = [*proposed(CALL), events.effect_receipt(CALL, "not_started"), *refusal_of(CALL, "key_held")]
    scribe = run([approval(CALL)], [decided()])
    before = [asked.approval_id for asked in approvals.unused(scribe.state, BORN_MS)]
    scribe.say(*refused)

    assert (["a1"], [], "granted") == (before, approvals.unused(scribe.state, BORN_MS), standing(last(scribe), BORN_MS))


def test_a_question_carries_the_business_key_of_its_call() -> None:
    """A no records the call where no agent is asked for the key again; without it the key would be anybody's."""
    key = {"sha256": "f" * 64, "text": "1042"}
    keyed = facts()
    keyed.business = key
    scribe = run([approval(keyed)])
    asked = last(scribe)

    assert key == approval(keyed)["businessKey"]
    assert (key, None) == (
        approvals.facts_of_asked("r1", asked, key).business, approvals.facts_of_asked("r1", asked).business,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "reason", "expected"),
    [
        ([], "agent_error", "agent_error"),
        ([[approval(CALL)]], "approval_required", "approval_required"),
        ([[approval(CALL)]], "tool_approval_denied", "approval_required"),
        ([[approval(CALL)], REFUSED], "approval_required", "tool_approval_denied"),
        ([[approval(CALL)], [decided("a1", "deny")]], "approval_required", "tool_approval_denied"),
        ([[approval(CALL)], [decided()]], "approval_required", "approval_required"),
        ([[approval(CALL)], [*REFUSED, told(CALL)]], "approval_required", "approval_required"),
    ],
)
def test_a_pause_says_whether_somebody_is_waited_for(said: list[list[Any]], reason: str, expected: str) -> None:
    """#166: a person's no pauses under its own name, unless another question is still open."""
    assert expected == pause_reason(run(*said).state, reason)


def test_a_row_has_what_is_known_and_nothing_else() -> None:
    """C102: who decided and why is shown wherever the approval is."""
    scribe = run([approval(CALL, why="large", expires_at=at(LATER))])
    asked = approval_row(last(scribe), BORN_MS)
    scribe.say(decided(expiresAt=at(LATER)))

    granted = approval_row(last(scribe), BORN_MS)

    assert ("pending", "large", at(LATER)) == (asked["standing"], asked["why"], asked["expiresAt"])
    assert ["source", "by", "reason", "decidedAt", "until"] == [name for name in granted if name not in asked]


# The plan.


def planned(scribe: Scribe, *, at_ms: int = LATER, **facts: Any) -> list[tuple[str, str, str]]:
    plan = prepare_run_resume(scribe.state, None, Facts(at_ms, **facts))
    return [(step.step_id, step.decision, step.reason) for step in plan.steps]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([[approval(CALL)]], ("wait", "approval_required")),
        ([[approval(CALL)], [decided()]], ("run", "approved")),
        ([[approval(CALL, expires_at=at(LATER))]], ("run", "approval_expired")),
        ([[approval(CALL)], [decided(expiresAt=at(LATER))]], ("run", "approval_expired")),
        ([[approval(CALL)], REFUSED], ("run", "not_started")),
        ([[approval(CALL)], REFUSED, [approval(CALL, "a2")]], ("wait", "approval_required")),
        ([[approval(CALL)], REFUSED, [approval(CALL, "a2")], [decided("a2")]], ("run", "approved")),
    ],
)
def test_the_plan_waits_starts_or_asks_anew(said: list[list[Any]], expected: tuple[str, str]) -> None:
    """DESIGN §5, the table: the same approval is waited for; an unused one starts its call."""
    assert [("pay-1", *expected)] == planned(run(*said))


@pytest.mark.parametrize("said", [[[approval(CALL)], [decided("a1", "deny")]]], ids=["torn denial"])
def test_the_plan_says_nothing_of_a_call_that_is_not_recorded(said: list[list[Any]]) -> None:
    """The agent will ask for it, or not."""
    assert [] == planned(run(*said))


def test_a_second_attempt_waits_for_its_approval() -> None:
    """What did not happen starts again, but not past a question about that start."""
    said = [started(CALL), [events.receipt(CALL, 1, "unknown")], [review(CALL, "did_not_happen")], [approval(CALL)]]

    assert [("pay-1", "wait", "approval_required")] == planned(run(*said))


@pytest.mark.parametrize(
    ("tools", "decision"), [({}, "wait"), ({"look": Offered(LOOK)}, "review"), ({"pay": Offered(PAY)}, "wait")]
)
def test_an_approval_for_a_tool_that_is_not_offered_any_more_fails_closed(tools: Any, decision: str) -> None:
    """C101: what was approved is nothing that this agent has."""
    scribe = run([approval(CALL)])
    scribe.state.start = {**scribe.state.start, "tools": ["pay"]}

    assert [decision] == [step[1] for step in planned(scribe, tools=tools)]


def test_with_an_approver_nothing_waits_for_a_person_but_a_review() -> None:
    """Whoever can be asked is asked, in the same places."""
    waits, open_effect = Step("pay-1", "wait", "approval_required"), Step("pay-2", "review", "unknown_effect")

    plan = with_approver(ResumePlan("r1", 1, "c", (waits, open_effect)))

    assert [("run", "approval_required"), ("review", "unknown_effect")] == [
        (step.decision, step.reason) for step in plan.steps
    ]


# The walk.


def walked(*said: Any, attempt: int = 0, recorded: bool = False) -> tuple[End, list[list[str]], list[Any]]:
    """A walk whose needs are answered in order: its end, its appends in words, its needs."""
    walk = Walk(CALL, {"order": 1}, attempt=attempt, recorded=recorded).run()
    answers, appends, needs, sent = list(said), list[list[str]](), list[Any](), None
    while True:
        try:
            need = walk.send(sent)
        except StopIteration as ended:
            return ended.value, appends, needs
        needs.append(need)
        if isinstance(need, Append):
            appends.append([event.get("status", event["type"]) for event in need.events])
            sent = None
        else:
            sent = answers.pop(0)


QUESTION = Seek((approval(CALL),))


def test_the_question_is_durable_before_anybody_is_asked() -> None:
    """DESIGN §5, stage 3: a question that dies with its process would be lost."""
    end, appends, needs = walked(QUESTION, None)

    assert [Ask, Append, Consult] == [type(need) for need in needs]
    assert ([["approval_required"]], Closing("approval_required")) == (appends, end)


def test_a_question_that_stands_is_not_written_again() -> None:
    """One a key: nobody is asked twice about one start."""
    end, appends, _ = walked(Seek(), None)

    assert ([], Closing("approval_required")) == (appends, end)


def test_a_yes_is_durable_before_the_start() -> None:
    """Killed in between, nobody is asked again."""
    _, appends, needs = walked(QUESTION, Heard(True, decided()), Allow(), Returned(1))

    assert [
        ["approval_required"], ["approval_resolved"], ["tool_call", "capability_resolved", "started"],
        ["step_output", "committed", "tool_result"],
    ] == appends  # fmt: skip
    assert [Ask, Append, Consult, Append, Ask, Append, Call, Append] == [type(need) for need in needs]


def test_a_yes_that_somebody_else_recorded_is_not_written_again() -> None:
    """It came by the inbox."""
    _, appends, _ = walked(Seek(), Heard(True), Allow(), Returned(1))

    assert ["tool_call", "capability_resolved", "started"] == appends[0]


def test_a_no_records_the_call_and_pauses() -> None:
    """#166: a person's denial pauses; what was denied is on the books as not started."""
    end, appends, _ = walked(QUESTION, Heard(False, decided("a1", "deny"), detail="ann said no"))

    assert ["approval_resolved", "tool_call", "capability_resolved", "not_started"] == appends[1]
    assert Closing("tool_approval_denied", "ann said no") == end


def test_a_no_to_a_second_attempt_writes_the_decision_alone() -> None:
    """Under one key nothing may follow a receipt but its end."""
    _, appends, _ = walked(QUESTION, Heard(False, decided("a1", "deny")), attempt=1, recorded=True)

    assert ["approval_resolved"] == appends[1]


@pytest.mark.parametrize("event", [decided("a1", "deny"), None], ids=["said here", "recorded elsewhere"])
def test_a_no_may_be_the_answer(event: Event | None) -> None:
    """Then the agent is told, for good, and may go on without the call."""
    end, appends, _ = walked(QUESTION, Heard(False, event, answer="too much"))

    assert isinstance(end, Answered)
    assert ("denied", "too much") == (end.answer.error.kind, end.answer.error.message)  # type: ignore[union-attr]  # an error answer
    assert (event is None) == (len(appends) == 1)


def test_a_completed_run_may_have_closed_questions() -> None:
    """#229: each question has its decision."""
    scribe = run([approval(CALL)])

    scribe.say(approvals.invalidated(last(scribe), "it ended", LATER), *completed())

    assert "completed" == scribe.state.state


def test_a_call_that_was_asked_for_is_who_it_was_when_it_starts() -> None:
    """A yes of last week is for this very call: its ids, its key, its arguments and what its tool said of itself."""
    again = approvals.facts_of_asked(CALL.run_id, last(run([approval(CALL)])))
    names = ("run_id", "step_id", "call_id", "key", "tool", "turn_id", "fingerprint", "capability")

    assert [getattr(CALL, name) for name in names] == [getattr(again, name) for name in names]
