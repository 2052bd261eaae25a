"""Planted: the time between two calls is read from the machine, not from the run."""

import time

from bank import ORDERS, pay, receipt

import clew


@clew.agent(tools=[pay, receipt])
def agent(run: clew.SyncRun, prompt: str) -> int:
    for order in ORDERS:
        paid = run.call(pay, order=order)
        run.call(receipt, order=order, text=f"{paid['transfer']} at {time.time_ns()}")
    return len(ORDERS)
