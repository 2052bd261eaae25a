"""What is JSON, and how it comes back."""

import collections
import dataclasses
import datetime as dt
import enum
import inspect
import json
import math
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.canon import canonical
from clew.core.jsonable import record_result, restore, to_json
from clew.errors import UsageError
from tests.strategies import json_values, scalars, texts


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2


class Word(str):
    """A text with a name of its own."""

    __slots__ = ()


class Twin(str):
    """A text that equals no other."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Order:
    number: int
    when: dt.datetime
    lines: list[Decimal] = dataclasses.field(default_factory=list)
    note: str | msgspec.UnsetType = msgspec.UNSET


@dataclasses.dataclass
class Note:
    text: str


class Paid(msgspec.Struct, tag="paid", rename="camel"):
    order_number: int
    colours: set[Colour] = set()
    note: str | msgspec.UnsetType = msgspec.UNSET


class Row(msgspec.Struct, array_like=True, tag=True):
    a: int
    b: str


class Bare(msgspec.Struct):
    a: int


class Model:
    """Looks like a Pydantic model, without the library."""

    def __init__(self, a: int) -> None:
        self.a = a

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.a == other.a

    __hash__ = None  # type: ignore[assignment]  # a model is no key

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        return {"a": self.a, "mode": mode}

    @classmethod
    def model_validate(cls, value: Any) -> Self:
        return cls(value["a"])


class Broken:
    """Raises whatever is asked of it."""

    def __repr__(self) -> str:
        raise KeyError("repr")

    def model_dump(self, **_: Any) -> Any:
        raise OSError("no connection")


class Plain:
    def __repr__(self) -> str:
        return "Plain()"


class Titled(TypedDict):
    title: str


def spoiled(value: Any) -> dict[str, Any]:
    with pytest.raises(UsageError) as caught:
        to_json(value)
    assert caught.value.code == "value_not_json"
    return caught.value.facts


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(json_values())
def test_json_stays_what_it_is(value: Any) -> None:
    """A tool's argument must arrive as it was given."""
    assert repr(value) == repr(to_json(value))


@given(json_values())
def test_what_is_kept_survives_the_file(value: Any) -> None:
    """The walker's promise: JSON text of the result reads back equal."""
    kept = to_json(value)

    assert kept == json.loads(json.dumps(kept))


odd = st.sampled_from([2**63 - 1, 2**63, -(2**63), 10**4300, math.nan, math.inf, "\ud83d\ude00", "\udc00", "é"])
odd_names = st.sampled_from(["a", "b", "\ud83d\ude00", "\U0001f600", "é", Word("w")])


@given(st.dictionaries(odd_names, scalars | odd, max_size=3))
def test_a_dict_of_scalars_is_what_it_is_inside_of_a_list(value: dict[Any, Any]) -> None:
    """It has a short way of its own, which must not be seen in what is kept or refused."""
    assert repr([record_result(value)]) == repr(record_result([value]))
    assert _kept(value, at="$[0]") == _kept([value], at="$")


def _kept(value: Any, *, at: str) -> str:
    """What is kept of it, or why it is refused."""
    try:
        return repr(to_json(value, at=at)).strip("[]")
    except UsageError as fault:
        return fault.message


@pytest.mark.parametrize("odd_one", ["\ud83d\ude00", Word("w"), Rights.READ])
def test_a_scalar_that_is_not_json_as_it_is_becomes_so(odd_one: Any) -> None:
    """The short way is for what needs no change."""
    assert repr([to_json({"a": odd_one})]) == repr(to_json([{"a": odd_one}]))


@pytest.mark.parametrize("odd_one", [10**4300, -(10**4300), math.nan], ids=["large", "small", "nan"])
def test_a_scalar_that_json_does_not_have_is_refused_in_a_dict_of_scalars(odd_one: Any) -> None:
    """The short way must let nothing pass that the walk refuses."""
    assert "$.a" == spoiled({"a": odd_one})["path"]


def test_the_copy_of_scalars_is_private() -> None:
    """What the agent changes after the call must not change the record."""
    value = {"order": "1042"}
    kept = to_json(value)
    value["order"] = "1043"

    assert kept == {"order": "1042"}


def test_the_copy_is_private() -> None:
    """What the agent changes after the call must not change the record."""
    value: Any = {"a": [{"b": []}]}
    kept = to_json(value)
    value["a"][0]["b"].append(1)

    assert kept == {"a": [{"b": []}]}


def test_a_shared_part_is_no_cycle() -> None:
    """W35: the reference took the second mention of an object for a circle."""
    part = [1]

    assert {"a": [1], "b": [[1], [1]]} == to_json({"a": part, "b": [part, part]})


