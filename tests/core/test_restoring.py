"""What a restore decides for each path, and what it takes in hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.checkpoint import ABSENT, Checkpoint, PathState
from clew.core.restored import Begun, Intent
from clew.core.restoring import Decision, chosen, intents, left, merged_mode, needed, planned

DIGESTS = [letter * 64 for letter in "abcd"]
A, B, C, D = (PathState("file", digest, 1, 0o644) for digest in DIGESTS)
FOLDER = PathState("folder", mode=0o755)
LINK = PathState("link", target="a")
STATES = st.sampled_from([ABSENT, A, B, C, FOLDER, LINK, PathState("file", DIGESTS[0], 1, 0o600)])
PATHS = st.sampled_from(["a", "b", "d", "d/f", "d/g", "name\udcff"])
MANIFESTS = st.dictionaries(PATHS, STATES, max_size=5)


def kept(number: int, before: Any, after: Any = None, *, expects: Any = None, reversible: bool = True) -> Checkpoint:
    """One checkpoint of a run."""
    step, at = f"edit-{number}", "2026-11-29T13:54:02.000Z"
    return Checkpoint(
        f"k{number}", step, f"c{number}", f"r:{step}:c{number}", 1, "edit", at, reversible, before, expects, after=after
    )


def one(*span: Checkpoint, now: PathState, later: Any = (), path: str = "a", **how: Any) -> Decision:
    """What is decided of one path."""
    (found,) = [each for each in planned(span, later, chosen(span), {path: now}, **how) if each.path == path]
    return found


def said(decision: Decision) -> tuple[str, str, str]:
    return decision.deed, decision.by, decision.why


def begun(found: Any, wanted: Any, merged: frozenset[str] = frozenset(), through: str = "") -> Begun:
    return Begun("restore-1", "k1", through, found, wanted, merged)


# One path.


def test_what_stands_as_the_call_left_it_is_put_back() -> None:
    """#145, #146, #147: also what it made, which goes, and what it removed, which comes back."""
    found = [one(kept(1, {"a": old}, {"a": new}), now=new) for old, new in ((A, B), (ABSENT, B), (A, ABSENT))]

    assert ["restore", "restore", "restore"] == [decision.deed for decision in found]


def test_what_stands_as_before_is_left_alone() -> None:
    """C65: a file whose content is equal is not written, so its times stay."""
    assert ("unchanged", "", "it stands as it did before") == said(one(kept(1, {"a": A}, {"a": B}), now=A))


@pytest.mark.parametrize("now", [C, ABSENT, FOLDER, LINK, PathState("file", DIGESTS[1], 1, 0o600)], ids=repr)
def test_what_somebody_changed_since_is_a_conflict(now: PathState) -> None:
    """#151, C56: content, kind, mode or absence: it is the user's own, and it stays."""
    assert one(kept(1, {"a": A}, {"a": B}), now=now).deed == "conflict"


def test_what_nobody_recorded_is_unknown() -> None:
    """#155: a call died in the middle, and nobody can say whose bytes these are."""
    assert ("unknown", "", "nobody recorded how it was left") == said(one(kept(1, {"a": A}), now=B))


def test_what_the_tool_said_beforehand_counts_where_nothing_was_recorded() -> None:
    """A death between the write and its record loses nothing: these bytes were announced."""
    taken = kept(1, {"a": A, "b": A}, expects={"a": B})

    assert (["restore", "unchanged"], ["unknown" if left(taken, "b") is None else "known"]) == (
        [decision.deed for decision in planned([taken], [], ["a", "b"], {"a": B, "b": A})],
        ["known"],
    )


def test_an_announced_file_without_a_mode_may_have_any() -> None:
    """The tool writes bytes; which mode a new file gets, the machine decides."""
    taken = kept(1, {"a": ABSENT}, expects={"a": PathState("file", DIGESTS[1], 1)})

    assert ("restore", "conflict") == (one(taken, now=B).deed, one(taken, now=C).deed)


# Several checkpoints.


def test_a_path_that_a_later_checkpoint_changed_names_it() -> None:
    """Else a person looks for a colleague who does not exist."""
    first, other, last = kept(1, {"a": A}, {"a": B}), kept(2, {"b": A}, {"b": B}), kept(3, {"a": B}, {"a": C})

    assert ("conflict", "k3", "k3 changed it later") == said(one(first, now=C, later=[other, last]))


def test_a_later_checkpoint_that_changed_nothing_is_not_blamed() -> None:
    """It declared the path and left it as it was."""
    found = one(kept(1, {"a": A}, {"a": B}), now=C, later=[kept(2, {"a": B}, {"a": B})])

    assert ("conflict", "", "somebody changed it since") == said(found)


