"""What is JSON: Python values in, builtins that a journal can keep out, and back. Not how they are written."""

import base64
import dataclasses
import datetime
import enum
import inspect
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Final, NoReturn
from uuid import UUID

import msgspec

from clew.core.canon import Json, canonical, joined
from clew.errors import UsageError

MARK: Final = "$clew"
"""The key of an object that clew put where a value could not be kept, as in `{"$clew": "repr", "text": …}`."""

_DEPTH: Final = 200
_DIGITS: Final = 4300
_TOO_LARGE: Final = 10**_DIGITS
_SHORT: Final = 1 << 63
_TEXT_LENGTH: Final = 500
_STRINGS: Final = frozenset({str})
_NO_FORM: Final = object()
_NO_RULE: Final = "is a type without a rule for JSON"

_Refuse = Callable[[object, str], Json]


def to_json(value: object, *, at: str = "$") -> Json:
    """Copy a value into builtins that survive storage, or refuse it with the path of what does not.

    Kept as they are: None, bool, int of up to 4300 digits, finite float, str (lone surrogates too, a pair becomes
    the character that it means). Lists and tuples become lists; dicts need str keys. Objects take msgspec's form:
    dataclass and Struct an object of their fields (defaults written out, UNSET left out), Enum its value,
    set and frozenset a list in canonical order, datetime, date, time and timedelta ISO 8601, bytes, bytearray and
    memoryview base64, Decimal and UUID their text. A path is its text; what has `model_dump` is what that returns.
    A subclass counts as its base.

    Args:
        value: Anything.
        at: What the path in an error begins with.

    Returns:
        A private copy: no list or dict of it belongs to the caller.

    Raises:
        UsageError: `value_not_json` for anything else, NaN, Infinity, a cycle, and more than 200 levels;
            `facts` has `path`, `found` (the type) and `why`.

    Source:
        DESIGN §4, §5 stage 1; reference/journal.md §3.
    """
    try:
        plain = _flat(value)
        return _node(value, _Walk(_raise)) if plain is None else plain
    except _Refused as refused:
        raise _not_json(at + "".join(reversed(refused.steps)), refused.found, refused.why) from None
    except RuntimeError as error:
        # A dict that its own members change, or a stack that is already nearly full.
        raise _not_json(at, type(value).__name__, f"could not be read to its end: {error}") from error


def record_result(value: object) -> Json:
    """Copy what a tool returned into builtins, whatever it is: the effect has happened and its answer must be kept.

    What `to_json` refuses becomes `{"$clew": "repr", "text": …}` where it stands, with up to 500 characters of its
    repr. Nothing is raised, not even when the value's own methods raise.

    Source:
        DESIGN §5, answers; journal.md §1.
    """
    try:
        plain = _flat(value)
        return _node(value, _Walk(_mark)) if plain is None else plain
    except Exception:  # noqa: BLE001  # whatever goes wrong, the effect has happened and its answer must be kept
        return _mark(value, "")


def restore(value: Json, annotation: Any) -> Any:
    """Turn a stored answer back into the type that the tool's return annotation names.

    Strict: a text becomes a date, bytes or a number's type only where the annotation says so, never by guess.
    The value comes back as it is when there is no annotation or Any, when msgspec has no rule for the annotation
    (`datetime | str`, classes it does not know), and when anything in it is a marker of what could not be kept.

    Args:
        value: Builtins, as decoded from the record.
        annotation: The resolved return annotation, or `inspect.Signature.empty`.

    Raises:
        UsageError: `result_mismatch` when the value is not of that type; `facts` has `expected` and `why`.

    Source:
        DESIGN §5, answers.
    """
    if annotation is Any or annotation is type(value) or annotation is inspect.Signature.empty or _has_mark(value):
        # Of the very type: a plain `dict` or `str` says nothing of what is inside.
        return value
    try:
        return msgspec.convert(value, annotation, dec_hook=_rebuild)
    except (_UnknownClass, TypeError):
        return value
    except Exception as error:
        expected = inspect.formatannotation(annotation)
        raise UsageError(
            f"the recorded answer is not a {expected}: {error}",
            code="result_mismatch",
            next="Correct the return annotation of the tool so that it says what the tool returns.",
            expected=expected,
            why=str(error),
        ) from error


