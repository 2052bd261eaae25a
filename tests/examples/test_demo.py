"""The example as a newcomer meets it: the agent by itself, and the demo with its deaths."""

import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"


def process(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A Python process in a folder, with what it said."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=240)


def test_the_agent_works_by_itself(tmp_path: Path) -> None:
    """Without a bank's address it opens one of its own, so the command in the README's table needs nothing else."""
    shutil.copytree(EXAMPLE, tmp_path / "examples" / "orders", ignore=shutil.ignore_patterns("__pycache__"))

    done = process(tmp_path, "-m", "clew.cli", "run", "examples/orders/agent.py:settle", "settle orders.csv")

    assert (0, "settled 8 of 8 orders") == (done.returncode, done.stdout.strip())
    assert len(list((tmp_path / "examples" / "orders" / "receipts").iterdir())) == 8


def test_the_demo_ends_with_every_count_right() -> None:
    """`make demo` is the first thing that anyone runs; it fails by itself when a count is off."""
    done = process(EXAMPLE, "demo.py")

    assert (0, False) == (done.returncode, "Traceback" in done.stderr)
    assert "Nothing was guessed." in done.stdout
