"""Lines of a v4a session to be written: numbered, on their lane, judged as when they are read. None is kept here."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from clew.core.canon import Json
from clew.core.jsonable import to_json
from clew.core.session.calls import calls_in
from clew.core.session.lines import dump, shown
from clew.core.session.new import Standing
from clew.core.session.rules import check_line
from clew.core.session.state import MAIN, SessionState
from clew.core.session.tree import NOWHERE
from clew.core.session.values import ReadAt, Said
from clew.core.session.viewing import Entries
from clew.errors import Refused

_PLACE: Final = ("parentId", "seq", "timestamp", "lane", "kind", "append")


class Draft(msgspec.Struct, frozen=True):
    """A line that is to be written: what it says, without its number, its time and its parent.

    Attributes:
        kind: `entry`, `record`, `lane` or `fact`.
        own: Its other members, builtins of JSON.
        id: Of an entry or a record; an entry of this id that says the same need not be written again.
    """

    kind: str
    own: dict[str, Json]
    id: str | None = None
    lane: str = MAIN


class Batch(msgspec.Struct, frozen=True):
    """Lines that are written together: their bytes, and the number of the last one."""

    data: bytes
    sequence: int


def message_id(run_id: str, turn: str | int, position: int) -> str:
    """The id of a message of a run: the same each time that it is written, and no other message's.

    Source:
        DESIGN §6, session.
    """
    return f"{run_id}:{turn}:{position}"


def header_line(
    session_id: str, *, created_ms: int, cwd: str, parent: str | None = None, metadata: Mapping[str, Json] | None = None
) -> bytes:
    """The first line of a session of ours, with its LF."""
    head: dict[str, Json] = {"kind": "header", "version": 4, "id": session_id, "createdAt": created_ms, "cwd": cwd}
    if parent is not None:
        head["parentSessionId"] = parent
    if metadata:
        head["metadata"] = plain(metadata)
    return dump(head) + b"\n"


def plain(value: Any) -> Json:
    """A private copy in builtins of JSON; members that are UNSET are left out.

    Raises:
        UsageError: `value_not_json`, as `jsonable.to_json`.

    Source:
        contract #181.
    """
    return to_json(_set_members(value))


def _set_members(value: Any) -> Any:
    if type(value) is dict:
        return {name: _set_members(item) for name, item in value.items() if item is not msgspec.UNSET}
    if type(value) in (list, tuple):
        return [_set_members(item) for item in value]
    return value


def entry(type: str, entry_id: str, *, lane: str = MAIN, **own: Any) -> Draft:
    """An entry of any type of v4a: `message`, `model_change`, `thinking_level_change`, `custom` and the others."""
    return Draft("entry", {"type": type, "id": entry_id, **plain(own)}, entry_id, lane)


def message(entry_id: str, said: Mapping[str, Any], *, lane: str = MAIN) -> Draft:
    """A message, with its `role` and whatever else it has."""
    return entry("message", entry_id, lane=lane, message=dict(said))


def compaction(
    entry_id: str, summary: str, tail: Sequence[Said], *, tokens_before: int | None, lane: str = MAIN, **own: Any
) -> Draft:
    """A summary of what was said before, and the messages that stand behind it: one record, published or not.

    Args:
        entry_id: Its id.
        summary: What the model is told instead.
        tail: The last messages of the view, from a place that `tail_start` allows.
        tokens_before: Size of the context that it replaces, None when nobody counted.
        lane: Where.
        own: `details`, `usage`.

    Raises:
        Refused: `empty_summary` when the summary is blank; `compaction_splits_call` when a call in the tail has no
            result there, or a result no call.

    Source:
        DESIGN §8; C09, C106.
    """
    if not summary.strip():
        raise Refused(
            "the summary of the conversation is empty, so it takes nobody's place",
            code="empty_summary",
            next="Nothing was written. Make the summary again, or go on without it.",
        )
    if (tail and tail_start(tail, 0) != 0) or _open_calls(tail):
        raise Refused(
            "the summary would stand between a call and its result",
            code="compaction_splits_call",
            next="Nothing was written. Summarise when every call has its result, and keep calls with their results.",
            calls=sorted(_open_calls(tail)),
        )
    kept = [each.message for each in tail]
    return entry(
        "compaction", entry_id, lane=lane, summary=summary, retainedTail=kept, tokensBefore=tokens_before, **own
    )


def _open_calls(said: Sequence[Said]) -> set[str]:
    found = set[str]()
    for each in said:
        if each.role == "assistant":
            found.update(call_id for call_id, _ in calls_in(each.message))
        elif each.role == "toolResult":
            found.discard(each.message["toolCallId"])
    return found


def tail_start(said: Sequence[Said], wanted: int) -> int:
    """The last place at or before `wanted` where a tail may begin: no result behind it lacks its call there.

    Behind the last message when there is none.
    """
    if wanted >= len(said):
        return len(said)
    uncalled = set[str]()
    for start in range(len(said) - 1, -1, -1):
        message = said[start].message
        if said[start].role == "toolResult":
            uncalled.add(message["toolCallId"])
        elif said[start].role == "assistant":
            uncalled.difference_update(call_id for call_id, _ in calls_in(message))
        if not uncalled and start <= wanted:
            return start
    return len(said)


def title(name: str | None) -> Draft:
    """The name of the conversation; None takes it away."""
    return Draft("fact", {"fact": "name", **({} if name is None else {"name": plain(name)})})


def label(target_id: str, text: str | None) -> Draft:
    """A word at an entry; None takes it away."""
    return Draft("fact", {"fact": "label", "targetId": target_id, **({} if text is None else {"label": plain(text)})})


def move(leaf_id: str | None, *, lane: str = MAIN) -> Draft:
    """Where a lane goes on from; a lane that is not there is made."""
    return Draft("lane", {"leafId": leaf_id}, lane=lane)


def record(type: str, record_id: str, *, lane: str = MAIN, **own: Any) -> Draft:
    """A record of what an operation does: `operation_started`, `tool_started`, `usage` and the others."""
    return Draft("record", {"type": type, "id": record_id, **plain(own)}, record_id, lane)


def stands(state: SessionState, read: ReadAt, draft: Draft) -> bool:
    """Is this entry in the session already? Its time, and that of its message, may differ.

    Raises:
        Refused: `session_entry_conflict` when an entry of its id says something else.

    Source:
        DESIGN §6: an equal append is a no-op.
    """
    node = state.ids.find(draft.id or "")
    if draft.kind != "entry" or node == NOWHERE:
        return False
    if _said(Entries(state, read).entry(node)) == _said(draft.own):
        return True
    raise Refused(
        f"session {shown(state.id)} has another entry {shown(draft.id)} already, at line {state.tree.lines[node]}",
        code="session_entry_conflict",
        next="Nothing was written. What stands in a session is never replaced; give the new entry an id of its own.",
        session=state.id,
        entry=draft.id,
        line=state.tree.lines[node],
    )


def _said(value: dict[str, Json]) -> bytes:
    own = {name: item for name, item in value.items() if name not in _PLACE}
    if type(own.get("message")) is dict:
        own["message"] = {name: item for name, item in own["message"].items() if name != "timestamp"}
    return dump(_sorted(own))


def _sorted(value: Json) -> Json:
    if type(value) is dict:
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if type(value) is list else value


class _Trial(Standing):
    """A session as it will stand when some lines more are kept; the session itself is not touched."""

    def __init__(self, state: SessionState) -> None:
        super().__init__(state)
        self._next = state.sequence
        self.lanes = {name: state.name_of(node) for name, node in state.lanes.items()}
        self._entries = set[str]()
        self._taken = set[str]()
        self._open: dict[str, str | None] = {name: each.id for name, each in state.open_operations.items()}

    @property
    def sequence(self) -> int:
        return self._next

    def leaf(self, lane: str) -> str | None:
        return self.lanes[lane]

    def has(self, entry_id: str) -> bool:
        return entry_id in self._entries or super().has(entry_id)

    def taken(self, name: str) -> bool:
        return name in self._taken or super().taken(name)

    def operation(self, lane: str) -> str | None:
        return self._open.get(lane)

    def keep(self, line: dict[str, Json]) -> None:
        """A checked line stands."""
        self._next = line["seq"]
        if "id" in line:
            self._taken.add(line["id"])
        match line["kind"]:
            case "entry":
                self._entries.add(line["id"])
                self.lanes[line["lane"]] = line["id"]
            case "lane":
                self.lanes[line["lane"]] = line["leafId"]
            case "record" if line["type"] == "operation_started":
                self._open[line["lane"]] = line["id"]
            case "record" if line["type"] == "operation_finished":
                self._open[line["lane"]] = None
            case _:
                pass


def compose(state: SessionState, drafts: Sequence[Draft], *, at_ms: int) -> Batch:
    """Number drafts, hang each entry on the leaf of its lane, and judge the lines by the rules that they are read by.

    The state is not changed: it reads the lines once they are kept.

    Args:
        state: The session as it stands, of format v4a.
        drafts: In order.
        at_ms: When, in milliseconds since 1970.

    Raises:
        BadLine: a draft may not come next, as an id that is taken, a lane that is not there, a second open operation.

    Source:
        DESIGN §3, validate, append, then apply; reference/sessions.md §6.1.
    """
    trial = _Trial(state)
    lines = []
    for draft in drafts:
        line: dict[str, Json] = {"kind": draft.kind}
        if draft.kind != "fact":
            line["lane"] = draft.lane
        line |= draft.own
        if draft.kind == "entry":
            line["parentId"] = trial.lanes.get(draft.lane)
        line["seq"] = trial.sequence + 1
        if draft.kind in ("entry", "record"):
            line["timestamp"] = at_ms
        check_line(line, trial)
        trial.keep(line)
        lines.append(dump(line) + b"\n")
    return Batch(b"".join(lines), trial.sequence)
