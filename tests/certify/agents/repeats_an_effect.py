"""Planted: a payment inside of a step, past the gate; a step that dies half way is done again."""

from bank import ORDERS, pay, receipt

import clew


def pay_all(orders: tuple[str, ...]) -> list[str]:
    return [pay(order=order)["transfer"] for order in orders]


@clew.agent(tools=[pay, receipt])
def agent(run: clew.SyncRun, prompt: str) -> list[str]:
    paid = run.step("payments", pay_all, ORDERS)
    for order, transfer in zip(ORDERS, paid, strict=True):
        run.call(receipt, order=order, text=transfer)
    return list(paid)
