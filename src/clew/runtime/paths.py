"""What a tool says of the paths it changes: which, and how it will leave them. No file is looked at here."""

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from clew.core.checkpoint import PathState
from clew.errors import UsageError

Function = Callable[..., Any]


class Everywhere(enum.Enum):
    """A tool cannot say which paths it changes: they may be anywhere in the workspace."""

    WORKSPACE = "workspace"

    def __repr__(self) -> str:
        return "clew.WORKSPACE"


WORKSPACE: Final = Everywhere.WORKSPACE

Said = Sequence[str] | Function | Everywhere


class Expected(msgspec.Struct, frozen=True):
    """How a call will leave its paths, and what it will return then.

    Attributes:
        paths: By path as it was declared: bytes or text (UTF-8) of a file, None where nothing will be, or the state of
            another path as it stood before. What is left out stays as it is.
        result: What the tool will return; leave it out when it cannot be known before.
    """

    paths: Mapping[str, bytes | str | PathState | None]
    result: Any = msgspec.UNSET


class Paths:
    """Which paths a tool changes, and how it will leave them, as it declared it.

    Args:
        said: Names of arguments, each a path or a list of paths; a function of the arguments by name that gives the
            paths; or `WORKSPACE`.
        expects: A function of how the paths stand and of the arguments by name, which gives an `Expected` or its
            paths; None when the tool does not say.
        named: The arguments that the tool takes, by name.

    Raises:
        UsageError: `invalid_paths` when these contradict each other; the message says how.
    """

    def __init__(self, said: Said, expects: Function | None, named: Sequence[inspect.Parameter]) -> None:
        self.said = said
        self.expects = expects
        self._defaults = {one.name: one.default for one in named if one.default is not one.empty}
        wrong = _wrong(said, expects, {one.name for one in named})
        if wrong:
            raise _invalid(wrong)

    @property
    def everywhere(self) -> bool:
        """Is it the whole workspace?"""
        return self.said is WORKSPACE

    def of(self, arguments: Mapping[str, Any]) -> list[str]:
        """The paths of one call.

        Raises:
            UsageError: `invalid_paths` when an argument or the function gives no path.
        """
        whole = self.whole(arguments)
        given: list[Any] = []
        if callable(self.said):
            given = _listed(self.said(**whole), "its function")
        else:
            assert not isinstance(self.said, Everywhere)
            for name in self.said:
                given += _listed(whole.get(name), f"argument {name!r}")
        if not given:
            raise _invalid("it names no path")
        return given

    def whole(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name, those that were left out at their defaults."""
        return {**self._defaults, **arguments}


def _listed(value: Any, where: str) -> list[str]:
    """One path, or several; an argument that is None names none."""
    if value is None:
        return []
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(path, str) for path in found):
        raise _invalid(f"{where} gives no path: {value!r:.100}")
    return [*found]


def _wrong(said: Said, expects: Function | None, named: set[str]) -> str:
    if isinstance(said, str) or not (callable(said) or said is WORKSPACE or isinstance(said, list | tuple)):
        return "paths is a tuple of names of arguments, a function of the arguments, or clew.WORKSPACE"
    if expects is not None and said is WORKSPACE:
        return "expects needs paths that are declared one by one"
    functions = [function for function in (said, expects) if callable(function)]
    if any(inspect.iscoroutinefunction(function) for function in functions) or (expects and not callable(expects)):
        return "paths and expects are plain functions"
    if isinstance(said, list | tuple):
        strangers = [name for name in said if name not in named]
        if strangers or not said:
            return f"paths names {strangers[0]!r}, which is no argument of it" if strangers else "paths is empty"
    return ""


def _invalid(why: str) -> UsageError:
    return UsageError(why, code="invalid_paths", next="Name the paths that the call changes; see docs/checkpoints.md.")
