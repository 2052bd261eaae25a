"""The work of the other stores: files and their checkpoints, a session, artifacts, a restore, a migration, a prune.

It walks where each of them writes. What must be true of what it leaves is `judging_kept`'s affair.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import clew
from clew.runtime.comparing import checkpoints_of
from tests.crash.keepers import home_of
from tests.crash.telling import Tell

HOME = ".clew"
LEGS = ("born", "first", "second", "restore", "later", "migrate", "prune")
RUN, LATER, TALK, OLD = "keeper", "later", "talk", "old"
STAMP = "2026-01-01T00:00:00.000Z"
DRAFT, NEW, SHARED, GONE = "draft.txt", "part/new.txt", "shared.txt", "gone.txt"
CALLS = (DRAFT, "a command", NEW)
"""What is done under a checkpoint; one more stands for each that died and was begun anew."""
JUDGED = "on"
"""What who judges a session says in it."""
TOLD = [("user", "go"), ("assistant", "all kept")]


def text_of(name: str, size: int) -> str:
    """Text that is always the same, and of which a compressor makes half."""
    lines = (hashlib.sha256(f"{name}-{number}".encode()).hexdigest() for number in range(size // 64 + 1))
    return "".join(lines)[:size]


BEFORE = {DRAFT: text_of("draft", 1_500), SHARED: text_of("shared", 900), GONE: text_of("gone", 700)}
"""How the workspace stands when nothing has happened yet."""
AFTER = {DRAFT: text_of("edited", 1_800), NEW: text_of("new", 1_100), SHARED: text_of("later", 800)}
"""What calls make of it: the draft and the new file one each, the command changes the draft and takes one away."""
COMMANDED = text_of("commanded", 1_200)
REPORT = text_of("report", 1_300)


def digest(data: str | bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def old_session() -> bytes:
    """A conversation of version 3 with a branch, a label and a compaction that keeps a part."""
    lines: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": OLD, "timestamp": STAMP, "cwd": "/x"}]
    for number, parent in enumerate([None, "e0", "e1", "e0", "e3", "e4"]):
        entry: dict[str, Any] = {"type": "message", "message": {"role": "user", "content": text_of(f"{number}", 90)}}
        if number == 4:
            entry = {"type": "label", "targetId": "e1", "label": "here"}
        if number == 5:
            entry = {"type": "compaction", "summary": "short", "firstKeptEntryId": "e3", "tokensBefore": 9}
        lines.append({"id": f"e{number}", "parentId": parent, "timestamp": STAMP, **entry})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def perform(leg: str, root: Path, tell: Tell) -> str:
    """One process's stretch. Returns how it left what it had in hand."""
    os.umask(0o077)
    os.chdir("/")
    return DEEDS[leg](home_of(root / HOME, tell), root, tell)


# The first state.


def _born(home: clew.Home, root: Path, tell: Tell) -> str:
    """A person's files, and a session that another program has left."""
    for folder in (root, root / HOME, root / HOME / "sessions"):
        _folder(folder)
    for name, text in BEFORE.items():
        put(root, name, text, tell)
    source = old_session()
    tell.about("session", OLD, digest(source))
    # It was written whole, long ago.
    part = _write(root / HOME / "sessions" / "part", source)
    part.rename(part.with_name(f"{OLD}.jsonl"))
    _sync(part.parent)
    tell.kept("session", OLD, digest(source))
    tell.kept("source", OLD, digest(source))
    return "born"


def _folder(path: Path) -> None:
    if not path.exists():
        path.mkdir(mode=0o700)
        _sync(path.parent)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def _write(path: Path, data: bytes) -> Path:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    _sync(path.parent)
    return path


def put(root: Path, name: str, text: str | None, tell: Tell) -> None:
    """As a command does that syncs what it wrote: meanwhile anything may stand there."""
    tell.about("file", name, "*")
    if text is None:
        (root / name).unlink(missing_ok=True)
        _sync((root / name).parent)
    else:
        _write(root / name, text.encode())
    tell.kept("file", name, None if text is None else digest(text))


# Runs.


def writer_of(tell: Tell, *, dies_at: str = "") -> clew.Tool:
    """A tool that changes one file, and says how it will stand."""

    def write(call: clew.Call, path: str) -> str:
        tell.about("file", path, digest(AFTER[path]))
        call.workspace.write(path, AFTER[path].encode(), mark=call.short)
        tell.kept("file", path, digest(AFTER[path]))
        if path == dies_at:
            os._exit(9)
        return path

    def foreseen(before: Any, path: str) -> clew.Expected:
        return clew.Expected({path: AFTER[path]}, path)

    found = clew.tool(effect="workspace", paths=("path",), expects=foreseen)(write)
    assert isinstance(found, clew.Tool)
    return found


