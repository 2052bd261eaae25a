"""Receipts of extensions: which may stand, how they are counted over all legs, and the JSON that cannot be changed."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.book import Book
from clew.core.extensions import (
    MOMENTS,
    STATUSES,
    Receipts,
    count_receipt,
    extension_lifecycle,
    freeze,
    is_name,
    is_version,
)
from clew.core.folding import fold
from clew.core.resume import Facts
from clew.core.snapshot import outline
from clew.errors import Corrupt
from tests.histories import BORN_MS, Scribe, completed, paused, read, refold, respoken, resume, view
from tests.strategies import json_values

GOOD = {"extensionId": "guard", "extensionVersion": "1.0", "lifecycle": "before-tool", "status": "succeeded"}


def receipt(**changed: Any) -> dict[str, Any]:
    return {"type": "extension_lifecycle", **GOOD, "durationMs": 3, **changed}


def refused(event: dict[str, Any]) -> str:
    """Why a reader and a writer refuse it, in the same words."""
    scribe = Scribe().born()
    before = view(scribe.state)
    with pytest.raises(Corrupt) as written:
        scribe.say(event)
    assert before == view(scribe.state)
    scribe.say(receipt())
    records = [record for record, _ in read(scribe.data)]
    records[-1].payload["event"] = event
    with pytest.raises(Corrupt) as seen:
        fold(respoken(records), scribe.state.run_id)
    assert written.value.facts["why"] == seen.value.facts["why"]
    return str(written.value.facts["why"])


def test_receipts_that_ended_alike_are_one_row_over_all_legs() -> None:
    """W25: what a snapshot says after a resume must not begin at the resume; a long run must not grow by it."""
    scribe = Scribe().born()
    scribe.say(receipt(), receipt(durationMs=4), receipt(denied=True))
    scribe.say(receipt(lifecycle="after-tool", status="failed", error="ValueError: first"), *paused())
    scribe.opened()
    scribe.say(receipt(lifecycle="after-tool", status="failed", error="ValueError: last"), receipt(durationMs=0))

    rows = outline(scribe.state, Facts(BORN_MS), integrity={})["extensions"]

    said = {"extensionId": "guard", "extensionVersion": "1.0"}
    before, after = {**said, "event": "before-tool"}, {**said, "event": "after-tool"}
    assert [
        {**before, "status": "succeeded", "count": 3, "durationMs": 7},
        {**before, "status": "succeeded", "count": 1, "durationMs": 3, "denied": True},
        {**after, "status": "failed", "count": 2, "durationMs": 6, "error": "ValueError: last"},
    ] == rows


@pytest.mark.parametrize("closing", [paused, completed])
def test_what_closes_a_leg_says_what_the_extensions_did(closing: Any) -> None:
    """W25: the record is all that a reader of another program looks at."""
    scribe = Scribe().born()
    scribe.say(receipt(), *closing())

    said = read(scribe.data)[-1][0].payload["extensions"]

    assert [{**GOOD, "event": "before-tool", "count": 1, "durationMs": 3}] == [
        {**row, "lifecycle": row["event"]} for row in said
    ]


def test_a_run_without_extensions_says_that_there_were_none() -> None:
    """Nothing changes for whoever has none."""
    scribe = Scribe().born()
    scribe.say(*completed())

    assert [] == read(scribe.data)[-1][0].payload["extensions"]


def test_a_hundred_thousand_receipts_keep_no_more_than_one() -> None:
    """DESIGN §6: the fold keeps 300 bytes a call at most, whoever looks on."""
    book: Book[Receipts] = Book()
    for _ in range(100_000):
        count_receipt(book, receipt())

    assert (1, 100_000) == (len(book), next(book.values()).count)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("status", STATUSES)
def test_every_receipt_that_is_made_can_be_read(moment: str, status: str) -> None:
    """What is written is judged as it will be judged when it is read."""
    failed = status != "succeeded"
    event = extension_lifecycle(
        "guard", "1.0", moment, status, 7, error="x" if failed else "", denied=failed and moment == "before-tool"
    )
    scribe = Scribe().born()
    scribe.say(event)

    assert view(scribe.state) == view(refold(scribe.data))


@pytest.mark.parametrize(
    "wrong",
    [
        {"extensionId": ""}, {"extensionId": None}, {"extensionId": "a b"}, {"extensionVersion": "1 0"},
        {"extensionVersion": 1}, {"lifecycle": "after-model"}, {"status": "denied"}, {"durationMs": -1},
        {"durationMs": 1.5}, {"durationMs": True}, {"durationMs": None}, {"error": "but it succeeded"}, {"error": 1},
        {"lifecycle": "after-tool", "status": "failed"}, {"denied": "yes"},
    ],
    ids=str,
)  # fmt: skip
def test_a_receipt_that_says_less_or_more_is_refused(wrong: dict[str, Any]) -> None:
    """A count over receipts that nobody could have written would be invented."""
    why = refused(receipt(**wrong))

    assert why


@pytest.mark.parametrize("moment", ["before-model", "after-tool", "run-finished"])
def test_only_before_tool_can_deny(moment: str) -> None:
    """Contract #244: at any other moment there is nothing to deny."""
    why = refused(receipt(lifecycle=moment, denied=True))

    assert f"extension 'guard' denies at {moment!r}; only before-tool may deny" == why


