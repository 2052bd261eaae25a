"""Sessions for eyes: a row, the conversation, what was found, what became of a migration or a salvage. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from clew.core.session.salvaging import Salvage
from clew.core.session.transcripts import Transcript
from clew.core.session.values import CallFound, Judgement, Remark, View
from clew.views.plain import count_text, one_line, size_text

_SHOWN = 20


def session_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each session."""
    width = max((len(row["session"]) for row in rows), default=0)
    for row in rows:
        yield f"{row['session']:{width}}  {row['format'] or '?':4} {_told(row)}"


def _told(row: Mapping[str, Any]) -> str:
    size = "?" if row["bytes"] is None else size_text(row["bytes"])
    if row["error"] is not None:
        return f"{size}  UNREADABLE: {one_line(row['error']['message'])} [{row['error']['code']}]"
    entries = "not read" if row["entries"] is None else entries_text(row["entries"])
    parts = [entries, size, one_line(row["title"] or "", 60), "" if row["ending"] in (None, "clean") else row["ending"]]
    if row["orphanCalls"]:
        parts.append(f"{count_text(row['orphanCalls'], 'call')} without a result")
    return "  ".join(part for part in parts if part)


def page_json(view: View, judgement: Judgement) -> dict[str, Any]:
    """What `clew session show --json` answers: these twelve members and no others."""
    return {
        "entries": view.entries,
        "view": [_said(each.entry_id, each.message) for each in view.messages],
        "title": view.title,
        "level": view.level,
        "model": view.model,
        "tools": None if view.tools is None else list(view.tools),
        "labels": view.labels,
        "totals": msgspec.to_builtins(view.totals),
        "leaf": view.leaf,
        "warnings": msgspec.to_builtins(judgement.warnings),
        "openOperations": msgspec.to_builtins(judgement.open_operations),
        "orphanCalls": msgspec.to_builtins(judgement.orphan_calls),
    }


def _said(entry_id: str | None, message: Mapping[str, Any]) -> dict[str, Any]:
    return {**message, "role": message["role"], "entryId": entry_id}


def page_lines(view: View, judgement: Judgement) -> Iterator[str]:
    """The conversation, a few lines of facts before it, what is odd behind it."""
    yield one_line(view.title or "(no title)")
    tools = "not set" if view.tools is None else ", ".join(view.tools) or "none"
    said = count_text(view.totals.messages, "message")
    yield f"  {said}, model {view.model or 'not set'}, thinking {view.level}, tools {tools}"
    for each in view.messages:
        yield f"{each.role:18} {one_line(_text(each.content), 300)}"
    for name, text in sorted(view.labels.items()):
        yield f"label {one_line(text, 60)!r} at {one_line(name, 60)}"
    yield from found_lines(judgement)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return " ".join(_block(block) for block in content)


def _block(block: Any) -> str:
    if not isinstance(block, Mapping):
        return ""
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "toolCall":
            return f"[call {block.get('id')}: {block.get('name')}]"
        case kind:
            return f"[{kind}]"


def entries_text(count: int) -> str:
    """`1 entry`, `2 entries`."""
    return "1 entry" if count == 1 else f"{count} entries"


def found_lines(judgement: Judgement) -> Iterator[str]:
    """What is to be said of a session, each with its line and byte."""
    yield from _calls("call without a result, its effect is unknown", judgement.orphan_calls)
    yield from _calls("second result", judgement.double_results)
    yield from _calls("result without its call", judgement.stray_results)
    yield from _calls("started, must not be repeated, no result", judgement.unknown_effects)
    for operation in judgement.open_operations:
        name, place = one_line(operation.id, 60), f"line {operation.line}, byte {operation.byte}"
        yield f"  open operation {name} ({operation.kind}), {place}"
    yield from _remarks(judgement.warnings)


def _calls(what: str, calls: Sequence[CallFound]) -> Iterator[str]:
    for call in calls[:_SHOWN]:
        yield f"  {what}: {one_line(call.call_id, 60)} {one_line(call.tool, 40)}, line {call.line}, byte {call.byte}"
    if len(calls) > _SHOWN:
        yield f"  and {len(calls) - _SHOWN} more of these"


def _remarks(remarks: Sequence[Remark]) -> Iterator[str]:
    for remark in remarks[:_SHOWN]:
        yield f"  {one_line(remark.text)}, line {remark.line}, byte {remark.byte}"
    if len(remarks) > _SHOWN:
        yield f"  and {len(remarks) - _SHOWN} more"


def transcript_lines(found: Transcript) -> Iterator[str]:
    """What was found in another program's transcript."""
    kinds = ", ".join(f"{count} {one_line(kind, 40)}" for kind, count in found.kinds.items())
    yield f"OK  {found.program}: {count_text(found.lines, 'line')} ({kinds})"
    used = ", ".join(f"{name} {value}" for name, value in msgspec.to_builtins(found.usage).items() if value is not None)
    yield f"  usage, each message once: {used or 'not reported'}; repeated reports: {found.repeated_usage}"
    yield from _remarks(found.repeats)
    yield from _calls("call without a result, its effect is unknown", found.orphan_calls)
    yield from _calls("call with several results", found.double_results)
    yield from _calls("result without its call", found.stray_results)
    for turn in found.aborted_turns:
        yield f"  {one_line(turn.text)}, line {turn.line}, byte {turn.byte}"
    yield from _remarks(found.warnings)


def salvage_lines(saved: Salvage) -> Iterator[str]:
    """What was saved, and every byte that was not."""
    yield f"{count_text(saved.records, 'record')} of format {saved.format} can be read"
    for lost in saved.left_out:
        yield f"  left out: line {lost.line}, byte {lost.byte}, {count_text(lost.bytes, 'byte')}: {one_line(lost.why)}"
    for changed in saved.changed:
        yield f"  changed: line {changed.line}, byte {changed.byte}: {one_line(changed.how)}"
