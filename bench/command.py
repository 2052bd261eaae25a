"""What a person at the keyboard waits for: the command in new processes, file cache warm. Seconds, not ratios."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import subject
from bench.figures import Figure

TIMES = 9
UNCLEAN = 5
_CLEW = [sys.executable, "-m", "clew.cli"]


def measure(folder: Path, scratch: Path) -> list[Figure]:
    """Help, a small run, and lists of 1,000 and 10,000 runs with five among them whose process was killed.

    Args:
        folder: Where the homes lie when they are listed.
        scratch: Where they are made, preferably in memory.
    """
    small, large = _homes(folder, scratch)
    return [
        _seconds("clew --help", ["--help"], small, 0.35),
        _seconds("clew show of a small run", ["show", "run-00000"], small, 0.35),
        _seconds("clew ls of 1,000 runs", ["ls"], small, 0.6, times=5),
        _seconds("clew ls of 10,000 runs", ["ls"], large, 2.0, times=3),
        Figure("peak memory of clew ls of 10,000 runs", round(_peak_mb(["ls"], large)), "MB", 100),
        Figure("killed runs that ls of 10,000 shows as interrupted", _interrupted(large), "", UNCLEAN, "="),
    ]


def _homes(folder: Path, scratch: Path) -> tuple[Path, Path]:
    """Two homes of real runs, made once; the larger one is the smaller one and more."""
    small, large = folder / "thousand", folder / "ten-thousand"
    made = scratch / "listed"
    subprocess.run(subject.command("runs", made, 1000 - UNCLEAN), cwd=subject.ROOT, check=True)
    for number in range(UNCLEAN):
        subprocess.run(subject.command("dies", made, f"killed-{number}"), cwd=subject.ROOT, check=False)
    shutil.copytree(made, small)
    subprocess.run(subject.command("runs", made, 10_000 - UNCLEAN, 1000 - UNCLEAN), cwd=subject.ROOT, check=True)
    shutil.copytree(made, large)
    shutil.rmtree(made)
    return small, large


def _seconds(what: str, words: Sequence[str], home: Path, gate: float, times: int = TIMES) -> Figure:
    taken = []
    for number in range(times + 1):
        since = time.perf_counter()
        subprocess.run([*_CLEW, *words], env=_at(home), check=True, capture_output=True)
        if number:
            taken.append(time.perf_counter() - since)
    return Figure(what, round(statistics.median(taken), 3), "s", gate, note="a new process, warm cache")


def _at(home: Path) -> dict[str, str]:
    """As a user's shell: compiled modules are kept, so only the first process compiles them."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "CLEW_HOME": str(home)}


_PEAK = """
import runpy, sys
sys.argv = ["clew", *sys.argv[1:]]
try:
    runpy.run_module("clew.cli", run_name="__main__")
except SystemExit:
    pass
print(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0], file=sys.stderr)
"""


def _peak_mb(words: Sequence[str], home: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, *words], env=_at(home), check=True, capture_output=True, text=True
    )
    return int(done.stderr.split()[-1]) * 1024 / 1e6


def _interrupted(home: Path) -> int:
    done = subprocess.run([*_CLEW, "ls", "--json"], env=_at(home), check=True, capture_output=True, text=True)
    rows = [row for row in json.loads(done.stdout) if row["shown"] == "interrupted"]
    return sum(row["runId"].startswith("killed-") for row in rows) if len(rows) == UNCLEAN else -len(rows)
