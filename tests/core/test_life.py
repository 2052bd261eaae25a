"""A whole run as a state machine: the real runtime against a model that only counts what happened in the world.

Calls of several tools return, raise, and die at a chosen byte of a chosen append; probes and people say what they
know, some of them wrongly; starts are allowed, denied and limited; runs are resumed, settled, paused and aborted, from
within and from outside. Whatever the order, the promises hold.
"""

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import clew
from clew.core.codec import LineReader
from clew.core.invariants import check
from clew.stores.base import Command
from clew.stores.keys import MemoryKeyIndex
from clew.stores.memory import MemoryBlobStore
from clew.testing.clock import SetClock
from tests.histories import overconfident, read
from tests.runtime.stage import Death, Mortal

PAY, SEND, CHARGE, LOOK, MAIL, BANNED = "pay", "send", "charge", "look", "mail", "banned"
# These write files. Three are settled by them, one of which has a secret answer and one a business key; then one with a
# probe of its own, and one that may have changed anything, so that a person settles it.
NOTE, PIN, STAMP, DRAFT, BUILD = "note", "pin", "stamp", "draft", "build"
BY_FILES = (NOTE, PIN, STAMP)
WRITES = (*BY_FILES, DRAFT, BUILD)
POLICY = clew.Policy(rules=[clew.Rule("ask", MAIL), clew.Rule("deny", BANNED)])
RAISES = ("raises before", "raises after")
FATES = ("returns", *RAISES, "nothing happened", "failed")
MAILS = st.tuples(st.just(MAIL), st.sampled_from([[], ["raises before"], ["raises before", "raises after"]]))
OTHERS = st.tuples(
    st.sampled_from([PAY, SEND, CHARGE, LOOK, BANNED, *WRITES]), st.lists(st.sampled_from(FATES), max_size=2)
)
WANTED = st.lists(MAILS | OTHERS, min_size=1, max_size=4)
# At which append the process dies, and how many of its bytes reach the disk; `None`: all of them, and nobody knows.
# Or at which from the one that says that an outcome is unknown: in it, before it is settled, in what starts behind it.
KEPT = st.just(0) | st.none() | st.integers(1, 2500)
IN_DOUBT = st.tuples(st.integers(0, 4), KEPT, st.just(True))
DEATHS = st.none() | st.tuples(st.integers(0, 9), KEPT, st.just(False)) | IN_DOUBT
# How many calls may be proposed, over all legs, and what another process asks of a living run.
LIMITS = st.none() | st.integers(0, 6)
ORDERS = st.none() | st.sampled_from(["pause", "pause", "abort"])

Dies = tuple[int, int | None, bool] | None


