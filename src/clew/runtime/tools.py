"""Tools and agents as their authors declare them. Declaring touches nothing; what a call needs is read off once."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, overload

import msgspec

from clew.core import capability as capabilities
from clew.core.canon import fingerprint
from clew.core.capability import Capability
from clew.core.ids import check_name
from clew.core.jsonable import to_json
from clew.core.needs import ProbeFacts
from clew.core.policy import Ask
from clew.core.policy import Policy as ByRules
from clew.core.resume import Fingerprint, Offered
from clew.core.review import Verdict
from clew.errors import UsageError
from clew.runtime.call import Call
from clew.runtime.paths import Paths, Said

RESERVED: Final = ("now", "random", "uuid", "turn", "call", "review", "steering")
"""Names that the numbers and steps of a run's own records have; no tool and no step may have one."""

_FINISHED: Final = frozenset({dict, list, tuple, str, int, float, bool, bytes, type(None)})

Body = Callable[..., Any]
ProbeBody = Callable[["Call"], Any]
Policy = Callable[["Call"], "Ask | str | None"] | ByRules


class Failed(msgspec.Struct, frozen=True):
    """Returned by a tool that did its work and found that it failed: an answer with `isError`, not an unknown end."""

    message: str
    value: Any = None


class Tool:
    """A function and what it says of its effect. Callable as the function it wraps."""

    def __init__(
        self, body: Body, *, name: str | None = None, effect: str = "", replay: str = "",
        probe: ProbeBody | None = None,
        in_doubt_s: float | None = None, window_s: float | None = None, timeout_s: float | None = None,
        nothing_happened_on: Sequence[type[BaseException]] = (), secret: bool = False,
        builtin: bool = False, key: Body | None = None, on_held: str = "error", paths: Said | None = None,
        expects: Body | None = None,
    ) -> None:  # fmt: skip
        self.body = body
        self.key = key
        self.on_held = on_held
        self.name = check_name(name or _name_of(body), "tool")
        self.capability = _resolved(self.name, body, effect, replay, builtin=builtin, guarded=paths is not None)
        self.probe = probe
        self.in_doubt_s = in_doubt_s
        self.window_s = window_s
        self.timeout_s = timeout_s
        self.nothing_happened_on = tuple(nothing_happened_on)
        self.secret = secret
        self.signature = _signature(body)
        self.takes_call = _takes_call(self.signature)
        self._by_name = _named(self.signature, self.takes_call)
        self.paths = _paths(self, paths, expects)
        self.returns = _return_annotation(body)
        self.is_async = is_async(body)
        self.__name__ = self.name
        self.__doc__ = body.__doc__
        _check_declared(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, outside of any gate."""
        return self.body(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name} effect={self.capability.effect} replay={self.capability.replay}>"

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name, defaults left out. `UsageError` (`invalid_arguments`) when they do not fit."""
        if not args and self._by_name.keys() == kwargs.keys():
            # What `bind` would say too, in the order of the signature.
            return {name: kwargs[name] for name in self._by_name}
        try:
            bound = self.signature.bind(*((None, *args) if self.takes_call else args), **kwargs)
        except TypeError as fault:
            raise UsageError(
                f"tool {self.name!r}: {fault}",
                code="invalid_arguments",
                next="Give the arguments that the tool's signature names; nothing was started.",
                tool=self.name,
            ) from None
        return _by_name(bound, self.takes_call)

    def offered(self) -> Offered:
        """The tool as a resume plan sees it."""
        return Offered(self.capability, probe_name(self.probe), self.in_doubt_s or 0.0, self.window_s)

    def probe_facts(self) -> ProbeFacts | None:
        """How an open attempt of it can be asked after."""
        return None if self.probe is None else ProbeFacts(probe_name(self.probe), self.in_doubt_s or 0.0)


def probe_name(probe: ProbeBody | None) -> str:
    """A probe's name, empty when there is none."""
    return "" if probe is None else _name_of(probe)


def unfinished(value: Any) -> bool:
    """Is this no result but work still to be done: a coroutine nobody awaited, a generator nobody ran?"""
    if type(value) in _FINISHED:
        return False
    if inspect.iscoroutine(value):
        value.close()
    return inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)


