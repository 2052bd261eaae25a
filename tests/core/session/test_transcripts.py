"""Transcripts of other programs: what is missing or doubled is found, with its line, and nothing is changed."""

from typing import Any

import pytest

from clew.core.session.transcripts import TranscriptReader, read_transcript, recognise
from clew.core.usage import Usage
from clew.errors import ClewError
from tests.core.session.scribe import TIME, line, session


def claude(*lines: dict[str, Any]) -> bytes:
    return b"".join(line({"sessionId": "s", "uuid": f"u{number}", **each}) for number, each in enumerate(lines))


def codex(*payloads: Any, type: str = "response_item") -> bytes:
    meta = line({"timestamp": TIME, "type": "session_meta", "payload": {"id": "s"}})
    return meta + b"".join(line({"timestamp": TIME, "type": type, "payload": payload}) for payload in payloads)


def asks(*call_ids: str, id: str | None = "m1", output: int = 2) -> dict[str, Any]:
    calls = [{"type": "text"}, *({"type": "tool_use", "id": call_id, "name": "Bash"} for call_id in call_ids)]
    usage = {"input_tokens": 1, "output_tokens": output, "cache_read_input_tokens": 3}
    return {"type": "assistant", "message": {"id": id, "content": calls, "usage": usage}}


def answers(*call_ids: str) -> dict[str, Any]:
    content = [{"type": "tool_result", "tool_use_id": call_id} for call_id in call_ids]
    return {"type": "user", "message": {"role": "user", "content": content}}


def refused(data: bytes) -> ClewError:
    with pytest.raises(ClewError) as caught:
        read_transcript(data)
    return caught.value


def test_calls_without_a_result_are_found_with_their_line() -> None:
    """C01: what they did is unknown."""
    found = read_transcript(claude(asks("c1", "c2"), answers("c1")))

    assert [("c2", "Bash", "u0", 1)] == [
        (each.call_id, each.tool, each.entry_id, each.line) for each in found.orphan_calls
    ]


def test_double_and_stray_results_are_found() -> None:
    """One call, two answers: which was told?"""
    found = read_transcript(claude(asks("c1"), answers("c1"), answers("c1", "c9")))

    assert ([("c1", 3)], [("c9", 3)]) == (
        [(each.call_id, each.line) for each in found.double_results],
        [(each.call_id, each.line) for each in found.stray_results],
    )


def test_usage_is_counted_once_a_message() -> None:
    """C12: per-record sums are two to four times too high; the last report of a message wins."""
    lines = (asks(output=1), asks(output=2), asks(id="m2", output=8), {"type": "assistant", "message": {"id": "m3"}})
    found = read_transcript(claude(*lines))

    assert (10, 1) == (found.usage.output_tokens, found.repeated_usage)
    assert [(2, ("m1",))] == [(each.line, each.ids) for each in found.repeats]


def test_a_message_without_an_id_is_one_of_its_own() -> None:
    """Nothing says that two of them are the same."""
    assert 4 == read_transcript(claude(asks(id=None), asks(id=None))).usage.output_tokens


def test_a_repeated_call_is_one_call() -> None:
    """A resumed transcript repeats old calls under new record ids."""
    found = read_transcript(claude(asks("c1"), asks("c1"), answers("c1")))

    assert ((), ()) == (found.orphan_calls, found.double_results)


def test_lines_without_a_message_are_counted_by_kind() -> None:
    """Kinds that are not known are kept as they are named."""
    data = claude({"type": "progress"}, {"type": "new-kind"}, {"type": "user", "message": {"content": "text"}})

    assert {"progress": 1, "new-kind": 1, "user": 1} == read_transcript(data).kinds


def test_calls_of_codex_are_matched_by_kind_and_id() -> None:
    """A function call and a custom one may have the same id."""
    call, out = (
        {"type": "function_call", "call_id": "c", "name": "sh"},
        {"type": "function_call_output", "call_id": "c"},
    )
    custom = {"type": "custom_tool_call", "call_id": "c"}
    found = read_transcript(
        codex(call, out, out, custom, {"type": "web_search_call"}, {"type": "custom_tool_call_output"})
    )

    assert ([("c", "custom_tool_call")], [("c", "sh", "it has 2 results, at lines 3, 4")]) == (
        [(each.call_id, each.tool) for each in found.orphan_calls],
        [(each.call_id, each.tool, each.why) for each in found.double_results],
    )