def _not_json(path: str, found: str, why: str) -> UsageError:
    return UsageError(
        f"the value at {path} cannot be kept as JSON: {found} {why}",
        code="value_not_json",
        next="Pass a plain JSON value there, a dataclass, or a text that says the same.",
        path=path,
        found=found,
        why=why,
    )


class _UnknownClass(Exception):
    """The annotation names a class for which there is no way back."""


def _rebuild(kind: Any, value: Json) -> Any:
    """msgspec asks for every type that it does not know itself."""
    if not isinstance(kind, type):
        raise _UnknownClass
    if issubclass(kind, PurePath):
        return kind(value)
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise _UnknownClass
    return validate(value)


def _has_mark(value: Json) -> bool:
    if type(value) is dict:
        return MARK in value or any(map(_has_mark, value.values()))
    return type(value) is list and any(map(_has_mark, value))


class _Refused(Exception):
    """Carries a refusal outwards; each container on the way adds the step that leads to it."""

    def __init__(self, found: str, why: str) -> None:
        self.found = found
        self.why = why
        self.steps: list[str] = []


class _Walk:
    """One copy under way: what to do with a value that is not JSON, and the containers it is inside of."""

    __slots__ = ("inside", "refuse")

    def __init__(self, refuse: _Refuse) -> None:
        self.refuse = refuse
        self.inside: set[int] = set()

    def enter(self, container: object) -> str:
        """Go one level down, or say why not."""
        if id(container) in self.inside:
            return "contains itself"
        if len(self.inside) >= _DEPTH:
            return f"is nested deeper than {_DEPTH} levels"
        self.inside.add(id(container))
        return ""

    def leave(self, container: object) -> None:
        self.inside.discard(id(container))


def _raise(value: object, why: str) -> NoReturn:
    raise _Refused(type(value).__name__, why)


def _mark(value: object, _why: str) -> Json:
    """What stands in a record for a value that cannot."""
    try:
        text = joined(repr(value)[:_TEXT_LENGTH])
    except Exception as error:  # noqa: BLE001  # the value's own code
        text = f"<{type(value).__name__} whose repr() raised {type(error).__name__}>"
    return {MARK: "repr", "text": text}


def _flat(value: object) -> dict[str, Json] | None:
    """A copy of what most calls are given and return, a dict of scalars that are JSON as they are; None: walk it."""
    if type(value) is not dict:
        return None
    plain = value.copy()
    for key, item in plain.items():
        kind = type(item)
        if kind is str:
            if not item.isascii():
                return None
        elif kind is int:
            if not -_SHORT < item < _SHORT:
                return None
        elif kind is not bool and item is not None:
            return None
        if type(key) is not str or not key.isascii():
            return None
    return plain


def _node(value: object, walk: _Walk) -> Json:
    return _RULES.get(type(value), _object)(value, walk)


def _same(value: Json, _walk: _Walk) -> Json:
    return value


def _str(value: str, _walk: _Walk) -> Json:
    return value if value.isascii() else joined(value)


def _int(value: int, walk: _Walk) -> Json:
    if -_TOO_LARGE < value < _TOO_LARGE:
        return value
    return walk.refuse(value, f"has more than {_DIGITS} digits")


def _float(value: float, walk: _Walk) -> Json:
    return value if math.isfinite(value) else walk.refuse(value, f"is {value!r}, which JSON does not have")


def _list(value: Iterable[object], walk: _Walk) -> Json:
    if why := walk.enter(value):
        return walk.refuse(value, why)
    out: list[Json] = []
    keep = out.append
    rule_of = _RULES.get
    try:
        for item in value:
            keep(rule_of(type(item), _object)(item, walk))
    except _Refused as refused:
        refused.steps.append(f"[{len(out)}]")
        raise
    walk.leave(value)
    return out


def _dict(value: dict[Any, object], walk: _Walk) -> Json:
    if not _STRINGS.issuperset(map(type, value)):
        return _odd_keys(value, walk)
    if why := walk.enter(value):
        return walk.refuse(value, why)
    out: dict[str, Json] = {}
    rule_of = _RULES.get
    key = ""
    try:
        for key, item in value.items():
            out[key if key.isascii() else joined(key)] = rule_of(type(item), _object)(item, walk)
    except _Refused as refused:
        refused.steps.append(_step(key))
        raise
    walk.leave(value)
    if len(out) != len(value):
        return walk.refuse(value, "has two keys that are one text in JSON")
    return out


