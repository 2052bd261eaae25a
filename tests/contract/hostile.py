"""A folder with an agent and a home: what is typed there, what it is answered, and whether a byte or a time changed."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from clew.cli import main
from clew.core.chain import genesis
from clew.core.codec import encode_append, read_record
from clew.core.records import Draft, Record
from clew.disk.process import identity
from tests.cli.shell import Done, Shell
from tests.house.tree import ROOT

WHO: Final = ("--by", "ann", "--reason", "looked at the bank")
RUN: Final = "k3f9x2"
OTHER: Final = "k3fb7q"
PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


Fingerprint = dict[str, tuple[Any, ...]]


def fingerprint(root: Path) -> Fingerprint:
    """All that lies at and below a place: kind, mode, modification time, bytes or target; no link is followed."""
    return {path.relative_to(root).as_posix(): _one(path) for path in [root, *sorted(root.rglob("*"))]}


def _one(path: Path) -> tuple[Any, ...]:
    if not os.path.lexists(path):
        return ()
    seen = path.lstat()
    link, file = stat.S_ISLNK(seen.st_mode), stat.S_ISREG(seen.st_mode)
    return seen.st_mode, seen.st_mtime_ns, os.readlink(path) if link else path.read_bytes() if file else b""


def differences(before: Fingerprint, after: Fingerprint) -> list[str]:
    """The places that are not as they were."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


@dataclass(frozen=True)
class Complaint:
    """How a command refused: its exit code, what it said, and which places below the home are not as they were."""

    exit: int
    code: str
    message: str
    next: str
    changed: list[str]

    @property
    def short(self) -> tuple[int, str, list[str]]:
        """What most tests compare."""
        return self.exit, self.code, self.changed


def complaint(done: Done, changed: Sequence[str] = ()) -> Complaint:
    """The one error that a command ended with, in the two lines that people get. A traceback is none."""
    assert "Traceback" not in done.err, done.err
    found = re.search(r"^clew: (.*) \[(\w+)\]\nnext: (.+)\n\Z", done.err, re.DOTALL | re.MULTILINE)
    assert found is not None, (done.code, done.out, done.err)
    return Complaint(done.code, found[2], found[1], found[3], list(changed))


class Door:
    """The process of `tests.contract.door`: commands as processes of their own, without starting Python for each."""

    def __init__(self) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "SYSTEMROOT") if name in os.environ}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.door"], cwd=ROOT, stdin=pipe, stdout=pipe, text=True,
            env={**kept, "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC"},
        )  # fmt: skip

    def __call__(self, folder: Path, *words: str) -> Done:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"folder": str(folder), "words": words}) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        return Done(said["code"], said["out"], said["err"])

    def close(self) -> None:
        self.process.communicate(timeout=30)


class Place(Shell):
    """A folder in which somebody types; in this process by `type`, as a process of its own by `fork` or a call."""

    def __init__(self, folder: Path, capture: "pytest.CaptureFixture[str]", door: Door) -> None:
        super().__init__(folder)
        self._capture = capture
        self._door = door

    def fork(self, *words: str) -> Done:
        """The command as a process of its own, which may die."""
        return self._door(self.folder, *words)

    @property
    def home(self) -> Path:
        return self.folder / ".clew"

    def journal(self, run_id: str = RUN) -> Path:
        return self.home / "runs" / f"{run_id}.jsonl"

    def type(self, *words: str) -> Done:
        """The command in this process."""
        self._capture.readouterr()
        code = main(words)
        heard = self._capture.readouterr()
        return Done(code, heard.out, heard.err)

    def refused(self, *words: str) -> Complaint:
        """Type what will be refused, and look at the home before and behind it."""
        return self._refused(self.type, *words)

    def process_refused(self, *words: str) -> Complaint:
        """The same as a process of its own."""
        return self._refused(self, *words)

    def _refused(self, door: Callable[..., Done], *words: str) -> Complaint:
        before = fingerprint(self.home) if self.home.exists() else {}
        done = door(*words)
        after = fingerprint(self.home) if self.home.exists() else {}
        return complaint(done, differences(before, after))

    def command(self, words: Sequence[str]) -> list[str]:
        """The command as another program would start it."""
        return self._command(tuple(words))

    def done(self, run_id: str = OTHER) -> None:
        """A run that is completed."""
        assert self.type("run", "agent.py:settle", "1042", "--run-id", run_id).code == 0

    def waiting(self, run_id: str = RUN) -> None:
        """A run with one effect that nobody can vouch for."""
        self.raise_flag("boom")
        assert self.type("run", "agent.py:settle", "1042", "--run-id", run_id).code == 21

    def dead(self, run_id: str = RUN, **owner: Any) -> None:
        """A run whose process died in a payment on this boot, or with another owner: its leg's members as given."""
        self.waiting(run_id)
        gone = {"startTick": 1, **owner}
        records = [read_record(line) for line in self.journal(run_id).read_bytes().splitlines()]
        started = next(number for number, each in enumerate(records) if _status(each) == "started")
        self.replace_journal(run_id, rewritten(records[: started + 1], lambda payload: _owned(payload, gone)))
        (self.home / "runs" / run_id / "head.json").unlink()

    def replace_journal(self, run_id: str, data: bytes) -> None:
        """Put other bytes in a journal's place."""
        self.journal(run_id).unlink()
        self.journal(run_id).write_bytes(data)

    def damage(self, change: Callable[[bytes], bytes], run_id: str = RUN) -> None:
        """Edit a journal by hand."""
        self.replace_journal(run_id, change(self.journal(run_id).read_bytes()))


