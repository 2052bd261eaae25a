"""Checkpoint records in a journal of ours: what they say, which of them may stand where, what is known by them."""

from collections.abc import Sequence
from typing import Any

import pytest

from clew.core import events
from clew.core.checkpoint import Checkpoint, CheckpointState, PathState, Whole, read_checkpoint
from clew.core.compose import Move, Saying
from clew.core.folding import fold
from clew.core.guarding import built_in, checkpoint_of, checkpoint_rows
from clew.core.guarding import kept as said_kept
from clew.core.guarding import left as said_left
from clew.core.needs import Guarded, Looked
from clew.core.records import Draft
from clew.core.state import RunState
from clew.core.times import format_ms
from clew.errors import Corrupt
from tests.histories import (
    BORN_MS,
    CHARGE,
    EDIT,
    LOOK,
    NEW,
    OLD,
    RUN,
    Scribe,
    facts,
    foreign,
    kept,
    left,
    paused,
    prefixes,
    proposed,
    read,
    refold,
    respoken,
    resume,
    returned,
    review,
    started,
)

CALL = facts(1, EDIT)
WHOLE = Whole("c" * 64, 900, 12)


def state_of(*appends: Sequence[Saying]) -> RunState:
    """The run after these appends, as another process reads it."""
    scribe = Scribe().born()
    for append in appends:
        scribe.say(*append)
    return refold(scribe.data)


def refused(*appends: Sequence[Saying]) -> Corrupt:
    """What the journal says to the last of these appends."""
    scribe = Scribe().born()
    for append in appends[:-1]:
        scribe.say(*append)
    with pytest.raises(Corrupt) as caught:
        scribe.compose(*appends[-1])
    return caught.value


def looked_at(*, raised: bool = False) -> list[Saying]:
    """Stage 7, or 7', with the second record of the checkpoint."""
    answer, committed, noted = returned(CALL)
    if raised:
        return [events.receipt(CALL, 1, "unknown"), left(CALL)]
    return [answer, committed, left(CALL), noted]


def checkpoints(data: bytes) -> list[dict[str, Any]]:
    return [record.payload for record, _ in read(data) if record.kind == "checkpoint"]


# What stands in them.


def test_the_first_record_names_its_call_and_how_the_paths_stood() -> None:
    """#144, C78: whoever finds it knows run, operation, call, attempt and key."""
    scribe = Scribe().born()
    scribe.say(*kept(CALL, expects={"a": NEW}, result={"ok": True}))

    assert [
        {
            "version": 1, "checkpointId": "k1", "runId": RUN, "operationId": "op-1", "toolCallId": "c1",
            "stepId": "edit-1", "idempotencyKey": CALL.key, "attempt": 1, "timestamp": format_ms(BORN_MS + 1000),
            "tool": "edit", "reversible": True,
            "paths": [{"path": "a", "type": "file", "sha256": "a" * 64, "sizeBytes": 3, "mode": 0o644}],
            "expects": [{"path": "a", "type": "file", "sha256": "b" * 64, "sizeBytes": 4, "mode": 0o644}],
            "expectedResult": {"ok": True},
        }
    ] == checkpoints(scribe.data)  # fmt: skip


def test_the_second_record_has_the_same_id_and_how_the_paths_were_left() -> None:
    """W24: the journal itself says what was expected to stand there."""
    scribe = Scribe().born()
    scribe.say(*kept(CALL))
    scribe.say(*looked_at())
    first, second = checkpoints(scribe.data)

    assert ("k1", "k1", [{"path": "a", "type": "file", "sha256": "b" * 64, "sizeBytes": 4, "mode": 0o644}]) == (
        first["checkpointId"], second["checkpointId"], second["after"],
    )  # fmt: skip


def test_both_records_are_read_as_one_checkpoint() -> None:
    """Who restores needs both sides, and the call they belong to."""
    scribe = Scribe().born()
    scribe.say(*kept(CALL, expects={"a": NEW}))
    scribe.say(*looked_at())

    assert Checkpoint(
        "k1", "edit-1", "c1", CALL.key, 1, "edit", format_ms(BORN_MS + 1000), True, {"a": OLD}, {"a": NEW},
        after={"a": NEW},
    ) == read_checkpoint(*checkpoints(scribe.data))  # fmt: skip