def is_async(body: Body) -> bool:
    """Is it a coroutine function, or an object that is called as one?"""
    method = getattr(body, "__call__", None)  # noqa: B004  # asks for a coroutine method, not whether it can be called
    return inspect.iscoroutinefunction(body) or inspect.iscoroutinefunction(method)


def _name_of(body: Body) -> str:
    return str(getattr(body, "__name__", type(body).__name__))


@overload
def tool(body: Body, /, **declared: Any) -> Tool: ...
@overload
def tool(
    *, name: str | None = ..., effect: str = ..., replay: str = ..., probe: ProbeBody | None = ...,
    in_doubt_s: float | None = ..., window_s: float | None = ..., timeout_s: float | None = ...,
    nothing_happened_on: Sequence[type[BaseException]] = ..., secret: bool = ..., key: Body | None = ...,
    on_held: str = ..., paths: Said = ..., expects: Body | None = ...,
) -> Callable[[Body], Tool]: ...  # fmt: skip
def tool(body: Body | None = None, /, **declared: Any) -> Any:
    """Declare a tool.

    Args:
        body: The function, when used without brackets: an external effect that is never repeated by itself.
        declared: `effect` (`none`, `workspace`, `external`), `replay` (`safe`, `idempotent`), `probe` with
            `in_doubt_s` (seconds a request may still land after the body ended; after a death, after it started, so
            allow for the time before it sends), `window_s` (seconds the other side remembers a key),
            `timeout_s`, `nothing_happened_on` (exceptions that prove it), `secret`, `name`; `key`, a function of the
            arguments by name that gives the business key: one execution a key and home; `on_held` (`error`, `answer`);
            `paths`, what the call changes in the workspace: names of arguments, a function of the arguments by name, or
            `clew.WORKSPACE`; how they stand is kept before it starts. `expects`, a function of that and of the
            arguments, says how it will leave them: an `Expected`, or its paths.

    Raises:
        UsageError: `invalid_tool` when the declaration contradicts itself.

    Source:
        DESIGN §5.
    """
    if body is not None:
        return Tool(body, **declared)
    return lambda function: Tool(function, **declared)


def as_tool(given: Any) -> Tool:
    """A declared tool as it is; any other callable as an undeclared one."""
    if isinstance(given, Tool):
        return given
    if not callable(given):
        raise _invalid(repr(given), "it cannot be called")
    return Tool(given)


