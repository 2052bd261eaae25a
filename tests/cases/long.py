"""Journals as long as one likes, written fast, and commands whose memory and reading are measured in their process."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from clew.core.codec import encode_append
from clew.core.events import Event
from clew.core.records import Draft
from clew.core.times import format_ms
from tests.histories import BORN_MS, PAY, Scribe, facts, returned, started

ANSWER = "x" * 16_000

MEASURED = """
import json, os, sys
from pathlib import Path
import clew.cli
import cyclopts, rich.console  # else a first use would be counted as the command's reading


def read_bytes():
    return int(next(l for l in Path("/proc/self/io").read_text().splitlines() if l.startswith("rchar")).split()[1])


before = read_bytes()
code = clew.cli.main(sys.argv[2:])
read = read_bytes() - before
peak = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmHWM")).split()[1]
Path(sys.argv[1]).write_text(json.dumps({"code": code, "read": read, "peak": int(peak) * 1024}))
"""


class Cost(NamedTuple):
    """What a command cost: its exit code, the bytes that it read, the most memory that it had at once."""

    code: int
    read: int
    peak: int


def cost_of(folder: Path, *words: str) -> Cost:
    """Type a command in a folder, in a process of its own; its answer is thrown away."""
    told = folder / "cost.json"
    subprocess.run(
        [sys.executable, "-c", MEASURED, str(told), *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
        timeout=300,
    )
    return Cost(**json.loads(told.read_text("utf-8")))


def write_long(home: Path, run_id: str, calls: int, answer: str = ANSWER) -> Path:
    """A run of so many payments, each with this answer, that died before its end; no head."""
    path = home / "runs" / f"{run_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    birth = Scribe(run_id).born()
    sequence, chain, traced, at = birth.state.sequence, birth.state.chain, 0, format_ms(BORN_MS)
    with path.open("wb") as journal:
        journal.write(birth.data)
        for number in range(1, calls + 1):
            call = facts(number, PAY, run_id=run_id)
            for said in (started(call), returned(call, value=answer)):
                drafts = _envelopes(run_id, said, traced, at)
                ids = [f"n1-{sequence + place}" for place in range(len(drafts))]
                batch = encode_append(run_id, after=sequence, chain=chain, drafts=drafts, timestamp=at, event_ids=ids)
                journal.write(batch.data)
                sequence, chain, traced = batch.last, batch.chain, traced + len(drafts)
    return path


def _envelopes(run_id: str, said: Sequence[Event], traced: int, at: str) -> list[Draft]:
    return [
        Draft("event", {"eventId": f"t-{number}", "runId": run_id, "sequence": number, "timestamp": at, "event": event})
        for number, event in enumerate(said, traced + 1)
    ]
