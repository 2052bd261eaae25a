"""What a model may be sent of a conversation: every call with exactly one result. What is stored stays as it is."""

import re
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from clew.core.canon import joined
from clew.core.session.calls import calls_in
from clew.core.session.values import Projection, Repair, Said

Message = dict[str, Any]

OUTCOME_UNKNOWN: Final = (
    "The outcome of this call is unknown: it was interrupted before its result was recorded. It may have taken effect, "
    "wholly or in part, or not at all. Do not assume either; find out before doing it again."
)
_SIGNATURES: Final = ("textSignature", "thinkingSignature", "thoughtSignature", "signature")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def project(said: Sequence[Said]) -> Projection:
    """Make of the messages of a view what a provider accepts.

    The results of an assistant's message stand directly behind it, in the order of its calls. A call without a result
    gets one that says that its outcome is unknown. A result whose call is not there, and every further result of a
    call, is left out. Lone surrogates become U+FFFD, but never in a signature. What the user kept from the model is
    left out.

    Source:
        DESIGN §8; reference/sessions.md §8, rows 14, 16 and 17; C01, C06, C09, C10.
    """
    messages = [each.message for each in said]
    pairing = _Pairing(messages)
    out: list[Message] = []
    repairs = [Repair("result_dropped", messages[at]["toolCallId"], at) for at in pairing.dropped]
    for at, message in enumerate(messages):
        if message["role"] == "toolResult" or message.get("excludeFromContext") is True:
            continue
        out.append(message)
        last = at
        for slot in pairing.slots.get(at, ()):
            if slot.result is None:
                repairs.append(Repair("call_interrupted", slot.call_id, len(out)))
                out.append(_interrupted(slot, message))
                continue
            if slot.result < last or pairing.apart(at, slot.result):
                repairs.append(Repair("result_moved", slot.call_id, len(out)))
            last = max(last, slot.result)
            out.append(messages[slot.result])
    return _clean(out, repairs)


class _Slot:
    """One call, and the message that is its result."""

    __slots__ = ("call_id", "result", "tool")

    def __init__(self, call_id: str, tool: str) -> None:
        self.call_id = call_id
        self.tool = tool
        self.result: int | None = None


class _Pairing:
    """Which result belongs to which call: the first one behind it, up to the next call of that id."""

    def __init__(self, messages: list[Message]) -> None:
        self.slots: dict[int, list[_Slot]] = {}
        self.dropped: list[int] = []
        self._others = list(accumulate((each["role"] != "toolResult" for each in messages), initial=0))
        waiting: dict[str, deque[_Slot]] = {}
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                self._call(message, at, waiting)
            elif message["role"] == "toolResult":
                self._answer(message, at, waiting)

    def _call(self, message: Message, at: int, waiting: dict[str, deque[_Slot]]) -> None:
        slots = [_Slot(call_id, tool) for call_id, tool in calls_in(message)]
        if slots:
            self.slots[at] = slots
        waiting.update((slot.call_id, deque()) for slot in slots)
        for slot in slots:
            waiting[slot.call_id].append(slot)

    def _answer(self, message: Message, at: int, waiting: dict[str, deque[_Slot]]) -> None:
        slots = waiting.get(message["toolCallId"])
        if slots:
            slots.popleft().result = at
        else:
            self.dropped.append(at)

    def apart(self, at: int, result: int) -> bool:
        """Does anything but results stand between a message and a result?"""
        return bool(self._others[result] != self._others[at + 1])


def _interrupted(slot: _Slot, call: Message) -> Message:
    found: Message = {"role": "toolResult", "toolCallId": slot.call_id, "toolName": slot.tool}
    found |= {"content": [{"type": "text", "text": OUTCOME_UNKNOWN}], "isError": True}
    return {**found, "timestamp": call.get("timestamp")}


def _clean(messages: list[Message], repairs: list[Repair]) -> Projection:
    out = []
    for at, message in enumerate(messages):
        clean = _replaced(message)
        if clean is not message:
            repairs.append(Repair("surrogate_replaced", None, at))
        out.append(clean)
    return Projection(tuple(out), tuple(repairs))


def _replaced(value: Any) -> Any:
    """The value without lone surrogates: itself when it has none."""
    kind = type(value)
    if kind is str:
        if value.isascii() or not _SURROGATE.search(value):
            return value
        return _SURROGATE.sub("\ufffd", joined(value))
    if kind is dict:
        new = {_replaced(key): item if key in _SIGNATURES else _replaced(item) for key, item in value.items()}
        changed = [key for key, item in value.items() if new.get(key, value) is not item]
        return new if changed else value
    if kind is list:
        items = [_replaced(item) for item in value]
        return value if all(was is now for was, now in zip(value, items, strict=True)) else items
    return value
