import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable

import pytest

from clew.cli import main, not_installed
from clew.cli.app import app
from tests.cli.shell import Done, Shell
from tests.house.tree import ROOT

Typed = Callable[..., Done]
COMMANDS = [
    "run", "ls", "show", "diff", "resume", "settle", "approve", "deny", "pause", "steer", "abort", "restore", "verify",
    "unlock", "doctor", "find", "prune", "certify",
]  # fmt: skip


def test_the_help_names_every_command_in_the_order_of_need(typed: Typed) -> None:
    """A stranger reads it from the top."""
    told = typed("--help").out

    places = [told.index(f"│ {command} ") for command in COMMANDS]
    assert sorted(places) == places


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(typed: Typed, command: str) -> None:
    """What it is for, one example, and the options of every command."""
    done = typed(command, "--help")

    assert 0 == done.code
    assert f"Example: clew {command}" in done.out
    assert all(
        option in done.out for option in ("--home", "--json", "--quiet -q", "--verbose -v", "--color", "--no-input")
    )


@pytest.mark.parametrize("words", [("settle",), ("restore",), ("certify",), ("session", "export")])
def test_the_help_shows_no_empty_default(typed: Typed, words: tuple[str, ...]) -> None:
    """How "not given" is written in Python says nothing to whoever reads it."""
    told = " ".join(typed(*words, "--help").out.replace("│", " ").split())

    assert (True, []) == ("[default: " in told, [each for each in ('""', "()", "None") if f"[default: {each}]" in told])


def test_the_commands_are_these() -> None:
    """A new one must be documented and tested."""
    named = [name for name in app if not name.startswith("-")]

    assert sorted([*COMMANDS, "session"]) == sorted(named)


@pytest.mark.parametrize("command", ["ls", "show", "verify", "migrate", "salvage", "export"])
def test_every_command_about_sessions_explains_itself(typed: Typed, command: str) -> None:
    """They are a family of their own, each with an example."""
    done = typed("session", command, "--help")

    assert (0, True) == (done.code, f"Example: clew session {command}" in done.out)


@pytest.mark.parametrize(
    "words",
    [("bogus",), ("ls", "--bogus"), ("run",), ("unlock", "x"), ("ls", "--color", "pink"), ("run", "a:b", "c", "d")],
)
def test_wrong_usage_is_2_with_the_help_to_read(typed: Typed, words: tuple[str, ...]) -> None:
    """As message and next step, like every other error."""
    done = typed(*words)

    message, following = done.err.splitlines()
    assert (2, "") == (done.code, done.out)
    assert message.startswith("clew: ")
    assert message.endswith(" [invalid_command_line]")
    assert following.startswith("next: See `clew")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "a:b", "settle", "all", "or ders"), "too many words: all 'or ders'; a text of several words stands"),
        (("show",), "RUN is missing"),
        (("settle", "r1", "happened"), "--by is missing"),
        (("ls", "--home"), 'Command "ls" parameter --home requires an argument'),
        (("--home", "x", "ls"), "--home stands before the command; options stand behind it"),
    ],
)
def test_wrong_usage_is_said_so_that_the_slip_is_seen(typed: Typed, words: tuple[str, ...], said: str) -> None:
    """A forgotten quote, word or order is what people do wrong; the parser's own words name none of them."""
    done = typed(*words)

    assert done.err.startswith(f"clew: {said}")


def test_wrong_usage_as_json_is_one_line(typed: Typed) -> None:
    """A program parses this too."""
    done = typed("ls", "--bogus", "--json")

    assert (2, "invalid_command_line", 1) == (done.code, done.error["code"], len(done.err.splitlines()))


def test_the_version_is_told(typed: Typed) -> None:
    """The first thing that is asked in a report."""
    done = typed("--version")

    assert (0, "0.1.0\n") == (done.code, done.out)


def test_without_its_libraries_the_command_says_how_to_install_them() -> None:
    """The library alone needs none of them, so they may well be missing."""
    code = "import sys; sys.modules['cyclopts'] = None; from clew.cli import main; raise SystemExit(main(['ls']))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (2, "") == (done.returncode, done.stdout)
    assert (
        "clew: the command needs 'cyclopts', which is not installed [cli_not_installed]" == done.stderr.splitlines()[0]
    )
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert f"`pip install {shlex.join(extras['cli'])}`" in done.stderr


def test_what_is_missing_is_named() -> None:
    """By a program too."""
    error = not_installed("rich")

    assert {"module": "rich"} == error.facts


def test_the_front_door_reads_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The installed script calls it without words."""
    monkeypatch.setattr(sys, "argv", ["clew", "--version"])

    code = main()

    assert (0, "0.1.0\n") == (code, capsys.readouterr().out)


def test_the_module_is_the_command(shell: Shell) -> None:
    """Where no script is on the path."""
    done = shell("--version")

    assert (0, "0.1.0\n") == (done.code, done.out)
