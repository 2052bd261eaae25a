"""The surroundings of the journeys: a bank as a real process, folders with the orders agent, and what is counted."""

import contextlib
import json
import os
import queue
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import clew

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"
VICTIM = Path(__file__).with_name("victim.py")
ORDERS = 3
KEPT = {name: os.environ[name] for name in ("PYTHONPATH", "SYSTEMROOT") if name in os.environ}
"""So that a victim runs the clew that is tested, wherever it was found."""


class Bank:
    """The example's payment service as a process; it ignores keys, so only clew stands between us and paying twice."""

    def __init__(self, folder: Path, *, delay_ms: int = 0, announces: bool = False) -> None:
        self.database = folder / "bank.sqlite"
        command = [sys.executable, "-u", str(EXAMPLE / "bank.py"), "--database", str(self.database), "--ignore-keys"]
        command += ["--delay-ms", str(delay_ms), *(["--announce"] if announces else [])]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.address = self.says().split()[-1]

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self._said.put(line)

    def says(self) -> str:
        """The next line that it prints. `queue.Empty` when nobody paid for a minute: then whoever should is gone."""
        return self._said.get(timeout=60)

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(timeout=30)
        self._listener.join(30)


class Journey:
    """One run in a folder of its own, from its first death to its honest end."""

    def __init__(self, folder: Path, name: str, bank: Bank, agent: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.name = name
        self.bank = bank
        self.agent = agent
        self.run_id = f"{name}-run"
        self.errors: list[str] = []
        for file in ("agent.py", "bank.py"):
            shutil.copy(EXAMPLE / file, self.folder)
        rows = "".join(f"{order},Customer,{100 + number},X\n" for number, order in enumerate(self.orders))
        (self.folder / "orders.csv").write_text("order,customer,cents,iban\n" + rows, encoding="utf-8")
        self.home = clew.Home(self.folder / ".clew", takeover="operator")

    @property
    def orders(self) -> list[str]:
        """The ids of its orders, its own alone."""
        return [f"{self.name}-{number}" for number in range(1, ORDERS + 1)]

    def command(self, deed: str, kill: str = "") -> list[str]:
        """The victim's command line."""
        return [sys.executable, str(VICTIM), deed, self.run_id, self.agent, *([kill] if kill else [])]

    def start(self, deed: str, kill: str = "") -> "subprocess.Popen[str]":
        """Start a victim."""
        return subprocess.Popen(
            self.command(deed, kill),
            cwd=self.folder,
            env={**KEPT, "ORDERS_BANK": self.bank.address, "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, victim: "subprocess.Popen[str]") -> int:
        """Wait for a victim's end; what it said is kept."""
        _, said = victim.communicate(timeout=120)
        self.errors.append(said)
        return victim.returncode

    def go(self, deed: str, kill: str = "") -> int:
        """Start a victim and wait for its end."""
        return self.finish(self.start(deed, kill))

    def paid(self) -> list[str]:
        """Orders of this journey in the bank's books, one entry a payment."""
        return sorted(entry["order"] for entry in self.payments())

    def payments(self) -> list[dict[str, Any]]:
        """This journey's payments, from the bank's database."""
        with contextlib.closing(sqlite3.connect(self.bank.database)) as books:
            books.row_factory = sqlite3.Row
            rows = books.execute('select id, key, order_id as "order" from payments order by id').fetchall()
        return [dict(row) for row in rows if row["order"] in self.orders]

    def settle_as_a_person(self) -> int:
        """Look into the bank's books for each open effect and say what they say. Returns how many were settled."""
        waiting = self.home.result(self.run_id).waiting
        for effect in waiting:
            call = clew.Call(effect["idempotencyKey"])
            found = [entry for entry in self.payments() if entry["key"] == call.uuid]
            verdict = clew.Happened({"payment": found[0]["id"]}) if found else clew.DidNotHappen()
            self.home.settle(effect["idempotencyKey"], verdict, by="ann", reason="looked into the bank's books")
        return len(waiting)

    def see_it_through(self) -> None:
        """Resume and settle until the run has come to its end."""
        if not (self.folder / ".clew" / "runs" / f"{self.run_id}.jsonl").exists():
            assert self.go("run") == 0
            return
        for _ in range(6):
            state = self.home.result(self.run_id).operation.state
            if state in ("completed", "failed"):
                return
            self.settle_as_a_person_if_waiting()
            if self.go("resume") == 0:
                return
        raise AssertionError(f"{self.name} came to no end: {self.errors}")

    def settle_as_a_person_if_waiting(self) -> None:
        """What a resume could not settle by itself is settled by a person, as the exit code 21 asks."""
        row = self.home.reader.row(self.run_id)
        if row["state"] == "paused" and row["reason"] == "unknown_effect":
            self.settle_as_a_person()

    def acknowledged(self) -> list[tuple[int, str]]:
        """Sequence and chain of every append that was acknowledged to any of its processes."""
        notes = self.folder / "acknowledged"
        lines = notes.read_text(encoding="ascii").splitlines() if notes.exists() else []
        return [(int(line.split()[0]), line.split()[1]) for line in lines]

    def report(self) -> dict[str, object]:
        """What must be true of every journey, as counts."""
        lines = (self.folder / ".clew" / "runs" / f"{self.run_id}.jsonl").read_text(encoding="utf-8").splitlines()
        chains = {record["sequence"]: record["chain"] for record in map(json.loads, lines)}
        receipts = sorted(path.stem for path in (self.folder / "receipts").glob("*"))
        result = self.home.result(self.run_id)
        return {
            "paid": self.paid(),
            "receipts": receipts,
            "state": result.operation.state,
            "waiting": result.waiting,
            "lost": [seq for seq, chain in self.acknowledged() if chains.get(seq) != chain],
            "tracebacks": [said for said in self.errors if "Traceback" in said],
            "tail": self.home.verify(self.run_id)["tail"]["verdict"],
            "findings": self.home.verify(self.run_id, deep=True)["findings"],
        }

    def expected(self) -> dict[str, object]:
        """The report of an honest end: one payment and one receipt an order, nothing lost, nothing open."""
        return {
            "paid": self.orders,
            "receipts": self.orders,
            "state": "completed",
            "waiting": [],
            "lost": [],
            "tracebacks": [],
            "tail": "clean",
            "findings": [],
        }
