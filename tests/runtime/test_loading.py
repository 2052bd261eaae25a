import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew import Home, SyncRun, UsageError
from clew.runtime.loading import being_loaded


def agent(run: SyncRun, prompt: str) -> str:
    raise ValueError("its agent ran")


STARTS: list[Callable[[Home], Any]] = [
    lambda home: home.run_sync(agent, "go"),
    lambda home: asyncio.run(home.run(agent, "go")),
    lambda home: home.ensure_sync(agent, "go", run_id="k3f"),
    lambda home: home.resume_sync("k3f", agent),
    lambda home: asyncio.run(home.resume("k3f", agent)),
]


@pytest.mark.parametrize("start", STARTS, ids=["run_sync", "run", "ensure_sync", "resume_sync", "resume"])
def test_nothing_begins_while_a_file_is_loaded(tmp_path: Path, start: Callable[[Home], Any]) -> None:
    """A script that pays when it is imported would pay again at each `clew resume` of it."""
    home = Home(tmp_path / ".clew")
    with being_loaded("pay.py"), pytest.raises(UsageError) as caught:
        start(home)

    assert ("run_while_loading", "pay.py", False) == (
        caught.value.code, caught.value.facts["file"], home.path.exists(),
    )  # fmt: skip


def test_runs_begin_once_it_is_loaded(tmp_path: Path) -> None:
    """The command itself starts one right behind, also when the file could not be loaded."""
    home = Home(tmp_path / ".clew")
    with pytest.raises(ZeroDivisionError), being_loaded("pay.py"):
        raise ZeroDivisionError

    result = home.run_sync(agent, "go")

    assert "agent_error" == result.reason
