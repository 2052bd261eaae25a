"""A run as its journal tells it: `RunState` and the rules by which records move it. Decides nothing about the future.

The same rules judge a record before it is written (on a fork) and when it is read (`fold`).
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from clew.core.book import Book
from clew.core.calls import AnswerRef, CallState, Illegal
from clew.core.chain import genesis
from clew.core.legs import Leg
from clew.core.metrics import RunMetrics
from clew.core.operation import DurableOperation
from clew.core.records import Record
from clew.core.times import parse_ms
from clew.errors import Corrupt


class TurnState(msgspec.Struct, frozen=True, gc=False):
    """One turn: its request's fingerprint, and its answer once there is one."""

    turn_id: str
    fingerprint: str
    position: int
    answer: AnswerRef | None = None
    ended: bool = False


class ApprovalState(msgspec.Struct, frozen=True, gc=False):
    """One question to a person about one call, and the decision once there is one."""

    approval_id: str
    key: str
    step_id: str
    call_id: str
    tool: str
    fingerprint: str
    position: int
    decision: str = ""


class RunState:
    """The fold of a journal: what happened so far, and nothing that was not recorded.

    Grows by about 300 bytes a call; answers are kept by position, not by value. `own` is False for a journal that
    clew did not begin: it may be read, judged and shown, never continued.

    Source:
        DESIGN §4, §5; contract §3.D, §3.E.
    """

    __slots__ = (
        "accepted_parts", "active_ms", "agent_end", "answers", "approvals", "calls", "chain", "clock_stepped",
        "controls", "finish", "last_append", "last_time", "legs", "metrics", "numbers", "operation", "own", "pause",
        "pending", "reviews", "run_id", "sequence", "start", "started_at", "steps", "trace_sequence", "turns",
    )  # fmt: skip

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.own = True
        self.sequence = 0
        self.trace_sequence = 0
        self.chain = genesis(run_id)
        self.last_append = 0
        self.last_time = ""
        self.clock_stepped = False
        self.active_ms = 0
        self.started_at = ""
        self.accepted_parts: dict[str, Any] | None = None
        self.start: dict[str, Any] = {}
        self.operation: DurableOperation | None = None
        self.legs: tuple[Leg, ...] = ()
        self.calls: Book[CallState] = Book()
        self.pending: Book[CallState] = Book()
        self.turns: Book[TurnState] = Book()
        self.steps: Book[AnswerRef] = Book()
        self.approvals: Book[ApprovalState] = Book()
        self.reviews: Book[str] = Book()
        self.controls: Book[dict[str, Any]] = Book()
        self.numbers: Book[int] = Book()
        self.answers = 0
        self.agent_end: dict[str, Any] | None = None
        self.pause: dict[str, Any] | None = None
        self.finish: dict[str, Any] | None = None
        self.metrics = RunMetrics()

    def fork(self) -> "RunState":
        """A state to try records on; nothing reaches this one until `merge`."""
        fork = RunState.__new__(RunState)
        for name in RunState.__slots__:
            value = getattr(self, name)
            setattr(fork, name, value.fork() if isinstance(value, Book) else value)
        fork.metrics = self.metrics.copy()
        return fork

    def merge(self, fork: "RunState") -> None:
        """Become what a fork of this state has become."""
        for name in RunState.__slots__:
            value = getattr(fork, name)
            if isinstance(value, Book):
                getattr(self, name).merge(value)
            else:
                setattr(self, name, value)

    # What a reader asks.

    @property
    def state(self) -> str:
        """The operation's state; `accepted` before its first record."""
        return self.operation.state if self.operation is not None else "accepted"

    @property
    def leg(self) -> Leg | None:
        """The last leg."""
        return self.legs[-1] if self.legs else None

    @property
    def unclosed_leg(self) -> Leg | None:
        """The claim: the last leg, if nothing closed it."""
        leg = self.leg
        return leg if leg is not None and not leg.closed else None

    @property
    def input(self) -> Any:
        """What the run was asked."""
        return self.start.get("initialPrompt")

    @property
    def ended(self) -> bool:
        """Completed or failed."""
        return self.operation is not None and self.operation.terminal

    @property
    def duration_ms(self) -> int:
        """From the first record to the last, clamped at zero where the clock stepped back."""
        first = parse_ms(self.started_at)
        last = parse_ms(self.last_time)
        return max(0, last - first) if first is not None and last is not None else 0

    def unsettled(self) -> list[CallState]:
        """Calls whose effect nobody can vouch for, in the order of the journal."""
        return [call for call in self.pending.values() if call.unsettled and not self.answers_call(call)]

    def answers_call(self, call: CallState) -> bool:
        """Has the call its answer? In a journal that is not ours, its step's output stands for it."""
        return call.answer is not None or (not self.own and self.steps.get(call.step_id) is not None)

    def completed_steps(self) -> list[str]:
        """Ids of steps, turns and calls that have their answer, in the order of their answers."""
        found = [(call.answer.position, call.step_id) for call in self.calls.values() if call.answer is not None]
        found += [(turn.answer.position, turn.turn_id) for turn in self.turns.values() if turn.answer is not None]
        found += [(answer.position, step) for step, answer in self.named_steps()]
        return [step for _, step in sorted(found)]

    def named_steps(self) -> Iterator[tuple[str, AnswerRef]]:
        """Answered steps that are neither calls nor turns, by id."""
        for step, answer in self.steps.items():
            if self.calls.get(step) is None and self.turns.get(step) is None:
                yield step, answer

    def find_call(self, name: str) -> CallState | None:
        """A call by step id, call id or key."""
        direct = self.calls.get(name)
        if direct is not None:
            return direct
        return next((call for call in self.calls.values() if name in (call.call_id, call.key)), None)


def illegal(state: RunState, record: Record, fault: Illegal) -> Corrupt:
    """The error of a record that cannot stand where it stands."""
    return Corrupt(
        f"run {state.run_id!r}, record {record.sequence} ({record.kind}): {fault.why}",
        code=fault.code,
        next="Nothing was changed. Run `clew verify` to see the place; restore the journal from a copy.",
        run=state.run_id,
        line=record.sequence,
        why=fault.why,
    )
