"""A session from its bytes: lines, one after the other, to a state. Nothing is sorted, skipped or mended on the way."""

from collections.abc import Callable
from typing import Final

from clew.core.session.dialects import Header, detect, no_header
from clew.core.session.lines import BOM, BadLine, Lines, damaged, exact, fused_at, shown
from clew.core.session.new import V4aReader, V4bReader
from clew.core.session.old import OldReader, Unparented
from clew.core.session.state import Place, SessionState

_Reader = OldReader | V4aReader | V4bReader
_READERS: Final[dict[str, Callable[[SessionState], _Reader]]] = {"v4a": V4aReader, "v4b": V4bReader}


def reader_of(state: SessionState) -> OldReader | V4aReader | V4bReader:
    """What reads the lines of a session of this format into its state."""
    return _READERS.get(state.format, OldReader)(state)


class SessionReader:
    """Reads one session, piece by piece. Lives for one pass, or for as long as its writer appends.

    After an exception it must not be fed any more.

    Args:
        expect: The id that its header must have, where that is known.
    """

    def __init__(self, *, expect: str | None = None) -> None:
        self._expect = expect
        self._lines = Lines()
        self._state: SessionState | None = None
        self._reader: _Reader | None = None

    @property
    def state(self) -> SessionState | None:
        """What is known so far; None before the header."""
        return self._state

    def feed(self, piece: bytes) -> None:
        """Read on.

        Raises:
            Corrupt: `session_corrupt` at the first line that cannot stand where it stands; facts `line`, `byte`,
                `why`, `reason` and `ids`.
            Refused: `session_unsupported` when the first line is no header that is known.

        Source:
            reference/sessions.md §4, §6, §8.
        """
        for line in self._lines.feed(piece):
            self._take(line, self._lines.number + 1, self._lines.byte, len(line) + 1)

    def _take(self, line: bytes, number: int, byte: int, size: int) -> None:
        if self._state is None or self._reader is None:
            self._begin(detect(line), size)
            return
        try:
            self._reader.take(exact(line), Place(number, byte, len(line)))
        except BadLine as error:
            raise damaged(error, number, byte, session_id=self._state.id) from None
        self._state.size = byte + size

    def _begin(self, header: Header, size: int) -> None:
        if self._expect is not None and header.id != self._expect:
            raise damaged(
                BadLine(
                    f"its header is that of session {shown(header.id)}", reason="another_session", ids=(header.id,)
                ),
                1, 0, session_id=self._expect,
            )  # fmt: skip
        self._state = SessionState(header)
        self._state.size = self._state.header_size = size
        if header.byte_order_mark:
            self._state.remark("byte_order_mark", "a byte order mark stands before the header", Place(1, 0, 0))
        self._reader = reader_of(self._state)

    def finish(self) -> SessionState:
        """The file has ended.

        What stands behind the last LF is kept when it is a whole record, and said to be torn when it is none.

        Raises:
            Corrupt: as `feed`; also for an empty file, one with a part of a header, and parents that are not there.

        Source:
            reference/sessions.md §7.
        """
        rest = self._lines.rest
        if self._state is not None and rest:
            self._end(self._state, rest)
        elif self._state is None:
            self._lone_header(rest)
        assert self._state is not None, "a header was read, or its lack was refused"
        self._settle(self._state)
        return self._state

    def _lone_header(self, rest: bytes) -> None:
        try:
            exact(rest.removeprefix(BOM))
        except BadLine:
            raise no_header(rest) from None
        self._begin(detect(rest), len(rest))
        self._unterminated(1, 0)

    def _unterminated(self, number: int, byte: int) -> None:
        assert self._state is not None, "a line was read"
        self._state.ending = "unterminated"
        self._state.remark("unterminated", "the last line is whole, but nothing ends it", Place(number, byte, 0))

    def _end(self, state: SessionState, rest: bytes) -> None:
        number, byte = self._lines.number + 1, self._lines.byte
        try:
            exact(rest)
        except BadLine as error:
            if fused_at(rest.decode(errors="replace")) is not None:
                raise damaged(error, number, byte, session_id=state.id) from None
            state.ending, state.torn_bytes = "torn", len(rest)
            state.remark(
                "torn", f"the last {len(rest)} bytes are a part of a line: {error.why}", Place(number, byte, 0)
            )
            return
        self._take(rest, number, byte, len(rest))
        self._unterminated(number, byte)

    def _settle(self, state: SessionState) -> None:
        assert self._reader is not None, "a state has a reader"
        try:
            self._reader.finish()
        except Unparented as found:
            tree = state.tree
            raise damaged(found.error, tree.lines[found.node], tree.offsets[found.node], session_id=state.id) from None


def read_session(data: bytes, *, expect: str | None = None) -> SessionState:
    """A whole session that is in memory: one that is small, or a test's.

    Raises:
        as `SessionReader`.
    """
    reader = SessionReader(expect=expect)
    reader.feed(data)
    return reader.finish()
