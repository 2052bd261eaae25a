"""Lifecycle extensions as their authors declare them, and which of them a home may load. Runs no handler."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import Any, Final

from clew.core.extensions import AFTER_TOOL, BEFORE_MODEL, BEFORE_TOOL, RUN_FINISHED, is_name, is_version
from clew.errors import Refused, UsageError

Handler = Callable[[Mapping[str, Any]], Any]

TIMEOUT_S: Final = 1.0
CREDENTIALS: Final = "credentials"
"""The capability that clew itself acts on: to be given what a run hides from its records."""


class Extension:
    """Somebody's own code at four moments of a run: it looks on, and before a tool it may deny. It can allow nothing.

    A handler is a plain or an async function of one argument, a frozen JSON object that says what is about to happen or
    has happened. What `before_tool` returns is None, or a text: then the call is denied for that reason. A
    `before_tool` that raises, takes too long or returns anything else denies as well; of the others nothing that they
    return or raise reaches the run.

    Args:
        id: At most 128 ASCII letters, digits, `.`, `_` and `-`; extensions are asked in the order of their ids.
        version: Stands in every receipt.
        capabilities: What it asks for, by name; a home loads it only where all of them are granted. clew acts on
            `credentials`: what the extension is given is not redacted. Other names are the author's.
        before_model: Before a turn is begun.
        before_tool: Before a tool starts, behind the policy. Not for a call that is replayed.
        after_tool: When a tool has ended, and what is known of it is durable.
        run_finished: When a run is completed or failed.
        timeout_s: How long each handler may take, in seconds. An async one is cancelled then; a plain one is left
            behind in its thread.

    Raises:
        UsageError: `extension_invalid`.

    Source:
        DESIGN §6; contract #241 to #244.
    """

    def __init__(
        self, id: str, version: str, *, capabilities: Collection[str] = (), before_model: Handler | None = None,
        before_tool: Handler | None = None, after_tool: Handler | None = None, run_finished: Handler | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:  # fmt: skip
        self.id = id
        self.version = version
        self.timeout_s = timeout_s
        given = {
            BEFORE_MODEL: before_model, BEFORE_TOOL: before_tool, AFTER_TOOL: after_tool, RUN_FINISHED: run_finished
        }  # fmt: skip
        self.handlers = {moment: handler for moment, handler in given.items() if handler is not None}
        _check(self, capabilities)
        self.capabilities = frozenset(capabilities)

    def __repr__(self) -> str:
        return f"<Extension {self.id} {self.version} {', '.join(self.handlers)}>"


def load(extensions: Sequence[Extension], trusted: Mapping[str, Collection[str]] | None) -> tuple[Extension, ...]:
    """The extensions that a home may load, in the order of their ids.

    Args:
        extensions: What was given.
        trusted: The trust list: to each id the capabilities that are granted to it.

    Raises:
        Refused: `extension_not_trusted`, `extension_capability_denied`.
        UsageError: `extension_invalid`, `extension_duplicate`.

    Source:
        Contract #241.
    """
    listed = _trust_list({} if trusted is None else trusted)
    found: dict[str, Extension] = {}
    for extension in extensions:
        if not isinstance(extension, Extension):
            raise _invalid(repr(extension), "it is no clew.Extension")
        if extension.id in found:
            raise UsageError(
                f"two extensions are called {extension.id!r}",
                code="extension_duplicate",
                next="Give each of them an id of its own.",
                extension=extension.id,
            )
        found[extension.id] = extension
        _check_trusted(extension, listed)
    return tuple(found[name] for name in sorted(found))


def _trust_list(trusted: Any) -> dict[str, frozenset[str]]:
    if not isinstance(trusted, Mapping) or not all(map(_are_names, trusted.values())):
        raise _invalid("the trust list", "it maps each id to the capabilities granted, as {'id': ['credentials']}")
    return {name: frozenset(granted) for name, granted in trusted.items()}


def _check_trusted(extension: Extension, listed: Mapping[str, frozenset[str]]) -> None:
    granted = listed.get(extension.id)
    if granted is None:
        raise Refused(
            f"extension {extension.id!r} is not in the home's trust list",
            code="extension_not_trusted",
            next="Add its id, and what it may do, to trusted= of the home; or leave it out of extensions=.",
            extension=extension.id,
        )
    missing = sorted(extension.capabilities - granted)
    if missing:
        raise Refused(
            f"extension {extension.id!r} asks for {', '.join(missing)}, which the trust list does not grant",
            code="extension_capability_denied",
            next="Grant it in trusted= of the home if the extension may have that; or leave the extension out.",
            extension=extension.id,
            missing=missing,
        )


def _check(extension: Extension, capabilities: Any) -> None:
    shown, timeout_s = f"extension {extension.id!r}", extension.timeout_s
    if not is_name(extension.id):
        raise _invalid(shown, "an id is at most 128 ASCII letters, digits, '.', '_' and '-'")
    if not is_version(extension.version):
        raise _invalid(shown, "a version is a text of at most 64 printable ASCII characters without a space")
    if not _are_names(capabilities):
        raise _invalid(shown, "its capabilities are a list of names")
    if not extension.handlers:
        raise _invalid(shown, "it has no handler")
    if type(timeout_s) not in (int, float) or not 0 < timeout_s < inf:
        raise _invalid(shown, "its timeout_s is no number of seconds above zero")
    for moment, handler in extension.handlers.items():
        if not callable(handler) or inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
            raise _invalid(shown, f"its handler for {moment} is neither a plain nor an async function")


def _are_names(given: Any) -> bool:
    """Is it a collection of names? One text alone would be read letter by letter."""
    return isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping) and all(map(is_name, given))


def _invalid(shown: str, why: str) -> UsageError:
    return UsageError(
        f"{shown} cannot be loaded: {why}",
        code="extension_invalid",
        next="Correct its declaration; see docs/extensions.md.",
        extension=shown,
    )
