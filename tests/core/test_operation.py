"""The lifecycle of a run: contract §3.A, item by item, and what its faults W16 and W17 demand."""

from itertools import permutations
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.operation import (
    TERMINAL,
    DurableOperation,
    OperationEvent,
    OperationRecord,
    OperationStatus,
    legal_target,
)
from clew.errors import Corrupt, Refused, UsageError

AT = "2026-11-29T14:00:00.000Z"
LATER = "2026-11-29T14:00:01.000Z"
EVENTS: tuple[OperationEvent, ...] = get_args(OperationEvent)
STATES: tuple[OperationStatus, ...] = get_args(OperationStatus)
LEGAL = {
    "accepted": {"running", "aborting", "failed"},
    "running": {"paused", "aborting", "completed", "failed"},
    "paused": {"running", "aborting", "failed"},
    "aborting": {"failed"},
    "completed": set[str](),
    "failed": set[str](),
}
REACHED: dict[str, tuple[OperationEvent, ...]] = {
    "accepted": (),
    "running": ("START",),
    "paused": ("START", "PAUSE"),
    "aborting": ("START", "REQUEST_ABORT"),
    "completed": ("START", "COMPLETE"),
    "failed": ("START", "FAIL"),
}


def accepted(**given_ids: str) -> DurableOperation:
    ids = {"run_id": "r1", "operation_id": "op-1", "event_id": "e1", "at": AT, **given_ids}
    return DurableOperation.create(**ids)


def moved(*events: OperationEvent) -> DurableOperation:
    operation = accepted()
    for number, event in enumerate(events, 2):
        operation = operation.move(event, event_id=f"e{number}", at=LATER)
    return operation


def ready(state: str) -> DurableOperation:
    return moved(*REACHED[state])


def changed(operation: DurableOperation, index: int, **members: Any) -> list[OperationRecord]:
    records = list(operation.records)
    records[index] = msgspec.structs.replace(records[index], **members)
    return records


def refusal(records: list[OperationRecord]) -> Corrupt:
    with pytest.raises(Corrupt) as caught:
        DurableOperation.restore(records)
    return caught.value


@st.composite
def histories(draw: st.DrawFn) -> DurableOperation:
    """Any legal history, the time of each move and its reason drawn."""
    operation = accepted()
    for number in range(2, draw(st.integers(2, 12))):
        events = [event for event in EVENTS if legal_target(operation.state, event) is not None]
        if not events:
            break
        event, at = draw(st.sampled_from(events)), draw(st.sampled_from([AT, LATER]))
        reason = draw(st.none() | st.text(max_size=5))
        operation = operation.move(event, event_id=f"e{number}", at=at, reason=reason)
    return operation


def test_a_new_operation_is_accepted() -> None:
    """Contract #1: the first record says who and from nothing to accepted."""
    operation = accepted()

    (record,) = operation.records
    assert (1, None, "ACCEPT", "accepted") == (record.sequence, record.from_, record.event, record.to)
    assert ("r1", "op-1", False) == (operation.run_id, operation.operation_id, operation.terminal)


def test_its_snapshot_says_so() -> None:
    """Contract #1 and §2.3: all members, no reason before there is one."""
    snapshot = accepted().snapshot()

    assert {
        "schemaVersion": 1,
        "operationId": "op-1",
        "runId": "r1",
        "correlationId": "r1:op-1",
        "state": "accepted",
        "transitionSequence": 1,
        "createdAt": AT,
        "updatedAt": AT,
    } == snapshot


def test_a_run_through_a_pause_completes() -> None:
    """Contract #2: the plain life of a run."""
    snapshot = moved("START", "PAUSE", "RESUME", "COMPLETE").snapshot()

    assert ("completed", 5, AT, LATER) == (
        snapshot["state"],
        snapshot["transitionSequence"],
        snapshot["createdAt"],
        snapshot["updatedAt"],
    )


@given(histories())
def test_a_restored_operation_is_the_same(operation: DurableOperation) -> None:
    """Contract #3: whoever reads the records knows what the writer knew."""
    restored = DurableOperation.restore(list(operation.records))

    assert (operation, operation.snapshot()) == (restored, restored.snapshot())


