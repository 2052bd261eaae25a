"""Kind K1: calls and results that no longer pair up. What a session holds and what a model is sent; not runs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.session.judging import judge
from clew.core.session.migrating import migrate
from clew.core.session.projecting import OUTCOME_UNKNOWN, project
from clew.core.session.reading import read_session
from tests.core.session.scribe import (
    answered,
    asked,
    at,
    calling,
    reading,
    result,
    seen,
    session,
    speaks,
    user,
    v4a,
)


def sent(data: bytes) -> list[dict[str, Any]]:
    """What a model is sent of a session."""
    return list(project(seen(data).messages).messages)


def pairs(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Each result, and the role of what stands before it and its fellows."""
    found, last = [], ""
    for message in messages:
        if message["role"] == "toolResult":
            found.append((message["toolCallId"], last))
        else:
            last = message["role"]
    return found


def test_an_interrupted_call_has_one_result_in_the_request_and_none_in_the_file() -> None:
    """C01: the provider rejects every later request of a conversation with a call that nobody answered."""
    data = session(user("u"), calling("a", "u", "c1"), user("v", "a"))
    before = bytes(data)

    assert ["user", "assistant", "toolResult", "user"] == [each["role"] for each in sent(data)]
    assert OUTCOME_UNKNOWN == sent(data)[2]["content"][0]["text"]
    assert before == data


def test_orphans_are_counted_and_looking_adds_none() -> None:
    """C05: one user's store held 311, and each retry added more."""
    sessions = [
        session(calling("a", None, "c1", "c2"), user("u", "a"), calling("b", "u", "c3")),
        session(user("u"), calling("a", "u", "c1"), result("r", "a", "c1")),
        v4a(speaks("a", None, asked("c1", "c2"))),
    ]
    counts = [len(judge(read_session(data)).orphan_calls) for data in sessions]
    for data in sessions:
        sent(data)

    assert [3, 0, 2] == counts
    assert counts == [len(judge(read_session(data)).orphan_calls) for data in sessions]


def test_a_message_that_is_sent_again_adds_no_orphan() -> None:
    """C05: the retry goes on behind the same call."""
    once = session(user("u"), calling("a", "u", "c1"), user("v", "a", "again"))
    twice = session(user("u"), calling("a", "u", "c1"), user("v", "a", "again"), user("w", "v", "again"))

    assert 1 == len(judge(read_session(once)).orphan_calls) == len(judge(read_session(twice)).orphan_calls)


ENTRIES = [
    ("m1", asked("c1", "c2")), ("r2", answered("c2")), ("r1", answered("c1")), ("u1", {"role": "user", "content": "x"}),
    ("m2", asked("c1")), ("r3", answered("c1")), ("m3", asked("c4")), ("r9", answered("c9")),
]  # fmt: skip


@given(st.integers(0, 8), st.integers(0, 8))
def test_a_history_that_was_cut_anywhere_pairs_up(begin: int, end: int) -> None:
    """C06: a repair that adds a result without its call makes the conversation unusable for ever."""
    parent, entries = None, []
    for name, message in ENTRIES[begin:end]:
        entries.append(at("message", name, parent, message=message))
        parent = name

    assert {"assistant"} >= {role for _, role in pairs(sent(session(*entries)))}
    calls = [
        block["id"]
        for message in sent(session(*entries))
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == "toolCall"
    ]
    assert calls == [call_id for call_id, _ in pairs(sent(session(*entries)))]


@pytest.mark.parametrize("first", ["u", "c"])
def test_a_compaction_between_a_call_and_its_result_is_put_right_and_reported(first: str) -> None:
    """C09: for files that are there already; the projection drops or pairs again."""
    data = session(
        user("u"), calling("a", "u", "c1"),
        at("compaction", "c", "a", summary="s", firstKeptEntryId=first), result("r", "c", "c1"),
    )  # fmt: skip
    messages = sent(data)

    assert [("c1", "assistant")] * (first == "u") == pairs(messages)
    assert ["compaction_between"] == [each.code for each in judge(read_session(data)).warnings]


def test_parallel_calls_have_their_results_in_the_order_of_the_calls() -> None:
    """C10: five calls that finish in reverse order; another number of results is rejected."""
    names = [f"c{number}" for number in range(5)]
    parent, entries = "a", [calling("a", None, *names)]
    for name in reversed(names):
        entries.append(result(f"r-{name}", parent, name))
        parent = f"r-{name}"

    assert names == [call_id for call_id, _ in pairs(sent(session(*entries)))]


def test_the_file_alone_gives_a_whole_valid_history() -> None:
    """C11: what the provider kept on its side may be lost; nothing of it is needed."""
    data = session(user("u"), calling("a", "u", "c1", responseId="resp_1"), result("r", "a", "c1"))
    without = data.replace(b'"responseId":"resp_1",', b"")

    assert pairs(sent(data)) == pairs(sent(without)) == [("c1", "assistant")]


def test_a_migration_adds_and_loses_no_pair() -> None:
    """C05, C114: what is an orphan stays one, and is sent alike."""
    data = session(user("u"), calling("a", "u", "c1", "c2"), result("r", "a", "c2"), user("v", "r"))
    out = b"".join(migrate(read_session(data), reading(data), sha256="0" * 64, backup_file="b"))

    assert json.dumps(sent(data)) == json.dumps(sent(out))
