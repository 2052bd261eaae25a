"""Contract §3.B, appending, reading and what is refused, as far as it is about several rooms at once."""

import inspect
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.core.compose import Close, compose
from clew.core.outcome import Outcome
from clew.disk.files import PIECE
from clew.errors import Corrupt, Held, NotFound, Storage, UsageError
from clew.stores.base import RunWriter
from clew.stores.jsonl import FileRunStore
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.testing.clock import SetClock
from tests.histories import Scribe, facts, start, started
from tests.stores.lab import FileLab, Hand, Lab, MemoryLab, code_of, go_on, read_all, verdict

LINE = '{"version":1,"runId":"r1","sequence":%d,"timestamp":"2026-11-29T14:00:00.000Z","kind":"%s","payload":%s}\n'
THEIR_START = (
    '{"configName":"x","schemaVersion":1,"configFingerprint":"legacy","initialPrompt":"go","operationId":"op-1"}'
)
COMPACTED = (
    '{"eventId":"e1","runId":"r1","sequence":1,"timestamp":"2026-11-29T14:00:00.000Z","event":{"type":'
    '"context_compacted","beforeTokens":9,"afterTokens":2,"removedMessages":3,"strategy":"deterministic-v1",'
    '"reason":"threshold","summaryFingerprint":"f"}}'
)


