"""What an abort still lets into a journal: one rule, for what is to be written and for what is read. Ends nothing."""

from collections.abc import Sequence
from typing import Any, Final

from clew.core.events import KNOWN
from clew.core.state import RunState

Event = dict[str, Any]

STARTS: Final = frozenset({"tool_call", "capability_resolved", "agent_start", "agent_end"})
"""What would begin a call or a turn, or end the agent. Never dropped: who says it must hear so."""

KEPT: Final = frozenset(
    {
        "error", "control", "effect_review", "leg_ended", "quiescence_timeout", "restored", "text_delta",
        "approval_required", "extension_lifecycle", "loop_state",
    }
)  # fmt: skip
"""What says how the abort goes, or was only watched."""

_RECEIPTS: Final = ("effect_receipt", "tool_attempt")


def refuses(state: RunState, event: object) -> bool:
    """Does an event come too late for a run that is being aborted?

    Receipts and answers of calls that were recorded before are kept, and of children: they say what became of effects.
    What ends a turn, a step or the story of a call says nothing that is needed any more.

    Source:
        DESIGN §6, Abort; contract #95 to #100, I-10.
    """
    if type(event) is not dict or type(event.get("type")) is not str:
        return False
    kind = event["type"]
    if kind not in KNOWN or kind in KEPT or kind in STARTS:
        return False
    if kind == "step_output" or kind in _RECEIPTS:
        step = event.get("stepId")
        if type(step) is not str:
            return True
        return state.calls.get(step) is None and (kind in _RECEIPTS or state.delegations.get(step) is None)
    return True


def admitted(state: RunState, sayings: Sequence[Any]) -> tuple[list[Any], int]:
    """What may still be said while a run is being aborted, and how many events may not."""
    kept = [said for said in sayings if not (type(said) is dict and refuses(state, said))]
    return kept, len(sayings) - len(kept)
