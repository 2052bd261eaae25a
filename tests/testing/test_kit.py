"""A kit is a plain list: a case passes, is skipped with its reason or fails in words, with any framework or none."""

from typing import Any
from unittest import SkipTest

import pytest

from clew.errors import NotFound, Refused
from clew.testing.kit import Case, CaseFailed, CaseSkipped, Outcome, case, cases_of, check, expect, refused, stopped


@case(14, 15)
def a_thing_is_whole(thing: list[int]) -> None:
    """Half of it is none."""
    expect([1, 2], thing, "the thing")


def divide() -> None:
    raise ZeroDivisionError


def gone(code: str = "unknown_run") -> Any:
    raise NotFound("there is none", code=code, next="Look elsewhere.")


def test_a_case_is_made_of_a_function() -> None:
    """Its name, its sentence and its numbers stand where the deed stands."""
    made = a_thing_is_whole

    assert ("a_thing_is_whole", "Half of it is none.", (14, 15)) == (made.name, made.asserts, made.contract)
    assert "a_thing_is_whole" == str(made)


def test_a_failure_says_what_was_expected_and_why_it_matters() -> None:
    """The author of the thing knows neither the case nor its source."""
    with pytest.raises(CaseFailed, match=r"the thing: expected \[1, 2\], found \[1\]") as caught:
        a_thing_is_whole.run([1])

    assert ["case a_thing_is_whole: Half of it is none."] == caught.value.__notes__


def test_whatever_a_stranger_raises_carries_the_name_of_the_case() -> None:
    """An error from the depth of a database says nothing of what was tried."""
    broken: Case[None] = Case("reads", "Reading matters.", lambda _: divide())

    with pytest.raises(ZeroDivisionError) as caught:
        broken.run(None)

    assert ["case reads: Reading matters."] == caught.value.__notes__


def test_a_long_value_is_shortened() -> None:
    """A journal of a megabyte in a message hides the message."""
    with pytest.raises(CaseFailed) as caught:
        expect(b"", b"x" * 10_000, "the bytes")

    assert len(str(caught.value)) < 400


def test_a_refusal_is_looked_at_by_family_and_code() -> None:
    """A program acts on the code, and a person by the family."""
    error = refused(NotFound, "unknown_run", gone, "it is read")

    assert "Look elsewhere." == error.next


@pytest.mark.parametrize(
    ("family", "code", "deed", "said"),
    [
        (NotFound, "another", gone, "code of the refusal when it is read: expected 'another', found 'unknown_run'"),
        (Refused, "unknown_run", gone, r"it is read: expected Refused \(unknown_run\), found NotFound"),
        (NotFound, "unknown_run", lambda: [7], r"it is read: expected NotFound .* but it was done and gave \[7\]"),
        (NotFound, "unknown_run", lambda: dict[str, int]()["x"], "it is read: expected NotFound .*, found KeyError"),
    ],
)
def test_another_refusal_or_none_fails(family: Any, code: str, deed: Any, said: str) -> None:
    """Each of the ways in which a thing may not refuse is told apart."""
    with pytest.raises(CaseFailed, match=said):
        refused(family, code, deed, "it is read")


def test_a_bug_may_be_stopped_by_anything_but_not_by_nothing() -> None:
    """An assertion is enough where no user can get; going on is not."""
    stopped(gone, "it is read")

    with pytest.raises(CaseFailed, match="it is read: expected a refusal, but it was done and gave 7"):
        stopped(lambda: 7, "it is read")


def test_cases_of_a_module_are_found_alone_and_in_tuples() -> None:
    """In the order of the file, and nothing else that is there."""
    other: Case[list[int]] = Case("other", "It is.", lambda _: None)

    found = cases_of({"one": a_thing_is_whole, "many": (other, 1), "x": 2, "deed": gone})

    assert (a_thing_is_whole, other) == found


def test_without_a_framework_each_case_has_a_lab_and_an_outcome() -> None:
    """A script shows what passed, what was skipped and why, and what failed and how."""

    def skips(_: list[int]) -> None:
        raise CaseSkipped("this store has no 'raw': it is a queue")

    def damages(thing: list[int]) -> None:
        thing.append(3)

    listed: list[Case[list[int]]] = [
        Case("damages", "", damages),
        a_thing_is_whole,
        Case("skips", "", skips),
        Case("fails", "", lambda _: gone()),
    ]

    outcomes = [*check(listed, lambda: [1, 2])]

    assert outcomes == [
        Outcome("damages", "passed"),
        Outcome("a_thing_is_whole", "passed"),
        Outcome("skips", "skipped", "this store has no 'raw': it is a queue"),
        Outcome("fails", "failed", "NotFound: there is none"),
    ]
    assert "skipped skips: this store has no 'raw': it is a queue" == str(outcomes[2])


def test_a_skip_is_one_for_every_framework() -> None:
    """pytest and unittest show it with its reason because of its family."""
    assert issubclass(CaseSkipped, SkipTest)
