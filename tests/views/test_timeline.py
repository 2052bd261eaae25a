from pathlib import Path

import pytest

from clew.core.codec import read_record
from clew.core.events import KNOWN, ONLY_THEIRS
from clew.core.records import Kind, Record
from clew.views.timeline import concerns, line_of, log_lines, progress_line, proof_lines
from tests.views.samples import WHEN

JOURNALS = Path(__file__).parents[1] / "journals"


def records(name: str) -> list[Record]:
    return [read_record(line) for line in (JOURNALS / name).read_bytes().splitlines()]


def event(**said: object) -> Record:
    return Record(1, "k3f", 7, "n-1", "2026-11-29T13:54:02.000Z", "event", {"event": said})


def record(kind: Kind, **said: object) -> Record:
    return Record(1, "k3f", 7, "n-1", "2026-11-29T13:54:02.000Z", kind, said)


def test_a_journal_reads_from_top_to_bottom() -> None:
    """Killed after the start, cut, settled by a person, resumed: all of it must be there to read, in order."""
    lines = [text for each in records("settled.jsonl") for text in log_lines(line_of(each), WHEN, width=6)]

    assert (Path(__file__).with_name("settled.txt")).read_text("utf-8").splitlines() == lines


def test_a_phase_of_a_loop_is_progress() -> None:
    """Whoever watches a loop wants to know what it is at, and why it stopped."""
    at_work = line_of(record("loop", phase="repairing", iteration=2))
    over = line_of(record("loop", phase="failed", iteration=3, failureCode="loop_exhausted", failureMessage="no check"))

    assert [
        ("the loop: repairing, round 2", (), True),
        ("the loop: failed (loop_exhausted), round 3", ("no check",), True),
    ] == [(line.text, line.more, line.main) for line in (at_work, over)]


def test_a_line_of_another_day_says_which() -> None:
    """A log that is read a week later would otherwise seem to be of today."""
    old = Record(1, "k3f", 7, "n-1", "2026-11-22T13:54:02.000Z", "operation", {"event": "COMPLETE"})

    lines = log_lines(line_of(old), WHEN)

    assert ["    7  2026-11-22 13:54:02              completed"] == lines


@pytest.mark.parametrize("name", ["completed.jsonl", "paused.jsonl", "second_attempt.jsonl", "settled.jsonl"])
def test_every_record_is_a_line(name: str) -> None:
    """A log that leaves something out cannot be trusted when it matters."""
    lines = [line_of(each) for each in records(name)]

    assert [each.sequence for each in records(name)] == [line.sequence for line in lines]
    assert all(line.text for line in lines)


@pytest.mark.parametrize("kind", sorted(KNOWN | ONLY_THEIRS))
def test_an_event_with_nothing_in_it_still_has_a_line(kind: str) -> None:
    """A reader of another program's journal must not stumble over a member that is not there."""
    line = line_of(event(type=kind))

    assert line.text


@pytest.mark.parametrize("odd", [None, True, 7, 1.5, "x", [1], {"a": [{}]}], ids=repr)
@pytest.mark.parametrize("kind", sorted(KNOWN | ONLY_THEIRS))
def test_an_event_with_other_things_in_it_still_has_a_line(kind: str, odd: object) -> None:
    """Another program's journal may hold anything where ours holds a list or an object."""
    members = ("args", "capability", "error", "blob", "evidence", "command", "output", "usage", "text", "stepId")

    line = line_of(event(**{"type": kind, "isError": odd, **dict.fromkeys(members, odd)}))

    assert line.text


def test_no_word_of_another_program_is_obeyed_by_a_terminal() -> None:
    """What reads like a harmless log could otherwise move the cursor and write over it."""
    evil = "\x1b[2J\n"
    found = [
        line_of(event(type="capability_resolved", capability={"effect": evil, "replay": evil})),
        line_of(event(type=evil, stepId=evil)),
        line_of(record("finish", outcome={"status": evil, "finishReason": evil, "error": {"message": evil}})),
        line_of(record("pause", outcome={"finishReason": evil})),
        line_of(record("start", configName=evil)),
    ]

    assert all(text.isprintable() for line in found for text in (line.step, line.text, *line.more))


def test_the_finish_of_an_old_program_says_its_status() -> None:
    """CoreMind 0.3 wrote it without an outcome."""
    assert "finished: succeeded" == line_of(record("finish", status="succeeded")).text


@pytest.mark.parametrize("kind", ["start", "resume", "operation", "loop", "pause", "finish", "checkpoint", "control"])
def test_a_record_with_nothing_in_it_still_has_a_line(kind: Kind) -> None:
    """The same for records."""
    line = line_of(record(kind))

    assert line.text


