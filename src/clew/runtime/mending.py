"""How a session is read by who will write it: as the device has it, its end made clean where it is one of ours."""

from clew.core.codec import MAX_APPEND
from clew.core.session.reading import SessionReader
from clew.core.session.state import SessionState
from clew.core.session.torn import is_torn
from clew.errors import Corrupt
from clew.stores.base import SessionWriter

_ENDS = 64


def read_mended(writer: SessionWriter) -> tuple[SessionReader, SessionState]:
    """Read a session; what a lost append left at its end is kept beside it and cut, then it is read again.

    Returns:
        The reader, which goes on with what is appended, and its state.

    Raises:
        Corrupt: `session_corrupt` when it is damaged otherwise; nothing was changed then. Refused, Storage.

    Source:
        reference/sessions.md §7.
    """
    while True:
        reader = SessionReader(expect=writer.session_id)
        try:
            for piece in writer.read():
                reader.feed(piece)
            state = reader.finish()
        except Corrupt as damage:
            if not _lost(writer, reader.state, damage):
                raise
            writer.cut(damage.facts["byte"])
            continue
        if state.format != "v4a" or state.ending == "clean":
            return reader, state
        if state.ending == "torn":
            writer.cut(state.size)
        else:
            # Before anything else: put behind it together with the next line, it could be lost alone.
            writer.append(b"\n")


def _lost(writer: SessionWriter, state: SessionState | None, damage: Corrupt) -> bool:
    """Is the damage what a last append leaves that nobody acknowledged?"""
    if state is None or state.format != "v4a" or damage.code != "session_corrupt":
        return False
    at = damage.facts["byte"]
    tail = b"".join(writer.read(at, at + MAX_APPEND + 1))
    last = b"".join(writer.read(max(0, at - _ENDS), at)).rstrip(b"\n")
    return is_torn(tail, at_byte=at, next_seq=state.sequence + 1, last=last)
