"""A run as its journal tells it: `RunState` and the rules by which records move it. Decides nothing about the future.

The same rules judge a record before it is written (on a fork) and when it is read (`fold`).
"""

from collections.abc import Iterator
from copy import copy
from typing import Any

import msgspec

from clew.core.book import Book
from clew.core.calls import AnswerRef, CallState, Illegal
from clew.core.capability import Capability
from clew.core.chain import genesis
from clew.core.checkpoint import CheckpointState
from clew.core.delegation import DelegationState
from clew.core.extensions import Receipts
from clew.core.legs import Leg
from clew.core.metrics import RunMetrics
from clew.core.operation import DurableOperation
from clew.core.packing import CallBook
from clew.core.records import Record
from clew.core.restored import NO_RESTORES, Restores
from clew.core.times import parse_ms
from clew.core.usage import Usage
from clew.errors import Corrupt


class TurnState(msgspec.Struct, frozen=True, gc=False):
    """One turn: its request's fingerprint, its answer once there is one, and the step around it; empty for none.

    `ended_at` is where its last end stands; with no answer it failed there, and the agent heard of that.
    """

    turn_id: str
    fingerprint: str
    position: int
    answer: AnswerRef | None = None
    ended: bool = False
    leg: int = 0
    path: str = ""
    ended_at: int = 0


