"""What tools, probes and the world did while an agent was tried, noted at their bodies. Judges no whole life."""

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from clew.core.redact import Redactor
from clew.core.review import DidNotHappen, Happened
from clew.errors import UsageError
from clew.runtime.place import HERE
from clew.runtime.tools import Call, Failed, Tool, probe_name
from clew.testing.crash import Crash, CrashPoint
from clew.views.plain import arguments_text

Effects = Callable[[], Iterable[Any]]
StandIn = Callable[..., Any] | tuple[Callable[..., Any], Callable[[Call], Any]]

LANDING_S = 10.0
WORDS = 400
_INSIDE: ContextVar[bool] = ContextVar("clew_testing_inside", default=False)
_CALL = inspect.Parameter("clew_call", inspect.Parameter.POSITIONAL_ONLY)


@dataclass(eq=False)
class Doing:
    """Something under way that may change the world: a tool's body, or a probe.

    `changed`: did the listed effects change while it alone was under way? `unsure`: they did while others were, too.
    `timed`: its time is limited, so that it may be left behind.
    """

    what: str
    looks_only: bool = False
    changed: bool = False
    unsure: bool = False
    timed: bool = False


@dataclass(eq=False)
class Ran(Doing):
    """One run of a tool's body through the gate."""

    key: str = ""
    attempt: int = 0
    arguments: str = ""
    replay: str = ""
    returned: bool = False


@dataclass
class Watch:
    """The eyes of one life. Takes the agent's tools over while it lives, and gives them back by `let_go`.

    Attributes:
        effects: Lists what has happened in the world; None when nobody can tell.
        listed: Tools whose effects that list is known to contain.
        redactor: Keeps the agent's secrets out of what is reported.
        point: Where the leg under way dies; a dead process runs no body.
        ran: Every run of a body through the gate.
        findings: What was seen that must not be, in words.
        world: What is in the list of effects, each counted; `began` is how it was in the beginning.
        fault: What the list of effects raised, until it can be raised to the test.
        met: Names of the tools that were taken over.
    """

    effects: Effects | None
    listed: frozenset[str]
    stand_ins: Mapping[str, StandIn]
    redactor: Redactor = field(default_factory=Redactor)
    point: CrashPoint = field(default_factory=CrashPoint)
    ran: list[Ran] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    world: Counter[str] = field(default_factory=Counter)
    fault: Exception | None = None
    met: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._under_way: list[Doing] = []
        self._turn = threading.Condition()
        self._taken: dict[int, tuple[Tool, dict[str, Any]]] = {}
        self.began = self.world = self._look()

    # Tools.

    def take(self, tool: Tool) -> Tool:
        """Watch a tool, in place: whoever holds it calls what is watched, past the gate too."""
        if id(tool) not in self._taken:
            self.met.add(tool.name)
            self._taken[id(tool)] = (tool, dict(vars(tool)))
            vars(tool).update(_watched(self, tool, self.stand_ins.get(tool.name)))
        return tool

    def let_go(self) -> None:
        """Give every tool back as it was."""
        for tool, was in self._taken.values():
            vars(tool).clear()
            vars(tool).update(was)
        self._taken.clear()

    def body_of(self, tool: Tool) -> Any:
        """A tool's own body, whether it is watched now or not."""
        taken = self._taken.get(id(tool))
        return tool.body if taken is None else taken[1]["body"]

    # Bodies and probes.

    @contextmanager
    def under_way(self, doing: Doing) -> Iterator[None]:
        """Look at the world before and after."""
        self._pass(self._under_way.append, doing)
        token = _INSIDE.set(True)
        try:
            yield
        finally:
            _INSIDE.reset(token)
            self._pass(self._under_way.remove, doing)
            if doing.changed and doing.looks_only:
                self.say(f"{doing.what} changed the world, and is declared to change nothing")

    def _pass(self, move: Callable[[Doing], None], doing: Doing) -> None:
        with self._turn:
            self.look()
            move(doing)
            self._turn.notify_all()

    def begin(self, tool: Tool, takes_call: bool, args: tuple[Any, ...]) -> tuple[Doing | None, tuple[Any, ...]]:
        """Who runs a body, and with which arguments by place. None: another body does, and answers for it.

        Raises:
            Crash: the process is dead.
        """
        if self.point.struck:
            raise Crash(f"{tool.name!r} would run in a dead process")
        here = HERE.get()
        call = args[0] if args and isinstance(args[0], Call) else None
        rest = args if call is None else args[1:]
        given = (call or Call.loose(tool.name), *rest) if takes_call else rest
        if _INSIDE.get():
            return None, given
        if here is None or not here.in_tool or call is None:
            self.say(f"{tool.name} ran outside the gate: it was called directly, not by run.call")
            return Doing(tool.name), given
        capability = tool.capability
        words = arguments_text(self.redactor.arguments(dict(call.arguments)), WORDS)
        ran = Ran(
            tool.name, looks_only=capability.free, timed=tool.timeout_s is not None, key=call.key,
            attempt=call.attempt, arguments=words, replay=capability.replay,
        )  # fmt: skip
        self.ran.append(ran)
        return ran, given

    def heard(self, who: str, call: Call, verdict: Any) -> Any:
        """The verdict, compared with what was seen of the effect."""
        runs = [ran for ran in self.ran if ran.key == call.key]
        if isinstance(verdict, Happened) and not runs:
            self.say(f"{who} said that {call.tool} happened ({call.key}); its body never ran")
        if isinstance(verdict, DidNotHappen) and any(self.happened(ran) for ran in runs):
            self.say(f"{who} said that {call.tool} did not happen ({call.key}); it had")
        return verdict

    def happened(self, ran: Ran) -> bool:
        """Did this run change the world? By the list of effects where it tells, else by the body's return."""
        if ran.what in self.listed and not ran.unsure:
            return ran.changed
        return ran.changed or ran.returned

    # The world.

    def look(self) -> None:
        """Look at the world, and give what has changed to whoever was at work since the last look."""
        now = self._look()
        changed, self.world = now - self.world, now
        if not changed:
            return
        if not self._under_way:
            self.say(f"the agent changed the world outside the gate: {', '.join(sorted(changed))}")
        for doing in self._under_way:
            doing.changed = len(self._under_way) == 1 or doing.changed
            doing.unsure = len(self._under_way) > 1

    def _look(self) -> Counter[str]:
        """The world now; a list that cannot be made must not look like a tool that failed."""
        try:
            return Counter() if self.effects is None else Counter(map(repr, self.effects()))
        except Exception as fault:  # noqa: BLE001  # it is the test's own, and is raised when the leg has ended
            self.fault = fault
            return self.world

    def let_land(self) -> None:
        """After a death, wait until no body is under way: what was sent lands before anybody goes on.

        A tool with a time limit may have been left behind for good; nobody waits for it.

        Raises:
            Exception: what the list of effects raised.
        """
        with self._turn:
            if self.point.struck and not self._turn.wait_for(lambda: not self._awaited(), timeout=LANDING_S):
                self.say(f"{self._awaited()[0].what} still ran {LANDING_S:g} s after the death")
            self.look()
        if self.fault is not None:
            raise self.fault

    def _awaited(self) -> list[Doing]:
        return [doing for doing in self._under_way if not doing.timed]

    def say(self, finding: str) -> None:
        """Note what must not be, once."""
        if finding not in self.findings:
            self.findings.append(finding)


