"""How records move a state: what is legal where, in journals of ours and in those of another program."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core import events, guarding
from clew.core.capability import resolve
from clew.core.checkpoint import ABSENT
from clew.core.codec import read_record
from clew.core.compose import Close, Move, Saying
from clew.core.folding import close_leg, fold, take
from clew.core.needs import Guarded
from clew.core.outcome import Outcome
from clew.core.records import Draft, Record
from clew.core.restored import Intent, restore_started
from clew.core.resume import Facts, Fingerprint, prepare_run_resume
from clew.core.state import RunState
from clew.errors import Corrupt, Refused
from tests.histories import (
    CHARGE,
    EXAMPLES,
    RUN,
    Scribe,
    completed,
    facts,
    failed,
    foreign,
    naive_calls,
    overconfident,
    owner,
    paused,
    prefixes,
    proposed,
    read,
    refold,
    respoken,
    resume,
    returned,
    review,
    start,
    started,
    told,
    view,
)
from tests.strategies import History, histories, spoiled

CASES = Path(os.environ.get("CLEW_CASES", Path(__file__).parents[3] / "shared" / "cases")) / "files"
CODES = {"run_state_corrupt", "operation_state_corrupt", "effect_receipt_conflict", "review_conflict"}
NOW = Facts(at_ms=0)
CALL = facts()
OURS = Fingerprint(agent="a" * 64, config="c" * 64, policy="e" * 64)


def refused(scribe: Scribe, *sayings: Saying) -> Corrupt:
    """Say what must not be said."""
    with pytest.raises(Corrupt) as error:
        scribe.say(*sayings)
    return error.value


def folded(records: list[tuple[Record, int]]) -> RunState | Corrupt:
    """A state or the typed refusal; any other error is a fault of the reader."""
    try:
        return fold(records, RUN)
    except Corrupt as error:
        return error


# What holds for every run.


@given(histories(), st.data())
def test_folding_a_prefix_and_then_the_rest_is_folding_the_whole(history: History, data: st.DataObject) -> None:
    """A reader that follows a journal must know what one knows that reads it anew."""
    records = read(history.data)
    cut = data.draw(st.integers(0, len(records)))
    state = fold(records[:cut], RUN)
    for record, position in records[cut:]:
        take(state, record, position)

    assert view(fold(records, RUN)) == view(state)


@given(histories())
def test_every_prefix_of_a_legal_run_is_a_legal_run(history: History) -> None:
    """An append may be torn at any line, and the run must still be read."""
    sequences = [refold(prefix).sequence for prefix in prefixes(history.data)]

    assert list(range(1, len(history.records) + 1)) == sequences


@given(histories())
def test_no_prefix_repeats_an_open_attempt_or_a_committed_one(history: History) -> None:
    """Promise 2: without a probe, idempotence or a settlement nothing but a person decides."""
    found = [wrong for prefix in prefixes(history.data) for wrong in overconfident(prefix)]

    assert [] == found


@given(histories())
def test_a_prefix_is_more_doubtful_than_the_append_it_is_cut_from(history: History) -> None:
    """A torn append may lose what was learnt, never make up an answer that the whole one does not have."""
    sure, known = history.records, naive_calls(history.records)
    for count in range(1, len(sure)):
        for step, call in naive_calls(sure[:count]).items():
            assert known[step].answered or not call.answered


@given(histories())
def test_the_state_agrees_with_another_hand(history: History) -> None:
    """Unsettled effects decide whether a run may complete, so they are counted twice."""
    naive = {step for step, call in naive_calls(history.records).items() if call.unsettled}
    secret = {call.step_id for call in history.state.calls.values() if call.persistence == "withheld"}

    assert naive - secret == {call.step_id for call in history.state.unsettled()}


@given(histories())
def test_a_completed_run_has_nothing_unsettled(history: History) -> None:
    """Promise 8: no false success."""
    states = [refold(prefix) for prefix in prefixes(history.data)]

    assert not any(state.state == "completed" and state.unsettled() for state in states)


@given(histories())
def test_complete_is_refused_while_an_effect_is_unsettled(history: History) -> None:
    """Promise 8, from the writer's side."""
    scribe = history.scribe
    if scribe.state.state == "running" and scribe.state.unsettled() and scribe.state.unclosed_leg is not None:
        sequence = scribe.state.sequence

        assert refused(scribe, *completed()).code == "run_state_corrupt"
        assert refused(scribe, Move("COMPLETE")).code == "run_state_corrupt"
        assert sequence == scribe.state.sequence


