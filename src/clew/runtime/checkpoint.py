"""How a call's paths are kept before it starts, looked at when it is over, and asked whether it happened.

What a checkpoint means is `core/checkpoint`; when one is made is `core/guarded`.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath, PurePosixPath
from typing import Any, Final

import msgspec

from clew.core.answers import is_long, json_text
from clew.core.checkpoint import (
    ABSENT,
    BadManifest,
    Checkpoint,
    Manifest,
    PathState,
    Whole,
    holding,
    probed,
    read_checkpoint,
)
from clew.core.cover import encode_cover, lost, not_covered_as_json, touched
from clew.core.guarding import built_in
from clew.core.jsonable import to_json
from clew.core.needs import Guarded, Look, Looked, Unguarded
from clew.core.review import CannotTell, Happened, Verdict
from clew.core.state import RunState
from clew.errors import ClewError, NothingHappened, UsageError
from clew.runtime.bodies import MESSAGE_CHARS, text_of
from clew.runtime.gate import Gate
from clew.runtime.living import is_running
from clew.runtime.paths import Expected, Paths
from clew.runtime.tickets import Ticket
from clew.runtime.tools import Call, ProbeBody
from clew.stores.base import BlobStore, RunStore, Workspace

MOST_BYTES: Final = 4 << 20
"""Of paths in one record; with what else is said of each, an append has room for it many times."""
RETRY_S: Final = 5.0
_PATH_CODES: Final = frozenset({"outside_workspace", "not_a_file"})
"""A path is refused for what it is; the agent may choose another."""


class Before(Mapping[str, PathState]):
    """How the paths of one call stand before it starts, by path as it was declared; with `read` for their bytes.

    Its bytes are those that were kept, so what is made of them fits them.
    """

    def __init__(self, workspace: Workspace, blobs: BlobStore, declared: Iterable[str], kept: Manifest) -> None:
        self._workspace = workspace
        self._blobs = blobs
        self._declared = tuple(declared)
        self._kept = kept

    def __getitem__(self, path: str) -> PathState:
        return self._kept[itself(self._workspace, path)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)

    def stands_at(self, path: str) -> str:
        """Where it is itself, below the workspace; the folders on the way are followed where they are links."""
        return itself(self._workspace, path)

    def leads_to(self, path: str) -> str:
        """Where it really leads, below the workspace."""
        return lands(self._workspace, path)

    def read(self, path: str) -> bytes | None:
        """The content of a file, links followed; None where no file is."""
        state = self._kept.get(lands(self._workspace, path), ABSENT)
        return None if state.sha256 is None else self._blobs.get(state.sha256)

    def size_bytes(self, path: str) -> int | None:
        """How long that content is; None where no file is."""
        return self._kept.get(lands(self._workspace, path), ABSENT).size_bytes


def itself(workspace: Workspace, path: str) -> str:
    """The path of a manifest for what stands there itself: the folders on the way are followed, it is not."""
    folder, _, name = path.rstrip("/").rpartition("/")
    if name in ("", ".", ".."):
        return lands(workspace, path)
    above = lands(workspace, ("/" if path.startswith("/") and not folder else folder) or ".")
    return name if above == "." else f"{above}/{name}"


def lands(workspace: Workspace, path: str) -> str:
    """The path of a manifest for where this really leads."""
    root, place = (PurePath(workspace.resolve(found)) for found in (".", path))
    return place.relative_to(root).as_posix()


# Stage 4.


def claimed(gate: Gate, ticket: Ticket) -> list[str] | None:
    """The paths that nobody else may change while this call does; None for all of them, or where nobody can tell."""
    paths = ticket.tool.paths
    if paths is None or paths.everywhere:
        return None
    try:
        return gate.workspace.declared(paths.of(ticket.arguments))
    except Exception:  # noqa: BLE001  # `guard` says what is wrong; if it is not by then, the call is alone at least
        return None


def guard(gate: Gate, ticket: Ticket) -> Guarded | Unguarded:
    """Keep how the paths of a call stand. Blocks as long as their bytes take to be read and kept.

    Source:
        DESIGN §5 stage 4; contract #149, #150, #153, #154, #159.
    """
    paths = ticket.tool.paths
    assert paths is not None
    try:
        found = _all_kept(gate) if paths.everywhere else _kept(gate, ticket, paths)
        ticket.kept = found.paths
        return found
    except Exception as fault:  # noqa: BLE001  # whatever refused: no checkpoint, and the tool does not run
        refused = isinstance(fault, NothingHappened | UsageError) or getattr(fault, "code", "") in _PATH_CODES
        message = text_of(getattr(fault, "message", fault))
        said = message if refused else f"no checkpoint of {ticket.facts.key}: {message}"
        return Unguarded(gate.redactor.text(said)[:MESSAGE_CHARS], refused)


def _kept(gate: Gate, ticket: Ticket, paths: Paths) -> Guarded:
    declared = _own_code(ticket, "paths", lambda: paths.of(ticket.arguments))
    for path in declared:
        # What leads out is refused by the name that the call gave it; a name that is no text has none to be told.
        with suppress(UnicodeEncodeError):
            path.encode()
            gate.workspace.resolve(path)
    listed = gate.workspace.declared(declared)
    _check_listed(gate, listed)
    before = gate.workspace.stand(listed, keep=gate.blobs)
    inside, missing = gate.workspace.inside(_folders(before, before))
    if inside:
        _check_listed(gate, [*before, *inside])
        before |= gate.workspace.stand([path for path in inside if path not in before], keep=gate.blobs)
    left_out = tuple(not_covered_as_json(missing))
    if paths.expects is None:
        return Guarded(before, not_covered=left_out)
    seen = Before(gate.workspace, gate.blobs, declared, before)
    function, arguments = paths.expects, paths.whole(ticket.arguments)
    expected = _own_code(ticket, "expects", lambda: function(seen, **arguments))
    whole = expected if isinstance(expected, Expected) else Expected(expected)
    expects, result = _expects(gate.workspace, before, whole), _result(gate, ticket, whole)
    return Guarded(before, expects, result, not_covered=left_out)


def _check_listed(gate: Gate, paths: Sequence[str]) -> None:
    """`NothingHappened` where these paths cannot stand in a record."""
    if any(gate.redactor.text(path) != path for path in paths):
        raise NothingHappened("one of its paths has a secret in it, and would stand in the journal")
    if _bytes_of(paths) > MOST_BYTES:
        raise NothingHappened(f"it names {len(paths)} paths, more than one record holds")


def _folders(before: Manifest, now: Manifest) -> list[str]:
    """Which of these paths are folders now that count with all that is in them."""
    return [path for path in holding(before) if now[path].kind == "folder"]


def stand_now(workspace: Workspace, before: Manifest, *, keep: BlobStore | None = None) -> dict[str, PathState]:
    """How the paths of a checkpoint stand, and what is new in the folders among them.

    Raises:
        Refused: `not_a_file`, `outside_workspace`. Storage.
    """
    now = workspace.stand(before, keep=keep)
    inside, _ = workspace.inside(_folders(before, now))
    new = [path for path in inside if path not in now]
    return {**now, **(workspace.stand(new, keep=keep) if new else {})}


def _own_code(ticket: Ticket, what: str, ask: Any) -> Any:
    """What the tool's own function says; whatever it raises, its body has not run. No memory is no word of the tool."""
    try:
        return ask()
    except (ClewError, NothingHappened, MemoryError):
        raise
    except Exception as fault:
        raise NothingHappened(f"{what} of {ticket.tool.name!r} raised {type(fault).__name__}: {fault}") from fault


