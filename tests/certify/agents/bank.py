"""The tools of the planted agents. Whatever really happens is written to a file beside, which must stay away."""

import os
from pathlib import Path

import clew

ORDERS = ("1042", "1043", "1044")


def really(what: str) -> None:
    """The outside world of a test, of which a trial must not know."""
    with Path(os.environ["CERTIFY_WORLD"]).open("a") as world:
        world.write(f"{what}\n")


def find_payment(call: clew.Call) -> clew.Verdict:
    return clew.CannotTell("the bank does not answer")


@clew.tool(effect="external", probe=find_payment, in_doubt_s=30)
def pay(order: str, cents: int = 100) -> dict[str, str]:
    really(f"paid {order}")
    return {"transfer": f"T-{order}"}


@clew.tool(effect="workspace", replay="idempotent")
def receipt(order: str, text: str) -> str:
    Path(f"{order}.txt").write_text(text, "utf-8")
    return f"{order}.txt"
