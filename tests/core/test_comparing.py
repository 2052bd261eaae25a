"""What a checkpoint's call changed, path by path, and how each stands."""

from typing import Any

from clew.core.checkpoint import ABSENT, PathState
from clew.core.comparing import PathDiff, compared
from tests.core.test_restoring import A, B, C, kept


def only(taken: Any, now: PathState, **how: Any) -> PathDiff:
    """The one path that it changed."""
    (found,) = compared(taken, how.pop("later", []), {"a": now}, **how)
    return found


def test_each_path_says_how_it_stands() -> None:
    """A person decides by it whether to put it back."""
    taken, open_ = kept(1, {"a": A}, {"a": B}), kept(1, {"a": A})

    assert ["as_left", "as_before", "changed", "unknown"] == [
        only(taken, B).standing,
        only(taken, A).standing,
        only(taken, C).standing,
        only(open_, B).standing,
    ]


def test_a_path_that_was_left_as_it_was_is_not_told() -> None:
    """A call may declare more than it touches; of one that nobody recorded, what stands there decides."""
    found = [compared(kept(1, {"a": A}, {"a": A}), [], {"a": C}), compared(kept(1, {"a": A}), [], {"a": A})]

    assert [(), ()] == found


def test_what_nobody_recorded_is_compared_with_what_stands_there() -> None:
    """The call died: what it did can only be seen."""
    found = only(kept(1, {"a": A}), B)

    assert (None, B) == (found.after, found.compared)


def test_an_unrecorded_path_that_cannot_be_seen_counts_as_gone() -> None:
    """Something must stand on the other side."""
    (found,) = compared(kept(1, {"a": A}), [], {}, {"a": "a pipe stands there"})

    assert (None, ABSENT, "unknown") == (found.now, found.compared, found.standing)


def test_a_renamed_file_is_one_path() -> None:
    """Its content is compared with that under its old name."""
    (found,) = compared(kept(1, {"a": A, "b": ABSENT}, {"a": ABSENT, "b": A}), [], {"b": A})

    assert ("b", "a", A, "as_left") == (found.path, found.renamed, found.before, found.standing)


def test_the_later_checkpoint_that_changed_it_is_named() -> None:
    """It was the run itself, not a person."""
    found = only(kept(1, {"a": A}, {"a": B}), C, later=[kept(2, {"a": B}, {"a": C})])

    assert ("changed", "k2") == (found.standing, found.by)


def test_a_program_reads_every_state() -> None:
    """Null is what is not known; what says nothing is left out."""
    found, unseen = only(kept(1, {"a": A}), B).as_json(), only(kept(1, {"a": A}, {"a": B}), B, unseen={"a": "no"})

    assert {
        "path": "a",
        "before": {"type": "file", "sha256": A.sha256, "sizeBytes": 1, "mode": 0o644},
        "after": None,
        "now": {"type": "file", "sha256": B.sha256, "sizeBytes": 1, "mode": 0o644},
        "standing": "unknown",
    } == found
    assert ("no", None) == (unseen.as_json()["unseen"], unseen.as_json()["now"])
