"""Manifests, what changed between two of them, and what of it may be put back."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.checkpoint import (
    ABSENT,
    BadManifest,
    PathState,
    changes,
    holding,
    is_below,
    manifest_as_json,
    probed,
    read_checkpoint,
    read_manifest,
    standing,
)
from clew.core.review import CannotTell, DidNotHappen, Happened

DIGESTS = [letter * 64 for letter in "abc"]
FILES = st.builds(
    PathState,
    kind=st.just("file"),
    sha256=st.sampled_from(DIGESTS),
    size_bytes=st.integers(0, 9),
    mode=st.sampled_from([0o600, 0o644, 0o755]),
)
FOLDERS = st.builds(PathState, kind=st.just("folder"), mode=st.sampled_from([0o700, 0o755]))
LINKS = st.builds(PathState, kind=st.just("link"), target=st.sampled_from(["a", "../out", ""]))
STATES = st.just(ABSENT) | FILES | FOLDERS | LINKS
PATHS = st.sampled_from(["a", "b", "c", "src/a.py", "src/b.py", "name\udcff"])
MANIFESTS = st.dictionaries(PATHS, STATES, max_size=5)

OLD = PathState("file", DIGESTS[0], 3, 0o644)
NEW = PathState("file", DIGESTS[1], 4, 0o644)
FOLDER = PathState("folder", mode=0o755)


# Records.


@given(MANIFESTS)
def test_a_manifest_comes_back_as_it_was(manifest: dict[str, PathState]) -> None:
    """A restore rests on nothing else, names that are not UTF-8 and absence included."""
    assert manifest == read_manifest(manifest_as_json(manifest))


def test_a_manifest_is_written_so_that_it_can_be_read() -> None:
    """In the order of the paths, and without members that say nothing."""
    written = manifest_as_json({"b": PathState("link", target="a"), "a": OLD, "c": ABSENT})

    assert [
        {"path": "a", "type": "file", "sha256": DIGESTS[0], "sizeBytes": 3, "mode": 0o644},
        {"path": "b", "type": "link", "target": "a"},
        {"path": "c", "type": "absent"},
    ] == written


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "no list"),
        (["a"], "no path below"),
        ([{"type": "absent"}], "no path below"),
        ([{"path": 1, "type": "absent"}], "no path below"),
        ([{"path": "../a", "type": "absent"}], "no path below"),
        ([{"path": "/a", "type": "absent"}], "no path below"),
        ([{"path": "a"}], "cannot be read"),
        ([{"path": "a", "type": "socket"}], "cannot be read"),
        ([{"path": "a", "type": "file", "sha256": 1, "sizeBytes": 3, "mode": 420}], "cannot be read"),
        ([{"path": "a", "type": "file", "sizeBytes": 3, "mode": 420}], "not that of a file"),
        ([{"path": "a", "type": "file", "sha256": "a", "sizeBytes": 3}], "not that of a file"),
        ([{"path": "a", "type": "absent", "mode": 420}], "not that of a absent"),
        ([{"path": "a", "type": "link"}], "not that of a link"),
        ([{"path": "a", "type": "folder"}], "not that of a folder"),
        ([{"path": "a", "type": "absent"}, {"path": "a", "type": "absent"}], "stands twice"),
    ],
)
def test_what_is_no_manifest_is_refused(value: Any, why: str) -> None:
    """A restore that guessed would write into files of the user's."""
    with pytest.raises(BadManifest) as refused:
        read_manifest(value)

    assert why in refused.value.why


@pytest.mark.parametrize("path", ["", ".", "..", "a/..", "../a", "/a", "a//b", "a/./b", "a/", "a\0b"])
def test_what_does_not_lie_below_is_no_path(path: str) -> None:
    """Nothing outside of the workspace is ever named, so nothing there is ever written."""
    assert not is_below(path)


# What changed.


@given(MANIFESTS, MANIFESTS)
def test_the_changes_lead_from_one_manifest_to_the_other(
    before: dict[str, PathState], after: dict[str, PathState]
) -> None:
    """What a person is shown is all that happened, and nothing else."""
    reached = dict(before)
    for change in changes(before, after):
        if change.renamed is not None:
            reached[change.renamed] = ABSENT
        reached[change.path] = change.after
    paths = {*before, *after}

    assert {path: after.get(path, ABSENT) for path in paths} == {path: reached.get(path, ABSENT) for path in paths}


@given(MANIFESTS)
def test_nothing_changes_between_equals(manifest: dict[str, PathState]) -> None:
    """A file that was only read, or written with the bytes that it had, is not in the list."""
    assert [] == changes(manifest, dict(manifest))


