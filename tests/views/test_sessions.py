"""Sessions for eyes: nothing that a terminal obeys, nothing invented, and the members that programs rely on."""

from typing import Any

import pytest

from clew.core.session.judging import judge
from clew.core.session.reading import read_session
from clew.core.session.salvaging import salvage
from clew.core.session.transcripts import TranscriptReader
from clew.core.session.values import Judgement, View
from clew.core.session.viewing import view
from clew.views.sessions import found_lines, page_json, page_lines, salvage_lines, session_lines, transcript_lines
from tests.core.session.test_salvaging import TALK, entry, line, ours

CALL = {"type": "toolCall", "id": "c1", "name": "pay", "arguments": {}}


def page(data: bytes) -> tuple[View, Judgement]:
    state = read_session(data)
    return view(state, lambda at, size: data[at : at + size]), judge(state)


def calling(count: int = 1) -> bytes:
    blocks = [{**CALL, "id": f"c{number}"} for number in range(count)]
    message = {"role": "assistant", "content": [{"type": "text", "text": "I pay"}, *blocks]}
    said = line(kind="entry", lane="main", type="message", id="a", message=message, parentId=None, seq=1, timestamp=1)
    return ours(said, entry(2, "b", "a", "bad \x1b[2J text"))


def test_a_page_as_json_has_these_members_and_no_others() -> None:
    """Programs are written against them."""
    told = page_json(*page(calling()))

    members = "entries view title level model tools labels totals leaf warnings openOperations orphanCalls"
    assert (members.split(), [("assistant", "a"), ("user", "b")]) == (
        list(told), [(said["role"], said["entryId"]) for said in told["view"]],
    )  # fmt: skip
    assert (None, None, {}, "b") == (told["model"], told["tools"], told["labels"], told["leaf"])


def test_a_page_tells_the_conversation_in_order_and_what_is_odd_behind_it() -> None:
    """A terminal obeys nothing of what somebody said."""
    shown = list(page_lines(*page(calling())))

    assert any("I pay [call c0: pay]" in each for each in shown)
    assert any("bad \\x1b[2J text" in each for each in shown)
    assert "call without a result, its effect is unknown: c0 pay, line 2" in shown[-1]


def test_content_of_any_shape_is_shown() -> None:
    """A picture has no text, and an old file may have no content at all."""
    message = {"role": "user", "content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    said = line(kind="entry", lane="main", type="message", id="a", message=message, parentId=None, seq=1, timestamp=1)
    nothing = {"role": "user", "content": None}
    empty = line(kind="entry", lane="main", type="message", id="b", message=nothing, parentId="a", seq=2, timestamp=1)

    shown = list(page_lines(*page(ours(said, empty))))

    assert any("[image]" in each for each in shown)


def test_of_very_many_the_first_are_shown_and_the_rest_counted() -> None:
    """A store with hundreds of orphans must not fill the screen."""
    shown = list(found_lines(page(calling(50))[1]))

    assert (21, True) == (len(shown), "30 more" in shown[-1])


ROW: dict[str, Any] = {
    "session": "talk", "format": "v4a", "bytes": 2048, "entries": 3, "title": "T", "ending": "clean", "orphanCalls": 0,
}  # fmt: skip
ERROR = {"message": "m", "code": "c"}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (ROW | {"error": None}, "talk  v4a  3 entries  2.0 KiB  T"),
        (ROW | {"error": None, "entries": None, "title": None, "ending": None}, "talk  v4a  not read  2.0 KiB"),
        (ROW | {"error": None, "ending": "torn"}, "talk  v4a  3 entries  2.0 KiB  T  torn"),
        (ROW | {"error": None, "orphanCalls": 2}, "talk  v4a  3 entries  2.0 KiB  T  2 calls without a result"),
        (ROW | {"format": None, "error": ERROR}, "talk  ?    2.0 KiB  UNREADABLE: m [c]"),
        (
            ROW | {"format": None, "bytes": None, "error": {"message": "m", "code": "c"}},
            "talk  ?    ?  UNREADABLE: m [c]",
        ),
    ],
    ids=["whole", "not read", "torn", "orphans", "unreadable", "a link"],
)
def test_a_row_says_what_is_known(row: dict[str, Any], told: str) -> None:
    """What was not read is not said to be nothing."""
    assert [told] == list(session_lines([row]))


def test_what_was_left_out_is_named_byte_for_byte() -> None:
    """A person looks there before the damaged file is thrown away."""
    shown = list(salvage_lines(salvage(TALK.replace(b'"id":"b"', b'"id":"b', 1))))

    assert (3, True, True) == (len(shown), "left out: line 3, byte" in shown[1], "changed: line 4" in shown[2])


def test_a_transcript_tells_its_calls_and_its_usage() -> None:
    """Each message counted once; what nobody reported is not zero."""
    reader = TranscriptReader()
    message = {
        "id": "m1",
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}],
    }
    reader.feed(line(type="assistant", uuid="u1", sessionId="x", message=message))

    shown = list(transcript_lines(reader.finish()))

    assert "OK  claude-code: 1 line" in shown[0]
    assert "not reported" in shown[1]
    assert "c1 Bash, line 1, byte 0" in shown[2]
