"""Children of a run that nobody is living: ended with it where that is possible, named where not. Lives no child."""

from collections.abc import Callable

from clew.core.delegation import unjoined
from clew.core.folding import fold
from clew.core.state import RunState
from clew.errors import ClewError, NotFound
from clew.stores.base import RunStore


def end_children(state: RunState, end: Callable[[str], object]) -> dict[str, str]:
    """End each child that has not ended, before its parent ends. `end` is asked to end the run of an id.

    Returns:
        Those that could not be ended, in words.
    """
    left: dict[str, str] = {}
    for child in unjoined(state.delegations):
        try:
            end(child.child_id)
        except ClewError as fault:
            # Ended by itself, or never born.
            if fault.code not in ("run_already_finished", "unknown_run"):
                left[child.child_id] = f"child {child.child_id} could not be ended: {fault.message} [{fault.code}]"
    return left


def not_ended(store: RunStore, state: RunState) -> dict[str, str]:
    """Children whose journals do not say that they have ended, in words; nothing is touched."""
    left: dict[str, str] = {}
    for child in unjoined(state.delegations):
        try:
            grown = fold(store.read(child.child_id), child.child_id)
        except NotFound:
            continue
        except ClewError as fault:
            left[child.child_id] = f"child {child.child_id} cannot be read: {fault.message} [{fault.code}]"
            continue
        if not grown.ended:
            words = f"child {child.child_id} is {grown.state}; end it with `clew abort {child.child_id}`"
            left[child.child_id] = words
    return left
