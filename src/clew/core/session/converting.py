"""The lines of a v1, v2 or v3 session as lines of v4a, one by one. Whether they may be made is in `migrating`."""

from array import array
from collections.abc import Callable, Iterator
from typing import Any, Final

from clew.core.session.lines import BOM, BadLine, damaged, dump, exact, members, shown, spliced
from clew.core.session.old import title_of
from clew.core.session.state import CLEW, MAIN, OWN_TAIL, SessionState
from clew.core.session.tree import MESSAGES, NOWHERE, Kind
from clew.core.session.values import ReadAt, Remark
from clew.core.session.viewing import Entries, kept_range
from clew.core.times import format_ms, parse_ms
from clew.errors import ClewError, Corrupt, Refused

MARKER: Final = "coremindMigration"
"""The member of a header's metadata that says that a file was migrated, from which bytes, and where these are kept."""

_DEPARTING: Final = (Kind.LABEL, Kind.TITLE, Kind.LEAF, Kind.USAGE)
_OURS: Final = ("kind", "lane", "seq", "sourceTimestamp")
_MEANT: Final = {
    Kind.LABEL: ("fact",),
    Kind.TITLE: ("fact", "sourceName"),
    Kind.LEAF: ("leafId",),
    Kind.CUSTOM_MESSAGE: ("message",),
}
"""Members by which a line of v4 that this kind becomes says something else, besides those that every line has."""
_PLACED: Final = ("type", "id", "parentId", "timestamp")
_HEADER: Final = ("type", "version", "id", "timestamp", "cwd")
_VERSIONS: Final = {"v1": 1, "v2": 2, "v3": 3}

Raw = dict[str, bytes]


def source_version(state: SessionState) -> int:
    """1, 2 or 3: the version that a backup is named by.

    Raises:
        Refused: `session_migration_unsupported` for a session that is of version 4 already.
    """
    if state.format not in _VERSIONS:
        raise unsupported(f"it is of format {state.format}, which is not migrated", state)
    return _VERSIONS[state.format]


def as_migration(error: ClewError) -> ClewError:
    """The refusal of a reading as that of a migration, with the same place and facts."""
    if error.code == "session_corrupt":
        return Corrupt(error.message, code="session_migration_invalid", next=error.next, **error.facts)
    if error.code == "session_unsupported":
        return Refused(error.message, code="session_migration_unsupported", next=error.next, **error.facts)
    return error


def _invalid(why: str, state: SessionState, node: int, *ids: str, reason: str = "bad_member") -> ClewError:
    tree = state.tree
    line, byte = (1, 0) if node == NOWHERE else (tree.lines[node], tree.offsets[node])
    return as_migration(damaged(BadLine(why, reason=reason, ids=ids), line, byte, session_id=state.id))


def unsupported(why: str, state: SessionState, remark: Remark | None = None, **facts: Any) -> Refused:
    """The refusal of a session in which something has no place in v4a; `remark` says where it stands."""
    where = "" if remark is None else f" at line {remark.line}, byte {remark.byte}"
    place = {} if remark is None else {"line": remark.line, "byte": remark.byte}
    return Refused(
        f"session {shown(state.id)} cannot be migrated{where}: {why}",
        code="session_migration_unsupported",
        next="Nothing was changed; the session can still be shown. A newer clew may know what this one does not.",
        session=state.id,
        why=why,
        **place,
        **facts,
    )