@settings(max_examples=300)
@given(spoiled())
def test_a_spoiled_run_is_refused_by_code_or_is_no_false_success(records: list[tuple[Record, int]]) -> None:
    """Whatever the journal says, reading it must not crash, and it must not make a run complete that is not."""
    state = folded(records)
    if isinstance(state, Corrupt):
        assert state.code in CODES
        return
    naive = [call for call in naive_calls(record for record, _ in records).values() if call.unsettled]
    withheld = [call for call in state.calls.values() if call.persistence == "withheld"]

    assert state.state != "completed" or not naive or withheld


@given(histories())
def test_the_same_record_twice_is_refused(history: History) -> None:
    """Promise 1: what was taken once is not taken again."""
    records = read(history.data)
    state = fold(records, RUN)

    with pytest.raises(Corrupt, match="expected record"):
        take(state, *records[-1])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_prefix_of_an_example_folds(example: Path) -> None:
    """The examples are part of the specification."""
    data = example.read_bytes()
    run = read_record(data.splitlines()[0]).run_id
    sequences = [refold(prefix, run).sequence for prefix in prefixes(data)]

    assert list(range(1, len(sequences) + 1)) == sequences


# Places.


def test_a_journal_begins_with_its_start() -> None:
    """Without it nothing says what the run is."""
    with pytest.raises(Corrupt, match="does not begin with its start"):
        fold(foreign(("event", {})), "run-1")


def test_there_is_one_start() -> None:
    """Two would be two runs."""
    error = refused(Scribe().born(), start())

    assert "a second start" in error.message


def test_a_record_of_another_run_is_refused() -> None:
    """A line must not move between runs."""
    with pytest.raises(Corrupt) as error:
        fold(read(Scribe().born().data), "another")

    assert ("run_state_corrupt", 1) == (error.value.code, error.value.facts["line"])


def test_kinds_of_other_programs_are_read_over() -> None:
    """What clew never writes says nothing that it knows; a journal that it did not begin may hold it all the same."""
    said = foreign(("start", {}), ("telemetry_consent", {"granted": True}), ("telemetry_configuration", {}))

    assert 3 == fold(said, "run-1").sequence


@pytest.mark.parametrize("missing", ["configFingerprint", "operationId"])
def test_a_start_of_ours_names_configuration_and_operation(missing: str) -> None:
    """Without them a resume could not tell whether it is the same work."""
    error = refused(Scribe(), start(**{missing: None}), Move("ACCEPT"))

    assert "names no configuration or no operation" in error.message


def test_a_record_outside_of_every_leg_is_refused() -> None:
    """What nobody's leg says, nobody said."""
    scribe = Scribe().born()
    scribe.say(*paused())
    error = refused(scribe, *started(CALL))

    assert "outside of every leg" in error.message


@pytest.mark.parametrize("kind", ["control", "telemetry_consent"])
def test_kinds_that_clew_never_writes_are_refused_in_its_journals(kind: Any) -> None:
    """Somebody else wrote into the file."""
    error = refused(Scribe().born(), Draft(kind, {}))

    assert "are not written by clew" in error.message


def ended() -> Scribe:
    """A run that failed with an effect open, and a leg on it."""
    scribe = Scribe().born()
    scribe.say(*proposed(CALL))
    scribe.say(guarding.kept(CALL, 1, Guarded({"a": ABSENT})), events.effect_receipt(CALL, "started"))
    scribe.say(*failed())
    return scribe.opened("settle")