def _bytes_of(paths: Iterable[str]) -> int:
    return sum(len(path) * 6 + 200 for path in paths)


def _expects(workspace: Workspace, before: Manifest, expected: Expected) -> dict[str, PathState]:
    """The states that a tool announced, as a manifest; folders that it will have to make are in it.

    Raises:
        NothingHappened: it announced a path that it did not declare, or what no path can be.
    """
    if not isinstance(expected.paths, Mapping):
        raise NothingHappened(f"expects gave {type(expected.paths).__name__}, which is no mapping of paths")
    found: dict[str, PathState] = {}
    holders = frozenset(holding(before))
    for path, wanted in expected.paths.items():
        is_content = isinstance(wanted, bytes | str)
        place = lands(workspace, path) if is_content else itself(workspace, path)
        if place not in before and holders.isdisjoint(_above(place)):
            raise NothingHappened(f"expects names {path!r}, which is not among its paths")
        found[place] = _state(path, wanted, before.get(place, ABSENT))
    for place in [place for place, state in found.items() if state != ABSENT]:
        for above in _above(place):
            if before.get(above, None if holders.isdisjoint(_above(above)) else ABSENT) == ABSENT:
                found.setdefault(above, PathState("folder"))
    return found


def _above(place: str) -> list[str]:
    return [str(above) for above in PurePosixPath(place).parents]


