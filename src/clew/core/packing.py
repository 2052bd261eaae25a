"""Calls that are over, in about a hundred bytes each: a long run has many of them and rarely looks at one again."""

from typing import Any, Final

import msgspec

from clew.core.book import Book
from clew.core.calls import AnswerRef, CallState
from clew.core.capability import Capability

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode

_capabilities: list[Capability] = []
_numbers: dict[Capability, int] = {}


class CallBook(Book[CallState]):
    """The calls of one run by step id, in the order in which they came.

    `rest` packs a call that is over; whoever asks for it gets it back as it was.

    Source:
        DESIGN §6: "The fold keeps ≤ 300 bytes a call and offsets".
    """

    __slots__ = ("_run_id",)

    def __init__(self, run_id: str, beneath: "CallBook | None" = None) -> None:
        super().__init__(beneath)
        self._run_id = run_id

    def get(self, name: str) -> CallState | None:
        """The call of this step, or None."""
        entry: Any = self._page.get(name) or super().get(name)
        return unpack(self._run_id, name, entry) if type(entry) is bytes else entry

    def fork(self) -> "CallBook":
        """A page on top of this book."""
        return CallBook(self._run_id, self)

    def rest(self, call: CallState) -> None:
        """Nothing more is expected of this call."""
        packed: Any = pack(self._run_id, call)
        if packed is not None:
            self._page[call.step_id] = packed


def pack(run_id: str, call: CallState) -> bytes | None:
    """A call with its answer and nothing unusual about it; None for any other, which stays as it is."""
    answer, capability = call.answer, call.capability
    if answer is None or capability is None or call.review is not None:
        return None
    number = _numbers.get(capability)
    if number is None:
        # First in the list, then its number: two threads may each add the same one, and the first of them counts.
        _capabilities.append(capability)
        number = _numbers[capability] = _capabilities.index(capability)
    try:
        asked = bytes.fromhex(call.fingerprint)
        if asked.hex() != call.fingerprint or call.key != f"{run_id}:{call.step_id}:{call.call_id}":
            return None
        return _encode(
            (
                call.call_id, call.tool, call.turn_id, asked, call.position, number, call.attempt,
                call.status, call.started_ms, call.since_ms, call.persistence,
                answer.position, answer.is_error, answer.blob,
            )
        )  # fmt: skip
    except ValueError:
        # No digits, or a text that is not UTF-8.
        return None


def unpack(run_id: str, step_id: str, packed: bytes) -> CallState:
    """The call as it was."""
    (
        call_id, tool, turn_id, asked, position, number, attempt,
        status, started_ms, since_ms, persistence, *answer,
    ) = _decode(packed)  # fmt: skip
    return CallState(
        step_id=step_id,
        call_id=call_id,
        key=f"{run_id}:{step_id}:{call_id}",
        tool=tool,
        turn_id=turn_id,
        fingerprint=asked.hex(),
        position=position,
        capability=_capabilities[number],
        attempt=attempt,
        status=status,
        started_ms=started_ms,
        since_ms=since_ms,
        answer=AnswerRef(*answer),
        persistence=persistence,
    )
