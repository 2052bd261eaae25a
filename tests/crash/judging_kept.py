"""Whether what lies beside the journals is recovered: files and their checkpoints, artifacts, sessions, prunes.

Files stand old or new, never mixed; a restore that was cut off is ended by the next; nobody refuses a legal disk.
"""

from pathlib import Path

import clew
from clew.core.folding import fold
from clew.core.state import RunState
from clew.runtime.checkpoint import ask_files
from clew.runtime.comparing import checkpoints_of, read_kept, workspace_of
from clew.stores.jsonl import FileRunStore
from clew.stores.sessions.files import FileSessionStore
from clew.stores.upkeep import FileUpkeep
from tests.crash.keeping import JUDGED, RESTORED, digest
from tests.crash.parts import Complaints, Part, Promises


def has_gone(root: Path, sha256: str) -> bool:
    """Does a record on the disk say that this content was pruned?"""
    store, upkeep = FileRunStore(root), FileUpkeep(root)
    return any(sha256 in upkeep.pruned(run_id) for run_id in store.ids())


def _home(root: Path) -> clew.Home:
    return clew.Home(root, takeover="proven")


# Files, checkpoints, artifacts.


def _files(root: Path, promises: Promises) -> Complaints:
    """Each file of the workspace is one of those that it may be; then what was cut off is gone on with."""
    workspace = root.parent
    for name, may in promises.of("file").items():
        found = _found(workspace / name)
        if "*" not in may and found not in may:
            yield f"mixed: {name} is {found and found[:12]}, not one of {sorted(str(each)[:12] for each in may)}"
    home = _home(root)
    for run_id in home.reader.store.ids():
        state = fold(home.reader.store.read(run_id), run_id)
        if state.restores.begun is not None:
            begun, seen = state.restores.begun, state.sequence
            yield from _restored(home, run_id, begun.checkpoint_id, later=bool(begun.through))
            chains = [str(record.chain) for record, _ in home.reader.store.read(run_id)]
            promises.judged.append(["about", "append", run_id, seen + 1, len(chains), chains[seen:]])
            promises.judged += [["kept", "file", path, _found(workspace / path)] for path in begun.wanted]
            state = fold(home.reader.store.read(run_id), run_id)
        yield from _probed(home, state)


def _restored(home: clew.Home, run_id: str, checkpoint: str, *, later: bool) -> Complaints:
    """The next restore ends the one that was cut off, and leaves nothing beside."""
    wanted = {} if later else RESTORED[checkpoint]
    for outcomes in ({"restored", "unchanged"}, {"unchanged"}):
        told = home.restore(run_id, checkpoint, by="ann", reason="once more", later=later)["paths"]
        wrong = [
            f"{each['path']} {each['outcome']} {each.get('why')}" for each in told if each["outcome"] not in outcomes
        ]
        if wrong:
            yield f"not restored: {checkpoint} of {run_id}: {wrong}"
    workspace = home.path.parent
    wrong = [path for path, text in wanted.items() if _found(workspace / path) != (text and digest(text))]
    left = [path.name for path in workspace.rglob("*.tmp") if not path.is_relative_to(home.path)]
    if wrong or left:
        yield f"not restored: {checkpoint} of {run_id}: {wrong} stand otherwise, {left} are left"


def _probed(home: clew.Home, state: RunState) -> Complaints:
    """What the built-in probe says of each checkpoint is what the files say to who compares their bytes."""
    for known in checkpoints_of(state):
        taken = read_kept(home._parts, state, known)
        if taken.before is None:
            continue
        workspace = workspace_of(home._parts, state)
        now = {path: _found(home.path.parent / path) for path in taken.before if _is_file(home.path.parent / path)}
        said = type(ask_files(workspace, taken)).__name__
        before = {path: each.sha256 for path, each in taken.before.items() if path in now}
        expects = {path: each.sha256 for path, each in (taken.expects or {}).items() if path in now}
        if (said == "DidNotHappen" and now != before) or (said == "Happened" and now != {**before, **expects}):
            yield f"wrong verdict: {said} of {taken.checkpoint_id} of {state.run_id}, where {now} stand"


