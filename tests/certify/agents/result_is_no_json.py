"""Planted: a tool returns an object of the program's own, which no record can hold."""

from bank import ORDERS, pay

import clew


class Receipt:
    def __init__(self, order: str) -> None:
        self.order = order


@clew.tool(effect="workspace", replay="idempotent")
def receipt(order: str) -> object:
    return {"receipt": Receipt(order)}


@clew.agent(tools=[pay, receipt])
def agent(run: clew.SyncRun, prompt: str) -> int:
    for order in ORDERS:
        run.call(pay, order=order)
        run.call(receipt, order=order)
    return len(ORDERS)