def _state(path: str, wanted: Any, before: PathState) -> PathState:
    if wanted is None:
        return ABSENT
    if isinstance(wanted, PathState):
        return wanted
    if not isinstance(wanted, bytes | str):
        raise NothingHappened(f"expects says {type(wanted).__name__} of {path!r}: bytes, text, a state or None")
    try:
        data = wanted if isinstance(wanted, bytes) else wanted.encode()
    except UnicodeEncodeError as fault:
        raise NothingHappened(f"expects gives {path!r} a text that is not UTF-8: {fault}") from None
    # What is replaced keeps its mode; that of a new file is the machine's to say, and so is whether one that runs by
    # its owner's rights may do so with another content.
    plain = before.kind == "file" and before.mode == (before.mode or 0) & 0o777
    mode = before.mode if plain else None
    return PathState("file", hashlib.sha256(data).hexdigest(), len(data), mode)


def _result(gate: Gate, ticket: Ticket, expected: Expected) -> Any:
    """The announced result as it may be recorded; UNSET where it may not, or is too long for a record."""
    if expected.result is msgspec.UNSET or ticket.tool.secret:
        return msgspec.UNSET
    result = gate.redactor.answer(to_json(expected.result, at="result"))
    return msgspec.UNSET if is_long(json_text(result)) else result


def _all_kept(gate: Gate) -> Guarded:
    cover = gate.workspace.cover(keep=gate.blobs)
    data = encode_cover(cover)
    return Guarded(None, whole=Whole(gate.blobs.put(data), len(data), len(cover.manifest)), cover=cover)


# Stages 7 and 7'.


def look(gate: Gate, ticket: Ticket, need: Look) -> Looked | None:
    """How an attempt has left its paths; None when that cannot be seen, or when something may still change them."""
    key = ticket.facts.key
    if is_running(key, need.attempt) or (need.raised and _lives(gate, f"{key}#{need.attempt}")):
        return None
    try:
        if need.guarded.whole is None:
            return _seen(gate, need.guarded)
        return _all_seen(gate, need.guarded)
    except Exception:  # noqa: BLE001  # what the attempt came to is known, and is written down whatever this says
        return None


def _lives(gate: Gate, mark: str) -> bool:
    """Does a process of this attempt go on? Where that cannot be told, it may."""
    try:
        return mark in gate.processes.living(gate.journal.state.run_id)
    except ClewError:
        return True


def _seen(gate: Gate, guarded: Guarded) -> Looked:
    """Now; contents are kept, for a diff and a merge. Where they cannot be, how the paths stand is worth knowing."""
    paths, unkept = guarded.paths or {}, tuple[str, ...]()
    try:
        now = stand_now(gate.workspace, paths, keep=gate.blobs)
    except ClewError:
        now = stand_now(gate.workspace, paths)
        unkept = _unkept(gate, now)
    _check_listed(gate, list(now))
    return Looked(now, not_covered=guarded.not_covered, unkept=unkept)


