"""Names of runs, steps, calls and tools."""

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.ids import (
    CALL_NAMESPACE,
    attempt_id,
    call_short,
    call_uuid,
    check_id,
    check_name,
    effect_key,
    is_digest,
    match_id,
    new_run_id,
    same_id,
    split_key,
    step_id,
)
from clew.errors import NotFound, UsageError

IDS = ["k3f9x2-261129", "k3f9aa-261129", "orders-2026", "01JD4KQ7Z8"]
parts = st.text(st.characters(exclude_characters=":#", exclude_categories=("C", "Z")), min_size=1, max_size=20)


@pytest.mark.parametrize("text", ["a", "9", "k3f9x2-261129", "A_b-C", "x" * 128, "COM10", "COM0", "console", "nul-1"])
def test_a_legal_id_comes_back(text: str) -> None:
    """Users' own ids are welcome when a file may be called so."""
    assert text == check_id(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "-a",
            "_a",
            "a\n",
            "a.b",
            "a/b",
            "a\\b",
            "..",
            "a b",
            "é",
            "a١",
            "١",
            "a:b",
            "a\0",
            "x" * 129,
            "x" * 9999,
        ),
        *("con", "PRN", "Aux", "NUL", "com1", "COM9", "lpt1", "LPT9"),
    ],
)
def test_an_id_that_could_name_another_file_is_refused(text: str) -> None:
    """An id is the only thing a path is made of, on every system."""
    with pytest.raises(UsageError) as caught:
        check_id(text)

    assert ("invalid_run_id", True) == (caught.value.code, len(caught.value.message) < 300)


def test_what_is_no_text_is_refused_as_an_id() -> None:
    """A run id of 42 is a mistake of the user's, not a traceback from `re`."""
    with pytest.raises(UsageError) as caught:
        check_id(42)  # type: ignore[arg-type]  # what an untyped caller does

    assert caught.value.code == "invalid_run_id"


def test_the_code_names_whose_id_it_is() -> None:
    """`invalid_session_id` is a code of its own in the contract."""
    with pytest.raises(UsageError) as caught:
        check_id("a b", "session")

    assert ("invalid_session_id", "'a b' is not a legal session id") == (caught.value.code, caught.value.message)


@given(st.text(max_size=20))
def test_every_accepted_id_is_made_of_the_documented_characters(text: str) -> None:
    """The rule is a set of ASCII characters, not a class that Unicode widens."""
    try:
        check_id(text)
    except UsageError:
        return

    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@pytest.mark.parametrize(("expected", "other"), [(True, "K3F9X2"), (True, "k3f9x2"), (False, "k3f9x3")])
def test_ids_are_compared_without_case(expected: bool, other: str) -> None:
    """Two ids that differ in case are one file on Windows."""
    assert expected == same_id("k3f9x2", other)


def test_a_new_id_has_its_random_part_first() -> None:
    """Three characters then suffice to name a run."""
    assert new_run_id(bytes([0, 1, 31, 32, 255, 20, 99]), "261129") == "01z0zm-261129"


@given(st.binary(min_size=6, max_size=12))
def test_a_new_id_is_legal_and_cannot_be_misread(chance: bytes) -> None:
    """It is typed from a screen: no i, l, o or u."""
    made = new_run_id(chance, "261129")

    assert re.fullmatch(r"[0-9a-hjkmnp-tv-z]{6}-261129", made)


def test_too_little_chance_is_a_bug() -> None:
    """Fewer bytes would make ids that collide."""
    with pytest.raises(AssertionError):
        new_run_id(b"12345", "261129")


@pytest.mark.parametrize(
    ("expected", "part"),
    [
        ("orders-2026", "orders-2026"),
        ("orders-2026", "ORDERS-2026"),
        ("k3f9x2-261129", "k3f9x"),
        ("01JD4KQ7Z8", "01jd"),
        ("orders-2026", "ders"),
        ("k3f9aa-261129", "AA"),
    ],
)
def test_a_unique_part_names_a_run(expected: str, part: str) -> None:
    """Nobody types a whole id."""
    assert expected == match_id(part, IDS)


@pytest.mark.parametrize(
    ("expected", "part", "ids"),
    [
        ("run", "run", ["run", "run-2", "a-run"]),
        ("RUN", "RUN", ["run", "RUN"]),
        ("run", "Run", ["run", "run-2"]),
        ("ab1", "ab", ["ab1", "cab"]),
    ],
)
def test_the_closest_match_wins(expected: str, part: str, ids: list[str]) -> None:
    """An exact id must never be ambiguous because others contain it."""
    assert expected == match_id(part, ids)


@pytest.mark.parametrize("part", ["nothing", "", "k3f9x2-261129x"])
def test_a_part_of_no_id_is_an_unknown_run(part: str) -> None:
    """An empty argument of a script must not mean the only run there is."""
    with pytest.raises(NotFound) as caught:
        match_id(part, IDS[:1])

    assert caught.value.code == "unknown_run"


@pytest.mark.parametrize(
    ("part", "fact"), [("zzz", "zzz"), ("it's é", "it's é"), ("a\x1b", "'a\\x1b'"), ("\udc80", "'\\udc80'")]
)
def test_a_fact_is_the_name_as_it_was_given_unless_it_cannot_be_printed(part: str, fact: str) -> None:
    """A program compares it with what it asked for; a terminal and JSON must be able to show it."""
    with pytest.raises(NotFound) as caught:
        match_id(part, IDS)

    assert {"part": fact} == caught.value.facts