@pytest.mark.parametrize(
    "saying",
    [
        Move("FAIL"),
        Draft("pause", {}),
        Draft("finish", {}),
        start(),
        told(CALL),
        events.receipt(CALL, 1, "unknown"),
        events.agent_end(None),
        events.agent_start("turn-1", "f"),
        events.control("k1", "f", "accepted"),
        events.error("late", fatal=False),
        *proposed(facts(2)),
    ],
    ids=repr,
)
def test_after_the_finish_nothing_moves_the_run(saying: Saying) -> None:
    """Only the four that DESIGN §4 names may follow."""
    with pytest.raises((Corrupt, Refused)):
        ended().say(saying)


def test_after_the_finish_an_event_without_a_body_is_refused() -> None:
    """It cannot be one of the four."""
    error = refused(ended(), Draft("event", {}))

    assert "follows the finish" in error.message


def test_after_the_finish_four_may_follow() -> None:
    """An effect can be settled and restored when the run is long over."""
    scribe = ended()
    scribe.say(review(CALL, "happened", result_recorded=True, result={"transfer": "T-77"}))
    scribe.say(events.leg_ended(2))
    scribe.opened("control")
    scribe.say(restore_started("restore-1", "k1", [Intent("a", ABSENT, ABSENT)], by="ann", reason="why"))
    scribe.say(events.leg_ended(3))

    assert ("failed", [], 1) == (scribe.state.state, scribe.state.unsettled(), scribe.state.restores.count)


def test_a_pause_needs_a_paused_operation() -> None:
    """The record and the lifecycle must tell the same."""
    error = refused(Scribe().born(), Draft("pause", {}))

    assert "a pause while the operation is running" in error.message


def test_a_finish_needs_an_ended_operation() -> None:
    """Else a run would end without having completed or failed."""
    error = refused(Scribe().born(), Draft("finish", {}))

    assert "a finish while the operation is running" in error.message


# Legs.


def test_a_leg_without_an_owner_is_refused() -> None:
    """The claim on the run is read from it."""
    error = refused(Scribe().born(), Draft("resume", {"leg": {"number": 2}}))

    assert "leg 2 has no readable owner" in error.message


def test_a_leg_number_is_not_skipped() -> None:
    """A missing leg is a missing stretch of the run."""
    error = refused(Scribe().born(), resume(3))

    assert "leg 2" in error.message


@pytest.mark.parametrize("move", ["RESUME", "REQUEST_ABORT", "FAIL"])
def test_a_pause_closes_the_leg_and_is_past_when_the_run_moves_on(move: Any) -> None:
    """Why it waited once is no news of a run that goes on, or of one that is ended."""
    scribe = Scribe().born()
    scribe.say(*paused("unknown_effect"))
    closed = (scribe.state.legs[0].closed_by, scribe.state.pause is not None)
    scribe.opened("resume", Move(move))

    assert (("pause", True), None) == (closed, scribe.state.pause)


@pytest.mark.parametrize("purpose", ["control", "settle", "repair", "resume"])
@pytest.mark.parametrize("ended", [False, True])
def test_a_leg_in_which_no_agent_ran_leaves_the_pause_as_it_was(purpose: str, ended: bool) -> None:
    """Who puts a file back at night must still be told what went wrong, however that leg came to its end."""
    scribe = Scribe().born()
    scribe.say(*paused("unknown_effect"))
    said = scribe.state.pause
    scribe.opened(purpose)
    if ended:
        scribe.say(events.leg_ended(2))

    assert said is not None
    assert (said, said) == (scribe.state.pause, refold(scribe.data).pause)


def test_a_pause_behind_another_takes_its_place() -> None:
    """A probe that was asked again, or a process that still lives, is the newer word on why the run waits."""
    scribe = Scribe().born()
    scribe.say(*paused("agent_error"))
    scribe.opened("resume", Close("pause", Outcome("paused", "process_alive")))
    scribe.opened("control")

    assert scribe.state.pause is not None
    assert ("agent_error", "process_alive") == (
        scribe.state.operation.reason if scribe.state.operation else "",
        scribe.state.pause["outcome"]["finishReason"],
    )


