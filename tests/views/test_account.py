from typing import Any

import pytest

from clew.views.account import account_lines, started_lines, verdict_line
from tests.views.samples import OWNER, WHEN, effect

CLEAN = {"verdict": "clean", "atByte": 900}


def snapshot(**changed: Any) -> dict[str, Any]:
    return {
        "operation": {"state": "completed"},
        "metrics": {"toolCalls": 2, "turns": 1, "tokens": 30, "durationMs": 1500, "unmeasuredTurns": 0},
        "legs": [
            {**OWNER, "openedAt": "2026-11-29T13:50:00.000Z", "closedBy": None},
            {**OWNER, "number": 2, "purpose": "resume", "openedAt": "2026-11-29T13:55:00.000Z", "closedBy": "finish"},
        ],
        "integrity": {"own": True, "sequence": 9, "chain": "ab" * 32, "tail": CLEAN},
        "trace": [{"event": {"type": "agent_end", "output": {"paid": 2}}}],
        **changed,
    }


START = {"configName": "settle", "agentPath": "agent.py:settle", "initialPrompt": "settle orders.csv"}


def page(told: dict[str, Any]) -> list[str]:
    return account_lines(
        told, START, [effect(), effect(stepId="pay-2", status="committed", answered=True)], "runs/k3f.jsonl", WHEN
    )


def test_the_page_of_a_run_answers_who_what_when_and_how_far() -> None:
    """One look instead of reading the journal."""
    lines = page(snapshot())

    assert [
        "  agent    settle (agent.py:settle)",
        '  input    "settle orders.csv"',
        "  so far   2 calls, 1 turn, 30 tokens; 1.5 s from its first record to its last",
        "  leg      1 run, 13:50:00, pid 812 on vm by ann: not closed",
        "           2 resume, 13:55:00, pid 812 on vm by ann: finished",
        "  effects  1 started, 1 happened",
        "  journal  runs/k3f.jsonl (9 records, ends clean)",
        '  output   {"paid":2}',
    ] == lines


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({"phase": "repairing", "iteration": 2, "repairCount": 1}, "repairing: round 2, 1 repair"),
        (
            {
                "phase": "paused",
                "iteration": 1,
                "repairCount": 0,
                "pauseReason": "policy_denied",
                "resumePhase": "executing",
            },
            "paused (policy_denied), to go on executing: round 1, 0 repairs",
        ),
        (
            {"phase": "failed", "iteration": 3, "repairCount": 2, "failureCode": "loop_exhausted"},
            "failed (loop_exhausted): round 3, 2 repairs",
        ),
    ],
)
def test_where_a_loop_stands_is_one_line(told: dict[str, Any], line: str) -> None:
    """What it is at, why it stopped, and how many tries it had."""
    assert f"  loop     {line}" == page(snapshot(loop=told))[3]


def test_checkpoints_are_named_with_the_command_that_shows_them() -> None:
    """Nobody takes back what nobody knows of."""
    told = snapshot(runId="k3f", checkpoints=[{"checkpointId": "k1"}, {"checkpointId": "k2"}])

    assert "  files    2 checkpoints: clew diff k3f" == page(told)[6]


def test_what_nobody_measured_is_not_zero() -> None:
    """A run that cost money must not look free."""
    metrics = {"toolCalls": 0, "turns": 2, "tokens": None, "durationMs": 0, "unmeasuredTurns": 2, "toolFailures": 1}

    lines = page(snapshot(metrics=metrics))

    assert any("2 turns, tokens not reported, 1 error answer" in line for line in lines)


def test_a_time_over_a_clock_that_was_set_back_says_so() -> None:
    """C122, promise 9: 0 s would else look like a run that took no time."""
    metrics = {"toolCalls": 1, "turns": 0, "durationMs": 0, "clockStepped": True}

    lines = page(snapshot(metrics=metrics))

    assert "  so far   1 call, 0 turns; 0.0 s from its first record to its last, while the clock was set back" in lines