@given(histories())
def test_a_record_survives_the_disk(operation: DurableOperation) -> None:
    """Contract #3: what is restored comes from JSON, where `from` and camelCase are the names."""
    stored = [msgspec.json.encode(record) for record in operation.records]

    assert list(operation.records) == [msgspec.json.decode(line, type=OperationRecord) for line in stored]


def test_a_record_has_the_members_of_the_contract() -> None:
    """Contract §2.3: the reference reads these names; `from` is null at first, a missing reason is left out."""
    record = msgspec.to_builtins(accepted().records[0])

    assert [
        "schemaVersion", "operationId", "runId", "correlationId", "sequence", "eventId", "event", "from", "to",
        "timestamp",
    ] == list(record)  # fmt: skip


@given(histories(), st.data())
def test_an_event_applied_twice_changes_nothing(operation: DurableOperation, data: st.DataObject) -> None:
    """Contract #4, promise 1: a retried command is no second command, even on an operation that has ended."""
    record = data.draw(st.sampled_from(operation.records))
    event: Any = record.event

    again = operation.move(event, event_id=record.event_id, at="2027-01-01T00:00:00Z", reason=record.reason)

    assert again is operation


@pytest.mark.parametrize("event", [event for event in EVENTS if event != "START"])
def test_an_event_id_stands_for_one_event(event: OperationEvent) -> None:
    """W17: the reference called another event under a used id a harmless duplicate."""
    with pytest.raises(Refused) as caught:
        moved("START").move(event, event_id="e2", at=LATER)

    assert ("operation_event_conflict", {"eventId": "e2"}) == (caught.value.code, caught.value.facts)


def test_an_event_id_stands_for_one_reason() -> None:
    """W17: the same pause for another reason is another pause; the message tells the two apart."""
    operation = moved("START").move("PAUSE", event_id="e3", at=LATER, reason="pause_requested")

    with pytest.raises(Refused, match=r"PAUSE \(reason 'pause_requested'\), not for PAUSE \(reason None\)"):
        operation.move("PAUSE", event_id="e3", at=LATER)


def test_a_completed_operation_does_not_resume() -> None:
    """Contract #5, promise 1: the end is the end."""
    with pytest.raises(Refused, match="operation 'op-1' is completed; RESUME is not possible") as caught:
        ready("completed").move("RESUME", event_id="e9", at=LATER)

    assert "invalid_operation_transition" == caught.value.code


@pytest.mark.parametrize(("source", "target"), list(permutations(STATES, 2)))
def test_a_move_is_legal_exactly_when_the_table_says_so(source: OperationStatus, target: OperationStatus) -> None:
    """Contract #6: every ordered pair of different states, against a table written a second time."""
    legal = any(legal_target(source, event) == target for event in EVENTS)

    assert (target in LEGAL[source]) == legal


@pytest.mark.parametrize("state", STATES)
def test_no_event_leads_nowhere(state: OperationStatus) -> None:
    """Contract #6: a move to the state one is in is no move, and each legal target is reached by one event alone."""
    targets = [legal_target(state, event) for event in EVENTS]

    assert sorted(LEGAL[state]) == sorted(target for target in targets if target is not None)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("event", EVENTS)
def test_a_move_obeys_the_table(state: OperationStatus, event: OperationEvent) -> None:
    """Contract #6, #9: from every state, each of the seven events either leads where the table says or is refused."""
    operation, target = ready(state), legal_target(state, event)
    try:
        found: str = operation.move(event, event_id="new", at=LATER).state
    except Refused as refused:
        found = refused.code

    assert (target or "invalid_operation_transition") == found


@pytest.mark.parametrize(("state", "event"), [("paused", "START"), ("accepted", "RESUME")])
def test_a_start_is_no_resume(state: str, event: str) -> None:
    """W17: the reference looked at the target state only, so START resumed and RESUME started."""
    target = legal_target(state, event)

    assert target is None


@pytest.mark.parametrize("event", ["", "start", "EXPLODE"])
def test_a_stranger_s_event_leads_nowhere(event: str) -> None:
    """W16: an unknown word in a journal must not be taken for a move."""
    target = legal_target("running", event)

    assert target is None


