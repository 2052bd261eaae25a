"""Contract §3.D, the resume plan: what several rooms assert together. Rows and refusals are in `core/test_resume`."""

from typing import Any

import pytest

import clew
from clew.core import events
from clew.core.folding import fold
from clew.core.records import Draft, Record
from clew.core.resume import Facts, Fingerprint, Step, prepare_run_resume
from clew.errors import Corrupt
from clew.testing.crash import CrashPoint
from tests.histories import CONFIG, RUN, Scribe, completed, facts, foreign, paused, read, refold, returned, started
from tests.runtime.scene import WAYS, Scene, agent_of, paying
from tests.runtime.test_drivers import crash

ways = pytest.mark.parametrize("way", WAYS)
CALL = facts()
NOW = Facts(at_ms=0)
OURS = Fingerprint(**CONFIG)


def written() -> Scribe:
    """A run with a call that was answered and a step, paused and resumed."""
    scribe = Scribe().born()
    scribe.say(*started(CALL))
    scribe.say(*returned(CALL))
    scribe.say(events.step_output("plan-1", '"a list of orders"'))
    scribe.say(*paused())
    return scribe.opened("resume")


def code_of(records: list[tuple[Record, int]], run_id: str = RUN) -> str:
    """The code of the refusal to fold these records."""
    with pytest.raises(Corrupt) as caught:
        fold(records, run_id)
    return caught.value.code


def test_records_out_of_their_order_are_refused() -> None:
    """#63, promise 4: sorting first would hide that somebody moved a record; ours and another program's alike."""
    ours = read(written().data)
    theirs = foreign(("start", {}), ("resume", {}), ("pause", {}), run_id=RUN)

    swapped = [[*records[:1], records[2], records[1], *records[3:]] for records in (ours, theirs)]

    assert ["run_state_corrupt"] * 2 == [code_of(records) for records in swapped]


def test_a_journal_says_first_what_the_run_is() -> None:
    """#65: without its start nobody knows with which configuration and input it may go on."""
    assert "run_state_corrupt" == code_of(foreign(("event", {})), "run-1")


def test_a_completed_step_is_in_the_plan_and_its_output_where_the_plan_says() -> None:
    """#68: the plan names the step and the end it holds for; who said what is read from the record, not kept."""
    scribe = written()
    state = scribe.state
    plan = prepare_run_resume(state, OURS, NOW)
    answer = state.steps.get("plan-1")
    assert answer is not None

    said = {at: record.payload["event"] for record, at in read(scribe.data) if record.kind == "event"}
    output = {name: said[answer.position][name] for name in ("stepId", "agent", "text")}

    assert Step("plan-1", "skip", "step_stable") in plan.steps
    assert {"stepId": "plan-1", "agent": "main", "text": '"a list of orders"'} == output
    assert (plan.sequence, state.trace_sequence) == (len(read(scribe.data)), len(said))


def test_the_operation_is_the_one_that_was_written() -> None:
    """#70: snapshot and records, so that a resume moves the same operation on and no second one begins."""
    scribe = written()
    found, original = refold(scribe.data).operation, scribe.state.operation
    assert found is not None
    assert original is not None

    assert (original.snapshot(), original.records) == (found.snapshot(), found.records)


def test_a_resumed_journal_is_numbered_on() -> None:
    """#71, #79: every record and every event has the next number, over legs; a start names no session to do so."""
    scene, broken = Scene(), [True]
    pay = paying(scene, "plain")

    def script(run: Any) -> Any:
        yield run.call(pay, order="a")
        if broken.pop() if broken else False:
            raise LookupError("a bug")
        return (yield run.call(pay, order="b"))

    agent = agent_of("plain", script, pay)
    stopped = scene.run(agent)
    result = scene.resume(agent)
    traced = [line["payload"]["sequence"] for line in scene.lines if line["kind"] == "event"]

    assert ("paused", "completed") == (stopped.operation.state, result.operation.state)
    assert list(range(1, len(scene.lines) + 1)) == [line["sequence"] for line in scene.lines]
    assert list(range(1, len(traced) + 1)) == traced
    assert not {"sessionSeqStart", "turnSeqStart"} & set(scene.lines[0]["payload"])


@ways
def test_a_run_that_died_running_is_paused_and_resumed_in_one_append(way: str) -> None:
    """#80 where DESIGN §13 lets it stand: the journal says that it was interrupted before it says that it goes on."""
    scene = Scene()
    pay = paying(scene, way)
    agent = agent_of(way, lambda run: (yield run.call(pay)), pay)
    crash(scene, agent, CrashPoint(1, 0))
    result = scene.resume(agent)
    moves = [line for line in scene.lines if line["kind"] == "operation"]
    told = [(line["payload"]["event"], line["payload"].get("reason"), line["append"]) for line in moves]
    opened = next(line["sequence"] for line in scene.lines if line["kind"] == "resume")

    assert [("PAUSE", "process_interrupted", opened), ("RESUME", None, opened)] == told[2:4]
    assert "completed" == result.operation.state


SPOILED: list[dict[str, Any]] = [{"runId": None}, {"sequence": "1"}, {"timestamp": None}, {"eventId": " "}]


@pytest.mark.parametrize("spoiled", SPOILED, ids=str)
def test_an_event_without_its_envelope_is_refused(spoiled: dict[str, Any]) -> None:
    """#77, W12: it is refused when it is written as when it is read, so no append can make a run unreadable."""
    scribe = Scribe().born()
    envelope = scribe.compose(events.error("so", fatal=False)).batch.records[0].payload
    whole = scribe.ahead().say(Draft("event", envelope))
    with pytest.raises(Corrupt) as caught:
        scribe.say(Draft("event", {**envelope, **spoiled}))
    record = whole.batch.records[0]
    record.payload.update(spoiled)

    assert ["run_state_corrupt"] * 2 == [caught.value.code, code_of([*read(scribe.data), (record, len(scribe.data))])]


def test_a_run_that_died_before_its_finish_does_not_go_on() -> None:
    """W13, W14: between the operation's end and the finish record the plan refuses and the snapshot says no."""
    scribe = Scribe().born()
    scribe.say(*completed()[:-1])
    with pytest.raises(clew.Refused) as caught:
        prepare_run_resume(refold(scribe.data), OURS, NOW)

    assert "run_already_finished" == caught.value.code
