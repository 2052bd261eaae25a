"""How a stopped run may go on: DESIGN §5's table row by row, the properties that hold for all calls, whole journals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import calls
from clew.core.calls import AnswerRef, CallState, Illegal
from clew.core.canon import fingerprint
from clew.core.capability import Capability, resolve
from clew.core.checkpoint import CheckpointState
from clew.core.codec import LineReader
from clew.core.folding import fold
from clew.core.operation import DurableOperation, OperationEvent
from clew.core.restored import Begun, Restores
from clew.core.resume import (
    Decision,
    Facts,
    Fingerprint,
    Offered,
    ResumePlan,
    Step,
    is_resumable,
    judge_call,
    prepare_run_resume,
)
from clew.core.review import Review
from clew.core.state import ApprovalState, RunState, TurnState
from clew.errors import NotFound, Refused
from tests.core.journals import EXAMPLES
from tests.core.test_delegation import at

AT = "2026-11-29T14:00:00.000Z"
NOW_MS = 100_000
EXTERNAL = resolve("pay", "external")
IDEMPOTENT = resolve("pay", "external", "idempotent")
WORKSPACE = resolve("pay", "workspace", "idempotent")
FREE = resolve("pay", "none")
NEW = CallState("pay-1", "c1", "r1:pay-1:c1", "pay", "turn-0", "f" * 64, 7, capability=EXTERNAL)
ANSWER = AnswerRef(9, is_error=False)
BESIDE = AnswerRef(9, is_error=False, blob="b" * 64)
CONFIG = Fingerprint("a" * 64, "c" * 64, "e" * 64)
OFFERED = {"pay": Offered(EXTERNAL)}
PROBED = {"pay": Offered(EXTERNAL, probe="find_payment", in_doubt_s=30)}
ASKED = ApprovalState("a1", NEW.key, "pay-1", "c1", "pay", NEW.fingerprint, 5)


def call(**members: Any) -> CallState:
    """An open call of an external tool, unless said otherwise."""
    return msgspec.structs.replace(NEW, **{"attempt": 1, "status": "started", "started_ms": 60_000, **members})


def review(outcome: Any, *, result: bool = False) -> Review:
    return Review("r1", outcome, "operator", "ops", "bank shows it", result, complete=False)


def run(*found: CallState, own: bool = True, approvals: tuple[ApprovalState, ...] = ()) -> RunState:
    """A paused run of ours with these calls."""
    state = RunState("r1")
    state.own, state.sequence, state.chain = own, 9, "d" * 64
    state.start = {"initialPrompt": "settle", "configParts": CONFIG.parts()}
    state.operation = operation("START", "PAUSE")
    for each in found:
        state.calls.put(each.step_id, each)
    for asked in approvals:
        state.approvals.put(asked.approval_id, asked)
        state.asked.put(asked.step_id, asked.approval_id)
    return state


def operation(*events: OperationEvent) -> DurableOperation:
    found = DurableOperation.create(run_id="r1", operation_id="op-1", event_id="e1", at=AT)
    for number, event in enumerate(events, 2):
        found = found.move(event, event_id=f"e{number}", at=AT)
    return found


def facts(**members: Any) -> Facts:
    return Facts(**{"at_ms": NOW_MS, "tools": OFFERED, **members})


def judged(state: RunState, **members: Any) -> Step:
    """What the plan says of the only call."""
    (step,) = prepare_run_resume(state, None, facts(**members)).steps
    return step


def said(step: Step) -> tuple[str, str, int, str]:
    return step.decision, step.reason, step.attempt, step.detail


# The table, row by row.


def test_row_1_an_answered_call_is_skipped() -> None:
    """Promise 2, contract #75: the answer is replayed as told, whatever the last receipt says."""
    step = judged(run(call(answer=ANSWER)))

    assert Step("pay-1", "skip", "step_stable", "c1", 1) == step


def test_row_2_an_answer_that_cannot_be_read_waits_for_a_person() -> None:
    """A blob that is gone is no reason to run the effect again."""
    step = judged(run(call(answer=BESIDE)), unreadable_blobs=frozenset({BESIDE.blob}))

    assert ("review", "result_missing", 1, f"blob {BESIDE.blob}") == said(step)


def test_row_3_a_pending_approval_is_waited_for() -> None:
    """The same question stays the same question; nobody is asked twice."""
    step = judged(run(call(attempt=0, status=""), approvals=(ASKED,)))

    assert ("wait", "approval_required", 0, "a1") == said(step)


