"""An agent that spends on a small disk, trial by trial, each in a process of its own. Started by tests.

    python -m tests.contract.spender HOME BOOKS

Each line of stdin is a trial `{"deed", "pad"}`; the answer is one line `{"end", "reason", "told"}`: the code of the
error or `ok`, the run's reason, and every record of which this process was told that it is durable.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import clew
from clew.core.records import Record

RUN = "spends"


def agent_of(books: Path) -> clew.Agent:
    """Two payments, and between them an answer that is too long for a record."""

    def pay(call: clew.Call, order: str) -> dict[str, str]:
        with books.open("a", encoding="ascii") as book:
            book.write(f"{call.key}\n")
        return {"transfer": f"T-{order}"}

    def read() -> str:
        return "x" * 20_000

    def spend(run: clew.SyncRun, prompt: str) -> str:
        first = run.call(payer, order="1")
        text = run.call(reader)
        return f"{first['transfer']} {len(text)} {run.call(payer, order='2')['transfer']}"

    payer = clew.tool(effect="external")(pay)
    reader = clew.tool(effect="none")(read)
    return clew.Agent(spend, name="spend", tools=[payer, reader])


def home_of(folder: Path) -> clew.Home:
    """The small disk's home, as an operator opens it."""
    return clew.Home(folder, takeover="operator")


def act(
    home: clew.Home, agent: clew.Agent, trial: dict[str, Any], told: list[tuple[int, str]]
) -> clew.RunResult | None:
    """One deed; `told` grows with each record that is said to be durable."""

    def watch(record: Record) -> None:
        told.append((record.sequence, str(record.chain)))

    deed = trial["deed"]
    how: dict[str, Any] = {"signals": False, "on_record": watch}
    if deed == "run":
        return home.run_sync(agent, "x" * trial["pad"], run_id=RUN, **how)
    if deed == "resume":
        return home.resume_sync(RUN, agent, budget=clew.RunBudget(), **how)
    if deed == "settle":
        home.settle(RUN, clew.Happened({"transfer": "T-1"}), by="ann", reason="statement")
    else:
        home.abort(RUN, by="ann", reason="enough")
    return None


def answer(folder: Path, books: Path, trial: dict[str, Any]) -> dict[str, Any]:
    """What a deed came to, in this process."""
    told: list[tuple[int, str]] = []
    try:
        result = act(home_of(folder), agent_of(books), trial, told)
    except clew.ClewError as fault:
        return {"end": fault.code, "reason": fault.message, "next": fault.next, "told": told}
    return {"end": "ok", "reason": None if result is None else result.reason, "next": "", "told": told}


def in_child(folder: Path, books: Path, trial: dict[str, Any]) -> str:
    """The answer of a process that has ended since; forked, because starting one anew takes longer than the deed."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        with os.fdopen(theirs, "w") as pipe:
            pipe.write(json.dumps(answer(folder, books, trial)))
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


if __name__ == "__main__":
    for line in sys.stdin:
        print(in_child(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(line)), flush=True)
