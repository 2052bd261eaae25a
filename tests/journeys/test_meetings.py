"""Every story in which themes meet, killed at each append and told to its end by other processes."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import clew
from clew.core.folding import fold
from clew.errors import ClewError
from clew.runtime.extensions import Extension
from tests.runtime.keyed import Firm
from tests.runtime.stage import Death, Mortal

RUN = "r1"
WHO: dict[str, Any] = {"by": "ann", "reason": "looked"}
KEPT = (0, 200, None)


class Town(Firm):
    """A firm whose processes die at an append; what was acknowledged is compared with what is found later."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: Mortal = Mortal()
        self.extensions: list[Extension] = []
        self.keys_paid: list[tuple[str, str, str]] = []

    def home(self, point: Any = None) -> clew.Home:
        return clew.Home(
            ".clew", takeover="proven", store=self.memory, blobs=self.blobs, clock=self.clock, keys=self.index,
            extensions=self.extensions, trusted={one.id: () for one in self.extensions},
        )  # fmt: skip

    def state(self, run_id: str = RUN) -> Any:
        return fold(self.memory.read(run_id), run_id)

    def go(self, agent: clew.Agent, run_id: str = RUN, **how: Any) -> Callable[[], Any]:
        """Start the run, or go on with it."""

        def deed() -> Any:
            home = self.home()
            if run_id in self.memory.ids() and self.state(run_id).finish is not None:
                return home.result(run_id)
            if run_id in self.memory.ids():
                if agent.is_async:
                    return asyncio.run(home.resume(run_id, agent, **how))
                return home.resume_sync(run_id, agent, signals=False, **how)
            if agent.is_async:
                return asyncio.run(home.run(agent, None, run_id=run_id, **how))
            return home.run_sync(agent, None, run_id=run_id, signals=False, **how)

        return deed

    def mend(self) -> None:
        """What a death left open is looked up and settled."""
        for run_id in sorted(self.memory.ids()):
            state = self.state(run_id)
            for call in [] if state.ended else state.unsettled():
                paid = any(run == run_id and call.key == key for run, _, key in self.keys_paid)
                verdict = clew.Happened({"transfer": "T"}) if paid else clew.DidNotHappen()
                self.home().settle(run_id, verdict, call=call.step_id, **WHO)

    def sound(self) -> None:
        for run_id in sorted(self.memory.ids()):
            assert [] == self.home().verify(run_id, deep=True)["findings"]
            lines = self.memory.raw(run_id)
            for run, sequence, chain in self.memory.acknowledged:
                if run == run_id:
                    assert chain.encode() in lines, f"acknowledged record {sequence} is gone"

    def payer(self, name: str = "pay", then: Callable[[], Any] = lambda: None, **declared: Any) -> clew.Tool:
        def pay(call: clew.Call, order: str = "1042") -> Any:
            self.keys_paid.append((call.key.partition(":")[0], order, call.key))
            return then() or {"transfer": "T"}

        pay.__name__ = name
        return clew.Tool(pay, name=name, **{"effect": "external", "key": lambda order, **_: order, **declared})


def proposer(tool: clew.Tool, *orders: str, call: bool = False) -> clew.Agent:
    def agent(run: Any, prompt: Any) -> Any:
        told = []
        for order in orders or ("1042",):
            try:
                told.append((run.call if call else run.propose)(tool, order))
            except clew.ToolError as fault:
                told.append(type(fault).__name__)
        return told

    return clew.Agent(agent, name="agent", tools=[tool])


def grouped(tool: clew.Tool, *orders: str) -> clew.Agent:
    async def agent(run: clew.Run, prompt: Any) -> Any:
        async with run.group() as group:
            handles = [group.propose(tool, order) for order in orders]
        told = []
        for handle in handles:
            try:
                told.append(handle.result())
            except clew.ToolError as fault:
                told.append(type(fault).__name__)
        return told

    return clew.Agent(agent, name="agent", tools=[tool])


def decide(firm: Town, name: str | None = None, *, no: bool = False, **how: Any) -> Callable[[], Any]:
    """Say it once more behind a death; it may stand already."""

    def deed() -> Any:
        home = firm.home()
        try:
            return (home.deny if no else home.approve)(RUN, call=name, **WHO, **how)
        except ClewError as fault:
            if fault.code != "approval_closed":
                raise
            return None

    return deed


def abort(firm: Town) -> Callable[[], Any]:
    def deed() -> Any:
        try:
            return firm.home().abort(RUN, **WHO)
        except ClewError as fault:
            if fault.code != "run_already_finished":
                raise
            return None

    return deed


Story = Iterator[Callable[[], Any]]


def granted_then_held(firm: Town) -> Story:
    pay = firm.payer()
    yield firm.go(proposer(pay))
    yield firm.go(proposer(firm.payer(), call=True), "r2")
    yield decide(firm)
    yield firm.go(proposer(pay))
    assert (["KeyHeld"], 1) == (firm.home().result(RUN).output, len(firm.keys_paid))


def granted_then_answered_by_the_holder(firm: Town) -> Story:
    pay = firm.payer(on_held="answer")
    yield firm.go(proposer(pay))
    yield firm.go(proposer(firm.payer(on_held="answer"), call=True), "r2")
    yield decide(firm)
    yield firm.go(proposer(pay))
    assert ([{"transfer": "T"}], 1) == (firm.home().result(RUN).output, len(firm.keys_paid))


def allowed(firm: Town, agent: clew.Agent, **how: Any) -> Story:
    """Whatever is asked for is allowed, until the run has ended; a death may have asked for it in several rounds."""
    for _ in range(5):
        if firm.state().ended:
            return
        for name in [asked.approval_id for asked in firm.state().approvals.values() if not asked.decision]:
            yield decide(firm, name)
        yield firm.go(agent, **how)


