"""Arbitrary bytes as sessions of every dialect: what must hold of them, and a second, naive reader of version 3."""

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from clew.core.session.judging import judge
from clew.core.session.migrating import check_migrated, migrate
from clew.core.session.projecting import project
from clew.core.session.reading import SessionReader, read_session
from clew.core.session.salvaging import salvage
from clew.core.session.state import SessionState
from clew.core.session.values import View
from clew.core.session.viewing import view
from clew.errors import ClewError
from tests.core.session import scribe
from tests.fuzz.orders import Orders, built

SHA256 = "0" * 64


@lru_cache(maxsize=1)
def sound() -> list[list[bytes]]:
    """Whole sessions, each as its lines."""
    at, session = scribe.at, scribe.session
    tree = [
        scribe.user("a"), scribe.calling("b", "a", "c1", "c2"), scribe.result("c", "b", "c2"),
        scribe.result("d", "c", "c1"), at("label", "e", "d", targetId="a", label="here"), scribe.user("f", "d"),
        at("session_info", "g", "f", name="talk"), at("thinking_level_change", "h", "g", thinkingLevel="high"),
    ]  # fmt: skip
    short = at("compaction", "k", "h", summary="so far", firstKeptEntryId="f", tokensBefore=9)
    tail = at("compaction", "k", "h", summary="so far", retainedTail=[scribe.said("user")], tokensBefore=9)
    old = [{**entry, "id": None, "parentId": None} for entry in tree[:4]]
    old = [{name: value for name, value in entry.items() if value is not None} for entry in old]
    wholes = (
        session(*old, version=None),
        session(*tree, short, scribe.user("l", "k"), version=2),
        session(*tree, short, scribe.user("l", "k")),
        session(*tree, tail, at("leaf", "m", "k", targetId="f"), scribe.user("n", "f")),
        scribe.v4a(
            scribe.speaks("a"), scribe.started("op"), scribe.speaks("b", "a", scribe.asked("c1")),
            scribe.tool_started("t", "c1", "c"), scribe.speaks("c", "b", scribe.answered("c1")), scribe.finished("op"),
        ),
        scribe.v4b({**scribe.new("message", "a", lane=None, message=scribe.said("user")), "seq": 1}),
    )  # fmt: skip
    return [whole.splitlines(keepends=True) for whole in wholes]


def conversation(data: bytes) -> None:
    """Bytes are a session that shows the same however they are read, or they are refused."""
    orders = Orders(data)
    lines = sound()[orders.number(len(sound()))]
    text = built(orders, lines)
    with suppress(ClewError):
        salvage(text)
    try:
        state = read_session(text)
        shown = scribe.seen(text)
    except ClewError:
        return
    assert _in_pieces(text, orders.number(97) + 1) == (state.id, len(shown.labels), shown.entries)
    judge(state)
    _check_projection(shown)
    if state.format == "v3":
        assert naive_roles(text) in (None, [said.role for said in shown.messages])
    if state.format in ("v1", "v2", "v3"):
        _check_migration(text, state, shown)


def _in_pieces(text: bytes, size: int) -> tuple[str, int, int]:
    reader = SessionReader()
    for start in range(0, len(text), size):
        reader.feed(text[start : start + size])
    shown = view(reader.finish(), scribe.reading(text))
    assert reader.state is not None
    return reader.state.id, len(shown.labels), shown.entries


def _check_projection(shown: View) -> None:
    """Each call has exactly one result, in the order of the calls, directly behind its message."""
    waiting: list[Any] = []
    for message in project(shown.messages).messages:
        if message["role"] == "toolResult":
            assert waiting
            assert waiting.pop(0) == message["toolCallId"]
            continue
        assert not waiting
        blocks = message.get("content")
        if message["role"] == "assistant" and isinstance(blocks, list):
            waiting = [block["id"] for block in blocks if isinstance(block, dict) and block.get("type") == "toolCall"]
    assert not waiting


def _check_migration(text: bytes, state: SessionState, shown: View) -> None:
    try:
        moved = b"".join(migrate(state, scribe.reading(text), sha256=SHA256, backup_file="s1.jsonl.v3.backup"))
    except ClewError:
        return
    check_migrated(state, shown, scribe.seen(moved))
    assert "v4a" == read_session(moved).format


# A second reader, with the standard library alone.


def naive_roles(text: bytes) -> list[str] | None:
    """The roles of the context of a version 3 session; None where an entry is of a kind that is not known here."""
    *lines, end = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    with suppress(ValueError):
        lines += [end] if json.loads(end.decode()) else []
    entries = [json.loads(line.decode()) for line in lines if line.strip()][1:]
    if {entry["type"] for entry in entries} - _NAIVE:
        return None
    by_id, leaf, path = {entry["id"]: entry for entry in entries}, None, list[Any]()
    for entry in entries:
        leaf = entry["targetId"] if entry["type"] == "leaf" else entry["id"]
    while leaf is not None:
        path.insert(0, by_id[leaf])
        leaf = by_id[leaf]["parentId"]
    places = [place for place, entry in enumerate(path) if entry["type"] == "compaction"]
    if len(places) > 1:
        return None
    return list(_roles(path, places[0]) if places else _said(path))


_NAIVE = {"message", "label", "session_info", "thinking_level_change", "compaction", "leaf"}


def _roles(path: list[Any], at: int) -> Iterator[str]:
    compaction = path[at]
    yield "compactionSummary"
    if "retainedTail" in compaction:
        yield from (message["role"] for message in compaction["retainedTail"])
    else:
        ids = [entry["id"] for entry in path[:at]]
        first = compaction.get("firstKeptEntryId")
        yield from _said(path[ids.index(first) : at] if first in ids else [])
    yield from _said(path[at + 1 :])


def _said(entries: list[Any]) -> Iterator[str]:
    return (entry["message"]["role"] for entry in entries if entry["type"] == "message")
