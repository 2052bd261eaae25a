"""Deaths at every append of a parent and its children: what is left is adopted, and nothing happens twice."""

import asyncio
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest

import clew
from clew.core.state import RunState
from clew.runtime.tools import as_agent
from clew.testing.crash import Crash, CrashPoint
from tests.runtime.scene import RUN, Forest, agent_of, paying

FACES = ("async", "plain")


class Family:
    """A run that has its payments made by children, one of them by a child of that child."""

    def __init__(self, face: str) -> None:
        self.scene = Forest()
        self.asked: list[str] = []
        pay = paying(self.scene, "plain", probe=self.scene.bank.find, in_doubt_s=0)

        def paid(run: Any, order: str) -> Any:
            self.asked.append(order)
            answer = yield run.call(pay, order=order)
            return answer

        def deep(run: Any) -> Any:
            yield run.call(pay, order="before")
            last = yield run.child(self.worker, "below")
            return last

        def top(run: Any) -> Any:
            one = yield run.child(self.worker, "one", budget=clew.RunBudget(max_calls=3))
            two = yield run.child(self.middle, "two")
            return [one, two]

        self.worker = worker_of(face, paid, pay)
        self.middle = named(agent_of(face, deep, pay), "middle")
        self.top = named(agent_of(face, top), "top")

    def live(self, point: CrashPoint | None = None) -> clew.RunResult:
        """One process: it starts the run or goes on with it."""
        home = self.scene.home(point)
        if RUN in self.scene.memory.ids():
            if as_agent(self.top).is_async:
                return asyncio.run(home.resume(RUN, self.top))
            return home.resume_sync(RUN, self.top, signals=False)
        if as_agent(self.top).is_async:
            return asyncio.run(home.run(self.top, "go", run_id=RUN))
        return home.run_sync(self.top, "go", run_id=RUN, signals=False)

    def strike(self, number: int, keep: int | None = 0) -> None:
        """One process that dies at its n-th append, if it comes that far."""
        with suppress(Crash, clew.Storage):
            self.live(CrashPoint(number, keep))
        self.scene.die()

    def see_through(self) -> dict[str, Any]:
        """Another process sees it to its end."""
        if self.states()[RUN].finish is None:
            self.live()
        return self.report()

    def states(self) -> dict[str, RunState]:
        reader = self.scene.home().reader
        return {run_id: reader.see(run_id).state for run_id in self.scene.memory.ids()}

    def report(self) -> dict[str, Any]:
        """What must be true in the end, whatever happened on the way."""
        states = self.states()
        return {
            "runs": len(states),
            "states": {state.state for state in states.values()},
            "paid": dict(self.scene.bank.orders),
            "children": {known.status for state in states.values() for known in state.delegations.values()},
            "promised": all(self.scene.bank.promised),
        }


HONEST = {
    "runs": 4,
    "states": {"completed"},
    "paid": {"one": 1, "before": 1, "below": 1},
    "children": {"joined"},
    "promised": True,
}


def worker_of(face: str, body: Any, pay: Any) -> clew.Agent:
    """An agent whose script is given its input."""

    def plain(run: clew.SyncRun, order: str) -> Any:
        return drive(body(run, order))

    async def awaiting(run: clew.Run, order: str) -> Any:
        steps, made = body(run, order), None
        while True:
            try:
                made = await steps.send(made)
            except StopIteration as end:
                return end.value

    return clew.Agent(plain if face == "plain" else awaiting, name="worker", tools=[pay])


def drive(steps: Generator[Any, Any, Any]) -> Any:
    made = None
    while True:
        try:
            made = steps.send(made)
        except StopIteration as end:
            return end.value


def named(agent: clew.Agent, name: str) -> clew.Agent:
    agent.name = name
    return agent


def appends_of(face: str) -> int:
    """How many appends a whole life takes, all runs together."""
    point = CrashPoint()
    Family(face).live(point)
    return len(point.appends)


@pytest.mark.parametrize("face", FACES)
def test_a_tree_that_nothing_strikes_ends_well(face: str) -> None:
    """The measure that every death below is held against."""
    family = Family(face)
    result = family.live()

    assert HONEST == family.report(), result


@pytest.mark.parametrize("keep", [0, 700, None])
@pytest.mark.parametrize("face", FACES)
def test_a_death_at_any_append_of_the_tree_is_survived(face: str, keep: int | None) -> None:
    """#246: an unfinished child is an orphan, adopted by its own plan and never started again: one payment an order."""
    reports = {}
    for number in range(1, appends_of(face) + 1):
        family = Family(face)
        family.strike(number, keep)
        reports[number] = family.see_through()

    assert {} == {number: report for number, report in reports.items() if report != HONEST}


@pytest.mark.parametrize("face", FACES)
def test_a_second_death_at_any_append_is_survived_too(face: str) -> None:
    """What an orphan's adoption leaves is as good a state as any."""
    reports = {}
    for first in (3, 7, 12, 16):
        for second in range(1, 24):
            family = Family(face)
            family.strike(first)
            family.strike(second)
            reports[first, second] = family.see_through()

    assert {} == {strikes: report for strikes, report in reports.items() if report != HONEST}


@pytest.mark.parametrize("lines", [1, 2])
@pytest.mark.parametrize("face", FACES)
def test_an_end_that_was_half_told_is_told_whole(face: str, lines: int) -> None:
    """Its end was read, or its answer written too, and nobody heard: the rest is written, no agent called again."""
    whole = CrashPoint()
    Family(face).live(whole)
    joins = [
        (number, batch.data.splitlines(keepends=True))
        for number, batch in enumerate(whole.appends, 1)
        if any(record.payload.get("type") == "parent_joined" for record in batch.records)
    ]
    reports = []
    for number, told in joins:
        family = Family(face)
        family.strike(number, sum(map(len, told[:lines])))
        reports.append((family.see_through(), len(family.asked)))

    assert [(HONEST, 2)] * 3 == reports


@pytest.mark.parametrize("prompt", ["x", "y"])
def test_a_run_that_took_a_childs_id_meanwhile_is_not_adopted(prompt: str) -> None:
    """Promise 2: its intent was recorded, somebody else was faster with the id; that run is nobody's child."""
    scene = Forest()

    def other(run: clew.SyncRun, prompt: Any) -> str:
        return "not for you"

    def top(run: clew.SyncRun, prompt: Any) -> Any:
        return run.child(other, "x", run_id="kid")

    with suppress(Crash, clew.Storage):
        scene.run(top, point=CrashPoint(1))
    scene.die()
    scene.home().run_sync(other, prompt, run_id="kid", signals=False)
    result = scene.resume(top)

    assert ("child_run_unavailable", None, True) == (
        result.reason, result.output, "child_run_identity_mismatch" in scene.home().reader.row(RUN)["message"],
    )  # fmt: skip