@pytest.mark.parametrize(("capability", "decision"), [(EXTERNAL, "review"), (None, "review"), (FREE, "run")])
def test_row_4_a_foreign_leg_proves_nothing_by_silence(capability: Capability | None, decision: str) -> None:
    """Contract #73, #81 as DESIGN §13 keeps them: no receipt means not started only in a leg of ours."""
    step = judged(run(call(attempt=0, status="", capability=capability), own=False))

    assert decision == step.decision


@pytest.mark.parametrize("members", [{"attempt": 0, "status": ""}, {"status": "not_started"}])
def test_row_5_a_call_that_never_started_runs(members: dict[str, Any]) -> None:
    """Contract #72, promise 5: `started` is on disk before the tool runs, so its absence is a proof."""
    step = judged(run(call(**members)))

    assert ("run", "not_started") == (step.decision, step.reason)


@pytest.mark.parametrize(
    ("outcome", "decision", "reason"),
    [
        ("happened", "skip", "settled_happened"),
        ("did_not_happen", "run", "settled_did_not_happen"),
        ("give_up", "fail", "effect_given_up"),
    ],
)
@pytest.mark.parametrize("status", ["started", "unknown"])
def test_row_6_a_settled_attempt_goes_as_it_was_settled(status: str, outcome: str, decision: str, reason: str) -> None:
    """W21: what a person said is recorded and decides; happened is never run, not happened never skipped."""
    step = judged(run(call(status=status, review=review(outcome))))

    assert (decision, reason, 1, "") == said(step)


@pytest.mark.parametrize(
    ("persistence", "reason"),
    [("", "committed_effect_pending"), ("failed", "committed_effect_pending"), ("withheld", "secret_answer_lost")],
)
def test_row_7_a_committed_effect_without_its_answer_waits_for_a_person(persistence: str, reason: str) -> None:
    """Promise 2, contract #74: it happened, so it does not run; nobody knows what it returned, so it is not skipped."""
    step = judged(run(call(status="committed", persistence=persistence)))

    assert ("review", reason, 1, "") == said(step)


def test_row_8_a_living_process_is_waited_for() -> None:
    """While it lives it may still do the effect; who it is stands in the plan."""
    step = judged(run(call()), living={f"{NEW.key}#1": "curl (pid 812)"})

    assert ("wait", "process_alive", 1, "curl (pid 812)") == said(step)


def test_row_8_a_process_of_an_earlier_attempt_is_another_matter() -> None:
    """Attempt 1 was settled before attempt 2 started; the key alone does not say which attempt lives."""
    step = judged(run(call(attempt=2)), living={f"{NEW.key}#1": "curl (pid 812)"})

    assert "review" == step.decision


@pytest.mark.parametrize("status", ["started", "unknown"])
def test_row_9_a_declared_probe_is_asked(status: str) -> None:
    """The outside world is asked before a person is; a probe may be added after the crash."""
    step = judged(run(call(status=status)), tools=PROBED)

    assert ("probe", "probe_declared", 1, "find_payment") == said(step)


def kept(**members: Any) -> RunState:
    """A run whose open call changes files, which were kept before."""
    state = run(call(capability=WORKSPACE, **members))
    state.checkpoints.put("k1", CheckpointState("k1", "pay-1", 1, 6, 900, started=True))
    state.guarded.put("pay-1", "k1")
    return state


@pytest.mark.parametrize("tools", [{}, OFFERED, {"pay": Offered(WORKSPACE)}], ids=["gone", "other", "idempotent"])
def test_row_9_a_checkpoint_that_stands_is_asked(tools: Mapping[str, Offered]) -> None:
    """DESIGN §5: the files know, whether or not the tool is there, and before anything is repeated."""
    assert ("probe", "checkpoint_stands", 1, "k1") == said(judged(kept(), tools=tools))


def test_row_9_a_declared_probe_goes_before_the_files() -> None:
    """Who wrote one knows better."""
    assert ("probe", "probe_declared", 1, "find_payment") == said(judged(kept(), tools=PROBED))


def test_row_9_a_checkpoint_of_an_earlier_attempt_is_not_asked() -> None:
    """Since then anybody may have written."""
    assert "checkpoint_stands" != judged(kept(attempt=2)).reason