def test_the_time_of_a_dead_leg_counts_until_its_last_record() -> None:
    """Spent time survives a death; the time in which nothing ran does not count."""
    scribe = Scribe().born()
    scribe.at_ms += 4000
    scribe.say(events.agent_start("turn-1", "f"))
    scribe.at_ms += 3_600_000
    scribe.opened()

    assert 5000 == scribe.state.active_ms


def test_the_time_of_a_settling_leg_does_not_count() -> None:
    """A person's work is not the agent's."""
    scribe = Scribe().born()
    scribe.say(*paused())
    spent = scribe.state.active_ms
    scribe.opened("settle")
    scribe.say(events.leg_ended(2))
    scribe.opened("settle")
    scribe.opened("settle")

    assert spent == scribe.state.active_ms == 1000


def test_the_limits_in_force_are_the_last_that_were_recorded() -> None:
    """A reader tells under which limits a leg runs; a resume that brings none goes on under those before."""
    scribe = Scribe()
    scribe.say(start(limits={"maxCalls": 1}), Move("ACCEPT"), Move("START"))
    first = scribe.state.limits
    scribe.say(*paused())
    scribe.say(resume(2, limits={"maxCalls": 2}))
    scribe.say(resume(3))

    assert ({"maxCalls": 1}, {"maxCalls": 2}) == (first, refold(scribe.data).limits)


@pytest.mark.parametrize("limits", [None, 7, {"maxCalls": "7"}, {"onUnmeasured": "never"}])
def test_a_resume_whose_limits_cannot_be_read_is_refused(limits: Any) -> None:
    """None would hold otherwise, and nobody would know."""
    scribe = Scribe().born()
    scribe.say(*paused())

    with pytest.raises(Corrupt, match="the limits of the resume cannot be read"):
        scribe.say(resume(2, limits=limits))


@pytest.mark.parametrize("measured", [-1, 1.5, "7", True])
def test_a_leg_that_ran_for_no_number_is_refused(measured: Any) -> None:
    """C122: a negative time would be given back to the run's limit."""
    scribe = Scribe().born()

    with pytest.raises(Corrupt, match="the leg says that it ran for"):
        scribe.say(Move("PAUSE", "x"), Close("pause", Outcome("paused", "x"), active_ms=measured))


def test_closing_what_is_closed_changes_nothing() -> None:
    """A foreign journal has no leg at all."""
    state = RunState(RUN)
    close_leg(state, "pause", "2026-11-29T14:00:00.000Z")

    assert () == state.legs


def test_a_clock_that_steps_back_is_marked() -> None:
    """Promise 9: the order is the file's, the duration is not trusted."""
    scribe = Scribe().born()
    scribe.at_ms -= 60_000
    scribe.say(*started(CALL))

    assert (True, 0) == (scribe.state.clock_stepped, scribe.state.duration_ms)


def test_a_leg_in_which_the_clock_stepped_back_took_no_time() -> None:
    """C122: less than none would be given back to the run's limit, leg after leg."""
    scribe = Scribe().born()
    scribe.at_ms -= 60_000
    scribe.say(*paused())

    assert (True, 0) == (scribe.state.clock_stepped, scribe.state.active_ms)


def test_a_clock_that_goes_on_is_not_marked() -> None:
    """Else no duration would be trusted."""
    scribe = Scribe().born()
    scribe.say(*started(CALL))

    assert (False, "2026-11-29T14:00:00.000Z", 1000) == (
        scribe.state.clock_stepped,
        scribe.state.started_at,
        scribe.state.duration_ms,
    )


def test_the_last_append_is_known() -> None:
    """The rule for a torn end needs it."""
    scribe = Scribe().born()
    scribe.say(*started(CALL))

    assert (4, 6) == (scribe.state.last_append, scribe.state.sequence)


# Operation.