def test_an_event_that_is_none_is_named_by_its_kind() -> None:
    """Not even a damaged payload stops the log."""
    line = line_of(record("event", event=7))

    assert "event" == line.text


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"type": "effect_receipt", "status": "not_started"}, "not started"),
        ({"type": "effect_receipt", "status": "committed"}, "happened (attempt 1)"),
        (
            {"type": "tool_attempt", "status": "committed", "attempt": 2, "persistence": "failed"},
            "happened (attempt 2); its answer could not be kept",
        ),
        (
            {"type": "effect_receipt", "status": "committed", "persistence": "withheld"},
            "happened (attempt 1); its answer is secret and was not kept",
        ),
        (
            {"type": "effect_receipt", "status": "unknown"},
            "outcome unknown: it raised, timed out or was cancelled (attempt 1)",
        ),
        ({"type": "step_output", "text": "7"}, "answer 7"),
        (
            {"type": "step_output", "text": "[1", "blob": {"sha256": "ab" * 32, "sizeBytes": 99_000}},
            "answer of 99000 bytes, kept as blob abababababab",
        ),
        (
            {"type": "step_output", "isError": True, "error": {"kind": "failed", "message": "no funds"}},
            "error answer: no funds",
        ),
        ({"type": "tool_result", "isError": True}, "answered with an error"),
        ({"type": "turn_end", "usage": "unmeasured"}, "the model answered; usage not reported"),
        ({"type": "turn_end", "turnId": "turn-1", "tokens": 12}, "the model answered; tokens=12"),
        ({"type": "policy_denied", "reason": "too much"}, "denied by the policy: too much"),
        (
            {
                "type": "extension_lifecycle",
                "extensionId": "guard",
                "extensionVersion": "1.0",
                "lifecycle": "before-tool",
                "status": "timed_out",
                "error": "no answer",
                "denied": True,
            },
            "extension guard 1.0 took too long at before-tool and denied: no answer",
        ),
        ({"type": "control", "state": "applied"}, "command applied"),
        (
            {"type": "control", "state": "accepted", "command": {"type": "pause", "by": "ann", "reason": "lunch"}},
            "command pause by ann: lunch, accepted",
        ),
        ({"type": "control", "state": "rejected", "reason": "too late"}, "command rejected: too late"),
        ({"type": "error", "message": "a\x1b[0mb"}, "error: a\\x1b[0mb"),
        (
            {"type": "artifact_created", "artifactId": "a.csv", "mediaType": "text/csv", "sizeBytes": 2048},
            "artifact a.csv (text/csv, 2.0 KiB)",
        ),
        (
            {"type": "artifact_created", "artifactId": "a.csv", "status": "blocked", "sizeBytes": 9},
            "artifact a.csv is not kept, for there is a secret in it",
        ),
        ({"type": "artifact_created"}, "artifact None (None, ?)"),
        ({"type": "provider_request"}, "provider_request"),
    ],
)
def test_events_are_told_in_words(said: dict, expected: str) -> None:
    """Nobody should need the format page to read a log."""
    line = line_of(event(**said))

    assert expected == line.text


def test_what_a_review_rests_on_stands_below_it() -> None:
    """A settlement without its evidence is hearsay."""
    evidence = [{"kind": "text", "text": "line 14"}, {"kind": "probe", "inDoubtS": 30}]

    line = line_of(
        event(type="effect_review", outcome="happened", attempt=1, by="ann", reason="bank", evidence=evidence)
    )

    assert "settled: it happened (attempt 1), says ann: bank" == line.text
    assert ("evidence: line 14", "evidence: kind=probe inDoubtS=30") == line.more


def test_a_cut_end_and_a_waiver_are_told() -> None:
    """What was repaired or accepted must not hide in the journal."""
    torn = {"bytes": 212, "keptAs": "torn-5405-70d0"}
    waived = {"accepted": "config", "by": "ann", "reason": "new limits"}

    line = line_of(record("resume", leg=None, tailRepaired=torn, integrityWaived=waived))

    assert (
        "cut 212 bytes of an append that nobody acknowledged; kept as torn-5405-70d0",
        "accepted by ann: changed config: new limits",
    ) == line.more


def test_a_proof_names_what_was_seen() -> None:
    """Taking a run over is the operator's act; on what it rests is printed."""
    lines = proof_lines(
        [{"proof": "kernel_lock", "answer": "yes"}, {"proof": "process_gone", "answer": "yes", "fact": "no 812"}]
    )

    assert [
        "taken over from an owner that never closed it; proof:",
        "  kernel_lock: yes",
        "  process_gone: yes (no 812)",
    ] == lines


def test_without_a_takeover_there_is_no_proof() -> None:
    """A heading over nothing would frighten."""
    lines = proof_lines([])

    assert [] == lines


def test_progress_is_what_a_person_waits_for() -> None:
    """Calls and their ends; receipts and moves of the operation are for the whole log."""
    told = [line_of(each) for each in records("completed.jsonl")]

    shown = [progress_line(line, WHEN) for line in told if line.main]

    assert any("call pay" in text for text in shown)
    assert not any("declared as" in text for text in shown)


def test_an_unknown_outcome_is_progress() -> None:
    """The one receipt that nobody may overlook."""
    line = line_of(event(type="effect_receipt", status="unknown"))

    assert line.main


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        (event(type="tool_call", stepId="pay-1", callId="c1"), True),
        (event(type="tool_result", stepId="pay-2", callId="c2"), False),
        (record("pause"), True),
        (record("start"), False),
    ],
)
def test_the_evidence_of_a_call_is_its_records_and_the_pauses(each: Record, expected: bool) -> None:
    """What a probe said stands in the pause."""
    assert expected == concerns(each, "pay-1", "c1")


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"type": "delegation_recorded"}, "child kid-1 is delegated to"),
        ({"type": "child_created"}, "child kid-1 is born"),
        ({"type": "child_running"}, "child kid-1 is running"),
        (
            {"type": "child_paused", "reason": "pause_requested", "result": {"outcome": "paused"}},
            "child kid-1 is paused: on request (pause_requested)",
        ),
        (
            {"type": "child_terminal", "reason": "completed", "result": {"outcome": "completed"}},
            "child kid-1 has ended: completed",
        ),
        (
            {"type": "child_terminal", "reason": "aborted", "result": {"outcome": "failed"}},
            "child kid-1 has ended: failed, it was aborted (aborted)",
        ),
        ({"type": "child_adopted"}, "child kid-1 child_adopted"),
    ],
)
def test_a_fact_about_a_child_names_it_and_the_step_that_waits(said: dict[str, object], text: str) -> None:
    """Whoever reads the parent's log must find the other journal."""
    line = line_of(record("delegation", delegationId="k3f:child-1", childRunId="kid-1", **said))

    assert ("child-1", text, True) == (line.step, line.text, line.main)
