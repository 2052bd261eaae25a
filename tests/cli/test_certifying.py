"""`clew certify`: what is asked before anything real happens, what is refused, and the exit codes."""

import contextlib
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Done, Shell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a trial forks, adopts and kills")

Typed = Callable[..., Done]
ANSWERS = '{"pay": [{"answer": {"transfer": "T-1"}}]}'

BESIDE = """
from pathlib import Path

import clew


@clew.tool(effect="workspace", replay="idempotent")
def note(text: str) -> str:
    path = Path(__file__).with_name("notes.txt")
    path.write_text(text)
    return path.name


@clew.agent(tools=[note])
def agent(run, prompt):
    return run.call(note, text="seen")
"""


@pytest.fixture
def tried(shell: Shell) -> Shell:
    """A folder with an agent whose tool really pays, and what it is answered here."""
    (shell.folder / "answers.json").write_text(ANSWERS, "utf-8")
    return shell


def test_a_trial_ends_with_its_verdict_and_pays_nobody(tried: Shell) -> None:
    """The agent of this folder declares too little; nothing is paid, and nothing is made beside it."""
    before = tried.bytes_and_times()

    done = tried("certify", "agent.py:settle", "7 8", "--answers", "answers.json", "--points", "3", "--json")

    assert (0, True, 3, []) == (done.code, done.json["certified"], done.json["ran"], tried.payments)
    assert before == tried.bytes_and_times()


def test_the_life_of_a_point_can_be_looked_at(tried: Shell) -> None:
    """A finding is understood by what happened, record by record."""
    done = tried("certify", "agent.py:settle", "7", "--answers", "answers.json", "--point", "end:1", "-v")

    assert 0 == done.code
    assert "point end:1: completed in 3 processes" in done.err
    assert "clew certify: as the ledger of the trial says" in done.err


def test_a_file_beside_the_agent_is_that_of_the_copy(tried: Shell) -> None:
    """Agents find their files by their own place, and would write to the real ones."""
    (tried.folder / "beside.py").write_text(BESIDE, "utf-8")
    before = tried.bytes_and_times()

    done = tried("certify", "beside.py:agent", "--points", "2")

    assert (0, before) == (done.code, tried.bytes_and_times())


def test_a_finding_is_three(tried: Shell) -> None:
    """A program that starts it reads the exit code."""
    done = tried("certify", "agent.py:buggy", "--points", "1")

    assert 3 == done.code
    assert done.out.startswith("FAILED  buggy")
    assert "not_completed: without a death it ends as paused: agent_error: ValueError: a bug" in done.out


def test_the_command_that_shows_it_again_names_the_home(tried: Shell) -> None:
    """The run whose answers are taken lies there, and so does the workspace."""
    done = tried("certify", "agent.py:buggy", "--points", "1", "--home", "elsewhere/.clew", "--workspace", ".")

    assert "again: clew certify agent.py:buggy --workspace . --seed 1 --home elsewhere/.clew --point" in done.out


def test_points_that_were_not_tried_are_five(tried: Shell) -> None:
    """As a limit that paused a run."""
    done = tried("certify", "agent.py:settle", "7", "--answers", "answers.json", "--budget", "0.001")

    assert 5 == done.code
    assert "not every point was tried" in done.out


def test_without_answers_nothing_is_made_up(tried: Shell) -> None:
    """It names the tool and its arguments, and how to say what it answers."""
    done = tried("certify", "agent.py:settle", "7", "--json")

    assert (4, "answer_missing", "pay", []) == (
        done.code, done.error["code"], done.error["facts"]["tool"], tried.payments
    )  # fmt: skip


def test_a_recorded_run_answers(tried: Shell) -> None:
    """Who has run it once has all that is needed; the run stays as it is."""
    tried("run", "agent.py:settle", "7 8", "--run-id", "once")
    paid = tried.payments

    done = tried("certify", "agent.py:settle", "7 8", "--from", "once", "--points", "2", "--json")

    assert (0, paid) == (done.code, tried.payments)


def test_no_pipe_confirms_a_real_run(tried: Shell) -> None:
    """`yes` on a pipe is nobody's word."""
    done = tried("certify", "agent.py:settle", "7", "--live", say="yes\n")

    assert (2, []) == (done.code, tried.payments)
    assert "live_not_confirmed" in done.err
    assert "once for real" in done.err


def test_a_real_run_that_is_wanted_happens_once(tried: Shell) -> None:
    """What it was answered is kept for the next trial, which needs no real run."""
    book = tried.folder / "real"
    agent = (tried.folder / "agent.py").read_text("utf-8").replace('Path("payments")', f"Path({str(book)!r})")
    (tried.folder / "agent.py").write_text(agent, "utf-8")

    done = tried("certify", "agent.py:settle", "7 8", "--live", "--yes", "--keep", "kept.json", "--points", "3")

    assert (0, ["7", "8"]) == (done.code, book.read_text("utf-8").split())
    assert [{"arguments": {"order": "7", "cents": 4200}, "answer": {"transfer": "T-7"}}] == json.loads(
        (tried.folder / "kept.json").read_bytes()
    )["pay"][:1]


def test_who_interrupts_it_leaves_nothing_behind(tried: Shell) -> None:
    """Neither processes that go on killing, nor their folders."""
    scratch = tried.folder / "scratch"
    scratch.mkdir()
    tried.env["TMPDIR"] = str(scratch)
    live = tried.start("certify", "agent.py:settle", "7 8", "--answers", "answers.json", "--points", "100000")
    live.until("points to try")

    live.signal(signal.SIGINT)
    done = live.end()

    assert (130, [], []) == (done.code, list(scratch.iterdir()), marked(f"TMPDIR={scratch}"))


def marked(variable: str) -> list[str]:
    """Processes that were given this variable."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if variable.encode() in environ.read_bytes().split(b"\0"):
                found.append(environ.parent.name)
    return found


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("agent.py",), "invalid_agent_path"),
        (("none.py:settle",), "agent_not_found"),
        (("agent.py:settle", "--points", "0"), "invalid_trial"),
        (("agent.py:settle", "--budget", "0"), "invalid_trial"),
        (("agent.py:settle", "--live", "--answers", "a.json"), "invalid_trial"),
        (("agent.py:settle", "--keep", "a.json"), "invalid_trial"),
        (("agent.py:settle", "--answers", "none.json"), "invalid_answers"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(
    typed: Typed, tmp_path: Path, words: tuple[str, ...], code: str
) -> None:
    """Before any process is started, and before anything real."""
    (tmp_path / "agent.py").write_text("raise AssertionError('imported')\n", "utf-8")

    done = typed("certify", *words, "--json")

    assert (2, code) == (done.code, done.error["code"])
