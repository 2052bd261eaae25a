"""Business keys: what counts as one, what is shown of it, and what a claim on one is worth."""

from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import events
from clew.core.events import Event
from clew.core.keys import KEY_BYTES, BusinessKey, Claim, Standing, business_key, judge, key_text, recorded_key
from clew.core.redact import Redactor
from clew.errors import UsageError
from tests.histories import (
    PAY,
    RUN,
    Scribe,
    completed,
    denied,
    facts,
    nothing_happened,
    paused,
    proposed,
    returned,
    review,
    started,
)

CALL = facts()
UNKNOWN = [events.effect_receipt(CALL, "unknown")]
CLAIM = Claim(1, "pay", "d" * 64, "1042", RUN, CALL.step_id, CALL.call_id, CALL.key, 1, "n1", "-")


# What a key is.


@pytest.mark.parametrize(
    ("value", "text"),
    [("1042", "1042"), (1042, "1042"), (" x ", " x "), (True, "true"), (1.0, "1"), (["a", 1], '["a",1]'),
     ({"b": 1, "a": 2}, '{"a":2,"b":1}')],
    ids=repr,
)  # fmt: skip
def test_a_key_counts_by_its_text(value: Any, text: str) -> None:
    """Equal things must be one key, however they were written; a text is never trimmed."""
    assert text == key_text(value)


@pytest.mark.parametrize("value", [None, "", " \n", [], {}, "x" * (KEY_BYTES + 1), "\u00e9" * KEY_BYTES], ids=ascii)
def test_what_cannot_be_a_key_is_refused(value: Any) -> None:
    """A blank key would make one effect of all orders whose number is missing."""
    with pytest.raises(UsageError) as error:
        key_text(value)

    assert "invalid_business_key" == error.value.code


def test_the_longest_key_is_taken() -> None:
    """The bound is the documented one."""
    assert KEY_BYTES == len(key_text("x" * KEY_BYTES))


@given(st.text(min_size=1).filter(lambda text: text.strip()))
def test_equal_texts_have_one_digest_and_others_another(text: str) -> None:
    """Anyone can compute it: it is the SHA-256 of the key's text."""
    key = business_key(text[:200] + "!", {}, Redactor())

    assert sha256((text[:200] + "!").encode("utf-8", "surrogatepass")).hexdigest() == key.sha256


# What is shown of it.


@pytest.mark.parametrize(
    ("value", "arguments", "shown"),
    [
        ("order-1042", {"order": "1042"}, "order-1042"),
        ("order-s3cret-value", {}, "order-[redacted:configured]"),
        ("hunter2", {"password": "hunter2"}, "[redacted:key]"),
        ("7:pin", {"token": 7}, "[redacted:key]"),
        ("x-abc", {"deep": [{"secret": {"a": ["abc", ""]}}, 1]}, "[redacted:key]"),
        ("plain", {"deep": [{"secret": "abc"}], "other": 1}, "plain"),
    ],
)
def test_a_secret_never_shows_in_a_key(value: str, arguments: Any, shown: str) -> None:
    """The text goes to the disk twice: what is hidden in the arguments must not come back by the key."""
    assert shown == business_key(value, arguments, Redactor(["s3cret-value"])).text


def test_the_digest_of_a_hidden_key_is_of_the_true_one() -> None:
    """Else two different secrets would be one key."""
    key = business_key("hunter2", {"password": "hunter2"}, Redactor())

    assert sha256(b"hunter2").hexdigest() == key.sha256


def test_a_recorded_key_is_read_back() -> None:
    """What is written is what an index is built from."""
    key = business_key("1042", {}, Redactor())

    assert (key, None) == (recorded_key({"businessKey": key.as_json()}), recorded_key({}))
    assert BusinessKey(sha256(b"1042").hexdigest(), "1042") == key


# What a claim is worth.


def run(*appends: list[Event]) -> Scribe:
    scribe = Scribe().born()
    for append in appends:
        scribe.say(*append)
    return scribe