class World:
    """What really happened, by order; and what its tools do at their next starts."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.charged: set[str] = set()
        self.starts: Counter[str] = Counter()
        self.fates: dict[str, list[str]] = {}
        self.knows = True

    def act(self, call: clew.Call, order: str) -> Any:
        self.starts[order] += 1
        fates = self.fates.get(order) or ["returns"]
        fate = fates.pop(0)
        if fate == "nothing happened":
            raise clew.NothingHappened("refused")
        if fate == "raises before":
            raise TimeoutError("no answer")
        if call.tool != CHARGE or call.key not in self.charged:
            self.effects[order] += call.tool != LOOK
        self.charged.add(call.key)
        if call.tool in WRITES:
            (Path(call.workspace.root) / order).write_text(order)
        if fate == "raises after":
            raise TimeoutError("no answer")
        return clew.Failed("it says no", {"order": order}) if fate == "failed" else {"order": order}

    def find(self, call: clew.Call) -> clew.Verdict:
        if not self.knows:
            return clew.CannotTell("closed", retry_in_s=100)
        order = call.arguments["order"]
        return clew.Happened({"order": order}) if self.effects[order] else clew.DidNotHappen()


def announced(before: Any, order: str) -> clew.Expected:
    """What a note says that it will leave, and return."""
    return clew.Expected({order: order}, {"order": order})


class Life(RuleBasedStateMachine):
    """One home, one run after another; the process may die at any append."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.store = Mortal()
        self.folder = TemporaryDirectory(prefix="clew-life-")
        kept: dict[str, Any] = {"store": self.store, "blobs": MemoryBlobStore(), "keys": MemoryKeyIndex()}
        self.home = clew.Home(".clew", takeover="proven", clock=SetClock(), workspace=self.folder.name, **kept)
        self.script: list[tuple[str, str]] = []
        self.told: dict[str, str] = {}
        self.lies: Counter[str] = Counter()
        self.allowed: Counter[str] = Counter()
        self.posted = 0
        self.through = True
        self.number = 0
        self.agent = self._agent()

    def _agent(self) -> clew.Agent:
        world = self.world

        def act(call: clew.Call, order: str) -> Any:
            return world.act(call, order)

        asked: dict[str, Any] = {"probe": world.find, "in_doubt_s": 20}
        repeated: dict[str, Any] = {"replay": "idempotent", "window_s": 1_000_000}
        written: dict[str, Any] = {"effect": "workspace", "paths": ("order",), "expects": announced}
        declared: dict[str, dict[str, Any]] = {
            PAY: {}, SEND: asked, CHARGE: repeated, LOOK: {"effect": "none"}, MAIL: {}, BANNED: {},
            NOTE: written, PIN: {**written, "secret": True}, STAMP: {**written, "key": lambda order: order},
            DRAFT: {**written, **asked}, BUILD: {"effect": "workspace", "paths": clew.WORKSPACE},
        }  # fmt: skip
        self.tools = {
            name: clew.tool(name=name, **{"effect": "external", **how})(act) for name, how in declared.items()
        }
        found = clew.agent(tools=list(self.tools.values()), name="life", policy=POLICY)(self._play)
        assert isinstance(found, clew.Agent)
        return found

    def _play(self, run: clew.SyncRun, prompt: Any) -> str:
        """The agent: does the script from the top, and hears the same every time."""
        for name, order in self.script:
            heard = self._hear(run, name, order)
            # A secret answer is never kept, so who asks again is told less.
            assert name == PIN or self.told.setdefault(order, heard) == heard, "an answer changed"
        if not self.through:
            raise LookupError("nothing more to do yet")
        return "done"

    def _hear(self, run: clew.SyncRun, name: str, order: str) -> str:
        try:
            return json.dumps(run.call(self.tools[name], order=order))
        except clew.ToolError as fault:
            return f"{type(fault).__name__}: {fault}"

    @property
    def run_id(self) -> str:
        return f"life-{self.number}"

    @property
    def exists(self) -> bool:
        return self.run_id in self.store.ids()

    @property
    def alive(self) -> bool:
        return self.operation not in ("completed", "failed")

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """Effects that a person must settle."""
        return [row for row in self.home.result(self.run_id).waiting if "approvalId" not in row]

    @property
    def up_to_the_files(self) -> list[str]:
        """Open attempts, by step, that their files settle: each of them is written whole or not at all.

        Of a run that is being aborted nothing is asked: they stay unknown.
        """
        rows = self.waiting if self.operation in ("running", "paused") else []
        return [row["stepId"] for row in rows if row["tool"] in BY_FILES and row["status"] in ("started", "unknown")]

    @property
    def wanted(self) -> list[dict[str, Any]]:
        """Starts that a person must allow."""
        return [row for row in self.home.result(self.run_id).waiting if "approvalId" in row]

    @property
    def calls(self) -> int:
        return self.home.reader.see(self.run_id).state.metrics.tool_calls if self.exists else 0

    @property
    def operation(self) -> str:
        return self.home.result(self.run_id).operation.state if self.exists else "nothing"

    def _deed(self, work: Any, *given: Any, **named: Any) -> bool:
        """Do it; whatever dies in it is dead, and the next deed is another process's. True: nothing died."""
        try:
            result = work(*given, **named)
        except (Death, clew.Storage):
            assert self.store.dead, "only a death may end a deed like this"
            result = None
        finally:
            lived = not self.store.dead
            self.store.revive()
        fault = getattr(result, "fault", None)
        if isinstance(fault, AssertionError):
            raise fault
        return lived

    def _go(self, dies: Dies = None, limit: int | None = None) -> None:
        self._die_at(dies)
        before, budget = self.calls, clew.RunBudget(max_calls=limit)
        if not self.exists:
            lived = self._deed(self.home.run_sync, self.agent, "go", run_id=self.run_id, budget=budget)
        else:
            lived = self._deed(self.home.resume_sync, self.run_id, self.agent, budget=budget)

        assert limit is None or self.calls <= max(limit, before), "a limit let more pass than it says"
        if lived and self.home.result(self.run_id).reason != "crash_loop":
            assert [] == self.up_to_the_files, "a leg that ended by itself did not ask them"

    # What may happen.

    def _want(self, wanted: list[tuple[str, list[str]]]) -> None:
        """The agent has more calls to make, and it is known how their starts will go."""
        for tool, fates in wanted:
            order = f"{self.number}-{tool}-{len(self.script)}"
            self.script.append((tool, order))
            self.world.fates[order] = [*fates]

    @initialize(wanted=WANTED, dies=DEATHS, limit=LIMITS)
    def begins(self, wanted: list[tuple[str, list[str]]], dies: Any, limit: int | None) -> None:
        self._want(wanted)
        self._go(dies, limit)

    @precondition(lambda self: self.alive and len(self.script) < 9)
    @rule(wanted=WANTED, through=st.booleans())
    def wants_more(self, wanted: list[tuple[str, list[str]]], through: bool) -> None:
        """The agent's code was changed: it makes more calls, and may or may not be done behind them."""
        self._want(wanted)
        self.through = through

    @precondition(lambda self: self.alive)
    @rule(dies=DEATHS, knows=st.booleans(), limit=LIMITS, order=ORDERS)
    def goes_on(self, dies: Any, knows: bool, limit: int | None, order: str | None) -> None:
        """Another process resumes the run, the bank open or closed; it may die at any byte of any append.

        A third one may have asked something of it, which it finds in its inbox.
        """
        self.world.knows = knows
        if order is not None and self.exists and self.alive:
            self.posted += 1
            self.store.post(Command(1, f"k{self.posted}", self.run_id, order, "ann", "it must be", {}))
        self._go(dies, limit)

    @precondition(lambda self: self.alive and len(self.script) < 9)
    @rule(tool=st.sampled_from(WRITES), fates=st.lists(st.sampled_from(RAISES), min_size=1, max_size=2), dies=IN_DOUBT)
    def dies_in_doubt(self, tool: str, fates: list[str], dies: Dies) -> None:
        """A call that changes files raises, and who should settle it dies."""
        self._want([(tool, fates)])
        self._go(dies)

    @precondition(lambda self: self.exists and self.wanted)
    @rule(data=st.data(), dies=DEATHS, at_once=st.booleans())
    def person_allows(self, data: st.DataObject, dies: Any, at_once: bool) -> None:
        """One start, of this call with these arguments; a death may leave it unsaid, or the run goes on at once."""
        row = data.draw(st.sampled_from(self.wanted))
        # Counted before it is recorded: a death may leave the record behind.
        self.allowed[self._order_of(row["stepId"])] += 1
        self._die_at(dies)
        self._deed(self.home.approve, self.run_id, by="ann", reason="looked", call=row["stepId"])
        if at_once:
            self._go()

    @precondition(lambda self: self.exists and self.wanted)
    @rule(data=st.data(), dies=DEATHS, as_answer=st.booleans())
    def person_refuses(self, data: st.DataObject, dies: Any, as_answer: bool) -> None:
        """The run asks again, or its agent hears no and goes on without it."""
        row = data.draw(st.sampled_from(self.wanted))
        self._die_at(dies)
        self._deed(self.home.deny, self.run_id, by="bob", reason="no", call=row["stepId"], as_answer=as_answer)

    @precondition(lambda self: self.exists and self.waiting)
    @rule(data=st.data(), truly=st.integers(0, 5), dies=DEATHS, at_once=st.booleans())
    def person_settles(self, data: st.DataObject, truly: int, dies: Any, at_once: bool) -> None:
        """A person says what happened, and may let the run go on; one in six is wrong, and the model knows it."""
        effect = data.draw(st.sampled_from(self.waiting))
        order = self._order_of(effect["stepId"])
        happened = bool(self.world.effects[order])
        said = effect["status"] == "committed" or (happened if truly else not happened)
        # Counted before it is recorded: a death may leave the record behind.
        self.lies[order] += happened and not said
        self._settle(clew.Happened({"order": order}) if said else clew.DidNotHappen(), effect["stepId"], dies)
        if at_once and self.alive:
            self._go()

    @precondition(lambda self: self.exists and self.waiting)
    @rule(data=st.data(), surely=st.integers(0, 4), dies=DEATHS)
    def person_gives_up(self, data: st.DataObject, surely: int, dies: Any) -> None:
        """The run ends, or a death leaves its end to the next writer."""
        if surely:
            return
        self._settle(clew.GiveUp(), data.draw(st.sampled_from(self.waiting))["stepId"], dies)

        assert "failed" == self.operation or dies is not None

    @precondition(lambda self: self.alive and self.exists)
    @rule(surely=st.integers(0, 9), dies=DEATHS)
    def person_aborts(self, surely: int, dies: Any) -> None:
        """It ends for good, or its end stands already; a death leaves it to the next writer."""
        if surely:
            return
        self._die_at(dies)
        with suppress(clew.Refused):
            self._deed(self.home.abort, self.run_id, by="ann", reason="enough")

        assert not self.alive or dies is not None

    @precondition(lambda self: not self.alive)
    @rule(wanted=WANTED, dies=DEATHS, limit=LIMITS)
    def another_run(self, wanted: list[tuple[str, list[str]]], dies: Any, limit: int | None) -> None:
        self.number += 1
        self.script, self.told, self.through = [], {}, True
        self._want(wanted)
        self._go(dies, limit)

    def _die_at(self, dies: Dies) -> None:
        if dies is not None:
            at, kept, in_doubt = dies
            self.store.die_at(at, kept, in_doubt=in_doubt)

    def _settle(self, verdict: Any, step: str, dies: Any) -> None:
        self._die_at(dies)
        self._deed(self.home.settle, self.run_id, verdict, by="ann", reason="looked", call=step)

    def _order_of(self, step: str) -> str:
        """Calls are numbered for each tool, in the order of the script."""
        tool, _, number = step.rpartition("-")
        return [order for name, order in self.script if name == tool][int(number) - 1]

    # What holds, whatever happened.

    @invariant()
    def no_effect_happens_twice(self) -> None:
        """Unless a person said that it had not happened, and was wrong."""
        twice = {order: count for order, count in self.world.effects.items() if count > 1 + self.lies[order]}

        assert {} == twice

    @invariant()
    def nothing_starts_without_its_permission(self) -> None:
        """A yes is good for one start, and what is forbidden never starts."""
        starts = {order: count for order, count in self.world.starts.items() if f"-{MAIL}-" in order}

        assert {} == {order: count for order, count in starts.items() if count > self.allowed[order]}
        assert [] == [order for order in self.world.starts if f"-{BANNED}-" in order]

    @invariant()
    def completed_means_settled_and_answered(self) -> None:
        if self.operation != "completed":
            return
        result = self.home.result(self.run_id)

        assert [] == result.waiting
        assert {order for _, order in self.script} >= set(self.told)
        assert "done" == result.output

    @invariant()
    def what_was_acknowledged_is_kept(self) -> None:
        reader = {run_id: self._chains(run_id) for run_id in self.store.ids()}
        lost = [noted for noted in self.store.acknowledged if reader[noted[0]].get(noted[1]) != noted[2]]

        assert [] == lost

    def _chains(self, run_id: str) -> dict[int, str]:
        lines, found = LineReader(run_id), dict[int, str]()
        for line in self._whole_lines(run_id).splitlines():
            record = lines.feed(line)
            found[record.sequence] = str(record.chain)
        return found

    def _whole_lines(self, run_id: str) -> bytes:
        """The journal up to its last whole record: what is behind it, a torn end, is the next writer's to cut."""
        if run_id not in self.store.ids():
            return b""
        seen = self.home.reader.see(run_id)
        data = self.store.raw(run_id)
        return data if seen.tail.verdict != "torn" else data[: seen.tail.at_byte]

    @invariant()
    def the_plan_is_never_overconfident(self) -> None:
        wrong = overconfident(self._whole_lines(self.run_id), self.run_id) if self.exists else []

        assert [] == wrong

    @invariant()
    def the_plan_agrees_with_the_world(self) -> None:
        """What happened does not run, and what files can settle waits for nobody, however its process died."""
        if self.operation in ("completed", "failed", "nothing"):
            return
        plan = self.home.plan(self.run_id, self.agent)
        steps = plan.steps if plan is not None else ()
        runs = [step.step_id for step in steps if step.decision == "run"]
        again = [self._order_of(step) for step in runs if step.partition("-")[0] not in (CHARGE, LOOK, BANNED)]
        asked = [step.step_id for step in steps if (step.decision, step.reason) == ("probe", "checkpoint_stands")]

        assert [] == [order for order in again if self.world.effects[order] > self.lies[order]]
        assert sorted(asked) == sorted(self.up_to_the_files)

    @invariant()
    def every_effect_is_on_the_record(self) -> None:
        """No order was touched without a call that says so: started comes before the body."""
        if not self.exists:
            return
        effects = {
            self._order_of(row["stepId"]): row
            for row in self.home.reader.effects(self.home.reader.see(self.run_id).state)
        }
        here = [order for order, count in self.world.effects.items() if count and order.startswith(f"{self.number}-")]

        assert [] == [order for order in here if not effects.get(order, {}).get("startedAt")]

    def teardown(self) -> None:
        """Written by one hand, read by another: no journal of this life contradicts itself, nor did any before."""
        self.folder.cleanup()
        ids = self.store.ids() if self.exists else ()
        found = {run_id: list(check(r for r, _ in read(self._whole_lines(run_id), run_id))) for run_id in ids}

        assert {run_id: [] for run_id in ids} == found