def test_a_lone_surrogate_is_kept_and_a_pair_is_joined() -> None:
    """JSON reads two halves back as one character; the live agent must see the same."""
    assert {"\ud83d": "\U0001f600", "\U0001f600": "é"} == to_json({"\ud83d": "\ud83d\ude00", "\ud83d\ude00": "é"})


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ([1, [2]], (1, (2,))),
        ({"number": 7, "when": "2026-11-29T13:54:02Z", "lines": ["1.10"]},
         Order(7, dt.datetime(2026, 11, 29, 13, 54, 2, tzinfo=dt.UTC), [Decimal("1.10")])),
        ({"type": "paid", "orderNumber": 7, "colours": ["blue", "red"]}, Paid(7, {Colour.RED, Colour.BLUE})),
        (["Row", 1, "x"], Row(1, "x")),
        ({"a": 1}, Bare(1)),
        ("red", Colour.RED),
        (3, Rights.READ | Rights.WRITE),
        ([100, 20, 3], {3, 20, 100}),
        (["a"], frozenset({"a"})),
        ("2026-11-29T13:54:02.000005+01:00",
         dt.datetime(2026, 11, 29, 13, 54, 2, 5, dt.timezone(dt.timedelta(hours=1)))),
        ("2026-11-29", dt.date(2026, 11, 29)),
        ("13:54:02Z", dt.time(13, 54, 2, tzinfo=dt.UTC)),
        ("PT90S", dt.timedelta(seconds=90)),
        ("YWI=", b"ab"),
        ("YWI=", bytearray(b"ab")),
        ("YWI=", memoryview(b"ab")),
        ("1.10", Decimal("1.10")),
        ("00000000-0000-0000-0000-000000000005", uuid.UUID(int=5)),
        ("a/b", PurePosixPath("a/b")),
        ({"a": 1, "mode": "json"}, Model(1)),
        ([1, 2], Point(1, 2)),
        ({"a": 1}, collections.OrderedDict(a=1)),
        ({"red": 1}, {Word("red"): 1}),
        pytest.param(10**4300 - 1, 10**4300 - 1, id="long"),
    ],
)  # fmt: skip
def test_the_form_of(expected: Any, value: Any) -> None:
    """The documented rule, type by type."""
    assert expected == to_json(value)


@pytest.mark.parametrize(
    ("expected", "value"), [(str, Word("x")), (int, Rights.READ), (float, type("F", (float,), {})(1.5))]
)
def test_a_subclass_becomes_its_base(expected: type, value: Any) -> None:
    """What is kept has no code of the user's inside."""
    assert expected is type(to_json(value))


def test_an_offset_with_seconds_is_said_in_utc() -> None:
    """ISO 8601 as msgspec writes it would move the instant by those seconds."""
    zone = dt.timezone(dt.timedelta(hours=1, seconds=30))

    assert to_json(dt.datetime(2026, 11, 29, 13, 0, 30, tzinfo=zone)) == "2026-11-29T12:00:00Z"


