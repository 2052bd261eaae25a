"""Lines to records and back."""

import json
import os
import shutil
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.chain import genesis, link
from clew.core.codec import (
    MAX_APPEND,
    BadLine,
    LineReader,
    encode_append,
    read_record,
    read_records,
    strict_json,
    strict_json_slow,
)
from clew.core.records import Batch, Draft, Head, Record
from clew.errors import Refused
from tests.core.journals import (
    EXAMPLES,
    RUN,
    TIME,
    appends,
    naive_records,
    payloads,
    plain,
    sample,
    say,
    write,
)

CASES = Path(os.environ.get("CLEW_CASES", Path(__file__).parents[3] / "shared" / "cases")) / "files"


def encode(payload: dict[str, Any], *, after: int = 0, chain: str = genesis(RUN)) -> Batch:
    drafts = [Draft("start", payload)]
    return encode_append(RUN, after=after, chain=chain, drafts=drafts, timestamp=TIME, event_ids=["n1-1"])


def read_all(data: bytes, run_id: str = RUN) -> list[Record]:
    reader = LineReader(run_id)
    return [reader.feed(line) for line in data.split(b"\n")[:-1]]


def outcome(parse: Callable[[bytes], Any], text: bytes) -> str:
    """What a parser says, types and order of members included."""
    try:
        return repr(parse(text))
    except BadLine:
        return "refused"


def split(data: bytes) -> list[bytes]:
    return data.split(b"\n")[:-1]


# ------------------------------------------------------------------------------------------------------- strict JSON