def test_it_is_said_of_which_files_the_content_was_not_kept() -> None:
    """Else whoever verifies the run would miss it."""
    scribe = Scribe().born()
    scribe.say(*kept(CALL))
    scribe.say(*returned(CALL)[:2], left(CALL, unkept=("a",)))

    assert [None, ["a"]] == [said.get("unkept") for said in checkpoints(scribe.data)]


def test_a_checkpoint_of_a_whole_workspace_lists_afterwards_what_changed() -> None:
    """Before a command nobody knows what it will touch; behind it only that matters."""
    missing = {"why": "ignored", "pattern": "*.o", "count": 3}
    first = said_kept(CALL, 1, Guarded(None, whole=WHOLE, reversible=False))
    second = said_left(CALL, 1, Looked({"a": NEW}, {"a": OLD}, (missing,)))
    scribe = Scribe().born()
    scribe.say(*started(CALL)[:-1], first, started(CALL)[-1])
    scribe.say(*returned(CALL)[:2], second)
    found = read_checkpoint(*checkpoints(scribe.data))
    known = scribe.state.checkpoints.get("k1")

    assert (WHOLE, {"a": OLD}, {"a": NEW}, (missing,), False) == (
        found.whole, found.before, found.after, found.not_covered, found.reversible,
    )  # fmt: skip
    assert known is not None
    assert (True, False) == (known.whole, known.reversible)


def test_checkpoints_are_counted_over_the_run() -> None:
    """A person types the name."""
    state = state_of(kept(CALL), looked_at(), kept(facts(2, EDIT)))

    assert ["k1", "k2"] == [name for name, _ in state.checkpoints.items()]


# What the fold keeps.


def test_the_fold_keeps_where_the_records_stand_and_not_what_is_in_them() -> None:
    """A run of a year must fit into memory."""
    scribe = Scribe().born()
    scribe.say(*kept(CALL))
    scribe.say(*looked_at())
    first, second = [(record.sequence, at) for record, at in read(scribe.data) if record.kind == "checkpoint"]

    assert CheckpointState("k1", "edit-1", 1, first[0], first[1], started=True, after=second[1]) == checkpoint_of(
        scribe.state, _call(scribe.state)
    )


def _call(state: RunState) -> Any:
    call = state.calls.get("edit-1")
    assert call is not None
    return call


@pytest.mark.parametrize("raised", [False, True])
def test_every_prefix_is_legal_and_no_prefix_invents_a_checkpoint(raised: bool) -> None:
    """Power may go at every line of an append."""
    scribe = Scribe().born()
    scribe.say(*kept(CALL))
    scribe.say(*looked_at(raised=raised))

    assert {(False, False), (True, False), (True, True)} == {
        (known.started, known.after > 0)
        for state in map(refold, prefixes(scribe.data))
        for known in state.checkpoints.values()
    }


def test_a_checkpoint_whose_start_was_torn_off_counts_for_nothing() -> None:
    """The files may have changed since, so it says nothing of the attempt that starts later."""
    scribe = Scribe().born()
    scribe.say(*kept(CALL)[:-1])
    scribe.opened("resume", Move("PAUSE", "process_interrupted"), Move("RESUME"))
    scribe.say(events.receipt(CALL, 1, "started"))

    assert (None, 1) == (checkpoint_of(scribe.state, _call(scribe.state)), len(scribe.state.checkpoints))


def test_an_attempt_without_a_checkpoint_has_not_that_of_the_one_before() -> None:
    """Between the two anybody may have written."""
    doubt, again = [events.receipt(CALL, 1, "unknown")], [review(CALL, "did_not_happen")]
    state = state_of(kept(CALL), [*doubt], [*again], [*started(CALL, 2)])

    assert None is checkpoint_of(state, _call(state))


def test_foreign_checkpoints_are_read_over() -> None:
    """Another program's records say nothing by our rules."""
    assert 0 == len(fold(foreign(("start", {}), ("checkpoint", {"checkpointId": "k9"})), "run-1").checkpoints)


# Who may be asked.