def test_only_a_completed_run_has_an_output() -> None:
    """What an agent returned behind a closed gate is no success."""
    lines = page(snapshot(operation={"state": "paused"}))

    assert not any("output" in line for line in lines)


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (CLEAN, "ends clean"),
        ({"verdict": "torn", "bytes": 212}, "212 bytes at its end were never acknowledged; the next writer cuts them"),
        ({"verdict": "unterminated"}, "its last line lacks its end; the next writer adds it"),
        ({"verdict": "being_written"}, "is being written"),
    ],
)
def test_how_a_journal_ends_is_said_in_words(tail: dict[str, Any], expected: str) -> None:
    """Torn is no damage, and the reader must not think so."""
    found = {"runId": "k3f", "records": 9, "chained": True, "chain": "ab" * 32, "tail": tail, "missingBlobs": []}

    line = verdict_line(found)

    assert f"OK  k3f  9 records, {expected}, chain abababababab" == line


def test_a_missing_answer_is_damage() -> None:
    """Every line may be whole while what it points to is gone."""
    found = {"runId": "k3f", "records": 9, "chained": False, "chain": "", "tail": CLEAN, "missingBlobs": ["abc"]}

    line = verdict_line(found)

    assert "DAMAGED  k3f  contents missing or damaged: abc; 9 records, ends clean, begun by another program" == line


def test_what_an_aborted_run_had_started_stays_listed() -> None:
    """The end of a run does not undo a payment."""
    lines = started_lines([effect()])

    assert ["  pay-1  pay order=1042 cents=4200: started, no answer"] == lines


def test_each_extension_is_a_line_with_what_it_denied_and_what_went_wrong() -> None:
    """An operator must see that a guard failed closed, and which one."""
    guard = {"extensionId": "guard", "extensionVersion": "1.0", "event": "before-tool", "durationMs": 3}
    receipts = [
        {**guard, "status": "succeeded", "count": 3},
        {**guard, "status": "succeeded", "count": 1, "denied": True},
        {**guard, "status": "timed_out", "count": 2, "denied": True, "error": "no answer within 1 s"},
        {
            **guard,
            "extensionId": "watch",
            "event": "after-tool",
            "status": "failed",
            "count": 1,
            "error": "OSError: no",
        },
    ]

    lines = page(snapshot(extensions=receipts))

    assert [
        "  told     guard 1.0: 6 times, 3 denied, 2 too late; last error: no answer within 1 s",
        "           watch 1.0: 1 time, 1 failed; last error: OSError: no",
    ] == [line for line in lines if "1.0" in line]


def test_a_page_lists_children_and_the_parent() -> None:
    """What belongs together is found from either end."""
    child = {"stepId": "child-1", "runId": "kid-1", "agent": "worker"}
    children = [
        {**child, "status": "joined", "outcome": "completed", "reason": "completed"},
        {**child, "status": "paused", "outcome": "paused", "reason": "pause_requested"},
        {**child, "status": "cancel_requested", "outcome": None, "reason": None},
    ]
    lines = page(snapshot(children=children, parent={"runId": "top", "stepId": "child-2"}))

    assert [
        "  children child-1  kid-1 (worker): completed",
        "           child-1  kid-1 (worker): paused, on request (pause_requested)",
        "           child-1  kid-1 (worker): cancel requested",
        "  parent   top, step child-2; it takes this run along",
    ] == [line for line in lines if "kid-1" in line or "top" in line]


def test_a_journal_that_contradicts_itself_says_so_on_its_page() -> None:
    """Whoever reads the account must not take it for the whole truth."""
    wrong = {"own": True, "sequence": 9, "chain": "ab" * 32, "tail": CLEAN, "findings": [], "findingCount": 2}
    lines = page(snapshot(integrity=wrong))

    told = "9 records, ends clean; it contradicts itself in 2 places: clew verify --deep"
    assert [f"  journal  runs/k3f.jsonl ({told})"] == [line for line in lines if line.startswith("  journal")]
