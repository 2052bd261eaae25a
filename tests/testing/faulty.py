"""Run stores with one fault each: what an author may get wrong, and the kit must find. No sound one is here."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Barrier
from typing import Any, ClassVar

import msgspec

from clew.core.codec import encode_append
from clew.core.records import Batch, Draft, Head
from clew.errors import Corrupt, Refused, Storage
from clew.stores.base import Proof, Tail
from clew.stores.memory import MemoryRunStore
from clew.stores.scan import JournalReading
from clew.testing import RunStoreLab
from tests.testing.sqlite_store import SqliteRunStore


class Around:
    """As the thing inside, save for what a subclass says."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Sound(Around):
    """A memory store without a fault; a subclass plants one in it or in its writer."""

    Writer: ClassVar[type[Around]] = Around

    def create(self, *given: Any, **how: Any) -> Any:
        return self.Writer(self.inner.create(*given, **how))

    def open(self, *given: Any, **how: Any) -> Any:
        return self.Writer(self.inner.open(*given, **how))


def lab_of(fault: type[Sound]) -> RunStoreLab:
    """The faulty store, plugged in as a sound one is."""
    memory = MemoryRunStore()
    return RunStoreLab(
        lambda: fault(memory),
        raw=memory.raw,
        implant=memory.implant,
        fail=memory.failing,
        cannot={"elsewhere": "it lives in the memory of one process"},
    )