class Agent:
    """A function that runs with a `Run`, the tools it may call, and what its author declared.

    `inherited`: policies of those who delegated to it, the farthest ancestor's first; asked beside its own.
    """

    inherited: tuple[Policy, ...] = ()

    def __init__(
        self, body: Body, *, tools: Sequence[Any] = (), name: str | None = None,
        config: Mapping[str, Any] | None = None, policy: Policy | None = None, secrets: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.body = body
        self.name = check_name(name or _name_of(body), "agent")
        self.tools = _by_their_names(self.name, tools)
        self.config: dict[str, Any] = to_json(dict(config or {}), at="config")
        self.policy = policy
        self.secrets = tuple(secrets)
        self.is_async = is_async(body)
        if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
            raise _invalid_agent(self.name, "it is a generator")
        if not _takes_run_and_input(body):
            raise _invalid_agent(self.name, "it is not to be called as agent(run, input)")
        if policy is not None and not isinstance(policy, ByRules) and is_async(policy):
            raise _invalid_agent(self.name, "its policy is async, and would be asked without being heard")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself."""
        return self.body(*args, **kwargs)

    async def awaited(self, run: Any, prompt: Any) -> Any:
        """Its output, as an async function; whatever it raises, it raises here. TypeError as `called`."""
        return self._done(await self.body(run, prompt))

    def called(self, run: Any, prompt: Any) -> Any:
        """Its output, as a plain function. TypeError when that is work which nobody has done yet."""
        return self._done(self.body(run, prompt))

    def _done(self, output: Any) -> Any:
        if unfinished(output):
            raise TypeError(f"agent {self.name!r} returned a {type(output).__name__}, which is work that nobody did")
        return output

    def fingerprint(self) -> Fingerprint:
        """What the author declared, part by part; how a run is watched (`config["telemetry"]`) changes none of it.

        Source:
            DESIGN §5 "Plan"; contract #105.
        """
        policy: Any = "full" if self.policy is None else getattr(self.policy, "__name__", type(self.policy).__name__)
        if isinstance(self.policy, ByRules):
            policy = self.policy.declared()
        config = {name: value for name, value in self.config.items() if name != "telemetry"}
        return Fingerprint(fingerprint({"name": self.name}), fingerprint(config), fingerprint({"policy": policy}))


def _takes_run_and_input(body: Body) -> bool:
    """Else a run of it would be born only to stop; what does not say what it takes is believed."""
    try:
        return bool(inspect.signature(body).bind(None, None))
    except (TypeError, ValueError) as fault:
        return isinstance(fault, ValueError)


def _by_their_names(agent: str, given: Sequence[Any]) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    for found in map(as_tool, given):
        if tools.setdefault(found.name, found) is not found:
            raise _invalid_agent(agent, f"two of its tools are called {found.name!r}")
    return tools


def _invalid_agent(name: str, why: str) -> UsageError:
    return UsageError(
        f"agent {name!r} cannot be declared: {why}",
        code="invalid_agent",
        next="Make it a function of run and input, plain or async, that returns its output; no two tools of one name.",
        agent=name,
    )


@overload
def agent(body: Body, /, **declared: Any) -> Agent: ...
@overload
def agent(
    *, tools: Sequence[Any] = ..., name: str | None = ..., config: Mapping[str, Any] | None = ...,
    policy: Policy | None = ..., secrets: Sequence[str] = ...,
) -> Callable[[Body], Agent]: ...  # fmt: skip
def agent(body: Body | None = None, /, **declared: Any) -> Any:
    """Declare an agent: `tools`, and what makes it this one: `name`, `config={…}`, `policy`, `secrets` to redact.

    A run goes on only under the name, the configuration and the policy that it began with; `config["telemetry"]` is
    how it is watched, and may change.

    Raises:
        UsageError: `invalid_agent` for a generator, what cannot be called with a run and an input, two tools of one
            name, or an async policy; `value_not_json` for a configuration that no record could hold.
    """
    if body is not None:
        return Agent(body, **declared)
    return lambda function: Agent(function, **declared)


def as_agent(given: Any) -> Agent:
    """A declared agent as it is; any other function as one without tools declared."""
    if isinstance(given, Agent):
        return given
    if not callable(given) or isinstance(given, Tool):
        raise UsageError(
            f"{given!r} is no agent",
            code="invalid_agent",
            next="Give a function agent(run, input), or one declared with @clew.agent.",
        )
    return Agent(given)


def _signature(body: Body) -> inspect.Signature:
    for evaluated in (True, False):
        try:
            return inspect.signature(body, eval_str=evaluated)
        except (NameError, TypeError, ValueError, AttributeError, SyntaxError):
            continue
    raise _invalid(_name_of(body), "it does not say which arguments it takes")


def _takes_call(signature: inspect.Signature) -> bool:
    """Does the first parameter want the call? By its annotation, or by its name when it has none."""
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.annotation is inspect.Parameter.empty:
        return first is not None and first.name == "call"
    return first.annotation is Call or str(first.annotation).rpartition(".")[2] == "Call"


def _named(signature: inspect.Signature, takes_call: bool) -> dict[str, None]:
    """The parameters, if each of them can be given by name and there is no other; else nothing that arguments match."""
    parameters = list(signature.parameters.values())[takes_call:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    usual = all(parameter.kind in named for parameter in parameters)
    return dict.fromkeys(parameter.name for parameter in parameters) if usual else {"*": None}


def _return_annotation(body: Body) -> Any:
    annotation = _signature(body).return_annotation
    return Any if annotation is inspect.Signature.empty or isinstance(annotation, str) else annotation


def _resolved(name: str, body: Body, effect: str, replay: str, *, builtin: bool, guarded: bool = False) -> Capability:
    """What it says of itself; only a tool of clew's own may say that it is built in (#137)."""
    if builtin and not str(getattr(body, "__module__", "")).startswith("clew.toolkit."):
        return capabilities.fallback(name, ["capability_invalid:builtin_source"])
    found = capabilities.resolve(name, effect, replay, builtin=builtin)
    return capabilities.with_checkpoint(found, kept=guarded)


def _by_name(bound: inspect.BoundArguments, takes_call: bool) -> dict[str, Any]:
    """Bound arguments as one object; the call itself left out, `**extra` spread."""
    arguments: dict[str, Any] = {}
    for name, value in list(bound.arguments.items())[takes_call:]:
        kind = bound.signature.parameters[name].kind
        arguments.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return arguments


def _check_declared(found: Tool) -> None:
    effect, replay = found.capability.effect, found.capability.replay
    if inspect.isgeneratorfunction(found.body) or inspect.isasyncgenfunction(found.body):
        raise _invalid(found.name, "it is a generator")
    if "capability_invalid:builtin_source" in found.capability.issues:
        raise _invalid(found.name, "it is none of clew's own tools, so it is not built in")
    if found.capability.resolution == "fallback":
        wrong = " and ".join(issue.partition(":")[2] for issue in found.capability.issues)
        raise _invalid(
            found.name,
            f"its {wrong} cannot stand; effect is none, workspace or external, replay is safe (effect none alone) "
            "or idempotent",
        )
    if effect not in ("none", "workspace") and found.probe is not None and found.in_doubt_s is None:
        raise _invalid(found.name, "a probe on an external effect needs in_doubt_s")
    if effect not in ("none", "workspace") and replay == "idempotent" and found.window_s is None:
        raise _invalid(found.name, "an idempotent external effect needs window_s")
    numbers = {"in_doubt_s": found.in_doubt_s, "window_s": found.window_s, "timeout_s": found.timeout_s}
    for name, number in numbers.items():
        if number is not None and number < 0:
            raise _invalid(found.name, f"{name} is negative")
    if found.name in RESERVED:
        raise _invalid(found.name, "clew's own records have this name")
    _check_key(found)
    nameless = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)
    if any(p.kind in nameless for p in list(found.signature.parameters.values())[found.takes_call :]):
        raise _invalid(found.name, "it takes arguments by place alone, which have no names in a record")


