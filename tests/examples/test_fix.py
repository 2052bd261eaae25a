"""The loop example as a newcomer meets it: the agent by itself, the demo and its death, a check that cannot pass."""

import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "loop_fix"
RUN = ("-m", "clew.cli", "run", "fix.py:fix", "fix wallet", "--run-id", "r1")


def a_copy(folder: Path) -> Path:
    """The example in a folder of its own, for it edits its project."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".clew"), dirs_exist_ok=True)
    return folder


def process(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A Python process in a folder, with what it said."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=240)


def test_the_agent_repairs_its_project(tmp_path: Path) -> None:
    """Only pytest says that it did; what it leaves behind is the project and nothing else."""
    folder = a_copy(tmp_path)
    before = sorted(path.name for path in (folder / "wallet").iterdir())

    done = process(folder, *RUN)
    tests = process(folder / "wallet", "-m", "pytest", "-q", "-p", "no:cacheprovider")

    assert (0, "wallet passes after 2 repairs: give the rest away a cent at a time") == (
        done.returncode, done.stdout.strip(),
    )  # fmt: skip
    assert 0 == tests.returncode
    assert before == sorted(path.name for path in (folder / "wallet").iterdir() if path.name != "__pycache__")


def test_the_project_is_broken_as_it_is_shipped(tmp_path: Path) -> None:
    """An example that repairs what is whole shows nothing."""
    done = process(a_copy(tmp_path) / "wallet", "-m", "pytest", "-q", "-p", "no:cacheprovider")

    assert 1 == done.returncode


def test_tests_that_do_not_run_are_no_success(tmp_path: Path) -> None:
    """Pytest has codes for "nothing ran"; an agent that took them for a pass would ship what nobody checked."""
    folder = a_copy(tmp_path)
    (folder / "wallet" / "test_wallet.py").write_text("def test_nothing(:\n", "utf-8")

    done = process(folder, *RUN)
    shown = process(folder, "-m", "clew.cli", "show", "r1")

    assert 22 == done.returncode
    assert "failed (loop_no_progress): round 3, 2 repairs" in shown.stdout


def test_the_demo_goes_on_where_it_was_killed() -> None:
    """It fails by itself when the loop went another way than it must."""
    done = process(EXAMPLE, "demo.py")

    assert (0, False) == (done.returncode, "Traceback" in done.stderr)
    assert "resumed there, and pytest passes" in done.stdout
