"""How an entry of the old dialects (v1, v2, both v3) is read into the state of a session. v4 is not here."""

from collections.abc import Callable
from typing import Any, Final

from clew.core.session.lines import BadLine, shown
from clew.core.session.state import LOST, MAIN, OWN_TAIL, Place, SessionState, need, role_kind, tail_of, texts
from clew.core.session.sums import check_usage
from clew.core.session.tree import NOWHERE, Kind

NoneType: Final = type(None)
_V1: Final = ("message", "thinking_level_change", "model_change", "compaction")


def entry_id_of(number: int) -> str:
    """The id that an entry of a v1 file is given: its number, from 1, in eight hex digits."""
    return f"{number:08x}"


class OldReader:
    """Reads the entries of one old file, line by line; one that is refused changes nothing.

    `finish` says whether all parents were found.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._linear = state.format == "v1"
        self._unfound: dict[int, str] = {}
        if self._linear:
            state.settings = _header_settings(state.header.value)

    def take(self, value: Any, place: Place) -> None:
        """The next entry.

        Raises:
            BadLine: it is none.
        """
        if type(value) is not dict:
            raise BadLine("it is not an object")
        name = need(value, "type", str)
        if name == "session":
            raise BadLine("a second header stands here", reason="second_header")
        known = _TYPES.get(name) if not self._linear or name in _V1 else None
        kind = known(value) if known is not None else Kind.UNKNOWN
        _check_aim(self._state, kind, value)
        node = self._enter(value, kind, place)
        if kind == Kind.UNKNOWN:
            self._state.remark("unknown_type", f"the type {shown(name)} is not known", place, name)
        self._apply(node, kind, value, place)

    def _enter(self, value: dict[str, Any], kind: Kind, place: Place) -> int:
        state = self._state
        if self._linear:
            return state.enter(entry_id_of(state.entries + 1), state.entries - 1, kind, place)
        entry_id = state.check_id(value.get("id"))
        if "parentId" not in value:
            raise BadLine("its parentId is missing", reason="bad_member")
        name = need(value, "parentId", str, NoneType)
        if name == entry_id:
            raise BadLine(f"{shown(entry_id)} is its own parent", reason="parent_cycle", ids=(entry_id,))
        parent = NOWHERE if name is None else state.ids.find(name)
        node = state.enter(entry_id, parent, kind, place)
        if parent == NOWHERE and name is not None:
            self._unfound[node] = name
        return node

    def _apply(self, node: int, kind: Kind, value: dict[str, Any], place: Place) -> None:
        state = self._state
        state.lanes[MAIN] = node
        if (apply := _APPLIED.get(kind)) is not None:
            apply(state, node, value, place)

    def finish(self) -> None:
        """The file has ended.

        Raises:
            Unparented: an entry names a parent that does not stand before it.
        """
        for node, name in self._unfound.items():
            raise Unparented(node, *self._why(node, name))

    def _why(self, node: int, name: str) -> tuple[str, str, tuple[str, ...]]:
        """Is a parent that does not stand before its child missing, behind it, or even below it?"""
        state = self._state
        child = state.ids.at(node)
        at = state.ids.find(name)
        if at == NOWHERE:
            return "parent_missing", f"{shown(child)} names the parent {shown(name)}, which is nowhere", (child, name)
        chain = [child]
        while at not in (NOWHERE, node):
            chain.append(state.ids.at(at))
            above = state.tree.parents[at]
            at = above if above != NOWHERE else state.ids.find(self._unfound.pop(at, ""))
        if at == node:
            ring = " > ".join(map(shown, (*chain[:9], *(["…"] if len(chain) > 9 else []), child)))
            return "parent_cycle", f"parents lead in a circle: {ring}", tuple(chain[:9])
        return "parent_forward", f"the parent of {shown(child)} is {shown(name)}, which stands behind it", (child, name)


class Unparented(Exception):
    """An entry whose parent does not stand before it: its number, a stable word, a sentence and the ids."""

    def __init__(self, node: int, reason: str, why: str, ids: tuple[str, ...]) -> None:
        super().__init__(why)
        self.node = node
        self.error = BadLine(why, reason=reason, ids=ids)


def _header_settings(header: dict[str, Any]) -> dict[str, Any]:
    """What a v1 header says of level and model; upstream forgets it."""
    found: dict[str, Any] = {}
    if type(header.get("thinkingLevel")) is str:
        found["level"] = header["thinkingLevel"]
    if type(header.get("provider")) is str and type(header.get("modelId")) is str:
        found["model"] = f"{header['provider']}/{header['modelId']}"
    return found


# --- what each type must hold ---------------------------------------------------------------------------------------


def _message(value: dict[str, Any]) -> Kind:
    kind = role_kind(value.get("message"))
    usage = value["message"].get("usage")
    if usage is not None and kind in (Kind.ASSISTANT, Kind.RESULT):
        check_usage(usage)
    return kind


def _holding(kind: Kind, **members: tuple[type, ...]) -> Callable[[dict[str, Any]], Kind]:
    def check(value: dict[str, Any]) -> Kind:
        for name, wanted in members.items():
            need(value, name, *wanted)
        return kind

    return check


def _tools(value: dict[str, Any]) -> Kind:
    texts(value.get("activeToolNames"), "activeToolNames")
    return Kind.TOOLS


def _summary(kind: Kind, **members: tuple[type, ...]) -> Callable[[dict[str, Any]], Kind]:
    def check(value: dict[str, Any]) -> Kind:
        for name, wanted in {"summary": (str,), **members}.items():
            need(value, name, *wanted)
        if value.get("usage") is not None:
            check_usage(value["usage"])
        tail_of(value)
        if value.get("systemMessage") is not None:
            role_kind(value["systemMessage"])
        return kind

    return check


def _usage(value: dict[str, Any]) -> Kind:
    check_usage(value.get("usage"))
    return Kind.USAGE


def _edit(value: dict[str, Any]) -> Kind:
    need(value, "targetId", str)
    check_replacement(value)
    return Kind.EDIT


def check_replacement(value: dict[str, Any]) -> None:
    """A `context_edit` says null to hide, or an object with the new content.

    Raises:
        BadLine: it says neither.
    """
    new = value.get("replacement", "")
    if new is not None and (type(new) is not dict or type(new.get("content")) not in (str, list)):
        raise BadLine("its replacement is neither null nor content", reason="bad_member")


def _leaf(value: dict[str, Any]) -> Kind:
    if "targetId" not in value:
        raise BadLine("its targetId is missing", reason="bad_member")
    need(value, "targetId", str, NoneType)
    return Kind.LEAF


def _check_aim(state: SessionState, kind: Kind, value: dict[str, Any]) -> None:
    """What only the entries before one can tell of it, asked before it is one of them.

    Raises:
        BadLine: it aims at what is not there, or at nothing.
    """
    if kind == Kind.LEAF:
        target = value["targetId"]
        if target is not None and target not in state.ids and target != value.get("id"):
            raise BadLine(
                f"it moves to {shown(target)}, which does not stand before it", reason="target_missing", ids=(target,)
            )
    elif kind == Kind.COMPACTION and state.format == "v1" and value.get("retainedTail") is None:
        need(value, "firstKeptEntryIndex", int)


_OPTIONAL: Final = (str, NoneType)
_TYPES: Final[dict[str, Callable[[dict[str, Any]], Kind]]] = {
    "message": _message,
    "model_change": _holding(Kind.MODEL, provider=(str,), modelId=(str,)),
    "thinking_level_change": _holding(Kind.LEVEL, thinkingLevel=(str,)),
    "active_tools_change": _tools,
    "compaction": _summary(Kind.COMPACTION),
    "branch_summary": _summary(Kind.BRANCH_SUMMARY, fromId=(str,)),
    "custom": _holding(Kind.CUSTOM, customType=(str,)),
    "custom_message": _holding(Kind.CUSTOM_MESSAGE, customType=(str,), content=(str, list, NoneType)),
    "label": _holding(Kind.LABEL, targetId=(str,), label=_OPTIONAL),
    "session_info": _holding(Kind.TITLE, name=_OPTIONAL),
    "usage": _usage,
    "context_edit": _edit,
    "leaf": _leaf,
}


# --- what each kind changes -----------------------------------------------------------------------------------------


def _say(state: SessionState, node: int, value: dict[str, Any], _place: Place) -> None:
    message = value["message"]
    state.pair(node, message)
    kind = state.tree.kinds[node]
    if kind in (Kind.ASSISTANT, Kind.RESULT):
        if message.get("usage") is not None:
            state.sums.add(message["usage"], stop_reason=message.get("stopReason"))
        elif kind == Kind.ASSISTANT:
            state.sums.unmeasured += 1


def _pay(state: SessionState, _node: int, value: dict[str, Any], _place: Place) -> None:
    if value.get("usage") is not None:
        state.sums.add(value["usage"], stop_reason=value.get("stopReason"))


def _compact(state: SessionState, node: int, value: dict[str, Any], place: Place) -> None:
    _pay(state, node, value, place)
    if value.get("retainedTail") is not None:
        state.agent_core = True
        state.kept[node] = OWN_TAIL
    elif state.format == "v1":
        state.kept[node] = _kept_by_index(state, node, value, place)
    else:
        state.kept[node] = _kept_by_id(state, node, value, place)


def _kept_by_id(state: SessionState, node: int, value: dict[str, Any], place: Place) -> int:
    name = value.get("firstKeptEntryId")
    first = state.ids.find(name) if type(name) is str else NOWHERE
    if first == node:
        return NOWHERE
    if first == NOWHERE or not state.tree.leads_to(first, node):
        said = "names no first kept entry" if name is None else f"keeps {shown(name)}, which is not on its branch"
        state.remark(
            "kept_range_lost",
            f"the compaction {shown(state.ids.at(node))} {said}: what it kept cannot be shown",
            place,
            state.ids.at(node),
            *([name] if type(name) is str else []),
        )
        return LOST
    return first


def _kept_by_index(state: SessionState, node: int, value: dict[str, Any], place: Place) -> int:
    """The index counts records from the header, which is 0; a compaction is record `node + 1`."""
    index: int = value["firstKeptEntryIndex"]
    if index == 0:
        state.remark("kept_index_of_header", "a compaction keeps all from the header on: everything is kept", place)
        return 0 if node > 0 else NOWHERE
    if 0 < index <= node:
        return index - 1
    if index != node + 1:
        state.remark("kept_index_out_of_range", f"a compaction keeps record {index}: nothing is kept", place)
    return NOWHERE


def _label(state: SessionState, _node: int, value: dict[str, Any], place: Place) -> None:
    target, label = value["targetId"], value.get("label")
    if target not in state.ids:
        state.remark("target_missing", f"a label names {shown(target)}, which does not stand before it", place, target)
    state.labels.pop(target, None)
    if label:
        state.labels[target] = label


def _title(state: SessionState, _node: int, value: dict[str, Any], _place: Place) -> None:
    state.title = title_of(value.get("name"))


def title_of(name: str | None) -> str | None:
    """A title as it is shown: on one line, trimmed; None when that leaves nothing."""
    return " ".join(name.splitlines()).strip() or None if name else None


def _aim(state: SessionState, _node: int, value: dict[str, Any], place: Place) -> None:
    target = value["targetId"]
    if target not in state.ids:
        state.remark("target_missing", f"an edit names {shown(target)}, which does not stand before it", place, target)


def _from(state: SessionState, node: int, value: dict[str, Any], place: Place) -> None:
    _pay(state, node, value, place)
    source = value["fromId"]
    if source != "root" and source not in state.ids:
        state.remark(
            "target_missing", f"a summary names {shown(source)}, which does not stand before it", place, source
        )


def _move(state: SessionState, _node: int, value: dict[str, Any], _place: Place) -> None:
    target = value["targetId"]
    state.agent_core = True
    state.lanes[MAIN] = NOWHERE if target is None else state.ids.find(target)


def _offer(state: SessionState, _node: int, _value: dict[str, Any], _place: Place) -> None:
    state.agent_core = True


_APPLIED: Final[dict[Kind, Callable[[SessionState, int, dict[str, Any], Place], None]]] = {
    **dict.fromkeys((Kind.MESSAGE, Kind.ASSISTANT, Kind.SYSTEM, Kind.RESULT), _say),
    Kind.COMPACTION: _compact,
    Kind.BRANCH_SUMMARY: _from,
    Kind.USAGE: _pay,
    Kind.LABEL: _label,
    Kind.TITLE: _title,
    Kind.EDIT: _aim,
    Kind.LEAF: _move,
    Kind.TOOLS: _offer,
}