def test_the_files_can_be_asked_of_a_workspace_effect() -> None:
    """What it does is nowhere else, and every path is known."""
    state = state_of(kept(CALL))
    known = built_in(state, _call(state))

    assert known is not None
    assert "k1" == known.checkpoint_id


def test_the_files_cannot_be_asked_of_an_effect_outside() -> None:
    """The bank has the money, whatever stands in a file."""
    call = facts(1, CHARGE)
    state = state_of(kept(call))
    found = state.calls.get("charge-1")

    assert found is not None
    assert None is built_in(state, found)


def test_the_files_cannot_be_asked_where_it_may_have_touched_any() -> None:
    """What is not covered may have changed."""
    *proposal, start = started(CALL)
    state = state_of([*proposal, said_kept(CALL, 1, Guarded(None, whole=WHOLE)), start])

    assert None is built_in(state, _call(state))


def test_nobody_can_be_asked_of_an_attempt_without_a_checkpoint() -> None:
    """It says nothing."""
    state = state_of(started(CALL))

    assert None is built_in(state, _call(state))


# What is refused.


def respoilt(second: bool, **members: Any) -> Corrupt:
    """What a reader says of a journal in which one of the two records says something else."""
    scribe = Scribe().born()
    scribe.say(*kept(CALL))
    scribe.say(*looked_at())
    records = [record for record, _ in read(scribe.data)]
    [record for record in records if record.kind == "checkpoint"][second].payload.update(members)
    with pytest.raises(Corrupt) as caught:
        fold(respoken(records), RUN)
    return caught.value


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("version", 2),
        ("version", True),
        ("runId", "other"),
        ("operationId", "op-2"),
        ("toolCallId", "c2"),
        ("idempotencyKey", "k"),
        ("tool", "rm"),
    ],
)
@pytest.mark.parametrize("second", [False, True])
def test_a_checkpoint_of_something_else_is_refused(member: str, value: Any, second: bool) -> None:
    """#157: to restore from it would write over the wrong files."""
    error = respoilt(second, **{member: value})

    assert ("run_state_corrupt", True) == (error.code, f"says {member}" in error.message)


def test_a_checkpoint_of_no_call_is_refused() -> None:
    """It could be asked for nothing."""
    error = refused([kept(CALL)[2]])

    assert "without its call" in error.message
    assert "without its call" in refused([Draft("checkpoint", {"stepId": 7})]).message


def test_nothing_stands_between_a_checkpoint_and_its_start() -> None:
    """What it says must be true when the body begins."""
    call, capability, first, _ = kept(CALL)

    nameless = {"type": "effect_receipt", "status": "started"}

    for between in (events.step_output("plan-1", "1"), events.receipt(CALL, 1, "not_started"), first, nameless):
        assert "followed by the start" in refused([call, capability, first, between]).message


def test_the_start_behind_a_checkpoint_is_that_of_its_call() -> None:
    """Two calls may be recorded in one append."""
    other = facts(2, EDIT)

    assert "followed by the start" in refused(
        [*proposed(CALL), *proposed(other), kept(CALL)[2], events.receipt(other, 1, "started")]
    ).message  # fmt: skip


def test_a_checkpoint_is_of_the_next_attempt() -> None:
    """Another one is over, or cannot start yet."""
    _, _, first, start = kept(CALL)
    assert isinstance(first, Draft)
    later = Draft("checkpoint", {**first.payload, "attempt": 2})

    assert "cannot start" in refused([*proposed(CALL), later, start]).message


def test_a_call_that_changes_nothing_has_no_checkpoint() -> None:
    """It has no attempt to undo."""
    assert "cannot start" in refused([*kept(facts(1, LOOK))]).message


def test_a_checkpoint_that_cannot_be_read_is_refused_before_it_is_written() -> None:
    """A restore would find nothing."""
    *proposal, first, start = kept(CALL)
    assert isinstance(first, Draft)
    broken = Draft("checkpoint", {**first.payload, "paths": [{"path": "../a", "type": "absent"}]})

    assert "cannot be read" in refused([*proposal, broken, start]).message


def test_nothing_is_kept_while_the_run_does_not_run() -> None:
    """A checkpoint belongs to a start."""
    waiting: list[Saying] = [*proposed(CALL), *paused()]

    assert "while the operation is paused" in refused(waiting, [resume(2), kept(CALL)[2]]).message


