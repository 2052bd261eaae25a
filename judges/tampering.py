"""clew as `agent-memory-integrity` sees a store: two runs in one home, edited behind its back, verified by the command.

PYTHONPATH=. agmi-check --adapter judges.tampering:Alone      … :Anchored
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from agmi.adapters.base import MemoryAdapter, Record

import clew

MINE, OTHER = "mine", "other"
Line = dict[str, Any]


class Unfinished(Exception):
    """The agent stops here, so that its run may go on later."""


def work(run_id: str, home: clew.Home, steps: int) -> None:
    """Let a run do so many steps in all, and pause; it may go on later."""

    def body(run: clew.SyncRun, prompt: str) -> None:
        for number in range(steps):
            run.step("note", lambda number=number: f"{run_id} notes {number}")
        raise Unfinished

    agent = clew.agent(body, name="notes")
    if run_id in home.reader.store.ids():
        home.resume_sync(run_id, agent)
    else:
        home.run_sync(agent, run_id, run_id=run_id)


class Alone(MemoryAdapter):
    """A home by itself: `clew verify RUN`."""

    name = "clew, the home alone"
    supports_replay = supports_metadata = supports_snapshot = True

    def setup(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.home = clew.Home(self.root / "home")
        self.steps = 0

    def teardown(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def seed(self, n: int) -> None:
        self.steps = n
        work(MINE, self.home, n)
        self.anchor()

    def anchor(self) -> None:
        """Nothing is kept outside of the home."""

    def verify(self) -> bool:
        done = self._verify()
        self.verify_detail = None if done.returncode == 0 else done.stderr.strip().splitlines()[0]
        return done.returncode == 0

    def _verify(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "clew.cli", "verify", MINE, "--home", str(self.home.path), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def reload(self) -> None:
        """Each verification is a new process."""

    # The attacker's hands. An entry is a note's record with the records behind it, up to the next note: what is cut at
    # the end is cut behind a whole line, as by somebody who knows the format.

    def _entries(self, run_id: str) -> tuple[list[Line], list[list[Line]]]:
        """The records before the first note, and the notes with what follows each."""
        opening: list[Line] = []
        notes: list[list[Line]] = []
        for text in (self.home.path / "runs" / f"{run_id}.jsonl").read_bytes().splitlines():
            line = json.loads(text)
            if line["kind"] == "event" and line["payload"]["event"].get("stepId", "").startswith("note-"):
                notes.append([])
            (notes[-1] if notes else opening).append(line)
        return opening, notes

    def _write(self, opening: list[Line], notes: list[list[Line]]) -> None:
        lines = [json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in sum(notes, opening)]
        (self.home.path / "runs" / f"{MINE}.jsonl").write_text("".join(f"{line}\n" for line in lines))

    def read_all_raw(self, run_id: str = MINE) -> list[Record]:
        return [Record(place, note[0]) for place, note in enumerate(self._entries(run_id)[1])]

    def write_raw(self, record: Record) -> None:
        opening, notes = self._entries(MINE)
        behind = notes[record.seq][1:] if record.seq < len(notes) else []
        notes[record.seq : record.seq + 1] = [[record.fields, *behind]]
        self._write(opening, notes)

    def delete_raw(self, seq: int) -> None:
        opening, notes = self._entries(MINE)
        self._write(opening, notes[:seq] + notes[seq + 1 :])

    def mutate_payload(self, record: Record) -> Record:
        event = record.fields["payload"]["event"]
        event["text"] = json.dumps(f"{json.loads(event['text'])} [TAMPERED]")
        return record

    def identity_of(self, record: Record) -> str:
        return f"{record.fields['runId']} {record.fields['sequence']}"

    def payload_of(self, record: Record) -> str:
        return str(record.fields["payload"]["event"]["text"])

    def owner_of(self, record: Record) -> str:
        return str(record.fields["runId"])

    def seed_other(self, n: int) -> None:
        work(OTHER, self.home, n)

    def read_other_raw(self) -> list[Record]:
        return self.read_all_raw(OTHER)

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        victim = self.read_all_raw()[victim_seq].fields
        event = {**victim["payload"]["event"], "text": donor.fields["payload"]["event"]["text"]}
        self.write_raw(Record(victim_seq, {**victim, "payload": {**victim["payload"], "event": event}}))

    def read_meta(self, seq: int) -> dict[str, Any]:
        return {"timestamp": self.read_all_raw()[seq].fields["timestamp"]}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        record = self.read_all_raw()[seq]
        record.fields["timestamp"] = meta["timestamp"].replace("20", "19", 1)
        self.write_raw(record)

    def snapshot_store(self) -> object:
        return self._copy_store(self.home.path)

    def restore_store(self, token: object) -> None:
        # The home is the same folder still: only what is in it is older.
        old = Path(str(token))
        for found in (*self.home.path.iterdir(),):
            shutil.rmtree(found) if found.is_dir() else os.unlink(found)
        shutil.copytree(old, self.home.path, dirs_exist_ok=True)

    def append_genuine(self) -> None:
        self.steps += 1
        work(MINE, self.home, self.steps)
        self.anchor()


class Anchored(Alone):
    """The same, with what `clew verify --json` said kept outside of the home: `clew verify RUN --against FILE`."""

    name = "clew, verified against a verdict kept elsewhere"

    def anchor(self) -> None:
        (self.root / "verdict.json").write_text(super()._verify("--json").stdout)

    def _verify(self, *words: str) -> subprocess.CompletedProcess[str]:
        return super()._verify("--against", str(self.root / "verdict.json"), *words)
