"""One system call of a leg that kills its process, or fails, once or from then on; then what must be true is asked."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.crash.judge import judge
from tests.crash.parts import Promises
from tests.crash.studio import Ended, Studio
from tests.crash.telling import Fact
from tests.crash.works import BOOKS, WORKS, paid

CALLS = (
    "openat", "read", "pread64", "write", "fsync", "fdatasync", "close", "fstat", "newfstatat", "mkdir", "link",
    "unlink", "rename", "ftruncate", "flock", "fadvise64", "getdents64", "lseek", "fcntl", "rmdir",
)  # fmt: skip
KILLED = ("openat", "write", "fsync", "fdatasync", "close", "mkdir", "link", "unlink", "rename", "ftruncate", "flock")
"""Before each of these a death can leave something else than before the one before it."""
ANYWHERE = "openat, anywhere"
"""A process that may open nothing more meets it in procfs as well."""
ERRORS = {
    "EIO": ("openat", "pread64", "write", "fsync", "fdatasync", "mkdir", "link", "unlink", "rename", "ftruncate",
            "flock", "fadvise64", "getdents64", "fstat", "newfstatat", "close"),
    "ENOSPC": ("openat", "write", "fsync", "fdatasync", "mkdir", "link", "rename"),
    "EINTR": ("openat", "write", "pread64", "fsync", "fdatasync", "flock", "ftruncate"),
    "EMFILE": (ANYWHERE,),
}  # fmt: skip
Counts = dict[str, list[int]]
"""Of each call by its name, the numbers under which it comes in a leg."""
_COUNTED = re.compile(r"^(\w+)\(")


class Point(NamedTuple):
    """Where a leg is struck: before its n-th call of this name, by what, and until which one (`+`: all that follow)."""

    leg: str
    call: str
    deed: str
    when: str

    def __str__(self) -> str:
        return f"{self.leg}-{self.call}-{self.deed}-{self.when}"

    @property
    def options(self) -> list[str]:
        """For strace. Without its filter in the kernel, with which a signal silently never comes."""
        return ["-e", f"trace={self.call}", "-e", f"inject={self.call}:{self.deed}:when={self.when}"]


class Struck(NamedTuple):
    """What came of one point; `settled` are the orders of which a person had to say whether they were paid."""

    fired: bool
    ended: str
    complaints: list[str]
    settled: tuple[str, ...] = ()


def counted(town: Studio, folder: Path, work: str, leg: str) -> Counts:
    """Which calls of each name touch the home or the world's books, in a leg that nothing strikes."""
    numbers, found = Counter[str](), Counts()
    for line in calls_of(town, folder, work, leg):
        name = _name(line)
        numbers[name] += 1
        if name == "openat":
            found.setdefault(ANYWHERE, []).append(numbers[name])
        if str(folder / "town") in line:
            found.setdefault(name, []).append(numbers[name])
    return found


def calls_of(town: Studio, folder: Path, work: str, leg: str) -> list[str]:
    """The calls of a leg that nothing strikes, as strace writes them, each with the path of its descriptor."""
    root, log = folder / "town" / "home", folder / "count.strace"
    prepare(town, root, work, leg)
    town.leg(work, leg, root, ["-y", "-o", str(log), "-e", f"trace={','.join(CALLS)}"])
    return [line for line in log.read_text("utf-8", "replace").splitlines() if _COUNTED.match(line)]


def _name(line: str) -> str:
    return line.partition("(")[0]


def deaths(leg: str, counts: Counts) -> Iterator[Point]:
    """A kill before each call."""
    for call in KILLED:
        yield from (Point(leg, call, "signal=KILL", str(number)) for number in counts.get(call, ()))


def around_effects(town: Studio, folder: Path, work: str, leg: str) -> list[Point]:
    """Deaths between the start of each effect and the record of its end: before it is done, while, and behind it."""
    counts, found = Counter[str](), list[Point]()
    books, behind = str(folder / "town" / BOOKS), False
    for line in calls_of(town, folder, work, leg):
        name = _name(line)
        counts[name] += 1
        if books in line and name in ("openat", "write", "close"):
            found.append(Point(leg, name, "signal=KILL", str(counts[name])))
            behind = name == "close"
        elif behind and name == "write" and ".jsonl" in line:
            found.append(Point(leg, name, "signal=KILL", str(counts[name])))
            behind = False
    return found


def errors(leg: str, counts: Counts, *, goes_on: bool) -> Iterator[Point]:
    """Each error at each call that can meet it, once or from then on; an interrupt comes three times, not for ever."""
    for error, calls in ERRORS.items():
        until = "" if not goes_on else "+" if error != "EINTR" else "..{}"
        for call in calls:
            for number in counts.get(call, ()):
                yield Point(leg, call.partition(",")[0], f"error={error}", f"{number}{until.format(number + 2)}")


def prepare(town: Studio, root: Path, work: str, leg: str) -> list[Fact]:
    """A new home in which all legs before this one have happened; what they told."""
    shutil.rmtree(root.parent, ignore_errors=True)
    root.parent.mkdir(parents=True)
    legs = WORKS[work].legs
    before = legs[: legs.index(leg)]
    return [fact for each in before for fact in town.leg(work, each, root).said]


def strike(town: Studio, folder: Path, work: str, point: Point) -> Struck:
    """Strike, recover, see it through, and count outside what was done."""
    root, log = folder / "town" / "home", folder / "strike.strace"
    facts = prepare(town, root, work, point.leg)
    log.unlink(missing_ok=True)
    ended = town.leg(work, point.leg, root, ["-o", str(log), *point.options])
    fired = ended.how == "killed" or "INJECTED" in log.read_text("utf-8", "replace")
    facts += ended.said
    complaints = [] if ended.how not in ("raw", "hung") else [f"{ended.how}: {ended.text}"]
    if root.exists():
        promises = Promises(facts)
        complaints += judge(root / WORKS[work].home, promises)
        facts += promises.judged
    complaints += seen_through(town, root, work, facts)
    settled = tuple(str(fact[2]) for fact in facts if fact[1] == "settled")
    return Struck(fired, ended.how, complaints, settled)


def seen_through(town: Studio, root: Path, work: str, facts: list[Fact]) -> list[str]:
    """The run is brought to its end, and each order was paid exactly once; `facts` grows by what is told meanwhile."""
    end: Ended = town.leg(work, "end", root)
    facts += end.said
    if (end.how, end.text) != ("ok", "completed"):
        return [f"no end: {end.how} {end.text}"]
    done = sorted(paid(root))
    found = [] if done == sorted(WORKS[work].orders) else [f"effects: {done}"]
    return found + judge(root / WORKS[work].home, Promises(facts))
