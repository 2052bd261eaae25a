"""What a layer above the run may put into its journal, and how it asks the run to pause."""

import threading
from typing import Any

import pytest

import clew
from clew.core.outcome import EXIT_BY_REASON
from clew.errors import UsageError
from tests.runtime.scene import RUN, WAYS, Scene, agent_of, start

ways = pytest.mark.parametrize("way", WAYS)


def told(run: Any, **changes: Any) -> dict[str, Any]:
    """The first snapshot of a loop of this run."""
    first = {
        "schemaVersion": 1, "machineVersion": "1", "runId": run.run_id, "configFingerprint": run.config_fingerprint,
        "phase": "executing", "iteration": 1, "repairCount": 0, "repeatedActionCount": 0, "transitionSequence": 1,
    }  # fmt: skip
    return {**first, **changes}


def bug() -> None:
    raise LookupError("a bug")


@ways
def test_what_was_recorded_is_there_on_a_resume(way: str) -> None:
    """A layer above the run begins where its last record says."""
    scene, seen = Scene(), []

    def script(run: Any) -> Any:
        seen.append(run.recorded("loop"))
        if len(seen) == 1:
            yield run.record("loop", told(run))
            seen.append(run.recorded("loop"))
            bug()
        yield run.step("last", lambda: 1)

    agent = agent_of(way, script)
    scene.run(agent)
    scene.resume(agent)

    assert [None, seen[1], seen[1]] == seen
    assert "executing" == seen[1]["phase"]


@ways
def test_a_fact_is_durable_when_it_was_recorded(way: str) -> None:
    """What comes after it may rest on it."""
    scene, kinds = Scene(), []

    def script(run: Any) -> Any:
        yield run.record("loop", told(run))
        kinds.append(scene.lines[-1]["kind"])

    scene.run(agent_of(way, script))

    assert ["loop"] == kinds


def plain_refusal(deed: Any) -> str:
    """Refused before anything is awaited."""

    def agent(run: clew.SyncRun, prompt: Any) -> str:
        with pytest.raises(UsageError) as caught:
            deed(run)
        return caught.value.code

    scene = Scene()
    output = scene.run(clew.Agent(agent)).output
    assert "loop" not in [line["kind"] for line in scene.lines]
    return str(output)


@pytest.mark.parametrize("kind", ["event", "start", "finish", "note", ""])
def test_the_runs_own_kinds_are_not_for_others(kind: str) -> None:
    """A finish that an agent wrote by hand would be a false end."""
    codes = [plain_refusal(lambda run: run.record(kind, {})), plain_refusal(lambda run: run.recorded(kind))]

    assert ["invalid_record_kind", "invalid_record_kind"] == codes


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"transitionSequence": 7}, "invalid_record"),
        ({"runId": "another"}, "invalid_record"),
        ({"more": 1}, "invalid_record"),
        ({"failureMessage": "x" * 5000}, "invalid_record"),
        ({"phase": 1j}, "value_not_json"),
    ],
    ids=str,
)
def test_a_fact_that_could_not_stand_is_refused_and_the_run_goes_on(change: dict[str, Any], code: str) -> None:
    """Bad input costs an error, not the journal: nothing was written, the next append is as good as before."""
    assert code == plain_refusal(lambda run: run.record("loop", told(run, **change)))


@ways
def test_an_agent_pauses_its_run_for_a_reason_of_its_own(way: str) -> None:
    """The reason and its words are what every door shows; a resume goes on."""
    scene, legs = Scene(), []

    def script(run: Any) -> Any:
        legs.append(run.stopping)
        if len(legs) == 1:
            try:
                run.pause("nothing_to_do", "the folder is empty")
            finally:
                legs.append(run.stopping)
        yield run.step("last", lambda: 1)
        return "done"

    agent = agent_of(way, script)
    paused = scene.run(agent)
    outcome = paused.snapshot["outcome"]
    done = scene.resume(agent)

    assert ("paused", "nothing_to_do", "the folder is empty") == (
        paused.operation.state, outcome["finishReason"], outcome["error"]["message"],
    )  # fmt: skip
    assert (["", "nothing_to_do", ""], "done") == (legs, done.output)


@pytest.mark.parametrize(
    "reason",
    ["", "Nothing", "a b", "9", "x" * 65, *sorted(EXIT_BY_REASON.keys() - {"loop_exhausted", "loop_no_progress"})],
)
def test_a_reason_that_means_something_else_is_refused(reason: str) -> None:
    """`unknown_effect` said by an agent would send a person to look for an effect that there is not."""
    assert "invalid_pause_reason" == plain_refusal(lambda run: run.pause(reason))


def test_secrets_are_hidden_in_what_is_recorded() -> None:
    """A message from outside may carry one."""
    scene = Scene()

    def script(run: Any) -> Any:
        said = {"phase": "failed", "failureCode": "x", "failureMessage": "no user hunter22"}
        yield run.record("loop", told(run, **said))
        run.pause("nothing_to_do", "hunter22")

    scene.run(agent_of("plain", script, secrets=["hunter22"]))

    assert "hunter22" not in scene.memory.raw(RUN).decode()


def test_a_record_from_a_thread_of_nobody_is_refused() -> None:
    """As every call: whose run it is must be certain."""
    scene, codes = Scene(), []

    def agent(run: clew.SyncRun, prompt: Any) -> None:
        def bare() -> None:
            with pytest.raises(clew.Refused) as caught:
                run.record("loop", told(run))
            codes.append(caught.value.code)

        thread = threading.Thread(target=bare)
        thread.start()
        thread.join()

    start(scene.home(), agent)

    assert ["call_outside_of_step"] == codes
