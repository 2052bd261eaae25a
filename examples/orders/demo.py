"""The whole story for real: a service, an agent, a SIGKILL between a payment and its record, and an honest end.

First with a probe that looks the payment up, then without one, where a person settles it. Nothing is faked: the
processes are real, and the counts at the end come from the service's own database and from the disk.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import bank

HERE = Path(__file__).resolve().parent
FATAL_PAYMENT = 3


class Off(Exception):
    """A count is not what it must be."""


def say(text: str) -> None:
    """One line of the story."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


class Service:
    """The payment service as a process of its own; it ignores keys, as many real ones do."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "bank.sqlite"
        command = [sys.executable, "-u", str(HERE / "bank.py"), "--database", str(self.database), "--port", "0"]
        command += ["--ignore-keys", "--announce", "--delay-ms", "300"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1]

    def wait_for_payment(self, number: int, payer: "subprocess.Popen[str]") -> str:
        """Until so many payments are committed; the answer to the last one has not been sent yet."""
        assert self.process.stdout is not None
        threading.Thread(target=self._close_after, args=[payer], daemon=True).start()
        for _ in range(number):
            line = self.process.stdout.readline()
            if not line:
                raise Off(f"the agent ended with {payer.poll()} before it had paid {number} orders")
        return line.strip()

    def _close_after(self, payer: "subprocess.Popen[str]") -> None:
        """A payer that ends by itself will not pay any more: nobody is to wait for it."""
        if payer.wait() != -signal.SIGKILL:
            self.process.terminate()

    def drain(self) -> None:
        """Read its output to the end of its life, so that it never waits for a reader."""
        subprocess.Popen(["cat"], stdin=self.process.stdout, stdout=subprocess.DEVNULL)

    def stop(self) -> None:
        """End it and wait."""
        self.process.terminate()
        self.process.wait(timeout=30)


class Stage:
    """A folder with the example in it, a service, and the command `clew` run there."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"clew-demo-{name}-"))
        for file in ("agent.py", "bank.py", "orders.csv"):
            shutil.copy(HERE / file, self.folder)
        self.service = Service(self.folder)
        self.environment = {**os.environ, "ORDERS_BANK": self.service.address}
        self.environment.pop("CLEW_HOME", None)

    def start(self, agent: str) -> "subprocess.Popen[str]":
        """`clew run` in a process of its own."""
        command = self.command("run", f"agent.py:{agent}", "settle orders.csv")
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True)

    def clew(self, *arguments: str, expect: int = 0) -> None:
        """One command, shown with its output; its exit code must be as expected."""
        say(f"$ clew {shlex.join(arguments)}")
        print(self.ask(*arguments, expect=expect).rstrip(), flush=True)

    def ask(self, *arguments: str, expect: int = 0) -> str:
        """What one command says; with `--json` on stdout alone."""
        apart = subprocess.PIPE if "--json" in arguments else subprocess.STDOUT
        command = self.command(*arguments)
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=apart, check=False
        )
        if done.returncode != expect:
            raise Off(f"clew {shlex.join(arguments)}: exit {done.returncode}, expected {expect}: {done.stdout}")
        return str(done.stdout)

    def command(self, *arguments: str) -> list[str]:
        """The command line of `clew`, from the environment that runs this."""
        return [sys.executable, "-m", "clew.cli", *arguments]

    def kill_between_payment_and_record(self, agent: str) -> None:
        """Start the agent and end it with SIGKILL when the third payment is in the books and not in the journal."""
        say(f"$ clew run agent.py:{agent} 'settle orders.csv'")
        running = self.start(agent)
        committed = self.service.wait_for_payment(FATAL_PAYMENT, running)
        running.send_signal(signal.SIGKILL)
        running.wait()
        self.service.drain()
        say(f"SIGKILL. The bank says: {committed}; the agent's process never heard of it.")

    def count(self) -> None:
        """Compare orders, payments, receipts, state and chain; fail loudly when one is off."""
        self.clew("verify", "@last")
        account = json.loads(self.ask("show", "@last", "--json"))
        with (self.folder / "orders.csv").open(encoding="utf-8") as file:
            orders = sorted(line.split(",")[0] for line in file.read().splitlines()[1:])
        paid = sorted(payment["order"] for payment in bank.payments(self.service.database))
        receipts = sorted(file.stem for file in (self.folder / "receipts").glob("*.txt"))
        state = account["operation"]["state"]
        print(f"  orders                     {len(orders)}")
        print(f"  payments in the bank       {len(paid)}")
        print(f"  receipts on disk           {len(receipts)}")
        print(f"  state                      {state}")
        print(f"  effects without a verdict  {len(account['review'])}")
        print(f"  legs                       {len(account['legs'])}")
        if paid != orders or receipts != orders:
            raise Off(f"orders {orders}, paid {paid}, receipts {receipts}")
        if state != "completed" or account["review"] or not (self.folder / "summary.md").is_file():
            raise Off(f"the run is {state}, waiting {account['review']}")

    def close(self) -> None:
        """End the service and remove the folder."""
        self.service.stop()
        shutil.rmtree(self.folder)


def with_probe() -> None:
    """The probe asks the bank."""
    say("1. An agent whose tool can look a payment up")
    stage = Stage("probe")
    try:
        stage.kill_between_payment_and_record("settle")
        stage.clew("ls")
        stage.clew("show", "@last")
        stage.clew("resume", "@last")
        stage.count()
    finally:
        stage.close()


def without_probe() -> None:
    """A person looks into the bank's books and says so."""
    say("2. The same without a probe: a person decides")
    stage = Stage("person")
    try:
        stage.kill_between_payment_and_record("settle_unasked")
        stage.clew("ls")
        stage.clew("resume", "@last", expect=21)
        found = bank.payments(stage.service.database)[-1]
        say(f"A person looks into the bank's books: {found}")
        result = json.dumps({"payment": found["id"]})
        reason = f"the bank's books list payment {found['id']} for order {found['order']}"
        stage.clew("settle", "@last", "happened", "--by", "demo", "--reason", reason, "--result", result)
        stage.clew("resume", "@last")
        stage.count()
    finally:
        stage.close()


def main() -> int:
    """Both stories; 0 when every count is right."""
    try:
        with_probe()
        without_probe()
    except Off as off:
        say(f"OFF: {off}")
        return 1
    say("One payment and one receipt for each order, twice. Nothing was guessed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
