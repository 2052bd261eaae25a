"""Planted: a reference that every process makes anew goes into the arguments."""

import os

from bank import ORDERS, pay, receipt

import clew


@clew.agent(tools=[pay, receipt])
async def agent(run: clew.Run, prompt: str) -> int:
    for order in ORDERS:
        paid = await run.call(pay, order=order)
        await run.call(receipt, order=order, text=f"{paid['transfer']} by {os.getpid()}")
    return len(ORDERS)