def _found(path: Path) -> str | None:
    """The digest of a file's bytes; None where nothing is."""
    return digest(path.read_bytes()) if path.exists() else None


def _is_file(path: Path) -> bool:
    return path.is_file() or not path.exists()


def _whole(root: Path, promises: Promises) -> Complaints:
    """Artifacts are there; whoever looks is not refused, finds nothing wrong, and misses what no prune has named."""
    home = _home(root)
    for run_id, name, sha256 in promises.kept.get("artifact", {}):
        kept = home.artifact(run_id, name)
        if not has_gone(root, sha256) and digest(kept.read()) != sha256:
            yield f"lost: artifact {name} of {run_id}"
    for (sha256,) in promises.kept.get("pruned", {}):
        if not has_gone(root, sha256):
            yield f"lost: the record of what was pruned does not name {sha256[:12]}"
    for run_id in home.reader.store.ids():
        verdict = home.verify(run_id, deep=True)
        if verdict["findings"] or verdict["missingBlobs"]:
            yield f"found: {run_id}: {verdict['findings']}, {verdict['missingBlobs']} are missing"
    if home.reader.store.ids():
        home.checkup()
        list(home.runs())


# Sessions.


def _sessions(root: Path, promises: Promises) -> Complaints:
    """All that was acknowledged is there and is a session; an old one is the source or the whole new one."""
    store, home, may = FileSessionStore(root), _home(root), promises.of("session")
    for session_id in {*store.ids(), *may}:
        path = Path(store.locate(session_id))
        yield from _session(home, path, session_id, may.get(session_id, {None}))
        promises.judged.append(["kept", "session", session_id, _found(path)])
    for name, sha256 in promises.kept.get("backup", {}):
        if _found(root / "sessions" / name) != sha256:
            yield f"lost: the backup {name}"
    for session_id, sha256 in promises.kept.get("source", {}):
        there = {_found(path) for path in (root / "sessions").glob(f"{session_id}.jsonl*")}
        if sha256 not in there:
            yield f"lost: the source of {session_id}"


def _session(home: clew.Home, path: Path, session_id: str, may: set[str | None]) -> Complaints:
    if not path.exists():
        if None not in may:
            yield f"lost: session {session_id}"
        return
    found = _found(path)
    before = {each.name for each in path.parent.iterdir()}
    with home.session(session_id, create=False, wait_s=0.0) as session:
        entries = len(session.view().messages)
    mended = path.read_bytes()
    if found not in may and digest(mended) not in may:
        yield f"lost: session {session_id} is not as far as it was acknowledged, or has what nobody wrote"
    if found not in may and found != digest(mended) and not any("torn" in each.name for each in path.parent.iterdir()):
        yield f"lost: what was cut off session {session_id} is kept nowhere, {before}"
    with home.session(session_id, create=False, wait_s=0.0) as session:
        if path.read_bytes() != mended:
            yield f"not idempotent: a second opening of session {session_id} changed it"
        session.append({"role": "user", "content": JUDGED})
    with home.session(session_id, create=False, wait_s=0.0) as session:
        if len(session.view().messages) != entries + 1:
            yield f"no append: session {session_id} had {entries} messages, has {len(session.view().messages)}"


_RUNS = ("runs", "home.json")
KEPT = (
    Part("files", (*_RUNS, "blobs", "../"), ("append", "file"), _files),
    Part("whole", (*_RUNS, "blobs", "sessions"), ("append", "artifact", "pruned"), _whole),
    Part("sessions", ("sessions", "home.json"), ("session", "backup", "source"), _sessions),
)
"""What is judged beside journals, blobs and keys."""
