"""Which line may come next in a v4a session: the same judgement before it is written and when it is read."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from clew.core.session.lines import BadLine, shown
from clew.core.session.old import NoneType, check_replacement
from clew.core.session.state import CONTEXT_EDIT, need, role_kind, tail_of, texts
from clew.core.session.sums import check_usage
from clew.core.session.tree import Kind

RECORDS: Final = (
    "operation_started", "abort_requested", "operation_finished", "step_attempt", "tool_started", "queue_enqueued",
    "queue_cancelled", "write_deferred", "usage",
)  # fmt: skip
_INTENTS: Final = ("run", "compaction", "navigation")
_OUTCOMES: Final = ("completed", "aborted", "failed", "declined")
_WHOLE: Final = 2**53


class Ledger(Protocol):
    """What of a session the next line is judged by."""

    @property
    def sequence(self) -> int:
        """Of the last line."""
        ...

    def leaf(self, lane: str) -> str | None:
        """The entry that a lane stands at. `KeyError` when there is no such lane."""
        ...

    def has(self, entry_id: str) -> bool:
        """Is there such an entry?"""
        ...

    def taken(self, name: str) -> bool:
        """Does an entry or a record have this id?"""
        ...

    def operation(self, lane: str) -> str | None:
        """The operation that is open on a lane."""
        ...


def check_line(value: Any, ledger: Ledger) -> None:
    """Return when a line may come next.

    Raises:
        BadLine: it may not; it is said why.

    Source:
        reference/sessions.md §6.1.
    """
    if type(value) is not dict:
        raise BadLine("it is not an object")
    sequence = need(value, "seq", int)
    if sequence != ledger.sequence + 1:
        raise BadLine(f"its seq is {sequence}, not {ledger.sequence + 1}", reason="bad_sequence")
    kind = need(value, "kind", str)
    if kind not in _KINDS:
        raise BadLine(f"its kind {shown(kind)} is not known", reason="unknown_kind", ids=(kind,))
    _KINDS[kind](value, ledger)


def _free(value: dict[str, Any], ledger: Ledger) -> None:
    name = need(value, "id", str)
    if not name or ledger.taken(name):
        raise BadLine(f"the id {shown(name)} is taken already", reason="duplicate_id", ids=(name,))


def _moment(value: dict[str, Any]) -> None:
    if not 0 <= need(value, "timestamp", int) < _WHOLE:
        raise BadLine("its timestamp is no number of milliseconds", reason="bad_member")


def _known(name: str | None, ledger: Ledger, what: str) -> None:
    if name is not None and not ledger.has(name):
        raise BadLine(f"its {what} {shown(name)} does not stand before it", reason="target_missing", ids=(name,))


def _lane(value: dict[str, Any], ledger: Ledger) -> str | None:
    """The leaf of the lane that a line is on."""
    name = need(value, "lane", str)
    try:
        return ledger.leaf(name)
    except KeyError:
        raise BadLine(f"there is no lane {shown(name)}", reason="target_missing", ids=(name,)) from None


def _entry(value: dict[str, Any], ledger: Ledger) -> None:
    _free(value, ledger)
    name = value["id"]
    if "parentId" not in value:
        raise BadLine("its parentId is missing", reason="bad_member")
    parent = need(value, "parentId", str, NoneType)
    if parent == name:
        raise BadLine(f"{shown(name)} is its own parent", reason="parent_cycle", ids=(name,))
    if parent is not None and not ledger.has(parent):
        raise BadLine(
            f"its parent {shown(parent)} does not stand before it", reason="parent_missing", ids=(name, parent)
        )
    if "lane" in value and _lane(value, ledger) != parent:
        raise BadLine("its parent is not the leaf of its lane", reason="not_at_leaf", ids=(name,))
    _moment(value)
    entry_kind(value)


def entry_kind(value: dict[str, Any]) -> Kind:
    """What kind an entry of v4 is.

    Raises:
        BadLine: its type is not known, or it lacks what that type must have.
    """
    name = need(value, "type", str)
    if name not in _TYPES:
        raise BadLine(f"its type {shown(name)} is not known", reason="unknown_type", ids=(name,))
    return _TYPES[name](value)


def _message(value: dict[str, Any]) -> Kind:
    return role_kind(value.get("message"))


def _model(value: dict[str, Any]) -> Kind:
    need(value, "provider", str)
    need(value, "modelId", str)
    return Kind.MODEL


def _level(value: dict[str, Any]) -> Kind:
    need(value, "thinkingLevel", str)
    return Kind.LEVEL


def _tools(value: dict[str, Any]) -> Kind:
    texts(value.get("activeToolNames"), "activeToolNames")
    return Kind.TOOLS


def _compaction(value: dict[str, Any]) -> Kind:
    need(value, "summary", str)
    if tail_of(value) is None:
        raise BadLine("its retainedTail is missing", reason="bad_member")
    _system(value)
    return Kind.COMPACTION


def _system(value: dict[str, Any]) -> None:
    if value.get("systemMessage") is not None:
        role_kind(value["systemMessage"])


def _branch_summary(value: dict[str, Any]) -> Kind:
    need(value, "summary", str)
    need(value, "fromId", str, NoneType)
    return Kind.BRANCH_SUMMARY


def _custom(value: dict[str, Any]) -> Kind:
    name = need(value, "customType", str)
    if name == CONTEXT_EDIT:
        data = need(value, "data", dict)
        need(data, "targetId", str)
        check_replacement(data)
        return Kind.EDIT
    if name in _COMPANIONS:
        _COMPANIONS[name](need(value, "data", dict))
        return Kind.COMPANION
    return Kind.CUSTOM


def _beside_compaction(data: dict[str, Any]) -> None:
    need(data, "compactionId", str)
    texts(data.get("kept"), "kept")
    texts(data.get("edits"), "edits")
    _system(data)


def _beside_branch_summary(data: dict[str, Any]) -> None:
    need(data, "branchSummaryId", str)


def _record(value: dict[str, Any], ledger: Ledger) -> None:
    _free(value, ledger)
    _lane(value, ledger)
    _moment(value)
    name = need(value, "type", str)
    if name not in RECORDS:
        raise BadLine(f"its type {shown(name)} is not known", reason="unknown_type", ids=(name,))
    if (check := _RECORD_RULES.get(name)) is not None:
        check(value, ledger)


def _started(value: dict[str, Any], ledger: Ledger) -> None:
    if need(need(value, "intent", dict), "kind", str) not in _INTENTS:
        raise BadLine("the kind of its intent is not known", reason="bad_member")
    other = ledger.operation(value["lane"])
    if other is not None:
        raise BadLine(f"the operation {shown(other)} is still open on this lane", reason="operation_open", ids=(other,))


def _finished(value: dict[str, Any], ledger: Ledger) -> None:
    run_id = need(value, "runId", str)
    if ledger.operation(value["lane"]) != run_id:
        raise BadLine(f"the operation {shown(run_id)} is not open on this lane", reason="operation_open", ids=(run_id,))
    if value.get("outcome") not in _OUTCOMES:
        raise BadLine("its outcome is not known", reason="bad_member")


def _tool(value: dict[str, Any], _ledger: Ledger) -> None:
    for name in ("runId", "assistantEntryId", "toolCallId", "toolName", "resultEntryId"):
        need(value, name, str)
    if value.get("replay") not in ("never", "safe"):
        raise BadLine("its replay is neither never nor safe", reason="bad_member")


def _usage(value: dict[str, Any], _ledger: Ledger) -> None:
    check_usage(value.get("usage"))


def _move(value: dict[str, Any], ledger: Ledger) -> None:
    need(value, "lane", str)
    if "leafId" not in value:
        raise BadLine("its leafId is missing", reason="bad_member")
    _known(need(value, "leafId", str, NoneType), ledger, "leaf")


def _fact(value: dict[str, Any], ledger: Ledger) -> None:
    match need(value, "fact", str):
        case "name":
            need(value, "name", str, NoneType)
        case "label":
            _known(need(value, "targetId", str), ledger, "target")
            need(value, "label", str, NoneType)
        case other:
            raise BadLine(f"its fact {shown(other)} is not known", reason="unknown_kind", ids=(other,))


_KINDS: Final[dict[str, Callable[[dict[str, Any], Ledger], None]]] = {
    "entry": _entry,
    "record": _record,
    "lane": _move,
    "fact": _fact,
}
_TYPES: Final[dict[str, Callable[[dict[str, Any]], Kind]]] = {
    "message": _message,
    "model_change": _model,
    "thinking_level_change": _level,
    "active_tools_change": _tools,
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "custom": _custom,
}
_COMPANIONS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "clew.compaction": _beside_compaction,
    "clew.branch_summary": _beside_branch_summary,
}
_RECORD_RULES: Final[dict[str, Callable[[dict[str, Any], Ledger], None]]] = {
    "operation_started": _started,
    "operation_finished": _finished,
    "tool_started": _tool,
    "usage": _usage,
}
