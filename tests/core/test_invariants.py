"""The checker as a whole: places, sessions, checkpoints and the operation; no cry at legal runs; what it adds."""

import copy
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import events
from clew.core.codec import record_of
from clew.core.findings import INVARIANTS
from clew.core.folding import fold
from clew.core.invariants import Checker, SessionFacts, check
from clew.core.records import Draft, Record
from clew.errors import Corrupt
from tests.cases.ward import case
from tests.core.unjudged import born, closing, findings, journal, labels, theirs
from tests.histories import EDIT, EXAMPLES, RUN, Scribe, facts, proposed, read, respoken, resume, returned, started
from tests.strategies import SPOILT, History, histories

PAY_1 = facts(1)
ENDED = [events.agent_end(1), "COMPLETE", closing("finish", "succeeded")]
SESSION = SessionFacts("s-1", 4)


def changed(record: Record, **members: Any) -> Record:
    return msgspec.structs.replace(record, **members)


# I-1 to I-3: where a record stands.


def test_a_gap_is_found_once() -> None:
    """#223: a lost record is one fault; all behind it are where they belong behind a gap."""
    records = born(*started(PAY_1))
    gapped = [changed(record, sequence=record.sequence + (record.sequence > 3)) for record in records]

    assert [("I-1", 4, 5)] == [(found.label, found.line, found.sequence) for found in findings(gapped)]


def test_a_record_that_comes_again_later_is_found() -> None:
    """#223, W37: order faults are never sorted away."""
    records = born(*started(PAY_1))

    assert [("I-1", "")] == labels([*records, records[2]])


def test_two_records_that_changed_places_are_found() -> None:
    """#223: sorting would make them right, and nobody would ever know."""
    start, accept, begin = born()

    assert [("I-1", ""), ("I-11", ""), ("I-1", "")] == labels([start, begin, accept])


def test_a_record_of_another_run_is_found() -> None:
    """A line that moved from one journal to another says nothing of this run."""
    *records, last = born()
    last.run_id = "other"

    assert [("I-1", "")] == labels([*records, last])


@pytest.mark.parametrize("number", [0, -1, True, None, "4"])
def test_a_number_that_is_none_is_found(number: Any) -> None:
    """`true` is no number, and nothing is made of it."""
    start, accept, begin = born()
    begin.sequence = number

    assert [("I-1", "")] == labels([start, accept, begin])


def test_one_number_for_two_records_is_found() -> None:
    """#223: with equal content it is the same fact twice, with another it is two histories."""
    *records, last = born(*started(PAY_1))

    assert [] == labels([*records, last, copy.deepcopy(last)])
    assert [("I-2", "")] == labels([*records, last, changed(last, timestamp="2026-11-29T15:00:00.000Z")])


def test_in_a_journal_of_ours_four_kinds_may_follow_the_finish() -> None:
    """#223, DESIGN §4: an ended run may still be settled and its files put back."""
    settled = [resume(2, "settle"), events.leg_ended(2), {"type": "restored"}]

    assert [] == labels(born(*ENDED, *settled))
    assert [("I-3", "")] == labels(born(*ENDED, events.error("late", fatal=True)))
    assert [("I-3", "")] == labels(born(*ENDED, closing("finish", "succeeded")))


def test_in_a_journal_of_theirs_nothing_may_follow_the_finish() -> None:
    """#223: there a resume behind the end would be a second life."""
    assert [("I-3", "")] == labels(theirs(closing("finish", "succeeded"), Draft("resume", {})))


# I-5: sessions.


@pytest.mark.parametrize("kind", ["start", "resume"])
def test_a_leg_belongs_to_its_session_and_begins_within_it(kind: Any) -> None:
    """#225: a run that says it goes on behind an entry that does not exist goes on from nothing."""
    inside, beyond = ({"sessionId": "s-1", "sessionSeqStart": number} for number in (4, 5))
    another = {"sessionId": "s-2", "sessionSeqStart": 1}

    assert [] == labels(journal(Draft(kind, inside), own=False), session=SESSION)
    assert [] == labels(journal(Draft(kind, beyond), own=False))
    assert [("I-5", "s-1")] == labels(journal(Draft(kind, beyond), own=False), session=SESSION)
    assert [("I-5", "s-2")] == labels(journal(Draft(kind, another), own=False), session=SESSION)