@pytest.mark.parametrize(
    ("recorded", "offered", "at_ms", "decision"),
    [
        (IDEMPOTENT, Offered(IDEMPOTENT, window_s=40), NOW_MS, "rerun"),
        (IDEMPOTENT, Offered(IDEMPOTENT, window_s=39.999), NOW_MS, "review"),
        (IDEMPOTENT, Offered(IDEMPOTENT, window_s=40), 59_999, "review"),
        (IDEMPOTENT, Offered(IDEMPOTENT), NOW_MS, "review"),
        (WORKSPACE, Offered(WORKSPACE), NOW_MS, "rerun"),
        (WORKSPACE, Offered(WORKSPACE, window_s=1), NOW_MS, "review"),
        (IDEMPOTENT, Offered(WORKSPACE), NOW_MS, "review"),
        (IDEMPOTENT, Offered(EXTERNAL, window_s=40), NOW_MS, "review"),
        (EXTERNAL, Offered(IDEMPOTENT, window_s=40), NOW_MS, "review"),
        (None, Offered(IDEMPOTENT, window_s=40), NOW_MS, "review"),
    ],
    ids=[
        "inside",
        "past",
        "clock back",
        "no window",
        "files",
        "files, past",
        "other effect",
        "stricter",
        "laxer",
        "none",
    ],
)
def test_row_10_an_idempotent_call_runs_again_inside_its_window(
    recorded: Capability | None, offered: Offered, at_ms: int, decision: str
) -> None:
    """Contract #90, #93: idempotent then and now, the same effect, while the other side still remembers the key."""
    step = judged(run(call(capability=recorded)), tools={"pay": offered}, at_ms=at_ms)

    assert decision == step.decision


def test_row_11_a_tool_that_is_gone_is_named() -> None:
    """A person who reads `tool_missing` knows that offering the tool again may be enough."""
    step = judged(run(call(capability=IDEMPOTENT)), tools={})

    assert ("review", "tool_missing", 1, "pay") == said(step)


@pytest.mark.parametrize(
    "found",
    [call(), call(status="unknown"), call(review=review("happened", result=True))],
    ids=["started", "unknown", "torn"],
)
def test_row_12_everything_else_waits_for_a_person(found: CallState) -> None:
    """Promise 2, contract #85, #94: an unknown outcome is never an answer; a torn review is none (journal.md §1)."""
    step = judged(run(found))

    assert ("review", "unknown_effect", 1, "") == said(step)


# Beside the rows.


def test_an_error_answer_is_an_answer() -> None:
    """A tool that knew that nothing happened told the agent so: "did not happen" was reviewed, the step is stable."""
    found = call(status="unknown", review=review("did_not_happen"), answer=AnswerRef(9, is_error=True))

    assert ("skip", "step_stable", 1, "") == said(judged(run(found)))


def test_a_settled_and_answered_call_says_so() -> None:
    """Whoever reads the plan sees that a person or a probe stands behind the answer."""
    step = judged(run(call(review=review("happened", result=True), answer=ANSWER)))

    assert ("skip", "step_stable", 1, "") == said(step)
    assert "settled_happened" == judged(run(call(review=review("happened"), answer=ANSWER))).reason


def test_in_a_foreign_journal_the_output_of_the_step_is_the_answer() -> None:
    """Contract #75: the reference knows outputs of steps, not of calls."""
    state = run(call(status="committed"), own=False)
    state.steps.put("pay-1", ANSWER)

    assert ("skip", "step_stable", 1, "") == said(judged(state))


@pytest.mark.parametrize(
    "asked",
    [
        msgspec.structs.replace(ASKED, key="r1:pay-2:c2"),
        msgspec.structs.replace(ASKED, fingerprint="0" * 64),
        msgspec.structs.replace(ASKED, decision="deny"),
    ],
    ids=["key", "fingerprint", "decided"],
)
def test_an_approval_is_for_one_key_and_fingerprint(asked: ApprovalState) -> None:
    """DESIGN §5, stage 3: a question about other arguments, or one that was answered, holds up nothing."""
    step = judged(run(call(attempt=0, status=""), approvals=(asked,)))

    assert ("run", "not_started") == (step.decision, step.reason)


@pytest.mark.parametrize(
    ("decision", "steps"), [("", [Step("pay-1", "wait", "approval_required", "c1", 0, "a1")]), ("deny", [])]
)
def test_an_approval_whose_call_is_not_recorded_yet_is_waited_for(decision: str, steps: list[Step]) -> None:
    """journal.md §1: the call is written with the decision, so until then the question stands alone."""
    state = run(approvals=(msgspec.structs.replace(ASKED, decision=decision),))

    plan = prepare_run_resume(state, None, facts())

    assert steps == list(plan.steps)


