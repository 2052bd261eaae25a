"""Journals for the tests of chain, codec and tail: how to write one, two ways to read it, and strategies."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from clew.core.chain import genesis
from clew.core.codec import KINDS, BadLine, LineReader, encode_append
from clew.core.records import Draft, Head, Record
from clew.core.tail import check_head, judge_tail

RUN = "01JD4KQ7Z8"
TIME = "2026-11-29T14:00:00.000Z"
MEMBERS = frozenset(
    ("version", "runId", "sequence", "eventId", "timestamp", "kind", "payload", "chain", "append")
)  # fmt: skip
"""Of a record. Others are passed over by whoever reads an unchained line of another program."""
EXAMPLES = sorted((Path(__file__).parents[1] / "journals").glob("*.jsonl"))


class Written(NamedTuple):
    """A journal: its bytes, its records, where each line begins (and the end), and the end of each append."""

    data: bytes
    records: list[Record]
    starts: list[int]
    ends: list[int]

    @property
    def head(self) -> Head:
        return Head(self.records[-1].sequence, self.records[-1].chain or "", len(self.data), {})

    @property
    def lines(self) -> list[bytes]:
        return self.data.splitlines(keepends=True)


def write(appends: Sequence[Sequence[Draft]], run_id: str = RUN) -> Written:
    data, records, ends, chain = b"", list[Record](), [0], genesis(run_id)
    for drafts in appends:
        ids = [f"n1-{len(records) + i}" for i in range(len(drafts))]
        batch = encode_append(run_id, after=len(records), chain=chain, drafts=drafts, timestamp=TIME, event_ids=ids)
        data, chain = data + batch.data, batch.chain
        records += batch.records
        ends.append(len(data))
    starts = [0, *(i + 1 for i, byte in enumerate(data) if byte == 10)]
    return Written(data, records, starts, ends)


def say(text: str = "", kind: Any = "event") -> Draft:
    return Draft(kind, {"text": text, "from": None})


def sample(*, padding: int = 0) -> Written:
    """Four appends, the last of four records over several sectors; `padding` moves it along the sectors."""
    last = [say("a" * 400), say(), say("b" * 700), say("c" * 40)]
    return write([[say("p" * padding, "start")], [say("x" * 300), say()], [say("y")], last])


class Readback(NamedTuple):
    """What a reader may say of bytes: records, where they end, and how the file ends."""

    records: list[Record]
    at_byte: int
    verdict: str


def read(data: bytes, run_id: str = RUN, head: Head | None = None) -> Readback:
    """A whole reader over the pure parts, as a store is one."""
    lines, records, at, why = LineReader(run_id, head), list[Record](), 0, ""
    while at < len(data):
        stop = data.find(b"\n", at)
        line = data[at : stop if stop >= 0 else None]
        try:
            records.append(lines.feed(line))
        except BadLine as bad:
            why = bad.why
            break
        at += len(line) + (stop >= 0)
    check_head(head, run_id=run_id, at_byte=at, next_sequence=lines.sequence + 1, why=why)
    if why:
        judge_tail(
            data[at:],
            run_id=run_id,
            at_byte=at,
            next_sequence=lines.sequence + 1,
            last_append=lines.last_append,
            why=why,
        )
    whole = not data or data.endswith(b"\n")
    return Readback(records, at, "torn" if why else "clean" if whole else "unterminated")


def naive_records(data: bytes, run_id: str = RUN) -> list[dict[str, Any]]:
    """The records before the first bad line, read with the standard library alone: slow, short, and by another hand."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({name for name, _ in pairs}) == len(pairs)
        return dict(pairs)

    def number(text: str) -> float:
        assert abs(float(text)) < float("inf")
        return float(text)

    records, value, chained = list[dict[str, Any]](), hashlib.sha256(f"clew-journal-1:{run_id}".encode()), None
    for sequence, line in enumerate(data.split(b"\n"), 1):
        try:
            record = json.loads(line.decode(), object_pairs_hook=once, parse_float=number, parse_constant=number)
            assert type(record) is type(record["payload"]) is dict
            assert (record["version"], record["runId"], record["sequence"]) == (1, run_id, sequence)
            assert type(record["version"]) is type(record["sequence"]) is int
            assert type(record["timestamp"]) is type(record.get("eventId", "-")) is str
            assert record["kind"] in list(KINDS)
            assert record.get("eventId", "-").strip()
            has_chain = "chain" in record or "append" in record
            assert chained in (None, has_chain)
            if has_chain:
                assert type(record["append"]) is int
                assert record["append"] == sequence or (records and record["append"] == records[-1]["append"])
                end = f',"append":{record["append"]}}}'.encode()
                member = f',"chain":"{record["chain"]}"'.encode()
                assert line.endswith(member + end)
                text = value.hexdigest().encode() + line.removesuffix(member + end) + end
                assert hashlib.sha256(text).hexdigest() == record["chain"]
                value = hashlib.sha256(text)
        except (ValueError, TypeError, AssertionError, KeyError, RecursionError):
            break
        chained = has_chain
        records.append({name: value for name, value in record.items() if name in MEMBERS})
    return records


def plain(record: Record) -> dict[str, Any]:
    """A record as its line says it, by the members that are present."""
    names = {"run_id": "runId", "event_id": "eventId"}
    members = ((names.get(name, name), getattr(record, name)) for name in record.__struct_fields__)
    absent = ("UNSET", "None")
    return {name: value for name, value in members if repr(value) not in absent}


def states_of_append(before: bytes, append: bytes, sector: int = 512) -> Iterator[bytes]:
    """Every file that a power cut may leave of one append: any of its sectors zero, any size at a sector's border."""
    data = before + append
    borders = [*range(len(before) - len(before) % sector + sector, len(data), sector), len(data)]
    for count in range(len(borders) + 1):
        ends = [len(before), *borders[:count]]
        for lost in range(1 << count):
            state = bytearray(data[: ends[-1]])
            for i in range(count):
                if lost >> i & 1:
                    state[ends[i] : ends[i + 1]] = bytes(ends[i + 1] - ends[i])
            yield bytes(state)


def _as_json_holds_it(text: str) -> str:
    """Two surrogates that make a pair are one character in JSON."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


texts = st.text(st.characters(exclude_categories=()), max_size=12).map(_as_json_holds_it)
numbers = (
    st.integers()
    | st.integers(min_value=-(10**40), max_value=10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
payloads = st.dictionaries(texts, values, max_size=4)
drafts = st.builds(Draft, st.sampled_from(KINDS), payloads)
appends = st.lists(st.lists(drafts, min_size=1, max_size=3), min_size=1, max_size=4)
