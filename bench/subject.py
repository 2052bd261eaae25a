"""What is measured from outside, each in a process of its own: `python -m bench.subject NAME ARGUMENT…`."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import clew
from bench.calls import pay, pay_async

RECORDS_A_CALL = 6


def plain(folder: str, calls: str) -> None:
    """One run of a plain agent with so many calls."""
    clew.Home(folder).run_sync(_payer(int(calls)), "bench").raise_for_state()


def on_loop(folder: str, calls: str) -> None:
    """The same on an event loop, from birth to finish; the loop is in the main thread."""

    @clew.agent(tools=[pay_async])
    async def agent(run: clew.Run, prompt: str) -> str:
        for number in range(int(calls)):
            await run.call(pay_async, order=f"{number}", cents=4200)
        return "done"

    asyncio.run(clew.Home(folder).run(agent, "bench")).raise_for_state()


@clew.tool(effect="external")
def early(call: clew.Call, order: str, cents: int) -> dict:
    """The calls of a long history."""
    return {"order": order, "cents": cents, "paid": True}


def _long(history: int, more: int) -> clew.Agent:
    @clew.agent(tools=[early, pay])
    def agent(run: clew.SyncRun, prompt: str) -> str:
        if history == 0:
            for number in range(more):
                run.call(pay, order=f"{number}", cents=4200)
            return "done"
        for number in range(history // RECORDS_A_CALL):
            run.call(early, order=f"{number}", cents=4200)
        raise LookupError("the history ends here")

    return agent


def history(folder: str, run_id: str, records: str) -> None:
    """A run with so many records that pauses, its answers never to be asked for again."""
    clew.Home(folder).run_sync(_long(int(records), 0), "bench", run_id=run_id)


def go_on(folder: str, run_id: str, calls: str) -> None:
    """Resume such a run with so many calls of another tool."""
    clew.Home(folder).resume_sync(run_id, _long(0, int(calls))).raise_for_state()


def fold(folder: str, run_id: str) -> None:
    """Read, verify and fold a run; print the peak of this process's memory in bytes, and how many calls there were."""
    state = clew.Home(folder).reader.see(run_id).state
    # Not `ru_maxrss`, which a process inherits from the one that started it.
    status = Path("/proc/self/status").read_text()
    peak_kib = int(status.partition("VmHWM:")[2].split()[0])
    print(peak_kib * 1024, len(state.calls))


def runs(folder: str, until: str, since: str = "0") -> None:
    """Small runs, completed, numbered from one number to before another."""
    home = clew.Home(folder)
    for number in range(int(since), int(until)):
        home.run_sync(_payer(1), f"order {number}", run_id=f"run-{number:05d}")


def dies(folder: str, run_id: str) -> None:
    """A run whose process is killed in the middle of a payment."""

    @clew.tool(effect="external", name="pay")
    def fatal(call: clew.Call, order: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @clew.agent(tools=[fatal])
    def agent(run: clew.SyncRun, prompt: str) -> None:
        run.call(fatal, order="1042")

    clew.Home(folder).run_sync(agent, "settle", run_id=run_id)


def _payer(calls: int) -> clew.Agent:
    @clew.agent(tools=[pay])
    def agent(run: clew.SyncRun, prompt: str) -> str:
        for number in range(calls):
            run.call(pay, order=f"{number}", cents=4200)
        return "done"

    return agent


SUBJECTS: dict[str, Callable[..., None]] = {
    "plain": plain, "on_loop": on_loop, "history": history, "go_on": go_on, "fold": fold, "runs": runs, "dies": dies,
}  # fmt: skip

ROOT = Path(__file__).parents[1]


def command(name: str, *arguments: object) -> list[str]:
    """How to start one."""
    return [sys.executable, "-m", "bench.subject", name, *map(str, arguments)]


if __name__ == "__main__":
    SUBJECTS[sys.argv[1]](*sys.argv[2:])