@pytest.mark.parametrize(
    "payload",
    [
        {"sequence": "3"},
        {"operationId": "op-2"},
        {"runId": "other"},
        {"sequence": 7},
        {"to": "completed"},
        {"eventId": " "},
    ],
    ids=str,
)
def test_an_operation_record_that_does_not_follow_is_refused(payload: dict[str, Any]) -> None:
    """Promise 1: only legal transitions."""
    scribe = Scribe().born()
    right = scribe.compose(Move("PAUSE", "asked")).batch.records[0].payload
    error = refused(scribe, Draft("operation", {**right, **payload}))

    assert "operation_state_corrupt" == error.code


def test_the_operation_belongs_to_the_start() -> None:
    """Even its first record."""
    scribe = Scribe()
    right = scribe.compose(start(), Move("ACCEPT")).batch.records[1].payload
    other = {**right, "operationId": "op-2"}
    error = refused(scribe, start(), Draft("operation", other))

    assert "operation_state_corrupt" == error.code


def test_completed_needs_the_end_of_the_agent() -> None:
    """Promise 8: silence is not success."""
    error = refused(Scribe().born(), Move("COMPLETE"))

    assert "without the recorded end of the agent" in error.message


def test_completed_is_refused_when_an_effect_opened_after_the_end_of_the_agent() -> None:
    """The agent's end settles nothing that starts behind it."""
    scribe = Scribe().born()
    scribe.say(events.agent_end("done"))
    scribe.say(*started(CALL))
    error = refused(scribe, Move("COMPLETE"))

    assert f"{CALL.key!r} is unsettled" in error.message


# Envelopes.


@pytest.mark.parametrize(
    ("envelope", "why"),
    [
        ({"event": None}, "no type"),
        ({"event": {}}, "no type"),
        ({"runId": "other"}, "another run"),
        ({"timestamp": "yesterday"}, "readable time"),
        ({"eventId": ""}, "no id"),
        ({"eventId": None}, "no id"),
        ({"sequence": True}, "no number"),
        ({"sequence": 3}, "event 3 follows event 1"),
        ({"event": {"type": "teleported"}}, "not known"),
    ],
    ids=str,
)
def test_an_envelope_of_ours_is_whole(envelope: dict[str, Any], why: str) -> None:
    """Each event stands at its place in its run, under its own id."""
    scribe = Scribe().born()
    scribe.say(events.error("so", fatal=False))
    right = scribe.compose(events.error("so", fatal=False)).batch.records[0].payload
    error = refused(scribe, Draft("event", {**right, **envelope}))

    assert why in error.message


# Journals that another program began.

BEGUN = ("start", {"configFingerprint": "x"})
CAPABILITY = resolve("write", "external").as_json()


def said(type: str, **members: Any) -> tuple[str, dict[str, Any]]:
    return "event", {"event": {"type": type, **members}}


def theirs(*payloads: tuple[str, dict[str, Any]]) -> RunState:
    return fold(foreign(BEGUN, *payloads), "run-1")


def decisions(state: RunState) -> list[tuple[str, str]]:
    return [(step.decision, step.reason) for step in prepare_run_resume(state, None, NOW).steps]


def test_a_journal_without_a_chain_or_a_leg_is_not_ours() -> None:
    """Who began a journal continues it."""
    unchained = theirs(("resume", {}), ("delegation", {}), ("checkpoint", {}), ("pause", {}), said("teleported"))
    without_leg = fold(respoken([foreign(BEGUN)[0][0]]), RUN)

    assert (False, False, ()) == (unchained.own, without_leg.own, unchained.legs)


def test_a_foreign_journal_is_never_continued() -> None:
    """Not even when the configuration is the same."""
    with pytest.raises(Refused) as error:
        prepare_run_resume(theirs(), OURS, NOW)

    assert "foreign_run" == error.value.code


def test_a_foreign_call_without_a_receipt_is_for_a_person() -> None:
    """In a leg that was not ours, silence does not mean that nothing started."""
    state = theirs(said("tool_call", tool="write", stepId="s1", callId="c1", idempotencyKey="run-1:s1:c1"))

    assert [("review", "unknown_effect")] == decisions(state)


