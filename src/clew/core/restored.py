"""What is recorded of a restore: what it is about to touch, what became of it, what was cut off. Decides nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from clew.core.calls import Illegal
from clew.core.checkpoint import ABSENT, BadManifest, Manifest, PathState, is_below, read_manifest
from clew.errors import Refused

Event = dict[str, Any]
Outcome = Literal["restored", "merged", "unchanged", "conflict", "unknown", "failed"]

OUTCOMES: Final = ("restored", "merged", "unchanged", "conflict", "unknown", "failed")


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


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one path, or is to.

    `why` says in words what was found, `by` names the later checkpoint that is in the way, `code` is that of the error.
    """

    path: str
    outcome: Outcome
    why: str = ""
    by: str = ""
    code: str = ""


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

    def intent(self, path: str) -> Intent:
        """What it wanted with one of its paths."""
        return Intent(path, self.found[path], self.wanted[path], path in self.merged)


class Restores(msgspec.Struct, frozen=True):
    """What a run state knows of restores: how many began, and the one that nobody ended."""

    count: int = 0
    begun: Begun | None = None


NO_RESTORES: Final = Restores()


def unfinished(run_id: str, begun: Begun) -> Refused:
    """Paths may be half put back: what would rely on them, or on how they were, waits until that restore is ended."""
    words = f"clew restore {run_id} {begun.checkpoint_id}{' --later' if begun.through else ''}"
    return Refused(
        f"{begun.restore_id} of checkpoint {begun.checkpoint_id!r} was cut off; its paths may be half put back",
        code="restore_unfinished",
        next=f"Go on with it first: `{words}`.",
        run=run_id,
        checkpoint=begun.checkpoint_id,
        restore=begun.restore_id,
    )


# Records.


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
