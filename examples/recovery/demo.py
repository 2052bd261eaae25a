"""One change that a person first refuses and then allows: every command is a process of its own, nothing is faked.

A denied write leaves the run paused and the file alone. Resumed and approved, the write happens once: one checkpoint
of the file as it was, one committed receipt, one change. A finished run is not resumed again.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
APPROVAL_WANTED, REFUSED = 20, 4


class Off(Exception):
    """A count is not what it must be."""


class Desk:
    """A folder with the agent in it, and the command `clew` run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(HERE / "agent.py", folder)
        self.environment = {**os.environ}
        self.environment.pop("CLEW_HOME", None)

    def clew(self, *arguments: str, expect: int = 0) -> None:
        """One command, shown with its output; its exit code must be as expected."""
        print(f"\n$ clew {shlex.join(arguments)}", flush=True)
        print(self.ask(*arguments, expect=expect).rstrip(), flush=True)

    def ask(self, *arguments: str, expect: int = 0) -> str:
        """What one command says; with `--json` on stdout alone."""
        apart = subprocess.PIPE if "--json" in arguments else subprocess.STDOUT
        command = [sys.executable, "-m", "clew.cli", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=apart, check=False,
        )  # fmt: skip
        if done.returncode != expect:
            raise Off(f"clew {shlex.join(arguments)}: exit {done.returncode}, expected {expect}: {done.stdout}")
        return str(done.stdout)

    def must(self, what: str, found: object, expected: object) -> None:
        """Say a count, and fail loudly when it is off."""
        print(f"  {what}: {found}", flush=True)
        if found != expected:
            raise Off(f"{what}: {found!r}, expected {expected!r}")

    def account(self) -> dict[str, Any]:
        """The run as the command tells it to programs."""
        return dict(json.loads(self.ask("show", "@last", "--json")))

    def receipts(self) -> list[str]:
        """The statuses of all receipts of the run, in the order of its journal."""
        events = [entry["event"] for entry in self.account()["trace"]]
        return [event["status"] for event in events if event["type"] in ("effect_receipt", "tool_attempt")]


def play(desk: Desk) -> None:
    """Deny, pause; resume, approve, one change; resume again, refused."""
    desk.clew("run", "agent.py:note", "order 1042 is paid", expect=APPROVAL_WANTED)
    desk.clew("deny", "@last", "--by", "ann", "--reason", "is it?")
    desk.must("the file is there", (desk.folder / "notes.txt").exists(), False)
    desk.must("receipts", desk.receipts(), ["not_started"])
    desk.clew("resume", "@last", expect=APPROVAL_WANTED)
    desk.clew("approve", "@last", "--by", "ann", "--reason", "seen on the statement")
    desk.must("the file is there", (desk.folder / "notes.txt").exists(), False)
    desk.clew("resume", "@last")
    desk.must("the file says", (desk.folder / "notes.txt").read_text("utf-8"), "order 1042 is paid\n")
    desk.must("committed receipts", desk.receipts().count("committed"), 1)
    desk.must("checkpoints", [kept["checkpointId"] for kept in desk.account()["checkpoints"]], ["k1"])
    desk.clew("resume", "@last", expect=REFUSED)
    desk.clew("verify", "@last", "--deep")


def main() -> int:
    """Play it in a folder of its own, which is left behind only when a count is off."""
    folder = Path(tempfile.mkdtemp(prefix="clew-demo-recovery-"))
    try:
        play(Desk(folder))
    except Off as off:
        print(f"\n{off}\nThe folder is left: {folder}", flush=True)
        return 1
    shutil.rmtree(folder)
    print("\nDenied, nothing happened. Approved, it happened once.", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
