"""`clew resume --all`: what can go on goes on, one after another; the rest is named."""

import shutil
import sys
from typing import Any

import pytest

from clew.cli.resuming import WORST, require_one_or_all, worst
from clew.core.outcome import EXIT_BY_REASON
from clew.errors import UsageError
from tests.cli.shell import Shell

LATER = """
import clew
from pathlib import Path
import bank

@clew.agent
def waits(run, prompt):
    if not Path("now").exists():
        raise LookupError("not now")
    return bank.NAME
"""

DYING = """
import os, signal
import clew

@clew.agent
def dies(run, prompt):
    os.kill(os.getpid(), signal.SIGTERM)
    run.step("next", lambda: 1)
    return "never"
"""


def shop(shell: Shell, name: str, text: str = LATER) -> None:
    """A folder with an agent that goes on once it may, and a module of its own beside it."""
    (shell.folder / name).mkdir()
    (shell.folder / name / "agent.py").write_text(text, "utf-8")
    (shell.folder / name / "bank.py").write_text(f"NAME = {name!r}\n", "utf-8")


@pytest.fixture
def two(shell: Shell) -> Shell:
    """Two runs that raised, of two folders; now they may go on."""
    for name in ("north", "south"):
        shop(shell, name)
        shell("run", f"{name}/agent.py:waits", "--run-id", name)
    shell.raise_flag("now")
    return shell


def did(told: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["runId"]: one["did"] for one in told}


def test_every_run_that_can_go_on_goes_on_the_oldest_first(two: Shell) -> None:
    """After a reboot nobody wants to type each id."""
    done = two("resume", "--all")

    assert (0, ["RESUMED  north  completed", "RESUMED  south  completed"]) == (done.code, done.out.splitlines())
    assert "2 runs not ended: 2 resumed" in done.err


def test_two_agents_of_different_folders_get_each_its_own_modules(two: Shell) -> None:
    """Both have a module `bank`; the second must not pay by the first one's."""
    done = two("resume", "--all", "--json")

    assert {"north": "north", "south": "south"} == {one["runId"]: one["output"] for one in done.json}


def test_one_that_fails_does_not_keep_the_next_from_its_turn(two: Shell) -> None:
    """Its agent's file is gone; that is an error of that run alone."""
    (two.folder / "north" / "agent.py").unlink()

    done = two("resume", "--all", "--json")

    assert (2, {"north": "refused", "south": "resumed"}) == (done.code, did(done.json))
    assert "agent_not_found" == done.json[0]["error"]["code"]


def test_one_that_cannot_be_read_is_a_failure_of_its_own(two: Shell) -> None:
    """12 outweighs what the others came to."""
    (two.folder / ".clew" / "runs" / "north.jsonl").write_bytes(b"no journal\n")

    done = two("resume", "--all", "--json")

    assert (12, {"north": "refused", "south": "resumed"}) == (done.code, did(done.json))


def test_what_waits_for_a_person_is_named_and_left_as_it_is(two: Shell) -> None:
    """It is no failure: nothing that this command could do would help it."""
    two.raise_flag("boom")
    two("run", "agent.py:settle", "1042", "--run-id", "doubtful")
    journal = two.folder / ".clew" / "runs" / "doubtful.jsonl"
    before = journal.read_bytes()

    done = two("resume", "--all")

    assert (0, before) == (done.code, journal.read_bytes())
    assert "SKIPPED  doubtful  paused: pay-1: an effect needs a person" in done.out
    assert "3 runs not ended: 2 resumed, 1 skipped" in done.err


def test_what_waits_for_a_new_limit_is_named_unless_one_is_given(shell: Shell) -> None:
    """Under the old one it would only pause again."""
    shell("run", "agent.py:settle", "1 2", "--run-id", "limited", "--max-calls", "1")

    left = shell("resume", "--all", "--json")
    done = shell("resume", "--all", "--json", "--max-calls", "5")

    assert [(0, "skipped"), (0, "resumed")] == [(each.code, each.json[0]["did"]) for each in (left, done)]
    assert ["1", "2"] == shell.payments


