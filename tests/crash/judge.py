"""Whether a home that a crash left behind is recovered: by the real readers, the real writer, twice, and one append on.

What was promised is given as the facts that the stores told (`telling`). Every complaint names its kind first.
"""

import hashlib
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from clew.runtime.clock import SystemClock
from clew.runtime.ending import publish
from clew.runtime.recovery import Reopened, close_quietly, end_leg, unfinished_business
from clew.stores.base import RunStore
from clew.stores.blobs import FileBlobStore
from clew.stores.jsonl import FileRunStore
from clew.stores.keys import FileKeyIndex
from tests.core.journals import naive_records
from tests.crash.judging_kept import KEPT, has_gone
from tests.crash.parts import Complaints, Part, Promises


def judge(root: Path, promises: Promises) -> list[str]:
    """Recover a home, part by part."""
    return [complaint for part in parts_for(promises.counts) for complaint in part.judge(root, promises)]


# Reading.


def records_of(store: RunStore, run_id: str) -> tuple[list[tuple[int, str]], str]:
    """Sequence and chain of every record, as a reader without a lock sees them, and how the journal ends."""
    reading = store.read(run_id)
    records = [(record.sequence, str(record.chain)) for record, _ in reading]
    return records, reading.tail.verdict


def _runs(root: Path, promises: Promises) -> Complaints:
    """Every run that is there can be read and written on, and each that was acknowledged is there as far as it was."""
    yield from _promised(root, promises, "head", "command", "answer")
    store = FileRunStore(root)
    found: dict[str, dict[int, str]] = {}
    for run_id in store.ids():
        records, verdict = records_of(store, run_id)
        found[run_id] = dict(records)
        naive = naive_records(Path(store.locate(run_id)).read_bytes(), run_id)
        if [(each["sequence"], each["chain"]) for each in naive] != records:
            yield f"disagree: a naive reader finds {len(naive)} records in run {run_id}, ours {len(records)}"
        yield from _as_written(run_id, records, promises)
        if verdict == "being_written":
            yield f"refused: run {run_id} is said to be written by somebody"
        yield from _mended(store, run_id, records, promises)
    for (run_id,), (last, chain) in promises.kept.get("append", {}).items():
        records_there = found.get(run_id, {})
        if records_there.get(last) != chain:
            yield f"lost: record {last} of run {run_id}, which has {len(records_there)}"


def _as_written(run_id: str, records: list[tuple[int, str]], promises: Promises) -> Complaints:
    foreseen = promises.chains.get(run_id, {})
    wrong = [sequence for sequence, chain in records if chain not in foreseen.get(sequence, ())]
    if wrong:
        yield f"invented: run {run_id} has records that nobody wrote: {wrong}"


def _promised(root: Path, promises: Promises, *kinds: str) -> Complaints:
    for kind in kinds:
        for key, rest in promises.kept.get(kind, {}).items():
            if not PROMISED[kind](root, key, rest):
                yield f"lost: {kind} {key} {rest}"


def _blobs(root: Path, promises: Promises) -> Complaints:
    yield from _promised(root, promises, "blob")


def _keys(root: Path, promises: Promises) -> Complaints:
    """Every claim that is there can be read: a broken one would keep its order from being paid by anybody."""
    yield from _promised(root, promises, "claim")
    index = FileKeyIndex(root)
    index.mark()
    list(index.claims())


def _head(root: Path, key: tuple[Any, ...], rest: list[Any]) -> bool:
    head = FileRunStore(root).head(key[0])
    return head is not None and head.sequence >= rest[0]


def _blob(root: Path, key: tuple[Any, ...], rest: list[Any]) -> bool:
    return FileBlobStore(root).has(key[0]) or has_gone(root, key[0])


def _claim(root: Path, key: tuple[Any, ...], rest: list[Any]) -> bool:
    found = FileKeyIndex(root).last(key[0], key[1])
    return found is not None and found[0] >= key[2]


def _command(root: Path, key: tuple[Any, ...], rest: list[Any]) -> bool:
    run_id, control_id = key
    store = FileRunStore(root)
    waiting = {command.control_id for command in store.pending(run_id)}
    return control_id in waiting or store.answered(run_id, control_id) is not None


def _answer(root: Path, key: tuple[Any, ...], rest: list[Any]) -> bool:
    answer = FileRunStore(root).answered(*key)
    return answer is not None and answer.status in (rest[0], "applied", "rejected")


PROMISED: dict[str, Callable[[Path, tuple[Any, ...], list[Any]], bool]] = {
    "head": _head,
    "blob": _blob,
    "claim": _claim,
    "command": _command,
    "answer": _answer,
}
"""How each kind of promise that no journal holds is looked for."""


# Writing.


def _mended(store: FileRunStore, run_id: str, seen: list[tuple[int, str]], promises: Promises) -> Complaints:
    """A writer mends the journal; a second one finds nothing to mend; a leg can be opened and closed behind it."""
    _mend(store, run_id, len(seen))
    before = _prints(store, run_id)
    writer = store.open(run_id, wait_s=0.0)
    try:
        opened = Reopened(store, SystemClock(), writer, "control")
        last = opened.state.sequence, opened.state.chain
        if opened.tail.verdict != "clean" or [last] != seen[-1:]:
            yield f"not mended: run {run_id} is {opened.tail} behind record {last[0]}, a reader saw {len(seen)}"
        writer.repair(opened.tail, opened.state.sequence + 1)
        if _prints(store, run_id) != before:
            yield f"not idempotent: a second repair of run {run_id} changed something"
        opened.take_over("proven")
        journal = opened.begin(then=unfinished_business(opened.state))
        close_quietly(journal)
        publish(journal)
        end_leg(journal)
    finally:
        writer.close()
    after, verdict = records_of(store, run_id)
    ours = [chain for _, chain in after[len(seen) :]]
    promises.judged.append(["about", "append", run_id, len(seen) + 1, len(after), ours])
    if verdict != "clean" or after[: len(seen)] != seen or len(after) <= len(seen):
        yield f"no append: run {run_id} had {len(seen)} records, has {len(after)} and is {verdict}"


def _mend(store: FileRunStore, run_id: str, seen: int) -> None:
    """As one that dies before the first append of its leg."""
    writer = store.open(run_id, wait_s=0.0)
    try:
        reading = writer.read()
        for _ in reading:
            pass
        writer.repair(reading.tail, seen + 1)
    finally:
        writer.close()


def _prints(store: FileRunStore, run_id: str) -> list[tuple[str, int, bytes]]:
    """The journal and every file beside it, with modification time and digest."""
    journal = Path(store.locate(run_id))
    folder = journal.with_suffix("")
    files = [journal, *(folder.iterdir() if folder.is_dir() else ())]
    return [
        (str(path), path.stat().st_mtime_ns, hashlib.blake2b(path.read_bytes()).digest())
        for path in files
        if path.is_file()
    ]


PARTS = (
    Part("runs", ("runs", "home.json"), ("append", "head", "command", "answer"), _runs),
    Part("blobs", ("blobs",), ("blob",), _blobs),
    Part("keys", ("keys", "home.json"), ("claim",), _keys),
)
"""What a home is judged by. A store that is added later is a part more."""


def parts_for(kinds: Container[str]) -> tuple[Part, ...]:
    """The parts of a work that tells of these kinds: files and what belongs to them only where there are any."""
    return (*PARTS, *KEPT) if "file" in kinds else PARTS