class CheckState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One check that ran, as its record says."""

    id: str
    passed: bool
    score: int | float | None = None
    reason: str = ""
    evidence: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    step_id: str = ""


class ApprovalState(msgspec.Struct, frozen=True, gc=False):
    """One question to a person about one start of one call, and the decision once there is one.

    `asked_ms` and `decided_ms` are when (milliseconds since 1970); `expires_ms` until when the question stands,
    `until_ms` until when a permission does, 0 for ever; `source` says what decided: `operator`, `approver`, `expiry`,
    `invalidation`; `used` that a start has used it up; `replaced` names the later question that took its place.
    """

    approval_id: str
    key: str
    step_id: str
    call_id: str
    tool: str
    fingerprint: str
    position: int
    decision: str = ""
    turn_id: str = ""
    risk: str = ""
    why: str = ""
    capability: Capability | None = None
    asked_ms: int = 0
    expires_ms: int = 0
    source: str = ""
    by: str = ""
    reason: str = ""
    decided_ms: int = 0
    until_ms: int = 0
    used: bool = False
    replaced: str = ""


class ArtifactState(msgspec.Struct, frozen=True, gc=False):
    """One artifact, folded: what it is called, whether it is `stored` or was `blocked`, and the time of its record."""

    name: str
    status: str
    size_bytes: int
    media_type: str
    at: str
    sha256: str | None = None
    preview: str | None = None


class Theirs(msgspec.Struct, frozen=True):
    """What only a journal that clew did not begin can say. Its values are replaced, never changed.

    `inputs`: the last word on each input, by its id; `loop`: the last loop snapshot; `slots`: the entries in `calls`
    behind a key, where several agents share it.
    """

    inputs: dict[str, str] = {}
    loop: dict[str, Any] | None = None
    slots: dict[str, tuple[str, ...]] = {}

    @property
    def input_over(self) -> str:
        """How an input ended, `completed` or `discarded`; empty while none has."""
        return next((status for status in self.inputs.values() if status in ("completed", "discarded")), "")


_NOTHING_OF_THEIRS = Theirs()


class RunState:
    """The fold of a journal: what happened so far, and nothing that was not recorded.

    Grows by about 300 bytes a call; answers are kept by position, not by value. `own` is False for a journal that
    clew did not begin: it may be read, judged and shown, never continued. `guarded` has the last checkpoint of each
    step whose attempt has opened, `guard` one that stands before its start. `aborting`: the abort is on disk, and its
    end not yet; `amid`: a leg of a run that has not finished is open.

    Source:
        DESIGN §4, §5; contract §3.D, §3.E.
    """

    __slots__ = (
        "aborting", "accepted_parts", "active_ms", "agent_end", "amid", "answers", "approvals", "artifacts", "asked",
        "calls", "chain", "checkpoints", "checks", "clock_stepped", "controls", "delegations", "extensions", "finish",
        "guard", "guarded", "last_append", "last_time", "legs", "limits", "loop", "messages", "metrics", "numbers",
        "operation", "own", "pause", "pending", "restores", "reviews", "run_id", "sequence", "start", "started_at",
        "steps", "theirs", "trace_sequence", "turns",
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
        self.limits: dict[str, Any] = {}
        self.checks: tuple[CheckState, ...] = ()
        self.messages: Book[Usage] = Book()
        self.operation: DurableOperation | None = None
        self.aborting = False
        self.legs: tuple[Leg, ...] = ()
        self.amid = False
        self.calls = CallBook(run_id)
        self.pending: Book[str] = Book()
        self.turns: Book[TurnState] = Book()
        self.steps: Book[AnswerRef] = Book()
        self.approvals: Book[ApprovalState] = Book()
        self.asked: Book[str] = Book()
        self.reviews: Book[str] = Book()
        self.controls: Book[dict[str, Any]] = Book()
        self.extensions: Book[Receipts] = Book()
        self.numbers: Book[int] = Book()
        self.restores: Restores = NO_RESTORES
        self.checkpoints: Book[CheckpointState] = Book()
        self.guarded: Book[str] = Book()
        self.guard = ""
        self.delegations: dict[str, DelegationState] = {}
        """By step; replaced when one moves, never changed."""
        self.artifacts: dict[str, ArtifactState] = {}
        """By name; replaced likewise."""
        self.answers = 0
        self.agent_end: dict[str, Any] | None = None
        self.pause: dict[str, Any] | None = None
        self.finish: dict[str, Any] | None = None
        self.loop: dict[str, Any] | None = None
        self.metrics = RunMetrics()
        self.theirs = _NOTHING_OF_THEIRS

    def fork(self) -> "RunState":
        """A state to try records on; nothing reaches this one until `merge`."""
        fork = RunState.__new__(RunState)
        fork._take_facts(self)
        fork.run_id, fork.own, fork.start, fork.started_at = self.run_id, self.own, self.start, self.started_at
        fork.calls, fork.pending, fork.steps = self.calls.fork(), self.pending.fork(), self.steps.fork()
        fork.turns, fork.approvals, fork.reviews = self.turns.fork(), self.approvals.fork(), self.reviews.fork()
        fork.controls, fork.numbers, fork.asked = self.controls.fork(), self.numbers.fork(), self.asked.fork()
        fork.extensions, fork.messages = self.extensions.fork(), self.messages.fork()
        fork.checkpoints, fork.guarded = self.checkpoints.fork(), self.guarded.fork()
        fork.metrics, fork.theirs = copy(self.metrics), self.theirs
        return fork

    def merge(self, fork: "RunState") -> None:
        """Become what a fork of this state has become; the fork stands for this state again, ready for the next try."""
        self._take_facts(fork)
        self.own, self.start, self.started_at = fork.own, fork.start, fork.started_at
        self.calls.merge(fork.calls)
        self.pending.merge(fork.pending)
        self.turns.merge(fork.turns)
        self.steps.merge(fork.steps)
        self.approvals.merge(fork.approvals)
        self.asked.merge(fork.asked)
        self.reviews.merge(fork.reviews)
        self.controls.merge(fork.controls)
        self.extensions.merge(fork.extensions)
        self.numbers.merge(fork.numbers)
        self.messages.merge(fork.messages)
        self.checkpoints.merge(fork.checkpoints)
        self.guarded.merge(fork.guarded)
        self.metrics, self.theirs = copy(fork.metrics), fork.theirs

    def _take_facts(self, other: "RunState") -> None:
        """Member by member, for it is done twice an append; `test_state` knows all of them."""
        self.sequence, self.trace_sequence, self.answers = other.sequence, other.trace_sequence, other.answers
        self.chain, self.last_append, self.last_time = other.chain, other.last_append, other.last_time
        self.clock_stepped, self.active_ms, self.legs = other.clock_stepped, other.active_ms, other.legs
        self.amid = other.amid
        self.operation, self.aborting, self.accepted_parts = other.operation, other.aborting, other.accepted_parts
        self.agent_end, self.pause, self.finish = other.agent_end, other.pause, other.finish
        self.delegations, self.guard, self.artifacts = other.delegations, other.guard, other.artifacts
        self.restores = other.restores
        self.limits, self.checks, self.loop = other.limits, other.checks, other.loop

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
    def paused_at(self) -> str:
        """When a run of ours that is paused came to that; where a death took the pause itself, when it moved there."""
        assert self.operation is not None
        moved = self.operation.records[-1].timestamp
        closed = (leg.closed_at for leg in reversed(self.legs) if leg.closed_by == "pause")
        return moved if self.pause is None else next(closed, moved)

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
        return [call for call in self.unanswered() if call.unsettled and not self.answers_call(call)]

    def unanswered(self) -> list[CallState]:
        """Calls that have no answer of their own yet, in the order of the journal."""
        found = [self.calls.get(slot) for slot in self.pending.values()]
        return [call for call in found if call is not None]

    def answers_call(self, call: CallState) -> bool:
        """Has the call its answer? In a journal that is not ours, a later output of its step stands for it."""
        if self.own or call.answer is not None:
            return call.answer is not None
        output = self.steps.get(call.step_id)
        return output is not None and output.position > call.position

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