@pytest.mark.parametrize(
    ("members", "named"), [({"sessionId": "s-1", "sessionSeqStart": 5}, "s-1"), ({"sessionId": 7}, None), ({}, None)]
)
def test_a_session_can_be_looked_at_when_the_records_are_read(members: dict[str, Any], named: str | None) -> None:
    """#225: looked at before them, it might have gone on meanwhile, and the run would be accused."""
    checker = Checker()
    before = checker.session_id
    for record in journal(Draft("start", members), own=False):
        checker.see(record)
    checker.end(SESSION)

    assert (None, named) == (before, checker.session_id)
    assert ("s-1" == named) == ("I-5" in [each.label for each in checker.found if each.subject == "s-1"])


# I-8: checkpoints.

CHECKPOINT = {
    "checkpointId": "k1", "runId": RUN, "operationId": "op-1", "toolCallId": "c1", "idempotencyKey": PAY_1.key,
}  # fmt: skip
CALLED = {"type": "tool_call", "callId": "c1", "stepId": "pay-1", "idempotencyKey": PAY_1.key}
FOREIGN = [("runId", "other"), ("operationId", "op-2"), ("toolCallId", "c2"), ("idempotencyKey", "k"), ("runId", 1)]


@pytest.mark.parametrize(("member", "value"), FOREIGN)
def test_a_checkpoint_of_something_else_is_found(member: str, value: Any) -> None:
    """#228: to restore from it would write one run's files over another's."""
    stray = {**CHECKPOINT, member: value}

    assert [("I-8", "k1")] == labels(born(*started(PAY_1)), checkpoints=[stray])
    assert [("I-8", "k1")] == labels(born(*proposed(PAY_1), Draft("checkpoint", stray)))
    assert [("I-8", "k1")] == labels(theirs(CALLED, Draft("checkpoint", stray)))


def test_a_checkpoint_of_its_call_is_not_found() -> None:
    """#228: it may stand before what it belongs to ends, and an explicit one belongs to no call."""
    both = [Draft("checkpoint", CHECKPOINT), Draft("checkpoint", {"checkpointId": "k2", "runId": RUN})]

    assert [] == labels(born(*proposed(PAY_1), *both), checkpoints=[CHECKPOINT])
    assert [] == labels(theirs(CALLED, *both))


def test_the_note_of_a_checkpoint_is_judged_as_well() -> None:
    """#228: the event names call and key, and is of the run that it stands in."""
    note = {"type": "checkpoint_created", "checkpointId": "k1", "callId": "c1", "idempotencyKey": PAY_1.key}

    assert [] == labels(theirs(CALLED, note))
    assert [("I-8", "k1")] == labels(theirs(CALLED, {**note, "callId": "c9"}))


def test_no_checkpoint_is_made_after_an_abort() -> None:
    """#230: it belongs to a start, and nothing starts any more."""
    assert [("I-10", "k1")] == labels(born(*proposed(PAY_1), "REQUEST_ABORT", Draft("checkpoint", CHECKPOINT)))


def test_how_an_attempt_left_its_paths_is_told_after_an_abort() -> None:
    """#230: it is what became of an effect that had started, and nothing starts by it."""
    call = facts(1, EDIT)
    *proposal, start = started(call)
    said = {**CHECKPOINT, "stepId": "edit-1", "idempotencyKey": call.key, "attempt": 1}
    told = [events.receipt(call, 1, "unknown"), Draft("checkpoint", {**said, "after": []})]

    assert [] == labels(born(*proposal, Draft("checkpoint", said), start, "REQUEST_ABORT", *told))


@pytest.mark.parametrize("step", ["edit-9", 7])
def test_a_checkpoint_of_a_step_without_a_call_is_found(step: Any) -> None:
    """#228: nobody can say what it would undo."""
    stray = {**CHECKPOINT, "stepId": step, "attempt": 7}

    assert ("I-8", "k1") in labels(born(*started(PAY_1), Draft("checkpoint", stray)))


# I-11: the operation.


def operation(**members: Any) -> Draft:
    """The third move of a run that runs."""
    move = {
        "schemaVersion": 1, "operationId": "op-1", "runId": RUN, "correlationId": f"{RUN}:op-1", "sequence": 3,
        "eventId": "m-9", "event": "PAUSE", "from": "running", "to": "paused", "timestamp": "2026-11-29T14:00:00.000Z",
    }  # fmt: skip
    return Draft("operation", {**move, **members})


