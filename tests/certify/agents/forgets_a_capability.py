"""Planted: a tool that says nothing of what it does."""

from bank import ORDERS, pay, really, receipt

import clew


@clew.tool
def announce(text: str) -> None:
    really(f"announced {text}")


@clew.agent(tools=[pay, receipt, announce])
def agent(run: clew.SyncRun, prompt: str) -> int:
    for order in ORDERS:
        run.call(receipt, order=order, text=run.call(pay, order=order)["transfer"])
    run.call(announce, text="all paid")
    return len(ORDERS)
