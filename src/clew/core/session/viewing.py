"""What a conversation is now: the context at a leaf, its settings, title, labels. What a model is sent is not here."""

from collections.abc import Iterator
from typing import Any, Final

from clew.core.session.lines import exact
from clew.core.session.state import MAIN, SessionState
from clew.core.session.tree import NOWHERE, Kind
from clew.core.session.values import ReadAt, Remark, Said, View
from clew.core.times import parse_ms
from clew.errors import NotFound

_EDITABLE: Final = ("user", "assistant", "toolResult", "custom")
_BLOCKS: Final = ("assistant", "toolResult")
_SPEAKING: Final = ("user", "assistant", "toolResult", "system")

Message = dict[str, Any]


def view(state: SessionState, read: ReadAt, *, lane: str = MAIN) -> View:
    """Say what the conversation is at the leaf of a lane.

    Args:
        state: The session, wholly read.
        read: Gives bytes of the same file.
        lane: Old dialects have `main` alone.

    Raises:
        NotFound: `unknown_lane`.

    Source:
        reference/sessions.md §4.5; DESIGN §8.
    """
    if lane not in state.lanes:
        raise NotFound(
            f"session {state.id!a} has no lane {lane!a}",
            code="unknown_lane",
            next="Name one of its lanes; without a name it is 'main'.",
            lanes=sorted(state.lanes),
        )
    context = Context(state, read, lane)
    level, model, tools = context.settings()
    return View(
        messages=tuple(context.messages()),
        level=level,
        model=model,
        tools=tools,
        title=state.title,
        labels=dict(state.labels),
        totals=state.totals(),
        leaf=state.name_of(state.lanes[lane]),
        lanes={name: state.name_of(node) for name, node in state.lanes.items()},
        entries=state.entries,
        warnings=remarks(state),
    )


def remarks(state: SessionState) -> tuple[Remark, ...]:
    """What was noticed while a session was read; when there was very much, the last one says how much more."""
    if not state.remarks_left_out:
        return tuple(state.remarks)
    last = state.remarks[-1]
    more = Remark("more", f"and {state.remarks_left_out} more from here on", last.line, last.byte)
    return (*state.remarks, more)


class Entries:
    """Reads entries of one session again, by number."""

    def __init__(self, state: SessionState, read: ReadAt) -> None:
        self._state = state
        self._read = read
        self._last: tuple[int, Any] = (NOWHERE, None)

    def line(self, node: int) -> bytes:
        """The bytes of its line, without LF."""
        tree = self._state.tree
        return self._read(tree.offsets[node], tree.sizes[node])

    def entry(self, node: int) -> Message:
        """What stands there."""
        offset = self._state.tree.offsets[node]
        if self._last[0] != offset:
            # Many entries may stand on one line of v4b.
            self._last = offset, exact(self.line(node))
        value = self._last[1]
        found: Message = value[self._state.tree.parts.get(node, 0)] if type(value) is list else value
        return found

    def beside(self, node: int) -> Message:
        """What our companion entry before a compaction or branch summary adds to it; nothing where there is none."""
        above = self._state.tree.parents[node]
        if above == NOWHERE or self._state.tree.kinds[above] != Kind.COMPANION:
            return {}
        data: Message = self.entry(above)["data"]
        about = data.get("compactionId", data.get("branchSummaryId"))
        return data if about == self._state.ids.at(node) else {}


def kept_range(state: SessionState, compaction: int) -> list[int]:
    """The entries before a compaction that it keeps, in order; none when it carries its tail itself."""
    first = state.kept[compaction]
    if first < 0:
        return []
    path = state.tree.path(state.tree.parents[compaction])
    return path[path.index(first) :]


