"""A folder with an agent in it and the command as a real process; what it says is waited for, never the clock."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AGENT = '''
import os
import signal
import sys
from pathlib import Path

import clew


def flag(name):
    """Take a flag down; was it up?"""
    path = Path(name)
    raised = path.exists()
    path.unlink(missing_ok=True)
    return raised


@clew.tool(effect="external")
def pay(call: clew.Call, order: str, cents: int) -> dict:
    with Path("payments").open("a") as book:
        book.write(f"{order}\\n")
    if flag("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    if flag("boom"):
        raise ConnectionError("the line is dead")
    return {"transfer": f"T-{order}"}


@clew.tool(effect="none", replay="safe")
def hold() -> str:
    print("holding", flush=True)
    return sys.stdin.readline().strip()


@clew.agent(tools=[pay])
def settle(run, prompt):
    print("hello from the agent")
    return ", ".join(run.call(pay, order=order, cents=4200)["transfer"] for order in prompt.split())


@clew.agent(tools=[hold, pay])
async def patient(run, prompt):
    await run.call(hold)
    return await run.call(pay, order=prompt, cents=1)


@clew.agent(tools=[hold, pay])
def patient_plain(run, prompt):
    run.call(hold)
    return run.call(pay, order=prompt, cents=1)


def buggy(run, prompt):
    raise ValueError("a bug")
'''


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        found: dict[str, Any] = json.loads(self.err.splitlines()[-1])
        return found["error"]


class Live:
    """A command that still runs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.heard = ""

    def until(self, text: str) -> None:
        """Read on until it has said this."""
        assert self.process.stderr is not None
        while text not in self.heard:
            line = self.process.stderr.readline()
            assert line, f"it ended without saying {text!r}: {self.heard}"
            self.heard += line

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, say: str = "on\n") -> Done:
        """Let the tool go on, and wait for the end."""
        out, err = self.process.communicate(say, timeout=60)
        return Done(self.process.returncode, out, self.heard + err)


class Shell:
    """A folder in which somebody types."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "SYSTEMROOT") if name in os.environ}
        self.env = {**kept, "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC"}
        (folder / "agent.py").write_text(AGENT, "utf-8")

    def __call__(self, *words: str, say: str = "on\n", **env: str) -> Done:
        done = subprocess.run(
            self._command(words),
            check=False,
            cwd=self.folder,
            env=self.env | env,
            input=say,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> Live:
        pipe = subprocess.PIPE
        return Live(
            subprocess.Popen(
                self._command(words), cwd=self.folder, env=self.env, stdin=pipe, stdout=pipe, stderr=pipe, text=True
            )
        )

    def holding(self, agent: str = "patient", run_id: str = "held") -> Live:
        """A run that is in the middle of a call."""
        live = self.start("run", f"agent.py:{agent}", "7", "--run-id", run_id)
        live.until("holding")
        return live

    def raise_flag(self, name: str) -> None:
        (self.folder / name).touch()

    @property
    def payments(self) -> list[str]:
        book = self.folder / "payments"
        return book.read_text("utf-8").split() if book.exists() else []

    def bytes_and_times(self) -> dict[str, tuple[bytes, int]]:
        """All that lies in the folder, with its modification times; folders too."""
        return {
            path.as_posix(): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns)
            for path in (self.folder, *self.folder.rglob("*"))
        }

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "clew.cli", *words]