WRONG_MOVES: dict[str, dict[str, Any]] = {
    "a gap": {"sequence": 4},
    "another state before": {"from": "accepted"},
    "a move that is not legal": {"event": "START", "to": "running"},
    "another operation": {"operationId": "op-2"},
    "a repeated id": {"eventId": "m-2"},
    "no time": {"timestamp": "now"},
    "no identity": {"operationId": None},
    "no sequence": {"sequence": "3"},
}


@pytest.mark.parametrize("members", WRONG_MOVES.values(), ids=WRONG_MOVES)
def test_a_chain_that_cannot_be_restored_is_found_once(members: dict[str, Any]) -> None:
    """#231: behind a break nothing of the chain can be judged, so it is said once."""
    wrong = operation(**members)

    assert [("I-11", "")] == labels(born(wrong, wrong))
    assert [("I-11", "")] == labels(theirs(wrong, wrong))


def test_an_operation_of_another_run_is_found() -> None:
    """#231: a chain that restores may still be somebody else's."""
    stray = Draft("operation", {**journal("ACCEPT")[0].payload, "runId": "other"})

    assert [("I-11", "")] == labels(journal(Draft("start", {}), stray, own=False))


def test_a_run_completes_only_behind_the_end_of_its_agent() -> None:
    """Promise 8: text is not evidence, and neither is COMPLETE."""
    assert [("I-11", "")] == labels(born("COMPLETE"))
    assert [] == labels(theirs("COMPLETE"))


CLOSINGS: dict[str, list[Any]] = {
    "a pause of what runs": [closing("pause", "paused")],
    "a finish of what runs": [closing("finish", "failed")],
    "a finish of what is paused": ["PAUSE", closing("finish", "failed")],
    "a success of what failed": ["FAIL", closing("finish", "succeeded")],
    "a failure of what completed": [events.agent_end(1), "COMPLETE", closing("finish", "failed")],
    "no status": ["FAIL", closing("finish", None)],
    "no outcome": ["FAIL", Draft("finish", {"outcome": []})],
    "another operation": ["FAIL", Draft("finish", {"outcome": {"status": "failed"}, "operation": {}})],
}


@pytest.mark.parametrize("said", CLOSINGS.values(), ids=CLOSINGS)
def test_what_closes_a_leg_says_what_the_operation_came_to(said: list[Any]) -> None:
    """#231, promise 8: screens show the one or the other, and both must be true."""
    assert [("I-11", "")] == labels(born(*said))


def test_a_pause_of_what_is_paused_is_legal() -> None:
    """Every limit, every person's no and every Ctrl-C ends a leg like this."""
    assert [] == labels(born("PAUSE", closing("pause", "paused"), resume(2), "RESUME"))


# What is no record of any sense.


@pytest.mark.parametrize(("kind", "label"), [("operation", "I-11"), ("event", "I-6"), ("finish", "I-6")])
def test_a_payload_that_is_no_object_is_found(kind: Any, label: str) -> None:
    """#100: nothing is read out of it, and nothing is made of it."""
    assert [(label, "")] == labels(born(Draft(kind, [])))  # type: ignore[arg-type]  # what a file may hold


def test_an_event_without_a_type_is_passed_over() -> None:
    """What says nothing breaks no invariant; that it may not stand there is the fold's to say."""
    assert [] == labels(born(Draft("event", {}), Draft("event", {"event": {"type": 3}}), Draft("loop", {})))


def test_no_records_are_no_findings() -> None:
    """#62: an empty journal is an error elsewhere."""
    assert [] == labels([])


MEMBERS = (
    "type",
    "stepId",
    "callId",
    "turnId",
    "idempotencyKey",
    "status",
    "attempt",
    "approvalId",
    "outcome",
    "event",
)
WORDS = st.sampled_from(["tool_call", "effect_receipt", "tool_attempt", "step_output", "effect_review", "pay-1", "c1"])
VALUES = st.sampled_from([*SPOILT, "pay-1", "c1", {"leg": {}}, {"type": []}, [[]]])
NONSENSE = st.dictionaries(st.sampled_from(MEMBERS), WORDS | VALUES, max_size=6)
KINDS = st.sampled_from(["start", "resume", "operation", "event", "pause", "finish", "checkpoint", "loop"])