def test_turns_and_steps_are_judged_too() -> None:
    """DESIGN §6: a turn is not paid twice once it has its answer; all stand in the order of the journal."""
    state = run(call(position=30, answer=ANSWER))
    state.turns.put("turn-1", TurnState("turn-1", "f", 10, AnswerRef(20, is_error=False)))
    state.turns.put("turn-2", TurnState("turn-2", "f", 40))
    state.steps.put("now-1", AnswerRef(5, is_error=False))
    state.steps.put("plan-1", AnswerRef(35, is_error=False, blob="b" * 64))
    state.steps.put("turn-1", AnswerRef(20, is_error=False))

    plan = prepare_run_resume(state, None, facts(unreadable_blobs=frozenset({"b" * 64})))

    assert [
        Step("now-1", "skip", "step_stable"),
        Step("turn-1", "skip", "step_stable"),
        Step("pay-1", "skip", "step_stable", "c1", 1),
        Step("plan-1", "review", "result_missing", detail=f"blob {'b' * 64}"),
        Step("turn-2", "run", "turn_without_answer"),
    ] == list(plan.steps)


def test_one_call_is_judged_as_the_plan_judges_it() -> None:
    """The gate asks for one call while it runs; it must hear the same."""
    state = run(call())
    step = judged(state, tools=PROBED)

    assert (step.decision, step.reason) == judge_call(state, call(), facts(tools=PROBED))


def test_a_plan_says_for_which_end_it_holds() -> None:
    """`resume(plan=…)` is refused when the journal moved on since."""
    plan = prepare_run_resume(run(), None, facts())

    assert ResumePlan("r1", 9, "d" * 64, ()) == plan


def test_a_plan_sorts_its_steps_by_whose_move_it_is() -> None:
    """What the run waits for, what a probe is asked, what ends the run."""
    plan = ResumePlan("r1", 1, "", tuple(Step(name, name, "") for name in get_args(Decision)))

    assert [("review", "wait"), ("probe",), ("fail",)] == [
        tuple(step.step_id for step in steps) for steps in (plan.blocked, plan.probes, plan.given_up)
    ]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Step("turn-1", "skip", "step_stable"), {"stepId": "turn-1", "decision": "skip", "reason": "step_stable"}),
        (
            Step("pay-1", "skip", "step_stable", "c1", 1),
            {"stepId": "pay-1", "callId": "c1", "decision": "skip", "reason": "step_stable"},
        ),
        (
            Step("pay-1", "review", "tool_missing", "c1", 1, "pay"),
            {
                "stepId": "pay-1",
                "callId": "c1",
                "decision": "review",
                "reason": "tool_missing",
                "attempt": 1,
                "detail": "pay",
            },
        ),
    ],
    ids=["turn", "skipped", "review"],
)
def test_a_plan_is_recorded_without_what_is_empty(step: Step, expected: dict[str, Any]) -> None:
    """It stands in the leg's `resume` record, where every reader finds why the run went on as it did."""
    recorded = ResumePlan("r1", 1, "", (step,)).recorded()

    assert [list(expected.items())] == [list(each.items()) for each in recorded]


# What is refused.