REFUSED = {
    "nothing": b"",
    "half an object": b'{"a":',
    "two values": b"1 2",
    "a repeated name": b'{"a":1,"a":1}',
    "a repeated name inside": b'{"p":{"a":1,"a":2}}',
    "a repeated name, escaped": b'{"a":1,"\\u0061":2}',
    "a repeated name, empty": b'{"":1,"":1}',
    "NaN": b'{"a":NaN}',
    "Infinity": b"Infinity",
    "minus Infinity": b"[-Infinity]",
    "a number out of range": b'{"a":1e400}',
    "a negative number out of range": b"-1e400",
    "more digits than Python reads": b"1" * 5000,
    "bytes that are not UTF-8": b'"\xff"',
    "a surrogate as bytes": b'"\xed\xa0\x80"',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a control character in a string": b'"\x01"',
    "a NUL": b'{"a":"\x00"}',
    "a NUL behind": b"{}\x00",
    "100,000 brackets": b"[" * 100_000 + b"]" * 100_000,
    "a comment": b"{}//",
    "a leading zero": b"01",
    "a trailing comma": b"[1,]",
    "single quotes": b"{'a':1}",
}
ACCEPTED = {
    "minus zero": (b"-0", 0),
    "a float as another writer writes it": (b'{"n":1E+2}', {"n": 100.0}),
    "an integer beyond 64 bits": (b"123456789012345678901234567890", 123456789012345678901234567890),
    "white space": (b' {"a" : 1}\r', {"a": 1}),
    "an escaped solidus": (b'"\\/"', "/"),
    "an escaped pair": (b'"\\ud83d\\ude00"', "\U0001f600"),
    "a lone surrogate": (b'{"\\ud800":"\\udfff"}', {"\ud800": "\udfff"}),
    "DEL": (b'"\x7f"', "\x7f"),
    "no object": (b"null", None),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_two_readers_could_read_differently_is_refused(text: bytes) -> None:
    """msgspec alone lets repeated names pass, the standard library NaN and 1e400 as well."""
    with pytest.raises(BadLine):
        strict_json(text)


@pytest.mark.parametrize(("text", "value"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_json_is_read_however_it_is_written(text: bytes, value: Any) -> None:
    """Foreign journals are written by other encoders, and lone surrogates exist in real tool output."""
    found = strict_json(text)

    assert repr(found) == repr(value)


STRINGS = [
    '"a"',
    '"b"',
    '"\\u0061"',
    '"é"',
    '"\\ud800"',
    '"\\ud83d\\ude00"',
    '"\\/"',
    '"x\\":1,\\"y"',
    '""',
    '"\\n"',
    '"\x7f"',
]
FLOATS = ["-0.0", "1.0", "1e3", "1E3", "1e400", "1e-400", "1.50", "5e-324"]
INTEGERS = ["0", "-0", "1", "9007199254740993", "1" * 30]
CONSTANTS = ["true", "false", "null", "NaN", "Infinity", "-Infinity"]
WRONG = ["01", "+1", "1.", ".5", "nul", "\ufeff", '"\x00"']
fragments = st.sampled_from([*STRINGS, *FLOATS, *INTEGERS, *CONSTANTS, *WRONG])
blanks = st.sampled_from(["", "", "", " ", "\t", "\r"])
names = st.sampled_from(['"a"', '"b"', '"\\u0061"', '""', '"\\ud800"', "a"])
json_like = st.recursive(
    fragments,
    lambda inner: st.one_of(
        st.builds("[{}{}]".format, blanks, st.lists(inner, max_size=3).map(",".join)),
        st.builds(
            "{{{}{}}}".format, blanks, st.lists(st.builds("{}:{}".format, names, inner), max_size=3).map(",".join)
        ),
    ),
    max_leaves=8,
)


@given(text=json_like, at=st.integers(0, 60), noise=st.binary(max_size=1))
def test_the_fast_way_and_the_slow_way_agree(text: str, at: int, noise: bytes) -> None:
    """The comparison of bytes is a shortcut, not another meaning."""
    line = text.encode()
    line = line[:at] + noise + line[at:]

    assert outcome(strict_json, line) == outcome(strict_json_slow, line)


# ----------------------------------------------------------------------------------------------------------- writing


def test_a_line_is_exactly_the_one_of_the_specification() -> None:
    """Order of members, no white space, chain and append last: the bytes are the format."""
    batch = encode({"text": "é", "from": None})

    assert (
        batch.data
        == (
            '{"version":1,"runId":"01JD4KQ7Z8","sequence":1,"eventId":"n1-1","timestamp":"2026-11-29T14:00:00.000Z",'
            f'"kind":"start","payload":{{"text":"é","from":null}},"chain":"{batch.chain}","append":1}}\n'
        ).encode()
    )


def test_records_of_one_append_are_numbered_and_share_their_append() -> None:
    """`append` says which lines were acknowledged together."""
    batch = encode_append(
        RUN, after=6, chain="0" * 64, drafts=[say(), say()], timestamp=TIME, event_ids=["n1-1", "n1-2"]
    )
    numbers = [(record.sequence, record.append) for record in batch.records]

    assert (batch.first, batch.last, numbers) == (7, 8, [(7, 7), (8, 7)])


def test_a_batch_continues_the_chain_and_hands_it_on() -> None:
    """The writer never reads its own lines again."""
    first = encode({})
    second = encode({}, after=1, chain=first.chain)

    assert [record.chain for record in read_all(first.data + second.data)] == [first.chain, second.chain]


@given(appends)
def test_what_is_written_is_what_is_read(said: list[list[Draft]]) -> None:
    """Decode after encode is the identity, lone surrogates and integers of 40 digits included."""
    written = write(said)
    found = read_all(written.data)

    assert [repr(record.payload) for record in found] == [repr(draft.payload) for drafts in said for draft in drafts]
    assert found == written.records


@given(payloads)
def test_a_line_of_plain_text_is_the_one_of_msgspec(payload: dict[str, Any]) -> None:
    """Only a line with a lone surrogate has the standard library's form."""
    batch = encode(payload)

    try:
        expected = msgspec.json.encode(batch.records[0]) + b"\n"
    except UnicodeEncodeError:
        expected = json.dumps(plain(batch.records[0]), separators=(",", ":")).encode() + b"\n"
    assert batch.data == expected


def test_a_lone_surrogate_is_written_escaped() -> None:
    """UTF-8 cannot hold it, and an effect whose output holds one must be recorded all the same."""
    batch = encode({"text": "é\ud800"})

    assert b'{"text":"\\u00e9\\ud800"}' in batch.data


def test_a_record_holds_what_a_reader_will_find() -> None:
    """Two surrogates that make a pair are one character once they are JSON, live and replayed."""
    batch = encode({"text": "\ud800 \ud83d\ude00"})

    assert batch.records[0].payload == read_all(batch.data)[0].payload == {"text": "\ud800 \U0001f600"}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("beside", ["", None, "\ud800"])
def test_no_number_becomes_null(number: float, beside: str | None) -> None:
    """msgspec writes NaN as null: money would become nothing."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"cents": [number], "beside": beside})


def test_an_append_of_the_largest_size_is_written() -> None:
    """The limit is inclusive, as it is for the reader's judgement of a tail."""
    room = MAX_APPEND - len(encode({"text": ""}).data)
    batch = encode({"text": "x" * room})

    assert len(batch.data) == MAX_APPEND


def test_a_larger_append_is_refused() -> None:
    """A tail longer than this is never taken for torn, so none may be written."""
    room = MAX_APPEND - len(encode({"text": ""}).data) + 1

    with pytest.raises(Refused) as caught:
        encode({"text": "x" * room})

    assert caught.value.code == "append_too_large"
    assert caught.value.facts == {"run": RUN, "bytes": MAX_APPEND + 1, "limit": MAX_APPEND}


def test_every_draft_needs_an_event_id() -> None:
    """A missing id must not drop the record that it was meant for."""
    with pytest.raises(ValueError, match="shorter"):
        encode_append(RUN, after=0, chain="", drafts=[say(), say()], timestamp=TIME, event_ids=["n1-1"])


# ----------------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_journal_is_read_and_written_again_byte_for_byte(path: Path) -> None:
    """The examples were judged by the reference implementation: they are the format."""
    data = path.read_bytes()
    records = read_all(data, run_id := json.loads(data.split(b"\n")[0])["runId"])
    again, chain = b"", genesis(run_id)
    for append, group in groupby(records, key=lambda record: record.append or 0):
        lines = list(group)
        batch = encode_append(
            run_id,
            after=append - 1,
            chain=chain,
            drafts=[Draft(record.kind, record.payload) for record in lines],
            timestamp=lines[0].timestamp,
            event_ids=[str(record.event_id) for record in lines],
        )
        again, chain = again + batch.data, batch.chain

    assert again == data


def test_there_are_four_examples() -> None:
    """An empty folder would make the test above pass."""
    assert [path.stem for path in EXAMPLES] == ["completed", "paused", "second_attempt", "settled"]


def test_a_journal_of_coremind_is_read(tmp_path: Path) -> None:
    """Contract #38, #43: no chain, no event ids, and nothing is invented in their place."""
    source = CASES / "coremind-0.3.0-legacy-run.jsonl"
    if not source.exists():
        pytest.skip("the real files of the cases are not on this machine; CLEW_CASES names their folder")
    data = Path(shutil.copy(source, tmp_path)).read_bytes()
    reader = LineReader("run-legacy")
    records = [reader.feed(line) for line in data.splitlines()]

    assert [plain(record) for record in records] == naive_records(data, "run-legacy")
    assert (reader.sequence, reader.last_append) == (7, None)
    assert reader.chain == genesis("run-legacy")


def test_before_the_first_line_a_reader_knows_nothing() -> None:
    """Before its first line a journal is neither chained nor unchained."""
    reader = LineReader(RUN)

    assert (reader.sequence, reader.chain, reader.last_append) == (0, genesis(RUN), None)


def test_a_reader_stands_at_the_last_good_record() -> None:
    """What a writer adopts and what the rule of the tail is asked with."""
    written = sample()
    reader = LineReader(RUN)
    for line in written.lines:
        reader.feed(line[:-1])

    assert (reader.sequence, reader.chain, reader.last_append) == (8, written.head.chain, 5)


def test_a_bad_line_leaves_the_reader_where_it_was() -> None:
    """The rule of the tail needs the place before the bad line."""
    written = sample()
    reader = LineReader(RUN)
    reader.feed(written.lines[0][:-1])
    with pytest.raises(BadLine):
        reader.feed(written.lines[2][:-1])

    assert reader.feed(written.lines[1][:-1]) == written.records[1]


LEGACY: dict[str, Any] = {"version": 1, "runId": RUN, "sequence": 1, "timestamp": TIME, "kind": "start", "payload": {}}
WRONG_MEMBERS: dict[str, list[Any]] = {
    "version": [None, 0, 2, True, 1.0, "1"],
    "runId": [None, 1, "other", RUN.lower(), "\ud800"],
    "sequence": [None, 0, 2, True, 1.0, "1", -1],
    "timestamp": [None, 1],
    "kind": [None, "", "Start", "ended", 1, [], {}, "\ud800"],
    "payload": [None, [], "x", 1],
    "eventId": [None, "", " ", "\t", 1],
    "chain": [None, "", "0" * 64, 1],
    "append": [None, 1, "1", True],
}


def legacy(**members: Any) -> bytes:
    return json.dumps(LEGACY | members, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in WRONG_MEMBERS for value in WRONG_MEMBERS[name]], ids=repr
)
def test_a_member_that_is_not_what_it_must_be_is_refused(name: str, value: Any) -> None:
    """Nothing is defaulted or converted on read; `true` is no 1."""
    with pytest.raises(BadLine):
        LineReader(RUN).feed(legacy(**{name: value}))


@pytest.mark.parametrize("name", LEGACY)
def test_a_member_that_is_missing_is_refused(name: str) -> None:
    """Nothing is defaulted on read."""
    line = json.dumps({key: value for key, value in LEGACY.items() if key != name}).encode()
    with pytest.raises(BadLine, match=f"its {name} is missing"):
        LineReader(RUN).feed(line)


@pytest.mark.parametrize("text", [b"[]", b"1", b"null", b'"x"', b""])
def test_a_line_that_is_no_object_is_refused(text: bytes) -> None:
    """A line is one JSON object."""
    with pytest.raises(BadLine):
        LineReader(RUN).feed(text)


def test_a_wrong_member_is_refused_behind_a_right_chain_as_well() -> None:
    """The chain proves who wrote a line before whom, not that the line is a record."""
    batch = encode_append(RUN, after=0, chain=genesis(RUN), drafts=[say()], timestamp=TIME, event_ids=[" "])
    with pytest.raises(BadLine, match="eventId is blank"):
        LineReader(RUN).feed(batch.data[:-1])


@pytest.mark.parametrize(
    "spoilt", [b'{"a":1,"a":1}', b'{"a":{"b":1,"b":2}}', b'{"a":NaN}', b'{"a":1e400}', b'{"a":"\xff"}']
)
def test_a_line_that_is_not_strict_json_is_refused_behind_a_right_chain_as_well(spoilt: bytes) -> None:
    """msgspec reads some of these, and two readers would read them differently."""
    line = encode({}).data[:-1].replace(b"{}", spoilt)
    before, end = line[: line.index(b',"chain"')], b',"append":1}'
    value = link(genesis(RUN), before, end).encode()
    with pytest.raises(BadLine, match="not strict JSON"):
        LineReader(RUN).feed(before + b',"chain":"' + value + b'"' + end)


@pytest.mark.parametrize("payload", [None, [], "x", 1])
def test_a_payload_that_is_no_object_is_refused_behind_a_right_chain_as_well(payload: Any) -> None:
    """Everything above this floor reads members of it."""
    batch = encode(payload)
    with pytest.raises(BadLine, match="its payload"):
        LineReader(RUN).feed(batch.data[:-1])


def test_the_members_of_an_unchained_line_may_stand_in_any_order() -> None:
    """Another writer's order is not an error, and members that we do not know are theirs."""
    line = json.dumps(dict(reversed(LEGACY.items())) | {"more": [1]}).encode()
    record = LineReader(RUN).feed(line)

    assert plain(record) == LEGACY


def test_crlf_is_white_space_in_an_unchained_journal() -> None:
    """A foreign journal that was edited on Windows stays readable."""
    record = LineReader(RUN).feed(legacy(eventId="e") + b"\r")

    assert plain(record) == LEGACY | {"eventId": "e"}


def test_crlf_is_refused_in_a_chained_journal() -> None:
    """A chained line ends in its `append`: something has rewritten the file."""
    with pytest.raises(BadLine, match="append is not its last member"):
        LineReader(RUN).feed(encode({}).data[:-1] + b"\r")


def test_members_behind_the_chain_are_refused() -> None:
    """The end of a broken line must say which append it belongs to."""
    line = encode({}).data[:-2] + b',"more":1}'
    with pytest.raises(BadLine, match="append is not its last member"):
        LineReader(RUN).feed(line)


def test_a_chain_that_stops_is_refused() -> None:
    """Else an edit could hide behind lines without one."""
    reader = LineReader(RUN)
    reader.feed(encode({}).data[:-1])
    with pytest.raises(BadLine, match="the chain stops"):
        reader.feed(legacy(sequence=2))


def test_a_chain_that_begins_in_the_middle_is_refused() -> None:
    """Who began a journal continues it."""
    reader = LineReader(RUN)
    reader.feed(legacy())
    with pytest.raises(BadLine, match="begins in the middle"):
        reader.feed(encode({}, after=1).data[:-1])


@pytest.mark.parametrize("append", [1, 2, 4, 5])
def test_an_append_that_is_neither_old_nor_new_is_refused(append: int) -> None:
    """Records of one append stand together."""
    written = write([[say()], [say()], [say(), say()]])
    reader = LineReader(RUN)
    for line in written.lines[:3]:
        reader.feed(line[:-1])
    line = written.lines[3][:-1].replace(b'"append":3}', b'"append":%d}' % append)
    with pytest.raises(BadLine, match="chain value" if append == 4 else "its append is"):
        reader.feed(line)


def test_the_first_append_is_one() -> None:
    """There is no record before it to share an append with."""
    line = encode({}).data[:-1].replace(b'"append":1}', b'"append":0}')
    with pytest.raises(BadLine, match="its append is 0"):
        LineReader(RUN).feed(line)


def test_a_line_of_another_run_is_refused_even_with_a_right_chain() -> None:
    """A journal that was copied under another name is not that run."""
    line = write([[say()]], "other").data[:-1]
    with pytest.raises(BadLine, match="not record 1 of run"):
        LineReader(RUN).feed(line)


def test_the_record_of_the_head_passes() -> None:
    """A head is a lower bound: the journal goes on behind it."""
    written = sample()
    head = Head(3, written.records[2].chain or "", 0, {})
    reader = LineReader(RUN, head)
    records = [reader.feed(line[:-1]) for line in written.lines]

    assert records == written.records


@pytest.mark.parametrize("sequence", [1, 3, 8])
def test_another_record_than_the_head_names_is_refused(sequence: int) -> None:
    """A journal that was written anew has a right chain, but not the acknowledged one."""
    written = sample()
    reader = LineReader(RUN, Head(sequence, "0" * 64, 0, {}))
    for line in written.lines[: sequence - 1]:
        reader.feed(line[:-1])
    with pytest.raises(BadLine, match="the head names"):
        reader.feed(written.lines[sequence - 1][:-1])


def test_an_unchained_record_is_not_what_a_head_names() -> None:
    """Heads are published by us, of journals of ours."""
    with pytest.raises(BadLine, match="the head names"):
        LineReader(RUN, Head(1, "0" * 64, 0, {})).feed(legacy())


@given(payloads)
def test_a_line_by_itself_is_the_same_record_at_both_speeds(payload: dict[str, Any]) -> None:
    """White space sends a line the slow way, and must change nothing else."""
    line = encode(payload).data[:-1]

    assert repr(read_record(line)) == repr(read_record(line + b" "))


# --------------------------------------------------------------------------------------------------- many lines at once


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_lines_read_together_are_the_lines_read_one_by_one(numbers: list[int]) -> None:
    """Speed must not change what a journal says."""
    data = b"".join(encode({"n": number}, after=after).data for after, number in enumerate(numbers))

    assert [read_record(line) for line in split(data)] == read_records(data)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda line: line.replace(b'"n":1', b'"n":1,"n":1'),
        lambda line: line.replace(b'"n":1', b'"n": 1'),
        lambda line: line.replace(b'"n":1', b'"n":"\xff"'),
        lambda line: line.replace(b'{"n":1}', b"[1]"),
        lambda line: line + b"\n",
        lambda line: line[:-5] + b"\n",
        lambda line: b"[" * 100_000 + b"\n",
    ],
    ids=["repeated", "spaced", "not UTF-8", "no object", "blank line", "cut", "deep"],
)
def test_lines_of_which_one_is_unusual_are_left_to_be_read_one_by_one(spoil: Callable[[bytes], bytes]) -> None:
    """Together it cannot be said which one it is, and some of them are sound."""
    good = encode({"n": 1}).data

    assert None is read_records(good + spoil(good))
