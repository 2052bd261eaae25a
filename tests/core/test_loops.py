"""What a record may say of a loop, in which order, and what follows from it for the run."""

from typing import Any

import pytest

from clew.core.calls import Illegal
from clew.core.canon import fingerprint
from clew.core.compose import Close, Move, Saying
from clew.core.folding import fold
from clew.core.loops import LoopSnapshot, is_exhausted, last_loop, read_snapshot
from clew.core.outcome import Outcome
from clew.core.records import Draft
from clew.core.resume import Facts, Fingerprint, is_resumable, prepare_run_resume
from clew.core.snapshot import snapshot
from clew.errors import Corrupt, Refused
from tests.histories import BORN_MS, CONFIG, RUN, Scribe, failed, foreign, paused, prefixes, refold, view

FACTS = Facts(at_ms=BORN_MS)
SAME = Fingerprint(CONFIG["agent"], CONFIG["config"], CONFIG["policy"])
USED_UP = {
    "phase": "paused", "pauseReason": "loop_exhausted", "failureMessage": "no check passed", "iteration": 1,
    "transitionSequence": 1,
}  # fmt: skip


def told(**changes: Any) -> dict[str, Any]:
    """A loop snapshot of the scribe's run, its first transition made."""
    first = {
        "schemaVersion": 1, "machineVersion": "1", "runId": RUN, "configFingerprint": fingerprint(CONFIG),
        "phase": "executing", "iteration": 1, "repairCount": 0, "repeatedActionCount": 0, "transitionSequence": 1,
    }  # fmt: skip
    return {name: value for name, value in {**first, **changes}.items() if value is not None}


def loop(**changes: Any) -> Draft:
    return Draft("loop", told(**changes))


def looping(*sayings: Saying) -> Scribe:
    """A run that has said this, an append each."""
    scribe = Scribe().born()
    for saying in sayings:
        scribe.say(saying)
    return scribe


def why_not(scribe: Scribe, *sayings: Saying) -> str:
    """Why this may not be appended."""
    before = view(scribe.state)
    with pytest.raises(Corrupt) as caught:
        scribe.say(*sayings)
    assert before == view(scribe.state)
    return str(caught.value.facts["why"])


def test_a_snapshot_comes_back_as_it_was_written() -> None:
    """What is absent stays absent: a null would be another snapshot to whoever else reads it."""
    payload = told(phase="paused", pauseReason="loop_paused", resumePhase="verifying", lastActionFingerprint="f")

    assert payload == read_snapshot(payload).as_json()