def _unkept(gate: Gate, now: Manifest) -> tuple[str, ...]:
    """The files of which a record must not say that their content is there."""
    return tuple(path for path, state in now.items() if state.sha256 is not None and not gate.blobs.has(state.sha256))


def _all_seen(gate: Gate, guarded: Guarded) -> Looked:
    before, after = guarded.cover, gate.workspace.cover(keep=gate.blobs)
    assert before is not None
    alone, _ = stand_each(gate.workspace, lost(before, after))
    found = touched(before, after, alone)
    told, room = list[str](), MOST_BYTES
    for path in found.paths:
        room -= _bytes_of([path])
        if room >= 0:
            told.append(path)
    unknown = {*before.not_covered, *after.not_covered}
    missing = not_covered_as_json(each for each in unknown if each.path not in alone)
    if len(told) < len(found.paths):
        missing.append({"why": "over_limit", "count": len(found.paths) - len(told)})
    left = {path: found.after[path] for path in told}
    unkept = _unkept(gate, {path: left[path] for path in told if path in alone})
    return Looked(left, {path: found.paths[path] for path in told}, tuple(missing), unkept)


def stand_each(workspace: Workspace, paths: Iterable[str]) -> tuple[Manifest, Mapping[str, str]]:
    """How the paths stand, and why of those that cannot be seen: a pipe, a file that nobody here may read."""
    wanted = list(paths)
    try:
        return workspace.stand(wanted), {}
    except ClewError:
        found: dict[str, PathState] = {}
        unseen: dict[str, str] = {}
    for path in wanted:
        try:
            found |= workspace.stand([path])
        except ClewError as fault:
            unseen[path] = fault.message
    return found, unseen


# The built-in probe.


def probe_of(gate: Gate, ticket: Ticket) -> ProbeBody | None:
    """The probe of a call: its own; else its checkpoint, if one stands for its last attempt."""
    if ticket.tool.probe is not None:
        return ticket.tool.probe
    state = gate.journal.state
    call = state.calls.get(ticket.facts.step_id)
    known = None if call is None else built_in(state, call)
    if known is None:
        return None
    position = known.position

    def files(call: Call) -> Verdict:
        if _lives(gate, f"{call.key}#{call.attempt}"):
            return CannotTell("a process of this attempt still lives, and may still write", RETRY_S)
        return ask_files(call.workspace, checkpoint_at(gate.store, state, position))

    return files


def ask_files(workspace: Workspace, checkpoint: Checkpoint) -> Verdict:
    """What the files say of an attempt: all as it was, all as it was to be, or neither.

    Source:
        DESIGN §5, resume table.
    """
    assert checkpoint.before is not None
    try:
        now = stand_now(workspace, checkpoint.before)
    except ClewError as fault:
        return CannotTell(f"the paths cannot be looked at: {fault.message}", RETRY_S)
    verdict = probed(checkpoint.before, now, checkpoint.expects)
    if isinstance(verdict, Happened) and checkpoint.result is not msgspec.UNSET:
        return Happened(checkpoint.result, verdict.reason)
    return verdict


def checkpoint_at(store: RunStore, state: RunState, position: int, after: int = 0) -> Checkpoint:
    """A checkpoint by the places of its records, the second one 0 where there is none.

    Raises:
        BadManifest: a record cannot be read any more as it was when it was folded.
    """
    left = store.record_at(state.run_id, after).payload if after else None
    return read_checkpoint(store.record_at(state.run_id, position).payload, left)


__all__ = [
    "BadManifest",
    "Before",
    "ask_files",
    "checkpoint_at",
    "claimed",
    "guard",
    "look",
    "probe_of",
    "stand_each",
    "stand_now",
]
