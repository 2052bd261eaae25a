"""What really happened in one life, line by line in a file that outlives its processes. Judges nothing."""

import os
import threading
from pathlib import Path
from typing import Any

import msgspec

from clew.certify.orders import Entry


class Ledger:
    """Where a leg writes down what it does, at once: what is written is kept, however the process ends."""

    def __init__(self, path: Path, leg: int) -> None:
        self._path = path
        self._leg = leg
        self._writing = threading.Lock()
        self._said: set[tuple[str, str, str]] = set()

    def write(self, did: str, **facts: Any) -> None:
        """One more line."""
        line = msgspec.json.encode(Entry(did, self._leg, **facts)) + b"\n"
        with self._writing, self._path.open("ab", buffering=0) as book:
            book.write(line)

    def say(self, did: str, code: str, what: str, tool: str = "") -> None:
        """A finding or a note; each is written once a leg."""
        if (did, code, what) not in self._said:
            self._said.add((did, code, what))
            self.write(did, code=code, what=what, tool=tool)


def read(path: Path) -> list[Entry]:
    """All that was written; a line that a death cut off is none."""
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    return [msgspec.json.decode(line, type=Entry) for line in whole.splitlines()]


def die() -> None:
    """The end of this process, as sudden as a power cut: nothing in it runs any more."""
    os.kill(os.getpid(), 9)