@given(st.lists(st.tuples(KINDS, NONSENSE.map(lambda said: {"event": said}) | NONSENSE), max_size=8), st.booleans())
def test_nonsense_is_never_an_error(said: list[tuple[Any, Any]], own: bool) -> None:
    """It looks where the fold gave up; if it failed there as well, nobody would look at all."""
    found = findings(journal(*started(PAY_1), *(Draft(kind, payload) for kind, payload in said), own=own))

    assert set(INVARIANTS) >= {finding.label for finding in found}


def test_a_finding_keeps_its_place() -> None:
    """Line and number differ in a journal that lost a record; whoever looks needs both."""
    records = born(*started(PAY_1))
    del records[1]
    found = [(finding.label, finding.line, finding.sequence) for finding in check(records)]

    assert [("I-1", 2, 3), ("I-11", 2, 3)] == found


def test_a_checker_may_keep_few_and_count_all() -> None:
    """A snapshot shows the first; the number says that there are more."""
    checker = Checker(keep=2)
    for record in born(*ENDED, *[events.error("late", fatal=True)] * 5):
        checker.see(record)
    checker.end()

    assert (2, 5) == (len(checker.found), checker.count)


# Legal runs.


@given(histories())
def test_no_legal_history_gives_a_finding(history: History) -> None:
    """Reruns, probes, reviews, late settlements, aborts, deaths at every append: the checker agrees with the writer."""
    assert [] == labels(history.records)


@given(histories(max_deeds=8))
def test_no_beginning_of_a_legal_history_gives_a_finding(history: History) -> None:
    """A torn end leaves any number of whole lines; every prefix is a legal, more doubtful state."""
    records = history.records
    cut = [labels(records[:count]) for count in range(len(records))]

    assert [[]] * len(records) == cut


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_journals_give_no_finding(path: Any) -> None:
    """#233: ours of today; every line prefix was read by the reference and judged by it."""
    records = loaded(path)

    assert [[]] * (len(records) + 1) == [labels(records[:count]) for count in range(len(records) + 1)]


# What it adds to the fold.


def loaded(path: Any) -> list[Record]:
    run_id = json.loads(path.read_bytes().splitlines()[0])["runId"]
    return [record for record, _ in read(path.read_bytes(), run_id)]


def folded(placed: list[tuple[Record, int]]) -> bool:
    try:
        fold(placed, RUN)
    except Corrupt:
        return False
    return True


def written(*said: Any) -> list[tuple[Record, int]]:
    """A journal that the fold can follow, as records in their places."""
    scribe = Scribe().born()
    scribe.say(*said)
    return read(scribe.data)


def missed(deed: Callable[[list[Record]], object], *said: Any) -> tuple[bool, list[str]]:
    """Does the fold follow a journal behind this deed, and what does the checker find?"""
    records = [record for record, _ in written(*said)]
    deed(records)
    placed = respoken(records)
    return folded(placed), [finding.label for finding in check(record for record, _ in placed)]


def test_it_finds_what_the_fold_lets_pass() -> None:
    """A second opinion that only repeats the first is none."""
    done = [*started(PAY_1), *returned(PAY_1)]

    assert (True, ["I-7"]) == missed(lambda records: records.append(copy.deepcopy(records[-1])), *done)
    assert (True, ["I-5"]) == missed(lambda records: said_of(records[3]).update(turnId="turn-5"), *proposed(PAY_1))
    assert (True, ["I-7"]) == missed(
        lambda records: said_of(records[-1]).update(stepId="pay-1"), *proposed(PAY_1), events.step_output("plan-1", "1")
    )


def said_of(record: Record) -> dict[str, Any]:
    """What a record says: its event's members, or its own."""
    told: dict[str, Any] = record.payload["event"] if record.kind == "event" else record.payload
    return told


def name_of(record: Record) -> str:
    told = said_of(record)
    return str(told.get("status") or told.get("type") or told.get("event") or record.kind)