def test_nothing_follows_the_terminal_states() -> None:
    """Promise 1: the two terminal states are those without a way out."""
    assert {state for state in STATES if not LEGAL[state]} == TERMINAL == {s for s in STATES if ready(s).terminal}


@given(histories().filter(lambda operation: len(operation.records) > 1), st.randoms(use_true_random=False))
def test_a_shuffled_history_is_refused(operation: DurableOperation, random: Any) -> None:
    """Contract #7, promise 4: sorting first would hide that a record was moved."""
    records = list(operation.records)
    while records == list(operation.records):
        random.shuffle(records)

    assert "operation_state_corrupt" == refusal(records).code


def test_an_abort_ends_failed() -> None:
    """Contract #8: the way of an aborted run, and why it failed."""
    operation = moved("START", "REQUEST_ABORT").move("FAIL", event_id="e4", at=LATER, reason="aborted")

    assert (["accepted", "running", "aborting", "failed"], "aborted", "aborted") == (
        [record.to for record in operation.records],
        operation.snapshot()["failureReason"],
        operation.reason,
    )


@pytest.mark.parametrize("event", ["COMPLETE", "RESUME"])
def test_an_aborting_operation_neither_completes_nor_resumes(event: OperationEvent) -> None:
    """Contract #9: who asked for an abort is not told of a success."""
    with pytest.raises(Refused) as caught:
        ready("aborting").move(event, event_id="e9", at=LATER)

    assert ("invalid_operation_transition", {"state": "aborting", "event": event}) == (
        caught.value.code,
        caught.value.facts,
    )


@pytest.mark.parametrize(("chosen", "expected"), [("", "r1:op-1"), ("order-1042", "order-1042")])
def test_a_correlation_id_follows_from_run_and_operation(chosen: str, expected: str) -> None:
    """Contract #10: nobody has to think of one."""
    operation = accepted(correlation_id=chosen)

    assert expected == operation.snapshot()["correlationId"]


@pytest.mark.parametrize("member", ["run_id", "operation_id", "event_id", "correlation_id"])
def test_a_blank_id_is_refused_at_creation(member: str) -> None:
    """Contract #11: a blank id names nothing."""
    with pytest.raises(UsageError) as caught:
        accepted(**{member: " \t"})

    assert "invalid_operation_state" == caught.value.code


def test_a_blank_event_id_is_refused_at_a_move() -> None:
    """Contract #11: two blank ids would be the same event."""
    with pytest.raises(UsageError) as caught:
        accepted().move("START", event_id=" ", at=AT)

    assert "invalid_operation_state" == caught.value.code


@pytest.mark.parametrize("at", ["", "yesterday", "2026-11-29T14:00:00", "2026-11-29T14:00:00+01:00"])
def test_an_unreadable_time_is_refused(at: str) -> None:
    """Contract #12: at creation and at a move alike; a time without UTC is none."""
    with pytest.raises(UsageError) as created:
        accepted(at=at)
    with pytest.raises(UsageError) as refused:
        accepted().move("START", event_id="e2", at=at)

    assert ("invalid_operation_state", "invalid_operation_state") == (created.value.code, refused.value.code)


def test_no_records_are_no_operation() -> None:
    """Contract #13: an empty history is not an accepted operation."""
    error = refusal([])

    assert ("operation_state_corrupt", "there is no operation record", {"operationSequence": 0}) == (
        error.code,
        error.message,
        error.facts,
    )