def _odd_keys(value: dict[Any, object], walk: _Walk) -> Json:
    """Keys of a subclass of str are texts as well; any other key has no one text in JSON."""
    for key in value:
        if not isinstance(key, str):
            return walk.refuse(value, f"has a key of type {type(key).__name__}; keys must be str")
    plain = {str.__str__(key): item for key, item in value.items()}
    if len(plain) != len(value):
        return walk.refuse(value, "has two keys that are one text in JSON")
    return _within(value, plain, walk)


def _step(key: str) -> str:
    return f".{key}" if key.isidentifier() else f"[{key!a}]"


def _object(value: Any, walk: _Walk) -> Json:
    """Any value whose exact type is not one of the builtins of JSON."""
    if issubclass(type(value), (set, frozenset)):
        return _set(value, walk)
    try:
        form = _form(value)
    except Exception as error:  # noqa: BLE001  # the value's own code
        return walk.refuse(value, f"raised {type(error).__name__} when it was read")
    return walk.refuse(value, _NO_RULE) if form is _NO_FORM else _within(value, form, walk)


def _within(value: object, form: object, walk: _Walk) -> Json:
    """Walk the form of a value as a level of its own, so that a value which leads back to itself is found."""
    if why := walk.enter(value):
        return walk.refuse(value, why)
    out = _node(form, walk)
    walk.leave(value)
    return out


def _set(value: set[object] | frozenset[object], walk: _Walk) -> Json:
    """A set has no order, so its members are told apart by their text, not by where they stood."""
    members: Json = _within(value, list(value), walk)
    return sorted(members, key=canonical) if type(members) is list else members


def _form(value: Any) -> object:
    """The value one step nearer to JSON, by the first rule for its type; what it says of its class is not asked."""
    kind = type(value)
    if issubclass(kind, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(kind):
        return _fields(value, ((field.name, field.name) for field in dataclasses.fields(kind)))
    if issubclass(kind, msgspec.Struct):
        return _struct(value)
    for base, rule in _BASES:
        if issubclass(kind, base):
            return rule(value)
    if callable(getattr(kind, "model_dump", None)):
        return value.model_dump(mode="json")
    return _NO_FORM


def _fields(value: object, names: Iterable[tuple[str, str]]) -> dict[str, object]:
    found = ((written, getattr(value, name)) for name, written in names)
    return {written: item for written, item in found if item is not msgspec.UNSET}


def _struct(value: msgspec.Struct) -> object:
    config = value.__struct_config__
    tag: list[tuple[str, object]] = [] if config.tag is None else [(str(config.tag_field), config.tag)]
    if config.array_like:
        return [*(text for _, text in tag), *(getattr(value, name) for name in value.__struct_fields__)]
    fields = _fields(value, zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True))
    return dict(tag) | fields


def _instant(value: datetime.datetime) -> str:
    """ISO 8601 has no seconds in an offset: such an instant is said in UTC instead of being moved."""
    offset = value.utcoffset()
    if offset is not None and offset % datetime.timedelta(minutes=1):
        value = value.astimezone(datetime.UTC)
    return datetime.datetime.isoformat(value).replace("+00:00", "Z")


def _time(value: datetime.time) -> object:
    offset = value.utcoffset()
    return _NO_FORM if offset and offset % datetime.timedelta(minutes=1) else msgspec.to_builtins(value)


_RULES: Final[dict[type, Callable[[Any, _Walk], Json]]] = {
    str: _str,
    int: _int,
    bool: _same,
    type(None): _same,
    float: _float,
    list: _list,
    tuple: _list,
    dict: _dict,
}
_BASES: Final[list[tuple[Any, Callable[[Any], object]]]] = [
    (datetime.datetime, _instant),
    (datetime.date, datetime.date.isoformat),
    (datetime.time, _time),
    (datetime.timedelta, msgspec.to_builtins),
    ((bytes, bytearray, memoryview), lambda value: base64.b64encode(value).decode()),
    ((Decimal, UUID, PurePath), str),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (dict, lambda value: dict(dict.items(value))),
    ((list, tuple), list),
]
