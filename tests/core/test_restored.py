"""What the records of a restore say, and may not say."""

from typing import Any

import pytest

from clew.core.calls import Illegal
from clew.core.restored import (
    NO_RESTORES,
    Begun,
    Intent,
    Restores,
    Told,
    restore_ended,
    restore_started,
    take_restored,
)
from tests.core.test_restoring import A, B, C, begun

STARTED = restore_started("restore-1", "k1", [Intent("a", B, A), Intent("m", B, C, True)], by="ann", reason="why")
BEGUN = begun({"a": B, "m": B}, {"a": A, "m": C}, merged=frozenset("m"))
ENDED = restore_ended(BEGUN, [Told("a", "restored"), Told("m", "merged")], by="ann", reason="why")


def test_what_is_about_to_be_put_back_is_known_from_its_record() -> None:
    """A second restore rests on nothing else."""
    assert Restores(1, BEGUN) == take_restored(NO_RESTORES, STARTED)


def test_behind_its_end_nothing_is_under_way() -> None:
    """And the next one has the next number."""
    assert Restores(1) == take_restored(take_restored(NO_RESTORES, STARTED), ENDED)


def test_one_that_goes_on_says_with_what() -> None:
    """Of the same checkpoint, with what comes after it or without."""
    again = restore_started(
        "restore-2", "k1", [Intent("a", B, A)], by="bob", reason="again", through="k3", goes_on="restore-1"
    )
    known = take_restored(take_restored(NO_RESTORES, STARTED), again)

    assert known == Restores(2, Begun("restore-2", "k1", "k3", {"a": B}, {"a": A}))


def test_the_end_names_through_which_checkpoint() -> None:
    """A reader of the journal sees it without looking back."""
    ended = restore_ended(begun({"a": B}, {"a": A}, through="k3"), [Told("a", "restored")], by="a", reason="b")

    assert ended["through"] == "k3"


@pytest.mark.parametrize(
    "members",
    [
        {"restoreId": "restore-2"},
        {"restoreId": ""},
        {"restoreId": 1},
        {"checkpointId": None},
        {"by": " "},
        {"reason": None},
        {"goesOn": "restore-9"},
        {"through": 3},
        {"state": "half"},
        {"state": "ended"},
        {"paths": []},
        {"paths": None},
        {"paths": ["a"]},
        {"paths": [{"path": "../a", "from": {"type": "absent"}, "to": {"type": "absent"}}]},
        {"paths": [{"path": 3}]},
        {"paths": [{"path": "a", "from": {"type": "file"}, "to": {"type": "absent"}}]},
        {"paths": [{"path": "a", "from": {"type": "absent", "path": "b"}, "to": {"type": "absent"}}]},
        {"paths": [{"path": "a", "from": {"type": "absent"}}]},
        {"paths": [STARTED["paths"][0], STARTED["paths"][0]]},
    ],
    ids=repr,
)
def test_a_start_that_cannot_be_understood_is_refused(members: dict[str, Any]) -> None:
    """Nothing is guessed of what a restore may have touched."""
    with pytest.raises(Illegal):
        take_restored(NO_RESTORES, {**STARTED, **members})


@pytest.mark.parametrize(
    "members",
    [
        {"restoreId": "restore-2"},
        {"checkpointId": "k2"},
        {"paths": [{"path": "a", "outcome": "restored"}]},
        {"paths": [{"path": "a", "outcome": "gone"}, {"path": "m", "outcome": "merged"}]},
        {"paths": [{"path": "a"}, {"path": "m", "outcome": "merged"}]},
        {"state": "over"},
    ],
    ids=repr,
)
def test_an_end_that_does_not_fit_its_start_is_refused(members: dict[str, Any]) -> None:
    """It says of each path what became of it, or it is none."""
    with pytest.raises(Illegal):
        take_restored(Restores(1, BEGUN), {**ENDED, **members})


@pytest.mark.parametrize("members", [{"goesOn": ""}, {"checkpointId": "k2", "goesOn": "restore-1"}])
def test_no_restore_begins_beside_one_that_was_cut_off(members: dict[str, Any]) -> None:
    """What the first may have left halfway would be taken for somebody's work."""
    with pytest.raises(Illegal):
        take_restored(Restores(1, BEGUN), {**STARTED, "restoreId": "restore-2", **members})
