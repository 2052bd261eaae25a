"""The end of what a run still does when it is aborted: its processes, its bodies in threads. Records nothing."""

from collections.abc import Callable
from typing import Final

from clew.core.redact import Redactor
from clew.core.state import RunState
from clew.runtime.clock import Clock
from clew.runtime.living import running_here
from clew.stores.base import Processes

PATIENCE_S: Final = 5.0
"""So long an abort waits for what does not end at once; then it is named, and its effect stays unknown."""
_NAP_S: Final = 0.02


def still(
    processes: Processes, state: RunState, redactor: Redactor | None = None,
    wait: Callable[[], object] = lambda: None,
) -> dict[str, str]:  # fmt: skip
    """End the run's processes; blocks some seconds at the most. Who calls has `aborting` on the disk.

    Args:
        processes: Those of this machine.
        state: The run, with all of its legs.
        redactor: Hides what must not be told.
        wait: Lets bodies in threads come back, which nobody can end; called when the processes are.

    Returns:
        What goes on all the same, by attempt `key#attempt` and in words: processes, and bodies in this process.

    Source:
        DESIGN §6, Abort; cases C44, C45.
    """
    left = processes.end(state.run_id, [leg.nonce for leg in state.legs])
    wait()
    # What carries the run's mark and no proof is not ours to end, for another home may have a run of this id.
    found = {**processes.living(state.run_id), **left}
    hide = redactor or Redactor()
    return {mark: hide.text(words) for mark, words in found.items()} | bodies_of(state.run_id)


def bodies_of(run_id: str) -> dict[str, str]:
    """The attempts of a run whose bodies run in this process."""
    return {mark: words for mark, words in running_here().items() if mark.startswith(f"{run_id}:")}


def outlast(goes_on: Callable[[], object], clock: Clock, hurried: Callable[[], bool] = lambda: False) -> None:
    """Wait until nothing goes on any more, for a while; `hurried` cuts it short. Blocks."""
    until_s = clock.monotonic_s() + PATIENCE_S
    while goes_on() and clock.monotonic_s() < until_s:
        if clock.sleep(_NAP_S, hurried):
            return
