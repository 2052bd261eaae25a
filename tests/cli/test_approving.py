"""`clew approve`, `clew deny`, and the question at the terminal: days later, in another process, or at once."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tests.cli.shell import Shell

WHO = ("--by", "ann", "--reason", "looked")
AGENT = """
from pathlib import Path

import clew


@clew.tool(effect="external")
def pay(order: str, cents: int) -> str:
    with Path("payments").open("a") as book:
        book.write(f"{order}\\n")
    return f"T-{order}"


@clew.agent(tools=[pay])
def buyer(run, prompt):
    return ", ".join(run.propose(pay, order=order, cents=4200) for order in prompt.split())
"""


@pytest.fixture
def asking(shell: Shell) -> Shell:
    """A folder with a run that waits for an approval."""
    (shell.folder / "agent.py").write_text(AGENT, "utf-8")
    shell("run", "agent.py:buyer", "1042", "--run-id", "k3f9x2")
    return shell


def test_a_run_that_waits_says_what_for_and_what_to_type(asking: Shell) -> None:
    """The exact next command stands below what is wanted."""
    done = asking("ls")

    assert "a call waits for an approval (approval_required)" in done.out
    assert "1 approval wanted:\n    pay-1  pay order=1042 cents=4200 (high risk, asked " in done.out
    assert "next: clew approve k3f --by … --reason …\n  or:   clew deny k3f --by … --reason …\n" in done.out


def test_no_pipe_implies_yes(shell: Shell) -> None:
    """What comes through a pipe was typed for something else."""
    (shell.folder / "agent.py").write_text(AGENT, "utf-8")

    done = shell("run", "agent.py:buyer", "1042", "--run-id", "k3f9x2", say="yes\n")

    assert (20, []) == (done.code, shell.payments)


def test_a_yes_shows_the_question_first_and_then_how_it_stands(asking: Shell) -> None:
    """Whoever says yes must have seen to what."""
    done = asking("approve", "k3f", *WHO)

    assert (0, True) == (done.code, done.out.startswith("pay-1 pay: approved, never started; by ann at "))
    assert "call       pay order=1042 cents=4200" in done.err
    assert "effect     external, high risk, cannot be undone" in done.err
    assert "1 call approved, never started:" in done.err
    assert "next: clew resume k3f" in done.err


def test_an_approved_run_goes_on(asking: Shell) -> None:
    """In a third process, once."""
    asking("approve", "k3f", *WHO)
    plan = asking("resume", "k3f", "--dry-run")

    done = asking("resume", "k3f")

    assert "run     it starts: approved, never started (ann)" in plan.out
    assert (0, "T-1042", ["1042"]) == (done.code, done.out.strip().splitlines()[-1], asking.payments)


def test_a_no_is_shown_with_its_reason(asking: Shell) -> None:
    """C102: on the page of the run, in its log, and as the reason of its pause."""
    done = asking("deny", "k3f", "--by", "ann", "--reason", "wrong account")
    shown, log = asking("show", "k3f"), asking("show", "k3f", "--log")

    assert (0, True) == (done.code, "pay-1 pay: denied; by ann at " in done.out)
    assert "a person said no to a call (tool_approval_denied)" in shown.out
    assert "pay-1 was denied by ann: wrong account" in shown.out
    assert "approval a1 is denied, says ann: wrong account" in log.out


def test_a_no_as_the_answer_lets_the_agent_go_on(asking: Shell) -> None:
    """It hears `Denied`; this one does not catch it."""
    asking("deny", "k3f", *WHO, "--as-answer")

    done = asking("resume", "k3f")

    assert (22, []) == (done.code, asking.payments)


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("approve", "k3f", "pay-9", *WHO), 4, "nothing_to_approve"),
        (("approve", "k3f", "--by", "", "--reason", "x"), 2, "review_incomplete"),
        (("approve", "k3f", "--expires-in", "0", *WHO), 2, "invalid_expiry"),
        (("deny", "nowhere", *WHO), 10, "unknown_run"),
    ],
)
def test_what_cannot_be_decided_is_refused_with_a_code(
    asking: Shell, words: tuple[str, ...], code: int, error: str
) -> None:
    """And nothing is changed."""
    done = asking(*words, "--json")

    assert (code, error) == (done.code, done.error["code"])
    assert "pending" == asking("show", "k3f", "--json").json["approvals"][0]["standing"]


def test_an_approval_is_found_by_its_whole_key_and_told_as_json(asking: Shell) -> None:
    """A program that approves wants to see what it approved."""
    done = asking("approve", "k3f9x2:pay-1:c1", *WHO, "--json")

    assert ("a1", "granted", "ann") == (done.json["approvalId"], done.json["standing"], done.json["by"])


def test_resume_all_leaves_what_waits_and_goes_on_with_what_is_approved(asking: Shell) -> None:
    """It is typed at night, and nobody is there to say yes."""
    asking("run", "agent.py:buyer", "7", "--run-id", "approved")
    asking("approve", "approved", *WHO)
    asking("run", "agent.py:buyer", "8", "--run-id", "denied")
    asking("deny", "denied", *WHO)

    done = asking("resume", "--all")

    assert (0, ["7"]) == (done.code, asking.payments)
    assert "SKIPPED  k3f9x2  paused: pay-1: a call waits for an approval" in done.out
    assert "SKIPPED  denied  paused: a person said no to a call" in done.out


# At a terminal.


def at_a_terminal(
    shell: Shell, *words: str, answer: Callable[["subprocess.Popen[str]", int], object]
) -> tuple[int, str]:
    """A command with a person at its terminal, who hears the question: its exit code, and what it said."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "clew.cli", *words]
    quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
    heard = list[str]()
    with subprocess.Popen(
        command, cwd=shell.folder, env=shell.env, stdin=theirs, stdout=quiet, stderr=pipe, text=True
    ) as process:
        os.close(theirs)
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert process.stderr is not None
        for line in process.stderr:
            heard.append(line)
            if "start it?" in line:
                answer(process, ours)
    watchdog.cancel()
    os.close(ours)
    return process.returncode, "".join(heard)


