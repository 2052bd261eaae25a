"""Plan, execute, verify, repair: one loop, owned outside of the run, which knows nothing of it."""

from clew.core.loops import LoopSnapshot
from clew.loop.machine import LoopConfig, LoopController, LoopEvent, Transition
from clew.loop.runner import Check, LoopResult, Round, loop

__all__ = [
    "Check",
    "LoopConfig",
    "LoopController",
    "LoopEvent",
    "LoopResult",
    "LoopSnapshot",
    "Round",
    "Transition",
    "loop",
]
