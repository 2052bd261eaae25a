import signal
from pathlib import Path

import pytest

import clew
from clew.cli.running import Terms, accepted
from clew.core.budget import RunBudget
from clew.core.records import Record
from clew.errors import UsageError
from clew.runtime.reviewing import Said
from tests.cli.shell import Shell

SETTLE = ("run", "agent.py:settle")


def test_a_run_ends_with_its_output_alone_on_stdout(shell: Shell) -> None:
    """What an agent prints on the way must not get into the answer that a script takes."""
    done = shell(*SETTLE, "1 2", "--run-id", "mine")

    assert (0, "T-1, T-2\n") == (done.code, done.out)
    assert "run mine\n" == done.err[: len("run mine\n")]
    assert "hello from the agent" in done.err
    assert "COMPLETED  mine" in done.err


def test_a_run_as_json_is_one_object(shell: Shell) -> None:
    """A program reads the state from the object and the id, at once, from stderr."""
    done = shell(*SETTLE, "1", "--run-id", "mine", "--json")

    expected: dict[str, object] = {
        "runId": "mine",
        "state": "completed",
        "reason": None,
        "message": "",
        "exit": 0,
        "output": "T-1",
        "waiting": [],
    }
    assert (expected, '{"runId":"mine"}') == (done.json, done.err.splitlines()[0])


def test_quiet_says_nothing_but_the_answer(shell: Shell) -> None:
    """For cron."""
    done = shell("run", "agent.py:patient", "1", "-q")

    assert (0, '{"transfer":"T-1"}\n', "holding\n") == (done.code, done.out, done.err)


def test_a_killed_run_is_shown_settled_and_goes_on(shell: Shell) -> None:
    """The main job, end to end: killed after the money moved, told, settled, resumed, paid once."""
    shell.raise_flag("die")
    killed = shell(*SETTLE, "1042 1043", "--run-id", "k3f9x2")
    listed = shell("ls")
    asked = shell("resume", "k3f")
    settled = shell(
        "settle", "k3f", "happened", "--by", "ann", "--reason", "bank", "--result", '{"transfer":"T-x"}'
    )  # fmt: skip
    resumed = shell("resume", "k3f")

    assert [-signal.SIGKILL, 0, 21, 0, 0] == [each.code for each in (killed, listed, asked, settled, resumed)]
    assert listed.out.startswith("INTERRUPTED  k3f9x2  1042 1043   writer pid ")
    assert "1 effect uncertain: pay order=1042 cents=4200 (started " in listed.out
    assert "next: clew settle k3f happened|did-not-happen --by … --reason …" in listed.out
    assert "process_gone: yes (no process" in asked.err
    assert "T-x, T-1043\n" == resumed.out
    assert ["1042", "1043"] == shell.payments


def test_a_tool_that_raises_waits_for_a_person_and_may_be_started_again(shell: Shell) -> None:
    """21, then the person's word that nothing happened, then 0."""
    shell.raise_flag("boom")
    paused = shell(*SETTLE, "1042", "--json")
    settled = shell("settle", "@last", "did-not-happen", "--by", "ann", "--reason", "no transfer")
    resumed = shell("resume", "@last")

    assert [21, 0, 0] == [paused.code, settled.code, resumed.code]
    assert ("paused", "unknown_effect", "pay-1") == (
        paused.json["state"], paused.json["reason"], paused.json["waiting"][0]["stepId"],
    )  # fmt: skip
    assert ["1042", "1042"] == shell.payments


def test_a_plan_can_be_looked_at_before(shell: Shell) -> None:
    """Nothing is touched by looking, and the same in JSON."""
    shell.raise_flag("boom")
    shell(*SETTLE, "1042")
    before = shell.bytes_and_times()

    shown, told = shell("resume", "@last", "--dry-run"), shell("resume", "@last", "--dry-run", "--json")

    assert "pay-1  review  it waits for a person: started, no answer\n" == shown.out
    assert "next: clew settle" in shown.err
    assert ["review"] == [step["decision"] for step in told.json["steps"]]
    assert before == shell.bytes_and_times()


def test_an_agent_that_raises_pauses_and_shows_its_traceback_on_demand(shell: Shell) -> None:
    """The journal keeps one line; whoever mends the agent needs the place."""
    done = shell("run", "agent.py:buggy", "-v")

    assert 22 == done.code
    assert 'raise ValueError("a bug")' in done.err
    assert "next: mend the agent, then clew resume" in done.err


def test_why_an_agent_raised_is_in_the_json_too(shell: Shell) -> None:
    """A program that only learns `agent_error` has to ask again."""
    done = shell("run", "agent.py:buggy", "--json")

    assert (22, "ValueError: a bug") == (done.code, done.json["message"])


def test_an_error_of_ours_in_the_agent_keeps_its_next_step(shell: Shell) -> None:
    """The state's advice is to mend the agent; the error's says how."""
    (shell.folder / "wrong.py").write_text("def agent(run, prompt):\n    return run.call('payy')\n", "utf-8")

    done = shell("run", "wrong.py:agent")

    assert "  hint: Declare it with the agent: @clew.agent(tools=[…]). [unknown_tool]\n" in done.err


def test_on_error_fail_ends_the_run(shell: Shell) -> None:
    """For those who want it."""
    done = shell("run", "agent.py:buggy", "--on-error", "fail")

    assert 3 == done.code


