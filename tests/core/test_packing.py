"""A call that is over takes little room and comes back as it was."""

import sys
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from clew.core.calls import AnswerRef, CallState
from clew.core.capability import resolve
from clew.core.packing import CallBook, pack, unpack
from clew.core.review import Review

RUN = "r1"
MS = st.integers(0, 2**45)


def call(**changed: Any) -> CallState:
    given: dict[str, Any] = {
        "step_id": "pay-1", "call_id": "c1", "key": "r1:pay-1:c1", "tool": "pay", "turn_id": "turn-0",
        "fingerprint": "ab" * 32, "position": 700, "capability": resolve("pay", "external"), "attempt": 1,
        "status": "committed", "started_ms": 5, "since_ms": 5, "answer": AnswerRef(1400, is_error=False),
    }  # fmt: skip
    return CallState(**{**given, **changed})


@st.composite
def over(draw: st.DrawFn) -> CallState:
    """A call of r1 with its answer."""
    number = draw(st.integers(1, 10**9))
    tool = draw(st.sampled_from(["pay", "mail", "look"]))
    step = draw(st.sampled_from([f"{tool}-{number}", f"plan-2.{tool}-{number}"]))
    return call(
        step_id=step,
        call_id=f"c{number}",
        key=f"{RUN}:{step}:c{number}",
        tool=tool,
        turn_id=f"turn-{draw(st.integers(0, 99))}",
        fingerprint=draw(st.binary(min_size=32, max_size=32)).hex(),
        position=draw(MS),
        capability=resolve(tool, draw(st.sampled_from(["none", "external", "workspace"]))),
        attempt=draw(st.integers(0, 9)),
        status=draw(st.sampled_from(["", "started", "committed", "unknown"])),
        started_ms=draw(MS),
        since_ms=draw(MS),
        answer=AnswerRef(draw(MS), is_error=draw(st.booleans()), blob=draw(st.none() | st.just("d" * 64))),
        persistence=draw(st.sampled_from(["", "withheld"])),
    )


@given(over())
def test_a_packed_call_comes_back_as_it_was(found: CallState) -> None:
    """Nothing that a plan or a screen may ask of it is lost."""
    packed = pack(RUN, found)

    assert packed is not None
    assert found == unpack(RUN, found.step_id, packed)


def test_what_is_unusual_about_a_call_is_not_packed() -> None:
    """A review, an open end, a strange key or text: such a call stays as it is."""
    review = Review("r1", "happened", "operator", "ops", "seen", result_recorded=False, complete=False)
    unusual = [
        call(answer=None),
        call(review=review),
        call(capability=None),
        call(key="r1:other-1:c1"),
        call(fingerprint="no digits"),
        call(fingerprint="AB" * 32),
        call(turn_id="\ud800"),
    ]

    assert [None] * 7 == [pack(RUN, found) for found in unusual]


def test_a_call_at_rest_reads_as_before() -> None:
    """The book gives back what was put in, in its order, on a fork as well."""
    book, one, two = CallBook(RUN), call(), call(step_id="pay-2", call_id="c2", key="r1:pay-2:c2")
    book.put("pay-1", one)
    book.put("pay-2", two)
    book.rest(one)

    assert (False, True) == (book.get("pay-1") is one, book.get("pay-2") is two), "one of them is packed"
    assert [("pay-1", one), ("pay-2", two)] == list(book.items())
    assert (one, two, None) == tuple(book.fork().get(name) for name in ("pay-1", "pay-2", "pay-3"))


def test_what_rests_on_a_fork_rests_after_the_merge() -> None:
    """The living run folds on a fork; what it packs there must not come loose."""
    book = CallBook(RUN)
    fork = book.fork()
    fork.put("pay-1", call())
    fork.rest(call())
    book.merge(fork)

    assert call() == book.get("pay-1")


def test_a_call_that_stays_as_it_is_may_rest_too() -> None:
    """Resting is an offer: a call that cannot be packed is still there."""
    book, odd = CallBook(RUN), call(capability=None)
    book.put("pay-1", odd)
    book.rest(odd)

    assert odd == book.get("pay-1")


def test_a_packed_call_is_small() -> None:
    """With its name and its place in the book it stays below 300 bytes."""
    packed = pack(RUN, call(started_ms=1796000000000, since_ms=1796000000000, position=10**9))

    assert packed is not None
    assert sys.getsizeof(packed) <= 150
    assert 2 * sys.getsizeof(packed) < sum(sys.getsizeof(value) for value in msgspec.structs.astuple(call()))
