"""What runs in the place of tools' bodies, probes and models in one leg, and where the leg dies around them."""

import gc
import inspect
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, Final, NoReturn

from clew.certify.answers import Answers, Told, Unanswered
from clew.certify.guard import Doing, Guard
from clew.certify.ledger import Ledger, die
from clew.certify.orders import LegOrder
from clew.core.capability import Capability
from clew.core.ids import split_key
from clew.core.jsonable import MARK, record_result, to_json
from clew.core.redact import Redactor
from clew.core.review import CannotTell, DidNotHappen, Happened, Verdict
from clew.errors import NothingHappened, UsageError
from clew.runtime.bodies import blocking
from clew.runtime.place import HERE
from clew.runtime.tools import Call, Failed, Tool, probe_name
from clew.runtime.turns import Turn

PROBE_S: Final = 2.0
REFUSED: Final = "clew certify let this effect not happen"
WANTS_CALL: Final = "wants_call"
"""Where a tool that was taken over keeps whether its own body wants the call."""
_CALL: Final = inspect.Parameter("clew_call", inspect.Parameter.POSITIONAL_ONLY)


class StandIns:
    """The tools and models of one leg.

    `happened`: what a life's ledger says of each key, with its answer; `redactor`: what the agent keeps secret is no
    matter for a report.
    """

    def __init__(
        self, order: LegOrder, answers: Answers, ledger: Ledger, guard: Guard, happened: dict[str, Any],
        redactor: Redactor,
    ) -> None:  # fmt: skip
        self._order = order
        self._answers = answers
        self._ledger = ledger
        self._guard = guard
        self._happened = happened
        self.redactor = redactor
        self._counting = threading.Lock()
        self._bodies = order.bodies
        self._turns = 0

    # Tools.

    def body(self, tool: Tool, real: Callable[..., Any]) -> Callable[..., Any]:
        """What is called in the place of a tool's body: it wants the call, and is async where the body is."""

        def plain(*args: Any, **kwargs: Any) -> Any:
            return self._passed(tool, real, args, kwargs)

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            entered = self._entered(tool, args, kwargs)
            with self._guard.doing(entered.doing) if entered.runs else nullcontext():
                try:
                    value = await real(*entered.given, **kwargs) if entered.runs else self._answered(entered)
                except BaseException:
                    self._raised(entered)
                    raise
            return self._left(entered, value)

        return awaited if tool.is_async else plain

    def _passed(self, tool: Tool, real: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        entered = self._entered(tool, args, kwargs)
        with self._guard.doing(entered.doing) if entered.runs else nullcontext():
            try:
                value = real(*entered.given, **kwargs) if entered.runs else self._answered(entered)
            except BaseException:
                self._raised(entered)
                raise
        return self._left(entered, value)

    def _entered(self, tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "_Entered":
        """A body is about to run; it may be the one before which the leg dies, or that is refused."""
        call = args[0] if args and isinstance(args[0], Call) else None
        rest = args if call is None else args[1:]
        place = HERE.get()
        gated = call is not None and place is not None and place.in_tool and place.key == call.key
        given = (call or Call.loose(tool.name), *rest) if vars(tool)[WANTS_CALL] else rest
        if not gated and place is not None and place.in_tool and tool.capability.effect in ("none", "workspace"):
            # A body that calls another tool's function: it answers for what that does.
            return _Entered(self, tool, None, given, {}, counted=False)
        if not gated and not tool.capability.free:
            self._ledger.say("found", "past_gate", f"{tool.name} is called directly, not by run.call", tool.name)
        arguments = dict(call.arguments) if gated and call is not None else _named(tool, rest, kwargs)
        entered = _Entered(self, tool, call if gated else None, given, arguments, counted=not tool.capability.free)
        if entered.counted:
            self._begin(entered)
        return entered

    def _begin(self, entered: "_Entered") -> None:
        with self._counting:
            self._bodies += 1
            number = self._bodies
        entered.number = number
        kill = self._order.kill
        if kill is not None and (kill.moment, kill.number) == ("start", number):
            self._ledger.write("struck", what=kill.name)
            die()
        if number == self._order.fails:
            self._ledger.write("refused", **entered.facts())
            raise NothingHappened(REFUSED)
        self._ledger.write("began", **entered.facts())

    def _raised(self, entered: "_Entered") -> None:
        if entered.counted:
            self._ledger.write("raised", **entered.facts())

    def _left(self, entered: "_Entered", value: Any) -> Any:
        """A body has returned: that is what happened, whatever becomes of its record."""
        told = record_result(value.value if isinstance(value, Failed) else value)
        if _has_mark(told):
            what = f"{entered.tool.name} returns what is no JSON: {self.redactor.text(str(told))[:160]}"
            self._ledger.say("found", "result_not_json", what, entered.tool.name)
        if not entered.counted:
            return value
        self._ledger.write("happened", answer=told, **entered.facts())
        if entered.call is not None:
            self._happened[entered.call.key] = told
        kill = self._order.kill
        if kill is not None and (kill.moment, kill.number) == ("end", entered.number):
            self._ledger.write("struck", what=kill.name)
            die()
        return value

    def _answered(self, entered: "_Entered") -> Any:
        """What a tool is said to answer, whose body is not run."""
        if entered.told is not None:
            return _given(entered.told)
        if entered.tool.returns not in (None, type(None)):
            self._unanswered(entered.tool.name, entered.arguments)
        return None

    def told(self, tool: Tool, call: Call | None, arguments: dict[str, Any]) -> Told | None:
        """What is known of its answer; nothing of a tool whose body is run anyway."""
        if self._order.live or tool.capability.effect == "workspace":
            return None
        try:
            return self._answers.of_call(tool.name, split_key(call.key)[1] if call is not None else "", arguments)
        except Unanswered:
            return None

    def runs(self, tool: Tool, told: Told | None) -> bool:
        """Is its real body run? That of a workspace tool always; of one that only looks, if nobody says its answer."""
        effect = tool.capability.effect
        return self._order.live or effect == "workspace" or (effect == "none" and told is None)

    def _unanswered(self, whom: str, asked: Any) -> NoReturn:
        self._ledger.write("unanswered", tool=whom, arguments=self.redactor.answer(to_json(asked, at="asked")))
        die()
        raise AssertionError("dead")

    # Probes.

    def probe(self, tool: Tool, real: Callable[[Call], Any]) -> Callable[[Call], Verdict]:
        """What is asked in the place of a probe: of an external tool the ledger, once the probe has shown itself."""
        name = getattr(real, "__name__", "probe")

        def asked(call: Call) -> Verdict:
            verdict = self._watched(real, call, f"probe {name}")
            truth = self.truth(call.key)
            if tool.capability.effect == "workspace":
                self._compared(verdict, truth, tool.name, name)
                return verdict if verdict is not None else CannotTell("it did not answer in time")
            return truth

        asked.__name__ = name
        return asked

    def truth(self, key: str) -> Verdict:
        """What really happened."""
        return Happened(self._happened[key]) if key in self._happened else DidNotHappen()

    def _watched(self, probe: Callable[[Call], Any], call: Call, what: str) -> Any:
        """Let a probe look, kept from the network and from writing; what it says, or None."""
        heard: list[Any] = []
        place = HERE.get()

        def look() -> None:
            HERE.set(place)
            with self._guard.doing(Doing("probe", what)), suppress(BaseException):
                heard.append(blocking(probe(call)))

        thread = threading.Thread(target=look, name="clew-probe-watched", daemon=True)
        thread.start()
        thread.join(PROBE_S)
        return heard[0] if heard else None

    def _compared(self, verdict: Any, truth: Verdict, tool: str, probe: str) -> None:
        if isinstance(verdict, Happened | DidNotHappen) and type(verdict) is not type(truth):
            said, had = ("happened", "had not") if isinstance(verdict, Happened) else ("did not happen", "had")
            self._ledger.say("found", "probe_wrong", f"probe {probe} says that {tool} {said}; it {had}", tool)

    # Models.

    def ask(self, request: Any) -> Turn:
        """What a model answers."""
        with self._counting:
            self._turns += 1
            turn = f"turn-{self._turns}"
        try:
            told = self._answers.of_turn(turn, to_json(request, at="request"))
        except Unanswered:
            self._unanswered("run.turn", request)
        if told.error:
            raise RuntimeError(told.error)
        return Turn(told.answer)


class _Entered:
    """One body under way."""

    def __init__(
        self, stand_ins: StandIns, tool: Tool, call: Call | None, given: tuple[Any, ...], arguments: dict[str, Any],
        *, counted: bool,
    ) -> None:  # fmt: skip
        self.tool = tool
        self.call = call
        self.given = given
        self.arguments = arguments
        self.counted = counted
        self.number = 0
        self.told = stand_ins.told(tool, call, arguments)
        self.runs = stand_ins.runs(tool, self.told)
        self.shown = stand_ins.redactor.arguments(arguments)
        self.doing = Doing("live" if stand_ins._order.live else _part(tool.capability), tool.name)

    def facts(self) -> dict[str, Any]:
        """What the ledger says of it."""
        call, capability = self.call, self.tool.capability
        return {
            "tool": self.tool.name,
            "key": "" if call is None else call.key,
            "attempt": 0 if call is None else call.attempt,
            "arguments": self.shown,
            "effect": capability.effect,
            "replay": capability.replay,
        }


def _part(capability: Capability) -> Any:
    return {"none": "free", "workspace": "workspace"}.get(capability.effect, "live")


def _named(tool: Tool, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(to_json(tool.bind(rest, kwargs), at="args"))
    except UsageError:
        return {}


def _given(told: Told) -> Any:
    if not told.error:
        return told.answer
    if told.kind == "nothing_happened":
        raise NothingHappened(told.error)
    return Failed(told.error, told.answer)


def _has_mark(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get(MARK) == "repr" or any(map(_has_mark, value.values()))
    return isinstance(value, list) and any(map(_has_mark, value))


class Troupe:
    """Every tool of the process, also those that are made later; while a leg lives, its stand-ins play them.

    Lives as long as its process, which is a server or a leg: nothing is given back.
    """

    def __init__(self) -> None:
        self.cast: StandIns | None = None
        self._played: list[tuple[Tool, Callable[..., Any], Callable[..., Any]]] = []

    def engage(self) -> None:
        """From now on each tool that is made is taken over."""
        made = Tool.__init__

        def init(tool: Tool, body: Any, **declared: Any) -> None:
            made(tool, body, **declared)
            self.take(tool)

        # The one place that sees them all: declared, undeclared, of children, made while the agent runs.
        setattr(Tool, "__init__", init)  # noqa: B010  # a method is replaced, on purpose
        for known in [each for each in gc.get_objects() if type(each) is Tool]:
            self.take(known)

    def take(self, tool: Tool) -> None:
        """Let a stand-in be called for the tool's body and its probe; to the gate it looks as before."""
        changed: dict[str, Any] = {WANTS_CALL: tool.takes_call, "body": self._in_place_of(tool), "takes_call": True}
        if not tool.takes_call:
            changed["signature"] = tool.signature.replace(parameters=[_CALL, *tool.signature.parameters.values()])
        if tool.probe is not None:
            changed["probe"] = self._asked(tool, tool.probe)
        vars(tool).update(changed)

    def _in_place_of(self, tool: Tool) -> Callable[..., Any]:
        """The same for the same function: every look at an undeclared one makes a new tool."""
        real = tool.body
        for known, body, playing in self._played:
            if body == real and (known.name, known.capability) == (tool.name, tool.capability):
                return playing

        def plain(*args: Any, **kwargs: Any) -> Any:
            return real(*args, **kwargs) if self.cast is None else self.cast.body(tool, real)(*args, **kwargs)

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await (real(*args, **kwargs) if self.cast is None else self.cast.body(tool, real)(*args, **kwargs))

        playing = awaited if tool.is_async else plain
        playing.__name__ = tool.name
        self._played.append((tool, real, playing))
        return playing

    def _asked(self, tool: Tool, real: Callable[[Call], Any]) -> Callable[[Call], Any]:
        def asked(call: Call) -> Any:
            return real(call) if self.cast is None else self.cast.probe(tool, real)(call)

        asked.__name__ = probe_name(real)
        return asked
