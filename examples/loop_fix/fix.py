"""An agent that repairs a project until its tests pass: it looks, edits, runs pytest, and edits again while they fail.

    clew run examples/loop_fix/fix.py:fix "fix wallet"

The project is the folder that the prompt names last, beside this file. Its source is `<folder>/<folder>.py`.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import model
import pytest  # noqa: F401  # run as a program below; without it every check would fail, and the wrong thing be repaired

import clew
from clew.loop import Check, LoopConfig, Round, loop
from clew.toolkit import read_file, write_file

HERE = Path(__file__).resolve().parent
TEST_TIMEOUT_S = 120


@clew.tool(effect="none", timeout_s=TEST_TIMEOUT_S)
def run_tests(call: clew.Call, folder: str) -> dict[str, Any]:
    """Run the project's tests with pytest, which leaves nothing behind: so it may be done again at any time."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, cwd=call.workspace.resolve(folder), env=environment, text=True, capture_output=True, check=False,
        timeout=TEST_TIMEOUT_S,
    )  # fmt: skip
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return {"exitCode": done.returncode, "failed": failed, "output": done.stdout[-2000:]}


@clew.agent(tools=[read_file, write_file, run_tests])
def fix(run: clew.SyncRun, prompt: str) -> str:
    """Repair the project that the prompt names; only a passing pytest is success."""
    name = prompt.rsplit(maxsplit=1)[-1]
    folder = Path(os.path.relpath(HERE / name, run.workspace)).as_posix()
    source = f"{folder}/{name}.py"

    def plan(run: clew.SyncRun, round: Round) -> Any:
        return run.call(run_tests, folder=folder)["failed"]

    def edit(run: clew.SyncRun, round: Round) -> Any:
        failed = round.plan if round.check is None else round.check.evidence["failed"]
        before = run.call(read_file, path=source)
        answer = run.turn(model.propose, {"source": before, "report": "\n".join(failed)})
        run.call(write_file, path=source, content=answer["source"])
        return answer["why"]

    def verify(run: clew.SyncRun, round: Round) -> Check:
        found = run.call(run_tests, folder=folder)
        # Anything but 0 is no success: 1 is failing tests, 2 to 5 are tests that did not run.
        return Check(found["exitCode"] == 0, found)

    done = loop(run, plan=plan, execute=edit, verify=verify, repair=edit, config=LoopConfig(max_repairs=2))
    return f"{name} passes after {done.snapshot.repair_count} repairs: {done.value}"
