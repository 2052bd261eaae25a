"""Records of a damaged session, one after the other: hung where a reader takes them, or left out. Pure.

How they are cut from its bytes, and what is told of them, is in `salvaging`.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from clew.core.session.dialects import Header
from clew.core.session.lines import BOM, BadLine, dump, exact, members, spliced
from clew.core.session.new import Standing
from clew.core.session.reading import reader_of
from clew.core.session.rules import check_line
from clew.core.session.state import Place, SessionState

_REBUILDS: Final = 100
_ABOUT: Final = ("label", "context_edit")


class Found:
    """One record of the source: what it says, where it stood, the bytes that it was.

    Attributes:
        raw: Its bytes in the copy.
        source: Its bytes in the source, the LF included where it ended its line.
        slot: Which record of the source it is, the header being 0 and what could not be read counted as well.
    """

    __slots__ = ("byte", "line", "raw", "slot", "source", "value")

    def __init__(self, source: bytes, line: int, byte: int, slot: int) -> None:
        """`BadLine` when it is no object of strict JSON."""
        self.source = source
        self.raw = source.removesuffix(b"\n")
        self.line = line
        self.byte = byte
        self.slot = slot
        self.value: Any = exact(self.raw.removeprefix(BOM) if byte == 0 else self.raw)

    def put(self, name: str, value: Any) -> None:
        """Say something else in one member of an object; all other bytes stay."""
        self.value[name] = value
        self.raw = spliced(members(self.raw.removeprefix(BOM)) | {name: dump(value)})

    def take(self, name: str) -> None:
        """Say a member no more."""
        if self.value.pop(name, None) is not None:
            parts = members(self.raw)
            del parts[name]
            self.raw = spliced(parts)


Tell = Callable[[Found, str], None]


class Rehanging:
    """One session that is made anew of what can be read of it.

    Whoever followed a record that is left out follows the one that this followed; so the loss of one is the loss of no
    other. The cost is that of reading it once.

    Attributes:
        kept: The records of the copy, without its header.
    """

    def __init__(self, header: Header, changed: Tell, left_out: Tell) -> None:
        self.kept: list[Found] = []
        self._header = header
        self._changed = changed
        self._left_out = left_out
        self._begin()
        self._last: str | None = None
        self._gone: dict[str, str | None] = {}
        self._heirs: dict[str, str] = {}
        self._rebuilds = 0

    def _begin(self) -> None:
        self._state = SessionState(self._header)
        self._reader = reader_of(self._state)

    def add(self, record: Found) -> None:
        """The next record of the source."""
        try:
            self._hang(record)
            self._number(record)
            self._reader.take(record.value, Place(record.line, record.byte, len(record.raw)))
        except BadLine as error:
            self._leave_out(record, error.why)
            return
        self.kept.append(record)
        for entry in self._entries(record):
            self._last = entry["id"]

    def _leave_out(self, record: Found, why: str) -> None:
        self._left_out(record, why)
        if self._state.format == "v4b" and type(record.value) is list and self._rebuilds < _REBUILDS:
            # Of several writes some may have been taken in before the bad one.
            self._rebuilds += 1
            self._begin()
            for each in self.kept:
                self._reader.take(each.value, Place(each.line, each.byte, len(each.raw)))
        for entry in self._entries(record):
            if entry["id"] not in self._state.ids:
                # It was hung before: whom it follows is there, or left out with it.
                parent = self._stead(entry.get("parentId"))
                self._gone[entry["id"]] = parent if parent in self._state.ids else None

    def _entries(self, record: Found) -> Iterator[dict[str, Any]]:
        """The entries with an id that a record holds."""
        old = self._state.format in ("v2", "v3")
        for each in record.value if type(record.value) is list else [record.value]:
            if type(each) is dict and type(each.get("id")) is str and (old or each.get("kind") == "entry"):
                yield each

    def _stead(self, name: Any) -> Any:
        """Who stands where an entry stood that is left out; itself where it is not known."""
        return self._gone[name] if type(name) is str and name not in self._state.ids and name in self._gone else name

    # --- where it hangs ---

    def _hang(self, record: Found) -> None:
        """Let it refer to what is there.

        Raises:
            BadLine: what it is about is not there.
        """
        value = record.value
        if type(value) is list:
            self._hang_writes(record)
        if type(value) is not dict or self._state.format == "v1":
            return
        for entry in self._entries(record):
            self._follow(record, entry, record.put)
        match value.get("type") if self._state.format in ("v2", "v3") else value.get("kind"):
            case "leaf":
                self._point(record, "targetId")
            case "lane":
                self._point(record, "leafId")
            case "compaction":
                self._keep(record)
            case "branch_summary":
                self._come_from(record)
            case kind if kind in _ABOUT and not self._is_there(value.get("targetId"), value):
                raise BadLine("it is about an entry that is not there")
            case "entry":
                self._lay(record)
            case _:
                pass

    def _is_there(self, target: Any, value: dict[str, Any]) -> bool:
        """Is this an entry before one, or that one itself?"""
        return target in self._state.ids or target == value.get("id")

    def _hang_writes(self, record: Found) -> None:
        """The writes of one transaction, some of which may follow others of it."""
        own = set[str]()
        for entry in self._entries(record):

            def put(name: str, new: str | None, entry: dict[str, Any] = entry) -> None:
                entry[name] = new
                record.raw = dump(record.value)

            if entry.get("parentId") not in own:
                self._follow(record, entry, put)
            own.add(entry["id"])

    def _follow(self, record: Found, entry: dict[str, Any], put: Callable[[str, str | None], None]) -> None:
        parent = entry.get("parentId")
        if type(parent) is not str or parent in self._state.ids or entry["id"] in self._state.ids:
            return
        new = self._stead(parent)
        if new is not None and new not in self._state.ids:
            new = self._leaf_of(entry)
        self._heirs.setdefault(parent, entry["id"])
        put("parentId", new)
        self._changed(record, f"it follows {new!a}, for {parent[:80]!a} is not there")

    def _leaf_of(self, entry: dict[str, Any]) -> str | None:
        """Whom to follow when nobody knows whom the lost one followed."""
        lane = entry.get("lane")
        if self._state.format == "v4a" and type(lane) is str and lane in self._state.lanes:
            return self._state.name_of(self._state.lanes[lane])
        return self._last

    def _point(self, record: Found, member: str) -> None:
        target = record.value.get(member)
        if type(target) is str and target in self._gone:
            record.put(member, self._stead(target))
            self._changed(record, f"it leads to {record.value[member]!a}, for {target[:80]!a} is not there")

    def _keep(self, record: Found) -> None:
        """What a compaction keeps begins with the first that is there of what it kept."""
        first = name = record.value.get("firstKeptEntryId")
        seen = set[str]()
        while type(name) is str and name not in self._state.ids and name in self._heirs and name not in seen:
            seen.add(name)
            name = self._heirs[name]
        if name != first and name in self._state.ids:
            record.put("firstKeptEntryId", name)
            self._changed(record, f"what it keeps begins with {name!a}, for {first!a} is not there")

    def _come_from(self, record: Found) -> None:
        source = record.value.get("fromId")
        if type(source) is str and source in self._gone:
            new = self._stead(source) or "root"
            record.put("fromId", new)
            self._changed(record, f"it comes from {new!a}, for {source[:80]!a} is not there")

    def _lay(self, record: Found) -> None:
        """Move its lane to whom it follows: the line that did it is lost, or the lane was never made."""
        lane = record.value.get("lane")
        if type(lane) is not str:
            return
        # First of all it must be sound itself, or the lane would be moved for nothing.
        loose = {name: each for name, each in record.value.items() if name != "lane"}
        check_line({**loose, "seq": self._state.sequence + 1}, Standing(self._state))
        parent = record.value["parentId"]
        if lane in self._state.lanes and self._state.name_of(self._state.lanes[lane]) == parent:
            return
        line = {"kind": "lane", "seq": self._state.sequence + 1, "lane": lane, "leafId": parent}
        move = Found(dump(line) + b"\n", record.line, record.byte, record.slot)
        self._reader.take(move.value, Place(record.line, record.byte, len(move.raw)))
        self.kept.append(move)
        self._changed(record, f"its lane is moved to {parent!a} before it, for nothing says so any more")

    def _number(self, record: Found) -> None:
        """The lines of v4a are numbered without a gap."""
        if self._state.format != "v4a" or type(record.value) is not dict:
            return
        number = self._state.sequence + 1
        if record.value.get("seq") != number:
            record.take("append")
            record.put("seq", number)
            self._changed(record, f"its seq is {number} now")