def saying(text: str) -> Callable[["subprocess.Popen[str]", int], object]:
    """Whoever sits there types this."""
    return lambda process, terminal: os.write(terminal, text.encode())


@pytest.mark.parametrize(
    ("says", "code", "paid"),
    [
        ("yes\n", 0, ["1042"]),
        ("Y\n", 0, ["1042"]),
        ("no\n", 20, []),
        ("\n", 20, []),
        ("maybe\n", 20, []),
        ("\x04", 20, []),
    ],
    ids=["yes", "y", "no", "nothing", "something else", "the end of input"],
)
def test_whoever_sits_at_the_terminal_is_asked(shell: Shell, says: str, code: int, paid: list[str]) -> None:
    """Only a clear yes starts it; whatever is no clear word leaves it waiting."""
    (shell.folder / "agent.py").write_text(AGENT, "utf-8")

    ended, said = at_a_terminal(shell, "run", "agent.py:buyer", "1042", "--run-id", "k3f9x2", answer=saying(says))

    assert (code, paid) == (ended, shell.payments)
    assert "approval   a1 of pay-1\ncall       pay order=1042 cents=4200\n" in said
    pending = shell("show", "k3f", "--json").json["approvals"][0]["standing"]
    assert {"yes\n": "used", "Y\n": "used", "no\n": "denied"}.get(says, "pending") == pending


def test_a_resume_asks_again_what_still_waits(asking: Shell) -> None:
    """The same question; the answer is for it."""
    code, said = at_a_terminal(asking, "resume", "k3f", answer=saying("yes\n"))

    assert (0, ["1042"], True) == (code, asking.payments, "approval   a1 of pay-1" in said)


@pytest.mark.parametrize("flag", ["--no-input", "--json", "--quiet"])
def test_nobody_is_asked_where_nothing_may_be_asked(shell: Shell, flag: str) -> None:
    """A script that runs in a terminal is not the person in front of it."""
    (shell.folder / "agent.py").write_text(AGENT, "utf-8")

    code, said = at_a_terminal(shell, "run", "agent.py:buyer", "1", "--run-id", "k3f", flag, answer=saying("yes\n"))

    assert (20, False) == (code, "start it?" in said)


def test_ctrl_c_at_the_question_pauses_the_run(shell: Shell) -> None:
    """Nobody has to answer before they may leave."""
    (shell.folder / "agent.py").write_text(AGENT, "utf-8")

    code, _ = at_a_terminal(
        shell, "run", "agent.py:buyer", "1", "--run-id", "k3f9x2",
        answer=lambda process, terminal: process.send_signal(signal.SIGINT),
    )  # fmt: skip

    shown = shell("show", "k3f", "--json").json
    assert (130, "pending", []) == (code, shown["approvals"][0]["standing"], shell.payments)