class Standings:
    """Where entries of the source stand once those that have no place in the tree of v4a have left it."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._stands = array("i")
        for node, (parent, kind) in enumerate(zip(state.tree.parents, state.tree.kinds, strict=True)):
            above = NOWHERE if parent == NOWHERE else self._stands[parent]
            self._stands.append(above if kind in _DEPARTING else node)

    def node(self, node: int) -> int:
        """The entry itself, or the nearest one above it that stays."""
        return NOWHERE if node == NOWHERE else self._stands[node]

    def name(self, entry_id: str) -> str | None:
        """The same for an id; None above a root, and for an id that is not there."""
        return self._state.name_of(self.node(self._state.ids.find(entry_id)))


class Conversion:
    """One migration under way."""

    def __init__(self, state: SessionState, read: ReadAt, sha256: str, backup_file: str) -> None:
        self._state = state
        self._read = read
        self._entries = Entries(state, read)
        self._marker = {
            "schemaVersion": 1,
            "sourceFormat": source_version(state),
            "sourceSha256": sha256,
            "complete": True,
            "backupFile": backup_file,
        }
        self._standings = Standings(state)
        self._root: str | None = None
        self._leaf: str | None = None
        self._sequence = 0
        self._given: set[str] = set()
        # Labels of several entries of the source may come to stand at one; the one that was set last is shown.
        self._labels: dict[str, dict[str, bytes]] = {}

    def lines(self) -> Iterator[bytes]:
        """One after the other, each with its LF; a move of the lane rides in front of the entry that needs it."""
        yield spliced(self._header()) + b"\n"
        yield from self._first_settings()
        for node in range(self._state.entries):
            yield from self._node(node)
        end = self._name(self._standings.node(self._state.lanes[MAIN]))
        if end != self._leaf:
            yield self._line({"kind": b'"lane"', "lane": b'"main"', "leafId": dump(end)})

    # --- the header ---

    def _header(self) -> Raw:
        source = self._state.header.value
        raw = members(self._read(0, self._state.header_size).removeprefix(BOM))
        if type(source.get("cwd")) is not str:
            raise _invalid("the cwd of its header is missing or no text", self._state, NOWHERE)
        created = self._ms(source.get("timestamp"), NOWHERE)
        out = {"kind": b'"header"', "version": b"4", "id": raw["id"], "createdAt": b"%d" % created, "cwd": raw["cwd"]}
        parent = next((name for name in ("parentSession", "branchedFrom") if type(source.get(name)) is str), None)
        if parent is not None:
            out["legacyParentSessionPath"] = raw[parent]
        out["metadata"] = self._metadata(source, raw, parent)
        return out

    def _metadata(self, source: dict[str, Any], raw: Raw, parent: str | None) -> bytes:
        """The source's own, the marker, and what of the header v4a has no member for."""
        own = source.get("metadata")
        kept = members(raw["metadata"]) if type(own) is dict else {}
        if MARKER in kept or CLEW + "header" in kept:
            raise unsupported(f"the metadata of its header has {shown(MARKER)} already", self._state)
        known = (*_HEADER, parent, *(["metadata"] if type(own) is dict else []))
        rest = {name: value for name, value in raw.items() if name not in known}
        if rest:
            kept[CLEW + "header"] = spliced(rest)
        return spliced({**kept, MARKER: dump(self._marker)})

    def _first_settings(self) -> Iterator[bytes]:
        """What a v1 header says of model and level, as entries above all others."""
        header = self._state.header.value
        created = self._ms(header.get("timestamp"), NOWHERE)
        if "model" in self._state.settings:
            own = {"provider": dump(header["provider"]), "modelId": dump(header["modelId"])}
            yield self._entry("model_change", self._fresh("header-model"), own, self._root, created)
            self._root = self._leaf
        if "level" in self._state.settings:
            own = {"thinkingLevel": dump(header["thinkingLevel"])}
            yield self._entry("thinking_level_change", self._fresh("header-level"), own, self._root, created)
            self._root = self._leaf

    # --- lines ---

    def _line(self, parts: Raw) -> bytes:
        self._sequence += 1
        return spliced({**parts, "seq": b"%d" % self._sequence}) + b"\n"

    def _entry(self, type: str, entry_id: str, own: Raw, parent: str | None, at_ms: int) -> bytes:
        move = b""
        if parent != self._leaf:
            move = self._line({"kind": b'"lane"', "lane": b'"main"', "leafId": dump(parent)})
        head = {"kind": b'"entry"', "lane": b'"main"', "type": dump(type), "id": dump(entry_id)}
        tail = {"parentId": dump(parent), "timestamp": b"%d" % at_ms}
        self._leaf = entry_id
        return move + self._line({**head, **own, **tail})

    def _fresh(self, wanted: str) -> str:
        """An id that no entry of the source has."""
        while wanted in self._state.ids or wanted in self._given:
            wanted += "-"
        self._given.add(wanted)
        return wanted

    def _name(self, node: int) -> str | None:
        return self._root if node == NOWHERE else self._state.ids.at(node)

    def _ms(self, time: Any, node: int) -> int:
        found = parse_ms(time)
        if found is None or found < 0:
            raise _invalid(f"its time {shown(time)} is none", self._state, node, reason="bad_time")
        return found

    # --- entries ---

    def _node(self, node: int) -> Iterator[bytes]:
        state, kind = self._state, Kind(self._state.tree.kinds[node])
        line = self._entries.line(node)
        raw, entry = members(line), exact(line)
        at_ms = self._ms(entry.get("timestamp"), node)
        self._check_members(node, kind, raw)
        if kind in _DEPARTING:
            yield self._departed(kind, node, entry, raw, at_ms)
            return
        parent = self._name(self._standings.node(state.tree.parents[node]))
        own = {name: value for name, value in raw.items() if name not in _PLACED}
        if format_ms(at_ms) != entry["timestamp"]:
            own["sourceTimestamp"] = raw["timestamp"]
        yield from _CONVERTED.get(kind, Conversion._plain)(self, node, own, entry, parent, at_ms)
        yield from self._paid(node, kind, entry, raw, at_ms)

    def _check_members(self, node: int, kind: Kind, raw: Raw) -> None:
        """Refuse a member that would be taken for something else, or be lost beside what has its name in v4."""
        # All that a usage row says stands in the details of its record, where no name is taken.
        meant = () if kind == Kind.USAGE else (*_OURS, *_MEANT.get(kind, ()))
        if (odd := next((name for name in meant if name in raw), None)) is not None:
            raise self._has_no_place(node, f"its member {odd!r} has another meaning in v4")

    def _has_no_place(self, node: int, why: str) -> Refused:
        tree = self._state.tree
        return unsupported(why, self._state, Remark("no_place", why, tree.lines[node], tree.offsets[node]))

    def _plain(self, node: int, own: Raw, entry: Any, parent: str | None, at_ms: int) -> Iterator[bytes]:
        if entry["type"] == "custom" and entry["customType"].startswith(CLEW):
            raise self._has_no_place(node, f"the custom type {shown(entry['customType'])} is one of clew's own")
        yield self._entry(entry["type"], self._state.ids.at(node), own, parent, at_ms)

    def _message(self, node: int, own: Raw, entry: Any, parent: str | None, at_ms: int) -> Iterator[bytes]:
        own = {**own, "message": self._said(node, own, entry, at_ms)}
        yield self._entry("message", self._state.ids.at(node), own, parent, at_ms)

    def _custom_message(self, node: int, own: Raw, entry: Any, parent: str | None, at_ms: int) -> Iterator[bytes]:
        said = ("customType", "content", "display", "details")
        rest = {name: value for name, value in own.items() if name not in said}
        rest["message"] = self._said(node, own, entry, at_ms)
        yield self._entry("message", self._state.ids.at(node), rest, parent, at_ms)

    def _said(self, node: int, own: Raw, entry: Any, at_ms: int) -> bytes:
        """The message of a message entry, as bytes of the source as far as it can be."""
        if self._state.tree.kinds[node] == Kind.CUSTOM_MESSAGE:
            parts = {"role": b'"custom"', "customType": own["customType"]}
            parts["content"] = b"[]" if entry.get("content") is None else own["content"]
            parts |= {name: own[name] for name in ("display", "details") if name in own}
            return spliced({**parts, "timestamp": b"%d" % at_ms})
        if entry["message"]["role"] == "hookMessage" and self._state.format in ("v1", "v2"):
            return spliced({**members(own["message"]), "role": b'"custom"'})
        return own["message"]

    def _edit(self, node: int, own: Raw, entry: Any, parent: str | None, at_ms: int) -> Iterator[bytes]:
        # Its target keeps its name also where it left the tree: what stands above it is another message.
        parts = {"customType": dump(CLEW + "context_edit"), "data": spliced(own)}
        yield self._entry("custom", self._state.ids.at(node), parts, parent, at_ms)

    def _branch_summary(self, node: int, own: Raw, entry: Any, parent: str | None, at_ms: int) -> Iterator[bytes]:
        name = self._state.ids.at(node)
        source = entry["fromId"]
        own = {**own, "fromId": dump(None if source == "root" else self._standings.name(source))}
        if "fromHook" in own:
            data = {"branchSummaryId": dump(name), "fromHook": own.pop("fromHook")}
            beside = {"customType": dump(CLEW + "branch_summary"), "data": spliced(data)}
            yield self._entry("custom", self._fresh(f"{name}-clew"), beside, parent, at_ms)
            parent = self._leaf
        yield self._entry("branch_summary", name, own, parent, at_ms)

    def _compaction(self, node: int, own: Raw, entry: Any, parent: str | None, at_ms: int) -> Iterator[bytes]:
        name = self._state.ids.at(node)
        data: Raw = {"compactionId": dump(name)}
        for moved in ("firstKeptEntryId", "firstKeptEntryIndex", "fromHook", "systemMessage"):
            if moved in own:
                data[moved] = own.pop(moved)
        kept: list[str] = []
        if self._state.kept[node] != OWN_TAIL:
            tail, kept, edits = self._kept(node, has_system=entry.get("systemMessage") is not None)
            own = {**own, "retainedTail": b"[" + b",".join(tail) + b"]"}
            data |= {"kept": dump(kept), "edits": dump(edits)}
        if len(data) > 1:
            data = {"kept": b"[]", "edits": b"[]", **data}
            beside = {"customType": dump(CLEW + "compaction"), "data": spliced(data)}
            yield self._entry("custom", self._fresh(f"{name}-clew"), beside, parent, at_ms)
            parent = self._leaf
        yield self._entry("compaction", name, own, parent, at_ms)

    def _kept(self, node: int, *, has_system: bool) -> tuple[list[bytes], list[str], list[str]]:
        """The messages that a compaction keeps, the entry of each, and the edits among what it keeps."""
        state = self._state
        tail, kept, edits = [], [], []
        for at in kept_range(state, node):
            kind, name = state.tree.kinds[at], state.ids.at(at)
            if kind == Kind.EDIT:
                edits.append(name)
            elif (message := self._in_tail(at, kind)) is not None and not (has_system and kind == Kind.SYSTEM):
                tail.append(message)
                kept.append(name)
        return tail, kept, edits

    def _in_tail(self, node: int, kind: int) -> bytes | None:
        line = self._entries.line(node)
        raw, entry = members(line), exact(line)
        at_ms = self._ms(entry.get("timestamp"), node)
        if kind in MESSAGES:
            return self._said(node, raw, entry, at_ms)
        own = {Kind.BRANCH_SUMMARY: ("branchSummary", "fromId"), Kind.COMPACTION: ("compactionSummary", "tokensBefore")}
        role, name = own.get(Kind(kind), ("", ""))
        if not role or (kind == Kind.COMPACTION and not self._state.agent_core) or (
            kind == Kind.BRANCH_SUMMARY and not entry["summary"]
        ):  # fmt: skip
            return None
        hook = {"fromHook": raw["fromHook"]} if "fromHook" in raw else {}
        parts = {"role": dump(role), "summary": raw["summary"], name: raw.get(name, b"null"), **hook}
        return spliced({**parts, "timestamp": b"%d" % at_ms})

    # --- what leaves the tree ---

    def _departed(self, kind: Kind, node: int, entry: Any, raw: Raw, at_ms: int) -> bytes:
        rest = {name: value for name, value in raw.items() if name != "type"}
        match kind:
            case Kind.LABEL:
                return self._label(node, entry, rest, at_ms)
            case Kind.TITLE:
                return self._title(entry, rest)
            case Kind.LEAF:
                return self._moved(entry, rest)
            case _:
                return self._usage_row(node, entry, raw, at_ms)

    def _label(self, node: int, entry: Any, rest: Raw, at_ms: int) -> bytes:
        target = self._standings.name(entry["targetId"])
        if target is None:
            return self._aside(node, rest, at_ms)
        said = self._labels.setdefault(target, {})
        said.pop(entry["targetId"], None)
        if entry.get("label"):
            said[entry["targetId"]] = rest["label"]
        rest.pop("label", None)
        if said:
            rest["label"] = next(reversed(said.values()))
        return self._line({"kind": b'"fact"', "fact": b'"label"', **rest, "targetId": dump(target)})

    def _aside(self, node: int, rest: Raw, at_ms: int) -> bytes:
        """A label on an entry that has left from above the root: kept as an entry of its own, on no lane.

        It hangs where it hung: whoever goes back to it must see the branch that it stood on.
        """
        name, parent = self._state.ids.at(node), self._name(self._standings.node(node))
        head = {"kind": b'"entry"', "type": dump("custom"), "id": dump(name), "customType": dump(CLEW + "label")}
        tail = {"data": spliced(rest), "parentId": dump(parent), "timestamp": b"%d" % at_ms}
        return self._line({**head, **tail})

    def _title(self, entry: Any, rest: Raw) -> bytes:
        name = title_of(entry.get("name"))
        if name != entry.get("name") and "name" in rest:
            rest["sourceName"] = rest.pop("name")
        if name is not None:
            rest["name"] = dump(name)
        return self._line({"kind": b'"fact"', "fact": b'"name"', **rest})

    def _moved(self, entry: Any, rest: Raw) -> bytes:
        target = entry["targetId"]
        self._leaf = self._name(NOWHERE if target is None else self._standings.node(self._state.ids.find(target)))
        return self._line({"kind": b'"lane"', "lane": b'"main"', "leafId": dump(self._leaf), **rest})

    def _usage_row(self, node: int, entry: Any, raw: Raw, at_ms: int) -> bytes:
        details = {name: value for name, value in raw.items() if name not in (*_PLACED, "usage")}
        return self._usage(self._state.ids.at(node), raw["usage"], at_ms, {"details": spliced(details)})

    def _usage(self, record_id: str, usage: bytes, at_ms: int, more: Raw) -> bytes:
        head = {"kind": b'"record"', "type": dump("usage"), "id": dump(record_id), "lane": b'"main"'}
        return self._line({**head, "cause": b'"adjustment"', **more, "usage": usage, "timestamp": b"%d" % at_ms})

    def _paid(self, node: int, kind: Kind, entry: Any, raw: Raw, at_ms: int) -> Iterator[bytes]:
        """The usage that an entry carries, as a record: in v4 these alone are counted."""
        inside = kind in (Kind.ASSISTANT, Kind.RESULT)
        if kind not in (Kind.ASSISTANT, Kind.RESULT, Kind.COMPACTION, Kind.BRANCH_SUMMARY):
            return
        holder = entry["message"] if inside else entry
        if holder.get("usage") is None:
            return
        name = self._state.ids.at(node)
        details = {"source": self._state.format, "of": holder.get("role", entry["type"])}
        if type(holder.get("stopReason")) is str:
            details["stopReason"] = holder["stopReason"]
        usage = members(raw["message"])["usage"] if inside else raw["usage"]
        more = {"entryId": dump(name), "details": dump(details)}
        yield self._usage(self._fresh(f"{name}-usage"), usage, at_ms, more)


_CONVERTED: Final[dict[Kind, Callable[[Conversion, int, Raw, Any, str | None, int], Iterator[bytes]]]] = {
    **dict.fromkeys((Kind.MESSAGE, Kind.ASSISTANT, Kind.SYSTEM, Kind.RESULT), Conversion._message),
    Kind.CUSTOM_MESSAGE: Conversion._custom_message,
    Kind.EDIT: Conversion._edit,
    Kind.BRANCH_SUMMARY: Conversion._branch_summary,
    Kind.COMPACTION: Conversion._compaction,
}
