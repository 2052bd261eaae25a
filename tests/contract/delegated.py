"""The situations of `docs/recovery.md`, last part: a run whose child keeps it waiting."""

from typing import Final

from tests.contract.hostile import RUN
from tests.contract.situations import Situation, situation

CHILD: Final = "kid-1"
FAMILY: Final = """
from pathlib import Path

import clew


@clew.tool(effect="external")
def pay(call: clew.Call, order: str) -> dict:
    boom = Path("boom")
    if boom.exists():
        boom.unlink()
        raise ConnectionError("the line is dead")
    return {"transfer": "T-1"}


@clew.agent(tools=[pay], config={"model": "small"})
def worker(run, order):
    return run.call(pay, order=order)


@clew.agent
def boss(run, prompt):
    return run.child(worker, "1042", run_id="kid-1")
"""


def waiting(found: Situation) -> Situation:
    """A run whose child has an effect that nobody can vouch for."""
    (found.place.folder / "family.py").write_text(FAMILY, "utf-8")
    found.place.raise_flag("boom")
    found.look("run", "family.py:boss", "pay", "--run-id", RUN)
    found.values = {"CHILD": CHILD}
    return found


def change(found: Situation, old: str, new: str) -> None:
    """Edit the agents' file."""
    path = found.place.folder / "family.py"
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")


def settled(found: Situation) -> Situation:
    """The child's effect is settled; nobody went on yet."""
    waiting(found).look("settle", CHILD, "did-not-happen", "--by", "ann", "--reason", "looked")
    return found


@situation("a child run waits")
def _(found: Situation) -> Situation:
    return waiting(found).see()


@situation("a child run lives elsewhere")
def _(found: Situation) -> Situation:
    writer = settled(found).home.reader.store.open(CHILD)
    found.look("resume", RUN)
    found.see()
    found.between, found.finish = {0: writer.close}, writer.close
    return found


@situation("a child run cannot go on")
def _(found: Situation) -> Situation:
    change(settled(found), '"small"', '"large"')
    found.look("resume", RUN)
    found.see()
    found.between = {1: lambda: change(found, '"large"', '"small"')}
    return found


@situation("the agent delegates something else than before")
def _(found: Situation) -> Situation:
    change(settled(found), '"1042"', '"1043"')
    found.look("resume", RUN)
    found.see()
    found.between = {0: lambda: change(found, '"1043"', '"1042"')}
    return found
