"""What a checkpoint knows of paths: how each stood, what changed, what may be put back. No file is looked at here."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from clew.core.review import CannotTell, DidNotHappen, Happened, Verdict

PathKind = Literal["absent", "file", "folder", "link"]


class PathState(msgspec.Struct, frozen=True, omit_defaults=True, rename={"kind": "type", "size_bytes": "sizeBytes"}):
    """How one path stands; two that are equal are the same bytes, mode and kind.

    Attributes:
        kind: What stands there, itself and not what a link leads to.
        sha256: Of a file's content, which lies in the blob of this name.
        size_bytes: Of a file.
        mode: Permission bits of a file or folder; a link has none.
        target: Of a link, as it is written in it.
    """

    kind: PathKind
    sha256: str | None = None
    size_bytes: int | None = None
    mode: int | None = None
    target: str | None = None


ABSENT = PathState("absent")

Manifest = Mapping[str, PathState]
"""Paths below the workspace, parts joined by `/`, names that are not UTF-8 with surrogate escapes, and their states."""


class BadManifest(ValueError):
    """What was recorded of a checkpoint is no manifest; `why` says what is wrong with it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def manifest_as_json(manifest: Manifest) -> list[dict[str, Any]]:
    """The member `paths` or `after` of a checkpoint record, by path."""
    return [{"path": path, **msgspec.to_builtins(manifest[path])} for path in sorted(manifest)]


def read_manifest(value: object) -> dict[str, PathState]:
    """A manifest from what a record holds.

    Raises:
        BadManifest: a path is missing, leads out of the workspace or stands twice, or a state is not whole: a file
            without digest, size or mode, a link without target, anything with members of another kind.
    """
    if type(value) is not list:
        raise BadManifest("it is no list of paths")
    found: dict[str, PathState] = {}
    for entry in value:
        path, state = _read_entry(entry)
        if path in found:
            raise BadManifest(f"path {path!r} stands twice")
        found[path] = state
    return found


def _read_entry(entry: object) -> tuple[str, PathState]:
    path = entry.get("path") if type(entry) is dict else None
    if type(entry) is not dict or type(path) is not str or not is_below(path):
        raise BadManifest(f"{path!r} is no path below the workspace")
    try:
        state = msgspec.convert({name: told for name, told in entry.items() if name != "path"}, PathState)
    except msgspec.ValidationError as fault:
        raise BadManifest(f"the state of {path!r} cannot be read: {fault}") from None
    if _members(state) != _WHOLE[state.kind]:
        raise BadManifest(f"the state of {path!r} is not that of a {state.kind} path")
    return path, state


_WHOLE: dict[str, frozenset[str]] = {
    "absent": frozenset(),
    "file": frozenset({"sha256", "size_bytes", "mode"}),
    "folder": frozenset({"mode"}),
    "link": frozenset({"target"}),
}


def _members(state: PathState) -> frozenset[str]:
    told = msgspec.structs.asdict(state)
    return frozenset(name for name, value in told.items() if value is not None) - {"kind"}


def is_below(path: str) -> bool:
    """Is this a path of a manifest: relative, of whole parts, none of which leads upwards?"""
    parts = path.split("/")
    return "\0" not in path and all(part not in ("", ".", "..") for part in parts)


# What changed.


class Change(msgspec.Struct, frozen=True):
    """One path that is not as it was; `renamed` says from where its content came, and `before` is that of there."""

    path: str
    before: PathState
    after: PathState
    renamed: str | None = None


def changes(before: Manifest, after: Manifest) -> list[Change]:
    """What differs between two manifests, by path; a path that one of them does not name was absent there.

    A file that is gone and one that is new with the same bytes are one renamed file, if they are the only such pair.
    """
    paths = sorted({*before, *after})
    found = [Change(path, before.get(path, ABSENT), after.get(path, ABSENT)) for path in paths]
    found = [change for change in found if change.before != change.after]
    return _with_renames(found)


def _with_renames(found: list[Change]) -> list[Change]:
    gone, new = defaultdict[str, list[Change]](list), defaultdict[str, list[Change]](list)
    for change in found:
        if change.after == ABSENT and change.before.sha256 is not None:
            gone[change.before.sha256].append(change)
        if change.before == ABSENT and change.after.sha256 is not None:
            new[change.after.sha256].append(change)
    pairs = {ours[0]: gone[digest][0] for digest, ours in new.items() if len(ours) == len(gone[digest]) == 1}
    left = {old.path for old in pairs.values()}
    told = (
        Change(change.path, pairs[change].before, change.after, pairs[change].path) if change in pairs else change
        for change in found
    )
    return [change for change in told if change.path not in left or change.renamed is not None]


# What may be put back.

Standing = Literal["as_before", "as_left", "changed", "unknown"]


def standing(before: PathState, after: PathState | None, now: PathState) -> Standing:
    """How a recorded path stands now, which decides what a restore may do with it.

    Args:
        before: As it was before the effect.
        after: As the effect left it; None when nobody recorded that.
        now: As it stands.

    Returns:
        `as_before`: nothing is to be done, and nothing is written. `as_left`: it may be put back. `changed`: somebody
        has changed it since, so it stays as it is. `unknown`: nobody recorded how it was left, so it stays too.

    Source:
        DESIGN §7; contract #151, #155; cases C56, C57, C65.
    """
    if now == before:
        return "as_before"
    if after is None:
        return "unknown"
    return "as_left" if now == after else "changed"


def probed(before: Manifest, now: Manifest, expects: Manifest | None) -> Verdict:
    """What the files themselves say of an effect: the built-in probe of a checkpoint.

    Every path as it was: it did not happen, or changed nothing, and may start again. Every path as the tool said it
    would leave it, or as it was where the tool did not name it: it happened. What lies between cannot be told.

    Source:
        DESIGN §5, resume table.
    """
    left = {**before, **(expects or {})}
    paths = sorted(left)
    untouched = all(now.get(path, ABSENT) == before.get(path, ABSENT) for path in paths)
    done = expects is not None and all(now.get(path, ABSENT) == left[path] for path in paths)
    if untouched:
        return DidNotHappen("every path is as it was before")
    if done:
        return Happened(reason="every path is as the tool said it would leave it")
    touched = next(path for path in paths if now.get(path, ABSENT) != before.get(path, ABSENT))
    return CannotTell(f"{touched!r} is not as it was, and not all is as the tool said it would leave it")
