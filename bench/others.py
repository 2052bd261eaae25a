"""One step of DBOS and one node of LangGraph, both on SQLite, against one call of ours: in turns, in one process.

They keep what a step returned, and nothing of its having started; that is what the difference in price buys.
Measured in a process of its own, so that nothing stands beside it that was measured before, and before any other part
of the bench deletes its files: `docs/cost.md` says why.
"""

import json
import logging
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import clew
from bench import subject
from bench.calls import Bare, appends_of, pay, twice
from bench.figures import Figure
from bench.pairs import Rounds

STEPS, ROUNDS = 40, 15
NODE, LOOP = "LangGraph node, invoked", "LangGraph node, one of 40 in a graph that is invoked once"
GATES = {"DBOS step": 4.0, NODE: 4.0}

Timed = Callable[[], float]
"""Does its thing `STEPS` times; returns how many seconds that took, without what stands around it."""


def measure(folder: Path) -> list[Figure]:
    """What a new process measures."""
    words = [sys.executable, "-m", "bench.others", str(folder)]
    done = subprocess.run(words, cwd=subject.ROOT, check=True, capture_output=True, text=True)
    return [Figure(*each) for each in json.loads(done.stdout.splitlines()[-1])]


def _measure(folder: Path) -> list[Figure]:
    """Both ratios, or why there is none."""
    try:
        theirs = {"DBOS step": _dbos(folder), **_langgraph(folder)}
    except ImportError as missing:
        return [Figure("DBOS step, LangGraph node", None, note=f"{missing.name} is not installed")]
    rounds = _in_turns(folder, theirs)
    what = "whole call, plain agent, between steps and nodes of others / two bare synced appends"
    note = f"{rounds.median_ms('call'):.3f} ms against {rounds.median_ms('bare'):.3f} ms"
    return [*(_figure(name, rounds) for name in theirs), Figure(what, rounds.ratio("call", "bare"), note=note)]


def _figure(name: str, rounds: Rounds) -> Figure:
    note = f"{rounds.median_ms(name):.3f} ms against {rounds.median_ms('call'):.3f} ms; {_version(name)}"
    what = f"{name} (SQLite) / whole call, plain agent"
    return Figure(what, rounds.ratio(name, "call"), gate=GATES.get(name), sense="≥", note=note)


def _version(name: str) -> str:
    package = name.partition(" ")[0].lower()
    return f"{package} {version(package)}"


def _in_turns(folder: Path, theirs: dict[str, Timed]) -> Rounds:
    rounds = Rounds()

    @clew.agent(tools=[pay])
    def agent(run: clew.SyncRun, prompt: str) -> str:
        count = iter(range(1_000_000))

        def calls() -> None:
            for _ in range(STEPS):
                run.call(pay, order=f"{next(count)}", cents=4200)

        calls()
        by_hand = twice(Bare(folder / "bare-against"), appends_of(folder / "against" / "runs" / f"{run.run_id}.jsonl"))
        ours = {"call": partial(_timed, calls), "bare": partial(_timed, lambda: by_hand(STEPS))}
        order, all_of_them = random.Random(1), {**ours, **theirs}
        for number in range(ROUNDS + 1):
            for name in order.sample(list(all_of_them), len(all_of_them)):
                taken = all_of_them[name]()
                if number:
                    rounds.add(name, taken, STEPS)
        return "done"

    clew.Home(folder / "against").run_sync(agent, "bench").raise_for_state()
    return rounds


def _timed(work: Callable[[], None]) -> float:
    since = time.perf_counter()
    work()
    return time.perf_counter() - since


def _dbos(folder: Path) -> Timed:
    from dbos import DBOS, DBOSConfig

    logging.getLogger("dbos").setLevel(logging.ERROR)
    database = f"sqlite:///{folder / 'dbos.sqlite'}"
    DBOS(config=DBOSConfig(name="bench", system_database_url=database, log_level="ERROR", run_admin_server=False))

    @DBOS.step()
    def step(order: str, cents: int) -> dict[str, Any]:
        return {"order": order, "cents": cents, "paid": True}

    @DBOS.workflow()
    def workflow() -> float:
        since = time.perf_counter()
        for number in range(STEPS):
            step(f"{number}", 4200)
        return time.perf_counter() - since

    DBOS.launch()
    return workflow


def _langgraph(folder: Path) -> dict[str, Timed]:
    """A graph of one node, invoked for each payment; and one that goes round and is invoked once for all of them."""
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    saver = SqliteSaver(sqlite3.connect(folder / "langgraph.sqlite", check_same_thread=False))
    entered: list[float] = []
    threads = iter(range(1_000_000))

    def node(state: dict[str, Any]) -> dict[str, Any]:
        entered.append(time.perf_counter())
        return {"order": "1042", "cents": 4200, "paid": True, "left": state["left"] - 1}

    def invoke(left: int) -> None:
        config = {"configurable": {"thread_id": f"t{next(threads)}"}, "recursion_limit": 2 * STEPS}
        compiled.invoke({"left": left}, config, durability="sync")

    graph = StateGraph(dict)
    graph.add_node("pay", node)
    graph.add_edge(START, "pay")
    graph.add_conditional_edges("pay", lambda state: "pay" if state["left"] else END)
    compiled = graph.compile(checkpointer=saver)

    def invocations() -> None:
        for _ in range(STEPS):
            invoke(1)

    def in_a_loop() -> float:
        entered.clear()
        invoke(STEPS + 1)
        return entered[-1] - entered[0]

    return {NODE: partial(_timed, invocations), LOOP: in_a_loop}


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]))), flush=True)
    # Threads of DBOS would go on.
    os._exit(0)