def refusal(state: RunState, config: Fingerprint | None = CONFIG, **members: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        prepare_run_resume(state, config, facts(**members))
    return caught.value


def test_a_run_without_a_record_is_unknown() -> None:
    """Contract #62."""
    with pytest.raises(NotFound) as caught:
        prepare_run_resume(RunState("r1"), None, facts())

    assert "unknown_run" == caught.value.code


@pytest.mark.parametrize("events", [("START", "COMPLETE"), ("START", "FAIL")])
@pytest.mark.parametrize("config", [None, CONFIG])
def test_a_run_that_ended_does_not_go_on(events: tuple[OperationEvent, ...], config: Fingerprint | None) -> None:
    """W14: the operation's end counts, also when a crash came before the finish record."""
    state = run(call())
    state.operation = operation(*events)

    assert "run_already_finished" == refusal(state, config).code


def test_a_finish_record_ends_a_run() -> None:
    """Contract #64: also in a foreign journal that records no operation."""
    state = run(own=False)
    state.operation, state.finish = None, {}

    assert ("run_already_finished", {"run": "r1", "state": "accepted"}) == (
        refusal(state).code,
        refusal(state, None).facts,
    )


def test_a_foreign_run_is_judged_but_not_continued() -> None:
    """DESIGN §4: reading is mutual, continuing is not."""
    state = run(call(), own=False)

    assert "foreign_run" == refusal(state).code
    assert "review" == judged(state).decision


def half_put_back(*events: OperationEvent) -> RunState:
    """A run with a restore that was cut off."""
    state = run()
    state.restores = Restores(1, Begun("restore-1", "k1", "", {}, {}))
    state.operation = operation(*events)
    return state


def test_a_run_does_not_go_on_over_files_that_are_half_put_back() -> None:
    """They say nothing of what happened, and the agent would build on a tree that nobody ever saw."""
    state = half_put_back("START", "PAUSE")

    assert ("restore_unfinished", False) == (refusal(state).code, is_resumable(state, facts()))
    assert () == prepare_run_resume(state, None, facts()).steps


def test_a_run_that_is_aborted_ends_over_files_that_are_half_put_back() -> None:
    """Nothing starts in it any more, so nothing could build on them."""
    assert () == prepare_run_resume(half_put_back("START", "REQUEST_ABORT"), CONFIG, facts()).steps


@pytest.mark.parametrize("config", [None, CONFIG])
@pytest.mark.parametrize("members", [{}, {"input": "settle"}])
def test_the_recorded_input_or_none_is_right(members: dict[str, Any], config: Fingerprint | None) -> None:
    """Contract #67: a resume may leave the input out, and may say the same again."""
    plan = prepare_run_resume(run(), config, facts(**members))

    assert () == plan.steps


@pytest.mark.parametrize("asked", ["pay", None, ""])
def test_another_input_is_refused(asked: object) -> None:
    """Contract #67: the answers in the journal belong to the recorded question; None is an input too."""
    assert "resume_input_mismatch" == refusal(run(), input=asked).code


@pytest.mark.parametrize(
    ("config", "changed"),
    [
        (Fingerprint("0" * 64, CONFIG.config, CONFIG.policy), ["agent"]),
        (Fingerprint(CONFIG.agent, "0" * 64, CONFIG.policy), ["config"]),
        (Fingerprint(CONFIG.agent, "0" * 64, "0" * 64), ["config", "policy"]),
    ],
)
def test_a_changed_configuration_is_refused_by_its_parts(config: Fingerprint, changed: list[str]) -> None:
    """Contract #66, W36: the message says what changed."""
    error = refusal(run(), config)

    assert ("resume_config_mismatch", changed) == (error.code, error.facts["changed"])
    assert f"with another {' and '.join(changed)}" in error.message


@pytest.mark.parametrize("parts", [None, "agent", {}])
def test_a_start_without_its_parts_matches_nothing(parts: object) -> None:
    """What was not recorded is not assumed to be equal."""
    state = run()
    state.start = {**state.start, "configParts": parts}

    assert ["agent", "config", "policy"] == refusal(state).facts["changed"]


def test_a_recorded_waiver_lets_a_changed_configuration_pass() -> None:
    """DESIGN §5: `--accept-config --by --reason` is a person's decision."""
    plan = prepare_run_resume(run(), Fingerprint("0", "0", "0"), facts(accept_config=True))

    assert () == plan.steps


def test_a_waiver_of_the_configuration_waives_nothing_else() -> None:
    """Another input stays another input."""
    assert "resume_input_mismatch" == refusal(run(), CONFIG, accept_config=True, input="pay").code


def test_the_whole_fingerprint_covers_each_part() -> None:
    """DESIGN §13 on #66: the member that the reference compares changes with any of ours."""
    others = {Fingerprint(*(("0" if i == j else "1") * 64 for j in range(3))).whole() for i in range(3)}

    assert 3 == len(others)
    assert fingerprint({"agent": "a" * 64, "config": "c" * 64, "policy": "e" * 64}) == CONFIG.whole()


# Properties, over calls that the rules of the journal let exist.

OUTCOMES = ("happened", "did_not_happen", "give_up")
CAPABILITIES = (EXTERNAL, IDEMPOTENT, WORKSPACE, FREE, resolve("pay", "external", "unsafe"))


Move = Callable[[CallState], CallState]


def _receipt(status: str, persistence: str) -> Move:
    def move(found: CallState) -> CallState:
        attempt = found.attempt + 1 if status == "started" else max(found.attempt, 1)
        return calls.received(found, attempt, {"status": status, "persistence": persistence}, 1000 * attempt)

    return move


def _settle(outcome: str, result: bool) -> Move:
    return lambda found: calls.reviewed(found, found.attempt, review(outcome, result=result))


def _answer(answer: AnswerRef) -> Move:
    return lambda found: calls.answered(found, answer)


moves = st.one_of(
    st.builds(_receipt, st.sampled_from(["started", "started", "not_started", "unknown"]), st.just("")),
    st.builds(_receipt, st.just("committed"), st.sampled_from(["", "failed", "withheld"])),
    st.builds(_settle, st.sampled_from(OUTCOMES), st.booleans()),
    st.builds(_answer, st.sampled_from([ANSWER, BESIDE, AnswerRef(9, is_error=True)])),
)


START, COMMIT, UNKNOWN = _receipt("started", ""), _receipt("committed", ""), _receipt("unknown", "")
COMMITTED = ([START, COMMIT], [START, _settle("did_not_happen", False), START, COMMIT])
OPEN = ([START], [START, UNKNOWN], [START, _settle("happened", True)], [START, _settle("did_not_happen", False), START])


@st.composite
def call_states(draw: st.DrawFn, first: Sequence[list[Move]] = ([],)) -> CallState:
    """A call after any facts that may follow one another, `first` one of these; those that may not are left out."""
    found = msgspec.structs.replace(NEW, capability=draw(st.sampled_from(CAPABILITIES)))
    for move in [*draw(st.sampled_from(first)), *draw(st.lists(moves, max_size=6))]:
        try:
            found = move(found)
        except Illegal:
            continue
    return found


offers = st.builds(
    Offered,
    st.sampled_from(CAPABILITIES),
    probe=st.sampled_from(["", "find_payment"]),
    window_s=st.none() | st.sampled_from([0.0, 98.0, 1000.0]),
)
any_facts = st.builds(
    Facts,
    at_ms=st.just(NOW_MS),
    tools=st.fixed_dictionaries({}, optional={"pay": offers}),
    unreadable_blobs=st.sampled_from([frozenset[str](), frozenset({BESIDE.blob})]),
    living=st.dictionaries(st.sampled_from([f"{NEW.key}#{n}" for n in (1, 2)]), st.just("pid 812")),
)
approvals = st.sampled_from([(), (ASKED,), (msgspec.structs.replace(ASKED, decision="deny"),)])


def naive(found: CallState, own: bool, asked: bool, known: Facts) -> str:
    """The table once more, as flat as it is written: the first row that matches."""
    is_open = found.status in ("started", "unknown")
    settled = (
        found.review.outcome if found.review and (found.review.complete or not found.review.result_recorded) else ""
    )
    offered = known.tools.get("pay")
    repeatable = (
        offered is not None
        and found.capability is not None
        and found.capability.replay == "idempotent"
        and offered.capability.replay in ("safe", "idempotent")
        and offered.capability.effect == found.capability.effect
        and (
            found.capability.effect == "workspace"
            if offered.window_s is None
            else NOW_MS - (found.since_ms or found.started_ms) <= offered.window_s * 1000
        )
    )
    unstarted = found.status in ("", "not_started")
    rows: tuple[tuple[bool, str], ...] = (
        (found.answer is not None and found.answer.blob in known.unreadable_blobs, "review"),
        (found.answer is not None, "skip"),
        ((unstarted or settled == "did_not_happen") and asked, "wait"),
        (unstarted and not own and found.capability != FREE, "review"),
        (unstarted, "run"),
        (settled == "happened", "skip"),
        (settled == "did_not_happen", "run"),
        (settled == "give_up", "fail"),
        (found.status == "committed", "review"),
        (is_open and f"{found.key}#{found.attempt}" in known.living, "wait"),
        (is_open and offered is not None and offered.probe != "", "probe"),
        (is_open and repeatable, "rerun"),
        (is_open, "review"),
    )
    return next(decision for matches, decision in rows if matches)


@given(call_states(), st.booleans(), approvals, any_facts)
def test_the_first_row_that_matches_wins(
    found: CallState, own: bool, asked: tuple[ApprovalState, ...], known: Facts
) -> None:
    """DESIGN §5: the plan is exactly the table, also where several rows match."""
    (step,) = prepare_run_resume(run(found, own=own, approvals=asked), None, known).steps

    assert naive(found, own, any(not each.decision for each in asked), known) == step.decision


@given(call_states(COMMITTED), st.booleans(), any_facts)
def test_a_plan_never_runs_a_committed_effect(found: CallState, own: bool, known: Facts) -> None:
    """Promise 2: once committed, no start, no rerun, no probe that could lead to one."""
    (step,) = prepare_run_resume(run(found, own=own), None, known).steps

    assert step.decision in ("skip", "review", "fail")


@given(call_states(OPEN), st.booleans(), any_facts)
def test_a_plan_never_skips_an_uncertain_effect(found: CallState, own: bool, known: Facts) -> None:
    """Promise 2: an open attempt is not taken for done, nor started again unless that is harmless."""
    (step,) = prepare_run_resume(run(found, own=own), None, known).steps

    uncertain = found.open and found.answer is None
    idempotent = found.capability is not None and found.capability.replay == "idempotent"
    assert not uncertain or step.decision in ("wait", "probe", "review", *(["rerun"] if idempotent else []))


@given(call_states(([], *OPEN)), st.booleans(), any_facts)
def test_what_the_plan_starts_the_journal_takes(found: CallState, own: bool, known: Facts) -> None:
    """The plan and the rules of the journal are two judges of one start; they must not disagree."""
    (step,) = prepare_run_resume(run(found, own=own), None, known).steps
    if step.decision not in ("run", "rerun"):
        return

    started = calls.received(found, found.attempt + 1, {"status": "started"}, NOW_MS)

    assert (found.attempt + 1, True) == (started.attempt, started.open)


@given(call_states((*COMMITTED, *OPEN)), st.booleans(), any_facts)
def test_what_waits_for_a_person_a_person_can_settle(found: CallState, own: bool, known: Facts) -> None:
    """W21: no dead ends; whatever the plan puts to a person as uncertain, one of the three words settles."""
    (step,) = prepare_run_resume(run(found, own=own), None, known).steps
    if step.decision != "review" or step.reason == "result_missing" or not found.started_ms:
        return

    settled = calls.reviewed(found, found.attempt, review("happened"))

    assert "skip" == judge_call(run(settled, own=own), settled, known)[0]


@pytest.mark.parametrize(("since_ms", "decision"), [(60_000, "rerun"), (59_999, "review")])
def test_a_window_begins_with_the_first_start_that_nobody_can_vouch_for(since_ms: int, decision: str) -> None:
    """The other side may know the key from then on; repeating does not make it remember longer."""
    found = call(capability=IDEMPOTENT, attempt=3, since_ms=since_ms, started_ms=99_000)

    step = judged(run(found), tools={"pay": Offered(IDEMPOTENT, window_s=40)})

    assert decision == step.decision


@given(call_states(), any_facts, st.integers(0, 10))
def test_a_plan_depends_on_nothing_else(found: CallState, known: Facts, other: int) -> None:
    """Pure: the same facts give the same plan, whatever other calls stand beside."""
    beside = call(step_id=f"pay-{other + 2}", call_id="c9", position=99 if other else 0)

    alone = prepare_run_resume(run(found), None, known).steps
    both = prepare_run_resume(run(found, beside), None, known).steps

    assert list(alone) == [step for step in both if step.step_id == "pay-1"]


STATES: tuple[tuple[OperationEvent, ...], ...] = (
    (), ("START",), ("START", "PAUSE"), ("REQUEST_ABORT",), ("START", "COMPLETE"), ("FAIL",),
)  # fmt: skip


# Most often a run of ours that is paused, for there alone the calls decide.
@given(
    call_states(([], [START, _answer(ANSWER)], [START, _settle("give_up", False)], *OPEN)),
    st.booleans(),
    approvals,
    any_facts,
    st.sampled_from((*STATES, *[("START", "PAUSE")] * 12)),
    st.sampled_from((False, False, False, True)),
    st.sampled_from((1, 1, 1, 0)),
)
def test_resumable_is_what_the_plan_says(
    found: CallState,
    own: bool,
    asked: tuple[ApprovalState, ...],
    known: Facts,
    events: tuple[OperationEvent, ...],
    finished: bool,
    sequence: int,
) -> None:
    """W13, W14, W40: one judgement in two doors; the question never raises. Contract #78, #165: only a paused run."""
    state = run(found, own=own, approvals=asked)
    state.operation, state.sequence, state.finish = operation(*events), sequence, {} if finished else None
    try:
        (step,) = prepare_run_resume(state, None, known).steps
        goes_on = step.decision not in ("review", "fail") and step.reason != "process_alive"
    except (Refused, NotFound):
        goes_on = False

    assert (goes_on and own and events == ("START", "PAUSE")) == is_resumable(state, known)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (call(status="not_started"), True),
        (call(status="unknown"), False),
        (call(attempt=0, status="", capability=FREE), True),
        (call(review=review("did_not_happen")), True),
        (call(review=review("give_up")), False),
    ],
    ids=["not_started", "unknown", "free", "did not happen", "given up"],
)
def test_resumable_as_the_snapshot_shows_it(found: CallState, expected: bool) -> None:
    """Contract #160 to #162; a run whose effect was given up ends, it does not go on."""
    assert expected == is_resumable(run(found), facts())


