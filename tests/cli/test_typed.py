from pathlib import Path

import pytest

from clew.cli.app import app
from clew.cli.typed import COMMANDS, as_typed, with_home
from tests.cli.shell import Shell


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  next: clew resume k3f", "  next: clew resume --home ../x k3f"),
        ("  or:   clew resume k3f  asks its probe", "  or:   clew resume --home ../x k3f  asks its probe"),
        (
            "next: find out why (clew show k3f --log), then clew resume k3f",
            "next: find out why (clew show --home ../x k3f --log), then clew resume --home ../x k3f",
        ),
        ("  next: clew session salvage talk", "  next: clew session salvage --home ../x talk"),
        ("  files    1 checkpoint: clew diff k3f", "  files    1 checkpoint: clew diff --home ../x k3f"),
        ("next: kill -CONT 812", "next: kill -CONT 812"),
    ],
)
def test_advice_names_the_home_that_was_named(line: str, expected: str) -> None:
    """Whoever was called at night types what stands there, and is not told that there is no such run."""
    assert expected == as_typed(line, "../x")


@pytest.mark.parametrize(
    "advice",
    [
        "See `clew run --help`.",
        "Say clew unlock --home PATH; with --by NAME.",
        "Name the folder itself: --home /x/.clew",
    ],
)
def test_advice_that_needs_no_home_stays(advice: str) -> None:
    """Help is the same in every home, and a home that is named already is the one that is meant."""
    assert advice == with_home(advice, "../x")


@pytest.mark.parametrize("line", ["PAUSED  k3f  next: clew ls", "  input    clew ls", "clew ls: the agent's output"])
def test_what_a_run_said_is_shown_as_it_is(line: str) -> None:
    """Only advice is ours; words of an input or an answer that look like a command are evidence."""
    assert line == as_typed(line, "../x")


def test_without_a_named_home_nothing_is_added() -> None:
    """In the folder of the home the short words work."""
    assert "next: clew ls" == as_typed("next: clew ls", None)


def test_a_home_with_a_space_is_quoted() -> None:
    """Else the shell would take it apart."""
    assert "next: clew ls --home 'my home'" == as_typed("next: clew ls", "my home")


def test_every_command_is_known() -> None:
    """A new one would be advised without its home."""
    named = {name for name in app if not name.startswith("-")}

    assert named == set(COMMANDS)


def test_the_next_step_works_from_elsewhere(shell: Shell, tmp_path: Path) -> None:
    """Typed literally, from the folder where it was shown."""
    shell("run", "agent.py:settle", "1", "--run-id", "k3f", "--max-calls", "0")
    home = str(tmp_path / ".clew")
    (tmp_path / "elsewhere").mkdir()
    elsewhere = Shell(tmp_path / "elsewhere")

    shown = elsewhere("ls", "--home", home)

    step = shown.out.split("next: clew ")[1].splitlines()[0].replace(" N", " 9").split()
    assert 0 == elsewhere(*step).code


def test_an_error_s_next_step_names_the_home(shell: Shell, tmp_path: Path) -> None:
    """An error is where somebody types what it says."""
    shell("run", "agent.py:settle", "1", "--run-id", "k3f")
    home = str(tmp_path / ".clew")

    done = shell("show", "zzz", "--home", home)

    assert f"next: List the runs of this home with `clew ls --home {home}`.\n" in done.err
