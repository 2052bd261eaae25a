"""Write `docs/assurance.md`: which faults are tried, how often, what judges from outside say, what may be claimed.

python docs/assurance.py

The table is `tests/crash/rows.py`; planted bugs lie in `tests/crash/mutants/`; `make judges` kept the judges' words.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.crash.rows import ROWS, Row  # noqa: E402  # the project's own folder is known from the line above on

PAGE = ROOT / "docs" / "assurance.md"
MUTANTS = ROOT / "tests" / "crash" / "mutants"
JUDGES = ROOT / "docs" / "assurance" / "judges.json"

HEAD = """\
# What was tried, and what may be claimed

<!-- Written by `python docs/assurance.py`. Do not edit. -->

Killing a process proves nothing about a sync: what is in the cache survives it. So three things are done to real
processes of clew. They are killed and refused at every system call. Every disk that a power cut may legally leave is
built from their traced system calls, as far as the counts below go, and recovered. And bugs are planted, each of which
a test that claims to find it must find. `make test` does a part of it, `make crash` more, `make crash-full` most.

`make crash` ran from end to end on 2026-11-30 as root, on two quiet cores, in 14 min 45 s: 236 passed, 1 failed. What
failed was the judge of that test, which looked for the reason of a pause where a restore behind it leaves none; it is
mended, and its file passed by itself. As an ordinary user it ran earlier that day in 31 min 55 s beside other work (230
passed, 5 skipped that need root).

`make crash-full` takes hours. All of its tests were run on 2026-11-30 in parts, side by side, on commits of that day:
Ctrl-C at all 91,603 bytecodes of row 13, no memory at each of about 21,500 allocations, once and from then on, more
than 818,000 distinct disks of the reference run, each bit of each byte of a journal, 10,000,000 arbitrary inputs. Three
parts failed in a place that was then mended and tried again by itself, not the whole part. What they found in clew and
`make crash` had not is tried each time by `make test` now: a run that waited for ever for a call which Ctrl-C had
struck at its edge, and a close in procfs whose failure came out raw.

## May be claimed

- Of the traced runs, a kill before any system call recovers, and so do the legal disk states that were built (pieces of
  512 bytes and of 4 KiB in any order, names pinned by the sync of their folder; all where few are open, else a sample):
  nothing acknowledged is lost, nothing legal is refused.
- An effect that was cut off between its start and its record is found open, and is not done again by itself.
- An edit, a flip, an insertion or a swap inside a journal is found; a journal that was cut behind whole records, put
  back from an older copy or removed is found against a verdict of `clew verify --json` that was kept elsewhere, with
  `clew verify --against FILE`.

## May not be claimed

- *Tested against power loss*: no power was cut. A drive that lies about a flush loses what it lied about.
- *Safe on network file systems*: none was there to try; they are refused or read only.
- *Tested on Windows*: nobody ran it there.
- *Tamper-proof*: whoever can write the home and knows the format can write another history with a chain of its own.
  Without a verdict kept elsewhere, a copy of the whole home from before is taken for the home.

## Faults

"""


def rows() -> Iterator[str]:
    """The table, a line a fault."""
    yield "| # | fault | what must come of it | `make test` | `make crash` | `make crash-full` | needs |"
    yield "|---|---|---|---|---|---|---|"
    for number, row in ROWS.items():
        cells = (str(number), row.fault, row.outcome, *_counts(row), row.needs)
        yield f"| {' | '.join(cells)} |"


def _counts(row: Row) -> tuple[str, str, str]:
    if not row.tests and not row.test:
        return "not done", "not done", "not done"
    return row.test or "in its tests", row.crash, row.full


def tests() -> Iterator[str]:
    """Which tests hold which fault."""
    for number, row in ROWS.items():
        if row.tests:
            yield f"- {number}: {', '.join(f'`{test}`' for test in row.tests)}"


def mutants() -> Iterator[str]:
    """The planted bugs, with the promise that each breaks and the row that claims it."""
    yield "| planted bug | promise | row |"
    yield "|---|---|---|"
    for path in sorted(MUTANTS.glob("*.patch")):
        text = path.read_text("utf-8")
        said = text.split("\n\n", 1)[0].replace("\n", " ")
        promise, row = (re.search(rf"^{name}: (.+)$", text, re.MULTILINE) for name in ("promise", "row"))
        yield f"| {said} | {promise[1] if promise else ''} | {row[1] if row else ''} |"


def judges() -> Iterator[str]:
    """What each judge said, word for word; of long lists their end."""
    for verdict in json.loads(JUDGES.read_text("utf-8")):
        version = f" {verdict['version']}" if verdict.get("version") else ""
        yield f"### `{verdict['judge']}`{version}: {verdict['about']}\n"
        if verdict["says"]:
            yield "```"
            yield from _shortened(verdict["says"])
            yield "```\n"


def _shortened(lines: list[str]) -> list[str]:
    points = [line for line in lines if re.match(r"#\d+ ", line)]
    kept: list[Any] = [line for line in lines if line not in points]
    return kept if not points else [*kept[:-1], f"({len(points)} points, each named with its verdict)", kept[-1]]


def page() -> str:
    """The whole page."""
    planted = len(list(MUTANTS.glob("*.patch")))
    parts = [
        HEAD + "\n".join(rows()),
        "What has no count of its own under `make crash` is done whole each time.",
        "## Tests of each fault\n\n" + "\n".join(tests()),
        f"## Planted bugs\n\n{planted} of them; each must be found by the test that its file names.",
        "\n".join(mutants()),
        "## Judges from outside\n\nOther people's suites, by their own runners (`make judges`), in their own words.",
        "\n".join(judges()).rstrip(),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