@pytest.mark.parametrize(("now", "deed"), [(B, "restore"), (C, "restore"), (D, "conflict")])
def test_what_was_taken_back_in_part_is_taken_back_whole(now: PathState, deed: str) -> None:
    """Whoever took back the last call and then wants all of it undone was told that somebody had changed the file."""
    span = [kept(1, {"a": A}, {"a": B}), kept(2, {"a": B}, {"a": C}), kept(3, {"a": C}, {"a": LINK})]

    assert deed == one(*span, now=now).deed


def test_a_path_that_a_later_checkpoint_took_back_may_be_put_back() -> None:
    """What stands there is what this call left, whoever put it there."""
    assert one(kept(1, {"a": A}, {"a": B}), now=B, later=[kept(2, {"a": B}, {"a": C})]).deed == "restore"


def test_checkpoints_that_are_taken_back_together_go_back_to_the_first() -> None:
    """`--later`: a run's work on a file is undone in one go."""
    span = kept(1, {"a": A}, {"a": B}), kept(2, {"b": A}, {"b": B}), kept(3, {"a": B}, {"a": C})
    found = one(*span, now=C)

    assert ("restore", A, C) == (found.deed, found.to, found.base)


def test_what_somebody_did_between_two_of_them_is_not_lost() -> None:
    """The user's bytes stand between the calls; no restore jumps over them."""
    span = kept(1, {"a": A}, {"a": B}), kept(2, {"a": D}, {"a": C})

    assert ("conflict", "", "somebody changed it between k1 and k2") == said(one(*span, now=C))


def test_an_attempt_that_died_before_it_wrote_is_no_gap() -> None:
    """The next attempt found the path as the first one did."""
    assert one(kept(1, {"a": A}), kept(2, {"a": A}, {"a": B}), now=B).deed == "restore"


def test_an_attempt_that_died_in_the_middle_is_a_gap() -> None:
    """What the second attempt found, nobody can vouch for."""
    assert one(kept(1, {"a": A}), kept(2, {"a": D}, {"a": B}), now=B).deed == "conflict"


def test_only_what_is_named_is_chosen() -> None:
    """A folder stands for what is in it; a name that only begins alike does not."""
    span = [kept(1, dict.fromkeys(["d", "d/f", "dd", "e"], A))]

    assert (["d", "d/f"], ["d", "d/f", "dd", "e"]) == (chosen(span, ["d"]), chosen(span))


# Merges and contents.


def test_a_changed_file_is_merged_only_when_it_is_asked_for() -> None:
    """Nobody wants a mixture by surprise."""
    taken = kept(1, {"a": A}, {"a": B})

    assert ("conflict", "merge") == (one(taken, now=C).deed, one(taken, now=C, merge=True).deed)


@pytest.mark.parametrize(
    ("before", "after", "now"), [(A, B, LINK), (ABSENT, B, C), (A, ABSENT, C), (A, LINK, C), (A, B, ABSENT)]
)
def test_only_files_are_merged(before: PathState, after: PathState, now: PathState) -> None:
    """A link or an absence has no lines."""
    assert one(kept(1, {"a": before}, {"a": after}), now=now, merge=True).deed == "conflict"


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "mode"),
    [(6, 6, 7, 7), (6, 7, 6, 7), (6, 7, 7, 7), (6, 6, 6, 6), (6, 7, 5, None)],
)
def test_the_mode_of_a_merge_is_that_of_whoever_changed_it(base: int, ours: int, theirs: int, mode: int | None) -> None:
    """C62: a mode is a change like another, and two of them contradict one another."""
    assert merged_mode(base, ours, theirs) == mode


def test_a_content_that_is_gone_is_a_conflict_of_its_path_alone() -> None:
    """#157: the others go back, and what is missing is named."""
    taken = kept(1, {"a": A, "b": D}, {"a": B, "b": B})
    found = planned([taken], [], ["a", "b"], {"a": B, "b": B}, gone={DIGESTS[0]: "it is gone"})

    assert [("conflict", "it is gone"), ("restore", "")] == [(each.deed, each.why) for each in found]


def test_what_is_needed_is_what_is_not_there() -> None:
    """A changed mode needs no content; a merge needs both sides."""
    mode = Decision("a", "restore", A, PathState("file", DIGESTS[0], 1, 0o600), A)
    merge = Decision("a", "merge", C, A, B)
    gone = Decision("a", "restore", B, ABSENT, B)

    assert ([], [A.sha256, B.sha256], [], []) == (
        needed(mode),
        needed(merge),
        needed(gone),
        needed(Decision("a", "conflict", C, A)),
    )


def test_a_path_that_cannot_be_seen_is_a_conflict() -> None:
    """A pipe in its place, a folder nobody may read: the others go on."""
    taken = kept(1, {"a": A, "b": A}, {"a": B, "b": B})
    found = planned([taken], [], ["a", "b"], {"b": B}, unseen={"a": "a pipe stands there"})

    assert [("conflict", "a pipe stands there"), ("restore", "")] == [(each.deed, each.why) for each in found]


