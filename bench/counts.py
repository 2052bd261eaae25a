"""System calls, counted from outside: syncs a call, calls an append, and who makes them. Needs `strace`."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench import subject
from bench.figures import Figure

SYNCS = frozenset({"fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"})
FEW, MANY = 100, 300
_LINE = re.compile(r"^(\d+) +(\w+)\(")
LOOKS = 1.02
"""So much may be added by looks into the inbox: every 200 ms, four calls each, however many appends that are."""


class Trace:
    """The system calls of one process and its threads. `main` is the thread that runs the event loop."""

    def __init__(self, text: str) -> None:
        seen = [(found[1], found[2]) for found in map(_LINE.match, text.splitlines()) if found]
        self.main = seen[0][0] if seen else ""
        self.calls = Counter(name for _, name in seen)
        self.syncs = sum(count for name, count in self.calls.items() if name in SYNCS)
        self.syncs_of_main = sum(1 for thread, name in seen if thread == self.main and name in SYNCS)


def trace(command: Sequence[str], log: Path) -> Trace:
    """Run a command under `strace` to its end."""
    strace = ["strace", "-f", "-qq", "-e", "signal=none", "-o", str(log), *command]
    subprocess.run(strace, cwd=subject.ROOT, check=True, timeout=600)
    return Trace(log.read_text(errors="replace"))


def measure(folder: Path, history: Path) -> list[Figure]:
    """All counts; `history` is a home with the runs `r1000` and `r1000000`, which are copied before they go on."""
    if shutil.which("strace") is None:
        return [Figure("system calls", None, "", note="strace is not on this machine")]
    few = trace(subject.command("plain", folder / "few", FEW), folder / "few.log")
    many = trace(subject.command("plain", folder / "many", MANY), folder / "many.log")
    loop_few = trace(subject.command("on_loop", folder / "loop-few", FEW), folder / "loop-few.log")
    loop = trace(subject.command("on_loop", folder / "loop", MANY), folder / "loop.log")
    return [
        Figure("syncs a plain call", (many.syncs - few.syncs) / (MANY - FEW), "", 2, "=",
               f"{many.syncs} in a run of {MANY} calls; birth, heads and finish take {few.syncs - 2 * FEW}"),
        Figure("syncs a call on asyncio", (loop.syncs - loop_few.syncs) / (MANY - FEW), "", 2, "="),
        Figure("syncs on the event loop's thread, birth to finish", loop.syncs_of_main, "", 0, "=",
               f"of {loop.syncs} in all"),
        *_growing(folder, history),
    ]  # fmt: skip


def _growing(folder: Path, history: Path) -> list[Figure]:
    """System calls an append at the beginning and far on, as differences of two runs that end at other places."""
    found = {}
    for run_id in ("r1000", "r1000000"):
        counted = []
        for calls in (FEW, MANY):
            home = folder / f"{run_id}-{calls}"
            home.mkdir()
            shutil.copytree(history / "runs", home / "runs", ignore=lambda _, names, keep=run_id: [
                name for name in names if name.removesuffix(".jsonl") != keep and name.startswith("r1")
            ])  # fmt: skip
            counted.append(trace(subject.command("go_on", home, run_id, calls), folder / f"{run_id}-{calls}.log"))
            shutil.rmtree(home)
        found[run_id] = sum((counted[1].calls - counted[0].calls).values()) / (MANY - FEW) / 2
    early, late = found["r1000"], found["r1000000"]
    return [
        Figure("system calls an append at record 1,000", early, ""),
        Figure(
            "system calls an append at record 1,000,000",
            late,
            "",
            round(early * LOOKS, 2),
            note="constant but for looks into the inbox, which go by time",
        ),
    ]
