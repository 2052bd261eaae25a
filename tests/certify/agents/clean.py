"""An agent without a fault: it asks a model, pays, writes receipts, and says what it did."""

import os
from pathlib import Path

import clew

ORDERS = [("1042", 4200), ("1043", 990), ("1044", 1700)]


def really(what: str) -> None:
    """The outside world of a test: a file beside, of which the trial must not know."""
    with Path(os.environ["CERTIFY_WORLD"]).open("a") as world:
        world.write(f"{what}\n")


def find_payment(call: clew.Call) -> clew.Verdict:
    """Looks; a trial keeps it from the network and asks its own ledger."""
    return clew.CannotTell("the bank does not answer")


@clew.tool(effect="external", probe=find_payment, in_doubt_s=30)
def pay(call: clew.Call, order: str, cents: int) -> dict[str, str]:
    really(f"paid {order}")
    return {"transfer": f"T-{order}"}


@clew.tool(effect="external")
def tell(text: str) -> None:
    really(f"told {text}")


@clew.tool(effect="workspace", replay="idempotent")
def receipt(order: str, text: str) -> str:
    Path("receipts").mkdir(exist_ok=True)
    Path("receipts", f"{order}.txt").write_text(text, "utf-8")
    return f"receipts/{order}.txt"


@clew.tool(effect="none")
def rate(order: str) -> float:
    return 1.5


def ask(messages: list[str]) -> clew.Turn:
    really("asked a model")
    return clew.Turn("pay them", clew.Usage(tokens=3))


@clew.agent(tools=[pay, tell, receipt, rate])
def settle(run: clew.SyncRun, prompt: str) -> list[str]:
    plan = run.turn(ask, [prompt])
    assert plan == "pay them"
    orders = run.step("orders", lambda: [list(each) for each in ORDERS])
    done = []
    for order, cents in orders:
        run.call(rate, order=order)
        try:
            paid = run.call(pay, order=order, cents=cents)
        except clew.ToolError as fault:
            done.append(f"{order}: not paid ({fault.message})")
            continue
        try:
            done.append(run.call(receipt, order=order, text=f"{order} {cents} {paid['transfer']} {run.now()[:4]}"))
        except clew.ToolError as fault:
            done.append(f"{order}: paid, no receipt ({fault.message})")
    try:
        run.call(tell, text=f"{len(done)} orders")
    except clew.ToolError:
        done.append("nobody was told")
    return done
