"""One life of an agent on a home in memory: a leg that dies at an append, and every leg after it to an honest end."""

import asyncio
import contextvars
import logging
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from clew.core.budget import RunBudget
from clew.core.calls import CallState
from clew.core.findings import Finding
from clew.core.invariants import check
from clew.core.outcome import PERSON_REASONS, outcome_now
from clew.core.records import Batch
from clew.core.redact import Redactor
from clew.core.review import DidNotHappen, GiveUp, Happened, Settlement
from clew.core.snapshot import RunResult
from clew.core.state import RunState
from clew.errors import ClewError
from clew.runtime.bodies import a_loop_runs_here
from clew.runtime.home import Home
from clew.runtime.tools import Agent, Call
from clew.stores.keys import MemoryKeyIndex
from clew.stores.memory import MemoryBlobStore, MemoryRunStore
from clew.stores.sessions.memory import MemorySessionStore
from clew.testing.clock import SetClock
from clew.testing.crash import Crash, CrashPoint, crashing
from clew.testing.watching import Adopting, Effects, StandIn, Watch

RUN = "crash-points"
COMEBACKS = 3
"""So often the run is resumed when a probe said to come back; then it needs a person."""

COMPLETED = "completed"
NEEDS_A_PERSON = "needs a person"
NO_END = "no end"


class Kill(msgspec.Struct, frozen=True):
    """Where a process dies: at which append behind the birth, counted over all legs, and how many bytes are kept.

    `cut` numbers the deaths inside of one append, from 1: how many bytes that are depends on the machine's name.
    """

    append: int
    keep: int | None
    cut: int = 0

    @property
    def name(self) -> str:
        """`before:7`, `torn:7:1`, `after:7`."""
        if not self.cut:
            return f"{'after' if self.keep is None else 'before'}:{self.append}"
        return f"torn:{self.append}:{self.cut}"


class Terms(msgspec.Struct, frozen=True):
    """How every life of one agent is lived; see `crash_points`."""

    agent: Agent
    prompt: Any
    stand_ins: Mapping[str, StandIn]
    fresh: Callable[[], object]
    effects: Effects | None
    settle: Callable[[Call], Any] | None
    workspace: Path | None
    budget: RunBudget | None
    policies: Mapping[str, str]
    max_legs: int
    session: str | None = None


@dataclass
class Lived:
    """A life that is over.

    Attributes:
        outcome: `completed`, `needs a person`, `failed: …`, `paused: …`, `no end`, or `refused: …` with a code.
        appends: What each append behind the birth said, over all legs.
        journal: The bytes of its journal; write them to a file to look at them with `clew show`.
        contradictions: What the invariant checker says of it.
    """

    watch: Watch
    outcome: str = ""
    detail: str = ""
    output: Any = None
    legs: int = 0
    struck: bool = False
    appends: list[Batch] = field(default_factory=list)
    calls: list[CallState] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    journal: bytes = b""
    contradictions: list[Finding] = field(default_factory=list)


def live(terms: Terms, kill: Kill | None, listed: frozenset[str]) -> Lived:
    """Make the world new, and let an agent live in it with one death (or none) to its end.

    Raises:
        ClewError: the run could not even begin, by no fault of a crash.
    """
    with ExitStack() as closing:
        folder = terms.workspace or Path(closing.enter_context(tempfile.TemporaryDirectory()))
        closing.enter_context(_quiet())
        terms.fresh()
        watch = Watch(terms.effects, listed, terms.stand_ins, Redactor(terms.agent.secrets))
        closing.callback(watch.let_go)
        for tool in terms.agent.tools.values():
            watch.take(tool)
        return _Life(terms, kill, folder, Lived(watch)).see_it_through()


@contextmanager
def _quiet() -> Iterator[None]:
    """Hundreds of deaths are meant here, and would drown what is found in warnings."""
    log = logging.getLogger("clew")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