def siblings_of_one_key(firm: Town) -> Story:
    agent = grouped(firm.payer(), "1042", "1042", "7")
    yield firm.go(agent)
    yield from allowed(firm, agent)
    told = firm.home().result(RUN).output
    assert ["KeyHeld", "{'transfer': 'T'}", "{'transfer': 'T'}"] == sorted(map(str, told or []))
    assert 2 == len(firm.keys_paid)


def asked_at_the_last_call(firm: Town) -> Story:
    pay, budget = firm.payer(), clew.RunBudget(max_calls=1)
    yield firm.go(proposer(pay), budget=budget)
    yield from allowed(firm, proposer(pay), budget=budget)
    assert ("completed", 1) == (firm.state().state, firm.state().metrics.tool_calls)


def denied_then_allowed(firm: Town) -> Story:
    pay = firm.payer()
    yield firm.go(proposer(pay))
    yield decide(firm, no=True)
    yield firm.go(proposer(firm.payer(), call=True), "r2")
    yield firm.go(proposer(pay), approver=lambda request: clew.Approve("ann", "looked"))
    assert (["KeyHeld"], 1) == (firm.home().result(RUN).output, len(firm.keys_paid))


def denied_as_answer_then_aborted(firm: Town) -> Story:
    pay = firm.payer()
    yield firm.go(proposer(pay))
    yield decide(firm, no=True, as_answer=True)
    yield abort(firm)
    assert ("failed", []) == (firm.state().state, firm.keys_paid)


def asked_then_aborted(firm: Town) -> Story:
    yield firm.go(proposer(firm.payer()))
    yield abort(firm)
    assert ("failed", []) == (firm.state().state, firm.keys_paid)


def granted_then_an_extension_denies(firm: Town) -> Story:
    pay = firm.payer()
    yield firm.go(proposer(pay))
    yield decide(firm)
    firm.extensions = [Extension("guard", "1.0", before_tool=lambda payload: "not on a sunday")]
    yield firm.go(proposer(pay))
    assert (["Denied"], []) == (firm.home().result(RUN).output, firm.keys_paid)
    assert "completed" == firm.state().state


def rerun_of_a_key(firm: Town) -> Story:
    """An idempotent payment that was allowed, lost its line, and is done again under its key."""
    lines = [True]

    def lose() -> None:
        if lines.pop() if lines else False:
            raise ConnectionError("the line is dead")

    pay = firm.payer(then=lose, replay="idempotent", window_s=10**6)
    yield firm.go(proposer(pay))
    yield decide(firm)
    yield firm.go(proposer(pay))
    yield firm.go(proposer(firm.payer(), call=True), "r2")
    yield from allowed(firm, proposer(pay))
    assert firm.state().state == "completed"
    assert len({key for _, _, key in firm.keys_paid}) == 1


def limit_fails_beside_a_question(firm: Town) -> Story:
    agent = grouped(firm.payer(), "1", "2")
    yield firm.go(agent, budget=clew.RunBudget(max_calls=1), on_limit="fail")
    assert [] == firm.keys_paid


def retried_under_a_limit(firm: Town) -> Story:
    """The first attempt did not happen; the second one is asked for anew and is one retry."""
    fates = ["boom"]

    def boom() -> None:
        if fates.pop() if fates else False:
            firm.keys_paid.pop()
            raise ConnectionError("no route")

    def find(call: clew.Call) -> clew.Verdict:
        paid = any(call.key == key for _, _, key in firm.keys_paid)
        return clew.Happened({"transfer": "T"}) if paid else clew.DidNotHappen("not there")

    pay = firm.payer(then=boom, probe=find, in_doubt_s=0.0)
    budget = clew.RunBudget(max_retries=1)
    yield firm.go(proposer(pay), budget=budget)
    yield from allowed(firm, proposer(pay), budget=clew.RunBudget(max_retries=3))
    assert ("completed", 1) == (firm.state().state, len(firm.keys_paid))


STORIES = [
    granted_then_held, granted_then_answered_by_the_holder, siblings_of_one_key, asked_at_the_last_call,
    denied_then_allowed, denied_as_answer_then_aborted, asked_then_aborted, granted_then_an_extension_denies,
    rerun_of_a_key, limit_fails_beside_a_question, retried_under_a_limit,
]  # fmt: skip


def told_with_a_death(story: Callable[[Town], Story], at: int, kept: int | None) -> bool:
    """Tell a story whose process dies once. False when it had ended before."""
    firm = Town()
    firm.memory.die_at(at, kept)
    died = False
    for deed in story(firm):
        try:
            deed()
        except (Death, clew.Storage):
            died = True
            firm.memory.revive()
            firm.sound()
            firm.mend()
            deed()
        firm.sound()
        for run_id in sorted(firm.memory.ids()):
            state = firm.state(run_id)
            assert not (state.state == "completed" and state.unsettled())
    return died


@pytest.mark.journeys
@pytest.mark.parametrize("story", STORIES, ids=[story.__name__ for story in STORIES])
@pytest.mark.parametrize("kept", KEPT, ids=["nothing", "a part", "all"])
def test_a_story_ends_well_wherever_its_process_dies(story: Any, kept: int | None) -> None:
    """Promises 2, 5, 8 and 12 hold for themes together, at every append of every deed."""
    assert not told_with_a_death(story, 10_000, kept)
    at = 0
    while told_with_a_death(story, at, kept):
        at += 1

    assert at > 1
