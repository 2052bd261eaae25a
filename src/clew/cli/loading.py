"""From `FILE:AGENT` to the agent: the only place that runs the user's file."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from clew.errors import UsageError
from clew.runtime.tools import Agent, as_agent


def load_agent(target: str) -> Agent:
    """The agent that `FILE:AGENT` names: a `@clew.agent`, or a function that is called `agent(run, input)`.

    The file's folder stands first on the import path, as if the file had been started itself.

    Raises:
        UsageError: `invalid_agent_path`, `agent_not_found`, `agent_not_loadable`.
    """
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise UsageError(
            f"{target!r} names no agent",
            code="invalid_agent_path",
            next="Write FILE:AGENT, as in examples/orders/agent.py:settle.",
        )
    path = Path(file)
    if not path.is_file():
        raise _not_found(f"there is no file {str(path.absolute())!r}", "Name a Python file.")
    module = _load(path.resolve())
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise _not_found(f"{file!r} has no agent {name!r}", f"It has: {', '.join(_offered(module)) or 'none'}.")
    return _declared(module, found)


def load_recorded(recorded: str, base: Path, run_id: str) -> Agent:
    """The agent of a run, from where the run recorded it.

    Raises:
        UsageError: as `load_agent` and `recorded_agent`; when it is not there any more, `--agent` is the way.
    """
    try:
        return load_agent(recorded_agent(recorded, base, run_id))
    except UsageError as fault:
        if fault.code != "agent_not_found":
            raise
        raise _not_found(
            fault.message, f"Say where it is now: `clew resume {run_id} --agent FILE:AGENT`. {fault.next}"
        ) from None


def recorded_agent(recorded: str, base: Path, run_id: str) -> str:
    """Where a run's agent is, as it was recorded, below the home's parent.

    Raises:
        UsageError: `agent_not_recorded` when the run has none there; `--agent` must say it then.
    """
    file, _, name = recorded.rpartition(":")
    path = (base / file).resolve()
    if not file or "<" in name or Path(file).is_absolute() or not path.is_relative_to(base.resolve()):
        raise UsageError(
            f"run {run_id!r} recorded {recorded!r} as its agent, which is not a file below {str(base)!r}",
            code="agent_not_recorded",
            next=f"Say where it is: `clew resume {run_id} --agent FILE:AGENT`.",
            run=run_id,
        )
    return f"{path}:{name}"


def _load(path: Path) -> ModuleType:
    # A file called like a module that is there already must not take its place.
    name = path.stem if path.stem not in sys.modules else f"clew_agent_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise _not_found(f"{str(path)!r} is no Python file", "Name a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as fault:
        del sys.modules[name]
        raise UsageError(
            f"{str(path)!r} cannot be loaded: {type(fault).__name__}: {fault}",
            code="agent_not_loadable",
            next="Mend the file; -vv shows where it stumbled. Nothing was started.",
        ) from fault
    return module


def _declared(module: ModuleType, found: Any) -> Agent:
    """A function by its own name, where its declaration has another: `settler = clew.agent(…)(settle)`."""
    declared = [each for each in vars(module).values() if isinstance(each, Agent) and each.body is found]
    return declared[0] if len(declared) == 1 else as_agent(found)


def _offered(module: ModuleType) -> list[str]:
    return [name for name, each in vars(module).items() if isinstance(each, Agent)]


def _not_found(message: str, following: str) -> UsageError:
    return UsageError(message, code="agent_not_found", next=following)