def test_a_limit_pauses_and_a_new_one_lets_it_go_on(shell: Shell) -> None:
    """5, and what was spent counts."""
    paused = shell(*SETTLE, "1 2 3", "--max-calls", "2")
    resumed = shell("resume", "@last", "--max-calls", "3")

    assert (5, 0, ["1", "2", "3"]) == (paused.code, resumed.code, shell.payments)


@pytest.mark.parametrize("agent", ["patient", "patient_plain"])
def test_ctrl_c_pauses_cleanly(shell: Shell, agent: str) -> None:
    """130: what had started ended, nothing more was started, and it goes on later."""
    live = shell.holding(agent)
    live.signal(signal.SIGINT)
    live.until("press Ctrl-C again to abort")
    paused = live.end()
    resumed = shell("resume", "held")

    assert (130, 0, ["7"]) == (paused.code, resumed.code, shell.payments)
    assert "PAUSED  held" in paused.err


@pytest.mark.parametrize("agent", ["patient", "patient_plain"])
def test_sigterm_pauses_cleanly(shell: Shell, agent: str) -> None:
    """143: the supervisor's way of saying the same."""
    live = shell.holding(agent)
    live.signal(signal.SIGTERM)
    live.until("terminated: pausing")
    paused = live.end()

    assert (143, []) == (paused.code, shell.payments)


def test_of_two_resumes_one_goes_on_and_the_other_is_held(shell: Shell) -> None:
    """11, before its first byte."""
    shell("run", "agent.py:patient", "7", "--run-id", "held", "--max-calls", "0")
    first = shell.start("resume", "held", "--max-calls", "9")
    first.until("holding")
    before = shell.bytes_and_times()

    second = shell("resume", "held", "--json")

    assert (11, "run_state_locked") == (second.code, second.error["code"])
    assert before == shell.bytes_and_times()
    assert 0 == first.end().code


def test_a_finished_run_is_not_resumed(shell: Shell) -> None:
    """4: refused, with a next step, before the agent's file is loaded."""
    shell(*SETTLE, "1")
    (shell.folder / "agent.py").unlink()

    done = shell("resume", "@last", "--json")

    assert (4, "run_already_finished") == (done.code, done.error["code"])


def test_the_agent_is_found_where_it_was_recorded_from_anywhere(shell: Shell) -> None:
    """Whoever is called at night stands in another folder."""
    shell(*SETTLE, "1", "--max-calls", "0")
    inner = shell.folder / "deep" / "inside"
    inner.mkdir(parents=True)
    home = shell.folder / ".clew"

    done = Shell(inner)("resume", "@last", "--max-calls", "9", "--home", str(home))

    assert (0, "T-1\n") == (done.code, done.out)


def test_an_agent_that_moved_is_named(shell: Shell) -> None:
    """2 with the option to use; and the option works."""
    shell(*SETTLE, "1", "--max-calls", "0")
    (shell.folder / "agent.py").rename(shell.folder / "moved.py")
    lost = shell("resume", "@last")
    found = shell("resume", "@last", "--agent", "moved.py:settle", "--max-calls", "9")

    assert (2, 0) == (lost.code, found.code)


def test_a_changed_configuration_is_accepted_by_name_or_not_at_all(shell: Shell) -> None:
    """4 first; with who and why it goes on, and the log says so."""
    shell(*SETTLE, "1", "--max-calls", "0")
    agent = shell.folder / "agent.py"
    agent.write_text(agent.read_text("utf-8").replace("tools=[pay])", 'tools=[pay], config={"model": "new"})'), "utf-8")
    refused = shell("resume", "@last", "--max-calls", "9", "--json")
    waiver = ("--accept-config", "--by", "ann", "--reason", "new model")
    resumed = shell("resume", "@last", "--max-calls", "9", *waiver)

    assert (4, "resume_config_mismatch", 0) == (refused.code, refused.error["code"], resumed.code)
    assert "accepted by ann: changed config: new model" in shell("show", "@last", "--log").out


def test_limits_said_now_stand_in_the_place_of_the_recorded_ones() -> None:
    """What is not said again still holds."""
    budget = Terms(max_calls=9).budget(RunBudget(max_calls=3, run_timeout_s=60))

    assert RunBudget(max_calls=9, run_timeout_s=60) == budget


def test_nothing_is_accepted_unless_it_is_said() -> None:
    """The usual resume."""
    said = accepted(False, None, None)

    assert said is None


def test_an_acceptance_has_a_name_and_a_reason() -> None:
    """As it is recorded."""
    said = accepted(True, "ann", "new model")

    assert Said("ann", "new model") == said


@pytest.mark.parametrize("said", [(True, None, None), (True, "ann", None), (True, "ann", " "), (False, "ann", "why")])
def test_half_an_acceptance_is_none(said: tuple[bool, str | None, str | None]) -> None:
    """A waiver by nobody is worth nothing."""
    with pytest.raises(UsageError, match="go together") as caught:
        accepted(*said)

    assert "acceptance_incomplete" == caught.value.code


def test_a_watcher_that_fails_does_not_touch_the_run(tmp_path: Path) -> None:
    """Telling is a courtesy; the run goes on, and the watcher is left alone from then on."""
    told: list[str] = []

    def watch(record: Record) -> None:
        told.append(record.kind)
        raise OSError("the terminal is gone")

    def agent(run: clew.SyncRun, prompt: str) -> str:
        return prompt

    result = clew.Home(tmp_path / ".clew").run_sync(agent, "done", on_record=watch)

    assert ("completed", ["start"]) == (result.operation.state, told)
