"""Events that only measure: what was compacted or kept in front. What a turn used belongs to `metrics`."""

from typing import Any

import msgspec

from clew.core.calls import Illegal
from clew.core.records import Record
from clew.core.state import RunState

Event = dict[str, Any]


def take_compaction(state: RunState, event: Event, record: Record, position: int) -> None:
    """A conversation was compacted."""
    summary = event.get("summaryFingerprint")
    if type(summary) is not str:
        raise Illegal("context_compacted has no summaryFingerprint")
    talk = state.metrics.talk
    state.metrics.talk = msgspec.structs.replace(talk, compactions=talk.compactions + 1, last_summary=summary)


def take_prefix(state: RunState, event: Event, record: Record, position: int) -> None:
    """The stable part in front of a prompt; each one is named once."""
    prefix = event.get("fingerprint")
    if type(prefix) is not str:
        raise Illegal("context_prefix has no fingerprint")
    talk = state.metrics.talk
    if prefix not in talk.prefixes:
        state.metrics.talk = msgspec.structs.replace(talk, prefixes=(*talk.prefixes, prefix))