# Whole journals.


def prefixes(name: str) -> Iterator[tuple[int, RunState]]:
    """The fold of each prefix of an example, by its number of records."""
    path = next(path for path in EXAMPLES if path.stem == name)
    lines = path.read_bytes().splitlines()
    run_id = msgspec.json.decode(lines[0])["runId"]
    reader = LineReader(run_id)
    read = [(reader.feed(line), at) for at, line in enumerate(lines)]
    for length in range(1, len(read) + 1):
        yield length, fold(read[:length], run_id)


def story(name: str, tools: Mapping[str, Offered] = OFFERED) -> dict[int, str]:
    """What the plan says of the payment after each record, and after which it first says so."""
    told: dict[int, str] = {}
    for length, state in prefixes(name):
        try:
            steps = prepare_run_resume(state, None, facts(tools=tools)).steps
            words = next((step.decision + " " + step.reason for step in steps if step.step_id == "pay-1"), "")
        except Refused as refused:
            words = refused.code
        if words != (list(told.values()) or [""])[-1]:
            told[length] = words
    return told


def test_the_plan_of_a_completed_run() -> None:
    """A crash after any record of the plain story: asked only between `started` and the answer."""
    assert {
        7: "run not_started",
        9: "review unknown_effect",
        10: "skip step_stable",
        14: "run_already_finished",
    } == story("completed")


