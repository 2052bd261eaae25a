"""clew as `crashresume` sees an agent: each step is a real process, and the crash behind an effect is its SIGKILL.

    PYTHONPATH=. crashresume judges.resuming:conformed

The suite crashes by an exception in its own process; here the process that paid is killed before it hears that it did.
With a probe that looks at the suite's own log the payment is found; without one the run waits for a person, which the
suite has no word for.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import clew

ORDERS = ["1001", "1002", "1003", "1004"]


class Agent:
    """What the suite steps: a home that stays, and a process for each step."""

    def __init__(self, ctx: Any, homes: Path) -> None:
        self.ctx = ctx
        self.home = homes / ctx.run_id

    def step(self, order: str) -> None:
        """Pay one order in a process of its own, which starts, continues or finds the order's run."""
        command = [sys.executable, "-m", "judges.resuming", str(self.home), order]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for line in process.stdout:
                try:
                    told = self._answer(*json.loads(line))
                except BaseException:
                    process.kill()
                    raise
                process.stdin.write(json.dumps(told) + "\n")
                process.stdin.flush()
        if process.returncode:
            raise RuntimeError(f"the step ended with {process.returncode}")

    def _answer(self, what: str, order: str) -> bool:
        key = f"pay-{order}"
        if what == "pay":
            self.ctx.effect("pay", payload=order, key=key)
            return True
        return key in self.ctx.effects.keys()  # noqa: SIM118  # a method of the suite's log, no mapping

    def state(self) -> dict[str, Any]:
        """What the journals say became of each order."""
        home = clew.Home(self.home)
        return {run_id: home.result(run_id).output for run_id in sorted(home.reader.store.ids())}


def conformed() -> Any:
    """The suite's report."""
    from crashresume import conform

    with tempfile.TemporaryDirectory() as folder:
        return conform(lambda ctx: Agent(ctx, Path(folder)), ORDERS)


# In the process of a step.


def ask(what: str, order: str) -> bool:
    """Ask the process that owns the world."""
    sys.stdout.write(json.dumps([what, order]) + "\n")
    sys.stdout.flush()
    return bool(json.loads(sys.stdin.readline()))


def find(call: clew.Call) -> clew.Verdict:
    """Look whether the payment is in the world's log."""
    paid = ask("find", call.arguments["order"])
    return clew.Happened("paid", "the log has it") if paid else clew.DidNotHappen("the log has it not")


@clew.tool(effect="external", probe=find, in_doubt_s=0)
def pay(order: str) -> str:
    """Pay an order."""
    ask("pay", order)
    return "paid"


@clew.agent(tools=[pay])
def settle(run: clew.SyncRun, order: str) -> str:
    """Settle one order."""
    return str(run.call(pay, order=order))


def main() -> None:
    """One step: `HOME ORDER`."""
    home = clew.Home(sys.argv[1], takeover="proven")
    home.ensure_sync(settle, sys.argv[2], run_id=f"order-{sys.argv[2]}").raise_for_state()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