class Context:
    """The context of one lane, worked out when it is asked for."""

    def __init__(self, state: SessionState, read: ReadAt, lane: str = MAIN) -> None:
        self._state = state
        self._entries = Entries(state, read)
        self._path = state.tree.path(state.lanes[lane])

    def settings(self) -> tuple[str, str | None, tuple[str, ...] | None]:
        """Level, model and tools at the leaf: the last of each on the path, else what stands outside the tree."""
        outside = self._state.settings
        if self._state.format == "v4b":
            return outside.get("level", "off"), outside.get("model"), outside.get("tools")
        level = next((entry["thinkingLevel"] for entry in self._back(Kind.LEVEL)), outside.get("level", "off"))
        tools = next((tuple(entry["activeToolNames"]) for entry in self._back(Kind.TOOLS)), None)
        named = (_model_of(entry) for entry in self._back(Kind.MODEL, Kind.ASSISTANT))
        return level, next((model for model in named if model), outside.get("model")), tools

    def _back(self, *kinds: Kind) -> Iterator[Message]:
        """Entries of these kinds on the path, the last one first."""
        of = self._state.tree.kinds
        return (self._entries.entry(node) for node in reversed(self._path) if of[node] in kinds)

    def messages(self) -> Iterator[Said]:
        """The context, in order."""
        last = self._state.tree.compacted[self._path[-1]] if self._path else NOWHERE
        if last == NOWHERE:
            yield from self._edited([], self._path, [])
            return
        entry = self._entries.entry(last)
        beside = self._entries.beside(last)
        system = entry.get("systemMessage") or beside.get("systemMessage")
        head = [Said(message, self._state.ids.at(last)) for message in (system, summary_of(entry, beside)) if message]
        head += _tail(entry, beside)
        kinds = self._state.tree.kinds
        kept = [node for node in kept_range(self._state, last) if not (system and kinds[node] == Kind.SYSTEM)]
        named = (self._state.ids.find(name) for name in beside.get("edits", ()))
        edits = [node for node in named if node != NOWHERE and kinds[node] == Kind.EDIT]
        yield from self._edited(head, kept + self._path[self._path.index(last) + 1 :], edits)

    def _edited(self, head: list[Said], nodes: list[int], edits: list[int]) -> Iterator[Said]:
        """Messages of a selection, with the edits in it and those named besides; the latest of a target wins."""
        kinds = self._state.tree.kinds
        wanted: dict[str, Any] = {}
        for node in (*edits, *(node for node in nodes if kinds[node] == Kind.EDIT)):
            entry = self._entries.entry(node)
            edit = entry["data"] if entry["type"] == "custom" else entry
            wanted[edit["targetId"]] = edit["replacement"]
        for said in head:
            yield from _replaced(said, wanted)
        for node in nodes:
            for message in self._said(node):
                yield from _replaced(Said(message, self._state.ids.at(node)), wanted)

    def _said(self, node: int) -> Iterator[Message]:
        """What one entry puts into the context."""
        match self._state.tree.kinds[node]:
            case Kind.MESSAGE | Kind.ASSISTANT | Kind.SYSTEM | Kind.RESULT:
                yield message_of(self._entries.entry(node)["message"], self._state)
            case Kind.CUSTOM_MESSAGE:
                yield custom_message_of(self._entries.entry(node))
            case Kind.BRANCH_SUMMARY:
                entry = self._entries.entry(node)
                if entry["summary"]:
                    yield branch_summary_of(entry, self._entries.beside(node))
            case Kind.COMPACTION if self._state.agent_core:
                yield summary_of(self._entries.entry(node), {})
            case _:
                pass


def message_of(message: Message, state: SessionState) -> Message:
    """A stored message as the context has it: content that is missing is empty, an old role has its new name."""
    if message["role"] == "hookMessage" and state.format in ("v1", "v2"):
        message = {**message, "role": "custom"}
    return _filled(message)


def custom_message_of(entry: Message) -> Message:
    """The message of a `custom_message` entry."""
    content = entry.get("content")
    found = {"role": "custom", "customType": entry["customType"], "content": [] if content is None else content}
    found |= {name: entry[name] for name in ("display", "details") if name in entry}
    return {**found, "timestamp": at_ms(entry)}


def summary_of(entry: Message, beside: Message) -> Message:
    """The message of a compaction."""
    return _summary("compactionSummary", entry, beside, "tokensBefore")


def branch_summary_of(entry: Message, beside: Message) -> Message:
    """The message of a branch summary."""
    return _summary("branchSummary", entry, beside, "fromId")


def _summary(role: str, entry: Message, beside: Message, own: str) -> Message:
    hook = {name: source[name] for source in (beside, entry) for name in ("fromHook",) if name in source}
    return {"role": role, "summary": entry["summary"], own: entry.get(own), **hook, "timestamp": at_ms(entry)}


def at_ms(entry: Message) -> int | None:
    """When an entry was made, in milliseconds since 1970; None when that cannot be read."""
    time = entry.get("timestamp")
    return time if type(time) is int else parse_ms(time)


def _tail(entry: Message, beside: Message) -> list[Said]:
    """The messages that a compaction carries, with the entries that they come from as far as that is known."""
    tail = entry.get("retainedTail") or []
    names = beside.get("kept", [])
    from_entries = names if len(names) == len(tail) else [None] * len(tail)
    return [Said(_filled(message), name) for message, name in zip(tail, from_entries, strict=True)]


def _filled(message: Message) -> Message:
    if message["role"] in _SPEAKING and message.get("content") is None:
        return {**message, "content": "" if message["role"] == "system" else []}
    return message


def _replaced(said: Said, edits: dict[str, Any]) -> Iterator[Said]:
    """A message as an edit leaves it: hidden, with other content, or as it is."""
    if said.entry_id not in edits:
        yield said
    elif (new := edits[said.entry_id]) is not None:
        if said.role not in _EDITABLE:
            yield said
            return
        content = new["content"]
        if said.role in _BLOCKS and type(content) is str:
            content = [{"type": "text", "text": content}]
        yield Said({**said.message, "content": content}, said.entry_id)


def _model_of(entry: Message) -> str | None:
    """The model that an entry sets; None for an answer that does not say who gave it."""
    if entry["type"] == "model_change":
        provider, model = entry["provider"], entry["modelId"]
    else:
        provider, model = entry["message"].get("provider"), entry["message"].get("model")
    return f"{provider}/{model}" if type(provider) is str and type(model) is str else None