def cycle() -> Any:
    order = Order(1, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    order.lines.append({"back": order})  # type: ignore[arg-type]  # the mistake under test
    return {"order": order}


def odd_zone() -> dt.tzinfo:
    return dt.timezone(dt.timedelta(seconds=30))


@pytest.mark.parametrize(
    ("path", "found", "why", "value"),
    [
        ("$", "object", "is a type without a rule for JSON", object()),
        ("$.items[3].when", "complex", "is a type without a rule for JSON", {"items": [0, 1, 2, {"when": 1j}]}),
        ("$", "float", "is nan, which JSON does not have", math.nan),
        ("$['a b'][1]", "float", "is -inf, which JSON does not have", {"a b": (0, -math.inf)}),
        ("$['\\n']", "type", "is a type without a rule for JSON", {"\n": int}),
        pytest.param("$[0]", "int", "has more than 4300 digits", [10**4300], id="long"),
        pytest.param("$[0]", "int", "has more than 4300 digits", [-(10**4300)], id="long negative"),
        ("$.a", "dict", "has a key of type int; keys must be str", {"a": {1: 2}}),
        ("$", "dict", "has a key of type NoneType; keys must be str", {Word("a"): 1, None: 2}),
        ("$", "dict", "has two keys that are one text in JSON", {"\ud83d\ude00": 1, "\U0001f600": 2}),
        ("$", "dict", "has two keys that are one text in JSON", {Word("\ud83d\ude00"): 1, "\U0001f600": 2}),
        ("$", "dict", "has two keys that are one text in JSON", {Twin("a"): 1, Twin("a"): 2}),
        ("$.a", "Broken", "raised OSError when it was read", {"a": Broken()}),
        ("$.order.lines[0].back", "Order", "contains itself", cycle()),
        ("$" + "[0]" * 200, "list", "is nested deeper than 200 levels", nested(201)),
        ("$[0]", "time", "is a type without a rule for JSON", [dt.time(1, tzinfo=odd_zone())]),
        ("$[0]", "UnsetType", "is a type without a rule for JSON", [msgspec.UNSET]),
    ],
)  # fmt: skip
def test_what_is_refused_is_named_with_its_path(path: str, found: str, why: str, value: Any) -> None:
    """The user sees which member of which argument to change."""
    assert {"path": path, "found": found, "why": why} == spoiled(value)


def test_a_list_in_itself_is_refused() -> None:
    """Contract #108 is not followed: the smallest circle is refused with its path, not written as a reference."""
    value: list[Any] = [1]
    value.append(value)

    assert {"path": "$[1]", "found": "list", "why": "contains itself"} == spoiled(value)


def test_a_dict_in_itself_is_refused() -> None:
    """A circle through a member, also where keys are a subclass of str."""
    value: dict[Any, Any] = {}
    value["me"] = {Word("you"): value}

    assert {"path": "$.me.you", "found": "dict", "why": "contains itself"} == spoiled(value)


def test_a_dict_that_its_own_member_changes_is_refused() -> None:
    """Reading must not run into the user's code unprepared."""
    value: dict[str, Any] = {}

    class Meddler:
        def model_dump(self, **_: Any) -> Any:
            value["more"] = 1

    value["a"] = Meddler()

    assert spoiled(value)["why"].startswith("could not be read to its end: dictionary changed size")


def test_two_hundred_levels_are_kept() -> None:
    """The limit is where it is said to be."""
    assert nested(200) == to_json(nested(200))


def test_the_path_begins_where_the_caller_says() -> None:
    """An argument's name belongs into the message."""
    with pytest.raises(UsageError) as caught:
        to_json([1j], at="pay.order")

    assert "the value at pay.order[0] cannot be kept as JSON: complex is a type without a rule for JSON" == str(
        caught.value
    )


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ({"a": [1, {"$clew": "repr", "text": "Plain()"}]}, {"a": [1, Plain()]}),
        ({"$clew": "repr", "text": "nan"}, math.nan),
        ({"a": {"$clew": "repr", "text": "{1: 2}"}, "b": 1}, {"a": {1: 2}, "b": 1}),
        ([{"$clew": "repr", "text": "<Broken whose repr() raised KeyError>"}], (Broken(),)),
        pytest.param({"$clew": "repr", "text": "<int whose repr() raised ValueError>"}, 10**5000, id="long"),
        ({"$clew": "repr", "text": "x" * 500}, type("X", (), {"__repr__": lambda _: "x" * 501})()),
        (["1.10"], [Decimal("1.10")]),
    ],
)
def test_a_result_is_recorded_whatever_it_is(expected: Any, value: Any) -> None:
    """The money has moved: the answer is kept as well as it can be."""
    assert expected == record_result(value)


def test_a_result_in_circles_is_recorded_once_around() -> None:
    """Without the check a list that holds itself twice would be copied 2**200 times."""
    value: list[Any] = [1]
    value += [value, value]

    assert [1, *[{"$clew": "repr", "text": "[1, [...], [...]]"}] * 2] == record_result(value)


def test_a_set_too_deep_is_recorded() -> None:
    """A marker stands where a sorted list was expected."""
    value: Any = {1}
    for _ in range(200):
        value = [value]

    assert canonical(record_result(value)).count(b'{"$clew":"repr","text":"{1}"}') == 1


def test_a_result_that_changes_while_it_is_read_is_recorded() -> None:
    """Nothing that a tool returned may lose its committed record."""
    value: dict[str, Any] = {}

    class Meddler:
        def model_dump(self, **_: Any) -> Any:
            value["more"] = 1

        def __repr__(self) -> str:
            return "Meddler()"

    value["a"] = Meddler()

    assert {"$clew": "repr", "text": "{'a': Meddler(), 'more': 1}"} == record_result(value)


@given(json_values())
def test_json_is_recorded_as_it_is(value: Any) -> None:
    """The two entrances differ in what they refuse, in nothing else."""
    assert repr(to_json(value)) == repr(record_result(value))


