import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clew.cli.screen import Options, Screen
from clew.errors import Refused
from tests.cli.shell import Shell

ERROR = Refused("no", code="not_now", next="Later.", run="k3f")


@pytest.fixture
def quick(shell: Shell) -> Shell:
    shell("run", "agent.py:settle", "1", "--run-id", "k3f")
    return shell


def test_a_pipe_gets_no_colour(quick: Shell) -> None:
    """What is piped is read by programs."""
    done = quick("ls")

    assert "\x1b" not in done.out


def test_colour_can_be_ordered(quick: Shell) -> None:
    """And then the state word has it, not the whole line."""
    done = quick("ls", "--color", "always")

    assert done.out.startswith("\x1b[32mCOMPLETED\x1b[0m  k3f")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("env", "words", "coloured"),
    [
        ({"TERM": "xterm-256color"}, (), True),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, (), False),
        ({"TERM": "dumb"}, (), False),
        ({"TERM": "xterm-256color"}, ("--color", "never"), False),
    ],
)
def test_a_terminal_gets_colour_unless_it_is_told_otherwise(
    quick: Shell, env: dict[str, str], words: tuple[str, ...], coloured: bool
) -> None:
    """NO_COLOR and a dumb terminal are honoured."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "clew.cli", "ls", *words]
    subprocess.run(command, cwd=quick.folder, env=quick.env | env, stdout=theirs, stdin=theirs, check=True)
    os.close(theirs)
    said = os.read(ours, 4096)
    os.close(ours)

    assert coloured == (b"\x1b[" in said)
    assert b"COMPLETED" in said


def test_a_reader_that_went_away_is_no_error(quick: Shell) -> None:
    """`clew show @last --log | head -1` must not end in a traceback, nor a run because its terminal closed."""
    command = [sys.executable, "-m", "clew.cli", "show", "k3f", "--log"]
    process = subprocess.Popen(command, cwd=quick.folder, env=quick.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate(timeout=60)

    assert (0, b"") == (process.returncode, said)


def test_a_run_goes_on_when_nobody_hears_it(quick: Shell) -> None:
    """The deed counts, not the telling."""
    command = [sys.executable, "-m", "clew.cli", "run", "agent.py:settle", "5", "--run-id", "deaf"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=quick.folder, env=quick.env, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    process.wait(timeout=60)

    assert (0, ["1", "5"]) == (process.returncode, quick.payments)


NOISY = """
import os, subprocess, sys
import clew

@clew.tool(effect="external")
def speak() -> str:
    for number in (1, 2):
        os.write(number, b"a library warns\\n")
    subprocess.run([sys.executable, "-c", "import os; os.write(1, b'a child'); os.write(2, b'warns')"], check=True)
    return "said"

@clew.agent(tools=[speak])
def noisy(run, prompt):
    print("the agent says")
    return run.call(speak)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="closes streams with a POSIX shell")
@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_command_without_a_stream_does_its_deed_and_keeps_its_journal_whole(shell: Shell, closed: str) -> None:
    """A service manager starts it so; what is said on the missing stream must not be written into the journal."""
    (shell.folder / "noisy.py").write_text(NOISY, "utf-8")
    words = [sys.executable, "-m", "clew.cli", "run", "noisy.py:noisy", "--run-id", "mute"]

    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *words],
        cwd=shell.folder, env=shell.env, check=False, capture_output=True, timeout=60,
    )  # fmt: skip

    assert 0 == done.returncode
    assert (0, "OK  mute  ") == ((verdict := shell("verify", "mute")).code, verdict.out[:10])
    assert (b"said\n" if "1" not in closed else b"") == done.stdout


def test_a_terminal_without_the_letters_gets_them_written_out(quick: Shell) -> None:
    """An answer must not be lost to an encoding."""
    done = quick("run", "agent.py:settle", "Zoë…", PYTHONIOENCODING="ascii", PYTHONUTF8="0")

    assert (0, "T-Zo\\xeb\\u2026\n") == (done.code, done.out)


def test_an_error_is_what_was_found_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """Two lines, on stderr."""
    Screen(Options()).fail(ERROR)

    assert ("", "clew: no [not_now]\nnext: Later.\n") == capsys.readouterr()


def test_an_error_as_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With its facts."""
    Screen(Options(json=True)).fail(ERROR)

    said = capsys.readouterr().err
    assert ERROR.as_json() == json.loads(said)
    assert 1 == len(said.splitlines())


def test_quiet_does_not_silence_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """Only progress."""
    screen = Screen(Options(quiet=True))
    screen.tell("progress")
    screen.fail(ERROR)

    assert "clew: no [not_now]\nnext: Later.\n" == capsys.readouterr().err


def test_a_traceback_is_shown_only_when_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """An error on purpose is no crash."""
    Screen(Options(verbose=2)).fail(ERROR)

    assert capsys.readouterr().err.startswith("clew.errors.Refused: no\n")


@pytest.mark.parametrize(
    ("options", "expected"),
    [(Options(), "run k3f\n"), (Options(json=True), '{"runId":"k3f"}\n'), (Options(quiet=True), "")],
)
def test_the_id_of_a_run_is_told_at_once(options: Options, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever started it must find it again even if the process dies a moment later."""
    Screen(options).tell_run("k3f")

    assert expected == capsys.readouterr().err


def test_what_a_tool_s_own_process_prints_is_not_the_answer(tmp_path: Path) -> None:
    """A child writes to the descriptor, past everything that Python could redirect."""
    shell = Shell(tmp_path)
    (tmp_path / "noisy.py").write_text(
        "import subprocess, sys\ndef noisy(run, prompt):\n"
        "    subprocess.run([sys.executable, '-c', 'print(7)'], check=True)\n    return 'answer'\n",
        "utf-8",
    )

    done = shell("run", "noisy.py:noisy")

    assert (0, "answer\n") == (done.code, done.out)


def test_a_long_answer_is_the_same_json_piece_by_piece(capfd: pytest.CaptureFixture[str]) -> None:
    """A trace of gigabytes is passed on, never held."""
    screen, found = Screen(Options(json=True)), [{"a": [1]}, {"b": "\u2028"}]
    values: list[object] = [iter(found), {"x": {"y": []}, "trace": iter(found), "effects": iter([])}]
    for value in values:
        screen.answer_json(value)

    assert [found, {"x": {"y": []}, "trace": found, "effects": []}] == [
        json.loads(line) for line in capfd.readouterr().out.split("\n")[:-1]
    ]


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", "agent.py:settle", "1"), 0, "T-1\n"),
        (("ls", "--json"), 0, ""),
        (("show", "nobody"), 10, ""),
        (("run", "agent.py:settle", "1", "--json"), 0, ""),
    ],
)
def test_progress_that_cannot_be_told_changes_no_answer(
    quick: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    """A log on a full disk must not make a payment that was done look like a fault of ours."""
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "clew.cli", *words]
        done = subprocess.run(
            command, check=False, cwd=quick.folder, env=quick.env, stdout=subprocess.PIPE, stderr=full, text=True
        )

    assert (code, True) == (done.returncode, done.stdout.startswith(said))


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_an_answer_that_cannot_be_given_is_an_error(quick: Shell) -> None:
    """Whoever asked and got half of it must not read success from the exit code."""
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "clew.cli", "show", "k3f", "--log"]
        done = subprocess.run(
            command, check=False, cwd=quick.folder, env=quick.env, stdout=full, stderr=subprocess.PIPE, text=True
        )

    assert (13, True) == (done.returncode, "[machine_refused]" in done.stderr)
