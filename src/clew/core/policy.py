"""A policy by rules: what may start at once, what a person is asked about, what is refused. Values in, a word out."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, Literal, get_args

import msgspec

from clew.core.capability import Capability
from clew.errors import UsageError

Mode = Literal["full", "assisted", "ask"]
Word = Literal["allow", "ask", "deny"]
Resolve = Callable[[str], "str | None"]
"""Where a path leads, relative to the workspace; None when it leads out of it."""

PATHS: Final = frozenset(
    {"path", "paths", "file", "files", "filename", "folder", "directory", "source", "target", "destination", "root"}
)
"""Arguments of workspace tools that are taken for paths."""


class Ask(msgspec.Struct, frozen=True):
    """Returned by a policy: a person is to be asked, for this reason; the question may lapse (seconds)."""

    reason: str = ""
    expires_in_s: float | None = None


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """What holds for some calls: of tools whose name matches, and with paths only where those match.

    Attributes:
        then: `allow`, `ask` or `deny`.
        tool: A name, or a pattern with `*` and `?`.
        paths: Patterns below the workspace: `*` stays within a name, `**` is any number of folders. An allowing rule
            holds when all paths of a call match, another one when any does, or leads out of the workspace.
        arguments: Which arguments are paths; the usual names of workspace tools' when left out.
        reason: Told to whoever is asked, or to the agent that is refused.
    """

    then: Word
    tool: str = "*"
    paths: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    reason: str = ""


class Policy:
    """What an agent may start: rules, of which the first that matches holds, then a mode.

    Args:
        mode: `full` allows; `assisted` asks about what may change the world outside of the workspace; `ask` asks about
            everything but what changes nothing and may be repeated.
        rules: Looked through in this order.
        expires_in_s: How long a question stands, in seconds; for ever when left out.

    Raises:
        UsageError: `invalid_policy` for a word that is none of these.

    Source:
        DESIGN §5, stage 2.
    """

    def __init__(self, mode: Mode = "full", rules: Sequence[Rule] = (), *, expires_in_s: float | None = None) -> None:
        self.mode: Mode = mode
        self.rules = tuple(rules)
        self.expires_in_s = expires_in_s
        if mode not in get_args(Mode):
            raise _invalid(f"the mode is {mode!r}", "Say full, assisted or ask.")
        for rule in self.rules:
            if not isinstance(rule, Rule) or rule.then not in get_args(Word):
                raise _invalid(f"{rule!r} is no rule", "Say clew.Rule('allow', 'ask' or 'deny', 'TOOL').")
            if not all(isinstance(names, tuple | list) for names in (rule.paths, rule.arguments)):
                raise _invalid(f"the paths or arguments of {rule!r} are no list", "Give them as a tuple of texts.")
        if expires_in_s is not None and expires_in_s <= 0:
            raise _invalid(
                f"a question would lapse after {expires_in_s} s", "Give more than no seconds, or leave it out."
            )

    def declared(self) -> dict[str, Any]:
        """What it says, as JSON: part of the configuration's fingerprint."""
        return {"mode": self.mode, "rules": msgspec.json.decode(msgspec.json.encode(self.rules))}

    def judge(
        self, tool: str, capability: Capability, arguments: Mapping[str, Any], resolve: Resolve
    ) -> Ask | str | None:
        """None: it may start. An `Ask`: a person is asked. A text: it is refused, and this is why."""
        for rule in self.rules:
            if fnmatchcase(tool, rule.tool) and _matches(rule, capability, arguments, resolve):
                return self._said(rule.then, rule.reason)
        asks = self.mode != "full" and not (
            capability.free if self.mode == "ask" else capability.effect in ("none", "workspace")
        )
        return self._said("ask", "") if asks else None

    def _said(self, word: Word, why: str) -> Ask | str | None:
        if word == "allow":
            return None
        return Ask(why, self.expires_in_s) if word == "ask" else why or "a rule denies it"


def _matches(rule: Rule, capability: Capability, arguments: Mapping[str, Any], resolve: Resolve) -> bool:
    if not rule.paths:
        return True
    named = rule.arguments or (PATHS if capability.effect == "workspace" else ())
    found = [resolve(text) for text in path_texts(arguments, named)]
    inside = [path is not None and any(_pattern(each).fullmatch(path) for each in rule.paths) for path in found]
    if rule.then == "allow":
        return bool(found) and all(inside)
    return any(inside) or None in found


def path_texts(arguments: Mapping[str, Any], named: Iterable[str]) -> Iterator[str]:
    """The texts of these arguments: one, or each of a list."""
    for name in (name for name in arguments if name in named):
        given = arguments[name]
        yield from (text for text in (given if isinstance(given, list) else [given]) if isinstance(text, str))


def url_texts(arguments: Mapping[str, Any]) -> list[str]:
    """The arguments that are addresses of the web."""
    given = (value for value in arguments.values() if isinstance(value, str))
    return [text for text in given if text.startswith(("http://", "https://"))]


def strictest(words: Iterable[Ask | str | None]) -> Ask | str | None:
    """Of what several policies say: a refusal outweighs a question, a question a yes; the first of its kind is told.

    A question that several ask lapses when the first of them would.
    """
    asked: Ask | None = None
    for word in words:
        if isinstance(word, str):
            return word
        if word is not None:
            asked = word if asked is None else Ask(asked.reason or word.reason, _sooner(asked, word))
    return asked


def _sooner(first: Ask, second: Ask) -> float | None:
    given = [ask.expires_in_s for ask in (first, second) if ask.expires_in_s is not None]
    return min(given, default=None)


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*\*/?|\*|\?)", text)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(known.get(piece) or re.escape(piece) for piece in pieces), re.DOTALL)


def _invalid(why: str, next_step: str) -> UsageError:
    return UsageError(f"the policy cannot be declared: {why}", code="invalid_policy", next=next_step)
