"""A work traced, and every disk that a power cut may leave of it judged. Bounds and counts; no verdict of its own."""

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.crash.judge import parts_for
from tests.crash.parts import BESIDE, Part, Promises
from tests.crash.stage import Stage
from tests.crash.states import Bounds, Disks, State
from tests.crash.studio import studio
from tests.crash.telling import Fact
from tests.crash.trace import OPTIONS, Op, Said, Tracing
from tests.crash.works import Work

ENOUGH = 50
"""A writer without any sync has more wrong states than there is time for."""
TMPFS = Path("/dev/shm")  # memory: a state is laid out in microseconds


class Traced(NamedTuple):
    """What a work did, in its order, to the folder `root`."""

    root: Path
    home: str
    ops: list[Op]
    facts: list[Fact]
    ends: list[str]


class Swept(NamedTuple):
    """What came out: how many states, in how many seconds, and the complaints with an example of each kind."""

    enumerated: int
    distinct: int
    tried: int
    seconds: float
    complaints: Counter[str]
    examples: dict[str, str]

    @property
    def words(self) -> str:
        """For people."""
        rate = self.distinct / self.seconds if self.seconds else 0
        found = f"{self.distinct} distinct of {self.enumerated} states, {self.tried} recoveries, {rate:.0f} a second"
        return f"{found}, {dict(self.complaints)}"


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder on tmpfs, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="clew-crash-", dir=TMPFS if TMPFS.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def traced(work: Work) -> Traced:
    """Let a work happen once, under strace, leg by leg."""
    with in_memory() as folder, studio() as town:
        root, ends = folder / "home", []
        tracing = Tracing(root)
        for leg in work.legs:
            log = folder / f"{leg}.strace"
            ended = town.leg(work.name, leg, root, [*OPTIONS, "-o", str(log)])
            ends.append(f"{leg}: {ended.how} {ended.text}".strip())
            tracing.read(log)
        facts = [op.fact for op in tracing.ops if isinstance(op, Said)]
        return Traced(root, work.home, tracing.ops, facts, ends)


def sweep(found: Traced, bounds: Bounds) -> Swept:
    """Judge each distinct state, until enough of them are not as they must be."""
    disks = Disks(found.ops, bounds)
    complaints, examples = Counter[str](), dict[str, str]()
    begun, judged = time.perf_counter(), 0
    with in_memory() as folder:
        court = _Court(found, Stage(folder / "home", found.root, disks.contents))
        for state in disks:
            if complaints.total() >= ENOUGH:
                break
            judged += 1
            for complaint in court.judge(state):
                kind = complaint.partition(":")[0]
                complaints[kind] += 1
                examples.setdefault(kind, _example(found.ops, state, complaint))
    return Swept(disks.enumerated, judged, court.tried, time.perf_counter() - begun, complaints, examples)


class _Court:
    """Judges states part by part; a part with the same files and the same promises as before is judged once."""

    def __init__(self, found: Traced, stage: Stage) -> None:
        self._facts = found.facts
        self._parts = parts_for({fact[1] for fact in found.facts})
        self._root, self._home = str(found.root), str(found.root / found.home)
        self._place = stage.root / found.home
        self._stage = stage
        self._known: dict[int, list[str]] = {}
        self._read_by: dict[str, list[str]] = {}
        self._said, self._promises = -1, Promises()
        self.tried = 0

    def judge(self, state: State) -> list[str]:
        if self._said != state.said:
            self._said, self._promises = state.said, Promises(self._facts[: state.said])
        seen: dict[str, list[object]] = {part.name: [] for part in self._parts}
        for folder in state.folders:
            for name in self._readers(folder):
                seen[name].append(folder)
        for path, digest in state.files:
            for name in self._readers(path):
                seen[name].append((path, digest))
        return [complaint for part in self._parts for complaint in self._part(part, state, seen[part.name])]

    def _readers(self, path: str) -> list[str]:
        """The parts that read this path."""
        if path not in self._read_by:
            self._read_by[path] = [part.name for part in self._parts if part.has(self._beside(path))]
        return self._read_by[path]

    def _part(self, part: Part, state: State, seen: list[object]) -> list[str]:
        key = hash((part.name, tuple(seen), self._promises.mark(part.kinds)))
        if key not in self._known:
            self.tried += 1
            self._stage.lay(state)
            self._known[key] = part.judge(self._place, self._promises)
            self._promises.judged.clear()
        return self._known[key]

    def _beside(self, path: str) -> str:
        """A path relative to the home; what lies beside it begins with a word that says so."""
        if path.startswith(f"{self._home}/"):
            return path[len(self._home) + 1 :]
        return BESIDE + path[len(self._root) + 1 :]


def _example(ops: Sequence[Op], state: State, complaint: str) -> str:
    files = [os.path.basename(path) for path, _ in state.files]
    return f"after call {state.op} ({str(ops[state.op])[:160]}), {len(files)} files: {complaint}"