def agent_of(root: Path, tell: Tell, *, dies: bool = False) -> clew.Agent:
    """Says something, changes a file, keeps an artifact, runs a command, makes a file (and dies), reads, says."""

    def command() -> str:
        put(root, DRAFT, COMMANDED, tell)
        put(root, GONE, None, tell)
        return "done"

    def look() -> str:
        return text_of("long", 17_000)

    writer = writer_of(tell, dies_at=NEW if dies else "")
    shell = clew.tool(effect="workspace", paths=clew.WORKSPACE)(command)
    looker = clew.tool(effect="none", replay="safe")(look)

    def keep(run: clew.SyncRun, prompt: str) -> str:
        run.say({"role": "user", "content": prompt})
        run.call(writer, path=DRAFT)
        run.artifact("report", REPORT)
        tell.kept("artifact", RUN, "report", digest(REPORT))
        run.call(shell)
        run.call(writer, path=NEW)
        run.call(looker)
        run.say({"role": "assistant", "content": "all kept"})
        return "all kept"

    return clew.Agent(keep, name="keep", tools=[writer, shell, looker])


def later_of(root: Path, tell: Tell) -> clew.Agent:
    """Changes a file whose content an earlier pack holds, and waits: a prune must leave it that."""
    writer = writer_of(tell)

    def wait(run: clew.SyncRun, prompt: str) -> str:
        run.call(writer, path=SHARED)
        run.pause("waiting")
        return "waited"

    return clew.Agent(wait, name="wait", tools=[writer])


def _first(home: clew.Home, root: Path, tell: Tell) -> str:
    agent = agent_of(root, tell, dies=True)
    return home.run_sync(agent, "go", run_id=RUN, session=TALK, signals=False).operation.state


def _second(home: clew.Home, root: Path, tell: Tell) -> str:
    return home.resume_sync(RUN, agent_of(root, tell), signals=False).operation.state


def _later(home: clew.Home, root: Path, tell: Tell) -> str:
    return home.run_sync(later_of(root, tell), "go", run_id=LATER, signals=False).operation.state


# Afterwards.

RESTORED: dict[str, dict[str, str | None]] = {
    "k2": {DRAFT: AFTER[DRAFT], GONE: BEFORE[GONE]},
    "k1": {DRAFT: BEFORE[DRAFT]},
}
"""What each checkpoint puts back, in this order."""


def _restore(home: clew.Home, root: Path, tell: Tell) -> str:
    for checkpoint in RESTORED:
        restore(home, tell, checkpoint)
    return "restored"


def restore(home: clew.Home, tell: Tell, checkpoint: str) -> None:
    """Put back what one call changed, and tell what is promised then."""
    wanted = {path: None if text is None else digest(text) for path, text in RESTORED[checkpoint].items()}
    for path, sha256 in wanted.items():
        tell.about("file", path, sha256)
    found = home.restore(RUN, checkpoint, by="ann", reason="as it was")
    for each in found["paths"]:
        if each["outcome"] in ("restored", "unchanged"):
            tell.kept("file", each["path"], wanted[each["path"]])


def _migrate(home: clew.Home, root: Path, tell: Tell) -> str:
    with home.session(OLD, create=False) as session:
        session.append({"role": "user", "content": "and on"}, ids=["on"])
    return "migrated"


def _prune(home: clew.Home, root: Path, tell: Tell) -> str:
    return "pruned" if home.prune(keep_days=0)["dropped"] else "nothing went"


# After a night of faults.


def _end(home: clew.Home, root: Path, tell: Tell, rounds: int = 6) -> str:
    """As its owner would: everything is gone on with until it is over, then everything is as it was to be."""
    if not (root / HOME / "sessions" / f"{OLD}.jsonl").exists() or not all((root / name).exists() for name in (DRAFT,)):
        _born(home, root, tell)
    for _ in range(rounds):
        if RUN not in home.reader.store.ids():
            home.run_sync(agent_of(root, tell), "go", run_id=RUN, session=TALK, signals=False)
        elif home.result(RUN).operation.state not in ("completed", "failed"):
            home.resume_sync(RUN, agent_of(root, tell), signals=False)
        if home.result(RUN).operation.state in ("completed", "failed"):
            break
        for effect in home.result(RUN).waiting:
            home.settle(effect["idempotencyKey"], _seen(home, root, effect), by="ann", reason="looked at the files")
    taken_back = _take_back(home, tell)
    _migrate(home, root, tell)
    return _as_wanted(home, root, taken_back=taken_back)