def _paths(found: Tool, said: Said | None, expects: Body | None) -> Paths | None:
    """What it says of the paths it changes; the call itself is no argument."""
    if said is None:
        if expects is not None:
            raise _invalid(found.name, "it says how it leaves its paths (expects), and not which they are (paths)")
        return None
    if found.capability.free:
        raise _invalid(found.name, "it changes nothing (effect none), so it has no paths to keep")
    try:
        return Paths(said, expects, list(found.signature.parameters.values())[found.takes_call :])
    except UsageError as fault:
        raise _invalid(found.name, fault.message) from None


def _check_key(found: Tool) -> None:
    """A business key stands for a change of the world, and is made by a plain function."""
    if found.on_held not in ("error", "answer"):
        raise _invalid(found.name, f"on_held is {found.on_held!r}, which is neither error nor answer")
    if found.key is None:
        if found.on_held != "error":
            raise _invalid(found.name, "on_held says what happens to a business key, and it has none")
        return
    if not callable(found.key) or is_async(found.key):
        raise _invalid(found.name, "its key is no plain function of the arguments")
    if found.capability.free:
        raise _invalid(found.name, "it changes nothing (effect none), so it may run any number of times")


def _invalid(name: str, why: str) -> UsageError:
    return UsageError(
        f"tool {name!r} cannot be declared: {why}",
        code="invalid_tool",
        next="Correct the declaration; see the README's part on tools.",
        tool=name,
    )


__all__ = ["Agent", "Call", "Failed", "Tool", "Verdict", "agent", "as_agent", "as_tool", "tool"]