def test_a_foreign_call_that_is_free_may_run() -> None:
    """Nothing can have happened."""
    state = theirs(
        said("tool_call", tool="look", stepId="s1", callId="c1"),
        said("tool_call", tool="write", stepId="s2", callId="c2"),
        said(
            "capability_resolved",
            stepId="s1",
            callId="c1",
            capability=resolve("look", "none").as_json(),
            recoveryDisposition="replay_safe",
        ),
    )

    assert [("run", "not_started"), ("review", "unknown_effect")] == decisions(state)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["started"], ("review", "tool_missing")),
        (["started", "unknown"], ("review", "tool_missing")),
        (["started", "committed"], ("review", "committed_effect_pending")),
    ],
)
def test_a_foreign_receipt_is_judged(statuses: list[str], expected: tuple[str, str]) -> None:
    """Reading is mutual: what was open there is open here."""
    key = "run-1:s1:c1"
    receipts = [said("effect_receipt", idempotencyKey=key, status=status) for status in statuses]
    state = theirs(said("tool_call", tool="write", stepId="s1", callId="c1", idempotencyKey=key), *receipts)

    assert [expected] == decisions(state)


def test_a_foreign_receipt_of_no_call_says_nothing() -> None:
    """It names an effect that nobody proposed; there is nothing to judge."""
    state = theirs(said("effect_receipt", idempotencyKey="k", status="started"))

    assert [] == decisions(state)


def test_a_foreign_receipt_without_a_status_says_nothing() -> None:
    """The call stays as doubtful as it was."""
    state = theirs(said("tool_call", tool="write", idempotencyKey="k"), said("effect_receipt", idempotencyKey="k"))

    assert [("review", "unknown_effect")] == decisions(state)


def test_foreign_receipts_that_contradict_are_refused() -> None:
    """Committed and then unknown cannot both be true."""
    receipts = [
        said("effect_receipt", idempotencyKey="k", status=status) for status in ("started", "committed", "unknown")
    ]

    with pytest.raises(Corrupt) as error:
        theirs(said("tool_call", tool="write", idempotencyKey="k"), *receipts)

    assert "effect_receipt_conflict" == error.value.code


def test_a_foreign_step_with_output_answers_its_calls() -> None:
    """There, a step's output is what makes it stable."""
    state = theirs(
        said("tool_call", tool="write", stepId="s1", callId="c1", idempotencyKey="k"),
        said("effect_receipt", idempotencyKey="k", status="started"),
        said("step_output", stepId="s1", text="done"),
    )

    assert [] == state.unsettled()
    assert ["s1"] == state.completed_steps()


