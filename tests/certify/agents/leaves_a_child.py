"""Planted: a workspace tool starts a process and never waits for it."""

import subprocess
import sys

from bank import ORDERS, pay

import clew


@clew.tool(effect="workspace", replay="idempotent")
def index(order: str) -> str:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    return order


@clew.agent(tools=[pay, index])
def agent(run: clew.SyncRun, prompt: str) -> int:
    for order in ORDERS:
        run.call(pay, order=order)
    run.call(index, order=ORDERS[0])
    return len(ORDERS)