class Bytes:
    """A source of fixed bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def pieces(self, start: int) -> Iterator[bytes]:
        yield self.data[start:]


# ------------------------------------------------------------------------------------------------------------- reading


class Sorting(Sound):
    """Puts the lines in the order of their numbers before it reads them."""

    def read(self, run_id: str) -> JournalReading:
        lines = self.inner.raw(run_id).splitlines(keepends=True)
        lines.sort(key=lambda line: json.loads(line)["sequence"])
        return JournalReading(run_id, Bytes(b"".join(lines)), None, self.inner.owner_state)


class Skipping(Sound):
    """Leaves out a line that stands there twice."""

    def read(self, run_id: str) -> JournalReading:
        lines = dict.fromkeys(self.inner.raw(run_id).splitlines(keepends=True))
        return JournalReading(run_id, Bytes(b"".join(lines)), None, self.inner.owner_state)


class Lenient(Sound):
    """Reads each line as the standard library does by default, and writes it anew before it judges it."""

    def read(self, run_id: str) -> JournalReading:
        lines = [json.dumps(json.loads(line), separators=(",", ":")) for line in self.inner.raw(run_id).splitlines()]
        return JournalReading(run_id, Bytes("".join(f"{line}\n" for line in lines).encode()), None)


class Hushing(Sound):
    """Ends the journal where it stops making sense, and says that all is well."""

    def read(self, run_id: str) -> Any:
        return Hushed(self.inner.read(run_id))


class Hushed(Around):
    def __iter__(self) -> Iterator[Any]:
        with suppress(Corrupt):
            yield from self.inner

    @property
    def tail(self) -> Tail:
        return Tail("clean", 0)


class Inventing(Sound):
    """Gives a record that has no id one, so that all have."""

    def read(self, run_id: str) -> Any:
        return Invented(self.inner.read(run_id))


class Invented(Around):
    def __iter__(self) -> Iterator[Any]:
        for record, at in self.inner:
            named = record.event_id or f"legacy-{record.sequence}"
            yield msgspec.structs.replace(record, event_id=named), at


class NoCarriageReturn(Sound):
    """Knows one end of a line only."""

    def read(self, run_id: str) -> Any:
        if b"\r" in self.inner.raw(run_id):
            raise Corrupt("a CR", code="run_state_corrupt", next="Take it out.", line=1, byte=0)
        return self.inner.read(run_id)


class Nearest(Sound):
    """Gives the record that stands nearest to a position."""

    def record_at(self, run_id: str, position: int) -> Any:
        found = [*self.inner.read(run_id)]
        return min(found, key=lambda pair: abs(pair[1] - position))[0]


class Rowless(Sound):
    """Keeps of a head what it needs itself."""

    def head(self, run_id: str) -> Head | None:
        head: Head | None = self.inner.head(run_id)
        return head and msgspec.structs.replace(head, row={})


class Chatty(Sound):
    """Lists everything that lies about, and has a word of its own for its boundary."""

    boundary = "disk"

    def ids(self) -> list[str]:
        return [*self.inner.ids(), "lock"]


class Headless(Sound):
    """Never looks at the head when it reads."""

    def read(self, run_id: str) -> JournalReading:
        return JournalReading(run_id, Bytes(self.inner.raw(run_id)), None, self.inner.owner_state)


class Alarmed(Sound):
    """Does not ask whether the owner of an unfinished end lives."""

    def read(self, run_id: str) -> JournalReading:
        return JournalReading(run_id, Bytes(self.inner.raw(run_id)), self.inner.head(run_id))


class RepairingReader(Sound):
    """Cuts a torn end when it is read, as the reference implementation did (W5)."""

    def read(self, run_id: str) -> Any:
        whole, _, torn = self.inner.raw(run_id).rpartition(b"\n")
        if torn:
            self.inner.implant(run_id, whole + b"\n")
        return self.inner.read(run_id)


class HoldingReader(Sound):
    """Takes the lock to read, and gives it back when the reading is over (W7)."""

    def read(self, run_id: str) -> Any:
        return Held(self.inner.read(run_id), self.inner.open(run_id, wait_s=0.0))


class Held(Around):
    def __init__(self, inner: Any, writer: Any) -> None:
        super().__init__(inner)
        self.lock = writer

    def __iter__(self) -> Iterator[Any]:
        yield from self.inner
        self.lock.close()


# ------------------------------------------------------------------------------------------------------------ appending


class Gapped(Sound):
    """Takes whatever number comes."""

    class Writer(Around):
        def append(self, batch: Batch, **how: Any) -> Any:
            self.inner.adopt(batch.first - 1, "")
            return self.inner.append(batch, **how)


class Renumbering(Sound):
    """Gives a batch that does not fit the number that would."""

    class Writer(Around):
        def append(self, batch: Batch, **how: Any) -> Any:
            records = [record for record, _ in self.inner.read()]
            drafts = [Draft(record.kind, record.payload) for record in batch.records]
            last, ids = records[-1], [str(record.event_id) for record in batch.records]
            chain = {"after": last.sequence, "chain": last.chain or ""}
            return self.inner.append(
                encode_append(batch.run_id, **chain, drafts=drafts, timestamp=last.timestamp, event_ids=ids), **how
            )


class Doubling(Sound):
    """Writes an append once more when it is tried once more."""

    class Writer(Around):
        def append(self, batch: Batch, **how: Any) -> Any:
            if batch.last <= [record for record, _ in self.inner.read()][-1].sequence:
                self.inner.adopt(batch.first - 1, "")
            return self.inner.append(batch, **how)


class Overwriting(Sound):
    """The last one who says what a number holds is right."""

    class Writer(Around):
        def append(self, batch: Batch, **how: Any) -> Any:
            try:
                return self.inner.append(batch, **how)
            except Storage:
                return 0


class Hasty(Sound):
    """Acknowledges an append when it has begun, and writes it with the next."""

    class Writer(Around):
        late: bytes = b""

        def append(self, batch: Batch, **how: Any) -> Any:
            whole = msgspec.structs.replace(batch, data=self.late + batch.data)
            self.late = whole.data[-100:]
            return self.inner.append(msgspec.structs.replace(whole, data=whole.data[:-100]), **how)


class Trusting(Sound):
    """Takes a failed sync for an acknowledgement: the bytes are there, are they not?"""

    class Writer(Around):
        def append(self, batch: Batch, **how: Any) -> Any:
            try:
                return self.inner.append(batch, **how)
            except Storage as error:
                if error.code != "durability_barrier_failed":
                    raise
                return 0


class Undying(Sound):
    """Goes on after a failed write, for the next one may succeed."""

    class Writer(Around):
        def append(self, batch: Batch, **how: Any) -> Any:
            try:
                return self.inner.append(batch, **how)
            finally:
                self.inner._dead = False


class InPieces(Sound):
    """Writes its lines one by one, and begins anew when it was interrupted."""

    class Writer(Around):
        def append(self, batch: Batch, **how: Any) -> Any:
            at = self.inner.size_bytes
            for record, line in zip(batch.records, batch.data.splitlines(keepends=True), strict=True):
                one = Batch(batch.run_id, record.sequence, record.sequence, line, record.chain or "", (record,))
                self.inner.adopt(record.sequence - 1, "")
                self.inner.append(one, **how)
            return at


# ------------------------------------------------------------------------------------------------- births and openings


class Replacing(Sound):
    """Begins a run anew when it is there."""

    def create(self, run_id: str, batch: Batch, **how: Any) -> Any:
        self.inner._journals.pop(run_id, None)
        return super().create(run_id, batch, **how)


class CaseSensitive(Sound):
    """Compares ids letter by letter."""

    def create(self, run_id: str, batch: Batch, **how: Any) -> Any:
        apart = MemoryRunStore()
        writer = apart.create(run_id, batch, **how)
        if run_id in self.inner._journals:
            raise Refused("taken", code="run_id_conflict", next="Choose another.")
        self.inner._journals.update(apart._journals)
        return writer


class AnyName(Sound):
    """Lets a run be called as its user likes."""

    def create(self, run_id: str, batch: Batch, **how: Any) -> Any:
        safe = run_id if run_id.isalnum() else run_id.encode().hex() or "none"
        return self.inner.create(safe[:120], batch, **how)


class NoDevices(Sound):
    """Calls what Windows cannot have a little otherwise."""

    def create(self, run_id: str, batch: Batch, **how: Any) -> Any:
        return self.inner.create(
            f"{run_id}1" if run_id[:3].casefold() in ("con", "prn", "aux", "nul") else run_id, batch
        )


class Stillborn(Sound):
    """Leaves what came of a birth that failed."""

    def create(self, run_id: str, batch: Batch, **how: Any) -> Any:
        try:
            return self.inner.create(run_id, batch, **how)
        except Storage:
            self.inner.implant(run_id, batch.data[:50])
            raise


class HalfBorn(Sound):
    """Names a run first, and fills it then."""

    def create(self, run_id: str, batch: Batch, **how: Any) -> Any:
        first = msgspec.structs.replace(batch, data=batch.data[:-9])
        writer = self.inner.create(run_id, first, **how)
        self.inner.implant(run_id, batch.data)
        writer._size = len(batch.data)
        return writer


class Racing(Sound):
    """Looks whether an id is free, and takes it when another one has looked as well."""

    meeting: ClassVar = Barrier(2)

    def create(self, run_id: str, batch: Batch, **how: Any) -> Any:
        free = run_id not in self.inner.ids()
        self.meeting.wait(60)
        apart = MemoryRunStore()
        writer = apart.create(run_id, batch, **how)
        if not free:
            raise Refused("taken", code="run_id_conflict", next="Choose another.")
        self.inner._journals.update(apart._journals)
        return writer


class Open(Sound):
    """Lets two writers in."""

    def open(self, run_id: str, **how: Any) -> Any:
        journal = self.inner._existing(run_id)
        if journal.lock.locked():
            journal.lock.release()
        return self.inner.open(run_id, **how)


# -------------------------------------------------------------------------------------------------------------- repairs


class Cutting(Sound):
    """Takes damage for a torn end and cuts it, so that the run goes on."""

    class Writer(Around):
        def adopt(self, sequence: int, chain: str) -> None:
            try:
                for _ in self.inner.read():
                    pass
            except Corrupt as damage:
                del self.inner._journal.data[damage.facts["byte"] :]
                self.inner._size = len(self.inner._journal.data)
                self.inner._reading = None
            self.inner.adopt(sequence, chain)


class Wasting(Sound):
    """Cuts a torn end and throws it away."""

    class Writer(Around):
        def repair(self, *given: Any) -> Any:
            done = self.inner.repair(*given)
            self.inner._journal.kept.clear()
            return done[:0]


class Forgetful(Sound):
    """Names only what it has cut itself, not what a crash left without a record."""

    class Writer(Around):
        def repair(self, *given: Any) -> Any:
            return self.inner.repair(*given)[:1]


class Trustful(Sound):
    """Believes its caller that the end was repaired."""

    class Writer(Around):
        def adopt(self, sequence: int, chain: str) -> None:
            self.inner._reading = None
            self.inner.adopt(sequence, chain)


class Reclaiming(Sound):
    """Holds every owner for dead, wherever and whoever it is."""

    def owner_state(self, owner: dict[str, Any]) -> str:
        return "gone"

    class Writer(Around):
        def prove(self, owner: dict[str, Any]) -> Any:
            return (*self.inner.prove(owner)[:3], Proof("process_gone", "yes", "it is old"))


class Doubting(Reclaiming):
    """Holds no owner for dead, whatever is known."""

    def owner_state(self, owner: dict[str, Any]) -> str:
        return "alive"

    class Writer(Around):
        def prove(self, owner: dict[str, Any]) -> Any:
            return (*self.inner.prove(owner)[:3], Proof("process_gone", "no", "it may live"))


class LateLf(Sound):
    """Leaves a missing LF for the next append to bring along."""

    class Writer(Around):
        def repair(self, tail: Any, sequence: int) -> Any:
            if tail.verdict != "unterminated":
                return self.inner.repair(tail, sequence)
            self.inner._reading = None
            return ()


class Sinking(Sound):
    """Publishes whatever head it is given."""

    class Writer(Around):
        def publish_head(self, head: Head) -> None:
            self.inner._journal.head = head


class Careless(Sound):
    """The last command under an id is right."""

    def post(self, command: Any) -> None:
        self.inner._journals[command.run_id].commands[command.control_id] = command


class Strict(Sound):
    """Refuses a command that it has."""

    def post(self, command: Any) -> None:
        if command.control_id in self.inner._journals[command.run_id].commands:
            raise Refused("twice", code="control_conflict", next="Wait.")
        self.inner.post(command)


class Busy(Sound):
    """Takes no command while somebody writes."""

    def post(self, command: Any) -> None:
        self.inner.open(command.run_id, wait_s=0.0).close()
        self.inner.post(command)


class Repeating(Sound):
    """Hands a command out until it is told otherwise."""

    def pending(self, run_id: str) -> list[Any]:
        return [*self.inner._journals[run_id].commands.values()]


class Deaf(Sound):
    """Keeps the first answer."""

    def answer(self, run_id: str, answer: Any) -> None:
        self.inner._journals[run_id].answers.setdefault(answer.control_id, answer)


# ------------------------------------------------------------------------------------------------------ other processes


class OneProcessOnly(SqliteRunStore):
    """Keeps other writers out by what this process knows."""

    held: ClassVar[set[str]] = set()

    def _lock(self, run_id: str, wait_s: float) -> sqlite3.Connection | None:
        del wait_s
        key = f"{self.locate(run_id)}"
        if key in self.held:
            return None
        self.held.add(key)
        return sqlite3.connect(":memory:")


class Blind(SqliteRunStore):
    """Begins a run anew when another process has begun it."""

    def create(self, run_id: str, batch: Batch, *, wait_s: float = 0.0) -> Any:
        with self._place.open() as base:
            base.execute("delete from run where id = ?", (run_id,))
            base.execute("delete from piece where run = ?", (run_id,))
        return super().create(run_id, batch, wait_s=wait_s)


def lab_of_processes(fault: type[SqliteRunStore], folder: Path) -> RunStoreLab:
    """One of the two above, as another process opens it too."""
    path = f"{folder}/runs.db"
    return RunStoreLab(
        lambda: fault(path),
        raw=fault(path).dump,
        implant=fault(path).load,
        elsewhere=f"from tests.testing.faulty import {fault.__name__}\nstore = {fault.__name__}({path!r})",
    )