def test_a_renamed_file_is_one_change() -> None:
    """Its bytes are shown to have moved, not to be lost and found."""
    found = changes({"a": OLD, "b": ABSENT}, {"a": ABSENT, "b": OLD})

    assert [("b", "a", OLD, OLD)] == [(change.path, change.renamed, change.before, change.after) for change in found]


def test_a_renamed_file_with_another_mode_is_still_the_same_file() -> None:
    """The bytes tell it; the mode is shown beside."""
    now = PathState("file", OLD.sha256, OLD.size_bytes, 0o755)

    assert ["a"] == [change.renamed for change in changes({"a": OLD}, {"b": now})]


def test_copies_are_not_guessed_to_be_renamed() -> None:
    """Of two that are gone and one that is new with the same bytes, nobody knows which one moved."""
    found = changes({"a": OLD, "b": OLD}, {"c": OLD})

    assert [("a", None), ("b", None), ("c", None)] == [(change.path, change.renamed) for change in found]


# What may be put back.


@pytest.mark.parametrize(
    ("before", "after", "now", "expected"),
    [
        (OLD, NEW, OLD, "as_before"),
        (OLD, None, OLD, "as_before"),
        (OLD, NEW, NEW, "as_left"),
        (ABSENT, NEW, NEW, "as_left"),
        (OLD, ABSENT, ABSENT, "as_left"),
        (OLD, NEW, ABSENT, "changed"),
        (OLD, NEW, PathState("file", NEW.sha256, 4, 0o600), "changed"),
        (ABSENT, NEW, OLD, "changed"),
        (OLD, None, NEW, "unknown"),
    ],
)
def test_only_what_the_effect_left_may_be_put_back(
    before: PathState, after: PathState | None, now: PathState, expected: str
) -> None:
    """The work of whoever changed it since is never lost (#151, #155; C56, C57), nor is an equal file written (C65)."""
    assert expected == standing(before, after, now)


@given(STATES, st.none() | STATES, STATES)
def test_what_somebody_changed_since_is_never_written(
    before: PathState, after: PathState | None, now: PathState
) -> None:
    """Whatever else holds: a restore writes where the path stands as the effect left it, and nowhere else."""
    assert ("as_left" == standing(before, after, now)) == (now not in (before, None) and now == after)


@pytest.mark.parametrize(
    ("before", "expects", "now", "expected"),
    [
        ({"a": OLD}, {"a": NEW}, {"a": OLD}, DidNotHappen),
        ({"a": OLD}, None, {"a": OLD}, DidNotHappen),
        ({"a": ABSENT}, {"a": NEW}, {}, DidNotHappen),
        ({"a": OLD}, {"a": OLD}, {"a": OLD}, DidNotHappen),
        ({"a": OLD}, {"a": NEW}, {"a": NEW}, Happened),
        ({"a": OLD}, {"a": ABSENT}, {}, Happened),
        ({"a": OLD, "b": OLD}, {"a": NEW}, {"a": NEW, "b": OLD}, Happened),
        ({"a": OLD, "b": OLD}, {"a": NEW, "b": NEW}, {"a": NEW, "b": OLD}, CannotTell),
        ({"a": OLD}, None, {"a": NEW}, CannotTell),
        ({"a": OLD}, {"a": NEW}, {}, CannotTell),
    ],
)
def test_the_files_themselves_are_asked(
    before: dict[str, PathState], expects: dict[str, PathState] | None, now: dict[str, PathState], expected: type
) -> None:
    """As it was: did not happen. As it was to be left: happened. Half of it: a person looks."""
    assert expected is type(probed(before, now, expects))


@given(MANIFESTS, MANIFESTS, st.none() | MANIFESTS)
def test_a_probe_of_files_never_claims_what_they_do_not_show(
    before: dict[str, PathState], now: dict[str, PathState], expects: dict[str, PathState] | None
) -> None:
    """Happened only if every path is as announced, did not happen only if every path is as it was."""
    left = {**before, **(expects or {})}
    as_left = all(now.get(path, ABSENT) == left.get(path, ABSENT) for path in {*left, *now})
    as_before = all(now.get(path, ABSENT) == before.get(path, ABSENT) for path in {*left, *now})
    verdict = probed(before, now, expects)

    assert as_before == isinstance(verdict, DidNotHappen)
    assert (as_left and expects is not None and not as_before) == isinstance(verdict, Happened)


# The built-in probe, where the tool does not know the mode.


@pytest.mark.parametrize(
    ("now", "wanted", "happened"),
    [
        (NEW, PathState("file", DIGESTS[1], 4), True),
        (PathState("file", DIGESTS[1], 4, 0o600), PathState("file", DIGESTS[1], 4), True),
        (OLD, PathState("file", DIGESTS[1], 4), False),
        (PathState("folder", mode=0o755), PathState("folder"), True),
        (PathState("file", DIGESTS[1], 4, 0o600), NEW, False),
    ],
)
def test_a_mode_that_nobody_announced_does_not_matter(now: PathState, wanted: PathState, happened: bool) -> None:
    """The machine takes bits off the mode of what is new; the tool cannot know which."""
    assert happened == isinstance(probed({"a": ABSENT}, {"a": now}, {"a": wanted}), Happened)


