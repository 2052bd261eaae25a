"""A process that runs a tree of runs, three deep below the top, each of which pays. Started by a journey, killed there.

    family.py run|resume RUN FACE

A payment is a file of its own in `paid/`, so that a second one would be seen; what was paid is found by its key.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import clew

PAID = Path("paid")
ORDERS = 2


def find(call: clew.Call) -> clew.Verdict:
    """Look for the payment of a key."""
    found = sorted(PAID.glob(f"{call.short}-*"))
    return clew.Happened(found[0].name) if found else clew.DidNotHappen()


@clew.tool(effect="external", probe=find, in_doubt_s=0)
def pay(call: clew.Call, order: str) -> str:
    """Money moves: a file with a name that no other payment has."""
    name = f"{call.short}-{os.urandom(4).hex()}-{order}"
    os.close(os.open(PAID / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return name


def orders(prompt: str) -> list[str]:
    """The orders of the run that was asked this."""
    return [f"{prompt}.{number}" for number in range(ORDERS)]


def below(prompt: str) -> list[str]:
    """What its children are asked: two below the top and one level further down, one each at the bottom."""
    depth = prompt.count("-")
    return [] if depth == 3 else [f"{prompt}-{number}" for number in range(2 if depth < 2 else 1)]


async def paid(run: clew.Run, prompt: str) -> list[Any]:
    """Pay, delegate side by side, pay."""
    first, *rest = orders(prompt)
    told = [await run.call(pay, order=first)]
    told += await asyncio.gather(*(run.child(kin, asked) for asked in below(prompt)))
    return [*told, *[await run.call(pay, order=order) for order in rest]]


def plainly(run: clew.SyncRun, prompt: str) -> list[Any]:
    """As `paid`, one after another."""
    first, *rest = orders(prompt)
    told: list[Any] = [run.call(pay, order=first)]
    told += [run.child(plain_kin, asked) for asked in below(prompt)]
    return [*told, *[run.call(pay, order=order) for order in rest]]


kin = clew.Agent(paid, name="kin", tools=[pay])
plain_kin = clew.Agent(plainly, name="kin", tools=[pay])


def everything(prompt: str) -> list[str]:
    """All orders of a tree."""
    return [*orders(prompt), *(order for asked in below(prompt) for order in everything(asked))]


def main() -> int:
    """Run or resume; the exit code is the run's."""
    deed, run_id, face = sys.argv[1:]
    home = clew.Home(".clew", takeover="operator")
    agent = kin if face == "async" else plain_kin
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if deed == "run":
        return home.run_sync(agent, "top", run_id=run_id).exit_code
    return home.resume_sync(run_id, agent).exit_code


if __name__ == "__main__":
    sys.exit(main())