@pytest.mark.parametrize("status", ["failed", "timed_out"])
def test_a_handler_that_failed_before_a_tool_has_denied_it(status: str) -> None:
    """W50: a journal in which a deny policy failed open is none that clew can have written."""
    why = refused(receipt(status=status, error="x"))

    assert f"extension 'guard' {status} before a tool and did not deny it" == why


def test_no_receipt_follows_the_finish() -> None:
    """The end of a run is told before its record is written, and never after."""
    scribe = Scribe().born()
    scribe.say(*completed())
    scribe.say(resume(2, "settle"))

    with pytest.raises(Corrupt):
        scribe.say(receipt(lifecycle="run-finished"))


@pytest.mark.parametrize(("name", "fits"), [("a.b_c-9", True), ("x" * 128, True), ("x" * 129, False), (".a", False)])
def test_a_name_stands_in_one_word(name: str, fits: bool) -> None:
    """It is a key of the trust list and part of every receipt."""
    assert fits == is_name(name)


@pytest.mark.parametrize(("version", "fits"), [("1.0+a~b", True), ("", False), ("1 0", False), ("é", False)])
def test_a_version_stands_in_one_word(version: str, fits: bool) -> None:
    """It is compared by eye, a year later."""
    assert fits == is_version(version)


@given(json_values())
def test_frozen_json_is_the_same_json(value: Any) -> None:
    """#242: an extension may encode what it is given, and sees what there is."""
    assert json.dumps(value) == json.dumps(freeze(value))


DEEDS = {
    "set": lambda frozen: frozen.__setitem__("a", 1),
    "delete": lambda frozen: frozen.__delitem__("a"),
    "update": lambda frozen: frozen.update(a=1),
    "or": lambda frozen: frozen.__ior__({"a": 1}),
    "pop": lambda frozen: frozen.pop("a"),
    "popitem": lambda frozen: frozen.popitem(),
    "clear": lambda frozen: frozen.clear(),
    "setdefault": lambda frozen: frozen.setdefault("b", 1),
}


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("inner", [False, True])
def test_frozen_json_cannot_be_changed(deed: str, inner: bool) -> None:
    """#242: who looks on must not be able to change what the next one sees."""
    frozen = freeze({"a": {"a": [1]}})

    with pytest.raises(TypeError, match="cannot be changed"):
        DEEDS[deed](frozen["a"] if inner else frozen)

    assert {"a": {"a": (1,)}} == frozen


def test_a_deep_copy_of_frozen_json_may_be_changed() -> None:
    """An extension that wants to hide more before it passes it on needs one."""
    frozen = freeze({"a": {"b": 1}})
    copied = copy.deepcopy(frozen)
    copied["a"]["b"] = 2

    assert ({"a": {"b": 2}}, {"a": {"b": 1}}) == (copied, frozen)


def test_the_original_may_change_and_the_frozen_does_not() -> None:
    """It is a copy all the way down."""
    original: dict[str, Any] = {"a": [{"b": 1}]}
    frozen = freeze(original)
    original["a"][0]["b"] = 2

    assert 1 == frozen["a"][0]["b"]


@given(st.lists(st.tuples(st.sampled_from(MOMENTS), st.integers(0, 9)), max_size=20))
def test_counts_do_not_depend_on_how_receipts_are_appended(given_: list[tuple[str, int]]) -> None:
    """fold(prefix + suffix) is fold(prefix), then fold(suffix); nothing is counted twice or lost."""
    together, apart = Scribe().born(), Scribe().born()
    events = [receipt(lifecycle=moment, durationMs=took) for moment, took in given_]
    if events:
        together.say(*events)
    for event in events:
        apart.say(event)

    rows = [outline(scribe.state, Facts(BORN_MS), integrity={})["extensions"] for scribe in (together, apart)]

    assert rows[0] == rows[1]
    assert len(events) == sum(row["count"] for row in rows[0])