@pytest.fixture
def case(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of a real file."""
    source = CASES / request.param
    if not source.exists():
        pytest.skip(f"the case {request.param} is not here")
    return Path(shutil.copy(source, tmp_path))


@pytest.mark.parametrize("case", ["coremind-0.3.0-legacy-run.jsonl"], indirect=True)
def test_a_legacy_run_is_read_and_neither_completed_nor_resumed(case: Path) -> None:
    """Its step ended twice; a repeated id is no proof of one completed effect."""
    records = [(read_record(line), number) for number, line in enumerate(case.read_bytes().splitlines())]
    state = fold(records, "run-legacy")
    with pytest.raises(Refused):
        prepare_run_resume(state, OURS, NOW)

    assert (False, 7, "accepted", []) == (state.own, state.sequence, state.state, state.completed_steps())


@pytest.mark.parametrize("case", ["coremind-0.3.1-current-correlated.json"], indirect=True)
def test_a_correlated_run_is_accepted_and_no_event_id_invented(case: Path) -> None:
    """Its events carry no ids, and its one effect is committed in a step without output."""
    records = json.loads(case.read_bytes())["runRecords"]
    lines = [(read_record(json.dumps(record).encode()), number) for number, record in enumerate(records)]
    state = fold(lines, "run-current")

    assert (False, 13, "running", {"status": "succeeded"}) == (state.own, state.sequence, state.state, state.finish)
    assert ["run-current:step-current:call-current"] == [call.key for call in state.unsettled()]


def test_an_idempotent_open_attempt_may_start_again() -> None:
    """The other side remembers the key."""
    scribe = Scribe().born()
    call = facts(1, CHARGE)
    scribe.say(*started(call))
    scribe.say(*started(call, 2))
    scribe.say(*returned(call, 2))

    assert [] == scribe.state.unsettled()


def test_an_owner_is_what_the_leg_record_says() -> None:
    """The claim names host, process and user as recorded."""
    scribe = Scribe().born()

    assert owner(1) == scribe.state.legs[0].owner


LOSS = {"accepted": "loss", "by": "ann", "reason": "the disk was swapped", "keptSequence": 6, "headSequence": 9}


def plan_of(scribe: Scribe) -> list[tuple[str, str]]:
    """What a resume would do with each call."""
    plan = prepare_run_resume(scribe.state, None, Facts(0))
    return [(step.step_id, step.decision) for step in plan.steps]


@pytest.mark.parametrize("said", ["proposed", "did not happen"])
def test_after_an_accepted_loss_a_missing_receipt_proves_nothing(said: str) -> None:
    """Its start may be among the lost records: to start it again could pay twice (promise 2)."""
    scribe = Scribe().born()
    call = facts()
    scribe.say(*proposed(call), *([] if said == "proposed" else started(call)[-1:]))
    if said == "did not happen":
        scribe.say(events.receipt(call, 1, "unknown"), review(call, "did_not_happen"))
    before = plan_of(scribe)
    scribe.opened("repair")
    scribe.say(events.leg_ended(2))
    scribe.say(resume(3, "repair", integrityWaived=LOSS))

    assert ([("pay-1", "run")], [("pay-1", "review")]) == (before, plan_of(scribe))


def test_after_an_accepted_loss_a_free_call_may_still_run() -> None:
    """It changes nothing, however often it runs."""
    scribe = Scribe().born()
    scribe.say(*proposed(facts(1, resolve("look", "none"))))
    scribe.opened("repair")
    scribe.say(events.leg_ended(2))
    scribe.say(resume(3, "repair", integrityWaived=LOSS))

    assert ["run"] == [decision for _, decision in plan_of(scribe)]


def test_an_open_attempt_stays_the_attempt_it_was_after_an_accepted_loss() -> None:
    """It is in doubt already; a review must still be able to name it."""
    scribe = Scribe().born()
    scribe.say(*proposed(facts()), *started(facts())[-1:])
    scribe.opened("repair")
    scribe.say(events.leg_ended(2))
    scribe.say(resume(3, "repair", integrityWaived=LOSS))
    (call,) = scribe.state.calls.values()

    assert (1, "started") == (call.attempt, call.status)


@pytest.mark.parametrize(
    "waived", [{"accepted": "config", "configParts": {"agent": "9" * 64}}, {"accepted": "other"}, 3]
)
def test_an_accepted_configuration_is_the_recorded_one_from_then_on(waived: object) -> None:
    """Accepted once is enough; anything else that stands there accepts nothing."""
    scribe = Scribe().born().opened("resume")
    scribe.say(events.leg_ended(2))
    scribe.say(resume(3, "resume", integrityWaived=waived))
    expected = waived.get("configParts") if isinstance(waived, dict) else None

    assert expected == scribe.state.accepted_parts


@pytest.mark.parametrize(
    ("move", "said"),
    [(Move("FAIL", "x"), Outcome("succeeded", "completed")), (Move("FAIL", "x"), Outcome("paused", "x"))],
)
def test_a_finish_that_contradicts_its_operation_is_refused(move: Move, said: Outcome) -> None:
    """C40: the account shows the outcome of the finish, so a failed run would be told as succeeded."""
    scribe = Scribe().born()

    with pytest.raises(Corrupt):
        scribe.say(move, Close("finish", said))


def test_a_tool_result_that_contradicts_its_answer_is_refused() -> None:
    """C40: `isError` stands in the answer and in the result; two readers would count one failure and none."""
    call, scribe = facts(), Scribe().born()
    scribe.say(*started(call))
    *said, result = returned(call)

    with pytest.raises(Corrupt):
        scribe.say(*said, {**result, "isError": True})