def test_a_part_of_two_ids_names_both() -> None:
    """The next keystroke is chosen from what is shown."""
    with pytest.raises(UsageError) as caught:
        match_id("K3F", IDS)

    assert (
        "ambiguous_run_id",
        ["k3f9aa-261129", "k3f9x2-261129"],
        "'K3F' means 2 runs: 'k3f9aa-261129', 'k3f9x2-261129'",
    ) == (caught.value.code, caught.value.facts["candidates"], caught.value.message)


def test_a_part_of_many_ids_names_five() -> None:
    """A thousand candidates help nobody."""
    with pytest.raises(UsageError) as caught:
        match_id("r", [f"r{number}" for number in range(9)])

    assert (["r0", "r1", "r2", "r3", "r4"], True) == (
        caught.value.facts["candidates"],
        caught.value.message.endswith("'r4', …"),
    )


def test_the_key_is_run_step_call() -> None:
    """Every record of an effect carries it, and the tool gets it."""
    assert effect_key("01JD4KQ7Z8", "pay-1", "c1") == "01JD4KQ7Z8:pay-1:c1"


@pytest.mark.parametrize("bad", ["", "a:b", "a#2", "a\nb", "a\0", "\ud800"])
@pytest.mark.parametrize(("place", "code"), [(0, "invalid_run_id"), (1, "invalid_step_id"), (2, "invalid_call_id")])
def test_a_part_that_would_blur_the_key_is_refused(place: int, code: str, bad: str) -> None:
    """Two effects must never share a key, and a key must fit an environment variable."""
    three = ["run", "step", "call"]
    three[place] = bad

    with pytest.raises(UsageError) as caught:
        effect_key(*three)

    assert code == caught.value.code


@given(parts, parts, parts)
def test_a_key_comes_apart_as_it_was_made(run: str, step: str, call: str) -> None:
    """`clew settle KEY` must find the run again."""
    assert (run, step, call) == split_key(effect_key(run, step, call))


@pytest.mark.parametrize("key", ["", "run", "run:step", "run:step:call:more", "run::call", ":step:call", "run:step:"])
def test_what_is_not_a_key_is_refused(key: str) -> None:
    """A wrong key settles nothing."""
    with pytest.raises(UsageError) as caught:
        split_key(key)

    assert caught.value.code == "invalid_key"


@pytest.mark.parametrize(("expected", "attempt"), [("r:pay-1:c1", 1), ("r:pay-1:c1#2", 2), ("r:pay-1:c1#10", 10)])
def test_the_first_attempt_is_the_key_itself(expected: str, attempt: int) -> None:
    """So the first receipt is the one the contract knows."""
    assert expected == attempt_id("r:pay-1:c1", attempt)


def test_attempts_begin_at_one() -> None:
    """Attempt 0 would be the key of attempt 1 in disguise."""
    with pytest.raises(AssertionError):
        attempt_id("r:pay-1:c1", 0)


def test_the_uuid_of_a_key_never_changes() -> None:
    """Payment systems remember it for days: a release that changed it would pay twice."""
    assert uuid.UUID("472c52eb-5733-50d9-8944-c39a08c66f88") == call_uuid("01JD4KQ7Z8:pay-1:c1")


def test_the_uuid_can_be_made_elsewhere() -> None:
    """Whoever settles by hand derives it from the documented names alone."""
    namespace = uuid.uuid5(uuid.NAMESPACE_URL, "urn:clew:call")

    assert (namespace, uuid.uuid5(namespace, "a:b:c")) == (CALL_NAMESPACE, call_uuid("a:b:c"))


def test_the_short_form_of_a_key_never_changes() -> None:
    """It is a payment reference at the bank."""
    assert call_short("01JD4KQ7Z8:pay-1:c1") == "uhik5klhxtablsfo"


@given(parts)
def test_the_short_form_is_sixteen_plain_characters(call: str) -> None:
    """Reference fields take letters and digits, and few of them."""
    assert re.fullmatch(r"[a-z2-7]{16}", call_short(effect_key("run", "step", call)))


@pytest.mark.parametrize("text", ["pay", "_pay", "Pay-2_x", "x" * 80])
def test_a_legal_name_comes_back(text: str) -> None:
    """Any function name of Python in ASCII is a tool name."""
    assert text == check_name(text, "tool")


@pytest.mark.parametrize("text", ["", "1pay", "-pay", "a.b", "a:b", "a#b", "a b", "pay\n", "é", "a١", "x" * 81])
def test_a_name_with_a_separator_is_refused(text: str) -> None:
    """Step ids are made of names; a dot inside would be a path."""
    with pytest.raises(UsageError) as caught:
        check_name(text, "step")

    assert caught.value.code == "invalid_step_name"


@pytest.mark.parametrize(("expected", "path"), [("pay-1", ""), ("plan-2.pay-1", "plan-2")])
def test_a_step_is_named_by_path_name_and_number(expected: str, path: str) -> None:
    """A resumed agent finds its calls by this name."""
    assert expected == step_id(path, "pay", 1)


def test_steps_begin_at_one() -> None:
    """`pay-0` is nobody's step."""
    with pytest.raises(AssertionError):
        step_id("", "pay", 0)


@pytest.mark.parametrize(("text", "is_one"), [("a" * 64, True), ("A" * 64, False), ("a" * 63, False), ("", False)])
def test_a_digest_is_sixty_four_small_hex_digits(text: str, is_one: bool) -> None:
    """A blob lies under this very name."""
    assert is_one == is_digest(text)