@pytest.mark.parametrize(
    "members",
    [{"event": "START"}, {"sequence": 2}, {"from_": "accepted"}, {"to": "running"}],
    ids=lambda m: next(iter(m)),
)
def test_a_history_begins_with_its_acceptance(members: dict[str, Any]) -> None:
    """Contract #13: whatever else stands first, the beginning is missing."""
    error = refusal(changed(moved("START"), 0, **members))

    assert "operation_state_corrupt" == error.code


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"sequence": 3}, "has number 3, expected 2"),
        ({"operation_id": "op-2"}, "belongs to another operation"),
        ({"run_id": "r2"}, "belongs to another operation"),
        ({"correlation_id": "x"}, "belongs to another operation"),
        ({"event_id": "e1"}, "repeats event id 'e1'"),
        ({"timestamp": "yesterday"}, "has another version or no readable time"),
        ({"schema_version": 2}, "has another version or no readable time"),
        ({"from_": "paused"}, "moves from 'paused' to 'running' by 'START' while 'accepted'"),
        ({"event": "RESUME"}, "moves from 'accepted' to 'running' by 'RESUME' while 'accepted'"),
        ({"to": "paused"}, "moves from 'accepted' to 'paused' by 'START' while 'accepted'"),
        ({"event": "EXPLODE"}, "moves from 'accepted' to 'running' by 'EXPLODE' while 'accepted'"),
        ({"event_id": " "}, "has a blank id"),
        ({"run_id": ""}, "has a blank id"),
    ],
    ids=str,
)
def test_a_spoiled_record_is_refused(members: dict[str, Any], why: str) -> None:
    """Contract #14, W16: gap, other ids, repeated id, time, `from`, event, target, blank ids; it says which."""
    error = refusal(changed(moved("START"), 1, **members))

    assert ("operation_state_corrupt", why) == (error.code, error.message.partition(" record ")[2].partition(" ")[2])


@given(histories().filter(lambda operation: len(operation.records) > 1), st.data())
def test_a_missing_record_is_refused(operation: DurableOperation, data: st.DataObject) -> None:
    """Contract #14: a gap is seen wherever it is, except at the end, which looks like an earlier time."""
    records = list(operation.records)
    begin = data.draw(st.integers(0, len(records) - 2))
    del records[begin : data.draw(st.integers(begin + 1, len(records) - 1))]

    assert "operation_state_corrupt" == refusal(records).code


def test_a_gap_that_leads_back_to_where_it_began_is_refused() -> None:
    """Contract #14: a pause that was taken out together with its resume leaves moves that fit; the number shows it."""
    records = list(moved("START", "PAUSE", "RESUME", "COMPLETE").records)

    error = refusal([*records[:2], records[4]])

    assert ("operation_state_corrupt", 5) == (error.code, error.facts["operationSequence"])


def test_a_clock_that_stepped_back_spoils_nothing() -> None:
    """Promise 9: a duration across a clock step is clamped and marked; the run is not lost for it."""
    operation = accepted(at=LATER).move("START", event_id="e2", at=AT)

    assert operation == DurableOperation.restore(operation.records)


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        (("START", "PAUSE"), {"pauseReason": "why"}),
        (("START", "PAUSE", "RESUME"), {}),
        (("START", "FAIL"), {"failureReason": "why"}),
        (("START", "REQUEST_ABORT"), {}),
    ],
)
def test_a_reason_shows_only_where_it_holds(events: tuple[OperationEvent, ...], shown: dict[str, str]) -> None:
    """Contract #15: a run that goes on again is not shown with the reason of its pause."""
    operation = accepted()
    for number, event in enumerate(events, 2):
        operation = operation.move(event, event_id=f"e{number}", at=AT, reason="why")

    assert shown == {name: text for name, text in operation.snapshot().items() if name.endswith("Reason")}


def test_what_is_handed_out_is_a_copy() -> None:
    """Contract #16: neither the snapshot nor the list that was read is a way in."""
    records = list(moved("START").records)
    operation = DurableOperation.restore(records)
    records.clear()
    operation.snapshot()["state"] = "completed"

    assert "running" == operation.state


def test_a_record_cannot_be_edited() -> None:
    """Contract #16: the records themselves are handed out without a copy, so they must be frozen."""
    record = accepted().records[0]

    with pytest.raises(AttributeError):
        record.to = "completed"  # type: ignore[misc]  # the point of the test


@given(histories(), st.data())
def test_a_prefix_and_the_rest_are_the_whole(operation: DurableOperation, data: st.DataObject) -> None:
    """What is read record by record is what is read at once: a reader may stop and go on."""
    cut = data.draw(st.integers(1, len(operation.records)))
    read = DurableOperation.restore(operation.records[:cut])
    for record in operation.records[cut:]:
        read = read.read(record)

    assert operation == read
