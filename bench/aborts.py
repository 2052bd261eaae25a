"""How long it takes from `clew abort` to the terminal record of a run in another process, whatever the run is doing."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.figures import Figure

TIMES = 20
GATE_MS = 250
"""The reference's: p95 from cancel to quiescent with a local fake provider (contract #103)."""

_AGENT = """
import asyncio
import subprocess
import sys
import clew

@clew.tool(effect="external")
async def waits():
    print("at work", flush=True)
    await asyncio.Event().wait()

@clew.tool(effect="external")
def commands(call: clew.Call):
    with subprocess.Popen(["sleep", "600"], env=call.environment(), start_new_session=True) as process:
        print("at work", flush=True)
        process.wait()

@clew.agent(tools=[waits, commands])
async def agent(run, prompt):
    await run.call({"waits": waits, "commands": commands}[prompt])
"""


def measure(folder: Path) -> list[Figure]:
    """An async tool that is cancelled, and a plain one whose process, in a session of its own, has to be ended."""
    place = folder / "aborts"
    place.mkdir()
    (place / "agent.py").write_text(_AGENT)
    return [_figure(place, "waits", "an async tool"), _figure(place, "commands", "a process of a plain tool")]


def _figure(place: Path, world: str, what: str) -> Figure:
    taken = sorted(_once(place, world, number) for number in range(TIMES))
    late = taken[int(len(taken) * 0.95) - 1]
    noted = f"p95 {late:.0f} ms; {TIMES} runs of the command, aborted by another process"
    return Figure(
        f"from home.abort to the terminal record: {what}", round(statistics.median(taken)), "ms", GATE_MS, note=noted
    )


def _once(place: Path, world: str, number: int) -> float:
    """Milliseconds from the request to the finish on the disk."""
    import clew

    run_id, home = f"{world}-{number}", clew.Home(place / ".clew")
    words = [sys.executable, "-m", "clew.cli", "run", "agent.py:agent", world, "--run-id", run_id]
    with subprocess.Popen(
        words, cwd=place, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stderr is not None
        while b"at work" not in run.stderr.readline():
            assert run.poll() is None
        since = time.perf_counter()
        home.abort(run_id, by="bench", reason="measured")
        while home.reader.row(run_id)["state"] != "failed":
            pass
        taken = (time.perf_counter() - since) * 1000
        run.communicate()
    return taken
