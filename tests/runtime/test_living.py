"""Bodies that still run in this process: what a probe says beside them, and what a plan waits for."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

import clew
from clew.core.calls import CallState
from clew.core.redact import Redactor
from clew.core.review import CannotTell, DidNotHappen, Happened
from clew.runtime.bodies import recordable
from clew.runtime.living import alive, is_running, running, running_here
from tests.runtime.scene import RUN, Scene, agent_of

KEY = "r1:pay-1:c1"


def test_an_attempt_runs_until_its_body_has_left() -> None:
    """By attempt, not by call: an earlier body says nothing of a later start."""
    with running(KEY, 1):
        inside = (is_running(KEY, 1), is_running(KEY, 2), list(running_here()))

    assert ((True, False, [f"{KEY}#1"]), False) == (inside, is_running(KEY, 1))


def test_two_homes_may_run_the_same_key() -> None:
    """The end of one of them is not the end of the other."""
    with running(KEY, 1):
        with running(KEY, 1):
            pass
        still = is_running(KEY, 1)

    assert (True, {}) == (still, running_here())


@pytest.mark.parametrize(
    ("verdict", "in_progress", "kind"),
    [(DidNotHappen(), True, CannotTell), (DidNotHappen(), False, DidNotHappen), (Happened(1), True, Happened)],
)
def test_not_there_means_nothing_beside_a_body_that_runs(verdict: Any, in_progress: bool, kind: type) -> None:
    """It may pay in the next moment; that it has paid is true whatever it does."""
    found = recordable(verdict, Redactor(()), in_progress=in_progress)

    assert kind is type(found)


class Slow:
    """A payment that its caller left behind; it lands when it is let go."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.begun, self.go, self.done = threading.Event(), threading.Event(), threading.Event()

    def tool(self, **declared: Any) -> clew.Tool:
        def pay(call: clew.Call) -> str:
            self.begun.set()
            self.go.wait(20)
            self.scene.bank.paid.append(call.key)
            self.done.set()
            return "late"

        return clew.Tool(pay, effect="external", probe=self.look, in_doubt_s=0, **declared)

    def look(self, call: clew.Call) -> clew.Verdict:
        """The probe; while somebody waits for the next one, the payment lands."""
        found = self.scene.bank.find(call)
        self.go.set()
        self.done.wait(20)
        return found


@pytest.mark.parametrize("way", ["thread", "plain"])
def test_a_body_that_was_left_behind_is_not_started_beside_itself(way: str) -> None:
    """Its time was up, the probe saw nothing yet: a second start would have paid a second time."""
    scene = Scene()
    pay = Slow(scene).tool(timeout_s=0.05)

    result = scene.run(agent_of(way, lambda run: (yield run.call(pay)), pay))

    assert ("completed", [KEY], 1) == (result.operation.state, scene.bank.paid, len(scene.said("effect_receipt")) - 1)


def test_a_later_leg_waits_for_a_body_of_an_earlier_one() -> None:
    """The run was cancelled and goes on in the same process, while the thread of its tool has not ended."""
    scene = Scene()
    slow = Slow(scene)
    pay = clew.Tool(slow.tool().body, name="pay", effect="external")
    agent = agent_of("thread", lambda run: (yield run.call(pay)), pay)

    async def cancelled() -> None:
        task = asyncio.ensure_future(scene.home().run(agent, "go", run_id=RUN))
        await asyncio.to_thread(slow.begun.wait, 20)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(cancelled())
    plan = scene.home().plan(RUN, agent)
    assert plan is not None
    waiting = [(step.decision, step.reason) for step in plan.steps]
    slow.go.set()
    slow.done.wait(20)

    assert [("wait", "process_alive")] == waiting


class Machine:
    """Processes that are said to live; nothing runs here."""

    def __init__(self, living: Mapping[str, str] | None = None) -> None:
        self.asked: list[str] = []
        self._living = living or {}

    def living(self, run_id: str) -> Mapping[str, str]:
        self.asked.append(run_id)
        return self._living

    def run(self, order: Any, stop: Any) -> Any:
        raise AssertionError(order)

    def end(self, run_id: str, legs: Any) -> Mapping[str, str]:
        raise AssertionError(run_id)

    def adopting(self) -> Any:
        raise AssertionError


def call_of(status: str, attempt: int = 1) -> CallState:
    """A call of which this is known."""
    return CallState("pay-1", "c1", KEY, "pay", "turn-0", "f" * 64, 1, attempt=attempt, status=status)


@pytest.mark.parametrize(
    ("status", "asked"), [("started", ["r1"]), ("unknown", ["r1"]), ("committed", []), ("", []), ("not_started", [])]
)
def test_the_machine_is_looked_through_for_open_calls_alone(status: str, asked: list[str]) -> None:
    """A thousand replayed calls must not read the whole process table a thousand times."""
    machine = Machine()

    alive(machine, [call_of(status)], Redactor(()))

    assert asked == machine.asked


def test_a_living_process_is_told_without_secrets() -> None:
    """What a command was given stands in its name, and the plan stands in the journal."""
    machine = Machine({f"{KEY}#1": "pid 7 (curl -u hunter22)"})

    assert {f"{KEY}#1": "pid 7 (curl -u [redacted:configured])"} == alive(
        machine, [call_of("started")], Redactor(["hunter22"])
    )