@pytest.mark.parametrize(
    "change",
    [
        {"schemaVersion": 2},
        {"machineVersion": "2"},
        {"machineVersion": 1},
        {"runId": None},
        {"phase": "dreaming"},
        {"iteration": -1},
        {"repairCount": 1.5},
        {"repeatedActionCount": True},
        {"transitionSequence": "1"},
        {"note": "more"},
        {"pauseReason": ""},
        {"failureCode": "x" * 129},
        {"phase": "failed", "failureCode": "x", "failureMessage": "x" * 2001},
        {"phase": "paused", "pauseReason": "x", "resumePhase": "paused"},
    ],
    ids=str,
)
def test_a_snapshot_of_another_shape_is_none(change: dict[str, Any]) -> None:
    """#217: another version is not read by guess, and what cannot be counted is no count; its size is bounded."""
    with pytest.raises(Illegal, match="not a loop snapshot"):
        read_snapshot(told(**change))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"transitionSequence": 0}, "idle exactly before"),
        ({"phase": "idle", "iteration": 0}, "idle exactly before"),
        ({"phase": "paused", "resumePhase": "executing"}, "pause reason exactly"),
        ({"pauseReason": "loop_paused"}, "pause reason exactly"),
        ({"phase": "paused", "pauseReason": "loop_paused"}, "phase to resume exactly"),
        ({**USED_UP, "resumePhase": "verifying"}, "phase to resume exactly"),
        ({"phase": "failed"}, "failure code exactly"),
        ({"failureCode": "loop_failed"}, "failure code exactly"),
        ({"failureMessage": "no"}, "message without"),
        ({"repairCount": 1}, "not one more than its repairs"),
        ({"phase": "planning", "iteration": 0, "repairCount": 1}, "not one more than its repairs"),
        ({"phase": "planning"}, "not one of its iteration"),
        ({"iteration": 2, "repairCount": 1}, "not one of its iteration"),
        ({"phase": "verifying", "iteration": 0}, "not one of its iteration"),
        ({"phase": "repairing"}, "not one of its iteration"),
        ({"phase": "succeeded", "iteration": 0}, "not one of its iteration"),
        ({"repeatedActionCount": 1}, "never had"),
    ],
    ids=str,
)
def test_a_snapshot_whose_facts_do_not_fit_is_none(change: dict[str, Any], why: str) -> None:
    """A loop restored from it would go where no loop of this kind can be."""
    with pytest.raises(Illegal, match=why):
        read_snapshot(told(**change))


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "planning", "iteration": 0},
        {"phase": "repairing", "iteration": 3, "repairCount": 2},
        {"phase": "succeeded", "iteration": 3, "repairCount": 2},
        {"phase": "aborted", "failureCode": "aborted", "iteration": 0},
        {"phase": "failed", "failureCode": "verification_failed", "failureMessage": "2 failed"},
        {"repeatedActionCount": 1, "lastActionFingerprint": "f", "phase": "verifying"},
        USED_UP,
    ],
    ids=str,
)
def test_a_snapshot_whose_facts_fit_is_one(change: dict[str, Any]) -> None:
    """Strictness that refused a real loop would lose it."""
    assert isinstance(read_snapshot(told(**change)), LoopSnapshot)


def test_the_last_loop_record_is_kept() -> None:
    """#69: it says where the loop stands, to the plan and to whoever shows the run."""
    scribe = looping(loop(), loop(phase="verifying", transitionSequence=2))

    plan = prepare_run_resume(scribe.state, SAME, FACTS)

    last = told(phase="verifying", transitionSequence=2)
    assert (last, last, last) == (scribe.state.loop, plan.loop, refold(scribe.data).loop)


def test_every_prefix_of_a_run_with_a_loop_is_a_run() -> None:
    """A death between two records leaves the earlier phase, never none."""
    scribe = looping(loop(), loop(phase="verifying", transitionSequence=2))
    scribe.say(*paused())

    phases = [(refold(data).loop or {}).get("phase") for data in prefixes(scribe.data)]

    assert [None, None, None, "executing", "verifying", "verifying", "verifying"] == phases


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"runId": "another"}, "another run or configuration"),
        ({"configFingerprint": "f" * 64}, "another run or configuration"),
        ({"transitionSequence": 2}, "transition 2 follows transition 0"),
        ({"schemaVersion": 2}, "not a loop snapshot"),
    ],
    ids=str,
)
def test_a_loop_record_that_is_not_the_runs_next_is_refused(change: dict[str, Any], why: str) -> None:
    """#69: of another run, configuration or version, it is `run_state_corrupt`; #219: transitions leave no gap."""
    assert why in why_not(Scribe().born(), loop(**change))


def test_a_loop_that_has_ended_is_not_moved() -> None:
    """#218: what comes after the end of a loop is not of this loop."""
    scribe = looping(loop(phase="succeeded"))

    assert "has succeeded already" in why_not(scribe, loop(transitionSequence=2))


@pytest.mark.parametrize("sayings", [[Move("PAUSE")], failed()[:1]])
def test_a_loop_moves_only_while_its_run_goes_on(sayings: list[Saying]) -> None:
    """Of a run that waits or is over nothing new can be true."""
    assert "a loop record while" in why_not(Scribe().born(), *sayings, loop())