@pytest.mark.parametrize("name", ["k2", "k0", "K1"])
def test_a_number_is_not_skipped(name: str) -> None:
    """A checkpoint that is missing would not be missed."""
    assert f"{name!r} stands where k1 belongs" in respoilt(False, checkpointId=name).message


def test_how_it_was_left_is_said_once() -> None:
    """The second one would be the state of another moment."""
    raised = looked_at(raised=True)

    assert "recorded twice" in refused(kept(CALL), raised, [raised[1]]).message


def test_how_it_was_left_is_not_said_before_the_attempt_is_over() -> None:
    """It may still be at work."""
    assert "was over" in refused(kept(CALL), [left(CALL)]).message


def test_how_it_was_left_is_said_of_a_checkpoint() -> None:
    """There is nothing to compare it with."""
    assert "not that of the last attempt" in refused(started(CALL), looked_at()).message


def test_how_it_was_left_is_said_of_the_last_attempt() -> None:
    """An earlier one was settled."""
    again: list[Saying] = [review(CALL, "did_not_happen")]
    wrong = said_left(CALL, 1, Looked({"a": NEW}))
    doubt: list[Saying] = [events.receipt(CALL, 1, "unknown")]

    assert "not that of the last attempt" in refused(
        kept(CALL), doubt, again, kept(CALL, 2), [events.receipt(CALL, 2, "unknown"), wrong]
    ).message  # fmt: skip


@pytest.mark.parametrize(
    ("members", "whole"),
    [
        ({"after": 7}, False),
        ({"after": [{"path": "a"}]}, False),
        ({"after": []}, True),
        ({"paths": 7}, True),
        ({"unkept": "a"}, False),
        ({"unkept": ["b"]}, False),
        ({"unkept": [7]}, False),
    ],
)
def test_how_it_was_left_must_be_readable(members: dict[str, Any], whole: bool) -> None:
    """A conflict could not be told."""
    guarded = Guarded(None, whole=WHOLE) if whole else Guarded({"a": OLD})
    *proposal, start = started(CALL)
    last = said_left(CALL, 1, Looked({"a": NEW}))
    spoilt = Draft("checkpoint", {**last.payload, **members})

    assert "cannot be read" in refused(
        [*proposal, said_kept(CALL, 1, guarded), start], [events.receipt(CALL, 1, "unknown"), spoilt]
    ).message  # fmt: skip


def test_how_it_was_left_is_kept_while_the_run_is_aborted() -> None:
    """#97: what became of an effect that had started is worth knowing."""
    answer, committed, last, _ = looked_at()
    state = state_of(kept(CALL), [Move("REQUEST_ABORT", "asked")], [answer, committed, last])
    known = state.checkpoints.get("k1")

    assert known is not None
    assert 0 < known.after


def test_a_folder_that_will_be_made_may_have_any_mode() -> None:
    """Whoever announces it cannot know what the machine takes off."""
    scribe = Scribe().born()
    scribe.say(*kept(CALL, paths={"d": PathState("absent")}, expects={"d": PathState("folder")}))

    assert {"d": PathState("folder")} == read_checkpoint(checkpoints(scribe.data)[0]).expects


def test_every_checkpoint_of_an_opened_attempt_has_a_row() -> None:
    """W25: the account of a run has those of all its legs, and none that stands for nothing."""
    torn = kept(facts(3, EDIT))[:-1]
    state = state_of(kept(CALL), looked_at(), kept(facts(2, EDIT)), torn)

    assert [("k1", "edit-1", CALL.key, 1, "edit", True), ("k2", "edit-2", facts(2, EDIT).key, 1, "edit", False)] == [
        (row["checkpointId"], row["stepId"], row["idempotencyKey"], row["attempt"], row["tool"], row["left"])
        for row in checkpoint_rows(state)
    ]


def test_what_of_a_folder_is_not_kept_is_said_before_the_start() -> None:
    """Who reads of a call that died must know what could not come back, too."""
    missing = {"path": "d/.git", "why": "kept_out"}
    said = said_kept(CALL, 1, Guarded({"d": PathState("folder", mode=0o755)}, not_covered=(missing,)))

    assert [missing] == said.payload["notCovered"]
