"""A session as its file tells it: offsets and small facts, no contents. How each dialect is read is not here."""

from typing import Any, Final, Literal

from clew.core.session.calls import Calls, calls_in
from clew.core.session.dialects import Header
from clew.core.session.lines import BadLine, shown
from clew.core.session.naming import Names
from clew.core.session.sums import Sums
from clew.core.session.tree import MESSAGES, NOWHERE, Kind, Tree
from clew.core.session.values import CallFound, Format, OpenOperation, Remark, Totals

MAIN: Final = "main"
CLEW: Final = "clew."
"""How the types of our own custom entries begin."""
CONTEXT_EDIT: Final = "clew.context_edit"
COMPANIONS: Final = ("clew.compaction", "clew.branch_summary")

OWN_TAIL: Final = -2
"""The kept messages of this compaction stand in the compaction itself."""
LOST: Final = -3
"""What this compaction kept cannot be found."""

_REMARKS: Final = 200
_ROLES: Final = {"assistant": Kind.ASSISTANT, "system": Kind.SYSTEM, "toolResult": Kind.RESULT}

Ending = Literal["clean", "unterminated", "torn"]


class Place:
    """Where a line stands, and which of several writes on it."""

    __slots__ = ("byte", "line", "part", "size")

    def __init__(self, line: int, byte: int, size: int, part: int = 0) -> None:
        self.line = line
        self.byte = byte
        self.size = size
        self.part = part


class SessionState:
    """What is known of a session after its lines so far. About a hundred bytes an entry, its id and its call.

    Attributes:
        header: Its first line.
        sequence: Of the last line that had one; 0 in the old dialects.
        ids: The id of each entry, by number and back.
        other_ids: Those of records.
        lanes: The entry that each lane stands at, `NOWHERE` before its first.
        labels: By id of the entry; the one that was set last is the last.
        kept: Where the kept range of each compaction begins; or `NOWHERE` (nothing), `OWN_TAIL`, `LOST`.
        agent_core: Written in the dialect of agent-core, which finds its place and old summaries otherwise.
        settings: What a lane's configuration says outside the tree (v4b), or a header (v1): `level`, `model`, `tools`.
        edit_targets: Ids that a `context_edit` names.
        size: Bytes up to the end of the last whole record, its LF included; `header_size` those of the first line.
        ending: How the file ends; `torn_bytes` stand behind the last whole record then.
    """

    def __init__(self, header: Header) -> None:
        self.header = header
        self.sequence = 0
        self.tree = Tree()
        self.ids = Names()
        self.lanes: dict[str, int] = {MAIN: NOWHERE}
        self.title: str | None = None
        self.labels: dict[str, str] = {}
        self.sums = Sums()
        self.calls = Calls(self.tree)
        self.kept: dict[int, int] = {}
        self.agent_core = header.format in ("v4a", "v4b") or "metadata" in header.value
        self.settings: dict[str, Any] = {}
        self.remarks: list[Remark] = []
        self.remarks_left_out = 0
        self.size = 0
        self.header_size = 0
        self.ending: Ending = "clean"
        self.torn_bytes = 0
        self.open_operations: dict[str, OpenOperation] = {}
        self.started_tools: dict[str, CallFound] = {}
        self.other_ids = Names()
        self.awaited: set[str] = set()
        self.measured = bytearray()

    @property
    def format(self) -> Format:
        """The language of the file."""
        return self.header.format

    @property
    def id(self) -> str:
        """The session's id."""
        return self.header.id

    @property
    def entries(self) -> int:
        """How many entries the file has."""
        return len(self.ids)

    def name_of(self, node: int) -> str | None:
        """The id of an entry; None for `NOWHERE`."""
        return None if node == NOWHERE else self.ids.at(node)

    def totals(self) -> Totals:
        """What the session has cost."""
        unsaid = 0
        if self.format == "v4a":
            unsaid = sum(
                kind == Kind.ASSISTANT and not said for kind, said in zip(self.tree.kinds, self.measured, strict=True)
            )
        return self.sums.totals(also_unmeasured=unsaid)

    def remark(self, code: str, text: str, place: Place, *ids: str) -> None:
        """Keep something that a reader should know; of very many only the first."""
        if len(self.remarks) < _REMARKS:
            self.remarks.append(Remark(code, text, place.line, place.byte, ids))
        else:
            self.remarks_left_out += 1

    def check_id(self, entry_id: Any) -> str:
        """An id that is still free.

        Raises:
            BadLine: it is no text, empty, or taken.
        """
        if type(entry_id) is not str or not entry_id:
            raise BadLine("its id is missing or no text", reason="bad_member")
        if entry_id in self.ids:
            first = self.tree.lines[self.ids.find(entry_id)]
            raise BadLine(
                f"the id {shown(entry_id)} is that of line {first} already", reason="duplicate_id", ids=(entry_id,)
            )
        if entry_id in self.other_ids:
            raise BadLine(f"the id {shown(entry_id)} is taken already", reason="duplicate_id", ids=(entry_id,))
        return entry_id

    def enter(self, entry_id: str, parent: int, kind: Kind, place: Place) -> int:
        """A checked entry; its number."""
        node = self.tree.add(parent, kind, line=place.line, byte=place.byte, size=place.size, part=place.part)
        self.ids.add(entry_id)
        self.measured.append(False)
        self.sums.messages += kind in MESSAGES
        return node

    def pair(self, node: int, message: dict[str, Any]) -> None:
        """Match the calls and the result that a message of this entry holds."""
        kind = self.tree.kinds[node]
        if kind == Kind.ASSISTANT:
            for call_id, tool in calls_in(message):
                self.calls.call(call_id, tool, node)
        elif kind == Kind.RESULT:
            self.calls.result(message["toolCallId"], node)


def role_kind(message: Any) -> Kind:
    """What kind of entry a message makes.

    Raises:
        BadLine: it is no message.
    """
    if type(message) is not dict or type(message.get("role")) is not str:
        raise BadLine("its message is not an object with a role", reason="bad_member")
    kind = _ROLES.get(message["role"], Kind.MESSAGE)
    if kind == Kind.ASSISTANT:
        for _ in calls_in(message):
            pass
    elif kind == Kind.RESULT and type(message.get("toolCallId")) is not str:
        raise BadLine("its result names no call", reason="bad_member")
    return kind


def need(value: dict[str, Any], name: str, *kinds: type) -> Any:
    """A member of one of these types.

    Raises:
        BadLine: it is missing or of another type.
    """
    found = value.get(name)
    if type(found) not in kinds:
        raise BadLine(f"its {name} is missing or has the wrong type", reason="bad_member")
    return found


def texts(value: Any, name: str) -> list[str]:
    """A list of texts.

    Raises:
        BadLine: it is none.
    """
    if type(value) is not list or any(type(each) is not str for each in value):
        raise BadLine(f"its {name} is not a list of names", reason="bad_member")
    return value


def tail_of(value: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The messages that a compaction carries itself, None when it carries none.

    Raises:
        BadLine: it is not a list of messages.
    """
    tail = value.get("retainedTail")
    if tail is None:
        return None
    if type(tail) is not list:
        raise BadLine("its retainedTail is not a list", reason="bad_member")
    for message in tail:
        role_kind(message)
    return tail