def test_an_aborted_turn_is_found() -> None:
    """What ran in it may have taken effect."""
    data = codex({"type": "turn_aborted", "reason": "interrupted"}, "odd", type="event_msg")

    assert [("turn_aborted", "interrupted", 2)] == [
        (each.code, each.text, each.line) for each in read_transcript(data).aborted_turns
    ]


def test_sums_of_codex_are_taken_once_a_session() -> None:
    """Each report is the whole sum so far; one that falls belongs to another session in the same file."""

    def count(tokens: int) -> dict[str, Any]:
        total = {"input_tokens": tokens, "output_tokens": 1, "cached_input_tokens": 0}
        return {"type": "token_count", "info": {"total_token_usage": total}}

    data = codex(count(5), count(9), count(2), {"type": "token_count", "info": None},
                 {"type": "token_count", "info": {}}, type="event_msg")  # fmt: skip

    assert (11, 13) == (read_transcript(data).usage.input_tokens, read_transcript(data).usage.tokens)


def test_a_transcript_without_usage_has_none() -> None:
    """Promise 9: not reported is not zero."""
    assert Usage() == read_transcript(codex({"type": "message"})).usage


@pytest.mark.parametrize(
    ("program", "first"),
    [
        ("claude-code", {"type": "summary", "leafUuid": "x"}),
        ("claude-code", {"type": "user", "uuid": "x"}),
        ("codex", {"timestamp": TIME, "type": "x", "payload": {}}),
        (None, {"type": "message"}),
        (None, {"uuid": "x"}),
        (None, []),
    ],
)
def test_a_transcript_is_known_by_its_first_line(program: str | None, first: Any) -> None:
    """A file that is neither must not be taken for one of them."""
    assert program == recognise(line(first)[:-1])
    assert recognise(b"nonsense") is None


@pytest.mark.parametrize(
    ("code", "data"),
    [
        ("session_unsupported", session()),
        ("session_unsupported", b'{"a":1}'),
        ("session_unsupported", b"nonsense\n"),
        ("session_corrupt", b""),
        ("session_corrupt", b"nonsense"),
    ],
)
def test_what_is_no_transcript_is_refused(code: str, data: bytes) -> None:
    """It is not changed, and not guessed at."""
    assert code == refused(data).code


@pytest.mark.parametrize("bad", [b"\0" * 312, b"[]", b'{"a":1}{"b":2}', b"{"])
def test_a_bad_line_is_refused_with_its_place(bad: bytes) -> None:
    """A power cut leaves zero bytes in the middle of a file that goes on."""
    data = claude(asks("c1"))
    error = refused(data + bad + b"\n" + claude(answers("c1")))

    assert (2, len(data)) == (error.facts["line"], error.facts["byte"])


def test_a_torn_end_is_said() -> None:
    """Reading goes as far as it can."""
    found = read_transcript(claude(asks("c1")) + b'{"type":"us')

    assert (1, ["torn"]) == (found.lines, [each.code for each in found.warnings])


def test_a_second_record_behind_an_unterminated_one_is_damage() -> None:
    """The first of the two is whole."""
    assert "fused_line" == refused(claude(asks("c1")) + b'{"a":1}{"b"').facts["reason"]


def test_an_unterminated_whole_line_counts() -> None:
    """Nothing of it is missing."""
    found = read_transcript(claude(asks("c1"))[:-1])

    assert (1, ["unterminated"]) == (found.lines, [each.code for each in found.warnings])


def test_a_byte_order_mark_is_passed_over() -> None:
    """An editor put it there."""
    assert 1 == read_transcript(b"\xef\xbb\xbf" + claude(asks())).lines


def test_pieces_tell_what_the_whole_tells() -> None:
    """A transcript of many megabytes is read in pieces."""
    data, reader = claude(asks("c1"), answers("c1")), TranscriptReader()
    for at in range(0, len(data), 7):
        reader.feed(data[at : at + 7])

    assert read_transcript(data) == reader.finish()
