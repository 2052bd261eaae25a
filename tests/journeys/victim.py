"""A process that runs the orders agent and can be told where to die. Started by the journeys, never imported.

    victim.py run|resume RUN AGENT [KILL]

KILL is `before:N`, `torn:N:BYTES` or `after:N` (the N-th append of this process), `send:N` or `heard:N` (the N-th
payment: before it is sent, after it was answered). Every acknowledged append is noted in `acknowledged` before
anything else happens, so that the journey can tell what may never be lost.
"""

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import clew
from clew.stores.jsonl import FileRunStore

# The copies of the example in the current folder.
sys.path.insert(0, str(Path.cwd()))
orders = importlib.import_module("agent")


def die() -> None:
    """As if the power of this process were cut."""
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly:
    """Counts one kind of moment and dies at the one that was named."""

    def __init__(self, order: str) -> None:
        self.kind, _, rest = order.partition(":")
        number, _, size = rest.partition(":")
        self.number, self.size = int(number or 0), int(size or 0)
        self.seen = 0

    def is_now(self, *kinds: str) -> bool:
        """Is this the moment?"""
        if self.kind not in kinds:
            return False
        self.seen += 1
        return self.seen == self.number


class DeadlyWriter:
    """A writer that dies at the named append; otherwise the writer it wraps."""

    def __init__(self, writer: Any, deadly: Deadly) -> None:
        self._writer = writer
        self._deadly = deadly

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, batch: Any, *, starts_effect: bool = False) -> int:
        now = self._deadly.is_now("before", "torn", "after")
        if now and self._deadly.kind != "after":
            tear(self._writer.run_id, batch.data[: self._deadly.size])
            die()
        position = self._writer.append(batch, starts_effect=starts_effect)
        acknowledge(batch)
        if now:
            die()
        return int(position)


class DeadlyStore(FileRunStore):
    """A file store whose writers may die."""

    deadly: Deadly

    def create(self, run_id: str, batch: Any, *, wait_s: float = 0.0) -> Any:
        if self.deadly.is_now("before"):
            die()
        writer = super().create(run_id, batch, wait_s=wait_s)
        acknowledge(batch)
        if self.deadly.is_now("after"):
            die()
        return DeadlyWriter(writer, self.deadly)

    def open(self, run_id: str, **how: Any) -> Any:
        return DeadlyWriter(super().open(run_id, **how), self.deadly)


def tear(run_id: str, data: bytes) -> None:
    """Leave the beginning of an append in the file, as a death in the middle of a write does."""
    with (Path(".clew") / "runs" / f"{run_id}.jsonl").open("ab") as journal:
        journal.write(data)


def acknowledge(batch: Any) -> None:
    """Note what was acknowledged: the sequence and the chain of its last record."""
    with Path("acknowledged").open("a", encoding="ascii") as notes:
        notes.write(f"{batch.last} {batch.chain}\n")


def deadly_bank(deadly: Deadly) -> None:
    """Let a payment's request be a moment to die at, on either side of it."""
    ask = orders.ask_bank

    def ask_and_die(method: str, path: str, body: Any = None, key: str = "") -> Any:
        if method == "POST" and deadly.is_now("send"):
            die()
        answer = ask(method, path, body, key)
        if method == "POST" and deadly.is_now("heard"):
            die()
        return answer

    setattr(orders, "ask_bank", ask_and_die)  # noqa: B010  # a module found at run time has no attributes to check


def main() -> int:
    """Run or resume; the exit code is the run's."""
    deed, run_id, name, *kill = sys.argv[1:]
    deadly = Deadly(kill[0] if kill else "")
    deadly_bank(deadly)
    store = DeadlyStore(Path(".clew"))
    store.deadly = deadly
    home = clew.Home(".clew", takeover="operator", store=store)
    found = getattr(orders, name)
    if deed == "run":
        return home.run_sync(found, "settle orders.csv", run_id=run_id).exit_code
    return home.resume_sync(run_id, found).exit_code


if __name__ == "__main__":
    sys.exit(main())