def _take_back(home: clew.Home, tell: Tell) -> bool:
    """What the run did to files, the last first; True when of each call it is known what it did."""
    begun = home.reader.see(RUN).state.restores.begun
    for name in BEFORE.keys() | AFTER.keys():
        tell.about("file", name, "*")
    if begun is not None:
        home.restore(RUN, begun.checkpoint_id, later=bool(begun.through), by="ann", reason="to its end")
    count = len(checkpoints_of(home.reader.see(RUN).state))
    known = count == len(CALLS)
    for number in range(count, 0, -1):
        told = home.restore(RUN, f"k{number}", by="ann", reason="all of it")["paths"]
        # Where a command died, nobody recorded what it had changed by then.
        known &= all(each["outcome"] != "unknown" for each in told)
        # What could not be read when it was to be kept is said not to be covered.
        known &= number != 2 or {DRAFT, GONE} <= {each["path"] for each in told}
    return known


def _seen(home: clew.Home, root: Path, effect: dict[str, Any]) -> clew.Happened | clew.DidNotHappen:
    """What a person says who sees the files."""
    number = int(effect["stepId"].rpartition("-")[2])
    if number == 1 and not (root / GONE).exists() and (root / DRAFT).read_text() == COMMANDED:
        return clew.Happened("done")
    return clew.DidNotHappen()


def _as_wanted(home: clew.Home, root: Path, *, taken_back: bool) -> str:
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    # A copy beside it is all that a machine may leave that refused in the middle of a restore.
    own = sorted(path for path in found if not path.startswith(f"{HOME}/") and not path.endswith(".tmp"))
    texts = {path: (root / path).read_text() for path in own}
    wanted = dict(BEFORE)
    if (root / SHARED).read_text() == AFTER[SHARED]:
        wanted[SHARED] = AFTER[SHARED]
    with home.session(TALK, create=False) as session:
        said = [(each.role, each.content) for each in session.view().messages if each.content != JUDGED]
    may = {path: {text} for path, text in wanted.items()}
    if not taken_back:
        may |= {DRAFT: {BEFORE[DRAFT], AFTER[DRAFT], COMMANDED, ""}, GONE: {BEFORE[GONE], ""}}
    wrong = [path for path in {*texts, *may} if texts.get(path, "") not in may.get(path, {""})]
    state, told = home.result(RUN).operation.state, TOLD
    if state == "paused" and "ToolError" in str(home.result(RUN).snapshot["outcome"]):
        # A tool that failed for certain is told so, and that is replayed as told: this agent ends there each time.
        state, told = "completed", TOLD[: len(said)]
    return state if not wrong and said == told else f"{state}: wrong files {wrong}, said {said}"


# A checkpoint and a migration by themselves, which may be struck from inside.


def _only_capture(home: clew.Home, root: Path, tell: Tell) -> str:
    return home.run_sync(_editor_of(root, tell), "go", run_id=RUN, signals=False).operation.state


def _editor_of(root: Path, tell: Tell) -> clew.Agent:
    writer = writer_of(tell)

    def edit(run: clew.SyncRun, prompt: str) -> str:
        with tell.strike():
            return str(run.call(writer, path=DRAFT))

    return clew.Agent(edit, name="edit", tools=[writer])


def _end_capture(home: clew.Home, root: Path, tell: Tell) -> str:
    """It is gone on with, and what it did is taken back."""
    agent = _editor_of(root, tell)
    home.ensure_sync(agent, "go", run_id=RUN, signals=False)
    for number in range(len(checkpoints_of(home.reader.see(RUN).state)), 0, -1):
        home.restore(RUN, f"k{number}", by="ann", reason="as it was")
    tell.kept("file", DRAFT, digest(BEFORE[DRAFT]))
    return home.result(RUN).operation.state


def _only_migrate(home: clew.Home, root: Path, tell: Tell) -> str:
    with tell.strike():
        home.migrate_session(OLD)
    return "migrated"


def _end_migrate(home: clew.Home, root: Path, tell: Tell) -> str:
    home.migrate_session(OLD)
    return "completed" if not home.migrate_session(OLD).migrated else "again"


DEEDS = {
    "born": _born,
    "first": _first,
    "second": _second,
    "restore": _restore,
    "later": _later,
    "migrate": _migrate,
    "prune": _prune,
    "end": _end,
    "capture": _only_capture,
    "end capture": _end_capture,
    "convert": _only_migrate,
    "end convert": _end_migrate,
}
