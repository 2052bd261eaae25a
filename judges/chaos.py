"""The orders example as `ckpt-chaos` sees a job: begun or gone on with by one command, its result one file.

    ckpt-chaos run --step-regex … --result-file {out}/final.txt -- python -m judges.chaos BANK {out}
    ckpt-chaos run … -- python -m judges.chaos --command BANK {out}      the same by `clew run` and `clew resume`

The bank is a process of its own at the address BANK, and ignores keys: paid twice is paid twice.
"""

import csv
import json
import os
import sys
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import clew

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "orders"
RUN = "orders"


def main() -> int:
    """Settle the orders of a folder, from the beginning or from where a death left them."""
    *words, bank, out = sys.argv[1:]
    os.environ["ORDERS_BANK"] = bank
    folder = Path(out).resolve()
    prepared = _prepared(folder)
    # The keys of two folders must differ at the one bank.
    run_id = f"{RUN}-{hash_of(str(folder)) % 999_999_937}"
    home = clew.Home(folder / ".clew", takeover="proven")
    known = run_id in home.reader.store.ids()
    print(f"going on at record {home.reader.see(run_id).state.sequence if known else 0}", flush=True)
    if words == ["--command"]:
        _by_command(home, prepared, run_id, known=known)
    else:
        sys.path.insert(0, str(prepared))
        from agent import settle

        home.ensure_sync(settle, "settle orders.csv", run_id=run_id).raise_for_state()
    _publish(folder / "final.txt", _account(home, prepared, run_id).encode())
    return 0


def hash_of(text: str) -> int:
    """A number of a text, the same in every process."""
    return int.from_bytes(text.encode(), "big")


def _prepared(folder: Path) -> Path:
    """A copy of the example in the folder, each file whole or not there."""
    place = folder / "example"
    place.mkdir(parents=True, exist_ok=True)
    for name in ("agent.py", "bank.py", "orders.csv"):
        if not (place / name).exists():
            _publish(place / name, (EXAMPLE / name).read_bytes())
    return place


def _publish(path: Path, data: bytes) -> None:
    temp = path.with_name(f".{path.name}.part")
    temp.write_bytes(data)
    temp.replace(path)


def _by_command(home: clew.Home, prepared: Path, run_id: str, *, known: bool) -> None:
    """By the command, in this process, so that each file it touches is seen."""
    from clew.cli import main as command

    last = ["--home", str(home.path), "--no-input", "-q"]
    if not known:
        agent = f"{prepared / 'agent.py'}:settle"
        command(["run", agent, "settle orders.csv", "--run-id", run_id, *last])
    elif home.result(run_id).operation.state != "completed":
        command(["resume", run_id, *last])
    home.result(run_id).raise_for_state()


def _account(home: clew.Home, prepared: Path, run_id: str) -> str:
    """What came of each order: paid how often, and its receipt; without the payments' own numbers."""
    keys = {
        effect["arguments"]["order"]: effect["idempotencyKey"]
        for effect in home.reader.effects(home.reader.see(run_id).state)
        if effect["tool"] == "pay"
    }
    lines = [home.result(run_id).operation.state]
    with (prepared / "orders.csv").open(newline="") as orders:
        for order in csv.DictReader(orders):
            paid = _payments(clew.Call(keys[order["order"]]).uuid)
            receipt = prepared / "receipts" / f"{order['order']}.txt"
            lines.append(f"{order['order']} paid {paid} times, receipt {receipt.exists()}")
    return "\n".join(lines) + "\n"


def _payments(key: str) -> int:
    with urlopen(f"{os.environ['ORDERS_BANK']}/payments?key={quote(key)}") as answer:  # a loopback address
        return len(json.load(answer)["payments"])


if __name__ == "__main__":
    sys.exit(main())
