"""A process that pays when a person has said yes, and one that says it. Started by the journeys, never imported.

    clerk.py run|resume RUNS [KILL [CENTS [LATER]]]     each run in a process of its own, forked from this one
    clerk.py review                                     reads `approve RUN` and `deny RUN`, says what came of each

KILL is `asked` (behind the question's append), `pause` (before that of the pause), `opened` (behind the leg's first
append), `start` (before that of a start), or `-`. CENTS is what is paid, LATER how many seconds later it is. A payment
is a line in the file `paid`: key, arguments' fingerprint, cents.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import clew
from clew.core.canon import fingerprint
from clew.runtime.clock import SystemClock
from clew.stores.jsonl import FileRunStore

CENTS = 4200
LAPSES_S = 600.0


class LaterClock(SystemClock):
    """The machine's clock, so many seconds ahead."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class DeadlyWriter:
    """A writer that dies at the named append; otherwise the writer it wraps."""

    def __init__(self, writer: Any, moment: str) -> None:
        self._writer = writer
        self._moment = moment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, batch: Any, *, starts_effect: bool = False) -> int:
        kinds = [record.kind for record in batch.records]
        if (self._moment == "start" and starts_effect) or (self._moment == "pause" and "pause" in kinds):
            os.kill(os.getpid(), signal.SIGKILL)
        position = self._writer.append(batch, starts_effect=starts_effect)
        asks = any(record.payload.get("event", {}).get("type") == "approval_required" for record in _events(batch))
        if (self._moment == "asked" and asks) or (self._moment == "opened" and kinds[0] == "resume"):
            os.kill(os.getpid(), signal.SIGKILL)
        return int(position)


def _events(batch: Any) -> list[Any]:
    return [record for record in batch.records if record.kind == "event"]


class DeadlyStore(FileRunStore):
    """A file store whose writers die at one moment."""

    moment = ""

    def create(self, run_id: str, batch: Any, *, wait_s: float = 0.0) -> Any:
        return DeadlyWriter(super().create(run_id, batch, wait_s=wait_s), self.moment)

    def open(self, run_id: str, **how: Any) -> Any:
        return DeadlyWriter(super().open(run_id, **how), self.moment)


@clew.tool(effect="external")
def pay(call: clew.Call, order: str, cents: int) -> str:
    line = f"{call.key} {fingerprint(dict(call.arguments))} {cents}\n".encode()
    paid = os.open("paid", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(paid, line)
    os.close(paid)
    return f"T-{order}"


def agent_of(cents: int) -> clew.Agent:
    """The agent, which wants to pay this much."""

    def clerk(run: clew.SyncRun, prompt: str) -> str:
        return str(run.call(pay, order=prompt, cents=cents))

    policy = clew.Policy("assisted", expires_in_s=LAPSES_S)
    return clew.Agent(clerk, name="clerk", tools=[pay], policy=policy)


def home_of(moment: str = "", later_s: int = 0) -> clew.Home:
    """The home in this folder, its writers deadly."""
    store, clock = DeadlyStore(Path(".clew")), LaterClock()
    store.moment, clock.ahead_ms = moment, later_s * 1000
    return clew.Home(".clew", takeover="operator", store=store, clock=clock)


def work(deed: str, run_id: str, moment: str, cents: int, later_s: int) -> int:
    """One run, to its end or its pause; the exit code is the run's."""
    home, agent = home_of(moment, later_s), agent_of(cents)
    if deed == "run":
        return home.run_sync(agent, run_id, run_id=run_id).exit_code
    return home.resume_sync(run_id, agent).exit_code


def each_apart(deed: str, runs: list[str], moment: str, cents: int, later_s: int) -> None:
    """Every run in a process of its own; says how each ended, a signal as a negative number."""
    for run_id in runs:
        child = os.fork()
        if child == 0:
            os._exit(work(deed, run_id, moment, cents, later_s))
        _, status = os.waitpid(child, 0)
        print(run_id, os.waitstatus_to_exitcode(status), flush=True)


def review() -> None:
    """Say yes or no as told, and tell what came of it."""
    home = clew.Home(".clew", takeover="operator")
    for line in sys.stdin:
        word, run_id = line.split()
        try:
            said = home.approve if word == "approve" else home.deny
            said(run_id, by=f"reviewer {os.getpid()}", reason=f"said {word}")
            print(run_id, word, flush=True)
        except clew.ClewError as fault:
            print(run_id, fault.code, flush=True)


if __name__ == "__main__":
    given = [*sys.argv[1:], *["-", str(CENTS), "0"][len(sys.argv) - 3 :]] if len(sys.argv) > 2 else sys.argv[1:]
    if given[0] == "review":
        review()
    else:
        each_apart(given[0], given[1].split(","), given[2].strip("-"), int(given[3]), int(given[4]))