# Both records of a checkpoint.

KEPT: dict[str, Any] = {
    "checkpointId": "k1", "stepId": "edit-1", "toolCallId": "c1", "idempotencyKey": "r:edit-1:c1", "attempt": 1,
    "tool": "edit", "timestamp": "t", "reversible": True, "paths": manifest_as_json({"a": OLD}),
}  # fmt: skip
LEFT: dict[str, Any] = {
    "checkpointId": "k1", "idempotencyKey": "r:edit-1:c1", "after": manifest_as_json({"a": NEW}),
}  # fmt: skip
WHOLE = {"sha256": "c" * 64, "sizeBytes": 9, "count": 2}


def test_a_checkpoint_is_read_from_both_of_its_records() -> None:
    """A restore rests on nothing else."""
    found = read_checkpoint(KEPT, LEFT)

    assert ({"a": OLD}, {"a": NEW}, None, msgspec.UNSET, ()) == (
        found.before, found.after, found.expects, found.result, found.not_covered,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"checkpointId": ""}, "no checkpointId"),
        ({"stepId": 7}, "no stepId"),
        ({"attempt": 0}, "its attempt is 0"),
        ({"attempt": True}, "its attempt is True"),
        ({"paths": None}, "either paths or the manifest"),
        ({"manifest": WHOLE}, "either paths or the manifest"),
        ({"paths": None, "manifest": {"sha256": 7}}, "its manifest cannot be read"),
        ({"expects": 7}, "no list"),
        ({"paths": [{"path": "a", "type": "folder"}]}, "not that of a folder"),
    ],
)
def test_a_first_record_that_is_not_whole_is_no_checkpoint(members: dict[str, Any], why: str) -> None:
    """#157: what cannot be trusted whole is not used in part."""
    with pytest.raises(BadManifest) as caught:
        read_checkpoint({**KEPT, **members})

    assert why in caught.value.why


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"checkpointId": "k2"}, "its second record is of 'k2'"),
        ({"idempotencyKey": "k"}, "its second record is of 'k'"),
        ({"after": None}, "no list"),
        ({"after": []}, "other paths than it began with"),
        ({"after": [{"path": "a", "type": "absent"}, {"path": "b", "type": "absent"}]}, "other paths than it began"),
        ({"notCovered": 7}, "its notCovered cannot be read"),
    ],
)
def test_a_second_record_that_does_not_fit_is_refused(members: dict[str, Any], why: str) -> None:
    """#157: two halves of two checkpoints would put back what never was."""
    with pytest.raises(BadManifest) as caught:
        read_checkpoint(KEPT, {**LEFT, **members})

    assert why in caught.value.why


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({"a": OLD}, ["a"]),
        ({"d": FOLDER, "d/a": OLD}, ["d", "d/a"]),
        ({"d": ABSENT, "d/e": ABSENT, "d/e/a": ABSENT}, ["d/e/a"]),
        ({"d": ABSENT}, ["d"]),
    ],
)
def test_a_folder_counts_with_what_is_in_it_unless_it_is_only_on_the_way(
    manifest: dict[str, PathState], expected: list[str]
) -> None:
    """Who names a folder means all of it; who names a file in a folder that is to be made means that file."""
    assert expected == holding(manifest)


def test_what_a_call_made_in_its_folder_was_absent_before() -> None:
    """Its list is made when the call is over, for nobody could name it before."""
    first = {**KEPT, "paths": manifest_as_json({"d": FOLDER})}
    second = {**KEPT, "after": manifest_as_json({"d": FOLDER, "d/new": NEW})}
    found = read_checkpoint(first, second)

    assert ({"d": FOLDER, "d/new": ABSENT}, {"d": FOLDER, "d/new": NEW}) == (found.before, found.after)


def test_a_folder_in_which_something_is_new_is_not_as_it_was() -> None:
    """A call that died in the middle of a folder is not begun again as if it had done nothing."""
    verdict = probed({"d": FOLDER}, {"d": FOLDER, "d/new": NEW}, {"d": FOLDER})

    assert isinstance(verdict, CannotTell)


def test_a_whole_workspace_has_its_paths_in_the_second_record() -> None:
    """Before, nobody knew which they would be."""
    first = {name: value for name, value in KEPT.items() if name != "paths"} | {"manifest": WHOLE}
    found = read_checkpoint(first, {**LEFT, "paths": manifest_as_json({"a": OLD})})

    assert (None, {"a": OLD}, {"a": NEW}) == (read_checkpoint(first).before, found.before, found.after)
