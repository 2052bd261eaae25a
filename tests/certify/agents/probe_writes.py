"""Planted: a probe that leaves a mark behind when it looks."""

from pathlib import Path

from bank import ORDERS, really

import clew


def find_payment(call: clew.Call) -> clew.Verdict:
    Path("last-asked.txt").write_text(call.key, "utf-8")
    return clew.DidNotHappen()


@clew.tool(effect="external", probe=find_payment, in_doubt_s=30)
def pay(order: str) -> dict[str, str]:
    really(f"paid {order}")
    return {"transfer": order}


@clew.agent(tools=[pay])
def agent(run: clew.SyncRun, prompt: str) -> int:
    return len([run.call(pay, order=order) for order in ORDERS])
