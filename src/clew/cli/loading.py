"""From `FILE:AGENT` to the agent: the only place that runs the user's file."""

import contextlib
import importlib.util
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from clew.errors import ClewError, UsageError
from clew.runtime.finding import absolute
from clew.runtime.loading import being_loaded
from clew.runtime.tools import Agent, as_agent


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """An agent's file and what it brings along from its own folder are forgotten afterwards, as when a process ends.

    Two agents of different folders may each have a module of the same name; the second must not get the first one's.
    """
    paths, modules = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        added = [Path(path) for path in Counter(sys.path) - Counter(paths)]
        sys.path[:] = paths
        for name in set(sys.modules) - modules:
            if _lies_below(sys.modules[name], added):
                del sys.modules[name]


def _lies_below(module: ModuleType, folders: list[Path]) -> bool:
    """Is it a module of one of these folders itself? What is installed there (a `.venv`) stays: it is loaded once."""
    try:
        places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
        found = [Path(place) for place in places if place]
    except Exception:  # noqa: BLE001  # a library may put anything in the place of a module; that is not ours to judge
        return False
    return any("site-packages" not in path.parts and path.is_relative_to(each) for path in found for each in folders)


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
            next=f"Write FILE:AGENT, as in {_for_instance(target.rstrip(':'))}.",
        )
    path = absolute(file)
    if not path.is_file():
        raise _not_found(f"there is no file {str(path)!r}", "Name a Python file.")
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
        with being_loaded(str(path)):
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    # Whatever a user's file raises, its own BaseException included, is the file's fault and not clew's.
    except BaseException as fault:
        sys.modules.pop(name, None)
        raise UsageError(
            f"{str(path)!r} cannot be loaded{_line(fault, path)}: {type(fault).__name__}: {_words(fault)}",
            code="agent_not_loadable",
            next=fault.next
            if isinstance(fault, ClewError)
            else f"Install it for {sys.executable}, which clew runs in, or mend the file."
            if isinstance(fault, ModuleNotFoundError)
            else "Mend the file; -vv shows where it stumbled.",
        ) from fault
    return module


def _line(fault: BaseException, path: Path) -> str:
    """The last line of this file that was at work, where it got so far."""
    walked = [frame.lineno for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == str(path)]
    return f" (line {walked[-1]})" if walked else ""


def _words(fault: BaseException) -> str:
    try:
        return str(fault)
    except Exception:  # noqa: BLE001  # the user's own exception must not hide behind another one
        return "it cannot say why"


def _declared(module: ModuleType, found: Any) -> Agent:
    """A function by its own name, where its declaration has another: `settler = clew.agent(…)(settle)`."""
    declared = [each for each in vars(module).values() if isinstance(each, Agent) and each.body is found]
    return declared[0] if len(declared) == 1 else as_agent(found)


def _for_instance(file: str) -> str:
    """The first agent of a file that was named without one."""
    if not file.endswith(".py") or not Path(file).is_file():
        return "examples/orders/agent.py:settle"
    return f"{file}:{next(iter(_offered(_load(Path(file).resolve()))), 'NAME')}"


def _offered(module: ModuleType) -> list[str]:
    return [name for name, each in vars(module).items() if isinstance(each, Agent)]


def _not_found(message: str, following: str) -> UsageError:
    return UsageError(message, code="agent_not_found", next=following)
