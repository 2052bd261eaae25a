"""What a run's checkpoints hold, and how their paths stand now: for `diff` and for `restore`. Touches nothing."""

import hashlib
from collections.abc import Iterator

import msgspec

from clew.core.checkpoint import (
    ABSENT,
    BadManifest,
    Checkpoint,
    CheckpointState,
    PathState,
)
from clew.core.comparing import PathDiff, compared
from clew.core.cover import decode_cover, lost, touched
from clew.core.folding import fold
from clew.core.ids import check_id
from clew.core.state import RunState
from clew.errors import ClewError, NotFound
from clew.runtime.checkpoint import checkpoint_at, stand_each, stand_now
from clew.runtime.opening import HomeParts
from clew.runtime.shelves import why_missing
from clew.stores.base import Workspace


class Difference(msgspec.Struct, frozen=True):
    """What one checkpoint's effect changed. `workspace` and `place` are where contents are read from."""

    checkpoint: Checkpoint
    paths: tuple[PathDiff, ...]
    place: HomeParts
    workspace: Workspace
    run_id: str

    def content(self, path: str, state: PathState) -> bytes | None:
        """The bytes of a file in one of its states; None where they are not kept and do not stand there any more."""
        return content_of(self.place, self.workspace, path, state)

    def shown(self, path: str, state: PathState) -> bytes | str | None:
        """The same, or why they are not to be had: pruned, and when, missing or damaged."""
        found = self.content(path, state)
        return found if found is not None or state.sha256 is None else why_gone(self.place, self.run_id, state.sha256)


def workspace_of(place: HomeParts, state: RunState) -> Workspace:
    """The workspace that a run recorded."""
    return place.workspaces(str(place.base / str(state.start.get("workspace", "."))))


def read_kept(place: HomeParts, state: RunState, known: CheckpointState) -> Checkpoint:
    """A checkpoint as its records tell it."""
    return checkpoint_at(place.store, state, known.position, known.after)


def unrolled(place: HomeParts, workspace: Workspace, taken: Checkpoint) -> Checkpoint:
    """A checkpoint whose second record is missing. Of a whole workspace: every path that is not as it was.

    Who changed it, nobody knows. As it is when its manifest cannot be read.
    """
    if taken.whole is None and taken.after is None:
        return _with_what_is_new(workspace, taken)
    if taken.before is not None or taken.whole is None:
        return taken
    try:
        was = decode_cover(place.blobs.get(taken.whole.sha256))
        now = workspace.cover()
        found = touched(was, now, stand_each(workspace, lost(was, now))[0])
    except (ClewError, BadManifest):
        return taken
    return msgspec.structs.replace(taken, before=found.paths)


def _with_what_is_new(workspace: Workspace, taken: Checkpoint) -> Checkpoint:
    """With what is new in the folders among its paths, whoever made it."""
    before = taken.before or {}
    try:
        new = stand_now(workspace, before).keys() - before.keys()
    except ClewError:
        return taken
    return msgspec.structs.replace(taken, before={**before, **dict.fromkeys(sorted(new), ABSENT)})


def checkpoints_of(state: RunState) -> list[CheckpointState]:
    """The checkpoints of attempts that have started, in their order: the others count for nothing."""
    return [known for known in state.checkpoints.values() if known.started]


def find_checkpoint(state: RunState, name: str) -> int:
    """Which of `checkpoints_of` is meant.

    Raises:
        UsageError: `invalid_checkpoint_id`. NotFound: `checkpoint_not_found`.
    """
    check_id(name, "checkpoint")
    names = [known.checkpoint_id for known in checkpoints_of(state)]
    if name in names:
        return names.index(name)
    said = f"it has {', '.join(names[:20])}{' …' if len(names) > 20 else ''}" if names else "it has none"
    raise NotFound(
        f"run {state.run_id!r} has no checkpoint {name!r}; {said}",
        code="checkpoint_not_found",
        next=f"See what was changed with `clew diff {state.run_id}`.",
        run=state.run_id,
        checkpoint=name,
    )


def diff_run(place: HomeParts, run_id: str, name: str | None) -> Iterator[Difference]:
    """What each checkpoint's effect changed, or one's; nothing is touched.

    Raises:
        NotFound: `unknown_run`, `checkpoint_not_found`. UsageError: `invalid_checkpoint_id`. Corrupt.
    """
    state = fold(place.store.read(run_id), run_id)
    known = checkpoints_of(state)
    chosen = range(len(known)) if name is None else [find_checkpoint(state, name)]
    workspace = workspace_of(place, state)
    kept = {at: read_kept(place, state, known[at]) for at in range(min(chosen, default=0), len(known))}
    for at in chosen:
        later = [each for number, each in kept.items() if number > at]
        taken = unrolled(place, workspace, kept[at])
        now, unseen = stand_each(workspace, taken.before or ())
        yield Difference(taken, compared(taken, later, now, unseen), place, workspace, run_id)


def why_gone(place: HomeParts, run_id: str, sha256: str) -> str:
    """Why a content cannot be had, in words; empty when it can."""
    try:
        for _ in place.blobs.pieces(sha256):
            pass
    except NotFound as fault:
        return why_missing(place.upkeep, run_id, sha256, fault).message
    except ClewError as fault:
        return fault.message
    return ""


def content_of(place: HomeParts, workspace: Workspace, path: str, state: PathState) -> bytes | None:
    """The bytes of a file in this state: as they are kept, or as they stand there."""
    if state.sha256 is None or state.size_bytes is None:
        return None
    try:
        return place.blobs.get(state.sha256)
    except ClewError:
        return standing_content(workspace, path, state)


def standing_content(workspace: Workspace, path: str, state: PathState) -> bytes | None:
    """The bytes that stand under a path, if they are those of this state."""
    try:
        data = workspace.read(path, (state.size_bytes or 0) + 1).data
    except ClewError:
        return None
    return data if hashlib.sha256(data).hexdigest() == state.sha256 else None