def test_the_plan_of_a_settled_run() -> None:
    """The README of the examples: at 9 and 10 `review`, from 12 on `skip`; at 11 the settlement is torn, not given."""
    assert {
        7: "run not_started",
        9: "review unknown_effect",
        12: "skip settled_happened",
        18: "run_already_finished",
    } == story("settled")


def test_the_plan_of_a_second_attempt() -> None:
    """Open, proved not to have happened, started once more: each start is asked about again."""
    assert {
        7: "run not_started",
        9: "probe probe_declared",
        11: "run settled_did_not_happen",
        12: "probe probe_declared",
        13: "skip step_stable",
        17: "run_already_finished",
    } == story("second_attempt", PROBED)


def test_the_plan_of_a_paused_run() -> None:
    """The question stands before its call is recorded."""
    assert {7: "wait approval_required"} == story("paused")


def test_the_plan_of_a_settled_run_is_the_recorded_one() -> None:
    """The example's third leg wrote down what was planned; so do we, member for member."""
    path = next(path for path in EXAMPLES if path.stem == "settled")
    recorded = msgspec.json.decode(path.read_bytes().splitlines()[13])["payload"]["plan"]

    planned = prepare_run_resume(dict(prefixes("settled"))[13], None, facts()).recorded()

    assert [list(step.items()) for step in recorded] == [list(step.items()) for step in planned]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_only_the_paused_end_is_resumable(path: Path) -> None:
    """The README of the examples: `paused` may go on, the others are over; in between the runs are in motion."""
    resumable = [length for length, state in prefixes(path.stem) if is_resumable(state, facts())]

    assert {"paused": [8, 9], "settled": [15]}.get(path.stem, []) == resumable


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_prefix_can_be_continued_by_its_own_program(path: Path) -> None:
    """Input and configuration are those of the start record, so nothing of them refuses at any point."""
    for _, state in prefixes(path.stem):
        config = Fingerprint(**state.start["configParts"])
        if state.ended:
            continue

        plan = prepare_run_resume(state, config, facts(input=state.input))

        assert (state.sequence, state.chain) == (plan.sequence, plan.chain)


