"""Planted: the orders are a set, which another process goes through in another order."""

from bank import ORDERS, pay, receipt

import clew


@clew.agent(tools=[pay, receipt])
def agent(run: clew.SyncRun, prompt: str) -> int:
    more = {*ORDERS, "1045", "1046"}
    for order in more:
        paid = run.call(pay, order=order)
        run.call(receipt, order=order, text=paid["transfer"])
    return len(more)
