"""Our stores for the tests, each with a way to put raw bytes in and take them out, and plugged into the public kit."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from clew.errors import ClewError, Corrupt
from clew.stores.base import RunStore
from clew.stores.jsonl import FileRunStore
from clew.stores.memory import MemoryRunStore
from clew.testing import RunStoreLab, failing_call
from clew.testing.storelab import TIME, Hand, go_on, read_all

__all__ = [
    "TIME",
    "FileLab",
    "Hand",
    "Lab",
    "MemoryLab",
    "code_of",
    "files_lab",
    "go_on",
    "memory_lab",
    "read_all",
    "verdict",
]


class Lab(Protocol):
    """A store and its bytes."""

    @property
    def store(self) -> RunStore: ...

    def implant(self, run_id: str, data: bytes) -> None: ...

    def raw(self, run_id: str) -> bytes: ...


class FileLab:
    """Files below a folder of the test."""

    def __init__(self, root: Path) -> None:
        self.root = root / ".clew"
        self.store = FileRunStore(self.root)

    def path(self, run_id: str) -> Path:
        return self.root / "runs" / f"{run_id}.jsonl"

    def implant(self, run_id: str, data: bytes) -> None:
        self.path(run_id).parent.mkdir(parents=True, exist_ok=True)
        # A new file: rewriting one in place makes some file systems wait for the device.
        self.path(run_id).unlink(missing_ok=True)
        self.path(run_id).write_bytes(data)

    def raw(self, run_id: str) -> bytes:
        return self.path(run_id).read_bytes()


class MemoryLab:
    """The memory of the test."""

    def __init__(self) -> None:
        self.store = MemoryRunStore()

    def implant(self, run_id: str, data: bytes) -> None:
        self.store.implant(run_id, data)

    def raw(self, run_id: str) -> bytes:
        return self.store.raw(run_id)


def memory_lab() -> RunStoreLab:
    """Our memory, plugged into the public kit as any store is."""
    memory = MemoryRunStore()
    return RunStoreLab(
        lambda: memory,
        raw=memory.raw,
        implant=memory.implant,
        fail=memory.failing,
        cannot={"elsewhere": "it lives in the memory of one process"},
    )


def files_lab(folder: Path) -> RunStoreLab:
    """Our files, plugged into the public kit as any store is."""
    root = folder / ".clew"
    return RunStoreLab(
        lambda: FileRunStore(root),
        raw=lambda run_id: (root / "runs" / f"{run_id}.jsonl").read_bytes(),
        implant=partial(_rewrite, root / "runs"),
        fail=lambda step: failing_call("write") if step == "write" else failing_call("fsync", "fdatasync"),
        elsewhere=f"""
from pathlib import Path
from clew.stores.jsonl import FileRunStore
store = FileRunStore(Path({str(root)!r}))""",
    )


def _rewrite(runs: Path, run_id: str, data: bytes) -> None:
    """In place, and never through a length of zero: some file systems then wait for the device."""
    runs.mkdir(parents=True, exist_ok=True)
    path = runs / f"{run_id}.jsonl"
    with path.open("r+b" if path.exists() else "wb") as journal:
        journal.write(data)
        journal.truncate()


def verdict(lab: Lab, run_id: str) -> tuple[Any, ...]:
    """All that a reader may say, so that two readers can be compared: an error's place, or records and end."""
    try:
        records, tail = read_all(lab.store.read(run_id))
    except Corrupt as error:
        return error.code, error.facts.get("line"), error.facts.get("byte")
    except ClewError as error:
        return (error.code,)
    return [record.sequence for record in records], tail


def code_of(deed: Callable[[], object], family: type[ClewError]) -> str:
    """The code of the error that a deed ends in."""
    with pytest.raises(family) as caught:
        deed()
    return caught.value.code
