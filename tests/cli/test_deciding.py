"""The commands by which a person decides, as they are typed: all of them say who and why. What they do: beside."""

from collections.abc import Callable

import pytest

from tests.cli.shell import Done

Typed = Callable[..., Done]

NAMED = [("settle", "r1", "happened"), ("approve", "r1"), ("deny", "r1"), ("unlock", "r1", "--nonce", "n")]


@pytest.mark.parametrize("words", NAMED, ids=lambda words: words[0])
def test_a_decision_without_a_name_or_a_reason_is_wrong_usage(typed: Typed, words: tuple[str, ...]) -> None:
    """Who decided and why is what an auditor reads years later, so nothing is decided without them."""
    nobody, no_reason = typed(*words, "--reason", "seen"), typed(*words, "--by", "ann")

    assert (2, 2) == (nobody.code, no_reason.code)
    assert "--by" in nobody.err
    assert "--reason" in no_reason.err