def test_what_waits_for_a_new_limit_waits_also_behind_a_command_that_was_cut_off(shell: Shell) -> None:
    """The leg that died called no agent: the limit is still the one that was reached."""
    shell("run", "agent.py:settle", "1 2", "--run-id", "limited", "--max-calls", "1")
    shell.start("steer", "limited", "go on", "--by", "ann").end()
    journal = shell.folder / ".clew" / "runs" / "limited.jsonl"
    *lines, last = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines))
    (journal.with_suffix("") / "head.json").unlink()

    listed = shell("ls", "--json").json[0]
    left = shell("resume", "--all", "--json")

    assert (True, "interrupted", "paused") == (b"leg_ended" in last, listed["shown"], listed["state"])
    assert (0, "skipped") == (left.code, left.json[0]["did"])


def test_what_another_process_runs_is_named_and_left_alone(shell: Shell) -> None:
    """The lock is never taken from it."""
    live = shell.holding()
    done = shell("resume", "--all", "--json")
    ended = live.end()

    assert [("held", "skipped", "running")] == [(one["runId"], one["did"], one["state"]) for one in done.json]
    assert (0, 0) == (done.code, ended.code)


def test_a_killed_run_is_taken_over_and_the_proof_is_told(shell: Shell) -> None:
    """The typed act is the operator's, as for a single run."""
    shop(shell, "north", LATER.replace("raise LookupError", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    shell("run", "north/agent.py:waits", "--run-id", "north")
    shell.raise_flag("now")

    done = shell("resume", "--all")

    assert (0, "RESUMED  north  completed\n") == (done.code, done.out)
    assert "process_gone" in done.err


def test_the_plans_are_printed_and_nothing_is_touched(two: Shell) -> None:
    """`--dry-run` is a look."""
    before = {path: path.read_bytes() for path in (two.folder / ".clew").rglob("*") if path.is_file()}

    told, plain = two("resume", "--all", "--dry-run", "--json"), two("resume", "--all", "--dry-run")

    assert (0, {"north": "planned", "south": "planned"}) == (told.code, did(told.json))
    assert ["PLANNED  north", "PLANNED  south"] == [line for line in plain.out.splitlines() if line[0] == "P"]
    assert before == {path: path.read_bytes() for path in (two.folder / ".clew").rglob("*") if path.is_file()}


def test_what_has_ended_is_not_named(shell: Shell) -> None:
    """Ten thousand finished runs would hide the two that wait."""
    shell("run", "agent.py:settle", "1", "--run-id", "done")

    done = shell("resume", "--all", "--json")

    assert (0, []) == (done.code, done.json)


def test_a_signal_pauses_the_run_at_hand_and_ends_it_all(shell: Shell) -> None:
    """Whoever stops the command does not want the next run to begin."""
    shop(shell, "early", DYING)
    shop(shell, "later")
    shell("run", "early/agent.py:dies", "--run-id", "early")
    shell("run", "later/agent.py:waits", "--run-id", "later")
    shell.raise_flag("now")

    told, plain = shell("resume", "--all", "--json"), shell("resume", "--all")

    assert (143, {"early": "resumed", "later": "skipped"}) == (told.code, did(told.json))
    assert "SKIPPED  later  paused: its turn did not come" in plain.out


TWICE = """
import os, signal
from pathlib import Path
import clew

@clew.agent
def struck(run, prompt):
    if not Path("now").exists():
        raise LookupError("not now")
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    run.step("next", lambda: 1)
"""

LOADED = """
import os, signal
from pathlib import Path
import clew

if Path("now").exists():
    os.kill(os.getpid(), signal.SIGINT)

@clew.agent
def struck(run, prompt):
    raise LookupError("not now")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize(("text", "became"), [(TWICE, "resumed"), (LOADED, "skipped")])
def test_ctrl_c_ends_it_all_however_the_run_at_hand_ends(shell: Shell, text: str, became: str) -> None:
    """Aborted by the second one, or not even loaded: the next run must not begin, and what was done is told."""
    shop(shell, "before")
    shop(shell, "early", text)
    shop(shell, "later")
    shell("run", "before/agent.py:waits", "--run-id", "before")
    shell("run", "early/agent.py:struck", "--run-id", "early")
    shell("run", "later/agent.py:waits", "--run-id", "later")
    shell.raise_flag("now")

    done = shell("resume", "--all", "--json")

    assert (130, {"before": "resumed", "early": became, "later": "skipped"}) == (done.code, did(done.json))


def test_a_copied_home_fails_every_run(two: Shell) -> None:
    """4, and each says how the copy is freed."""
    (two.folder / ".clew").rename(two.folder / "original")
    copied = two.folder / ".clew"
    shutil.copytree(two.folder / "original", copied)

    done = two("resume", "--all", "--json")

    assert (4, ["home_copied"] * 2) == (done.code, [one["error"]["code"] for one in done.json])


@pytest.mark.parametrize(
    ("exits", "code"),
    [([], 0), ([0, 0], 0), ([0, 21, 5], 21), ([22, 21], 22), ([3, 22], 3), ([21, 2], 2), ([4, 11, 12], 12),
     ([13, 12], 13), ([13, 1], 1), ([13, 143], 143), ([130, 0], 130)],
)  # fmt: skip
def test_the_exit_code_is_the_worst_by_one_order(exits: list[int], code: int) -> None:
    """A script that looks at one number must not miss that something broke."""
    assert code == worst(exits)


def test_every_exit_code_has_its_place_in_the_order() -> None:
    """A new one that is forgotten there would end the command in the middle."""
    assert set(EXIT_BY_REASON.values()) | {0, 1, 2, 3, 4, 10, 11, 12, 13} == {*WORST, 130, 143}


@pytest.mark.parametrize(
    ("run", "every", "alone"), [(None, False, True), ("k3f", True, False), (None, True, False), (None, False, False)]
)
def test_either_one_run_is_named_or_all(run: str | None, every: bool, alone: bool) -> None:
    """A waiver or another agent is for one run, never for all of them."""
    with pytest.raises(UsageError) as caught:
        require_one_or_all(run, every=every, alone=alone)

    assert "which_run" == caught.value.code


@pytest.mark.parametrize(("run", "every", "alone"), [("k3f", False, False), (None, True, True)])
def test_one_run_or_all_is_enough(run: str | None, every: bool, alone: bool) -> None:
    """The two ways to say it."""
    require_one_or_all(run, every=every, alone=alone)

    assert every is (run is None)


@pytest.mark.parametrize("words", [("resume",), ("resume", "k3f", "--all"), ("resume", "--all", "--agent", "a.py:b")])
def test_a_command_that_means_neither_is_wrong_usage(shell: Shell, words: tuple[str, ...]) -> None:
    """2, and nothing was looked at: there is no home here."""
    done = shell(*words)

    assert (2, True) == (done.code, "[which_run]" in done.err)


FAMILY = """
import clew
from pathlib import Path

@clew.agent
def child(run, prompt):
    with Path("called").open("a") as book:
        book.write("once ")
    if not Path("now").exists():
        raise LookupError("not now")
    return "done"

@clew.agent
def parent(run, prompt):
    return run.child(child, prompt, run_id="kid")
"""


@pytest.fixture
def family(shell: Shell) -> Shell:
    """A parent whose child raised; now it may go on."""
    (shell.folder / "family.py").write_text(FAMILY, "utf-8")
    shell("run", "family.py:parent", "--run-id", "top")
    shell.raise_flag("now")
    return shell


def test_a_sweep_leaves_a_child_to_its_parent(family: Shell) -> None:
    """It goes on once, not once by itself and once with its parent."""
    done = family("resume", "--all", "--json")
    called = (family.folder / "called").read_text("utf-8").split()

    assert (0, {"top": "resumed", "kid": "skipped"}, 2) == (done.code, did(done.json), len(called))


def test_a_parent_and_its_child_are_shown_with_one_another(family: Shell) -> None:
    """`ls` says whose child a run is, `show` lists a run's children."""
    listed, shown = family("ls").out, family("show", "top").out

    assert ("(child of top)" in listed, "children child-1  kid (child): paused, the agent raised" in shown) == (
        True,
        True,
    )


def test_an_abort_names_the_children_that_have_effects_of_their_own(family: Shell) -> None:
    """That the parent itself had started nothing is no answer to what the family did."""
    done = family("abort", "top", "--reason", "enough")
    shown = family("show", "kid").out

    assert (True, False, True) == (
        "child-1  clew show kid" in done.err, "had started nothing" in done.err, shown.startswith("FAILED  kid"),
    )  # fmt: skip