class _Life:
    """The living of it. Lives as long as `live`."""

    def __init__(self, terms: Terms, kill: Kill | None, folder: Path, lived: Lived) -> None:
        self._terms = terms
        self._kill = kill
        self._folder = folder
        self._lived = lived
        self._store = MemoryRunStore()
        self._blobs = MemoryBlobStore()
        self._keys = MemoryKeyIndex()
        self._sessions = MemorySessionStore()
        self._clock = SetClock(seed=RUN)
        self._agent = _seen_from_inside(terms.agent, lived.watch)
        self._comebacks = 0

    def see_it_through(self) -> Lived:
        lived = self._lived
        result = self._leg(self._start)
        while not self._is_over(result):
            if lived.legs >= self._terms.max_legs:
                lived.outcome = NO_END
                break
            result = self._attempt(self._resume)
        self._look_back()
        return lived

    def _attempt(self, deed: Callable[[Home], RunResult]) -> RunResult | None:
        """A leg; one that clew refuses ends the life."""
        try:
            return self._leg(deed)
        except ClewError as fault:
            self._lived.outcome, self._lived.detail = f"refused: {fault.code}", fault.message
            return None

    def _leg(self, deed: Callable[[Home], RunResult]) -> RunResult | None:
        """One process; None when it died."""
        lived, watch = self._lived, self._lived.watch
        at = 0 if self._kill is None else self._kill.append - len(lived.appends)
        point = watch.point = CrashPoint(at, None if self._kill is None else self._kill.keep)
        lived.legs += 1
        result = None
        try:
            result = deed(self._home(point))
        except (Crash, ClewError):
            if not point.struck:
                raise
        finally:
            watch.let_land()
            lived.appends += point.appends
        if not point.struck:
            return result
        lived.struck = True
        self._store.forget_writers()
        self._clock.advance(1)
        return None

    def _home(self, point: CrashPoint) -> Home:
        return Home(
            self._folder / ".clew",
            takeover="proven",
            workspace=self._folder,
            store=crashing(self._store, point),
            blobs=self._blobs,
            keys=self._keys,
            sessions=self._sessions,
            clock=self._clock,
        )

    def _start(self, home: Home) -> RunResult:
        terms = self._terms
        how: dict[str, Any] = {"run_id": RUN, "budget": terms.budget, "session": terms.session, **terms.policies}
        if self._agent.is_async:
            return _on_a_loop(lambda: home.run(self._agent, terms.prompt, **how))
        return home.run_sync(self._agent, terms.prompt, signals=False, **how)

    def _resume(self, home: Home) -> RunResult:
        how: dict[str, Any] = dict(self._terms.policies)
        if self._agent.is_async:
            return _on_a_loop(lambda: home.resume(RUN, self._agent, **how))
        return home.resume_sync(RUN, self._agent, signals=False, **how)

    # Between legs.

    def _is_over(self, result: RunResult | None) -> bool:
        """Has it come to its end? If not, what keeps it is out of the way, as far as that can be done."""
        lived = self._lived
        if lived.outcome:
            return True
        state = self._state()
        if state.finish is not None:
            lived.outcome = COMPLETED if state.state == COMPLETED else f"failed: {outcome_now(state).finish_reason}"
            return True
        if result is None or self._waited(result):
            return False
        if self._settled(state):
            return self._is_over(None)
        outcome = outcome_now(state)
        reason = outcome.finish_reason
        if reason == "interrupted":
            raise KeyboardInterrupt
        lived.outcome = NEEDS_A_PERSON if reason in PERSON_REASONS else f"paused: {reason}"
        lived.detail = str((outcome.error or {}).get("message", ""))
        return True

    def _settled(self, state: RunState) -> bool:
        """Ask the person about every open effect; True when one was settled."""
        settle = self._terms.settle
        found = False
        for call in state.unsettled() if settle is not None else ():
            effect = Call(call.key, tool=call.tool, attempt=call.attempt, arguments=self._arguments(call))
            said = settle(effect) if settle is not None else None
            if isinstance(said, Happened | DidNotHappen | GiveUp):
                self._lived.watch.heard("settle", effect, said)
                self._attempt(partial(_settle, call.key, said))
                found = True
        return found

    def _waited(self, result: RunResult) -> bool:
        """Come back when a probe said so, a few times."""
        if result.retry_in_s is None or self._comebacks == COMEBACKS:
            return False
        self._comebacks += 1
        self._clock.advance(result.retry_in_s)
        return True

    def _arguments(self, call: CallState) -> dict[str, Any]:
        arguments: dict[str, Any] = self._store.record_at(RUN, call.position).payload["event"]["args"]
        return arguments

    def _state(self) -> RunState:
        return self._home(CrashPoint()).reader.see(RUN).state

    def _look_back(self) -> None:
        lived, state = self._lived, self._state()
        records = list(self._home(CrashPoint()).reader.records(RUN))
        lived.events = [record.payload["event"] for record in records if record.kind == "event"]
        lived.contradictions = list(check(records))
        lived.calls = list(state.calls.values())
        lived.journal = self._store.raw(RUN)
        lived.output = (state.agent_end or {}).get("output") if state.state == COMPLETED else None


def _settle(key: str, said: Settlement, home: Home) -> RunResult:
    home.settle(key, said, by="crash_points", reason="the test's settle function said so")
    return home.result(RUN)


def _seen_from_inside(agent: Agent, watch: Watch) -> Agent:
    """The same agent, which lets tools that it did not declare be watched too."""

    def plain(run: Any, prompt: Any) -> Any:
        run._gate.tools = Adopting(run._gate.tools, watch)
        return agent.body(run, prompt)

    async def awaited(run: Any, prompt: Any) -> Any:
        run._gate.tools = Adopting(run._gate.tools, watch)
        return await agent.body(run, prompt)

    return Agent(
        awaited if agent.is_async else plain,
        tools=list(agent.tools.values()),
        name=agent.name,
        config=agent.config,
        policy=agent.policy,
        secrets=agent.secrets,
    )


def _on_a_loop(make: Callable[[], Coroutine[Any, Any, RunResult]]) -> RunResult:
    """The result of a coroutine; in a thread of its own where a loop runs already."""
    if not a_loop_runs_here():
        return asyncio.run(make())
    ended: list[RunResult | BaseException] = []
    context = contextvars.copy_context()

    def in_thread() -> None:
        try:
            ended.append(asyncio.run(make()))
        except BaseException as fault:  # noqa: BLE001  # whatever it raises goes to the one who waits
            ended.append(fault)

    thread = threading.Thread(target=lambda: context.run(in_thread), name="clew-life")
    thread.start()
    thread.join()
    end = ended[0]
    if isinstance(end, BaseException):
        raise end
    return end
