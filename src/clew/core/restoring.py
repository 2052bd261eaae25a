"""What a restore does with each recorded path. Its records are told in `restored`; no file is looked at here."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from clew.core.checkpoint import ABSENT, Checkpoint, Manifest, PathState, standing
from clew.core.restored import Begun, Intent

Deed = Literal["restore", "merge", "unchanged", "conflict", "unknown"]


class Decision(msgspec.Struct, frozen=True):
    """What is to become of one path.

    Attributes:
        path: Below the workspace.
        deed: `restore`: it stands as the effect left it and is put back. `merge`: it was changed since, and both
            changes are tried on one another. `unchanged`: it stands as it did before. `conflict`: somebody changed it
            since. `unknown`: nobody recorded how the effect left it. The last three are not touched.
        now: How it stands.
        to: How it stood before the effect.
        base: How the effect left it, if that is known.
        by: The later checkpoint of this run that changed it, if one did.
        why: In words, where it is not touched.
    """

    path: str
    deed: Deed
    now: PathState
    to: PathState
    base: PathState | None = None
    by: str = ""
    why: str = ""

    @property
    def touches(self) -> bool:
        """Is anything to be done?"""
        return self.deed in ("restore", "merge")


def planned(
    span: Sequence[Checkpoint], later: Sequence[Checkpoint], paths: Iterable[str], now: Manifest, *,
    begun: Begun | None = None, merge: bool = False, gone: Mapping[str, str] = {}, unseen: Mapping[str, str] = {},
) -> list[Decision]:  # fmt: skip
    """Decide for each path of a checkpoint whether it may be put back. Touches nothing.

    Args:
        span: The checkpoint that is taken back, with those after it that are taken back as well, in their order.
        later: The checkpoints of the run that come after these, in their order.
        paths: Those that are `chosen` of the span.
        now: How they stand.
        begun: A restore of the same that was cut off.
        merge: Try to merge a file that was changed since.
        gone: Contents that cannot be had, by digest, and why.
        unseen: Paths of which nobody can say how they stand, and why.

    Returns:
        One decision a path, by path.

    Source:
        DESIGN §7; contract #151, #155; cases C53 to C57, C65.
    """
    found = {path: _decide(path, span, later, now.get(path, ABSENT), begun, merge) for path in paths}
    found = {path: _without_content(decision, gone) for path, decision in found.items()}
    found |= {path: _but(found[path], "conflict", why) for path, why in unseen.items()}
    _keep_what_holds_others(found)
    return [found[path] for path in sorted(found)]


def chosen(span: Sequence[Checkpoint], named: Collection[str] = ()) -> list[str]:
    """The paths of these checkpoints that are named, or lie below one that is; all of them when none is named."""
    found = sorted({path for taken in span for path in taken.before or ()})
    return [path for path in found if is_chosen(path, named)]


def is_chosen(path: str, named: Collection[str]) -> bool:
    """Is a path one of these, or below one of them? All are when none is named."""
    return not named or any(path == each or path.startswith(f"{each}/") for each in named)


def before(checkpoint: Checkpoint, path: str) -> PathState:
    """How a path stood before the effect."""
    return (checkpoint.before or {}).get(path, ABSENT)


def left(checkpoint: Checkpoint, path: str) -> PathState | None:
    """How the effect left a path: as recorded, else as its tool said beforehand; None when neither is known.

    A file that the tool announced without a mode may have any.
    """
    if checkpoint.after is not None:
        return checkpoint.after.get(path, ABSENT)
    return None if checkpoint.expects is None else checkpoint.expects.get(path, before(checkpoint, path))


def _decide(
    path: str,
    span: Sequence[Checkpoint],
    later: Sequence[Checkpoint],
    now: PathState,
    begun: Begun | None,
    merge: bool,
) -> Decision:
    taken = [each for each in span if path in (each.before or ())]
    was, base = before(taken[0], path), as_announced(left(taken[-1], path), now)
    decision = Decision(path, "restore", now, was, base)
    if begun is not None and path in begun.wanted and now == begun.wanted[path]:
        return _but(decision, "unchanged", f"{begun.restore_id} put it back")
    if begun is not None and begun.halfway(path, now):
        return msgspec.structs.replace(decision, to=begun.wanted[path])
    how = standing(was, base, now)
    if how == "as_before":
        return _but(decision, "unchanged", "it stands as it did before")
    gap = _gap(path, taken)
    if gap:
        return _but(decision, "conflict", gap)
    # As one of the calls that are taken back found it: what is later was taken back before.
    if how == "as_left" or any(now == before(each, path) for each in taken[1:]):
        return decision
    by = changed_later(path, later)
    if by:
        return msgspec.structs.replace(_but(decision, "conflict", f"{by} changed it later"), by=by)
    if how == "unknown":
        return _but(decision, "unknown", "nobody recorded how it was left")
    if merge and base is not None and was.kind == base.kind == now.kind == "file":
        return msgspec.structs.replace(decision, deed="merge")
    return _but(decision, "conflict", _changed_how(now))


def needed(decision: Decision) -> list[str]:
    """The digests of the contents without which it cannot be done; what stands there already is not among them."""
    states = [decision.to] if decision.touches else []
    if decision.deed == "merge" and decision.base is not None:
        states.append(decision.base)
    return [state.sha256 for state in states if state.sha256 not in (None, decision.now.sha256)]


def _without_content(decision: Decision, gone: Mapping[str, str]) -> Decision:
    why = next((gone[digest] for digest in needed(decision) if digest in gone), "")
    return _but(decision, "conflict", why) if why else decision


def as_announced(announced: PathState | None, now: PathState) -> PathState | None:
    """A state that was announced without a mode, with the one that stands there."""
    if announced is None or announced.kind not in ("file", "folder") or announced.mode is not None:
        return announced
    return msgspec.structs.replace(announced, mode=now.mode)


def _but(decision: Decision, deed: Deed, why: str) -> Decision:
    return msgspec.structs.replace(decision, deed=deed, why=why)


def _gap(path: str, taken: Sequence[Checkpoint]) -> str:
    """Where somebody else changed a path between two checkpoints that are taken back together; empty if nowhere."""
    for earlier, after in pairwise(taken):
        found = before(after, path)
        untouched = found == before(earlier, path)
        if not untouched and found != as_announced(left(earlier, path), found):
            return f"somebody changed it between {earlier.checkpoint_id} and {after.checkpoint_id}"
    return ""


def changed_later(path: str, later: Sequence[Checkpoint]) -> str:
    """The last of these checkpoints whose effect changed the path, or may have; empty when none did."""
    touching = [each for each in later if path in (each.before or ()) and left(each, path) != before(each, path)]
    return touching[-1].checkpoint_id if touching else ""


def _changed_how(now: PathState) -> str:
    return "somebody removed it since" if now == ABSENT else "somebody changed it since"


def _keep_what_holds_others(found: dict[str, Decision]) -> None:
    """A folder stays while something in it stays, and nothing comes back below what stays and is no folder."""
    held: dict[str, str] = {}
    for path in sorted(found, key=lambda each: -each.count("/")):
        decision = found[path]
        if decision.touches and decision.now.kind == "folder" and decision.to.kind != "folder" and path in held:
            found[path] = _but(decision, "conflict", f"{held[path]!r} in it stays")
        if _standing_then(found[path]) != ABSENT:
            held.update(dict.fromkeys(_above(path), path))
    for path in sorted(found, key=lambda each: each.count("/")):
        decision = found[path]
        above = [found[each] for each in _above(path) if each in found]
        blocking = next((each for each in above if _standing_then(each).kind not in ("folder", "absent")), None)
        if decision.touches and decision.to != ABSENT and blocking is not None:
            found[path] = _but(decision, "conflict", f"{blocking.path!r} is no folder, and stays")


def _standing_then(decision: Decision) -> PathState:
    return decision.to if decision.touches else decision.now


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def merged_mode(base: int | None, ours: int | None, theirs: int | None) -> int | None:
    """The permission bits that two changes of a file leave it with; None when they contradict one another."""
    if ours in (base, theirs):
        return theirs
    return ours if theirs == base else None


def intents(decisions: Iterable[Decision], merges: Mapping[str, PathState], begun: Begun | None = None) -> list[Intent]:
    """What may be touched, by path.

    Of a path that an earlier restore had in hand: as that one found and wanted it, for only so what its death has left
    is settled; unless it stands as that one neither found nor wanted it, and is decided anew.

    Args:
        decisions: What was decided for each path.
        merges: How the merged ones shall stand.
        begun: The restore that was cut off.
    """
    found = {} if begun is None else {path: begun.intent(path) for path in begun.wanted}
    for decision in decisions:
        path, earlier = decision.path, found.get(decision.path)
        if decision.touches and (earlier is None or begun is None or not begun.halfway(path, decision.now)):
            found[path] = Intent(path, decision.now, merges.get(path, decision.to), decision.deed == "merge")
    return [found[path] for path in sorted(found)]
