"""The loop for real: an agent repairs a project, is killed with SIGKILL while it repairs, and goes on there.

Nothing is faked but the model: the process is real, its death is real, and pytest says at the end whether it worked.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PATIENCE_S = 120


class Off(Exception):
    """Something is not what it must be."""


def say(text: str) -> None:
    """One line of the story."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


class Stage:
    """A folder with the example in it, and the command `clew` run there."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="clew-demo-loop-"))
        for file in ("fix.py", "model.py"):
            shutil.copy(HERE / file, self.folder)
        shutil.copytree(HERE / "wallet", self.folder / "wallet", ignore=shutil.ignore_patterns("__pycache__"))
        self.environment = dict(os.environ)
        self.environment.pop("CLEW_HOME", None)

    def command(self, *arguments: str) -> list[str]:
        """The command line of `clew`, from the environment that runs this."""
        return [sys.executable, "-m", "clew.cli", *arguments]

    def clew(self, *arguments: str) -> str:
        """One command, shown with its output; it must succeed."""
        say(f"$ clew {shlex.join(arguments)}")
        done = self.ask(*self.command(*arguments))
        print(done.rstrip(), flush=True)
        return done

    def ask(self, *command: str) -> str:
        """What a process of this folder says."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise Off(f"{shlex.join(command[1:])}: exit {done.returncode}: {done.stdout}")
        return done.stdout

    def loops(self) -> list[dict[str, Any]]:
        """The loop records of the journal, whole lines alone: it may be being written."""
        found = sorted((self.folder / ".clew" / "runs").glob("*.jsonl"))
        whole = found[0].read_bytes().rpartition(b"\n")[0].splitlines() if found else []
        records = [json.loads(line) for line in whole]
        return [record["payload"] for record in records if record["kind"] == "loop"]

    def kill_while_it_repairs(self) -> None:
        """Start the agent and end it with SIGKILL as soon as its journal says that it repairs."""
        say("$ clew run fix.py:fix 'fix wallet'")
        thinking = {**self.environment, "MODEL_THINKS_S": "2"}
        running = subprocess.Popen(self.command("run", "fix.py:fix", "fix wallet"), cwd=self.folder, env=thinking)
        until_s = time.monotonic() + PATIENCE_S
        while not (self.loops() and self.loops()[-1]["phase"] == "repairing"):
            if running.poll() is not None or time.monotonic() > until_s:
                running.kill()
                raise Off(f"the agent ended with {running.wait()} before it repaired anything")
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
        running.wait()
        say("SIGKILL while it repairs.")

    def count(self) -> None:
        """What must be true at the end; fail loudly when it is not."""
        phases = [told["phase"] for told in self.loops()]
        account = json.loads(self.ask(*self.command("show", "@last", "--json")))
        tests = self.ask(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "wallet").splitlines()[-1]
        print(f"  phases   {' '.join(phases)}")
        print(f"  state    {account['operation']['state']}, {len(account['legs'])} legs")
        print(f"  pytest   {tests}")
        rounds = ["verifying", "repairing"] * 2
        if phases != ["planning", "executing", *rounds, "verifying", "succeeded"]:
            raise Off(f"the loop went {phases}")
        if account["operation"]["state"] != "completed" or len(account["legs"]) != 2 or account["review"]:
            raise Off(f"the run is {account['operation']['state']}, waiting {account['review']}")

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)


def main() -> int:
    """The story; 0 when it ended as it must."""
    stage = Stage()
    try:
        stage.kill_while_it_repairs()
        stage.clew("show", "@last")
        stage.clew("resume", "@last")
        stage.clew("verify", "@last")
        stage.count()
    except Off as off:
        say(f"OFF: {off}")
        return 1
    finally:
        stage.close()
    say("Killed while it repaired, resumed there, and pytest passes.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