@pytest.fixture(params=["memory", "files"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    return MemoryLab() if request.param == "memory" else FileLab(tmp_path)


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def writer(lab: Lab, hand: Hand) -> Iterator[RunWriter]:
    writer = lab.store.create("r1", hand.start(lab.store))
    yield writer
    writer.close()


def refused(lab: Lab, data: bytes) -> tuple[list[str], bool]:
    """What a reader and a writer say of these bytes, and whether they left them as they were."""
    lab.implant("r1", data)
    writer = lab.store.open("r1")
    codes = [code_of(lambda: list(lab.store.read("r1")), Corrupt), code_of(lambda: go_on(writer), Corrupt)]
    writer.close()
    return codes, data == lab.raw("r1")


# ---------------------------------------------------------------------------------------------------- appended and read


def test_start_event_and_finish_are_records_1_2_and_3(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Contract #17: the numbers are those of the lines, so that anybody can count."""
    writer.append(hand.batch({"n": 1}))
    writer.append(hand.batch({}, kind="finish"))

    lines = [json.loads(line) for line in lab.raw("r1").splitlines()]

    assert [("start", 1), ("event", 2), ("finish", 3)] == [(line["kind"], line["sequence"]) for line in lines]


@pytest.mark.parametrize("run_id", ["a b", "ä", "a.b", "a:b", "a/b", "..", "a\n", "a\0b", "-a", "_a"])
def test_an_id_of_other_characters_makes_no_path(tmp_path: Path, run_id: str) -> None:
    """Contract #18: what was typed must not reach the file system; our ids also begin with a letter or a digit."""
    lab = FileLab(tmp_path)

    codes = [
        code_of(lambda: lab.store.create(run_id, Hand("r1").start(lab.store)), UsageError),
        code_of(lambda: lab.store.read(run_id), NotFound),
        code_of(lambda: lab.store.open(run_id), NotFound),
    ]

    assert (["invalid_run_id", "unknown_run", "unknown_run"], []) == (codes, list(tmp_path.iterdir()))


def test_an_append_tried_again_adds_nothing(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Contract #26: who was interrupted behind the sync may say the same once more, now or later."""
    first, second = hand.batch({"n": 1}, {"n": 2}), hand.batch({"n": 3})
    places = [writer.append(first), writer.append(first), writer.append(second)]
    before = lab.raw("r1")

    again = [writer.append(first), writer.append(second)]

    assert (places[0], [places[0], places[2]]) == (places[1], again)
    assert (before, False) == (lab.raw("r1"), writer.poisoned)
    assert [1, 2, 3, 4] == verdict(lab, "r1")[0]


def test_another_record_under_a_used_number_is_a_conflict(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Contract #27: two writers never overwrite each other, and neither is told that its record is there."""
    other = Hand("r1", hand.sequence, hand.chain).batch({"n": 2})
    writer.append(hand.batch({"n": 1}))
    before = lab.raw("r1")

    codes = [code_of(lambda: writer.append(other), Storage), code_of(lambda: writer.append(other), Storage)]

    assert (["run_state_conflict", "fact_ledger_poisoned"], before) == (codes, lab.raw("r1"))


def test_a_longer_batch_that_begins_like_the_last_one_is_a_conflict(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Contract #27: a half that is there is not the whole."""
    longer = Hand("r1", hand.sequence, hand.chain).batch({"n": 1}, {"n": 2})
    writer.append(hand.batch({"n": 1}))

    code = code_of(lambda: writer.append(longer), Storage)

    assert ("run_state_conflict", [1, 2]) == (code, verdict(lab, "r1")[0])


@pytest.mark.parametrize(("end", "code"), [("x", ""), ("y", "run_state_conflict")])
def test_a_long_append_is_compared_to_its_last_byte(
    lab: Lab, writer: RunWriter, hand: Hand, end: str, code: str
) -> None:
    """Contract #26, #27: longer than what is read at once, and other only where it ends."""
    pad = "x" * (PIECE * 5 // 2)
    again = Hand("r1", hand.sequence, hand.chain).batch({"pad": pad}, {"pad": pad + end})
    writer.append(hand.batch({"pad": pad}, {"pad": pad + "x"}))

    met = code_of(lambda: writer.append(again), Storage) if code else writer.append(again)

    assert (code or len(Hand().start(lab.store).data), [1, 2, 3]) == (met, verdict(lab, "r1")[0])


def test_a_record_that_is_not_the_next_is_a_conflict(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Contract #28: a gap is never written, and the error says which number was due."""
    hand.batch({"n": 1})

    with pytest.raises(Storage) as caught:
        writer.append(hand.batch({"n": 2}))

    said = caught.value.facts
    assert ("run_state_conflict", 3, 2) == (caught.value.code, said["sequence"], said["expected"])
    assert [1] == verdict(lab, "r1")[0]


def test_what_this_writer_has_not_read_is_never_acknowledged(lab: Lab, writer: RunWriter, hand: Hand) -> None:
    """Promise 12 against contract #26: the very bytes may stand in the cache alone, left by a sync that failed."""
    batch = hand.batch({"n": 1})
    writer.append(batch)
    writer.close()
    unread = lab.store.open("r1")

    code = code_of(lambda: unread.append(batch), Storage)

    assert "run_state_conflict" == code
    unread.close()


# ------------------------------------------------------------------------------------------------------- several stores


def test_of_two_stores_that_append_the_same_number_one_does(tmp_path: Path) -> None:
    """Contract #29: the loser is told who holds the run, and later that its number is taken."""
    lab, hand = FileLab(tmp_path), Hand()
    other = FileRunStore(lab.root)
    writer = lab.store.create("r1", hand.start(lab.store))
    late = Hand("r1", hand.sequence, hand.chain).batch({"by": "other"})
    codes = [code_of(lambda: other.open("r1", wait_s=0.0), Held)]
    writer.append(hand.batch({"by": "first"}))
    writer.close()
    second = other.open("r1")
    go_on(second)

    codes.append(code_of(lambda: second.append(late), Storage))

    second.close()
    records, _ = read_all(lab.store.read("r1"))
    assert ["run_state_locked", "run_state_conflict"] == codes
    assert [(1, None), (2, "first")] == [(record.sequence, record.payload.get("by")) for record in records]


def test_sixty_four_stores_read_and_sync_one_run_together(tmp_path: Path) -> None:
    """Contract #30, W7: readers wait for nobody, writers for each other, and nobody breaks anything."""
    lab, hand = FileLab(tmp_path), Hand()
    lab.store.create("r1", hand.start(lab.store)).close()
    before, ends, gate = lab.raw("r1"), list[str](), threading.Barrier(64)

    def looks(store: FileRunStore) -> str:
        return read_all(store.read("r1"))[1].verdict

    def syncs(store: FileRunStore) -> str:
        writer = store.open("r1", wait_s=100.0)
        go_on(writer)
        writer.close()
        return "synced"

    def works(deed: Callable[[FileRunStore], str]) -> None:
        gate.wait(60)
        ends.append(deed(FileRunStore(lab.root)))

    threads = [threading.Thread(target=works, args=[syncs if n % 2 else looks]) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(110)

    assert (["clean"] * 32 + ["synced"] * 32, before) == (sorted(ends), lab.raw("r1"))


@pytest.mark.parametrize("store", [FileRunStore, MemoryRunStore])
def test_a_held_run_is_waited_for_two_seconds_unless_said_otherwise(store: Any) -> None:
    """Contract #31: the death of its holder may be that fresh."""
    waits = inspect.signature(store.open).parameters["wait_s"].default

    assert 2.0 == waits


def test_a_run_that_stays_held_is_refused_and_left_alone(lab: Lab, writer: RunWriter) -> None:
    """Contract #31: the lock is never taken from a holder."""
    before = lab.raw("r1")

    code = code_of(lambda: lab.store.open("r1", wait_s=0.05), Held)

    assert ("run_state_locked", before, False) == (code, lab.raw("r1"), writer.poisoned)


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("line", [b"{", b'{"version":1', b"null", b"not json", b"\0" * 700, LINE.encode() + b"x"])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_broken_first_line_is_refused_and_nothing_dropped(lab: Lab, line: bytes, end: bytes) -> None:
    """Contract #19: a journal is born whole, so there is nothing torn that could be cut off."""
    found = refused(lab, line + end)

    assert (["run_state_corrupt"] * 2, True) == found


@pytest.mark.parametrize("after", [0, 2, 7])
def test_a_whole_last_line_of_another_number_is_refused_and_kept(lab: Lab, hand: Hand, after: int) -> None:
    """Contract #21: nothing of it is missing, it is wrong; to cut it would destroy what somebody wrote."""
    whole = hand.start(lab.store).data
    wrong = Hand("r1", after, hand.chain).batch({"n": 1}).data.rstrip(b"\n")

    found = refused(lab, whole + wrong)

    assert (["run_state_corrupt"] * 2, True) == found


def test_an_unchained_last_line_of_another_number_is_refused_and_kept(lab: Lab) -> None:
    """Contract #21 in the words of the reference: no chain, no LF, and still a whole record."""
    found = refused(lab, (LINE % (1, "start", "{}") + LINE % (3, "event", "{}")).rstrip().encode())

    assert (["run_state_corrupt"] * 2, True) == found


@pytest.mark.parametrize("broken", [b'{"vers\n', b"x\n", b"\n"])
@pytest.mark.parametrize("last", [True, False])
def test_a_broken_line_that_was_ended_is_refused_wherever_it_is(
    lab: Lab, hand: Hand, broken: bytes, last: bool
) -> None:
    """Contract #22 where DESIGN §13 lets it stand: without a lost sector an LF says that the line was written whole."""
    whole, following = hand.start(lab.store).data, hand.batch({"n": 1}).data

    found = refused(lab, whole + broken + (b"" if last else following))

    assert (["run_state_corrupt"] * 2, True) == found


def test_a_missing_journal_is_an_unknown_run(lab: Lab) -> None:
    """Contract #23 as DESIGN §9 has it: "no such run" and "a run without records" are not one answer."""
    codes = [code_of(lambda: lab.store.read("r1"), NotFound), code_of(lambda: lab.store.open("r1"), NotFound)]

    assert (["unknown_run"] * 2, []) == (codes, list(lab.store.ids()))


@pytest.mark.parametrize("numbers", [(2,), (1, 1), (1, 3), (1, 2, 2), (2, 1), (1, 3, 2)])
def test_records_that_are_not_numbered_by_their_place_are_refused(lab: Lab, numbers: tuple[int, ...]) -> None:
    """Contract #24, W37: order is the order in the file; sorted first, a moved line would never be noticed."""
    data = "".join(LINE % (number, "start" if number == 1 else "event", "{}") for number in numbers)

    found = refused(lab, data.encode())

    assert (["run_state_corrupt"] * 2, True) == found


def test_a_record_without_an_event_id_comes_back_without_one(lab: Lab) -> None:
    """Contract #38: an id that a reader invented would be another one at the next reading."""
    lab.implant("r1", (LINE % (1, "start", THEIR_START) + LINE % (2, "event", COMPACTED)).encode())

    records, tail = read_all(lab.store.read("r1"))

    told = [msgspec.to_builtins(record) for record in records]
    assert ["version", "runId", "sequence", "timestamp", "kind", "payload"] == list(told[0])
    assert (list(told[0]), "clean") == (list(told[1]), tail.verdict)


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_a_blank_event_id_is_not_appended(blank: str) -> None:
    """Contract #39, W12: what no reader would accept is not written, whatever kind of record it is."""
    state = Scribe().state

    with pytest.raises(Corrupt, match="eventId is blank") as caught:
        compose(state, [start()], at="2026-11-29T14:00:00.000Z", new_id=lambda: blank, size_bytes=0)

    assert ("run_state_corrupt", 0) == (caught.value.code, state.sequence)


@pytest.mark.parametrize("blank", ["", " "])
def test_a_blank_event_id_is_not_read(lab: Lab, blank: str) -> None:
    """Contract #39: an id that names nothing cannot be applied once."""
    line = (LINE % (1, "start", "{}")).replace('"timestamp"', f'"eventId":"{blank}","timestamp"', 1)

    found = refused(lab, line.encode())

    assert (["run_state_corrupt"] * 2, True) == found


@pytest.mark.parametrize(
    "axis", [{"effectState": "maybe"}, {"executionOutcome": 3}, {"effectState": "started"}], ids=str
)
def test_a_lifecycle_fact_is_not_appended(axis: dict[str, Any]) -> None:
    """Contract #41: an unknown word is refused; our walk is the lifecycle, so no such fact is ours to write."""
    scribe = Scribe().born()
    scribe.say(*started(facts()))
    fact = {
        "type": "tool_lifecycle",
        "callId": "c1",
        "resolution": {"phase": "observed", "status": "completed", "result": axis},
    }

    with pytest.raises(Corrupt) as caught:
        scribe.compose(fact)

    assert "run_state_corrupt" == caught.value.code


@pytest.mark.parametrize(
    "saying",
    [
        start(configFingerprint=3),
        {"type": "effect_receipt", "idempotencyKey": "k", "status": "started"},
        {"type": "step_output", "stepId": 3, "text": "1"},
        {"type": "control", "controlId": "x"},
        Close("pause", Outcome("paused", "x")),
        Close("finish", Outcome("succeeded", "completed")),
    ],
    ids=lambda saying: str(getattr(saying, "kind", None) or saying["type"]),
)
def test_what_a_resume_would_refuse_is_not_appended(saying: Any) -> None:
    """W12: the reference appended records that made their run unrecoverable."""
    scribe = Scribe() if getattr(saying, "kind", "") == "start" else Scribe().born()
    before = scribe.data

    with pytest.raises(Corrupt):
        scribe.say(saying)

    assert before == scribe.data


# -------------------------------------------------------------------------------------------------- of earlier versions


def planned(data: str) -> clew.Home:
    store = MemoryRunStore()
    store.implant("r1", data.encode())
    return clew.Home(".clew", store=store, blobs=MemoryBlobStore(), clock=SetClock())


def test_a_journal_without_later_members_is_read_and_planned() -> None:
    """Contract #43: no session watermarks, compactions without entry ids; what is not there is not missed."""
    home = planned(LINE % (1, "start", THEIR_START) + LINE % (2, "event", COMPACTED))

    plan = home.plan("r1")

    assert plan is not None
    assert (2, "clean") == (plan.sequence, home.verify("r1")["tail"]["verdict"])


def test_a_finished_journal_of_an_earlier_version_says_that_it_is_finished() -> None:
    """Contract #43: not corrupt: nothing is wrong with it, it is over."""
    finish = LINE % (3, "finish", '{"outcome":{"status":"succeeded","finishReason":"completed"}}')
    home = planned(LINE % (1, "start", THEIR_START) + LINE % (2, "event", COMPACTED) + finish)

    code = code_of(lambda: home.plan("r1"), clew.Refused)

    assert ("run_already_finished", "clean") == (code, home.verify("r1")["tail"]["verdict"])