# What nobody can see once the chain is linked anew: a record that could as well have been torn off or never said,
# two that say things of different subjects, and members that only say something.
UNSEEN = {
    "lose": {
        "approval_required", "committed", "effect_review", "finish", "leg_ended", "pause", "step_output", "tool_result",
        "turn_end", "unknown",
    },
    "double": {"agent_start", "capability_resolved"},
    "swap": {
        "approval_required PAUSE", "committed tool_result", "resume effect_review", "started resume",
        "tool_result agent_end", "turn_end approval_required", "turn_end tool_call",
    },
}  # fmt: skip
SAYING = {
    "ACCEPT": {"eventId"}, "START": {"eventId"}, "PAUSE": {"eventId", "reason"}, "RESUME": {"eventId"},
    "COMPLETE": {"eventId"},
    "start": {
        "agentPath", "codeDigest", "configFingerprint", "configName", "configParts", "initialPrompt", "input", "limits",
        "schemaVersion", "tools", "workspace",
    },
    "resume": {"completedStepIds", "lockProof", "plan", "resumedAt", "tailRepaired"},
    "pause": {"artifacts", "evaluation", "extensions", "metrics", "releaseReadiness"},
    "finish": {"artifacts", "evaluation", "extensions", "metrics", "releaseReadiness"},
    "agent_start": {"agent", "requestFingerprint"}, "turn_end": {"agent", "usage"}, "agent_end": {"agent", "output"},
    "approval_required": {
        "agent", "approvalId", "args", "argumentsFingerprint", "capability", "effect", "risk", "runId", "tool",
    },
    "tool_call": {"agent", "args"}, "capability_resolved": {"agent"},
    "started": {"agent"}, "committed": {"agent"}, "unknown": {"agent"},
    "step_output": {"agent", "stepId", "text"}, "tool_result": {"agent", "isError"},
    "effect_review": {"by", "evidence", "reason", "resultRecorded", "reviewId"},
}  # fmt: skip


def unseen(records: list[Record], deed: Callable[[list[Record]], object]) -> bool:
    """Is a journal that was spoiled so, numbered and chained anew, found by neither fold nor checker?"""
    spoiled = copy.deepcopy(records)
    deed(spoiled)
    placed = respoken(spoiled, records[0].run_id)
    try:
        fold(placed, records[0].run_id)
    except Corrupt:
        return False
    return not list(check(record for record, _ in placed))


def lose(at: int, spoiled: list[Record]) -> None:
    del spoiled[at]


def double(at: int, spoiled: list[Record]) -> None:
    spoiled.insert(at, copy.deepcopy(spoiled[at]))


def swap(at: int, spoiled: list[Record]) -> None:
    spoiled[at : at + 2] = spoiled[at : at + 2][::-1]


def edit(at: int, member: str, spoiled: list[Record]) -> None:
    told = said_of(spoiled[at])
    told[member] = "another" if told[member] == "other" else "other"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_is_lost_doubled_or_swapped_is_found_or_could_as_well_be_true(path: Any) -> None:
    """Without its chain a journal is only as safe as its sense: what neither fold nor checker sees is written here."""
    records = loaded(path)
    names = [name_of(record) for record in records]
    pairs = [" ".join(names[place : place + 2]) for place in range(len(names) - 1)]
    found = {
        "lose": {name for place, name in enumerate(names) if unseen(records, partial(lose, place))},
        "double": {name for place, name in enumerate(names) if unseen(records, partial(double, place))},
        "swap": {pair for place, pair in enumerate(pairs) if unseen(records, partial(swap, place))},
    }

    assert {deed: set() for deed in found} == {deed: found[deed] - UNSEEN[deed] for deed in found}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_changed_member_is_found_or_only_says_something(path: Any) -> None:
    """Arguments, texts, names of people, configurations: the chain alone protects them."""
    records = loaded(path)
    places = [(place, member) for place, record in enumerate(records) for member in said_of(record)]
    found = {
        f"{name_of(records[place])}.{member}"
        for place, member in places
        if unseen(records, partial(edit, place, member))
    }

    assert set() == found - {f"{name}.{member}" for name, members in SAYING.items() for member in members}


# Their own files.


def test_the_fixtures_of_the_reference_give_no_finding() -> None:
    """#233: a run of 0.3.1 with its checkpoint and session, and an old one of 0.3.0 whose loop used one step id."""
    current = json.loads(case("coremind-0.3.1-current-correlated.json"))
    records = [record_of(one) for one in current["runRecords"]]
    session = SessionFacts(current["session"]["sessionId"], max(one["seq"] for one in current["session"]["entries"]))
    legacy = [record_of(json.loads(line)) for line in case("coremind-0.3.0-legacy-run.jsonl").splitlines()]

    assert [] == labels(records, session=session, checkpoints=current["checkpoints"])
    assert [] == labels(legacy)
