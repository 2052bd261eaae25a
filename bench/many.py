"""A thousand runs side by side in one process, against threads that do the same to the disk by hand."""

import asyncio
import json
import os
import resource
import shutil
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import clew
from bench.calls import appends_of, pay_async
from bench.figures import Figure
from bench.pairs import Rounds

RUNS, CALLS, THREADS, ROUNDS = 1000, 20, 8, 3
OPEN_FILES = 4096


class Bytes(NamedTuple):
    """What one run of this agent puts on the disk: its birth, the two appends of a call, its end, its head."""

    birth: bytes
    pair: list[bytes]
    end: bytes
    head: bytes


def measure(folder: Path) -> list[Figure]:
    """All runs begin, pay and finish at once on one loop.

    By hand: the same files with the same bytes, named and synced as often, by as many threads as clew has; and the
    appends of their calls alone, to files that are there already.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, hard) if hard > 0 else OPEN_FILES, hard))
    told = _sample(folder)
    sides: dict[str, Callable[[Path], None]] = {
        "ours": lambda place: asyncio.run(_ours(place)),
        "whole": lambda place: _by_hand(place, told, whole=True),
        "calls": lambda place: _by_hand(place, told, whole=False),
    }
    rounds = Rounds()
    for number in range(ROUNDS):
        for name, work in sides.items():
            place = folder / f"many-{name}-{number}"
            since = time.perf_counter()
            work(place)
            rounds.add(name, time.perf_counter() - since, RUNS * CALLS)
            shutil.rmtree(place)
    whole = _figure(rounds, "whole", "the same files, bytes and syncs", gate=2.2)
    return [whole, _figure(rounds, "calls", "their calls' appends alone")]


def _figure(rounds: Rounds, other: str, what: str, gate: float | None = None) -> Figure:
    note = f"{rounds.median_ms('ours'):.3f} ms a call against {rounds.median_ms(other):.3f} ms"
    sides = f"{RUNS:,} runs × {CALLS} calls in one process, births and ends included / {what} by {THREADS} threads"
    return Figure(sides, rounds.ratio("ours", other), gate=gate, note=note)


@clew.agent(tools=[pay_async])
async def _agent(run: clew.Run, prompt: str) -> str:
    for number in range(CALLS):
        await run.call(pay_async, order=f"{number}", cents=4200)
    return "done"


def _sample(folder: Path) -> Bytes:
    """The bytes of one run of this agent, from its files."""
    home, name = clew.Home(folder / "sample"), "sample"
    pair = []

    @clew.agent(tools=[pay_async])
    async def agent(run: clew.Run, prompt: str) -> str:
        await run.call(pay_async, order="1", cents=4200)
        pair.extend(appends_of(folder / "sample" / "runs" / f"{name}.jsonl"))
        return "done"

    asyncio.run(home.run(agent, "bench", run_id=name)).raise_for_state()
    runs = folder / "sample" / "runs"
    lines = (runs / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
    appends = [json.loads(line)["append"] for line in lines]
    parts = dict.fromkeys(appends, b"")
    for line, at in zip(lines, appends, strict=True):
        parts[at] += line
    return Bytes(parts[1], pair, parts[appends[-1]], (runs / name / "head.json").read_bytes())


async def _ours(folder: Path) -> None:
    home = clew.Home(folder)
    await asyncio.gather(*(home.run(_agent, "bench", run_id=f"run-{number}") for number in range(RUNS)))


def _by_hand(folder: Path, told: Bytes, *, whole: bool) -> None:
    """All births, then all calls, then all ends; each of the three by all threads."""
    folder.mkdir()
    naming = threading.Lock()
    files: dict[int, int] = {}

    def begin(number: int) -> None:
        files[number] = _born(folder, number, told, naming) if whole else _empty(folder, number)

    _by_threads(RUNS, begin)
    _by_threads(RUNS * CALLS, lambda number: [_append(files[number % RUNS], data) for data in told.pair])
    if whole:
        _by_threads(RUNS, lambda number: _ended(folder, number, files[number], told))
    for fd in files.values():
        os.close(fd)


def _by_threads(times: int, work: Callable[[int], object]) -> None:
    take = count()

    def take_turns() -> None:
        while (number := next(take)) < times:
            work(number)

    threads = [threading.Thread(target=take_turns) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _append(fd: int, data: bytes) -> None:
    os.write(fd, data)
    os.fdatasync(fd)


def _empty(folder: Path, number: int) -> int:
    return os.open(folder / f"{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)


def _born(folder: Path, number: int, told: Bytes, naming: threading.Lock) -> int:
    """As a journal is born: written and synced under another name, linked to its own, both folders made and synced."""
    place, hidden = folder / f"{number}.jsonl", folder / f".{number}.tmp"
    fd = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
    os.write(fd, told.birth)
    os.fsync(fd)
    with naming:
        os.mkdir(folder / f"{number}", 0o700)
        os.link(hidden, place)
        os.unlink(hidden)
    _sync_folder(folder)
    _publish(folder / f"{number}", told.head)
    return fd


def _ended(folder: Path, number: int, fd: int, told: Bytes) -> None:
    _append(fd, told.end)
    _publish(folder / f"{number}", told.head)


def _publish(folder: Path, data: bytes) -> None:
    hidden = folder / ".head.tmp"
    fd = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    hidden.rename(folder / "head.json")
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)
