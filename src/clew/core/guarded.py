"""The walk of a call whose paths are kept: stage 4 before each start, and how the attempt left them. No driver."""

from collections.abc import Generator
from typing import Any, Final

from clew.core.effect import Walk
from clew.core.events import Event, effect_receipt
from clew.core.guarding import kept, left
from clew.core.needs import (
    Answered,
    Append,
    Call,
    Closing,
    End,
    Guard,
    Guarded,
    Interrupted,
    Look,
    Need,
    Outcome,
    ProbeFacts,
    Raised,
    Returned,
    Unguarded,
)

BUILT_IN: Final = ProbeFacts("checkpoint", 0.0, source="checkpoint")
"""The probe of a call that has a checkpoint and none of its own: the files themselves say whether it happened."""


class GuardedWalk(Walk):
    """A walk that starts nothing before its paths are kept. It changes what the plain one says, never what it decides.

    Source:
        DESIGN §5, stage 4, and §7; reference/journal.md §1, order inside an append; contract #134, #149.
    """

    def run(self) -> Generator[Need, Any, End]:
        """Walk to an end."""
        steps, sent = super().run(), None
        guarded: Guarded | None = None
        seen: list[Any] = []
        while True:
            try:
                need = steps.send(sent)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]  # what a walk ends with is an End
            if isinstance(need, Append) and need.starts:
                guarded = yield from self._guarded()
                if not isinstance(guarded, Guarded):
                    steps.close()
                    return (yield from self._unguarded(guarded, need.events[:-1]))
                self._ask_the_files(guarded)
                first = kept(self.call, self.attempt, guarded)
                need = Append((*need.events[:-1], first, need.events[-1]), starts=True)
            elif isinstance(need, Append) and seen:
                need, seen = _behind_receipt(need, seen), []
            sent = yield need
            if isinstance(need, Call):
                assert guarded is not None
                seen = yield from self._seen(sent, guarded)

    def _guarded(self) -> Generator[Need, Any, Any]:
        return (yield Guard(self.attempt))

    def _ask_the_files(self, guarded: Guarded) -> None:
        """Where nothing else can be asked: they prove it only of an effect that is nowhere else."""
        if self.probe is None and guarded.whole is None and self.call.capability.effect == "workspace":
            self.probe = BUILT_IN

    def _unguarded(self, said: Unguarded | None, proposal: tuple[Event, ...]) -> Generator[Need, Any, End]:
        """No checkpoint: the tool does not run. A refused path is the agent's answer, all else pauses the run."""
        self.attempt -= 1
        if said is None:
            return Closing("unknown_effect", "interrupted") if self.again else Interrupted()
        if self.again:
            return Closing("unknown_effect", said.message)
        if not said.refused:
            return Closing("checkpoint_failed", said.message)
        answer, told = self._error_answer("nothing_happened", said.message)
        first = [] if self.attempt else [effect_receipt(self.call, "not_started")]
        yield Append((*proposal, *first, *told))
        return Answered(answer)

    def _seen(self, outcome: Outcome, guarded: Guarded) -> Generator[Need, Any, list[Any]]:
        """How the attempt left the paths, once its body can change them no more.

        Of one that did nothing, nothing is said: whatever is not as before is somebody else's work.
        """
        if not isinstance(outcome, Returned | Raised) or (isinstance(outcome, Raised) and outcome.nothing_happened):
            return []
        looked = yield Look(self.attempt, guarded, isinstance(outcome, Raised))
        return [] if looked is None else [left(self.call, self.attempt, looked)]


def _behind_receipt(need: Append, seen: list[Any]) -> Append:
    """The same append with what was seen right behind the receipt of the attempt."""
    at = next(number for number, event in enumerate(need.events, 1) if "status" in event)
    return Append((*need.events[:at], *seen, *need.events[at:]))