def play(examples: int, steps: int) -> None:
    run_state_machine_as_test(Life, settings=settings(max_examples=examples, stateful_step_count=steps))


def test_a_run_keeps_its_promises_whatever_dies() -> None:
    """All rules of this project at once, against a model that knows nothing but the world."""
    play(250, 25)


@pytest.mark.parametrize("fates", [["raises before"], ["raises after"], [*RAISES]], ids=" ".join)
@pytest.mark.parametrize("tool", WRITES)
def test_a_life_that_ends_in_doubt_is_gone_on_with(tool: str, fates: list[str]) -> None:
    """By name, for chance may miss it: files settle what they can, whichever append was the last and however torn."""
    for dies in ((at, kept, True) for at in range(2 * len(fates)) for kept in (0, 900, None)):
        life = Life()
        life.begins(wanted=[(tool, fates)], dies=dies, limit=None)
        life.the_plan_agrees_with_the_world()
        life.goes_on(dies=None, knows=True, limit=None, order=None)
        life.the_plan_agrees_with_the_world()
        life.no_effect_happens_twice()
        life.teardown()

        assert ("paused" if tool == BUILD else "completed") == life.operation


@pytest.mark.crash
@pytest.mark.parametrize("half", ["one", "other"])
def test_a_run_keeps_its_promises_for_longer(half: str) -> None:
    """The same at length, 3,000 lives in all, for what needs many deaths in a row."""
    play(1500, 50)
