"""Which recorded call or turn a running agent means: matched by path, name, fingerprint and number among equals."""

from collections import defaultdict, deque

from clew.core import approvals
from clew.core.calls import CallState
from clew.core.state import ApprovalState, RunState, TurnState
from clew.errors import Refused


class Claims:
    """What was recorded before this leg and has not been asked for again yet. Shrinks as the agent replays."""

    def __init__(self, state: RunState) -> None:
        self._calls: dict[tuple[str, str], deque[CallState]] = defaultdict(deque)
        for call in state.calls.values():
            self._calls[call.path, call.tool].append(call)
        self._untold: list[CallState] = []
        self._asked = list(approvals.unrecorded(state))
        self._passed: set[tuple[str, str]] = set()
        self._turns = [turn for turn in state.turns.values() if turn.answer is not None or not turn.ended]
        self._failed = [turn for turn in state.turns.values() if turn.answer is None and turn.ended]

    def call(self, path: str, tool: str, fingerprint: str) -> CallState | None:
        """The recorded call that is meant, or None for a new one.

        Raises:
            Refused: `resume_divergence` when another call of this tool is recorded here and was not asked for yet.
        """
        waiting = self._calls.get((path, tool))
        if not waiting and not self._untold:
            return None
        waiting = waiting or deque()
        asked = (path, tool, fingerprint)
        for pool in (waiting, self._untold):
            for call in pool:
                if (call.path, call.tool, call.fingerprint) == asked:
                    pool.remove(call)
                    return call
        if not waiting or any(asked == (*_where(held), held.fingerprint) for held in self._asked):
            return None
        first = waiting[0]
        raise _diverged(
            f"the agent calls {tool!r} with arguments {fingerprint[:12]}, but {first.step_id!r} with arguments "
            f"{first.fingerprint[:12]} is recorded here and was not asked for again",
            recorded=first.step_id,
            tool=tool,
        )

    def asked_for(self, path: str, tool: str, fingerprint: str) -> ApprovalState | None:
        """The approval that was asked for this call before it is recorded; None where there is none."""
        if not self._asked:
            return None
        for held in self._asked:
            if (*_where(held), held.fingerprint) == (path, tool, fingerprint):
                self._asked.remove(held)
                return held
        self._passed.add((path, tool))
        return None

    def ask_again(self, asked: ApprovalState) -> None:
        """The agent was cancelled while a person was asked: when it asks for the same again, this question is meant."""
        self._asked.append(asked)

    def unasked(self, *, everywhere: bool) -> list[ApprovalState]:
        """Approvals that were not asked for again; unless `everywhere`, where something else was asked for instead."""
        return [held for held in self._asked if everywhere or _where(held) in self._passed]

    def give_back(self, call: CallState) -> None:
        """The agent was cancelled before it heard the answer: when it asks for the same again, this call is meant.

        Else a retry behind a timeout of the agent's own would be a second effect beside one that may have happened.
        """
        self._untold.append(call)

    def turn(self, path: str, fingerprint: str) -> TurnState | None:
        """The recorded turn that is meant: an answered one first; None for a new one.

        One that failed is meant where the agent asked something else behind it: it went on without that answer, and
        goes the same way only if it is told so again. Where nothing came of it, it is asked anew.
        Turns of another step are of no concern: when that step has its answer, nobody asks for them again.

        Raises:
            Refused: `resume_divergence` when answered turns with other requests are recorded here and not asked for.
        """
        here = [turn for turn in self._turns if turn.path == path]
        equal = [turn for turn in here if turn.fingerprint == fingerprint]
        for turn in sorted(equal, key=lambda found: found.answer is None):
            self._turns.remove(turn)
            return turn
        answered = [turn for turn in here if turn.answer is not None]
        if not answered:
            return None
        failed = next((turn for turn in self._failed if (turn.path, turn.fingerprint) == (path, fingerprint)), None)
        if failed is not None:
            self._failed.remove(failed)
            return failed if any(turn.position > failed.ended_at for turn in answered) else None
        raise _diverged(
            f"the agent asks a model with request {fingerprint[:12]}, but {answered[0].turn_id!r} with request "
            f"{answered[0].fingerprint[:12]} is recorded and was not asked for again",
            recorded=answered[0].turn_id,
        )


def _where(asked: ApprovalState) -> tuple[str, str]:
    """The path and tool of a call that is not recorded yet."""
    return asked.step_id.rpartition(".")[0], asked.tool


def _diverged(message: str, **facts: str) -> Refused:
    return Refused(
        message,
        code="resume_divergence",
        next="Make the agent do again what is recorded, in the same places; the recorded effects stand.",
        **facts,
    )
