"""Writes sessions for tests: lines of every dialect from short calls. Nothing is judged here."""

import json
import re
from typing import Any

from clew.core.session.reading import read_session
from clew.core.session.state import SessionState
from clew.core.session.values import ReadAt, View
from clew.core.session.viewing import view

TIME = "2026-01-01T00:00:00.000Z"
AT_MS = 1767225600000
USAGE = {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "totalTokens": 10, "cost": {"total": 0.1}}


def line(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text).encode() + b"\n"


def header(version: int | None = 3, **more: Any) -> dict[str, Any]:
    versioned = {} if version is None else {"version": version}
    return {"type": "session", **versioned, "id": "s1", "timestamp": TIME, "cwd": "/w", **more}


def at(type: str, id: str, parent: str | None = None, **own: Any) -> dict[str, Any]:
    return {"type": type, "id": id, "parentId": parent, "timestamp": TIME, **own}


def said(role: str, content: Any = "hi", **own: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **own, "timestamp": 1}


def user(id: str, parent: str | None = None, text: Any = "hi") -> dict[str, Any]:
    return at("message", id, parent, message=said("user", text))


def asked(*call_ids: str, **own: Any) -> dict[str, Any]:
    """An assistant's message with these calls."""
    calls = [{"type": "toolCall", "id": call_id, "name": "pay", "arguments": {}} for call_id in call_ids]
    return said("assistant", [{"type": "text", "text": "so"}, *calls], provider="p", model="m", **own)


def answered(call_id: str, text: str = "done", **own: Any) -> dict[str, Any]:
    return said(
        "toolResult", [{"type": "text", "text": text}], toolCallId=call_id, toolName="pay", isError=False, **own
    )


def calling(id: str, parent: str | None, *call_ids: str, **own: Any) -> dict[str, Any]:
    return at("message", id, parent, message=asked(*call_ids, **own))


def result(id: str, parent: str | None, call_id: str, text: str = "done") -> dict[str, Any]:
    return at("message", id, parent, message=answered(call_id, text))


def session(*entries: dict[str, Any], version: int | None = 3, **more: Any) -> bytes:
    return b"".join(map(line, (header(version, **more), *entries)))


def v4a(*lines: dict[str, Any], **more: Any) -> bytes:
    head = {"kind": "header", "version": 4, "id": "s1", "createdAt": AT_MS, "cwd": "/w", **more}
    return b"".join(map(line, (head, *({**each, "seq": number} for number, each in enumerate(lines, 1)))))


def v4b(*lines: Any, **more: Any) -> bytes:
    head = {"v": 4, "kind": "header", "id": "s1", "createdAt": AT_MS, "storageVersion": 1, "cwd": "/w", **more}
    return b"".join(map(line, (head, *lines)))


def new(type: str, id: str, parent: str | None = None, *, lane: str | None = "main", **own: Any) -> dict[str, Any]:
    """An entry of v4."""
    on = {} if lane is None else {"lane": lane}
    return {"kind": "entry", **on, "type": type, "id": id, **own, "parentId": parent, "timestamp": AT_MS}


def speaks(id: str, parent: str | None = None, message: dict[str, Any] | None = None, **own: Any) -> dict[str, Any]:
    return new("message", id, parent, message=said("user") if message is None else message, **own)


def record(type: str, id: str, *, lane: str = "main", **own: Any) -> dict[str, Any]:
    return {"kind": "record", "type": type, "id": id, "lane": lane, **own, "timestamp": AT_MS}


def started(id: str, *, lane: str = "main", kind: str = "run") -> dict[str, Any]:
    return record("operation_started", id, lane=lane, sourceLeafId=None, intent={"kind": kind})


def finished(run_id: str, id: str = "end", outcome: str = "completed") -> dict[str, Any]:
    return record("operation_finished", id, runId=run_id, outcome=outcome)


def tool_started(id: str, call_id: str, result_id: str, replay: str = "never") -> dict[str, Any]:
    return record(
        "tool_started", id, runId="op", assistantEntryId="a", toolIndex=0, toolCallId=call_id, toolName="pay",
        effectiveArgs={}, resultEntryId=result_id, replay=replay,
    )  # fmt: skip


def reading(data: bytes) -> ReadAt:
    return lambda offset, size: data[offset : offset + size]


def seen(data: bytes, lane: str = "main") -> View:
    return view(read_session(data), reading(data), lane=lane)


def roles(shown: View) -> str:
    """The context by role, a letter each, as `cases/INDEX.md` writes it."""
    letters = {"compactionSummary": "c", "branchSummary": "b", "toolResult": "t", "custom": "x", "bashExecution": "u"}
    return " ".join(letters.get(each.role, each.role[0]) for each in shown.messages)


def texts(shown: View) -> list[Any]:
    return [each.content for each in shown.messages]


def state_of(data: bytes) -> SessionState:
    return read_session(data)
