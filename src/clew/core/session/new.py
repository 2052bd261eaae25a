"""How a line of a v4 session, of either generation, is read into its state. What may be written is in `rules`."""

from typing import Any, Final

from clew.core.session.lines import BadLine, shown
from clew.core.session.old import NoneType
from clew.core.session.rules import check_line, entry_kind
from clew.core.session.state import MAIN, OWN_TAIL, Place, SessionState, need
from clew.core.session.sums import check_usage
from clew.core.session.tree import NOWHERE, Kind
from clew.core.session.values import CallFound, OpenOperation


class Standing:
    """A state as `rules` asks for it."""

    __slots__ = ("_state",)

    def __init__(self, state: SessionState) -> None:
        self._state = state

    @property
    def sequence(self) -> int:
        """Of the last line."""
        return self._state.sequence

    def leaf(self, lane: str) -> str | None:
        """The entry that a lane stands at."""
        return self._state.name_of(self._state.lanes[lane])

    def has(self, entry_id: str) -> bool:
        """Is there such an entry?"""
        return entry_id in self._state.ids

    def taken(self, name: str) -> bool:
        """Does an entry or a record have this id?"""
        return name in self._state.ids or name in self._state.other_ids

    def operation(self, lane: str) -> str | None:
        """The operation that is open on a lane."""
        found = self._state.open_operations.get(lane)
        return None if found is None else found.id


