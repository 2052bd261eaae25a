"""An agent that settles orders: reads them, pays each through the bank, writes a receipt for each and a summary.

    clew run examples/orders/agent.py:settle "settle orders.csv"

The bank is found under ORDERS_BANK (its address). Without it the agent opens one of its own in this process, over
`bank.sqlite` beside this file, so that the command works by itself.
"""

import csv
import http.client
import io
import json
import os
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import bank

import clew
from clew.toolkit import read_file, write_file

HERE = Path(__file__).resolve().parent


@lru_cache(maxsize=1)
def bank_address() -> str:
    """The bank's address: the one that was named, or one opened here."""
    named = os.environ.get("ORDERS_BANK")
    if named:
        return named
    own = bank.Bank(0, bank.Books(HERE / "bank.sqlite", honours_keys=False))
    threading.Thread(target=own.serve_forever, name="bank", daemon=True).start()
    return f"http://127.0.0.1:{own.server_address[1]}"


def ask_bank(method: str, path: str, body: Any = None, key: str = "") -> tuple[int, Any]:
    """One request to the bank; returns the status and the JSON it answered."""
    line = http.client.HTTPConnection(urlsplit(bank_address()).netloc, timeout=20)
    try:
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        line.request(method, path, None if body is None else json.dumps(body), headers if key else {})
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        line.close()


def find_payment(call: clew.Call) -> clew.Verdict:
    """Look whether this call's payment is in the bank's books; changes nothing."""
    status, answer = ask_bank("GET", f"/payments?key={quote(call.uuid)}")
    if status != http.client.OK:
        return clew.CannotTell(f"the bank answered {status}")
    if answer["payments"]:
        return clew.Happened({"payment": answer["payments"][0]["id"]}, "the bank lists the payment")
    return clew.DidNotHappen("no payment under this key")


def send_payment(call: clew.Call, order: str, cents: int) -> Any:
    """Pay one order."""
    status, answer = ask_bank("POST", "/payments", {"order": order, "cents": cents}, call.uuid)
    if status == http.client.PAYMENT_REQUIRED:
        return clew.Failed(answer["error"]["message"])
    if status not in (http.client.OK, http.client.CREATED):
        raise RuntimeError(f"the bank answered {status}: {answer}")
    return {"payment": answer["id"]}


# Refused before anything was sent: nothing happened. A request that was sent may land within half a second.
pay = clew.tool(
    name="pay", effect="external", probe=find_payment, in_doubt_s=0.5, timeout_s=30,
    nothing_happened_on=[ConnectionRefusedError],
)(send_payment)  # fmt: skip

# The same without a probe: what is in doubt waits for a person.
pay_unasked = clew.tool(
    name="pay", effect="external", timeout_s=30, nothing_happened_on=[ConnectionRefusedError]
)(send_payment)  # fmt: skip


async def settle_orders(run: clew.Run, prompt: str, paying: clew.Tool) -> str:
    """Settle the orders of the file that the prompt names last."""
    folder = Path(os.path.relpath(HERE, run.workspace)).as_posix()
    text = await run.call(read_file, path=f"{folder}/{prompt.rsplit(maxsplit=1)[-1]}")
    lines, settled = [], 0
    for row in csv.DictReader(io.StringIO(text)):
        order, cents = row["order"], int(row["cents"])
        try:
            paid = await run.call(paying, order=order, cents=cents)
        except clew.ToolError as refused:
            lines.append(f"| {order} | {row['customer']} | {cents / 100:.2f} | not paid: {refused.message} |")
            continue
        receipt = f"order {order}\ncustomer {row['customer']}\npaid {cents / 100:.2f}\npayment {paid['payment']}\n"
        await run.call(write_file, path=f"{folder}/receipts/{order}.txt", content=receipt)
        lines.append(f"| {order} | {row['customer']} | {cents / 100:.2f} | payment {paid['payment']} |")
        settled += 1
    table = "\n".join(["| order | customer | amount | |", "|---|---|---|---|", *lines])
    await run.call(write_file, path=f"{folder}/summary.md", content=table + "\n")
    return f"settled {settled} of {len(lines)} orders"


@clew.agent(tools=[read_file, pay, write_file])
async def settle(run: clew.Run, prompt: str) -> str:
    """Settle orders; a payment in doubt is looked up at the bank."""
    return await settle_orders(run, prompt, pay)


@clew.agent(tools=[read_file, pay_unasked, write_file])
async def settle_unasked(run: clew.Run, prompt: str) -> str:
    """Settle orders; a payment in doubt is settled by a person."""
    return await settle_orders(run, prompt, pay_unasked)
