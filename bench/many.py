"""A thousand runs side by side in one process, against threads that write the same bytes by hand."""

import asyncio
import os
import resource
import shutil
import threading
import time
from itertools import count
from pathlib import Path

import clew
from bench.calls import appends_of, pay_async
from bench.figures import Figure
from bench.pairs import Rounds

RUNS, CALLS, THREADS, ROUNDS = 1000, 20, 8, 3
OPEN_FILES = 4096


def measure(folder: Path) -> list[Figure]:
    """All runs begin, pay and finish at once on one loop; the bare files are written by as many threads as clew has."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, hard) if hard > 0 else OPEN_FILES, hard))
    pair = _pair(folder)
    rounds = Rounds()
    for number in range(ROUNDS):
        since = time.perf_counter()
        asyncio.run(_ours(folder / f"many-{number}"))
        rounds.add("ours", time.perf_counter() - since, RUNS * CALLS)
        since = time.perf_counter()
        _bare(folder / f"bare-many-{number}", pair)
        rounds.add("bare", time.perf_counter() - since, RUNS * CALLS)
        for done in (folder / f"many-{number}", folder / f"bare-many-{number}"):
            shutil.rmtree(done)
    note = f"{rounds.median_ms('ours'):.3f} ms a call against {rounds.median_ms('bare'):.3f} ms; births included"
    return [Figure(f"{RUNS:,} runs × {CALLS} calls in one process / bare writes from {THREADS} threads",
                   rounds.ratio("ours", "bare"), gate=2.2, note=note)]  # fmt: skip


@clew.agent(tools=[pay_async])
async def _agent(run: clew.Run, prompt: str) -> str:
    for number in range(CALLS):
        await run.call(pay_async, order=f"{number}", cents=4200)
    return "done"


def _pair(folder: Path) -> list[bytes]:
    """The two appends of a call, from a run of this agent."""
    home = clew.Home(folder / "sample")
    lines = []

    @clew.agent(tools=[pay_async])
    async def agent(run: clew.Run, prompt: str) -> str:
        await run.call(pay_async, order="1", cents=4200)
        lines.extend(appends_of(folder / "sample" / "runs" / f"{run.run_id}.jsonl"))
        return "done"

    asyncio.run(home.run(agent, "bench")).raise_for_state()
    return lines


async def _ours(folder: Path) -> None:
    home = clew.Home(folder)
    await asyncio.gather(*(home.run(_agent, "bench", run_id=f"run-{number}") for number in range(RUNS)))


def _bare(folder: Path, pair: list[bytes]) -> None:
    folder.mkdir()
    files = [os.open(folder / f"{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600) for number in range(RUNS)]
    take = count()

    def work() -> None:
        while (number := next(take)) < RUNS * CALLS:
            for data in pair:
                os.write(files[number % RUNS], data)
                os.fdatasync(files[number % RUNS])

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for fd in files:
        os.close(fd)
