"""More run stores with one fault each: slips in reading, ending, opening and going on. The others are in `faulty`."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any

import msgspec

from clew.core.codec import BadLine, read_record
from clew.core.records import Batch, Record
from clew.errors import Corrupt, Held, NotFound, UsageError
from clew.stores.base import Command, Tail
from clew.stores.memory import MemoryRunStore
from tests.testing.faulty import Around, Sound

Pairs = Iterable[tuple[Record, int]]


class Told(Around):
    """A reading that tells what a fault makes of its records."""

    def __init__(self, inner: Any, change: Callable[[Pairs], Pairs]) -> None:
        super().__init__(inner)
        self.change = change

    def __iter__(self) -> Iterator[tuple[Record, int]]:
        yield from self.change(self.inner)


class Judged(Around):
    """A reading of whose end a fault has its own opinion."""

    def __init__(self, inner: Any, judge: Callable[[Tail], Tail]) -> None:
        super().__init__(inner)
        self.judge = judge

    def __iter__(self) -> Iterator[tuple[Record, int]]:
        return iter(self.inner)

    @property
    def tail(self) -> Tail:
        return self.judge(self.inner.tail)


def damaged(why: str) -> Corrupt:
    return Corrupt(why, code="run_state_corrupt", next="Restore it.", line=1, byte=0)


# ------------------------------------------------------------------------------------------------- what a reading tells


class Telling(Sound):
    """Its readings go through `told` of a subclass."""

    def read(self, run_id: str) -> Any:
        reading = self.inner.read(run_id)
        return Told(reading, lambda pairs: self.told(run_id, reading, pairs))

    def told(self, run_id: str, reading: Any, pairs: Pairs) -> Pairs:
        raise NotImplementedError


class Backwards(Telling):
    """The newest first, as news are."""

    def told(self, run_id: str, reading: Any, pairs: Pairs) -> Pairs:
        return [*pairs][::-1]


class Displaced(Telling):
    """Counts the place of a record from 1."""

    def told(self, run_id: str, reading: Any, pairs: Pairs) -> Pairs:
        return ((record, at + 1) for record, at in pairs)


class Ascii(Telling):
    """Replaces what it cannot print."""

    def told(self, run_id: str, reading: Any, pairs: Pairs) -> Pairs:
        return ((msgspec.structs.replace(record, payload=_plain(record.payload)), at) for record, at in pairs)


def _plain(value: Any) -> Any:
    if type(value) is str:
        return value.encode("ascii", "replace").decode()
    return {key: _plain(item) for key, item in value.items()} if type(value) is dict else value


class Final(Telling):
    """Takes the finish for the last record that there can be."""

    def told(self, run_id: str, reading: Any, pairs: Pairs) -> Pairs:
        known = [*pairs]
        ends = [number for number, (record, _) in enumerate(known, 1) if record.kind == "finish"]
        return known[: ends[0]] if ends else known


class Unchained(Sound):
    """Believes every line that is a record, and skips the others."""

    def read(self, run_id: str) -> Any:
        return Believed(self.inner.raw(run_id))


class Believed(Around):
    """The records of some bytes, whatever stands between them."""

    def __iter__(self) -> Iterator[tuple[Record, int]]:
        at = 0
        for line in self.inner.splitlines(keepends=True):
            with suppress(BadLine):
                yield read_record(line.rstrip(b"\n")), at
            at += len(line)

    @property
    def tail(self) -> Tail:
        return Tail("clean", len(self.inner))


class AllOrNothing(Telling):
    """Drops the whole of an append that is not all there."""

    def told(self, run_id: str, reading: Any, pairs: Pairs) -> Pairs:
        known = [*pairs]
        last = known[-1][0].append if known and reading.tail.verdict == "torn" else 0
        return [(record, at) for record, at in known if record.append != last]


class Distrustful(Telling):
    """Calls every end damage that is not as it should be."""

    def told(self, run_id: str, reading: Any, pairs: Pairs) -> Pairs:
        yield from pairs
        if reading.tail.verdict != "clean":
            raise damaged("its end is missing")


class Jealous(Telling):
    """Takes it for damage when a journal changes while it is read."""

    def told(self, run_id: str, reading: Any, pairs: Pairs) -> Pairs:
        before = self.inner.raw(run_id)
        for pair in pairs:
            yield pair
            if self.inner.raw(run_id) != before:
                raise damaged("it changed")


class Exact(Telling):
    """Wants the head to be where the journal ends."""

    def told(self, run_id: str, reading: Any, pairs: Pairs) -> Pairs:
        known = [*pairs]
        head = self.inner.head(run_id)
        if head is not None and head.sequence != len(known):
            raise damaged("its head is behind")
        return known


class Obliging(Sound):
    """What nobody has begun is a run without records."""

    def read(self, run_id: str) -> Any:
        with suppress(NotFound):
            return self.inner.read(run_id)
        return Told(MemoryRunStore(), lambda _: [])


# --------------------------------------------------------------------------------------------------- how a reading ends


class Ending(Sound):
    """The ends of its readings go through `judged` of a subclass."""

    def read(self, run_id: str) -> Any:
        return Judged(self.inner.read(run_id), lambda tail: self.judged(run_id, tail))

    def judged(self, run_id: str, tail: Tail) -> Tail:
        raise NotImplementedError


class Content(Ending):
    """Whatever it has read, it ended well."""

    def judged(self, run_id: str, tail: Tail) -> Tail:
        return Tail("clean", tail.at_byte)


class Anxious(Ending):
    """There might have been more."""

    def judged(self, run_id: str, tail: Tail) -> Tail:
        return Tail("torn", tail.at_byte, tail.bytes)


class Sharing(Ending):
    """Somebody is always writing."""

    def judged(self, run_id: str, tail: Tail) -> Tail:
        return Tail("being_written", tail.at_byte, tail.bytes) if tail.verdict == "torn" else tail


class Fickle(Ending):
    """Looks again whenever it is asked how it ended."""

    def judged(self, run_id: str, tail: Tail) -> Tail:
        again = self.inner.read(run_id)
        for _ in again:
            pass
        found: Tail = again.tail
        return found


class Remembering(Ending):
    """Takes a journal that became shorter for one that lost its end."""

    def judged(self, run_id: str, tail: Tail) -> Tail:
        known = vars(self.inner).setdefault("longest", {})
        known[run_id] = max(known.get(run_id, 0), tail.at_byte + tail.bytes)
        missing = known[run_id] - tail.at_byte
        return Tail("torn", tail.at_byte, missing) if missing else tail

    class Writer(Around):
        def repair(self, tail: Tail, sequence: int) -> Any:
            return self.inner.repair(self.inner._reading.tail, sequence)

    def open(self, run_id: str, **how: Any) -> Any:
        for _ in (reading := self.read(run_id)):
            pass
        self.judged(run_id, reading.tail)
        return super().open(run_id, **how)


# ------------------------------------------------------------------------------------------------ openings and commands


class Short(Sound):
    """Has room for 32 characters."""

    def create(self, run_id: str, batch: Batch, **how: Any) -> Any:
        if len(run_id) > 32:
            raise UsageError("too long", code="invalid_run_id", next="Choose another.")
        return super().create(run_id, batch, **how)


class Unforgiving(Sound):
    """Lets nobody accept a loss."""

    def open(self, run_id: str, *, ignore_head: bool = False, **how: Any) -> Any:
        del ignore_head
        return super().open(run_id, **how)


class Impatient(Sound):
    """Who finds a run taken is told so at once."""

    def open(self, run_id: str, *, wait_s: float = 0.0, **how: Any) -> Any:
        del wait_s
        return super().open(run_id, wait_s=0.0, **how)


class Crowded(Impatient):
    """As that, and whoever has a run keeps it until somebody else has tried, so that it shows whatever runs beside."""

    tried = threading.Event()

    def open(self, run_id: str, *, wait_s: float = 0.0, **how: Any) -> Any:
        try:
            writer = super().open(run_id, wait_s=wait_s, **how)
        except Held:
            self.tried.set()
            raise
        self.tried.wait(5.0)
        return writer


class AnyCommand(Sound):
    """Lets a command be called as its sender likes."""

    def post(self, command: Command) -> None:
        self.inner._journals[command.run_id].commands[command.control_id] = command


# -------------------------------------------------------------------------------------------------------------- writers


class Blinkered(Sound):
    """Its writer reads where the run began, and thinks that it knows the rest."""

    class Writer(Around):
        def read(self) -> Any:
            return Told(self.inner.read(), lambda pairs: [*pairs][:1])


class Fussy(Sound):
    """Its writer gives up on an end that it should mend."""

    class Writer(Around):
        def read(self) -> Any:
            reading = self.inner.read()
            return Told(reading, lambda pairs: Distrustful(None).told("", reading, pairs))


class Immortal(Sound):
    """Closing lets the lock go, and that is all."""

    class Writer(Around):
        def close(self) -> None:
            self.inner._journal.lock = threading.Lock()


class Clinging(Sound):
    """Closes, and keeps the lock for the next time."""

    class Writer(Around):
        def close(self) -> None:
            self.inner._closed = True


class Unaware(Sound):
    """Appends wherever the journal ends by now."""

    class Writer(Around):
        def append(self, batch: Batch, **how: Any) -> Any:
            self.inner._size = len(self.inner._journal.data)
            return self.inner.append(batch, **how)


class Hurried(Sound):
    """Cuts first, and keeps then what it has cut."""

    class Writer(Around):
        def repair(self, tail: Tail, sequence: int) -> Any:
            journal, at = self.inner._journal, tail.at_byte
            piece = bytes(journal.data[at:])
            del journal.data[at:]
            name = f"torn-{at}-{sha256(piece).hexdigest()[:12]}"
            if piece:
                journal.kept[name] = piece
            return self.inner.repair(Tail("clean", at), sequence)


class Unsynced(Sound):
    """Syncs what is appended, but neither births nor repairs."""

    def create(self, *given: Any, **how: Any) -> Any:
        with _without_syncs(self.inner._faults):
            return super().create(*given, **how)

    class Writer(Around):
        def repair(self, *given: Any) -> Any:
            with _without_syncs(self.inner._journal.faults):
                return self.inner.repair(*given)


@contextmanager
def _without_syncs(faults: set[str]) -> Iterator[None]:
    """Nothing is synced in it, so no sync fails."""
    kept = set(faults)
    faults.discard("sync")
    try:
        yield
    finally:
        faults |= kept