moments = st.datetimes(
    timezones=st.none() | st.integers(-1439, 1439).map(lambda m: dt.timezone(dt.timedelta(minutes=m)))
)
odd_moments = st.datetimes(
    timezones=st.integers(-86399, 86399).map(lambda s: dt.timezone(dt.timedelta(seconds=s)))
).filter(lambda moment: 1 < moment.year < 9999)
orders = st.builds(
    Order, st.integers(), moments, st.lists(st.decimals(allow_nan=False)), texts | st.just(msgspec.UNSET)
)
typed: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (None, st.none()),
    (bool, st.booleans()),
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, texts),
    (bytes, st.binary()),
    (bytearray, st.binary().map(bytearray)),
    (memoryview, st.binary().map(memoryview)),
    (dt.datetime, moments),
    (dt.datetime, odd_moments),
    (dt.date, st.dates()),
    (dt.time, st.times()),
    (dt.timedelta, st.timedeltas()),
    (Decimal, st.decimals(allow_nan=False)),
    (uuid.UUID, st.uuids()),
    (Colour, st.sampled_from(Colour)),
    (Rights, st.sampled_from([Rights.READ, Rights.WRITE, Rights.READ | Rights.WRITE])),
    (Path, st.sampled_from(["a", "a/b", "/"]).map(Path)),
    (Path | None, st.none() | st.just(Path("a"))),
    (Order, orders),
    (list[Order], st.lists(orders, max_size=3)),
    (Paid, st.builds(Paid, st.integers(), st.sets(st.sampled_from(Colour)), texts)),
    (Paid | None, st.none() | st.builds(Paid, st.integers())),
    (Row, st.builds(Row, st.integers(), texts)),
    (Point, st.builds(Point, st.integers(), st.integers())),
    (Model, st.builds(Model, st.integers())),
    (list[Model], st.lists(st.builds(Model, st.integers()), max_size=3)),
    (set[int], st.sets(st.integers())),
    (set[tuple[int, str]], st.sets(st.tuples(st.integers(), texts))),
    (frozenset[bytes], st.frozensets(st.binary())),
    (tuple[int, str], st.tuples(st.integers(), texts)),
    (tuple[int, ...], st.lists(st.integers()).map(tuple)),
    (dict[str, list[dt.date]], st.dictionaries(texts, st.lists(st.dates(), max_size=3), max_size=3)),
    (int | str | None, st.none() | st.integers() | texts),
    (list, st.lists(st.integers())),
    (Titled, st.fixed_dictionaries({"title": texts})),
]


@given(st.sampled_from(typed).flatmap(lambda pair: st.tuples(st.just(pair[0]), pair[1])))
def test_an_answer_comes_back_as_its_type(pair: tuple[Any, Any]) -> None:
    """A resumed agent gets what the tool returned, not a dict that looks like it."""
    annotation, value = pair
    stored = json.loads(json.dumps(to_json(value)))

    back = restore(stored, annotation)

    assert (value, type(value)) == (back, type(back))


@pytest.mark.parametrize("annotation", [Any, inspect.Signature.empty])
def test_without_an_annotation_the_value_is_as_it_is(annotation: Any) -> None:
    """Nothing is guessed."""
    value = {"a": ["2026-11-29"]}

    assert value is restore(value, annotation)


@pytest.mark.parametrize(
    "annotation", [dt.datetime | str, bytes | str, Plain, list[Plain], Plain | int, "Plain", Iterator[int], object]
)
def test_an_annotation_without_a_rule_leaves_the_value(annotation: Any) -> None:
    """A type that nobody can rebuild must not make an answer unreadable."""
    value = [{"a": "2026-11-29"}]

    assert value is restore(value, annotation)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Order, {"$clew": "repr", "text": "Plain()"}),
        (list[Order], [{"$clew": "repr", "text": "Plain()"}]),
        (Order, {"number": 1, "when": {"$clew": "repr", "text": "nan"}}),
        (Note, {"$clew": "repr", "text": "Plain()"}),
        (dict[str, Note], {"a": {"$clew": "repr", "text": "Plain()"}}),
    ],
)
def test_a_marker_passes(annotation: Any, value: Any) -> None:
    """What could not be kept is honest about it; it is no mismatch."""
    assert value is restore(value, annotation)


def raising(error: Exception) -> Callable[..., Any]:
    def model_validate(_value: Any) -> Any:
        raise error

    return model_validate


@pytest.mark.parametrize(
    ("expected", "annotation", "value"),
    [
        ("int", int, "5"),
        ("None", None, 5),
        ("list[int]", list[int], {"a": [1]}),
        ("tests.core.test_jsonable.Order", Order, {"number": "1"}),
        ("pathlib.Path", Path, 5),
        ("tests.core.test_jsonable.Model", Model, {}),
        ("tests.core.test_jsonable.M", type("M", (), {"model_validate": raising(TypeError())}), {}),
    ],
)
def test_an_answer_of_another_type_is_a_mismatch(expected: str, annotation: Any, value: Any) -> None:
    """An agent that reckons with an int must not go on with a text."""
    with pytest.raises(UsageError) as caught:
        restore(value, annotation)

    assert ("result_mismatch", expected) == (caught.value.code, caught.value.facts["expected"])