def _status(record: Record) -> str:
    event = record.payload.get("event")
    return str(event.get("status", "")) if isinstance(event, dict) else ""


def _owned(payload: dict[str, Any], owner: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "leg": {**payload["leg"], **owner}} if "leg" in payload else payload


def rewritten(records: Sequence[Record], change: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """The same records as another writer would have written them, chained anew, append by append."""
    run_id = records[0].run_id
    chain, data, after = genesis(run_id), b"", 0
    while after < len(records):
        group = [each for each in records if each.append == records[after].append]
        batch = encode_append(
            run_id, after=after, chain=chain, drafts=[Draft(each.kind, change(each.payload)) for each in group],
            timestamp=group[0].timestamp, event_ids=[str(each.event_id) for each in group],
        )  # fmt: skip
        chain, data, after = batch.chain, data + batch.data, batch.last
    return data


def owner_here(**changes: Any) -> dict[str, Any]:
    """Who this process is, as a leg says it, with changes."""
    return {**identity(), **changes}


# What a machine may or may not have.


def without_rights(command: Sequence[str]) -> list[str]:
    """The command as a user whom file modes bind; the superuser gives up its way around them. Skips where it cannot."""
    if os.geteuid() != 0:
        return list(command)
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("the superuser needs setpriv to be bound by file modes")
    return [setpriv, "--bounding-set=-dac_override,-dac_read_search", *command]


@contextmanager
def small_disk(place: Path, size_bytes: int) -> Iterator[Path]:
    """A file system of this many bytes, a multiple of the page; skips where it cannot be mounted."""
    place.mkdir(exist_ok=True)
    options = f"size={size_bytes},mode=0700"
    words = ["mount", "-t", "tmpfs", "-o", options, "clew-test", str(place)]
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only the superuser of a Linux machine can mount a small disk")
    if subprocess.run(words, capture_output=True, check=False, timeout=30).returncode:
        pytest.skip("this machine does not let its superuser mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], capture_output=True, check=False, timeout=30)


def fill(disk: Path, free: int) -> None:
    """Leave so many pages."""
    there = os.statvfs(disk)
    with (disk / "filler").open("wb") as filler:
        filler.write(b"\0" * (there.f_bavail * there.f_frsize - free * PAGE))


def stretched(data: bytes) -> bytes:
    """The same journal, so much longer in its first record that the next append needs a new page."""
    records = [read_record(line) for line in data.splitlines()]

    def longer(payload: dict[str, Any], by: int) -> dict[str, Any]:
        return {**payload, "note": "x" * by} if "initialPrompt" in payload else payload

    short = len(rewritten(records, lambda payload: longer(payload, 0)))
    return rewritten(records, lambda payload: longer(payload, (-short - 50) % PAGE))


def json_lines(text: str) -> list[Any]:
    """Each line as a value."""
    return [json.loads(line) for line in text.splitlines()]