def test_a_loop_is_told_of_an_abort() -> None:
    """#95: an aborting run still takes what became of its loop, and its finish."""
    scribe = looping(loop(), Move("REQUEST_ABORT"))

    scribe.say(loop(phase="aborted", failureCode="aborted", transitionSequence=2), *failed())

    assert ("failed", "aborted") == (scribe.state.state, (refold(scribe.data).loop or {})["phase"])


def test_a_pause_carries_the_loop_and_a_finish_does_not() -> None:
    """Contract §2.2: `loopSnapshot` is a member of `pause` alone."""
    waiting, over = looping(loop()), looping(loop())
    waiting.say(*paused())
    over.say(*failed())
    assert waiting.state.pause is not None
    assert over.state.finish is not None

    assert (told(), False) == (waiting.state.pause["loopSnapshot"], "loopSnapshot" in over.state.finish)


def test_a_pause_of_a_run_without_a_loop_says_nothing_of_one() -> None:
    """Journals that were written before there were loops stay as they are."""
    scribe = Scribe().born()
    scribe.say(*paused())
    assert scribe.state.pause is not None

    assert "loopSnapshot" not in scribe.state.pause


def test_a_pause_that_contradicts_the_loop_is_refused() -> None:
    """One of the two would be wrong, and nobody could tell which."""
    scribe = looping(loop())
    operation = Close("pause", Outcome("paused", "pause_requested"))
    honest = scribe.ahead()
    honest.say(Move("PAUSE"), operation)
    payload = {**(honest.state.pause or {}), "loopSnapshot": told(phase="verifying")}

    assert "says of the loop" in why_not(scribe, Move("PAUSE"), Draft("pause", payload))


def test_the_account_shows_the_loop() -> None:
    """Every door shows the same: the last word on it, or null."""
    with_loop, without = looping(loop()).state, Scribe().born().state

    shown = [snapshot(state, FACTS, trace=[], integrity={})["loop"] for state in (with_loop, without)]

    assert [told(), None] == shown


def used_up() -> Scribe:
    """A run whose loop has used up its rounds, paused for it."""
    scribe = looping(loop(**USED_UP))
    scribe.say(*paused("loop_exhausted"))
    return scribe


def test_a_used_up_loop_cannot_be_resumed() -> None:
    """#213, W40: no RESUME leaves that pause, so the plan refuses and the account says so: one gate, not two."""
    state = used_up().state
    with pytest.raises(Refused) as caught:
        prepare_run_resume(state, SAME, FACTS)

    assert ("operation_not_resumable", state.loop) == (caught.value.code, caught.value.facts["loop"])
    assert (True, False) == (is_exhausted(state), is_resumable(state, FACTS))


def test_a_used_up_loop_whose_run_died_before_its_pause_is_paused_first() -> None:
    """Refused at once, the run would look as if it were still going on, for ever."""
    state = looping(loop(**USED_UP)).state

    assert (False, ()) == (is_exhausted(state), prepare_run_resume(state, SAME, FACTS).steps)


@pytest.mark.parametrize("reason", ["loop_no_progress", "policy_denied"])
def test_another_pause_of_the_loop_can_be_left(reason: str) -> None:
    """#216: a person has looked, and it goes on in its phase."""
    scribe = looping(loop(phase="paused", pauseReason=reason, resumePhase="executing"))
    scribe.say(*paused(reason))

    assert (False, True) == (is_exhausted(scribe.state), is_resumable(scribe.state, FACTS))


def test_a_used_up_loop_of_another_program_is_not_resumable_either() -> None:
    """W40: the reference says of it that it is."""
    begun = ("start", {"configName": "x", "configFingerprint": "x"})
    records = foreign(begun, ("loop", told(**USED_UP, runId="run-1", configFingerprint="x")))

    state = fold(records, "run-1")

    assert (True, "paused") == (is_exhausted(state), (last_loop(state) or {})["phase"])
