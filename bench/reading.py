"""Reading, verifying and folding a journal, against decoding the same lines and hashing the same bytes."""

import hashlib
import subprocess
from pathlib import Path

import msgspec

import clew
from bench import subject
from bench.figures import Figure
from bench.pairs import take_turns

PEAK_BYTES_A_CALL = 300


def measure(history: Path) -> list[Figure]:
    """Time at two lengths, and memory as what the longer one takes more; `history` holds `r100000` and `r1000000`."""
    return [*_time(history, "r100000", 7), *_time(history, "r1000000", 3), _memory(history)]


def _time(history: Path, run_id: str, rounds: int) -> list[Figure]:
    home = clew.Home(history)
    path = history / "runs" / f"{run_id}.jsonl"
    decode = msgspec.json.Decoder().decode

    def ours(_: int) -> None:
        home.reader.see(run_id)

    def least(_: int) -> None:
        data = path.read_bytes()
        hashlib.sha256(data).hexdigest()
        for line in data.splitlines():
            decode(line)

    found = take_turns({"fold": (ours, 1), "decode": (least, 1)}, rounds)
    note = f"{found.median_ms('fold') / 1000:.2f} s against {found.median_ms('decode') / 1000:.2f} s"
    count = int(run_id[1:])
    return [Figure(f"read, verify, fold {count:,} records / decode + SHA-256", found.ratio("fold", "decode"),
                   gate=2.5, note=note)]  # fmt: skip


def _memory(history: Path) -> Figure:
    """Peaks of two processes: what both have is the constant, what the longer one has more are its calls."""
    peaks = []
    for run_id in ("r100000", "r1000000"):
        told = subprocess.run(
            subject.command("fold", history, run_id), cwd=subject.ROOT, check=True, capture_output=True, text=True
        ).stdout.split()
        peaks.append((int(told[0]), int(told[1])))
    (less, few), (more, many) = peaks
    return Figure("peak memory of the fold, a call", (more - less) / (many - few), "B", PEAK_BYTES_A_CALL,
                  note=f"{less / 2**20:.0f} MiB at {few:,} calls, {more / 2**20:.0f} MiB at {many:,}")  # fmt: skip
