"""Hides secrets before anything is written: by the name of an argument, by known shapes, by configured values.

What a person or a program may see of the rest is decided elsewhere.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from clew.core.canon import Json
from clew.errors import UsageError

_SHORTEST_VALUE: Final = 6
_SHORTEST_SHAPE: Final = 8

_WHOLE_NAMES: Final = """
    password passwd passphrase secret secrets token tokens credential credentials authorization proxy-authorization
    cookie cookies set-cookie api-key x-api-key api-keys api-secret api-token access-key secret-key secret-access-key
    private-key private-token signing-key encryption-key client-secret app-secret webhook-secret access-token
    refresh-token id-token auth-token x-auth-token bearer-token session-token security-token
"""
# These say what they are also at the end of a longer name, as in OPENAI_API_KEY, dbPassword or new_password.
_LAST_WORDS: Final = """
    password passwd passphrase api-key secret-key secret-access-key private-key client-secret api-secret api-token
    access-token refresh-token auth-token bearer-token session-token
"""
_ONE_WORD: Final = {name.replace("-", ""): name for name in _WHOLE_NAMES.split()}
_ENDINGS: Final = frozenset(_LAST_WORDS.split())
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# Providers check these later; one changed byte spoils the conversation.
_OPAQUE: Final = "opaque"
_OPAQUE_NAMES: Final = frozenset({"signature", "thinkingsignature", "thoughtsignature", "encryptedcontent"})

# Values of these types hold no text.
_INERT: Final = frozenset({int, float, bool, type(None)})

_GAP: Final = r"(?:\s|\\[nr])*"


_KindOf = Callable[[str], str | None]
"""The kind of secret that a member of this name holds, or None; `_NOTHING` where the name itself is none either."""

_NOTHING: Final = ""


class _Shape(NamedTuple):
    """A kind of secret that can be recognised. `hints`: one of these texts is in every secret of the kind.

    `common`: what all hints have in common, so that most texts are asked but once.
    """

    kind: str
    common: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _prefix(text: str) -> str:
    r"""A prefix where a word begins, or behind the written-out line end (`\n`) of a text inside a text.

    The literal stands first and looks back, so that the search jumps from one to the next.
    """
    return rf"{text}(?:(?<![A-Za-z0-9_-]{text})|(?<=\\[nrt]{text}))"


def _shape(kind: str, hints: str, pattern: str, *, common: str = "") -> _Shape:
    return _Shape(kind, common or hints, tuple(hints.split()), re.compile(pattern))


# Every pattern is linear: a run of characters is entered at its beginning only, or is bounded. Where a pattern has a
# group, only that is hidden. The order matters: the narrow shape of a prefix stands before the wide one.
_SHAPES: Final = [
    _shape(
        "private-key",
        "-----BEGIN",
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        + _GAP
        + rf"(?:[A-Za-z-]{{3,20}}: [^\r\n\\]{{1,120}}{_GAP}){{0,4}}"
        + rf"[A-Za-z0-9+/=]{{16,}}+(?:{_GAP}[A-Za-z0-9+/=]{{16,}}+)*"
        + rf"(?:{_GAP}[A-Za-z0-9+/=]{{0,80}}{_GAP}-----END [A-Z0-9 ]{{1,60}}-----)?",
    ),
    _shape("anthropic-key", "sk-ant-", _prefix("sk-ant-") + r"[A-Za-z0-9_-]{20,}+"),
    _shape(
        "openai-key",
        "sk-",
        _prefix("sk-")
        + r"(?=[A-Za-z_-]*+[0-9])(?:(?=[a-z0-9_-]*+[A-Z])[A-Za-z0-9_-]{20,}+|(?:[a-z0-9]{1,8}-){0,3}[a-z0-9]{24,}+)",
    ),
    _shape("github-token", "ghp_ gho_ ghs_ ghu_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,}+", common="gh"),
    _shape("github-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,}+"),
    _shape("gitlab-token", "glpat-", r"glpat-[A-Za-z0-9_-]{20,}+"),
    _shape("aws-key", "AKIA", _prefix("AKIA") + r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("aws-key", "ASIA", _prefix("ASIA") + r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape(
        "slack-token",
        "xoxa- xoxb- xoxp- xoxr- xoxs-",
        _prefix("xox") + r"[abprs]-[A-Za-z0-9-]{10,}+",
        common="xox",
    ),
    _shape("google-key", "AIza", _prefix("AIza") + r"[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _shape("stripe-key", "sk_live_ rk_live_", r"[sr]k_live_[A-Za-z0-9]{16,}+", common="k_live_"),
    _shape("jwt", "eyJ", _prefix("eyJ") + r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+"),
    *(
        _shape(
            "bearer",
            hint,
            r"(?<![A-Za-z0-9])(?:[Bb]earer|BEARER)[ \t]{1,8}(?=[A-Za-z._~+/=-]*+[0-9])([A-Za-z0-9._~+/=-]{16,}+)",
        )
        for hint in ("earer", "EARER")
    ),
    _shape("url-password", "://", r"://[^\s/:@?#\"'\[\]]{0,256}:([^\s/@?#\"'\[\]]{1,256}+)@"),
]


@dataclasses.dataclass(frozen=True, slots=True)
class Redactor:
    """What a home hides before it writes; lives as long as the home and may be shared by threads.

    A secret is replaced by a marker that keeps its kind, such as `[redacted:anthropic-key]`. What holds no secret
    comes back as the very same object, so `is` tells that nothing was hidden; the caller's object never changes.
    Redacting twice changes nothing more. Opaque signatures (`signature`, `thinkingSignature`, `thoughtSignature`,
    `encrypted_content`) are never touched.

    Args:
        values: Secrets that the user configured, hidden wherever they stand.

    Raises:
        UsageError: `secret_too_short` when a value has fewer than 6 characters: it would be found in harmless text.

    Source:
        DESIGN §5, answers; contract #238, W49; cases C125, C126.
    """

    values: Iterable[str] = dataclasses.field(default=(), repr=False)
    _configured: re.Pattern[str] | None = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values = tuple(self.values)
        for number, value in enumerate(values, 1):
            if len(value) < _SHORTEST_VALUE:
                raise UsageError(
                    f"secret value {number} of {len(values)} has {len(value)} characters",
                    code="secret_too_short",
                    next=f"Configure secrets of at least {_SHORTEST_VALUE} characters; shorter ones hide too much.",
                    number=number,
                )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_configured", _any_of(values))

    def arguments(self, value: Json) -> Json:
        """Hide secrets in the arguments of a call: by the name of a member, by shape, and configured values.

        A name counts as a whole (`token`, `x-api-key`), or by its last words where these leave no doubt
        (`OPENAI_API_KEY`, `dbPassword`); `maxTokens` and `nextPageToken` are no secrets (contract W49).
        What a secret name holds is hidden whole, except null, booleans and empty values.
        """
        return self._node(value, _kind_by_argument)

    def answer(self, value: Json) -> Json:
        """Hide secrets in what a tool returned: by shape, and configured values; never by the name of a member.

        The agent gets what the tool returned, the same live and replayed, unless it is a recognisable secret.
        """
        return self._node(value, _kind_by_member)

    def text(self, text: str) -> str:
        """Hide secrets in free text: by shape, and configured values."""
        if self._configured is not None:
            text = _replaced(text, self._configured, _configured_marker)
        return _by_shape(text)

    def _node(self, value: Json, kind_of: _KindOf) -> Json:
        kind = type(value)
        if kind is dict:
            return self._dict(value, kind_of)
        if kind is str:
            return self.text(value)
        if kind is list:
            items = [self._node(item, kind_of) for item in value]
            return value if _all_same(value, items) else items
        return value

    def _dict(self, value: dict[str, Json], kind_of: _KindOf) -> Json:
        hidden: dict[str, tuple[str, Json]] = {}
        shapes_alone = self._configured is None
        for key, item in value.items():
            kind, form = kind_of(key), type(item)
            harmless = form in _INERT or (form is str and len(item) < _SHORTEST_SHAPE)
            if harmless and kind == _NOTHING and shapes_alone:
                continue
            new, name = self._member(kind, item, kind_of), self.text(key)
            if new is not item or name is not key:
                hidden[key] = name, new
        if not hidden:
            return value
        members = [hidden.get(key, (key, item)) for key, item in value.items()]
        return dict(zip(_told_apart([name for name, _ in members]), [item for _, item in members], strict=True))

    def _member(self, kind: str | None, item: Json, kind_of: _KindOf) -> Json:
        if not kind or (kind == _OPAQUE and type(item) is not str):
            return self._node(item, kind_of)
        marker = f"[redacted:{kind}]"
        keep = kind == _OPAQUE or item is None or type(item) is bool or item in ("", [], {}, marker)
        return item if keep else marker


def _all_same(old: Iterable[Any], new: Iterable[Any]) -> bool:
    return all(a is b for a, b in zip(old, new, strict=True))


def _told_apart(keys: list[str]) -> list[str]:
    """Keys that were secrets may have become equal; none of their values may be lost for that."""
    seen: dict[str, int] = {}
    for place, key in enumerate(keys):
        seen[key] = count = seen.get(key, 0) + 1
        if count > 1:
            keys[place] = f"{key}#{count}"
    return keys


def _by_shape(text: str) -> str:
    """The text without secrets that can be recognised; the same object where there are none."""
    if len(text) < _SHORTEST_SHAPE:
        return text
    for kind, common, hints, pattern in _SHAPES:
        if common in text and any(hint in text for hint in hints):
            text = _replaced(text, pattern, functools.partial(_marker, kind))
    return text


def _replaced(text: str, pattern: re.Pattern[str], marker: Callable[[re.Match[str]], str]) -> str:
    """The text with every match replaced; the same object when nothing changed."""
    new = pattern.sub(marker, text)
    return text if new == text else new


def _marker(kind: str, found: re.Match[str]) -> str:
    """The marker in place of the secret; the rest of the match stays as it was."""
    whole, start = found[0], found.start()
    begin, end = found.span(found.re.groups)
    return f"{whole[: begin - start]}[redacted:{kind}]{whole[end - start :]}"


def _any_of(values: tuple[str, ...]) -> re.Pattern[str] | None:
    """Matches a marker, which is kept, or any of the values, the longest first."""
    if not values:
        return None
    longest_first = sorted(set(values), key=lambda value: (-len(value), value))
    return re.compile("|".join([r"\[redacted:[a-z-]+\]", *map(re.escape, longest_first)]))


def _configured_marker(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("[redacted:") else "[redacted:configured]"


@functools.lru_cache(maxsize=4096)
def _kind_by_argument(key: str) -> str | None:
    return _argument_kind(key) or _of_no_kind(key)


@functools.lru_cache(maxsize=4096)
def _kind_by_member(key: str) -> str | None:
    return _OPAQUE if _squeezed(key) in _OPAQUE_NAMES else _of_no_kind(key)


def _of_no_kind(key: str) -> str | None:
    return _NOTHING if _by_shape(key) is key else None


def _argument_kind(key: str) -> str | None:
    """The kind of secret that an argument of this name holds, or None."""
    squeezed = _squeezed(key)
    if squeezed in _OPAQUE_NAMES:
        return _OPAQUE
    if squeezed in _ONE_WORD:
        return _ONE_WORD[squeezed]
    words = [word.lower() for word in _WORD.findall(key)]
    endings = ("-".join(words[-count:]) for count in (3, 2, 1))
    return next((ending for ending in endings if ending in _ENDINGS), None)


def _squeezed(key: str) -> str:
    """A name without case and separators: `X-Api-Key`, `x_api_key` and `xApiKey` are one."""
    return re.sub(r"[\s_.-]+", "", key).lower()
