"""What a checkpoint knows of paths: how each stood, what changed, what may be put back. No file is looked at here."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, Literal

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


def read_manifest(value: object, *, any_mode: bool = False) -> dict[str, PathState]:
    """A manifest from what a record holds; with `any_mode` a file or folder may stand in it without its mode.

    Raises:
        BadManifest: a path is missing, leads out of the workspace or stands twice, or a state is not whole: a file
            without digest, size or mode, a link without target, anything with members of another kind.
    """
    if type(value) is not list:
        raise BadManifest("it is no list of paths")
    found: dict[str, PathState] = {}
    for entry in value:
        path, state = _read_entry(entry, _LOOSE if any_mode else _WHOLE)
        if path in found:
            raise BadManifest(f"path {path!r} stands twice")
        found[path] = state
    return found


def _read_entry(entry: object, members: Mapping[str, tuple[frozenset[str], ...]]) -> tuple[str, PathState]:
    path = entry.get("path") if type(entry) is dict else None
    if type(entry) is not dict or type(path) is not str or not is_below(path):
        raise BadManifest(f"{path!r} is no path below the workspace")
    try:
        state = msgspec.convert({name: told for name, told in entry.items() if name != "path"}, PathState)
    except msgspec.ValidationError as fault:
        raise BadManifest(f"the state of {path!r} cannot be read: {fault}") from None
    if _members(state) not in members[state.kind]:
        raise BadManifest(f"the state of {path!r} is not that of a {state.kind} path")
    return path, state


_WHOLE: Final[dict[str, tuple[frozenset[str], ...]]] = {
    "absent": (frozenset(),),
    "file": (frozenset({"sha256", "size_bytes", "mode"}),),
    "folder": (frozenset({"mode"}),),
    "link": (frozenset({"target"}),),
}
_LOOSE: Final = {kind: (whole[0], whole[0] - {"mode"}) for kind, whole in _WHOLE.items()}


def _members(state: PathState) -> frozenset[str]:
    told = msgspec.structs.asdict(state)
    return frozenset(name for name, value in told.items() if value is not None) - {"kind"}


def is_below(path: str) -> bool:
    """Is this a path of a manifest: relative, of whole parts, none of which leads upwards?"""
    parts = path.split("/")
    return "\0" not in path and all(part not in ("", ".", "..") for part in parts)


def holding(manifest: Manifest) -> list[str]:
    """The paths whose folder, if one stands there, counts with all that is in it.

    Those that were named; a folder that was only made on the way to another of these paths counts by itself.
    """
    on_the_way = {above for path in manifest for above in _above(path)}
    return [path for path in sorted(manifest) if manifest[path].kind == "folder" or path not in on_the_way]


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


# Records.


class Whole(msgspec.Struct, frozen=True, rename={"size_bytes": "sizeBytes"}):
    """The manifest of a whole workspace: a blob of that many bytes, of so many paths."""

    sha256: str
    size_bytes: int
    count: int


class Checkpoint(msgspec.Struct, frozen=True):
    """One checkpoint, as its records tell it.

    Attributes:
        checkpoint_id: `k1`, `k2` … over the run.
        before: How each path stood before the attempt, what lay in a folder too. Of a whole workspace: only of what
            the attempt changed, and None as long as nobody recorded that.
        expects: How the tool said that it would leave them; None when it did not say. A file without a mode may have
            any.
        result: What the tool said that it would return then; UNSET when it did not say.
        after: How the attempt left each path; None when nobody recorded that.
        whole: The manifest of the whole workspace before the attempt, where no paths were declared.
        reversible: May it be put back? False where nothing of it is kept.
        not_covered: What of the workspace, or of a folder that was named, is not in it, as `core.cover` tells it:
            `why`, `path`, `pattern`, `count`.
    """

    checkpoint_id: str
    step_id: str
    call_id: str
    key: str
    attempt: int
    tool: str
    at: str
    reversible: bool
    before: Manifest | None
    expects: Manifest | None = None
    result: Any = msgspec.UNSET
    after: Manifest | None = None
    whole: Whole | None = None
    not_covered: tuple[dict[str, Any], ...] = ()


class CheckpointState(msgspec.Struct, frozen=True, gc=False):
    """One checkpoint, folded: where its records stand, not what is in them.

    Attributes:
        sequence: Of its first record; its `started` is the next one.
        position: Of its first record in the journal, in bytes.
        started: Its attempt has opened. One that has not counts for nothing: a death came between.
        after: The position of its second record; 0 while there is none.
        whole: It is of the whole workspace.
        reversible: May it be put back?
    """

    checkpoint_id: str
    step_id: str
    attempt: int
    sequence: int
    position: int
    started: bool = False
    after: int = 0
    whole: bool = False
    reversible: bool = True


def read_checkpoint(payload: Mapping[str, Any], left: Mapping[str, Any] | None = None) -> Checkpoint:
    """A checkpoint from the payloads of its first record and, if there is one, its second.

    Raises:
        BadManifest: a member is missing or of another kind than it must be, or the two are not of one checkpoint.
    """
    paths, expects = payload.get("paths"), payload.get("expects")
    whole = _converted(payload["manifest"], Whole, "manifest") if "manifest" in payload else None
    if (paths is None) == (whole is None):
        raise BadManifest("it has either paths or the manifest of a whole workspace")
    found = Checkpoint(
        checkpoint_id=_text(payload, "checkpointId"),
        step_id=_text(payload, "stepId"),
        call_id=_text(payload, "toolCallId"),
        key=_text(payload, "idempotencyKey"),
        attempt=_attempt(payload),
        tool=_text(payload, "tool"),
        at=_text(payload, "timestamp"),
        reversible=payload.get("reversible") is True,
        before=None if whole is not None else read_manifest(paths),
        expects=None if expects is None else read_manifest(expects, any_mode=True),
        result=payload.get("expectedResult", msgspec.UNSET),
        whole=whole,
        not_covered=_not_covered(payload),
    )
    return found if left is None else _left(found, left)


def _left(found: Checkpoint, left: Mapping[str, Any]) -> Checkpoint:
    """The checkpoint with what its second record adds."""
    for name, known in (("checkpointId", found.checkpoint_id), ("idempotencyKey", found.key)):
        if left.get(name) != known:
            raise BadManifest(f"its second record is of {left.get(name)!r}")
    after, before = read_manifest(left.get("after")), found.before
    if before is None:
        before = read_manifest(left.get("paths"))
    holders = frozenset(holding(before)) if found.whole is None else frozenset()
    made = [path for path in after if path not in before and not holders.isdisjoint(_above(path))]
    before = {**before, **dict.fromkeys(made, ABSENT)}
    if before.keys() != after.keys():
        raise BadManifest("it was left with other paths than it began with")
    missing = _not_covered(left) or found.not_covered
    return msgspec.structs.replace(found, before=before, after=after, not_covered=missing)


def check_unkept(after: Manifest, unkept: object) -> None:
    """`BadManifest` unless these are paths of files that an attempt has left; None is none of them."""
    wanted = [] if unkept is None else _converted(unkept, list[str], "unkept")
    for path in wanted:
        if after.get(path, ABSENT).sha256 is None:
            raise BadManifest(f"its content of {path!r} was not kept, and no file was left there")


def _not_covered(payload: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    return tuple(_converted(payload.get("notCovered", ()), tuple[dict[str, Any], ...], "notCovered"))


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    if type(value) is not str or not value:
        raise BadManifest(f"it has no {name}")
    return value


def _attempt(payload: Mapping[str, Any]) -> int:
    value = payload.get("attempt")
    if type(value) is not int or value < 1:
        raise BadManifest(f"its attempt is {value!r}")
    return value


def _converted(value: object, into: Any, name: str) -> Any:
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as fault:
        raise BadManifest(f"its {name} cannot be read: {fault}") from None


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
    # What is new in a folder that was named is no part of how the tool said it would leave it.
    paths = sorted({*left, *now})
    untouched = all(now.get(path, ABSENT) == before.get(path, ABSENT) for path in paths)
    done = expects is not None and all(_fits(now.get(path, ABSENT), left.get(path, ABSENT)) for path in paths)
    if untouched:
        return DidNotHappen("every path is as it was before")
    if done:
        return Happened(reason="every path is as the tool said it would leave it")
    touched = next(path for path in paths if now.get(path, ABSENT) != before.get(path, ABSENT))
    return CannotTell(f"{touched!r} is not as it was, and not all is as the tool said it would leave it")


def _fits(now: PathState, wanted: PathState) -> bool:
    """Does it stand as it was said it would? Where no mode was said, any is right."""
    return now == wanted or (
        wanted.mode is None and wanted.kind in ("file", "folder") and msgspec.structs.replace(now, mode=None) == wanted
    )
