"""Limits on the command line: each reaches the run, and the next step names the one that helps."""

from pathlib import Path

import pytest

from clew.cli.limits import Limits
from clew.cli.running import Terms
from clew.core.budget import RunBudget
from tests.cases.ward import Typed

TALKS = """
import clew
@clew.tool(effect="none")
def fails():
    return clew.Failed("no")
@clew.agent(tools=[fails])
def talk(run, prompt):
    for number in range(3):
        run.turn(lambda request: clew.Turn("yes", clew.Usage(tokens=5, cost_micro_usd=400_000)), number)
        try:
            run.call(fails)
        except clew.ToolError:
            pass
    return "done"
@clew.agent
def silent(run, prompt):
    for number in range(3):
        run.turn(lambda request: "yes", number)
"""


@pytest.fixture
def typed_in(tmp_path: Path, typed: Typed) -> Typed:
    (tmp_path / "agent.py").write_text(TALKS, "utf-8")
    return typed


def test_every_limit_of_the_library_can_be_typed() -> None:
    """A run that paused at one of them must be able to go on from the shell."""
    more = Limits(1, 2, 3.5, 4, 5, 6, "continue")

    assert RunBudget(
        max_calls=7, max_turns=1, max_tokens=2, max_cost_usd=3.5, max_tool_failures=4, max_steps=5, max_retries=6,
        run_timeout_s=8, on_unmeasured="continue",
    ) == Terms(7, 8, more=more).budget(RunBudget())  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "more"),
    [("--max-turns", "1", "9"), ("--max-tokens", "6", "99"), ("--max-cost", "0.5", "9.5"),
     ("--max-failures", "0", "9"), ("--max-steps", "2", "99"), ("--max-calls", "1", "9")],
)  # fmt: skip
def test_a_limit_that_is_typed_pauses_and_names_the_option_that_helps(
    typed_in: Typed, option: str, value: str, more: str
) -> None:
    """Exit 5, and the line that is printed can be typed."""
    paused = typed_in("run", "agent.py:talk", option, value)
    page = typed_in("show", "@last").out
    left = typed_in("resume", "--all", "--timeout", "60")
    done = typed_in("resume", "@last", option, more)

    assert (5, 0, 0) == (paused.code, left.code, done.code)
    assert f" {option} " in page
    assert "SKIPPED" in left.out


def test_a_limit_that_cannot_be_kept_says_how_to_go_on(typed_in: Typed) -> None:
    """C17: the provider reports nothing; who goes on does so on purpose."""
    paused = typed_in("run", "agent.py:silent", "--max-tokens", "100")
    page = typed_in("show", "@last").out
    skipped = typed_in("resume", "--all", "--max-tokens", "900")
    done = typed_in("resume", "--all", "--on-unmeasured", "continue")

    assert (5, 0, 0) == (paused.code, skipped.code, done.code)
    assert "clew resume" in page
    assert "--on-unmeasured continue" in page
    assert ("SKIPPED" in skipped.out, "RESUMED" in done.out) == (True, True)


def test_the_limits_in_force_are_shown(typed_in: Typed) -> None:
    """Those of the last resume, not those of the start."""
    typed_in("run", "agent.py:talk", "--max-turns", "1", "--max-cost", "9")
    typed_in("resume", "@last", "--max-turns", "2")

    assert "limits   at most 2 turns, $9.00" in typed_in("show", "@last").out


def test_what_is_no_limit_is_refused_before_anything_is_made(typed_in: Typed, tmp_path: Path) -> None:
    """Bad input changes nothing."""
    refused = typed_in("run", "agent.py:talk", "--max-cost", "-1")

    assert (2, False) == (refused.code, (tmp_path / ".clew").exists())