def test_a_configuration_that_a_person_accepted_is_no_change_any_more() -> None:
    """The waiver is recorded once; to ask for it at every resume would train people to give it blindly."""
    state = run(call())
    other = Fingerprint("9" * 64, "c" * 64, "e" * 64)
    before = other.changed_since(state)
    state.accepted_parts = other.parts()

    assert (["agent"], [], ["agent"]) == (before, other.changed_since(state), CONFIG.changed_since(state))


@pytest.mark.parametrize(("recorded", "given"), [(1, True), (0, False), ([1], [True])])
def test_inputs_that_only_python_takes_for_equal_are_different(recorded: Any, given: Any) -> None:
    """In JSON, which is what was recorded, 1 and true are two values."""
    state = run(call())
    state.start["initialPrompt"] = recorded

    with pytest.raises(Refused) as caught:
        prepare_run_resume(state, CONFIG, Facts(NOW_MS, OFFERED, input=given))

    assert "resume_input_mismatch" == caught.value.code


def test_a_child_that_was_not_heard_of_is_asked_for_again() -> None:
    """It is adopted where the agent asks for it; the plan says so, and whose run it is."""
    scribe = at("created", "running", "paused")
    plan = prepare_run_resume(scribe.state, None, Facts(NOW_MS))

    assert (Step("child-1", "run", "child_unfinished", detail="kid-1: paused"),) == plan.steps


def test_a_child_that_was_answered_is_a_step_like_any() -> None:
    """Its answer is told again."""
    plan = prepare_run_resume(at("created", "running", "terminal", "joined").state, None, Facts(NOW_MS))

    assert (Step("child-1", "skip", "step_stable"),) == plan.steps
