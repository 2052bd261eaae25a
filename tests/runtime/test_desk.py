"""Where people decide and look: runs are found by a part of their id, results are read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from tests.runtime.stage import (
    RUN,
    code_of,
)


def agent(body: Callable[..., Any], **declared: Any) -> clew.Agent:
    found = clew.agent(**{"name": "orders", **declared})(body)
    assert isinstance(found, clew.Agent)
    return found


ANSWERS = agent(lambda run, prompt: prompt)


@pytest.mark.parametrize("deed", ["find", "result", "verify", "plan"])
def test_a_home_that_is_not_there_is_not_an_empty_one(tmp_path: Path, deed: str) -> None:
    """A mistyped path must not read as "no such run"; and looking for one makes none."""
    code = code_of(getattr(clew.Home(tmp_path / ".clew"), deed), "orders")

    assert ("no_home", []) == (code, list(tmp_path.iterdir()))


def test_a_unique_part_of_an_id_is_enough() -> None:
    """Three characters of the random part, as with commits."""
    home = clew.Home.memory()
    for name in ("abc123-261129", "abd123-261129"):
        home.run_sync(ANSWERS, run_id=name)

    assert ("abc123-261129", "unknown_run") == (home.find("abc"), code_of(home.find, "xyz"))


def test_a_result_raises_for_what_is_not_completed() -> None:
    """For scripts that want an exception: with the exit code of the state."""
    home = clew.Home.memory()
    result = home.run_sync(agent(lambda run, prompt: 1 // 0), run_id=RUN)

    with pytest.raises(clew.NotCompleted) as caught:
        result.raise_for_state()

    assert ("run_paused", 22, "agent_error") == (
        caught.value.code,
        caught.value.exit_code,
        caught.value.facts["reason"],
    )


def test_a_result_of_an_earlier_leg_is_read_now() -> None:
    """The snapshot is of the run, not of the moment when the result was made."""
    home = clew.Home.memory()
    result = home.run_sync(agent(lambda run, prompt: 1 // 0), run_id=RUN)
    home.resume_sync(RUN, ANSWERS)

    assert ("paused", "completed") == (result.operation.state, result.snapshot["operation"]["state"])