SETTLED = [started(CALL), UNKNOWN]
WORTH: dict[str, tuple[list[list[Event]], str]] = {
    "nothing is recorded and the leg is open": ([], "starting"),
    "the call was only proposed": ([proposed(CALL)], "starting"),
    "it started": ([started(CALL)], "open"),
    "nobody knows how it ended": (SETTLED, "open"),
    "it returned": ([started(CALL), returned(CALL)], "committed"),
    "its answer was not kept": ([started(CALL), [events.effect_receipt(CALL, "committed", persistence="failed")]],
                                "committed"),
    "the policy denied": ([denied(CALL)], "free"),
    "the tool knows that nothing happened": ([started(CALL), nothing_happened(CALL)], "free"),
    "a person says that it did not happen": ([*SETTLED, [review(CALL, "did_not_happen")]], "free"),
    "a person says that it happened": ([*SETTLED, [review(CALL, "happened")]], "happened"),
    "a person gave it up": ([*SETTLED, [review(CALL, "give_up")]], "given_up"),
    "a review whose result was torn off counts as not given": (
        [*SETTLED, [review(CALL, "happened", result_recorded=True)]], "open"),
}  # fmt: skip


@pytest.mark.parametrize("case", WORTH)
def test_a_claim_is_worth_what_the_journal_says_of_its_attempt(case: str) -> None:
    """Free only where it is proved that nothing happened (promise 2)."""
    appends, word = WORTH[case]
    standing = judge(run(*appends).state, CLAIM)

    assert (word, word != "free") == (standing.word, standing.holds)


def test_a_claim_without_its_start_is_worth_nothing_once_its_leg_is_closed() -> None:
    """The run paused between the claim and the start; its next leg has to claim anew."""
    scribe = run()
    scribe.say(*paused())

    assert Standing("free") == judge(scribe.state, CLAIM)


def test_a_claim_without_its_start_is_worth_nothing_once_another_leg_has_begun() -> None:
    """Only a writer can begin one, so whoever claimed writes no more."""
    assert Standing("free") == judge(run().opened().state, CLAIM)


def test_a_claim_of_the_second_leg_holds_while_that_is_open() -> None:
    """Each leg starts on its own claims."""
    standing = judge(run().opened().state, msgspec.structs.replace(CLAIM, nonce="n2"))

    assert "starting" == standing.word


def test_a_claim_of_a_leg_that_the_journal_does_not_know_is_not_free() -> None:
    """The journal lost its end, or was put back from a copy: nobody can tell what started."""
    standing = judge(run().state, msgspec.structs.replace(CLAIM, nonce="n9"))

    assert Standing("unreadable") == standing


@pytest.mark.parametrize("changed", [{"idempotency_key": "r:x:y"}, {"tool": "charge"}], ids=str)
def test_a_claim_that_names_another_call_than_the_journal_is_not_free(changed: dict[str, str]) -> None:
    """One of the two is not what was written."""
    standing = judge(run(started(CALL)).state, msgspec.structs.replace(CLAIM, **changed))

    assert Standing("unreadable") == standing


def test_the_next_attempt_of_a_call_that_did_not_happen_may_be_about_to_start() -> None:
    """Its claim is newer than what the journal says."""
    state = run(*SETTLED, [review(CALL, "did_not_happen")]).state

    assert "starting" == judge(state, msgspec.structs.replace(CLAIM, attempt=2)).word


def test_an_open_attempt_holds_whatever_is_claimed_for_the_next() -> None:
    """A rerun under the same key that never began takes nothing back."""
    state = run(*SETTLED).state

    assert "open" == judge(state, msgspec.structs.replace(CLAIM, attempt=2, nonce="n9")).word


def test_a_key_stays_with_its_run_when_that_has_ended() -> None:
    """Committed is committed, today and in a year."""
    scribe = run(started(CALL), returned(CALL))
    scribe.say(*completed())

    assert "committed" == judge(scribe.state, CLAIM).word
    assert PAY == judge(scribe.state, CLAIM).call.capability  # type: ignore[union-attr]  # there is one
