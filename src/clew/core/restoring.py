"""What a restore does with each recorded path, and what is recorded of it. No file is looked at here."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal

import msgspec

from clew.core.calls import Illegal
from clew.core.checkpoint import (
    ABSENT,
    BadManifest,
    Checkpoint,
    Manifest,
    PathState,
    is_below,
    read_manifest,
    standing,
)

Event = dict[str, Any]
Deed = Literal["restore", "merge", "unchanged", "conflict", "unknown"]
Outcome = Literal["restored", "merged", "unchanged", "conflict", "unknown", "failed"]

OUTCOMES: Final = ("restored", "merged", "unchanged", "conflict", "unknown", "failed")


class Begun(msgspec.Struct, frozen=True):
    """A restore that began and whose end nobody recorded: its paths may stand as before it, or as it wanted them.

    Attributes:
        restore_id: `restore-1`, `restore-2` … over the run.
        checkpoint_id: What was to be put back.
        through: The last checkpoint that was to be taken back with it; empty when it was that one alone.
        found: How the paths stood when it began.
        wanted: How they were to stand.
        merged: Paths whose wanted content is a merge.
    """

    restore_id: str
    checkpoint_id: str
    through: str
    found: Manifest
    wanted: Manifest
    merged: frozenset[str] = frozenset()

    def halfway(self, path: str, now: PathState) -> bool:
        """May this be what a death amid this path has left? Where it is gone, it may stand beside itself."""
        if path not in self.wanted:
            return False
        return now in (self.found[path], ABSENT) or now.kind == self.wanted[path].kind == "folder"

    def intent(self, path: str) -> "Intent":
        """What it wanted with one of its paths."""
        return Intent(path, self.found[path], self.wanted[path], path in self.merged)


class Restores(msgspec.Struct, frozen=True):
    """What a run state knows of restores: how many began, and the one that nobody ended."""

    count: int = 0
    begun: Begun | None = None


NO_RESTORES: Final = Restores()


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
    if how == "as_left":
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


# What is recorded.


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one path, or is to.

    `why` says in words what was found, `by` names the later checkpoint that is in the way, `code` is that of the error.
    """

    path: str
    outcome: Outcome
    why: str = ""
    by: str = ""
    code: str = ""


class Intent(msgspec.Struct, frozen=True):
    """One path that may be touched: as it must be found, as it shall stand, and whether that is a merge."""

    path: str
    found: PathState
    wanted: PathState
    merged: bool = False

    def as_json(self) -> Event:
        """One of the member `paths` of a restore that starts."""
        states = {"from": msgspec.to_builtins(self.found), "to": msgspec.to_builtins(self.wanted)}
        return {"path": self.path, **states} | ({"merged": True} if self.merged else {})


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


def restore_started(
    restore_id: str, checkpoint_id: str, wanted: Iterable[Intent], *, by: str, reason: str, through: str = "",
    goes_on: str = "",
) -> Event:  # fmt: skip
    """What is about to be put back, path by path: recorded before the first of them is touched."""
    return {
        "type": "restored",
        "state": "started",
        "restoreId": restore_id,
        "checkpointId": checkpoint_id,
        **({"through": through} if through else {}),
        **({"goesOn": goes_on} if goes_on else {}),
        "by": by,
        "reason": reason,
        "paths": [intent.as_json() for intent in wanted],
    }


def restore_ended(begun: Begun, told: Iterable[Told], *, by: str, reason: str) -> Event:
    """What became of every path of a restore."""
    return {
        "type": "restored",
        "state": "ended",
        "restoreId": begun.restore_id,
        "checkpointId": begun.checkpoint_id,
        **({"through": begun.through} if begun.through else {}),
        "by": by,
        "reason": reason,
        "paths": [msgspec.to_builtins(each) for each in told],
    }


def take_restored(known: Restores, event: Event) -> Restores:
    """What a run state knows of restores behind one more event.

    Raises:
        Illegal: a restore begins while another is unended and it does not go on with that one, one ends that did not
            begin, or what it says cannot be read.
    """
    restore_id, checkpoint_id = _text(event, "restoreId"), _text(event, "checkpointId")
    _text(event, "by"), _text(event, "reason")
    if event.get("state") == "started":
        return _started(known, event, restore_id, checkpoint_id)
    begun = known.begun
    if event.get("state") != "ended" or begun is None:
        raise Illegal(f"{restore_id!r} ends, and did not begin")
    if (restore_id, checkpoint_id) != (begun.restore_id, begun.checkpoint_id):
        raise Illegal(f"{restore_id!r} ends while {begun.restore_id!r} is under way")
    outcomes = {_path(entry): entry.get("outcome") for entry in _entries(event)}
    if any(outcome not in OUTCOMES for outcome in outcomes.values()) or not {*begun.wanted} <= {*outcomes}:
        raise Illegal(f"{restore_id!r} does not say what became of each path")
    return Restores(known.count)


def _started(known: Restores, event: Event, restore_id: str, checkpoint_id: str) -> Restores:
    if restore_id != f"restore-{known.count + 1}":
        raise Illegal(f"{restore_id!r} follows {known.count} others")
    begun = known.begun
    if event.get("goesOn", "") != ("" if begun is None else begun.restore_id):
        raise Illegal(f"{restore_id!r} does not go on with what was cut off")
    if begun is not None and checkpoint_id != begun.checkpoint_id:
        raise Illegal(f"{restore_id!r} is of another checkpoint than the one that was cut off")
    through = event.get("through", "")
    if type(through) is not str:
        raise Illegal(f"{restore_id!r} does not say through which checkpoint it goes")
    entries = _entries(event)
    found, wanted = (_states(entries, member) for member in ("from", "to"))
    merged = frozenset(_path(entry) for entry in entries if entry.get("merged") is True)
    return Restores(known.count + 1, Begun(restore_id, checkpoint_id, through, found, wanted, merged))


def _entries(event: Event) -> list[Event]:
    entries = event.get("paths")
    if type(entries) is not list or not entries or any(type(entry) is not dict for entry in entries):
        raise Illegal("a restore names no paths")
    return entries


def _states(entries: Sequence[Event], member: str) -> Mapping[str, PathState]:
    listed = [{"path": _path(entry), **_object(entry, member)} for entry in entries]
    try:
        return read_manifest(listed)
    except BadManifest as fault:
        raise Illegal(f"what a restore names cannot be read: {fault.why}") from None


def _object(entry: Event, member: str) -> Event:
    state = entry.get(member)
    if type(state) is not dict or "path" in state:
        raise Illegal(f"a restore does not say how a path stands: {member}")
    return state


def _path(entry: Event) -> str:
    path = entry.get("path")
    if type(path) is not str or not is_below(path):
        raise Illegal(f"{path!r} is no path below the workspace")
    return path


def _text(event: Event, name: str) -> str:
    value = event.get(name)
    if type(value) is not str or not value.strip():
        raise Illegal(f"restored has no {name}")
    return value
