"""Transcripts of other programs, read only: Claude Code, Codex. Calls, results, usage are found, nothing is mended."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from clew.core.session.lines import BOM, BadLine, Lines, damaged, exact, fused_at
from clew.core.session.values import CallFound, Remark
from clew.core.usage import Usage, UsageCount
from clew.errors import Corrupt, Refused

Program = Literal["claude-code", "codex"]

_CLAUDE: Final = ("uuid", "sessionId", "messageId", "leafUuid")
_OUTPUT: Final = "_output"
_TOLD: Final = 200
_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class Transcript(msgspec.Struct, frozen=True, rename="camel"):
    """What was found in a transcript.

    Attributes:
        lines: How many there are.
        kinds: How many of each kind, in the order in which they first came; unknown ones are kept as they are named.
        orphan_calls: Calls without a result: whether they took effect is unknown.
        double_results: Calls with more than one result.
        stray_results: Results without a call.
        aborted_turns: Where a turn was broken off.
        usage: Each message counted once, however often it was repeated.
        repeated_usage: Reports of a message that was counted before; `repeats` says where the first of them stand.
    """

    program: Program
    lines: int
    kinds: dict[str, int]
    orphan_calls: tuple[CallFound, ...]
    double_results: tuple[CallFound, ...]
    stray_results: tuple[CallFound, ...]
    aborted_turns: tuple[Remark, ...]
    usage: Usage
    repeated_usage: int
    repeats: tuple[Remark, ...]
    warnings: tuple[Remark, ...]


def recognise(line: bytes) -> Program | None:
    """Whose transcript begins with this line; None when it is nobody's that is known."""
    try:
        value = exact(line.removeprefix(BOM))
    except BadLine:
        return None
    if type(value) is not dict or type(value.get("type")) is not str:
        return None
    if type(value.get("payload")) is dict and "timestamp" in value:
        return "codex"
    return "claude-code" if any(type(value.get(name)) is str for name in _CLAUDE) else None


class _Call:
    __slots__ = ("byte", "call_id", "entry_id", "line", "results", "tool")

    def __init__(self, call_id: str, tool: str, entry_id: str, line: int, byte: int) -> None:
        self.call_id = call_id
        self.tool = tool
        self.entry_id = entry_id
        self.line = line
        self.byte = byte
        self.results: list[int] = []


