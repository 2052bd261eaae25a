"""What the kit of run stores needs: the author's lab, and a hand that writes journals into it. No case belongs here."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from clew.core.chain import genesis
from clew.core.codec import encode_append
from clew.core.records import Batch, Draft, Head, Kind, Record
from clew.errors import Corrupt
from clew.stores.base import Reading, RunStore, RunWriter, Tail
from clew.testing.lab import Lab, Step

RUN: Final = "r1"
TIME: Final = "2026-11-29T14:00:00.000Z"


class RunStoreLab(Lab[RunStore]):
    """A place for runs, empty at first, that a case may fill, damage and look into. Lives for one case.

    The author of a store gives `store` always and the other four as well as it can. What it cannot do it says in
    `cannot`; the cases that need it are then skipped and say so. What is neither given nor declared fails them.

    Args:
        store: The store as another process opens it: a new object over the same place each time. A store in the
            memory of one process gives the same object again.
        raw: The bytes of a journal, by its id, as they are kept: also of a damaged or an empty one.
        implant: Puts bytes there as the whole journal, good or bad, behind the store's back, as a disk would. What is
            kept beside a journal (its head, cut ends, inbox) stays as it is, and so does the lock of a writer.
        fail: Within what it gives, the next `write` or the next `sync` of a journal fails, as on a dying disk; see
            `failing_call`.
        elsewhere: Lines of Python that make a `store` over this place in another process, which has the `sys.path`
            of this one.
        cannot: Name of one of these four -> why this store has nothing of the kind.

    Source:
        DESIGN §3, "a contract is a kit".
    """

    def __init__(
        self,
        store: Callable[[], RunStore],
        *,
        raw: Callable[[str], bytes] | None = None,
        implant: Callable[[str, bytes], None] | None = None,
        fail: Callable[[Step], AbstractContextManager[None]] | None = None,
        elsewhere: str | None = None,
        cannot: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(store, fail=fail, elsewhere=elsewhere, cannot=cannot)
        self._raw = raw
        self._implant = implant

    def raw(self, run_id: str) -> bytes:
        """The bytes of a journal."""
        return self.given("raw", self._raw)(run_id)

    def implant(self, run_id: str, data: bytes) -> None:
        """Put these bytes there as the whole journal."""
        self.given("implant", self._implant)(run_id, data)


class Hand:
    """Encodes the appends of one run, each behind the one before, by the rule by which the runtime does."""

    def __init__(self, run_id: str = RUN, sequence: int = 0, chain: str = "") -> None:
        self.run_id = run_id
        self.sequence = sequence
        self.chain = chain or genesis(run_id)

    def batch(self, *payloads: dict[str, Any], kind: Kind = "event") -> Batch:
        """The next append, of one record for each payload."""
        ids = [f"n-{self.sequence + i}" for i in range(len(payloads))]
        batch = encode_append(
            self.run_id,
            after=self.sequence,
            chain=self.chain,
            drafts=[Draft(kind, payload) for payload in payloads],
            timestamp=TIME,
            event_ids=ids,
        )
        self.sequence, self.chain = batch.last, batch.chain
        return batch

    def start(self, store: RunStore, nonce: str = "n1", **changes: Any) -> Batch:
        """The first append: a leg of this process, unless changed."""
        leg = {"number": 1, "nonce": nonce, "purpose": "run", **store.identity(), "version": "0.1.0", **changes}
        return self.batch({"leg": leg}, kind="start")

    def head(self, size_bytes: int = 0) -> Head:
        """The head of a journal that ends here."""
        return Head(self.sequence, self.chain, size_bytes, {})


class Written(NamedTuple):
    """A journal of nobody's leg: its bytes, where each line begins (and the end), and where each append ends."""

    data: bytes
    starts: list[int]
    ends: list[int]

    @property
    def lines(self) -> list[bytes]:
        """Its lines, each with its LF."""
        return self.data.splitlines(keepends=True)


def written(appends: Sequence[Sequence[dict[str, Any]]], run_id: str = RUN) -> Written:
    """The journal of these appends, each a list of payloads; the first record is its start."""
    hand, data, ends = Hand(run_id), b"", list[int]()
    for payloads in appends:
        data += hand.batch(*payloads, kind="event" if data else "start").data
        ends.append(len(data))
    return Written(data, [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)], ends)


def sample() -> Written:
    """Three appends of one, two and three records; the last one goes over several sectors of a disk."""
    return written([[{"n": 1}], [{"n": 2}, {"n": 3}], [{"pad": "x" * 1100}, {"n": 5}, {"n": 6}]])


def foreign(count: int, run_id: str = RUN) -> Written:
    """A journal as the reference implementation writes it: without `chain`, `append` and, in old ones, `eventId`."""
    line = '{"version":1,"runId":"%s","sequence":%d,"timestamp":"%s","kind":"%s","payload":{"n":%d}}\n'
    kinds = ["start", *["event"] * (count - 1)]
    data = "".join(line % (run_id, n, TIME, kind, n) for n, kind in enumerate(kinds, 1)).encode()
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == 10)]
    return Written(data, starts, starts[1:])


def born(lab: RunStoreLab, run_id: str = RUN) -> tuple[RunWriter, Hand]:
    """A run with its first record, and its writer."""
    store, hand = lab.store(), Hand(run_id)
    return store.create(run_id, hand.start(store)), hand


def read_all(reading: Reading) -> tuple[list[Record], Tail]:
    """All records of a reading, and how it ended."""
    records = [record for record, _ in reading]
    return records, reading.tail


def go_on(writer: RunWriter) -> Hand:
    """Read, repair and adopt as a new leg does; returns the hand for what follows."""
    reading = writer.read()
    last = [record for record, _ in reading][-1]
    writer.repair(reading.tail, last.sequence + 1)
    hand = Hand(writer.run_id, last.sequence, last.chain or "")
    writer.adopt(hand.sequence, hand.chain)
    return hand


def told(read: Callable[[], Reading]) -> tuple[Any, ...]:
    """All that a reading says, to be compared: sequences, verdict, byte and length of the end; or the corrupt place."""
    try:
        records, tail = read_all(read())
    except Corrupt as error:
        return error.code, error.facts.get("line"), error.facts.get("byte")
    return [record.sequence for record in records], tail.verdict, tail.at_byte, tail.bytes
