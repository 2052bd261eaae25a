"""A kit for the user's own agent: it dies at every append, goes on as another process would, and is judged. No disk."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew.core.budget import RunBudget
from clew.core.records import Batch
from clew.errors import UsageError
from clew.runtime.clock import Clock
from clew.runtime.tools import Agent, Call, as_agent, as_tool
from clew.testing.clock import SetClock
from clew.testing.judging import Point, described, judge, undeclared
from clew.testing.lives import NEEDS_A_PERSON, Kill, Lived, Terms, live
from clew.testing.watching import Effects, StandIn

NAMED = 8
"""So many crash points are named behind one finding; the others are counted."""


@dataclass(frozen=True)
class Report:
    """How an agent fared at every crash point. Iterating gives the points, the life without a crash first.

    Attributes:
        agent: The agent's name.
        points: One life each.
        appends: How many appends the life without a crash made behind its first, the birth.
        undeclared: What the agent's tools leave unsaid, in words; not wrong, but what died in doubt waits for a person.
        hint: What may be amiss with the test itself, if anything was found.
    """

    agent: str
    points: tuple[Point, ...]
    appends: int
    undeclared: tuple[str, ...]
    hint: str = ""

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def findings(self) -> dict[str, list[Point]]:
        """What must not be, and at which points it was seen."""
        found: dict[str, list[Point]] = {}
        for point in self.points:
            for finding in point.findings:
                found.setdefault(finding, []).append(point)
        return found

    @property
    def needing_a_person(self) -> list[Point]:
        """The lives that ended in a question to a person. Legal; assert that there are none if there should be none."""
        return [point for point in self.points if point.outcome == NEEDS_A_PERSON]

    def check(self) -> "Report":
        """This report, if nothing was found.

        Raises:
            AssertionError: with every finding, where it was seen, and how to see one of them again.
        """
        if self.findings:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        outcomes = Counter(point.outcome for point in self.points)
        told = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        lines = [f"agent {self.agent!r}, {self.appends} appends, {len(self.points)} lives: {told}"]
        for finding, points in self.findings.items():
            more = f" and {len(points) - NAMED} more" if len(points) > NAMED else ""
            lines += [f"  {finding}", f"    {points[0].told}"]
            lines.append(f"    seen at {', '.join(point.name for point in points[:NAMED])}{more}")
            lines.append(f"    again: crash_points(…, only={points[0].name!r})")
        lines += [f"  undeclared: {unsaid}" for unsaid in self.undeclared]
        lines += [f"  {self.hint}"] if self.findings and self.hint else []
        return "\n".join(lines)


def crash_points(
    agent: Any, input: Any = None, *, tools: Mapping[Any, StandIn] | None = None,
    fresh: Callable[[], object] | None = None, effects: Effects | None = None,
    settle: Callable[[Call], Any] | None = None, workspace: str | Path | None = None, budget: RunBudget | None = None,
    on_error: str = "pause", on_limit: str = "pause", max_legs: int = 20, only: str | None = None,
    session: str | None = None,
) -> Report:  # fmt: skip
    """Let an agent die before, inside and after each of its appends, and see each of these lives to its honest end.

        def test_my_agent_survives_every_crash() -> None:
            bank = FakeBank()
            crash_points(
                settle_orders, "settle orders.csv",
                tools={pay: (bank.pay, bank.find)}, fresh=bank.reset, effects=lambda: bank.payments,
            ).check()

    Once without a crash, to learn how many appends there are and what a good end is; then one life for every crash
    point. After the death the run is resumed on the same home in memory, as another process would resume it: open
    effects are settled by the agent's own probes, or by `settle`; what neither can settle needs a person, which is an
    honest end. Clock and chance are set: the same agent dies the same deaths every time, and waiting takes no time.

    Reported as findings: an effect that happened twice (by its key, by its arguments, in the list of `effects`) or is
    missing; an effect past the gate; a tool of effect none, or a probe, that changes the world; a probe or `settle`
    that says what is not so; answers that are lost or doubled; calls that are others after the crash
    (`resume_divergence`); another end than without the crash; no end within `max_legs`; a refusal of clew.

    Args:
        agent: A `@clew.agent`, or a plain or async function `agent(run, input)`.
        input: What it is asked; JSON.
        tools: What stands in for the body of a tool (by the tool, its function or its name): a function, or a pair of
            function and probe where the tool has a probe. Each takes what the tool takes, with `call` or without (a
            mock gets the arguments alone). A tool without a stand-in does what it does, at every crash point.
        fresh: Makes the world new before each life: what stand-ins and probes know must not outlive it.
        effects: Lists what happened in the world so far: facts of the business, without times and numbers that differ
            from life to life. It is asked often, from the thread that runs a tool. Without it an effect past the gate
            is seen only if a declared tool is called directly, and a tool of effect none is believed.
        settle: A person: asked about each open effect that no probe settles, and answers as a probe does. Left out:
            nobody is asked.
        workspace: The folder that workspace tools may touch, as it is, for every life; an empty one for each when
            left out.
        budget: Limits of each run.
        on_error: As in `Home.run`.
        on_limit: As in `Home.run`.
        max_legs: So many processes may work on one life; settling counts.
        only: The name of one crash point (`after:7`); no other life is lived, except for the one without a crash.
        session: As in `Home.run`: the conversation that it goes on with, by any id; each life begins it anew.

    Returns:
        A report; its `check()` raises AssertionError with every finding. No test framework is needed, and it may be
        called where an event loop runs (which it blocks; `await asyncio.to_thread(crash_points, …)` does not).

    Raises:
        UsageError: `invalid_agent`, `value_not_json`; `invalid_stand_in` for no tool of the agent, or without the probe
            of one that has a probe; `unknown_crash_point`; `world_not_fresh` when a life began in another world than
            the first one did.

    Source:
        DESIGN §3, "a contract is a kit"; promises 2, 3, 4 and 8.
    """
    found = as_agent(agent)
    policies = {"on_error": on_error, "on_limit": on_limit}
    folder = None if workspace is None else Path(workspace).absolute()
    anew = fresh or (lambda: None)
    stand_ins = _by_name(found, tools or {})
    terms = Terms(found, input, stand_ins, anew, effects, settle, folder, budget, policies, max_legs, session)
    whole = live(terms, None, frozenset())
    _check_met(found, stand_ins.keys() - whole.watch.met)
    listed = frozenset(ran.what for ran in whole.watch.ran if ran.changed and not ran.unsure)
    points = [judge(whole, whole, "no crash", "without a crash")]
    for kill, told in _kills(whole, only):
        lived = live(terms, kill, listed)
        _check_world(whole, lived)
        points.append(judge(lived, whole, kill.name, told))
    hint = "" if fresh is not None else "no fresh= was given: does each life begin in a new world?"
    return Report(found.name, tuple(points), len(whole.appends), undeclared(found, whole), hint)


def _by_name(agent: Agent, tools: Mapping[Any, StandIn]) -> dict[str, StandIn]:
    """Each stand-in by the name under which the agent has the tool; its function may be called otherwise."""
    named = {tool.body: name for name, tool in agent.tools.items()}
    stand_ins = {}
    for given, stand_in in tools.items():
        if isinstance(given, str):
            _check_met(agent, {given} - agent.tools.keys())
            stand_ins[given] = stand_in
        else:
            tool = as_tool(given)
            stand_ins[named.get(tool.body, tool.name)] = stand_in
    return stand_ins


def _check_met(agent: Agent, strangers: Iterable[str]) -> None:
    """Refuse a stand-in that stands in for nothing: what it was meant for would do what it does, once a life."""
    for name in sorted(strangers):
        raise UsageError(
            f"no tool {name!r} is there to stand in for: agent {agent.name!r} has {', '.join(agent.tools) or 'none'}",
            code="invalid_stand_in",
            next="Give the tool itself, or its name as the agent declares it.",
            tool=name,
        )


def _kills(whole: Lived, only: str | None) -> Iterable[tuple[Kill, str]]:
    """The crash points of a life, each with its story; or the one that is wanted."""
    clock, count = SetClock(seed="cuts"), len(whole.appends)
    kills = [
        (kill, described(kill, count, batch))
        for number, batch in enumerate(whole.appends, 1)
        for kill in _of_append(number, batch, clock)
    ]
    wanted = [(kill, told) for kill, told in kills if only is None or kill.name == only]
    if only not in (None, "no crash") and not wanted:
        raise UsageError(
            f"there is no crash point {only!r}",
            code="unknown_crash_point",
            next="Take a name from a report; they change when the agent's calls do.",
            points=[kill.name for kill, _ in kills],
        )
    return wanted


def _of_append(number: int, batch: Batch, clock: Clock) -> Iterator[Kill]:
    """The deaths at one append. Kept is nothing, a part of the first line, each number of whole lines, all."""
    ends = [at + 1 for at, byte in enumerate(batch.data) if byte == ord("\n")]
    inside = 1 + int.from_bytes(clock.chance(4)) % (ends[0] - 2)
    yield Kill(number, 0)
    yield from (Kill(number, keep, cut) for cut, keep in enumerate([inside, *ends[:-1]], 1))
    yield Kill(number, None)


def _check_world(whole: Lived, lived: Lived) -> None:
    if lived.watch.began == whole.watch.began:
        return
    raise UsageError(
        "a life began in another world than the first one",
        code="world_not_fresh",
        next="Give fresh=, a function that makes the world new before each life.",
        left=sorted((lived.watch.began - whole.watch.began).elements()),
    )