class TranscriptReader:
    """Reads one transcript, piece by piece. Lives for one pass."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._program: Program | None = None
        self._kinds: Counter[str] = Counter()
        self._calls: dict[tuple[str, str], _Call] = {}
        self._results: dict[tuple[str, str], list[CallFound]] = {}
        self._aborted: list[Remark] = []
        self._usage = UsageCount()
        self._totals: list[Usage] = []
        self._repeats: list[Remark] = []
        self._warnings: list[Remark] = []

    def feed(self, piece: bytes) -> None:
        """Read on.

        Raises:
            Corrupt: `session_corrupt` at the first line that is not an object of strict JSON, with line and byte.
            Refused: `session_unsupported` when it begins like none that is known.
        """
        for line in self._lines.feed(piece):
            self._take(line, self._lines.number + 1, self._lines.byte)

    def _take(self, line: bytes, number: int, byte: int) -> None:
        if self._program is None:
            self._program = recognise(line)
            if self._program is None:
                raise _unknown(line)
        try:
            value = exact(line.removeprefix(BOM) if number == 1 else line)
            if type(value) is not dict:
                raise BadLine("it is not an object")
        except BadLine as error:
            raise damaged(error, number, byte) from None
        self._kinds[_kind(value)] += 1
        found = self._codex if self._program == "codex" else self._claude
        found(value, number, byte)

    def finish(self) -> Transcript:
        """The file has ended; a last line that is only a part is said to be torn.

        Raises:
            Corrupt, Refused: as `feed`.
        """
        number, byte, rest = self._lines.number + 1, self._lines.byte, self._lines.rest
        if rest:
            self._last(rest, number, byte)
        if self._program is None:
            raise _unknown(rest)
        return Transcript(
            program=self._program,
            lines=sum(self._kinds.values()),
            kinds=dict(self._kinds),
            orphan_calls=tuple(self._orphans()),
            double_results=tuple(self._doubles()),
            stray_results=tuple(self._strays()),
            aborted_turns=tuple(self._aborted),
            usage=self._used(),
            repeated_usage=self._usage.repeats,
            repeats=tuple(self._repeats),
            warnings=tuple(self._warnings),
        )

    def _last(self, rest: bytes, number: int, byte: int) -> None:
        try:
            exact(rest)
        except BadLine as error:
            if self._program is None or fused_at(rest.decode(errors="replace")) is not None:
                raise damaged(error, number, byte) from None
            self._warnings.append(Remark("torn", f"the last {len(rest)} bytes are a part of a line", number, byte))
            return
        self._take(rest, number, byte)
        self._warnings.append(Remark("unterminated", "the last line is whole, but nothing ends it", number, byte))

    # --- Claude Code ---

    def _claude(self, value: dict[str, Any], line: int, byte: int) -> None:
        message = value.get("message")
        if type(message) is not dict:
            return
        name = str(value.get("uuid", ""))
        for block in _blocks(message.get("content")):
            if block.get("type") == "tool_use":
                self._call("", block.get("id"), str(block.get("name")), name, line, byte)
            elif block.get("type") == "tool_result":
                self._result("", block.get("tool_use_id"), name, line, byte)
        usage = message.get("usage")
        if value.get("type") == "assistant":
            message_id = message.get("id")
            before = self._usage.repeats
            self._usage.add(
                _claude_usage(usage) if type(usage) is dict else None,
                message_id=message_id if type(message_id) is str else None,
            )
            if self._usage.repeats > before and len(self._repeats) < _TOLD:
                text = "the usage of this message was reported before"
                self._repeats.append(Remark("repeated_usage", text, line, byte, (str(message_id),)))

    # --- Codex ---

    def _codex(self, value: dict[str, Any], line: int, byte: int) -> None:
        payload = value.get("payload")
        if type(payload) is not dict:
            return
        kind = str(payload.get("type"))
        if value.get("type") == "response_item":
            if kind.endswith(_OUTPUT):
                self._result(kind.removesuffix(_OUTPUT), payload.get("call_id"), "", line, byte)
            elif kind.endswith("_call"):
                self._call(
                    kind.removesuffix("_call"), payload.get("call_id"), str(payload.get("name", kind)), "", line, byte
                )
        elif kind == "turn_aborted":
            self._aborted.append(Remark("turn_aborted", str(payload.get("reason")), line, byte))
        elif kind == "token_count" and type(payload.get("info")) is dict:
            total = payload["info"].get("total_token_usage")
            if type(total) is dict:
                self._count(_codex_usage(total))

    def _count(self, total: Usage) -> None:
        """A sum of a whole session so far; one that falls is that of another session."""
        if self._totals and (total.tokens or 0) >= (self._totals[-1].tokens or 0):
            self._totals.pop()
        self._totals.append(total)

    # --- both ---

    def _used(self) -> Usage:
        for total in self._totals:
            self._usage.add(total)
        return self._usage.usage

    def _call(self, kind: str, call_id: Any, tool: str, entry_id: str, line: int, byte: int) -> None:
        """A call; one that a resumed transcript repeats is the same call."""
        if type(call_id) is str:
            self._calls.setdefault((kind, call_id), _Call(call_id, tool, entry_id, line, byte))

    def _result(self, kind: str, call_id: Any, entry_id: str, line: int, byte: int) -> None:
        if type(call_id) is str:
            found = CallFound(call_id, "", entry_id, line, byte)
            self._results.setdefault((kind.removesuffix("_call"), call_id), []).append(found)

    def _orphans(self) -> Iterator[CallFound]:
        for key, call in self._calls.items():
            if key not in self._results:
                yield CallFound(call.call_id, call.tool, call.entry_id, call.line, call.byte, "it has no result")

    def _doubles(self) -> Iterator[CallFound]:
        for key, results in self._results.items():
            if key in self._calls and len(results) > 1:
                lines = ", ".join(str(each.line) for each in results)
                call, last = self._calls[key], results[-1]
                why = f"it has {len(results)} results, at lines {lines}"
                yield CallFound(call.call_id, call.tool, last.entry_id, last.line, last.byte, why)

    def _strays(self) -> Iterator[CallFound]:
        for key, results in self._results.items():
            if key not in self._calls:
                yield from (msgspec.structs.replace(each, why="its call is not there") for each in results)


def _unknown(line: bytes) -> Corrupt | Refused:
    if not line:
        return damaged(BadLine("it is empty", reason="no_header"), 1, 0)
    return Refused(
        "the file begins like no transcript that is known",
        code="session_unsupported",
        next="Nothing was touched. Claude Code transcripts and Codex rollouts can be read, and sessions v1 to v4.",
        version=None,
    )


def _kind(value: dict[str, Any]) -> str:
    """A line's own type, and that of its payload."""
    payload = value.get("payload")
    inner = payload.get("type") if type(payload) is dict else None
    return f"{value.get('type')}/{inner}" if type(inner) is str else str(value.get("type"))


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [block for block in content if type(block) is dict] if type(content) is list else []


def _claude_usage(usage: dict[str, Any]) -> Usage:
    return Usage.from_anthropic(**{name: _whole(usage.get(name)) for name in _COUNTS})


def _codex_usage(total: dict[str, Any]) -> Usage:
    return Usage.from_openai(
        prompt_tokens=_whole(total.get("input_tokens")),
        completion_tokens=_whole(total.get("output_tokens")),
        cached_tokens=_whole(total.get("cached_input_tokens")),
    )


def _whole(count: Any) -> int | None:
    return count if type(count) is int else None


def read_transcript(data: bytes) -> Transcript:
    """A whole transcript that is in memory.

    Raises:
        as `TranscriptReader`.
    """
    reader = TranscriptReader()
    reader.feed(data)
    return reader.finish()