# Folders.


def test_a_folder_that_holds_what_stays_stays() -> None:
    """The user put work into a folder that the call made."""
    taken = kept(1, {"d": ABSENT, "d/e": ABSENT, "d/e/f": ABSENT}, {"d": FOLDER, "d/e": FOLDER, "d/e/f": B})
    found = planned([taken], [], chosen([taken]), {"d": FOLDER, "d/e": FOLDER, "d/e/f": C})

    assert [("d", "conflict", "'d/e' in it stays"), ("d/e", "conflict", "'d/e/f' in it stays")] == [
        (each.path, each.deed, each.why) for each in found[:2]
    ]


def test_nothing_comes_back_below_what_is_no_folder_and_stays() -> None:
    """The user made a file where the call had removed a folder."""
    taken = kept(1, {"d": FOLDER, "d/f": A}, {"d": ABSENT, "d/f": ABSENT})
    found = planned([taken], [], chosen([taken]), {"d": C})

    assert [("d", "conflict"), ("d/f", "conflict")] == [(each.path, each.deed) for each in found]


def test_a_folder_and_what_was_in_it_come_back() -> None:
    """Nothing stands in the way."""
    taken = kept(1, {"d": FOLDER, "d/f": A}, {"d": ABSENT, "d/f": ABSENT})

    assert ["restore", "restore"] == [each.deed for each in planned([taken], [], chosen([taken]), {})]


@given(MANIFESTS, MANIFESTS, MANIFESTS)
def test_nothing_is_touched_that_is_not_as_the_call_left_it(before: Any, after: Any, now: Any) -> None:
    """The one rule that keeps the user's work."""
    paths = {*before, *after}
    before = {path: before.get(path, ABSENT) for path in paths}
    after = {path: after.get(path, ABSENT) for path in paths}
    found = planned([kept(1, before, after)], [], sorted(paths), now)

    assert [] == [each for each in found if each.touches and now.get(each.path, ABSENT) != after[each.path]]


# A restore that was cut off.


def test_a_path_that_was_put_back_before_the_death_is_done() -> None:
    """Also a merge, which stands in no checkpoint."""
    earlier = begun({"a": B}, {"a": D})

    assert ("unchanged", "", "restore-1 put it back") == said(one(kept(1, {"a": A}, {"a": B}), now=D, begun=earlier))


@pytest.mark.parametrize("now", [ABSENT, B])
def test_a_path_that_a_death_left_halfway_is_gone_on_with(now: PathState) -> None:
    """Where one kind cannot take another's place at once, it is gone for a moment."""
    taken, earlier = kept(1, {"a": FOLDER}, {"a": B}), begun({"a": B}, {"a": FOLDER})
    decision = one(taken, now=now, begun=earlier)

    assert ("restore", FOLDER) == (decision.deed, decision.to)


def test_a_folder_that_has_no_mode_yet_is_gone_on_with() -> None:
    """Its mode comes last."""
    taken, earlier = kept(1, {"a": FOLDER}, {"a": ABSENT}), begun({"a": ABSENT}, {"a": FOLDER})

    assert one(taken, now=PathState("folder", mode=0o700), begun=earlier).deed == "restore"


def test_what_the_user_did_after_the_death_is_kept() -> None:
    """A restore that goes on is as careful as one that begins."""
    assert one(kept(1, {"a": A}, {"a": B}), now=C, begun=begun({"a": B}, {"a": A})).deed == "conflict"


def test_a_path_that_the_cut_off_restore_did_not_have_is_decided_as_ever() -> None:
    """It touched none but its own."""
    taken, earlier = kept(1, {"a": A, "b": A}, {"a": B, "b": B}), begun({"b": B}, {"b": A})

    assert ("conflict", "restore") == (
        one(taken, now=ABSENT, begun=earlier).deed,
        one(taken, now=B, begun=earlier).deed,
    )


def test_what_was_in_hand_is_handed_in_as_it_was() -> None:
    """Only so what a death left beside a path is settled; a path that stands otherwise is taken as it stands."""
    earlier = begun({"a": B, "b": B, "m": B}, {"a": A, "b": A, "m": C}, merged=frozenset("m"))
    decisions = [
        Decision("a", "restore", ABSENT, A, B),
        Decision("b", "restore", D, A, D),
        Decision("c", "restore", B, A, B),
        Decision("e", "conflict", C, A, B),
        Decision("f", "merge", C, A, B),
    ]

    assert [
        Intent("a", B, A),
        Intent("b", D, A),
        Intent("c", B, A),
        Intent("f", C, D, merged=True),
        Intent("m", B, C, merged=True),
    ] == intents(decisions, {"f": D}, earlier)
