"""What the processes do that are traced and struck: the reference run, leg by leg. How it is struck is not known here.

A work is a name, its legs in their order, and the deed of a leg. To put another part of clew under the same faults,
write another one and add it to `WORKS`; a fact it promises of its own needs a line in `judge.PROMISED`.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import clew
from clew.core.events import error
from clew.runtime.clock import SystemClock
from clew.runtime.recovery import give_birth
from clew.stores.base import Command
from tests import histories
from tests.crash import keeping
from tests.crash.damages import DAMAGES, torn
from tests.crash.telling import Tell, home_of

RUN = "errands"
ORDERS = tuple(str(number) for number in range(1, 7))
PAGES = (12_000, 9_000, 3_000, 20_000, 40_000, 6_000)
"""How long the answers are that it reads: some go into the journal, some are blobs."""
BOOKS = "books"
"""Where the outside world keeps what was done, a line each; beside the home, out of reach of the disk model."""


class Work(NamedTuple):
    """A story in legs, one process each. `home` is where its home lies in the folder that it has, itself if empty."""

    name: str
    legs: tuple[str, ...]
    orders: tuple[str, ...]
    perform: Callable[[str, Path, Tell], str]
    home: str = ""


def books_of(root: Path) -> Path:
    """The books of the world beside a home."""
    return root.parent / BOOKS


def paid(root: Path) -> list[str]:
    """What was really done, one order a line."""
    books = books_of(root)
    return books.read_text("ascii").split() if books.exists() else []


def long_text(name: str, size: int = 20_000) -> str:
    """Text that no compression makes short, always the same."""
    lines = (hashlib.sha256(f"{name}-{number}".encode()).hexdigest() for number in range(size // 64))
    return "".join(lines)


def agent_of(root: Path, tell: Tell, orders: tuple[str, ...] = ORDERS, *, probed: bool = True) -> clew.Agent:
    """Payments that cannot be undone, long answers between them, and an ear for what it is told."""

    def find(call: clew.Call) -> clew.Verdict:
        order = str(call.arguments["order"])
        return clew.Happened({"order": order}) if order in paid(root) else clew.DidNotHappen()

    def pay(call: clew.Call, order: str) -> dict[str, str]:
        book = os.open(books_of(root), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(book, f"{order}\n".encode())
        finally:
            os.close(book)
        return {"order": order}

    def look(page: int) -> str:
        return long_text(f"page {page}", PAGES[page])

    asked: dict[str, Any] = {"probe": find, "in_doubt_s": 0} if probed else {}
    payer = clew.tool(effect="external", key=lambda order, **_: order, **asked)(pay)
    looker = clew.tool(effect="none", replay="safe")(look)

    def errands(run: clew.SyncRun, prompt: str) -> str:
        run.now()
        for page, order in enumerate(orders):
            with tell.strike():
                run.call(payer, order=order)
            run.call(looker, page=page)
            run.steering()
        return "all paid"

    return clew.Agent(errands, name="errands", tools=[payer, looker])


def perform(leg: str, root: Path, tell: Tell, damage: str = "a-line-and-a-half") -> str:
    """One process's stretch of the reference run, or of what follows faults. Returns how it left the run."""
    agent = agent_of(root, tell)
    if leg == "first":
        home = home_of(root, tell, torn(17, damage))
        return _told(home.run_sync(agent, "go", run_id=RUN, signals=False))
    home = home_of(root, tell)
    if leg == "command":
        home.reader.store.post(Command(1, "c1", RUN, "steer", "ann", "in a hurry", {"text": "be quick"}))
        return "posted"
    if leg == "end":
        return see_through(root, tell, agent)
    if leg == "second":
        return _told(home.resume_sync(RUN, agent, budget=clew.RunBudget(max_calls=6), signals=False))
    return _told(home.resume_sync(RUN, agent, budget=clew.RunBudget(), signals=False))


def _told(result: clew.RunResult) -> str:
    return result.operation.state


def pay_one(leg: str, root: Path, tell: Tell) -> str:
    """A run with one payment, which may be struck from inside."""
    agent = agent_of(root, tell, ORDERS[:1])
    if leg == "end":
        return see_through(root, tell, agent)
    return _told(home_of(root, tell).run_sync(agent, "go", run_id=RUN, signals=False))


def pay_unprobed(leg: str, root: Path, tell: Tell) -> str:
    """All payments, of which nobody but a person can tell whether they happened."""
    agent = agent_of(root, tell, probed=False)
    if leg == "end":
        return see_through(root, tell, agent)
    return _told(home_of(root, tell).run_sync(agent, "go", run_id=RUN, signals=False))


def append_two(leg: str, root: Path, tell: Tell) -> str:
    """Two appends by themselves, the first of which may be struck; the second is tried whatever came of it."""
    home = home_of(root, tell)
    if leg == "end":
        return "completed"
    start = dict(histories.start().payload)
    journal = give_birth(home.reader.store, SystemClock(), RUN, start)
    for number in range(3):
        strike = tell.strike if number == 1 else nullcontext
        with suppress(BaseException), strike():
            journal.append([error(f"number {number} {long_text('x', 640)}", fatal=False)])
    return "tried"


def _alone(deed: str, leg: str, root: Path, tell: Tell) -> str:
    return keeping.perform({"born": "born", "only": deed, "end": f"end {deed}"}[leg], root, tell)


REFERENCE = Work("errands", ("first", "command", "second", "third"), ORDERS, perform)
ONE = Work("one", ("only",), ORDERS[:1], pay_one)
UNPROBED = Work("unprobed", ("only",), ORDERS, pay_unprobed)
APPENDS = Work("appends", ("only",), (), append_two)
KEEPING = Work("keeping", keeping.LEGS, (), keeping.perform, keeping.HOME)
CAPTURE, MIGRATE = (
    Work(name, ("born", "only"), (), partial(_alone, name), keeping.HOME) for name in ("capture", "convert")
)
TORN = tuple(
    Work(f"errands-{damage}", REFERENCE.legs, ORDERS, partial(perform, damage=damage)) for damage in DAMAGES
)  # fmt: skip
"""The same with another kind of torn end, for faults while it is mended."""
WORKS: dict[str, Work] = {
    work.name: work for work in (REFERENCE, ONE, UNPROBED, APPENDS, KEEPING, CAPTURE, MIGRATE, *TORN)
}


def see_through(root: Path, tell: Tell, agent: clew.Agent, rounds: int = 6) -> str:
    """Begin or go on, as its owner would after a night of faults, until the run is over."""
    home = home_of(root, tell)
    for _ in range(rounds):
        if RUN not in home.reader.store.ids():
            home.run_sync(agent, "go", run_id=RUN, signals=False)
        elif home.result(RUN).operation.state not in ("completed", "failed"):
            home.resume_sync(RUN, agent, budget=clew.RunBudget(), signals=False)
        state: Any = home.result(RUN).operation.state
        if state in ("completed", "failed"):
            return str(state)
        for effect in home.result(RUN).waiting:
            order = ORDERS[int(effect["stepId"].rpartition("-")[2]) - 1]
            verdict = clew.Happened({"order": order}) if order in paid(root) else clew.DidNotHappen()
            tell.kept("settled", order)
            home.settle(effect["idempotencyKey"], verdict, by="ann", reason="looked into the books")
    return "no end"