class Adopting(dict[str, Tool]):
    """The tools of a gate; one that the agent did not declare is watched from its first call on."""

    def __init__(self, tools: Mapping[str, Tool], watch: Watch) -> None:
        super().__init__(tools)
        self._watch = watch

    def setdefault(self, name: str, tool: Tool) -> Tool:
        """As of a dict, but every look at an undeclared function makes a new tool, so each of them is watched."""
        known = self.get(name)
        if known is not None and (known is tool or self._watch.body_of(known) != tool.body):
            return known
        self[name] = self._watch.take(tool)
        return tool


def _watched(watch: Watch, tool: Tool, stand_in: StandIn | None) -> dict[str, Any]:
    """What changes in a tool that is watched: its body wants the call, and may be another's."""
    body, probe = _replaced(tool, stand_in)
    target = Tool(body, name=tool.name)
    changed = {"body": _watched_body(watch, tool, target), "is_async": target.is_async, "takes_call": True}
    if not tool.takes_call:
        parameters = [_CALL, *tool.signature.parameters.values()]
        changed["signature"] = tool.signature.replace(parameters=parameters)
    if probe is not None:
        changed["probe"] = _watched_probe(watch, probe, probe_name(tool.probe))
    return changed


def _replaced(tool: Tool, stand_in: StandIn | None) -> tuple[Callable[..., Any], Any]:
    if stand_in is None:
        return tool.body, tool.probe
    body, probe = stand_in if isinstance(stand_in, tuple) else (stand_in, None)
    if tool.probe is not None and probe is None:
        raise UsageError(
            f"tool {tool.name!r} has a probe, which would ask the real world about what its stand-in did",
            code="invalid_stand_in",
            next="Give both: tools={tool: (body, probe)}.",
            tool=tool.name,
        )
    body = body.body if isinstance(body, Tool) else body
    return (_by_name(body) if _takes_anything(body) else body), probe if tool.probe is not None else None


def _takes_anything(body: Callable[..., Any]) -> bool:
    """Does it take `*args`, as a mock does? A tool may not, but its stand-in may."""
    kinds = [parameter.kind for parameter in inspect.signature(body).parameters.values()]
    return inspect.Parameter.VAR_POSITIONAL in kinds


def _by_name(body: Callable[..., Any]) -> Callable[..., Any]:
    """A body that is given its arguments by their names, and not the call."""

    def plain(**arguments: Any) -> Any:
        return body(**arguments)

    async def awaited(**arguments: Any) -> Any:
        return await body(**arguments)

    return awaited if inspect.iscoroutinefunction(body) else plain


def _watched_body(watch: Watch, tool: Tool, target: Tool) -> Callable[..., Any]:
    def plain(*args: Any, **kwargs: Any) -> Any:
        doing, given = watch.begin(tool, target.takes_call, args)
        if doing is None:
            return target.body(*given, **kwargs)
        with watch.under_way(doing):
            return _returned(doing, target.body(*given, **kwargs))

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        doing, given = watch.begin(tool, target.takes_call, args)
        if doing is None:
            return await target.body(*given, **kwargs)
        with watch.under_way(doing):
            return _returned(doing, await target.body(*given, **kwargs))

    body = awaited if target.is_async else plain
    body.__name__ = tool.name
    return body


def _returned(doing: Doing, value: Any) -> Any:
    if isinstance(doing, Ran):
        doing.returned = not isinstance(value, Failed)
    return value


def _watched_probe(watch: Watch, probe: Callable[[Call], Any], name: str) -> Callable[[Call], Any]:
    who = f"probe {name}"

    def plain(call: Call) -> Any:
        with watch.under_way(Doing(who, looks_only=True)):
            return watch.heard(who, call, probe(call))

    async def awaited(call: Call) -> Any:
        with watch.under_way(Doing(who, looks_only=True)):
            return watch.heard(who, call, await probe(call))

    watched = awaited if inspect.iscoroutinefunction(probe) else plain
    watched.__name__ = name
    return watched
