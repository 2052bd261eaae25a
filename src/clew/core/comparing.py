"""What a checkpoint's effect changed, path by path, and how that stands now. No file is looked at here."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew.core.checkpoint import ABSENT, Change, Checkpoint, Manifest, PathState, Standing, changes, standing
from clew.core.restoring import as_announced, before, changed_later, left


class PathDiff(msgspec.Struct, frozen=True):
    """One path of a checkpoint: how it was, how the effect left it, how it stands.

    Attributes:
        path: Below the workspace.
        before: As it was before the effect; of a renamed file, as it was under its old name.
        after: As the effect left it; None when that is not known, and then `now` is what can be compared.
        now: As it stands; None when that cannot be seen, and `unseen` says why.
        standing: `as_before`, `as_left`, `changed` by somebody since, `unknown` where nobody recorded how it was left.
        renamed: The old name of a renamed file, else empty.
        by: The later checkpoint of the run that changed it, if one did.
        unseen: Why nobody can say how it stands; empty where that is known.
    """

    path: str
    before: PathState
    after: PathState | None
    now: PathState | None
    standing: Standing
    renamed: str = ""
    by: str = ""
    unseen: str = ""

    @property
    def compared(self) -> PathState:
        """What `before` is compared with: how the effect left the path, or how it stands where that is not known."""
        return self.after if self.after is not None else self.now or ABSENT

    def as_json(self) -> dict[str, Any]:
        """The path as a program reads it."""
        states = {"before": self.before, "after": self.after, "now": self.now}
        told = {"renamedFrom": self.renamed, "by": self.by, "unseen": self.unseen}
        return {
            "path": self.path,
            **{name: msgspec.to_builtins(state) for name, state in states.items()},
            "standing": self.standing,
            **{name: value for name, value in told.items() if value},
        }


def compared(
    taken: Checkpoint, later: Sequence[Checkpoint], now: Manifest, unseen: Mapping[str, str] = {}
) -> tuple[PathDiff, ...]:
    """What one checkpoint's effect changed, by path; a path that it left as it was is not among them.

    Args:
        taken: The checkpoint.
        later: Those of the run that come after it, in their order.
        now: How its paths stand; one that is not named is absent.
        unseen: Paths of which nobody can say how they stand, and why.
    """
    after = {path: left(taken, path) or now.get(path, ABSENT) for path in taken.before or ()}
    return tuple(_compared(change, taken, later, now, unseen) for change in changes(taken.before or {}, after))


def _compared(
    change: Change, taken: Checkpoint, later: Sequence[Checkpoint], now: Manifest, unseen: Mapping[str, str]
) -> PathDiff:
    path, known = change.path, left(taken, change.path)
    stands = None if path in unseen else now.get(path, ABSENT)
    how = "unknown" if stands is None else standing(before(taken, path), as_announced(known, stands), stands)
    by = changed_later(path, later)
    return PathDiff(path, change.before, known, stands, how, change.renamed or "", by, unseen.get(path, ""))