class V4aReader:
    """Reads the lines of one v4a session into its state; a line that may not stand there changes nothing."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._standing = Standing(state)

    def take(self, value: Any, place: Place) -> None:
        """The next line.

        Raises:
            BadLine: it may not stand there.
        """
        check_line(value, self._standing)
        self._state.sequence = value["seq"]
        match value["kind"]:
            case "entry":
                self._entry(value, place)
            case "record":
                self._record(value, place)
            case "lane":
                self._state.lanes[value["lane"]] = self._node(value["leafId"])
            case _:
                self._fact(value)

    def finish(self) -> None:
        """The file has ended: an operation may be open, that is no damage."""

    def _node(self, name: str | None) -> int:
        return NOWHERE if name is None else self._state.ids.find(name)

    def _entry(self, value: dict[str, Any], place: Place) -> None:
        state, kind = self._state, entry_kind(value)
        node = state.enter(value["id"], self._node(value["parentId"]), kind, place)
        if "lane" in value:
            state.lanes[value["lane"]] = node
        if kind == Kind.COMPACTION:
            state.kept[node] = OWN_TAIL
        elif "message" in value:
            state.pair(node, value["message"])
        if value["id"] in state.awaited:
            state.awaited.discard(value["id"])
            state.measured[node] = True
        state.started_tools.pop(value["id"], None)

    def _record(self, value: dict[str, Any], place: Place) -> None:
        state = self._state
        state.other_ids.add(value["id"])
        match value["type"]:
            case "operation_started":
                state.open_operations[value["lane"]] = OpenOperation(
                    value["id"], value["lane"], value["intent"]["kind"], place.line, place.byte
                )
            case "operation_finished":
                del state.open_operations[value["lane"]]
            case "tool_started":
                self._tool(value, place)
            case "usage":
                self._usage(value)
            case _:
                pass

    def _tool(self, value: dict[str, Any], place: Place) -> None:
        """A started tool whose result is not there yet."""
        if value["resultEntryId"] in self._state.ids:
            return
        self._state.started_tools[value["resultEntryId"]] = CallFound(
            value["toolCallId"], value["toolName"], value["assistantEntryId"], place.line, place.byte, value["replay"]
        )

    def _usage(self, value: dict[str, Any]) -> None:
        details = value.get("details")
        reason = value.get("stopReason", details.get("stopReason") if type(details) is dict else None)
        self._state.sums.add(value["usage"], stop_reason=reason)
        entry_id = value.get("entryId")
        if type(entry_id) is not str:
            return
        if entry_id in self._state.ids:
            self._state.measured[self._state.ids.find(entry_id)] = True
        else:
            self._state.awaited.add(entry_id)

    def _fact(self, value: dict[str, Any]) -> None:
        if value["fact"] == "name":
            self._state.title = value.get("name")
        elif value.get("label") is None:
            self._state.labels.pop(value["targetId"], None)
        else:
            self._state.labels[value["targetId"]] = value["label"]


_WRITES: Final = ("entry", "usage", "value", "list")
_ENTRIES: Final = ("message", "compaction", "branch_summary", "custom")


class V4bReader:
    """Reads the transactions of one v4b session into its state. Such a file is read, never written."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._tip = False

    def take(self, value: Any, place: Place) -> None:
        """The next transaction: one write, or a list of them that stands or falls together.

        Raises:
            BadLine: it may not stand there.
        """
        for part, write in enumerate(value if type(value) is list else [value]):
            self._write(write, Place(place.line, place.byte, place.size, part))

    def finish(self) -> None:
        """The file has ended."""

    def _write(self, value: Any, place: Place) -> None:
        if type(value) is not dict or value.get("kind") not in _WRITES:
            raise BadLine("it is not a write of a known kind", reason="unknown_kind")
        state, sequence = self._state, need(value, "seq", int)
        if sequence <= state.sequence:
            raise BadLine(f"its seq {sequence} does not rise above {state.sequence}", reason="bad_sequence")
        state.sequence = sequence
        match value["kind"]:
            case "entry":
                self._entry(value, place)
            case "usage":
                check_usage(value.get("usage"))
                state.sums.add(value["usage"])
            case "value":
                self._value(value, place)
            case _:
                pass

    def _entry(self, value: dict[str, Any], place: Place) -> None:
        state = self._state
        entry_id = state.check_id(value.get("id"))
        parent = need(value, "parentId", str, NoneType)
        if parent is not None and parent not in state.ids:
            raise BadLine(
                f"its parent {shown(parent)} does not stand before it", reason="parent_missing", ids=(entry_id, parent)
            )
        if value.get("type") not in _ENTRIES:
            raise BadLine("its type is not known", reason="unknown_type")
        kind = entry_kind(value)
        node = state.enter(entry_id, NOWHERE if parent is None else state.ids.find(parent), kind, place)
        if not self._tip:
            state.lanes[MAIN] = node
        if kind == Kind.COMPACTION:
            state.kept[node] = OWN_TAIL
        elif "message" in value:
            state.pair(node, value["message"])

    def _value(self, value: dict[str, Any], place: Place) -> None:
        namespace, key = need(value, "namespace", str), need(value, "key", str)
        new = value.get("value") if value.get("op") == "set" else None
        match namespace:
            case "pi.session.name":
                self._state.title = new if type(new) is str else None
            case "pi.entry.label":
                self._label(key, new)
            case "pi.branch.tip":
                self._move(key, new)
            case "pi.lane.config" if key == MAIN:
                self._state.settings = _settings(new)
            case "pi.lane.state":
                self._operation(key, new, place)
            case _:
                pass

    def _label(self, key: str, new: Any) -> None:
        if type(new) is str:
            self._state.labels[key] = new
        else:
            self._state.labels.pop(key, None)

    def _move(self, key: str, new: Any) -> None:
        if new is not None and new not in self._state.ids:
            raise BadLine(f"the tip {shown(new)} does not stand before it", reason="target_missing")
        self._state.lanes[key] = NOWHERE if new is None else self._state.ids.find(new)
        self._tip = self._tip or key == MAIN

    def _operation(self, key: str, new: Any, place: Place) -> None:
        current = new.get("currentOperationId") if type(new) is dict else None
        if type(current) is str:
            self._state.open_operations[key] = OpenOperation(current, key, "unknown", place.line, place.byte)
        else:
            self._state.open_operations.pop(key, None)


def _settings(config: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if type(config) is not dict:
        return found
    if type(config.get("thinkingLevel")) is str:
        found["level"] = config["thinkingLevel"]
    model = config.get("model")
    if type(model) is dict:
        found["model"] = f"{model.get('provider')}/{model.get('modelId')}"
    if type(config.get("activeToolNames")) is list:
        found["tools"] = tuple(map(str, config["activeToolNames"]))
    return found
