"""All figures in one run: `make bench`, or `python -m bench [FOLDER]` with a folder on the disk that is asked about.

Writes the table to docs/cost.md and to standard output. Exit 1 when a gate is not kept.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import aborts, calls, command, counts, machine, many, others, reading, sessions, subject, workspaces
from bench.figures import Figure, table

HISTORIES = (1_000, 100_000, 1_000_000)
PAGE = subject.ROOT / "docs" / "cost.md"
HEAD = """# What it costs

Measured by `make bench` in one run; generated, do not edit. A ratio is the median over rounds in which both sides took
turns in one process, so that what disturbed one disturbed both; a count does not depend on the machine.

- *Bare* appends write and sync the same bytes to a plain file; nothing is born, named or finished there.
- A thousand runs are born, named and ended too: 7,000 syncs beside the 40,000 of their calls. So they are set against
  threads that do all of this to the disk by hand, and, without a gate, against the appends of the calls alone.
- *decode + SHA-256* reads the file whole, hashes it, cuts it by `splitlines` and decodes each line with msgspec.
  Reading it by lines and hashing it in pieces is about a quarter quicker.
- A step of DBOS creates and removes a file (SQLite's rollback journal). Without a journal of its own ext4 passes over
  inodes that were freed in the last minutes: where thousands of files were deleted shortly before, the same step takes
  2.5 ms instead of 1.4, all of the difference in the kernel. So it is measured first; wait some minutes
  before another run of this.
- What others cost beside a call depends on the disk. Tried by hand on ext4 with a journal (a loop device of the same
  machine, two runs), two bare appends took 0.7 to 1.0 ms, for each waits for a commit; a step of DBOS took 1.6 to 2.0
  calls of ours there, a node of LangGraph 2.2 to 2.8.
- A gate that is not kept is a task, not a claim.

Measured on: {machine}

"""


def main() -> int:
    """Measure, print, write; 1 when a gate is not kept."""
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.home()
    with tempfile.TemporaryDirectory(prefix="clew-bench-", dir=given) as folder, _in_memory() as scratch:
        described = machine.describe(Path(folder))
        found = list(_all(Path(folder), Path(scratch)))
    text = HEAD.format(machine=described) + table(found)
    PAGE.write_text(text)
    print(text)
    return int(any(figure.kept is False for figure in found))


def _all(folder: Path, scratch: Path) -> Iterator[Figure]:
    histories = scratch / "histories"
    for records in HISTORIES:
        words = subject.command("history", histories, f"r{records}", records)
        subprocess.run(words, cwd=subject.ROOT, check=True)
    parts: list[Callable[[], list[Figure]]] = [
        lambda: others.measure(folder),
        lambda: calls.sync_call(folder),
        lambda: calls.async_call(folder),
        lambda: counts.measure(scratch, histories),
        lambda: many.measure(folder),
        lambda: reading.measure(histories),
        lambda: command.measure(folder, scratch),
        lambda: aborts.measure(folder),
        lambda: workspaces.measure(folder),
        lambda: sessions.measure(scratch),
    ]
    for part in parts:
        for figure in part():
            print(table([figure]).splitlines()[-1], file=sys.stderr, flush=True)
            yield figure


def _in_memory() -> "tempfile.TemporaryDirectory[str]":
    """Where long histories are made: in memory if there is such a place, for nobody waits for those syncs."""
    shm = Path("/dev/shm")
    fits = shm.is_dir() and shutil.disk_usage(shm).free > 4 * 2**30
    return tempfile.TemporaryDirectory(prefix="clew-bench-", dir=shm if fits else None)


if __name__ == "__main__":
    raise SystemExit(main())
