"""A session of 500 MB in entries of 2 KB: what listing, verifying and opening it take. Nothing is timed but noted."""

import subprocess
import sys
import time
from pathlib import Path

import clew
from bench import subject
from bench.figures import Figure

ENTRIES = 245_000
TEXT = "x" * 1850
PEAK_MIB = 128

# Not `ru_maxrss`, which a process inherits from the one that started it.
_TELL = 'print(int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) // 1024, file=sys.stderr)'
_COMMAND = f"""
import sys
from clew.cli.app import serve
code = serve(sys.argv[1:])
{_TELL}
raise SystemExit(code)
"""
_OPEN = f"""
import sys
import clew
with clew.Home(sys.argv[1]).session("big") as session:
    session.append({{"role": "user", "content": "one more"}})
{_TELL}
"""


def measure(scratch: Path) -> list[Figure]:
    """Peak memory of real processes; the session is made first, in memory if there is such a place."""
    home = scratch / "talk" / ".clew"
    size = _make(home)
    place = ("--home", str(home), "--quiet")
    parts = {
        "clew session ls --full": (_COMMAND, "session", "ls", "--full", *place),
        "clew session verify": (_COMMAND, "session", "verify", *place),
        "opening to append, and one append": (_OPEN, str(home)),
    }
    return [_peak(what, size, *words) for what, words in parts.items()]


def _make(home: Path) -> int:
    """By hand: half a million syncs are not what is asked about here."""
    home.parent.mkdir()
    clew.Home(home).session("big").close()
    path = home / "sessions" / "big.jsonl"
    with path.open("ab") as file:
        parent = "null"
        for number in range(1, ENTRIES + 1):
            role = "user" if number % 2 else "assistant"
            file.write(
                f'{{"kind":"entry","lane":"main","type":"message","id":"e{number:08d}","message":{{"role":"{role}",'
                f'"content":"{TEXT}"}},"parentId":{parent},"seq":{number},"timestamp":{number}}}\n'.encode()
            )
            parent = f'"e{number:08d}"'
    return path.stat().st_size


def _peak(what: str, size: int, code: str, *words: str) -> Figure:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=subject.ROOT, check=True, capture_output=True, text=True
    )
    took = time.monotonic() - began
    peak = int(done.stderr.split()[-1])
    note = f"{size / 1e6:.0f} MB, {ENTRIES:,} entries, {took:.1f} s"
    return Figure(f"peak memory: {what}", peak, "MiB", PEAK_MIB, note=note)
