"""A process that pays orders under business keys and dies where it is told. Started by the journeys, never imported.

    keykeeper.py run|resume RUN DIE KEY...
    keykeeper.py sweep FROM TO

`run` and `resume` pay every key in an order of their own; the process kills itself at its DIE-th call of the system
(0: never). What was done stands in `effects`, a line `KEY RUN` each; what a run was told, in `told-RUN`. A payment
whose end nobody knows is looked up there by the probe.

`sweep` forks: for each number a first run that dies at its n-th call of the system, a second that wants the same key
and dies at some call of its own, a third that lives, and then whichever can go on. It prints a line of JSON for each.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import clew

EFFECTS = Path("effects")
LIFE = 350
"""About so many calls of the system a run with one payment makes."""


def done(key: str, run: str) -> bool:
    """Did this run pay this order?"""
    return EFFECTS.exists() and f"{key} {run}" in EFFECTS.read_text("ascii").splitlines()


def find(call: clew.Call) -> clew.Verdict:
    """The probe of an honest world."""
    key = str(call.arguments["order"])
    return clew.Happened({"order": key}) if done(key, call.key.partition(":")[0]) else clew.DidNotHappen()


@clew.tool(effect="external", key=lambda order, **_: order, probe=find, in_doubt_s=0)
def pay(call: clew.Call, order: str) -> dict[str, str]:
    """One line in the world; whole or not at all."""
    world = os.open(EFFECTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(world, f"{order} {call.key.partition(':')[0]}\n".encode())
    os.close(world)
    return {"order": order}


@clew.agent(tools=[pay])
def pay_all(run: clew.SyncRun, prompt: list[str]) -> dict[str, list[str]]:
    """Pay each order, or hear who has it."""
    told = {}
    for order in prompt:
        try:
            told[order] = ["mine", str(run.call(pay, order=order)["order"])]
        except clew.KeyHeld as held:
            told[order] = [held.facts["state"], held.facts["run"]]
    return told


def mortal(at: int) -> None:
    """Die at the n-th call of the system from now on, as if the power of this process were cut."""
    left = at

    def strike(frame: Any, event: str, called: Any) -> None:
        nonlocal left
        if event == "c_call" and getattr(called, "__module__", "") in ("posix", "fcntl"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    if at:
        sys.setprofile(strike)


def go(deed: str, run_id: str, keys: list[str]) -> int:
    """Run or resume to the end, and note what the run was told."""
    home = clew.Home(".clew", takeover="operator")
    if deed == "run":
        result = home.run_sync(pay_all, keys, run_id=run_id, signals=False)
    else:
        result = home.resume_sync(run_id, pay_all, signals=False)
    if result.operation.state == "completed":
        Path(f"told-{run_id}").write_text(json.dumps(result.output), "ascii")
    return result.exit_code


def forked(deed: str, run_id: str, at: int = 0) -> int:
    """The same in a child of its own; its exit code, 128 and the signal when it was killed."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        mortal(at)
        code = 1
        try:
            code = go(deed, run_id, [run_id.partition("-")[0]])
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def born(run_id: str) -> bool:
    """Is there a journal of it?"""
    return (Path(".clew") / "runs" / f"{run_id}.jsonl").exists()


def sweep(first: int, last: int) -> None:
    """A first run that dies at each call of the system in turn, and what becomes of its key."""
    for at in range(first, last):
        key = f"k{at}"
        one, two, three = (f"{key}-{name}" for name in ("one", "two", "three"))
        died = forked("run", one, at)
        forked("run", two, random.Random(at).randrange(2, LIFE))
        third = forked("run", three)
        for run in (one, two):
            if born(run) and not told_of(run):
                forked("resume", run)
        effects = [line for line in EFFECTS.read_text("ascii").splitlines() if line.startswith(f"{key} ")]
        told = {
            run: json.loads(Path(f"told-{run}").read_text("ascii"))[key] for run in (one, two, three) if told_of(run)
        }
        print(json.dumps({"at": at, "codes": [died, third], "effects": effects, "told": told}), flush=True)


def told_of(run: str) -> bool:
    """Did this run come to its end?"""
    return Path(f"told-{run}").exists()


def main() -> int:
    """As the first words say."""
    deed, *words = sys.argv[1:]
    if deed == "sweep":
        sweep(int(words[0]), int(words[1]))
        return 0
    run_id, at, *keys = words
    random.Random(run_id).shuffle(keys)
    mortal(int(at))
    return go(deed, run_id, keys)


if __name__ == "__main__":
    sys.exit(main())
